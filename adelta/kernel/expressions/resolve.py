"""Binding: an expression against a schema, with every name resolved and every cast written out.

A bound expression is an expression again: its columns are spelled as the schema spells them, its
operands have the types that their operator needs, and constant parts are computed. Binding it once
more changes nothing. `compute` and data skipping take bound expressions only.
"""

from __future__ import annotations

import difflib
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.errors import InvalidExpressionError, UnresolvedColumnError
from adelta.kernel.expressions.call_types import call_type
from adelta.kernel.expressions.casts import can_cast, cast_values
from adelta.kernel.expressions.coercion import (
    FRACTIONS,
    INTEGERS,
    common_type,
    decimal_arithmetic,
    decimal_of_integer,
    is_atomic,
    is_numeric,
    widest,
)
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.library import LIBRARY
from adelta.kernel.expressions.library.array_keys import ARRAY_KEY, are_comparable
from adelta.kernel.expressions.library.array_order import ARRAY_ORDER
from adelta.kernel.expressions.library.intervals import DAYS, INTERVAL_TYPES, MONTHS
from adelta.kernel.expressions.literals import decimal_type_of
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
    children_of,
    columns_of,
    disjunction,
    walk,
    with_children,
)
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.expressions.text_values import UTC_NAMES
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type

__all__ = ["bind", "bind_predicate", "check_predicate", "columns_of", "type_of"]

_MANY = 16
_DAY = 86_400_000_000
_TIMES = (t.TIMESTAMP, t.TIMESTAMP_NTZ)
_ONE_ROW = pa.RecordBatch.from_arrays([pa.nulls(1)], ["one"])  # pa.array() loads pandas


def bind(node: Node, schema: t.StructType, *, zone: str = "UTC") -> Node:
    """`node` bound to `schema`; text that becomes a timestamp is in `zone` where it names none.

    Raises:
        InvalidExpressionError: a column is unknown, or an operator does not fit its operands.
    """
    return _Binder(schema, zone).bind(node)[0]


def bind_predicate(node: Node, schema: t.StructType, *, zone: str = "UTC") -> Node:
    """The same for an expression that must be true or false.

    Raises:
        InvalidExpressionError: as for `bind`, or it is neither true nor false.
    """
    return _bound(node, _Binder(schema, zone))


def check_predicate(node: Node, schema: t.StructType, *, zone: str = "UTC") -> None:
    """What of `bind_predicate` does not compute: no part that is constant gets a value.

    Errors that may come of such a part lacking a value are passed over.

    Raises:
        InvalidExpressionError: as for `bind_predicate`.
    """
    try:
        _bound(node, _Binder(schema, zone, folds=False))
    except InvalidExpressionError:
        if not any(_is_constant(part) for part in walk(node)):
            raise


def _bound(node: Node, binder: _Binder) -> Node:
    bound, data_type = binder.bind(node)
    if data_type == t.VOID:
        return Literal(None, t.BOOLEAN)
    if data_type != t.BOOLEAN:
        raise InvalidExpressionError(
            f"{to_sql(node)} is a {data_type}, where a condition is needed: compare it with a value"
        )
    return bound


def type_of(node: Node, schema: t.StructType) -> t.DataType:
    """The type of an expression over `schema`.

    Raises:
        InvalidExpressionError: as for `bind`.
    """
    return _Binder(schema, "UTC").bind(node)[1]


def _is_constant(node: Node) -> bool:
    """Whether a part has a value whatever the row, and not yet."""
    parts = children_of(node)
    return bool(parts) and all(isinstance(part, Literal) for part in parts)


def _is_exact(value: object, data_type: t.DataType, to: t.DataType) -> bool:
    """Whether a value is the same in the other type, without asking Arrow."""
    return data_type in INTEGERS and to in INTEGERS[INTEGERS.index(data_type) :]


def _lacks_constant(name: str, arguments: tuple[Node, ...]) -> bool:
    """Whether a call has NULL for an argument that has to be a constant, and is NULL by that."""
    places = (place for place in LIBRARY[name].constants if place < len(arguments))
    return any(isinstance(a := arguments[p], Literal) and a.value is None for p in places)


