"""A predicate over rows → a predicate over what the log says of a file.

The guarantee: where the predicate is true for some row of a file, what `rewrite` makes of it is
true or NULL for that file. So a file may be skipped just where the result is false, and whatever is
unknown (a statistic that was not collected, an expression without bounds) keeps the file.

How: NOT is pushed down to the conditions; AND and OR stay, with unknown conditions left out of an
AND and undoing an OR. A condition compares bounds. The bounds of a column are its minimum and
maximum, those of a partition column its value, and those of a function that preserves order are the
function of its argument's bounds. Minimum and maximum are only ever taken as bounds, never as
values that occur, so that a deletion vector (`tightBounds` false) and shortened strings change
nothing; a null count is compared with 0 and with the number of records only.

NaN is greater than every number, and many writers leave it out of their maximum: the maximum of a
floating-point column is never trusted to exclude what NaN would satisfy.

The result reads the columns `numRecords`, `minValues`, `maxValues`, `nullCount` and
`partitionValues`, the last four being structs that mirror the table, with logical names. They may
come from the log or from the footer of a Parquet file.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.data_skipping.statistic import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
    PARTITION_VALUES,
)
from adelta.kernel.expressions.coercion import FRACTIONS, INTEGERS
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.nodes import (
    FALSE,
    TRUE,
    And,
    Arithmetic,
    Call,
    Case,
    Cast,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Negate,
    Node,
    Not,
    Or,
    children_of,
    columns_of,
    conjunction,
    disjunction,
    with_children,
)
from adelta.kernel.expressions.resolve import type_of
from adelta.kernel.expressions.strings import like_prefix
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["rewrite"]

_MOST_RANGES = 48
"""Into how many ranges the values of a long IN are put."""

_NEGATED = {"=": "!=", "!=": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_SWAPPED = {"=": "=", "!=": "!=", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_BOUNDED = {*INTEGERS, *FRACTIONS, *_TIMES, t.STRING}
_ORDERLY = {"year": 0, "trunc": 0, "last_day": 0, "date_trunc": 1}
# These may have a value where an argument is NULL.
_TOLERANT = {"coalesce", "greatest", "least", "isnan"}
_TOLERANT |= {name for name, found in LIBRARY.items() if found.tolerant}


def rewrite(
    predicate: Node,
    schema: t.StructType,
    partition_columns: Collection[str],
    *,
    statistics: bool = True,
) -> Node | None:
    """What must not be false of a file that has rows for which the bound `predicate` is true.

    Without `statistics`, in terms of partition values alone. None where nothing can be said.

    Example: ``id > 5`` becomes ``5 < maxValues.id AND nullCount.id < numRecords``.
    """
    rewriter = _Rewriter(schema, frozenset(partition_columns), statistics)
    found = rewriter.condition(predicate, True)
    return None if found == TRUE else found


@dataclass(frozen=True, slots=True)
class _Bounds:
    """``low <= value <= high`` for every row whose value is not NULL, as far as they are known.

    With `hides_nan`, the value may also be NaN. `strict` are columns that are NULL only where the
    value is NULL too.
    """

    low: Node | None = None
    high: Node | None = None
    strict: frozenset[tuple[str, ...]] = frozenset()
    hides_nan: bool = False


class _Rewriter:
    def __init__(self, schema: t.StructType, partitions: frozenset[str], statistics: bool) -> None:
        self._schema = schema
        self._partitions = frozenset(name.lower() for name in partitions)
        self._statistics = statistics

    # ------------------------------------------------------------------------------- conditions

    def condition(self, node: Node, wanted: bool) -> Node | None:
        """What must not be false where `node` is to be `wanted`; None where nothing can be said."""
        match node:
            case Not(operand):
                return self.condition(operand, not wanted)
            case And(operands) | Or(operands):
                parts = [self.condition(o, wanted) for o in operands]
                return _all(parts) if isinstance(node, And) == wanted else _any(parts)
            case Literal(value, _):
                return TRUE if value is wanted else FALSE
        if self._is_exact(node):
            decided = self._of_partition(node)
            return Call("coalesce", (decided if wanted else Not(decided), FALSE))
        match node:
            case Comparison(op, left, right):
                return self._comparison(op, left, right, wanted)
            case In(operand, options):
                return self._in(operand, options, wanted)
            case IsNull(operand):
                return self._is_null(operand, wanted)
            case Like(operand, pattern, escape):
                prefix, whole = like_prefix(pattern, escape)
                return self._prefix(operand, prefix, whole, wanted)
            case Call("startswith", (operand, Literal(str() as prefix, _))):
                return self._prefix(operand, prefix, False, wanted)
        return self._some_value(self._strict(node))

    def _is_exact(self, node: Node) -> bool:
        """Whether partition values decide the condition for all rows of a file at once."""
        paths = columns_of(node)
        alone = bool(paths) and all(map(self._is_partition, paths))
        return alone and not can_fail(node, self._schema)

    def _is_partition(self, path: tuple[str, ...]) -> bool:
        return len(path) == 1 and path[0].lower() in self._partitions

    def _of_partition(self, node: Node) -> Node:
        if isinstance(node, Column):
            return Column((PARTITION_VALUES, *node.path))
        return with_children(node, tuple(self._of_partition(c) for c in children_of(node)))

    def _comparison(self, op: str, left: Node, right: Node, wanted: bool) -> Node | None:
        if op == "<=>":
            return self._null_safe(left, right, wanted)
        a, b = self._bounds(left), self._bounds(right)
        return _all(
            [_compare(op if wanted else _NEGATED[op], a, b), self._some_value(a.strict | b.strict)]
        )

    def _null_safe(self, left: Node, right: Node, wanted: bool) -> Node | None:
        if isinstance(left, Literal):
            left, right = right, left
        if not isinstance(right, Literal) or right.value is None:
            return None
        if wanted:
            if right.type == t.BOOLEAN and not isinstance(left, Column):
                return self.condition(left, bool(right.value))
            return self._comparison("=", left, right, True)
        return _any([self.condition(IsNull(left), True), self._comparison("!=", left, right, True)])

    def _in(self, operand: Node, options: tuple[Node, ...], wanted: bool) -> Node | None:
        bounds = self._bounds(operand)
        some = self._some_value(bounds.strict)
        literals = [option for option in options if isinstance(option, Literal)]
        if len(literals) < len(options):
            return some
        known = [one for one in literals if one.value is not None]
        if not wanted:
            if len(known) < len(literals):
                return FALSE  # NOT IN with a NULL is never true
            if len(known) > _MOST_RANGES:
                return some
            return _all([*(_compare("!=", bounds, _point(one)) for one in known), some])
        if any(isinstance(one.value, float) and math.isnan(one.value) for one in known):
            return some
        known.sort(key=lambda one: one.value)  # type: ignore[arg-type,return-value]  # of one type
        size = -(-len(known) // _MOST_RANGES) or 1
        groups = [known[i : i + size] for i in range(0, len(known), size)]
        ranges = [_compare("=", bounds, _Bounds(group[0], group[-1])) for group in groups]
        return _all([_any(ranges), some])

    def _is_null(self, operand: Node, wanted: bool) -> Node | None:
        if not wanted:
            return self._some_value(self._strict(operand))
        if isinstance(operand, Column) and self._has_null_count(operand.path):
            zero = Literal(0, t.LONG)
            return Comparison(">", Column((NULL_COUNT, *operand.path)), zero)
        return None

    def _prefix(self, operand: Node, prefix: str, whole: bool, wanted: bool) -> Node | None:
        literal = Literal(prefix, t.STRING)
        if whole:
            return self._comparison("=", operand, literal, wanted)
        bounds = self._bounds(operand)
        parts = [self._some_value(bounds.strict)]
        if wanted and prefix:
            if bounds.high is not None:
                parts.append(Comparison(">=", bounds.high, literal))
            if bounds.low is not None:
                first = Call("left", (bounds.low, Literal(len(prefix), t.INTEGER)))
                parts.append(Comparison("<=", first, literal))
        return _all(parts)

    # ----------------------------------------------------------------------------------- bounds

    def _bounds(self, node: Node) -> _Bounds:
        match node:
            case Literal(value, _):
                return _Bounds() if value is None else _point(node)
            case Column(path):
                return self._column(path)
            case Cast(operand, to, _, zone) if self._keeps_order(operand, to, zone):
                return self._through(node, 0)
            case Call(name, arguments, _) if name in _ORDERLY and self._in_order(node):
                place = _ORDERLY[name]
                others = (a for i, a in enumerate(arguments) if i != place)
                if all(isinstance(a, Literal) for a in others):
                    return self._through(node, place)
        return _Bounds(strict=self._strict(node))

    def _column(self, path: tuple[str, ...]) -> _Bounds:
        if self._is_partition(path):
            value = Column((PARTITION_VALUES, *path))
            return _Bounds(value, value)
        strict = self._strict(Column(path))
        kind = type_of(Column(path), self._schema)
        if not self._statistics or not (kind in _BOUNDED or isinstance(kind, t.DecimalType)):
            return _Bounds(strict=strict)
        low, high = Column((MIN_VALUES, *path)), Column((MAX_VALUES, *path))
        return _Bounds(low, high, strict, hides_nan=kind in FRACTIONS)

    def _through(self, node: Node, place: int) -> _Bounds:
        """The bounds of a function that preserves order, from those of its argument."""
        parts = children_of(node)
        inner = self._bounds(parts[place])

        def of(bound: Node | None) -> Node | None:
            if bound is None:
                return None
            return with_children(node, (*parts[:place], bound, *parts[place + 1 :]))

        return replace(inner, low=of(inner.low), high=of(inner.high))

    def _keeps_order(self, operand: Node, to: t.DataType, zone: str | None) -> bool:
        """Whether the cast, by clocks of the zone, preserves order and never fails."""
        source = type_of(operand, self._schema)
        if source in INTEGERS:
            if to in INTEGERS:
                return INTEGERS.index(to) >= INTEGERS.index(source)
            digits = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 19}[source]
            if isinstance(to, t.DecimalType):
                return to.precision - to.scale >= digits
            return to in FRACTIONS
        if isinstance(source, t.DecimalType):
            if isinstance(to, t.DecimalType):
                whole = source.precision - source.scale
                return to.scale >= source.scale and to.precision - to.scale >= whole
            return to == t.DOUBLE
        if source in FRACTIONS:
            return to == t.DOUBLE
        if source in _TIMES and to in _TIMES:
            return zone is None or t.TIMESTAMP not in (source, to)
        return False

    def _in_order(self, node: Call) -> bool:
        """Whether the function of a time preserves order by the clocks of its zone."""
        kind = type_of(node.arguments[_ORDERLY[node.name]], self._schema)
        return kind == t.DATE or node.zone is None

    # ------------------------------------------------------------------------------------ nulls

    def _strict(self, node: Node) -> frozenset[tuple[str, ...]]:
        """Data columns that are NULL only in rows where `node` is NULL too."""
        match node:
            case Column(path):
                known = self._has_null_count(path) and self._counts_rows(path)
                return frozenset([path]) if known else frozenset()
            case Call(name) if name in _TOLERANT:
                return frozenset()
            case Comparison("<=>", _, _) | And() | Or() | IsNull() | In() | Case() | Literal():
                return frozenset()
            case Comparison() | Arithmetic() | Negate() | Cast() | Call() | Like() | Not():
                return _union(self._strict(child) for child in children_of(node))
        return frozenset()

    def _has_null_count(self, path: tuple[str, ...]) -> bool:
        if not self._statistics or self._is_partition(path):
            return False
        return not isinstance(type_of(Column(path), self._schema), t.StructType)

    def _counts_rows(self, path: tuple[str, ...]) -> bool:
        """Whether every writer counts NULLs by rows: some count the elements of lists and maps."""
        kind = type_of(Column(path), self._schema)
        return not isinstance(kind, t.ArrayType | t.MapType)

    def _some_value(self, paths: Iterable[tuple[str, ...]]) -> Node | None:
        """That no column of these is NULL throughout."""
        records = Column((NUM_RECORDS,))
        return conjunction(
            *(Comparison("<", Column((NULL_COUNT, *path)), records) for path in sorted(paths))
        )


def _point(literal: Literal) -> _Bounds:
    return _Bounds(literal, literal)


def _compare(op: str, a: _Bounds, b: _Bounds) -> Node | None:
    """What must not be false of bounds for ``a op b`` to be true in some row."""
    match op:
        case "=":
            if (a.hides_nan and not _is_number(b)) or (b.hides_nan and not _is_number(a)):
                return None  # NaN equals NaN
            return _all([_order("<=", a.low, b.high), _order("<=", b.low, a.high)])
        case "<" | "<=":
            if b.hides_nan:
                return None
            return _order(op, a.low, b.high)
        case ">" | ">=":
            return _compare(_SWAPPED[op], b, a)
    if a.hides_nan or b.hides_nan:
        return None
    apart = [_order("!=", a.low, b.high), _order("!=", a.high, b.low)]
    return None if None in apart else _any(apart)


def _is_number(bounds: _Bounds) -> bool:
    """Whether these are constants other than NaN."""
    high = bounds.high
    return isinstance(high, Literal) and high.value == high.value


def _order(op: str, low: Node | None, high: Node | None) -> Node | None:
    return None if low is None or high is None else Comparison(op, low, high)


def _all(parts: Iterable[Node | None]) -> Node | None:
    known = [part for part in parts if part is not None]
    if FALSE in known:
        return FALSE
    return conjunction(*(part for part in known if part != TRUE)) or (TRUE if known else None)


def _any(parts: Collection[Node | None]) -> Node | None:
    if None in parts:
        return None
    return TRUE if TRUE in parts else disjunction(*(p for p in parts if p and p != FALSE))


def _union(sets: Iterable[frozenset[tuple[str, ...]]]) -> frozenset[tuple[str, ...]]:
    return frozenset().union(*sets)
