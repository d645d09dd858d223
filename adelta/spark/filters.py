"""Filters that Spark pushes down → adelta's expressions.

A literal gets the type of its column: Spark pushes a comparison only where the two agree. What has
no counterpart here is left out, which is always right: Spark evaluates every filter again.
"""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING

from pyspark.sql import datasource as ds

from adelta.kernel.expressions.nodes import (
    Column,
    Comparison,
    In,
    IsNull,
    Like,
    Literal,
    Node,
    Not,
    conjunction,
)
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["to_expression"]

_COMPARISONS: dict[type[ds.Filter], str] = {
    ds.EqualTo: "=",
    ds.EqualNullSafe: "<=>",
    ds.GreaterThan: ">",
    ds.GreaterThanOrEqual: ">=",
    ds.LessThan: "<",
    ds.LessThanOrEqual: "<=",
}
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
    op = _COMPARISONS.get(type(pushed))
    literal = None if op is None else _literal(getattr(pushed, "value", None), data_type)
    return None if op is None or literal is None else Comparison(op, column, literal)


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
