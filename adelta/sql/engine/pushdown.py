"""Filters that DuckDB hands to a scan → predicates.

DuckDB writes them as expressions of Arrow's, which cannot be looked into. They can become Substrait
(https://substrait.io/expressions/), which can. Of its messages this reads what DuckDB hands on:
comparisons of columns with constants, IN, IS NULL, and what AND, OR and NOT make of these.
"""

from __future__ import annotations

import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.kernel.expressions.nodes import (
    Call,
    Column,
    Comparison,
    In,
    IsNull,
    Literal,
    Not,
    conjunction,
    disjunction,
)
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc

    from adelta.kernel.expressions.nodes import Node

__all__ = ["predicate_of"]

_COMPARISONS = {"equal": "=", "not_equal": "!=", "lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_WHOLE = {2: t.BYTE, 3: t.SHORT, 5: t.INTEGER, 7: t.LONG}
_EPOCH = datetime(1970, 1, 1)


class _NotReadError(Exception):
    """An expression is none of those that are read here."""


def predicate_of(expression: pc.Expression, schema: pa.Schema) -> tuple[Node | None, bool]:
    """What of a filter over rows of `schema` is a predicate, and whether that is all of it.

    Rows that the filter keeps satisfy the predicate.
    """
    try:
        message = bytes(expression.to_substrait(schema))
    except (pa.ArrowException, ValueError):
        return None, False
    try:
        return _Reading(message, schema).whole()
    except (_NotReadError, ValueError, IndexError, OverflowError, struct.error):
        return None, False


class _Reading:
    def __init__(self, message: bytes, schema: pa.Schema) -> None:
        self._schema = schema
        self._functions: dict[int, str] = {}
        expression = None
        for number, value in _fields(message):
            if number == 2:
                declared = dict(_fields(_one(value, 3)))
                self._functions[int(declared.get(2, 0))] = declared[3].decode()
            elif number == 3:
                expression = _one(value, 1)
        if expression is None:
            raise _NotReadError
        self._expression = expression

    def whole(self) -> tuple[Node | None, bool]:
        """The parts of a conjunction that can be read, and whether these are all."""
        parts = list(self._conjuncts(self._expression))
        found: list[Node] = []
        for part in parts:
            try:
                found.append(self._node(part))
            except (_NotReadError, ValueError, IndexError, OverflowError, struct.error):
                continue
        return conjunction(*found), len(found) == len(parts)

    def _conjuncts(self, expression: bytes) -> Iterator[bytes]:
        called = self._call(expression)
        if called is None or called[0] != "and":
            yield expression
            return
        for argument in called[1]:
            yield from self._conjuncts(argument)

    def _call(self, expression: bytes) -> tuple[str, list[bytes]] | None:
        """The name and the arguments of a call of a function; None for anything else."""
        for number, value in _fields(expression):
            if number == 3:
                parts = list(_fields(value))
                reference = next((part for key, part in parts if key == 1), 0)
                arguments = [_one(part, 3) for key, part in parts if key == 4]
                return self._functions[reference], arguments
        return None

    def _node(self, expression: bytes) -> Node:
        called = self._call(expression)
        if called is not None:
            return self._called(*called)
        for number, value in _fields(expression):
            match number:
                case 1:
                    return _literal(value)
                case 2:
                    return self._column(value)
                case 8:
                    parts = list(_fields(value))
                    options = tuple(self._node(part) for key, part in parts if key == 2)
                    operand = next(part for key, part in parts if key == 1)
                    if not options:
                        raise _NotReadError
                    return In(self._node(operand), options)
        raise _NotReadError

    def _called(self, name: str, arguments: list[bytes]) -> Node:
        nodes = [self._node(argument) for argument in arguments]
        if name in _COMPARISONS and len(nodes) == 2:
            return Comparison(_COMPARISONS[name], nodes[0], nodes[1])
        if name == "or" and nodes:
            return disjunction(*nodes)
        if name == "and" and (found := conjunction(*nodes)) is not None:
            return found
        if len(nodes) == 1:
            match name:
                case "not":
                    return Not(nodes[0])
                case "is_null":
                    return IsNull(nodes[0])
                case "is_not_null":
                    return Not(IsNull(nodes[0]))
                case "is_nan":
                    return Call("isnan", (nodes[0],))
        raise _NotReadError

    def _column(self, reference: bytes) -> Column:
        """A column by its place, or a field inside one."""
        segment: bytes | None = _one(reference, 1)
        fields: list[pa.Field[Any]] = list(self._schema)
        path: list[str] = []
        while segment is not None:
            inside = dict(_fields(_one(segment, 2)))
            field = fields[int(inside.get(1, 0))]
            path.append(field.name)
            segment = inside.get(2)
            data_type: Any = field.type
            fields = list(data_type) if pa.types.is_struct(data_type) else []
        return Column(tuple(path))


def _literal(message: bytes) -> Literal:
    for number, value in _fields(message):
        match number:
            case 1:
                return Literal(bool(value), t.BOOLEAN)
            case 2 | 3 | 5 | 7:
                return Literal(_signed(value), _WHOLE[number])
            case 10:
                return Literal(struct.unpack("<f", value)[0], t.FLOAT)
            case 11:
                return Literal(struct.unpack("<d", value)[0], t.DOUBLE)
            case 12:
                return Literal(value.decode(), t.STRING)
            case 13:
                return Literal(value, t.BINARY)
            case 14:
                return Literal(_EPOCH + timedelta(microseconds=_signed(value)), t.TIMESTAMP_NTZ)
            case 16:
                return Literal(date(1970, 1, 1) + timedelta(days=_signed(value)), t.DATE)
            case 24:
                return _decimal(dict(_fields(value)))
            case 27:
                moment = _EPOCH + timedelta(microseconds=_signed(value))
                return Literal(moment.replace(tzinfo=UTC), t.TIMESTAMP)
    raise _NotReadError


def _decimal(parts: dict[int, Any]) -> Literal:
    unscaled = int.from_bytes(parts[1], "little", signed=True)
    scale = int(parts.get(3, 0))
    value = Decimal(unscaled).scaleb(-scale)
    return Literal(value, t.DecimalType(int(parts[2]), scale))


# --------------------------------------------------------------------------- Protocol Buffers' wire


def _one(message: bytes, wanted: int) -> bytes:
    """The field of a message that has to be there, and to be a message or a text."""
    for number, value in _fields(message):
        if number == wanted and isinstance(value, bytes):
            return value
    raise _NotReadError


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a message, by their numbers: whole numbers without a sign, and bytes."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == 2:
            size, at = _varint(message, at)
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
        else:
            raise _NotReadError
        if at + size > len(message):
            raise _NotReadError
        yield number, message[at : at + size]
        at += size


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def _signed(value: int) -> int:
    return value - (1 << 64) if value >= 1 << 63 else value
