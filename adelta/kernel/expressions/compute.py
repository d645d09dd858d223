"""Bound expressions → columns, with Spark's semantics over Arrow's kernels.

Logic is three-valued. Arithmetic and casts fail instead of wrapping or turning into NULL, and, as
in Spark, only for rows that need them: the right side of ``x <> 0 AND 1 / x > 2`` is computed for
rows whose left side does not already decide, a branch of CASE for rows that take it.

A large batch takes its time: callers on the event loop run this in a worker thread.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, array_of_numpy, null_of, numpy_of, scalar_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions import arithmetic, datetimes, strings
from adelta.kernel.expressions.casts import cast_values, never_fails
from adelta.kernel.expressions.comparison import compare, extreme, is_in
from adelta.kernel.expressions.java_regex import to_re2
from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.nodes import (
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
    walk,
)
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.arrow import from_arrow_type, to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.schema import types as t

__all__ = ["can_fail", "evaluate", "filter_mask"]

arrow: Any = pa  # likewise of types that are known at run time only

_Value = Any  # a pa.Array of as many values as there are rows, or a pa.Scalar
_SAFE_CALLS = frozenset(
    {
        *(
            "coalesce",
            "concat",
            "contains",
            "datediff",
            "day",
            "dayofweek",
            "dayofyear",
            "endswith",
        ),
        *("greatest", "hour", "isnan", "last_day", "least", "left", "length", "lower", "ltrim"),
        *("minute", "month", "quarter", "replace", "right", "rtrim", "second", "startswith"),
        *("substring", "trim", "trunc", "upper", "weekday", "weekofyear", "year"),
    }
)


def evaluate(node: Node, rows: pa.Table | pa.RecordBatch) -> pa.Array[Any]:
    """The value of a bound expression for each of `rows`.

    Raises:
        InvalidExpressionError: a value cannot be computed: an overflow, a division by zero, a cast
            that does not fit; or a column is missing.
    """
    if isinstance(rows, pa.RecordBatch):
        return _evaluate_batch(node, rows)
    batches = rows.to_batches() if rows.num_columns else []
    if len(batches) == 1:
        return _evaluate_batch(node, batches[0])
    if not batches:
        empty = _Rows(rows.num_rows, rows.combine_chunks().column, rows.schema)
        return _finish(node, empty)
    return pa.concat_arrays([_evaluate_batch(node, batch) for batch in batches])


def filter_mask(node: Node, rows: pa.Table | pa.RecordBatch) -> pa.BooleanArray:
    """Which of `rows` a bound predicate keeps: those for which it is true, not those of NULL.

    Raises:
        InvalidExpressionError: as for `evaluate`.
    """
    return cast("pa.BooleanArray", pc.fill_null(evaluate(node, rows), scalar_of(False, pa.bool_())))


def can_fail(node: Node, schema: t.StructType | None = None) -> bool:
    """Whether computing the expression, which is bound, may fail for some row.

    With the schema of the rows, casts of columns to types that hold all their values cannot.
    """
    for part in walk(node):
        match part:
            case Arithmetic() | Negate():
                return True
            case Cast(Column((name,)), to, False) if schema and (field := schema.field(name)):
                if not never_fails(to_arrow_type(field.type), to):
                    return True
            case Cast(is_try=False):
                return True
            case Call(name) if not (name in _SAFE_CALLS or _is_safe(name)):
                return True
    return False


def _is_safe(name: str) -> bool:
    return name in LIBRARY and LIBRARY[name].safe


def _evaluate_batch(node: Node, batch: pa.RecordBatch) -> pa.Array[Any]:
    return _finish(node, _Rows(batch.num_rows, batch.column, batch.schema))


def _finish(node: Node, rows: _Rows) -> pa.Array[Any]:
    try:
        return rows.array(_value(node, rows))
    except InvalidExpressionError:
        raise
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InvalidExpressionError(f"cannot compute {to_sql(node)}: {error}") from error


class _Rows:
    """The rows that are computed: all of a batch's, or those of them that a mask keeps."""

    def __init__(self, count: int, column: Callable[[str], Any], schema: pa.Schema) -> None:
        self.count = count
        self._column = column
        self._schema = schema
        self._known: dict[tuple[str, ...], pa.Array[Any]] = {}
        self._parent: tuple[_Rows, pa.Array[Any]] | None = None

    def only(self, mask: pa.Array[Any]) -> _Rows:
        """The rows for which `mask`, which has no NULL, is true."""
        part = _Rows(int(pc.sum(mask).as_py() or 0), self._column, self._schema)
        part._parent = (self, mask)
        return part

    def array(self, value: _Value) -> pa.Array[Any]:
        """`value` for every row."""
        if isinstance(value, pa.Scalar):
            if isinstance(text := value.as_py(), str | bytes):
                strings.check_size(strings.num_bytes(text) * self.count)
            return cast("pa.Array[Any]", arrow.repeat(value, self.count))
        return cast("pa.Array[Any]", value)

    def column(self, path: tuple[str, ...]) -> pa.Array[Any]:
        """The column at `path`; a field of a struct that is NULL is NULL."""
        found = self._known.get(path)
        if found is None:
            if self._parent is not None:
                parent, mask = self._parent
                found = parent.column(path).filter(mask)
            else:
                found = self._read(path)
            self._known[path] = found
        return found

    def _read(self, path: tuple[str, ...]) -> pa.Array[Any]:
        if self._schema.get_field_index(path[0]) < 0:
            raise InvalidExpressionError(
                f"the rows have no column {path[0]!r}; they have {', '.join(self._schema.names)}"
            )
        found = self._column(path[0])
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        for name in path[1:]:
            if found.type.get_field_index(name) < 0:
                raise InvalidExpressionError(f"the rows have no field {'.'.join(path)!r}")
            found = pc.struct_field(found, name)
        return _plain(found)


