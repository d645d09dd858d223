"""Filters that Spark pushes down → adelta's expressions.

A literal gets the type of its column: Spark pushes a comparison only where the two agree. What has
no counterpart here is left out, which is always right: Spark evaluates every filter again.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson
from pyspark.sql import datasource as ds

from adelta.kernel.expressions.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    Or,
    conjunction,
)
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["from_json", "to_expression"]

_COMPARISONS = {  # by the names of Spark's classes, which come with Spark 4.1
    "EqualTo": "=",
    "EqualNullSafe": "<=>",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_DAY_0, _MOMENT_0 = date(1970, 1, 1), datetime(1970, 1, 1)
_LIKE = {"starts": ("", "%"), "ends": ("%", ""), "contains": ("%", "%")}
_PYTHON_TYPES: dict[t.DataType, type | tuple[type, ...]] = {
    t.BOOLEAN: bool,
    t.BYTE: int,
    t.SHORT: int,
    t.INTEGER: int,
    t.LONG: int,
    t.FLOAT: float,
    t.DOUBLE: float,
    t.STRING: str,
    t.BINARY: bytes,
    t.DATE: date,
    t.TIMESTAMP: datetime,
    t.TIMESTAMP_NTZ: datetime,
}


def to_expression(filters: Iterable[ds.Filter], schema: t.StructType) -> Node | None:
    """What all of `filters` together ask of the rows of a table, as far as adelta can say it."""
    return conjunction(*(_node(f, schema) for f in filters))


def _node(pushed: ds.Filter, schema: t.StructType) -> Node | None:
    if isinstance(pushed, ds.Not):
        child = _node(pushed.child, schema)
        return None if child is None else Not(child)
    path: tuple[str, ...] = getattr(pushed, "attribute", ())
    data_type = _type_at(schema, path)
    if data_type is None:
        return None
    column = Column(path)
    match pushed:
        case ds.IsNull():
            return IsNull(column)
        case ds.IsNotNull():
            return Not(IsNull(column))
        case ds.In():
            options = tuple(_literal(value, data_type) for value in pushed.value)
            found = tuple(option for option in options if option is not None)
            return In(column, found) if len(found) == len(options) > 0 else None
        case ds.StringStartsWith() if data_type == t.STRING:
            return Like(column, _escaped(pushed.value) + "%")
        case ds.StringEndsWith() if data_type == t.STRING:
            return Like(column, "%" + _escaped(pushed.value))
        case ds.StringContains() if data_type == t.STRING:
            return Like(column, "%" + _escaped(pushed.value) + "%")
    op = _COMPARISONS.get(type(pushed).__name__)
    literal = None if op is None else _literal(getattr(pushed, "value", None), data_type)
    return None if op is None or literal is None else Comparison(op, column, literal)


def from_json(text: str, schema: t.StructType, stored: t.StructType) -> Node | None:
    """What all filters in a JSON list ask of the rows of a table; None where that is nothing.

    They are as `TableFileIndex.java` writes them: a list of an operator and its operands, columns
    as lists of names, which are those of `stored`: the schema of the table, field by field, with
    the names that columns have in files.
    """
    return conjunction(*(_from_json(each, schema, stored) for each in orjson.loads(text)))


def _from_json(filter_: Any, schema: t.StructType, stored: t.StructType) -> Node | None:
    op, *operands = filter_
    if op in ("and", "or", "not"):
        nodes = [_from_json(each, schema, stored) for each in operands]
        known = tuple(node for node in nodes if node is not None)
        if len(known) < len(nodes):
            return None
        return Not(known[0]) if op == "not" else (And if op == "and" else Or)(known)
    path = _logical_path(operands[0], schema, stored)
    data_type = _type_at(schema, path)
    if data_type is None:
        return None
    column = Column(path)
    if op == "null":
        return IsNull(column)
    if op == "in":
        options = tuple(_parsed(one, data_type) for one in operands[1])
        found = tuple(option for option in options if option is not None)
        return In(column, found) if len(found) == len(options) > 0 else None
    if op in _LIKE:
        before, after = _LIKE[op]
        return Like(column, before + _escaped(operands[1]) + after)
    literal = _parsed(operands[1], data_type)
    return None if literal is None else Comparison(op, column, literal)


def _type_at(schema: t.StructType, path: tuple[str, ...]) -> t.DataType | None:
    found: t.DataType = schema
    for name in path:
        field = found.field(name) if isinstance(found, t.StructType) else None
        if field is None:
            return None
        found = field.type
    return found if path else None


def _literal(value: object, data_type: t.DataType) -> Literal | None:
    """The constant in the column's type; None where the two do not go together."""
    if value is None:
        return Literal(None, data_type)
    if isinstance(data_type, t.DecimalType):
        if isinstance(value, int) and not isinstance(value, bool):
            value = Decimal(value)
        return Literal(value, data_type) if isinstance(value, Decimal) else None
    wanted = _PYTHON_TYPES.get(data_type)
    if wanted is None or not isinstance(value, wanted):
        return None
    if isinstance(value, bool) != (data_type == t.BOOLEAN):  # a bool is an int, too
        return None
    if isinstance(value, datetime):
        aware = value.tzinfo is not None
        if data_type == t.DATE or aware != (data_type == t.TIMESTAMP):
            return None
    if isinstance(value, (bool, int, float, str, bytes, date)):
        return Literal(value, data_type)
    return None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _logical_path(
    names: Sequence[str], schema: t.StructType, stored: t.StructType
) -> tuple[str, ...]:
    """The names of a column's steps in the table; none where it is not of the table."""
    path: list[str] = []
    logical: t.DataType = schema
    physical: t.DataType = stored
    for name in names:
        if not (isinstance(logical, t.StructType) and isinstance(physical, t.StructType)):
            return ()
        fields = zip(logical, physical, strict=True)
        found = next((field for field, seen in fields if seen.name == name), None)
        if found is None:
            return ()
        seen = physical.field(name)
        assert seen is not None
        path.append(found.name)
        logical, physical = found.type, seen.type
    return tuple(path)


def _parsed(text: str, data_type: t.DataType) -> Literal | None:
    """A value as the JVM has it, in the type of its column."""
    match data_type:
        case t.BOOLEAN:
            return Literal(text == "true", data_type)
        case t.BYTE | t.SHORT | t.INTEGER | t.LONG:
            return Literal(int(text), data_type)
        case t.FLOAT | t.DOUBLE:
            return Literal(float(text), data_type)
        case t.STRING:
            return Literal(text, data_type)
        case t.BINARY:
            return Literal(bytes.fromhex(text), data_type)
        case t.DecimalType():
            return Literal(Decimal(text), data_type)
    try:
        match data_type:
            case t.DATE:
                return Literal(_DAY_0 + timedelta(days=int(text)), data_type)
            case t.TIMESTAMP:
                moment = _MOMENT_0 + timedelta(microseconds=int(text))
                return Literal(moment.replace(tzinfo=UTC), data_type)
            case t.TIMESTAMP_NTZ:
                return Literal(_MOMENT_0 + timedelta(microseconds=int(text)), data_type)
    except OverflowError:  # before the year 1, or after 9999
        return None
    return None
