"""Expressions of polars → predicates.

Polars hands a source the filter of a query, which may say anything. Of its JSON this reads what
files and rows can be judged by: comparisons of columns with constants of their own kind, being
among some, ranges, nulls, and what AND, OR and NOT make of these.
"""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import (
    And,
    Column,
    Comparison,
    In,
    IsNull,
    Not,
    Or,
    conjunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.expressions.nodes import Literal, Node

__all__ = ["polars_predicate"]

_COMPARISONS = {"Eq": "=", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">="}
_TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_AND, _OR = ("And", "LogicalAnd"), ("Or", "LogicalOr")
_WHOLE = ("Int8", "Int16", "Int32", "Int64", "UInt8", "UInt16", "UInt32", "UInt64")
_CLOSED = {"Both": (">=", "<="), "Left": (">=", "<"), "Right": (">", "<="), "None": (">", "<")}
_UNITS = {"Microseconds": 1, "Milliseconds": 1000}
_EPOCH = datetime(1970, 1, 1)


class _NotReadError(Exception):
    """An expression is none of those that are read here."""


def polars_predicate(text: str, schema: pa.Schema) -> tuple[Node | None, bool]:
    """What of an expression, as JSON, is a predicate over `schema`, and whether that is all of it.

    Rows that the expression keeps satisfy the predicate.
    """
    try:
        expression = json.loads(text)
    except ValueError:
        return None, False
    parts = list(_conjuncts(expression))
    found: list[Node] = []
    for part in parts:
        try:
            found.append(_node(part, schema))
        except (_NotReadError, KeyError, TypeError, ValueError, OverflowError, pa.ArrowException):
            continue
    return conjunction(*found), len(found) == len(parts)


def _conjuncts(expression: Any) -> Iterator[Any]:
    match expression:
        case {"BinaryExpr": {"left": left, "op": op, "right": right}} if op in _AND:
            yield from _conjuncts(left)
            yield from _conjuncts(right)
        case _:
            yield expression


def _node(expression: Any, schema: pa.Schema) -> Node:
    match expression:
        case {"BinaryExpr": {"left": left, "op": op, "right": right}}:
            if op in _AND:
                return And((_node(left, schema), _node(right, schema)))
            if op in _OR:
                return Or((_node(left, schema), _node(right, schema)))
            return _comparison(_COMPARISONS[op], left, right, schema)
        case {"Function": {"input": given, "function": {"Boolean": what}}}:
            return _boolean(what, given, schema)
        case {"Column": str(name)} if pa.types.is_boolean(schema.field(name).type):
            return Column((name,))
    raise _NotReadError


def _boolean(what: Any, given: list[Any], schema: pa.Schema) -> Node:
    match what, given:
        case "Not", [operand]:
            return Not(_node(operand, schema))
        case "IsNull", [{"Column": str(name)}]:
            return IsNull(_column(name, schema))
        case "IsNotNull", [{"Column": str(name)}]:
            return Not(IsNull(_column(name, schema)))
        case {"IsBetween": {"closed": closed}}, [operand, low, high]:
            least, most = _CLOSED[closed]
            return And(
                (
                    _comparison(least, operand, low, schema),
                    _comparison(most, operand, high, schema),
                )
            )
        case {"IsIn": {"nulls_equal": False}}, [{"Column": str(name)}, options]:
            kind = schema.field(name).type
            literals = tuple(_of_kind(value, kind) for value in _listed(options))
            if literals:
                return In(_column(name, schema), literals)
    raise _NotReadError


def _comparison(op: str, left: Any, right: Any, schema: pa.Schema) -> Node:
    if "Column" not in left:
        left, right, op = right, left, _TURNED[op]
    name = left["Column"]
    return Comparison(op, _column(name, schema), _of_kind(_value(right), schema.field(name).type))


def _column(name: str, schema: pa.Schema) -> Column:
    schema.field(name)
    return Column((name,))


def _value(expression: Any) -> object:
    match expression:
        case {"Literal": {"Dyn": {"Int": int(value)} | {"Float": float(value)}}}:
            return value
        case {"Literal": {"Scalar": scalar}}:
            return _scalar(scalar)
    raise _NotReadError


def _scalar(scalar: Mapping[str, Any]) -> object:
    ((kind, value),) = scalar.items()
    if kind in _WHOLE or kind in ("Boolean", "String", "Float64"):
        return value
    if kind == "Date":
        return date(1970, 1, 1) + timedelta(days=value)
    if kind == "Datetime":
        count, unit, zone = value
        found = _EPOCH + timedelta(microseconds=count * _UNITS[unit])
        return found if zone is None else found.replace(tzinfo=UTC)
    raise _NotReadError


def _listed(expression: Any) -> list[object]:
    """The values of a list, which polars writes as a stream of Arrow's."""
    data = bytes(expression["Literal"]["Scalar"]["List"])
    with pa.ipc.open_stream(data) as stream:
        found: list[object] = stream.read_all().column(0).to_pylist()
    return found


def _of_kind(value: object, kind: pa.DataType) -> Literal:
    """A constant of the kind that a column is of: else polars and SQL may compare otherwise."""
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    fits = (
        (pa.types.is_integer(kind) and is_whole)
        or (pa.types.is_float64(kind) and (is_whole or isinstance(value, float)))
        or ((pa.types.is_string(kind) or pa.types.is_large_string(kind)) and isinstance(value, str))
        or (pa.types.is_boolean(kind) and isinstance(value, bool))
        or (pa.types.is_date(kind) and type(value) is date)
        or (
            pa.types.is_timestamp(kind)
            and isinstance(value, datetime)
            and (value.tzinfo is None) == (kind.tz is None)
        )
    )
    if not fits:
        raise _NotReadError
    return literal_of(value)  # type: ignore[arg-type]  # looked at above