def _plain(values: Any) -> pa.Array[Any]:
    """The values in the layout that the kernels take: no dictionary, no views, no large offsets."""
    if pa.types.is_nested(values.type):
        return cast("pa.Array[Any]", values)
    plain = to_arrow_type(from_arrow_type(values.type))
    return cast("pa.Array[Any]", values if values.type == plain else values.cast(plain))


# ---------------------------------------------------------------------------------------- nodes


def _value(node: Node, rows: _Rows) -> _Value:
    match node:
        case Column(path):
            return rows.column(path)
        case Literal(value, data_type):
            return scalar_of(value, to_arrow_type(data_type))
        case Comparison(op, left, right):
            return _compare(op, _value(left, rows), _value(right, rows))
        case And(operands):
            return _logic(operands, rows, pc.and_kleene, decides=False)
        case Or(operands):
            return _logic(operands, rows, pc.or_kleene, decides=True)
        case Not(operand):
            return pc.invert(_value(operand, rows))
        case IsNull(operand):
            return pc.is_null(_value(operand, rows))
        case In(operand, options):
            return _in(operand, options, rows)
        case Like(operand, pattern, escape):
            return strings.matches_like(_array(operand, rows), pattern, escape)
        case Arithmetic(op, left, right):
            return arithmetic.arithmetic(op, _array(left, rows), _array(right, rows))
        case Negate(operand):
            return arithmetic.negate(_array(operand, rows))
        case Cast(operand, to, is_try, zone):
            return cast_values(_array(operand, rows), to, zone=zone or "UTC", is_try=is_try)
        case Case(branches, otherwise):
            return _case(branches, otherwise, rows)
        case Call():
            return _call(node, rows)


def _array(node: Node, rows: _Rows) -> pa.Array[Any]:
    return rows.array(_value(node, rows))


def _compare(op: str, left: _Value, right: _Value) -> _Value:
    if pa.types.is_null(left.type) and pa.types.is_null(right.type):
        left, right = left.cast(pa.bool_()), right.cast(pa.bool_())
    return compare(op, left, right)


def _logic(
    operands: tuple[Node, ...], rows: _Rows, join: Callable[..., Any], *, decides: bool
) -> _Value:
    result = _value(operands[0], rows)
    for operand in operands[1:]:
        if not can_fail(operand) or _safe_here(operand, rows):
            result = join(result, _value(operand, rows))
            continue
        settled = pc.fill_null(pc.equal(rows.array(result), decides), False)
        result = join(result, _for_some(operand, rows, pc.invert(settled)))
    return result