class _Binder:
    def __init__(self, schema: t.StructType, zone: str, *, folds: bool = True) -> None:
        self._schema = schema
        self._zone = zone
        self._folds = folds

    def bind(self, node: Node) -> tuple[Node, t.DataType]:
        match node:
            case Column(path):
                return self._column(path)
            case Literal(_, data_type):
                return node, data_type
            case Call("[]", (of, Literal(str() as name, _)), _):
                inside, kind = self.bind(of)
                if isinstance(inside, Column) and isinstance(kind, t.StructType):
                    return self._column((*inside.path, name))
        children = [self.bind(child) for child in children_of(node)]
        bound, data_type = self._operator(node, [c for c, _ in children], [k for _, k in children])
        return self._fold(bound, data_type), data_type

    # ----------------------------------------------------------------------------------- names

    def _column(self, path: tuple[str, ...]) -> tuple[Node, t.DataType]:
        found: list[str] = []
        here: t.DataType = self._schema
        for depth, name in enumerate(path):
            if not isinstance(here, t.StructType):
                raise InvalidExpressionError(
                    f"{'.'.join(path)}: {'.'.join(found)} is a {here}, which has no field {name!r}"
                )
            field = here.field(name)
            if field is None:
                # A column whose name has dots may have been written without backticks.
                dotted = self._schema.field(".".join(path)) if depth == 0 else None
                if dotted is not None:
                    return Column((dotted.name,)), dotted.type
                self._unknown(path, depth, here)
            found.append(field.name)
            here = field.type
        return Column(tuple(found)), here

    def _unknown(self, path: tuple[str, ...], depth: int, within: t.StructType) -> NoReturn:
        names = within.names
        near = difflib.get_close_matches(path[depth], names, 3, 0.6)
        where = f"field of {'.'.join(path[:depth])}" if depth else "column"
        listed = ", ".join(names[:20]) + (", …" if len(names) > 20 else "")
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UnresolvedColumnError(
            f"there is no {where} named {path[depth]!r}: {meant}there are {listed or 'none'}"
            + ("" if depth else "; a text is written in quotes of its own: '...'")
        )

    # ------------------------------------------------------------------------------- operators

    def _operator(
        self, node: Node, parts: list[Node], types: list[t.DataType]
    ) -> tuple[Node, t.DataType]:
        match node:
            case Comparison():
                return self._comparison(node, parts, types), t.BOOLEAN
            case And() | Or() | Not():
                for part, data_type in zip(parts, types, strict=True):
                    if data_type not in (t.BOOLEAN, t.STRING, t.VOID):
                        self._misfit(node, f"{to_sql(part)} is a {data_type}, not a condition")
                conditions = self._cast_all(parts, types, t.BOOLEAN)
                return with_children(node, conditions), t.BOOLEAN
            case IsNull():
                return IsNull(parts[0]), t.BOOLEAN
            case In():
                return self._in(node, parts, types), t.BOOLEAN
            case Like(_, pattern, escape):
                if types[0] == t.VOID:
                    return Literal(None, t.BOOLEAN), t.BOOLEAN
                if types[0] != t.STRING:
                    parts[0] = self._cast(parts[0], types[0], t.STRING)
                return Like(parts[0], pattern, escape), t.BOOLEAN
            case Arithmetic():
                return self._arithmetic(node, parts, types)
            case Negate():
                if types[0] == t.STRING:
                    return Negate(self._cast(parts[0], t.STRING, t.DOUBLE)), t.DOUBLE
                if types[0] == t.VOID:
                    return Literal(None, t.DOUBLE), t.DOUBLE
                if not is_numeric(types[0]):
                    self._misfit(node, f"a {types[0]} has no sign")
                return Negate(parts[0]), types[0]
            case Cast(_, to, is_try, _):
                if not can_cast(types[0], to):
                    self._misfit(node, f"a {types[0]} cannot be cast to {to}")
                if types[0] == to:
                    return parts[0], to
                zone = node.zone or self._zone_of(types[0], to)
                return Cast(parts[0], to, is_try, zone), to
            case Case():
                return self._case(node, parts, types)
            case Call(name, _, zone):
                arguments, result = call_type(
                    node, tuple(parts), tuple(types), lambda p, f, to: self._cast(p, f, to)
                )
                if name in LIBRARY and _lacks_constant(name, arguments):
                    return Literal(None, result), result
                within = (a.type for a in arguments if isinstance(a, Cast | Literal))
                return Call(name, arguments, zone or self._zone_of(*types, *within)), result
        raise InvalidExpressionError(f"{node!r} is not an expression")

    def _comparison(self, node: Comparison, parts: list[Node], types: list[t.DataType]) -> Node:
        null_safe = node.op == "<=>"
        for one, other, other_type in zip(parts, reversed(parts), reversed(types), strict=True):
            if isinstance(one, Literal) and one.value is None:
                if null_safe:
                    return IsNull(other)
                if (
                    is_atomic(other_type)
                    or other_type == t.VOID
                    or isinstance(other_type, t.ArrayType)
                ):
                    return Literal(None, t.BOOLEAN)
        if all(isinstance(kind, t.StructType) for kind in types):
            return self._struct_comparison(node, parts, types)
        if isinstance(types[0], t.ArrayType) and are_comparable(*types):
            by = ARRAY_KEY if node.op in ("=", "<=>", "!=") else ARRAY_ORDER
            return Comparison(node.op, *(Call(by, (part,)) for part in parts))
        if t.DecimalType in map(type, types):
            decimals = [self._decimal(p, k) for p, k in zip(parts, types, strict=True)]
            if None not in decimals:  # of whatever scale, they are compared exactly as they are
                return Comparison(node.op, *(made[0] for made in decimals if made is not None))
        return Comparison(node.op, *self._meet(node, parts, types))

    def _struct_comparison(self, node: Comparison, parts: list[Node], types: list[Any]) -> Node:
        """Whether two structs are equal: field by field, where two nulls are equal, too."""
        left, right = types
        columns = all(isinstance(part, Column) for part in parts)
        if node.op not in ("=", "<=>", "!=") or not columns or len(left) != len(right):
            self._misfit(node, f"{left} and {right} cannot be compared: compare their fields")
        either: Node = disjunction(*map(IsNull, parts))
        same: list[Node] = [Not(either)]
        for pair in zip(left, right, strict=True):
            fields: list[Node] = [
                Column((*part.path, field.name))
                for part, field in zip(parts, pair, strict=True)
                if isinstance(part, Column)
            ]
            same.append(
                self._comparison(Comparison("<=>", *fields), fields, [field.type for field in pair])
            )
        equal: Node = And(tuple(same))
        if node.op == "<=>":
            return disjunction(equal, And(tuple(map(IsNull, parts))))
        unknown = Case(((either, Literal(None, t.BOOLEAN)),), Literal(False, t.BOOLEAN))
        found = disjunction(equal, unknown)
        return found if node.op == "=" else Not(found)

    def _in(self, node: In, parts: list[Node], types: list[t.DataType]) -> Node:
        first, *others = types
        if isinstance(first, t.ArrayType) and all(
            each == t.VOID or are_comparable(first, each) for each in others
        ):
            keys: list[Node] = [
                Literal(None, t.BINARY) if kind == t.VOID else Call(ARRAY_KEY, (part,))
                for part, kind in zip(parts, types, strict=True)
            ]
            return In(keys[0], tuple(keys[1:]))
        operand, *options = self._meet(node, parts, types)
        return In(operand, tuple(options))

    def _meet(self, node: Node, parts: list[Node], types: list[t.DataType]) -> tuple[Node, ...]:
        to = widest(types)
        if to is None or not (is_atomic(to) or to == t.VOID):
            kinds = " and ".join(dict.fromkeys(str(one) for one in types))
            self._misfit(node, f"{kinds} cannot be compared: cast one of them")
        return self._cast_all(parts, types, to)

    def _arithmetic(
        self, node: Arithmetic, parts: list[Node], types: list[t.DataType]
    ) -> tuple[Node, t.DataType]:
        op, (left, right) = node.op, types
        if set(types) & set(INTERVAL_TYPES):
            return self._interval_arithmetic(node, parts, types)
        if t.DATE in types and op in ("+", "-"):
            return self._date_arithmetic(node, parts, types)
        if left == right == t.STRING:
            self._misfit(node, "both sides are strings: cast one of them to a number")
        if t.DecimalType in map(type, types) and not {*FRACTIONS, t.STRING} & {left, right}:
            decimals = [self._decimal(p, k) for p, k in zip(parts, types, strict=True)]
            if all(decimals):
                (a, p), (b, q) = decimals  # type: ignore[misc]  # none of them is None
                result = t.LONG if op == "div" else decimal_arithmetic(op, p, q)
                return Arithmetic(op, a, b), result
        to = common_type(left, right)
        if to == t.VOID:
            to = t.DOUBLE
        if op == "/" and to in (*INTEGERS, t.FLOAT):
            to = t.DOUBLE
        if op == "div":
            to = t.LONG if to in INTEGERS else None
        if to is None or not is_numeric(to):
            self._misfit(node, f"there is no {op} of {left} and {right}")
        return Arithmetic(op, *self._cast_all(parts, types, to)), to

    def _date_arithmetic(
        self, node: Arithmetic, parts: list[Node], types: list[t.DataType]
    ) -> tuple[Node, t.DataType]:
        days = 0 if types[1] == t.DATE and node.op == "+" else 1
        if types[days] not in (t.BYTE, t.SHORT, t.INTEGER):
            self._misfit(node, "a date takes a number of days; datediff gives the days between two")
        name = "date_add" if node.op == "+" else "date_sub"
        return Call(
            name, (parts[1 - days], self._cast(parts[days], types[days], t.INTEGER))
        ), t.DATE

    def _interval_arithmetic(
        self, node: Arithmetic, parts: list[Node], types: list[t.DataType]
    ) -> tuple[Node, t.DataType]:
        if node.op == "+" and types[0] in INTERVAL_TYPES:
            parts, types = parts[::-1], types[::-1]
        (of, interval), (kind, length) = parts, types
        known = isinstance(interval, Literal) and isinstance(interval.value, int)
        if node.op not in ("+", "-") or kind not in (t.DATE, *_TIMES) or not known:
            self._misfit(node, f"there is no {node.op} of {types[0]} and {types[1]}")
        assert isinstance(interval, Literal)
        assert isinstance(interval.value, int)
        value = interval.value if node.op == "+" else -interval.value
        if length == MONTHS:
            name = "+ months"
        elif kind == t.DATE and length == DAYS:
            days = Literal(int(value / _DAY), t.INTEGER)
            return self._fold(Call("date_add", (of, days)), t.DATE), t.DATE
        else:
            name = "+ micros"
            if kind == t.DATE:
                of, kind = self._cast(of, kind, t.TIMESTAMP), t.TIMESTAMP
        moved = Call(name, (of, Literal(value, length)), self._zone_of(kind))
        return moved, kind

    def _decimal(self, node: Node, data_type: t.DataType) -> tuple[Node, t.DecimalType] | None:
        if isinstance(data_type, t.DecimalType):
            return node, data_type
        to = decimal_of_integer(data_type)
        if isinstance(node, Literal) and isinstance(node.value, int):
            to = decimal_type_of(Decimal(node.value))  # as many digits as it has
        return None if to is None else (self._cast(node, data_type, to), to)

    def _case(
        self, node: Case, parts: list[Node], types: list[t.DataType]
    ) -> tuple[Node, t.DataType]:
        pairs = 2 * len(node.branches)
        values = [i for i in range(len(parts)) if i % 2 or i == pairs]
        to = widest(types[i] for i in values)
        if to is None:
            kinds = " and ".join(dict.fromkeys(str(types[i]) for i in values))
            self._misfit(node, f"its values are {kinds}: cast them to one type")
        for i, data_type in enumerate(types):
            if i in values:
                parts[i] = self._cast(parts[i], data_type, to)
            elif data_type in (t.BOOLEAN, t.VOID):
                parts[i] = self._cast(parts[i], data_type, t.BOOLEAN)
            else:
                self._misfit(node, f"{to_sql(parts[i])} is a {data_type}, not a condition")
        return with_children(node, tuple(parts)), to

    def _misfit(self, node: Node, why: str) -> NoReturn:
        raise InvalidExpressionError(f"{to_sql(node)}: {why}")

    # ----------------------------------------------------------------------------------- casts

    def _cast_all(
        self, parts: list[Node], types: list[t.DataType], to: t.DataType
    ) -> tuple[Node, ...]:
        made = self._cast_constants(parts, types, to)
        pairs = zip(parts, types, strict=True)
        return tuple(made.get(i) or self._cast(p, k, to) for i, (p, k) in enumerate(pairs))

    def _cast_constants(
        self, parts: list[Node], types: list[t.DataType], to: t.DataType
    ) -> dict[int, Node]:
        """The constants among many operands, cast all at once, where none of them fails."""
        made: dict[int, Node] = {}
        for source in set(types) - {to, t.VOID} if self._folds and len(parts) > _MANY else ():
            places = [i for i, p in enumerate(parts) if isinstance(p, Literal) and p.type == source]
            constants = [p.value for p in parts if isinstance(p, Literal) and p.type == source]
            try:
                values = array_of(constants, to_arrow_type(source))
                cast = cast_values(values, to, zone=self._zone).to_pylist()
            except (InvalidExpressionError, ValueError, OverflowError):
                continue  # one of them fails: each by itself, then
            made.update((i, Literal(v, to)) for i, v in zip(places, cast, strict=True))
        return made

    def _cast(self, node: Node, data_type: t.DataType, to: t.DataType) -> Node:
        if data_type == to:
            return node
        if isinstance(node, Literal) and node.value is None:
            return Literal(None, to)
        if isinstance(node, Literal) and _is_exact(node.value, data_type, to):
            return Literal(node.value, to)
        return self._fold(Cast(node, to, zone=self._zone_of(data_type, to)), to)

    def _zone_of(self, *types: t.DataType) -> str | None:
        """The zone that an operator over these types is to have."""
        return self._zone if t.TIMESTAMP in types and self._zone not in UTC_NAMES else None

    def _fold(self, node: Node, data_type: t.DataType) -> Node:
        """The value of a constant part; what fails stays, and fails where a row needs it."""
        nested = isinstance(data_type, t.StructType | t.ArrayType | t.MapType)
        if nested or not (self._folds and _is_constant(node)):
            return node
        try:
            value = evaluate(node, _ONE_ROW)[0].as_py()
        except (InvalidExpressionError, ValueError, OverflowError):
            return node
        return Literal(value, data_type)