def _safe_here(node: Node, rows: _Rows) -> bool:
    """Whether an expression that may fail cannot with these columns: its casts only widen."""
    for part in walk(node):
        if isinstance(part, Cast) and isinstance(part.operand, Column):
            if not never_fails(rows.column(part.operand.path).type, part.type):
                return False
        elif not isinstance(
            part, Column | Literal | Comparison | And | Or | Not | IsNull | In | Like
        ):
            return False
    return True


def _for_some(node: Node, rows: _Rows, mask: pa.Array[Any]) -> pa.Array[Any]:
    """The values for the rows of `mask`, and NULL for the others, for which nothing is computed."""
    part = rows.only(mask)
    if part.count == rows.count:
        return _array(node, rows)
    return _spread(_array(node, part), mask)


def _spread(values: pa.Array[Any], mask: pa.Array[Any]) -> pa.Array[Any]:
    places = array_of_numpy(np.cumsum(numpy_of(mask)) - 1)
    return values.take(pc.if_else(mask, places, null_of(pa.int64())))


def _in(operand: Node, options: tuple[Node, ...], rows: _Rows) -> _Value:
    values = _array(operand, rows)
    if all(isinstance(option, Literal) for option in options):
        kinds = {to_arrow_type(option.type) for option in options if isinstance(option, Literal)}
        if len(kinds) == 1:
            constants = [option.value for option in options if isinstance(option, Literal)]
            return is_in(values, array_of(constants, kinds.pop()))
    result = compare("=", values, _value(options[0], rows))
    for option in options[1:]:
        result = pc.or_kleene(result, compare("=", values, _value(option, rows)))
    return result


def _case(
    branches: tuple[tuple[Node, Node], ...], otherwise: Node | None, rows: _Rows
) -> pa.Array[Any]:
    left = arrow.repeat(True, rows.count)  # rows that no branch has taken
    result: pa.Array[Any] | None = None
    steps = [*branches, *([(None, otherwise)] if otherwise is not None else [])]
    for condition, value in steps:
        taken = left
        if condition is not None:
            met = pc.fill_null(_for_some(condition, rows, left), False)
            taken, left = met, pc.and_(left, pc.invert(met))
        values = _for_some(value, rows, taken)
        result = values if result is None else pc.if_else(taken, values, result)
    assert result is not None  # a CASE has branches
    return result


# ------------------------------------------------------------------------------------- functions


def _call(node: Call, rows: _Rows) -> _Value:
    name, arguments = node.name, node.arguments
    if name in LIBRARY:
        return _of_library(node, rows)
    if name == "coalesce":
        return _coalesce(arguments, rows)
    if name in ("greatest", "least"):
        values = [_value(a, rows) for a in arguments]
        return extreme(values, rows.count, greatest=name == "greatest")
    if name == "concat":
        return strings.concat((_value(a, rows) for a in arguments), rows.count)
    if name in ("startswith", "endswith", "contains"):
        return strings.position_test(name, _array(arguments[0], rows), _value(arguments[1], rows))
    if name in datetimes.FIELDS or name in ("dayofweek", "weekday"):
        return datetimes.field(name, _array(arguments[0], rows), node.zone or "UTC")
    if name in _OF_A_ZONE:
        return _by_the_clock(node, rows)
    return _FUNCTIONS[name](arguments, rows)


def _of_library(node: Call, rows: _Rows) -> _Value:
    function = LIBRARY[node.name]
    values = [
        _constant(argument) if place in function.constants else _array(argument, rows)
        for place, argument in enumerate(node.arguments)
    ]
    told: dict[str, Any] = {"zone": node.zone or "UTC"} if function.zoned else {}
    return function.compute(*values, **told, **({"count": rows.count} if function.counted else {}))


def _coalesce(arguments: tuple[Node, ...], rows: _Rows) -> pa.Array[Any]:
    result = _array(arguments[0], rows)
    for argument in arguments[1:]:
        if not result.null_count:
            break
        result = pc.coalesce(result, _for_some(argument, rows, result.is_null()))
    return result


def _constant(node: Node) -> Any:
    """The value of an argument that binding has made sure is a constant."""
    assert isinstance(node, Literal)
    return node.value


def _isnan(values: pa.Array[Any]) -> Any:
    return pc.fill_null(pc.is_nan(values), False)


def _rlike(arguments: tuple[Node, ...], rows: _Rows) -> Any:
    pattern = _constant(arguments[1])
    if pattern is None:
        return arrow.nulls(rows.count, pa.bool_())
    return pc.match_substring_regex(
        _array(arguments[0], rows), pattern=to_re2(pattern, whether=True)
    )


def _round(arguments: tuple[Node, ...], rows: _Rows) -> Any:
    digits = _constant(arguments[1]) if len(arguments) > 1 else 0
    values = _array(arguments[0], rows)
    if digits is None:
        return arrow.nulls(rows.count, values.type)
    return arithmetic.round_half_up(values, digits)


def _by_constant(
    place: int, function: Callable[..., Any], result: pa.DataType
) -> Callable[..., Any]:
    """A function of a column and a constant, which is NULL where the constant is."""

    def call(arguments: tuple[Node, ...], rows: _Rows) -> Any:
        constant = _constant(arguments[place])
        if constant is None:
            return arrow.nulls(rows.count, result)
        return function(_array(arguments[1 - place], rows), constant)

    return call


def _by_the_clock(node: Call, rows: _Rows) -> Any:
    function, place, result = _OF_A_ZONE[node.name]
    in_zone = partial(function, zone=node.zone or "UTC")
    return _by_constant(place, in_zone, result)(node.arguments, rows)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of columns alone."""
    return lambda arguments, rows: function(*(_array(a, rows) for a in arguments))


def _trim(name: str) -> Callable[..., Any]:
    def call(arguments: tuple[Node, ...], rows: _Rows) -> Any:
        characters = _constant(arguments[0]) if len(arguments) > 1 else " "
        if characters is None:
            return arrow.nulls(rows.count, pa.string())
        return strings.trim(name, _array(arguments[-1], rows), characters)

    return call


def _replace(arguments: tuple[Node, ...], rows: _Rows) -> Any:
    what = _constant(arguments[1])
    if what is None:
        return arrow.nulls(rows.count, pa.string())
    by = _value(arguments[2], rows) if len(arguments) > 2 else pa.scalar("")
    return strings.replace(_array(arguments[0], rows), what, by)


_OF_A_ZONE: dict[str, tuple[Callable[..., Any], int, pa.DataType]] = {
    "date_format": (datetimes.date_format, 1, pa.string()),
    "date_trunc": (datetimes.truncate_timestamp, 0, pa.timestamp("us", "UTC")),
}

_FUNCTIONS: dict[str, Callable[[tuple[Node, ...], _Rows], Any]] = {
    "abs": _of(arithmetic.magnitude),
    "add_months": _of(datetimes.add_months),
    "ceil": _of(lambda v: arithmetic.round_whole(v, up=True)),
    "date_add": _of(datetimes.add_days),
    "date_sub": _of(lambda v, days: datetimes.add_days(v, arithmetic.negate(days))),
    "datediff": _of(datetimes.days_between),
    "floor": _of(lambda v: arithmetic.round_whole(v, up=False)),
    "isnan": _of(_isnan),
    "last_day": _of(datetimes.last_day),
    "left": _of(strings.first_characters),
    "length": _of(lambda v: pc.utf8_length(v)),
    "lower": _of(lambda v: strings.change_case(v, upper=False)),
    "ltrim": _trim("ltrim"),
    "md5": _of(strings.md5),
    "pmod": _of(arithmetic.pmod),
    "replace": _replace,
    "right": _of(strings.last_characters),
    "rlike": _rlike,
    "round": _round,
    "rtrim": _trim("rtrim"),
    "substring": _of(lambda v, start, length=None: strings.substring(v, start, length)),
    "trim": _trim("trim"),
    "trunc": _by_constant(1, datetimes.truncate_date, pa.date32()),
    "upper": _of(lambda v: strings.change_case(v, upper=True)),
}
