"""Filters that DuckDB hands to a scan → predicates.

DuckDB writes them as expressions of Arrow's, which cannot be looked into. Arrow serialises them, as
it does to pickle them: the calls, columns and constants in their order, each call before its
arguments, with its end after them. That takes time in proportion to what an expression holds; its
other form, Substrait, takes twice as long for each level of nesting. This reads what DuckDB hands
on: comparisons of columns with constants, IN, IS NULL, and what AND, OR and NOT make of these.
"""

from __future__ import annotations

import ctypes
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta.errors import SchemaMismatchError
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
from adelta.kernel.schema.arrow import from_arrow_type

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow.compute as pc

    from adelta.kernel.expressions.nodes import Node

__all__ = ["predicate_of"]

_COMPARISONS = {
    "equal": "=",
    "not_equal": "!=",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
}
_AND, _OR, _NOT = "and_kleene", "or_kleene", "invert"
_WHOLE = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_FLOATING = (t.FLOAT, t.DOUBLE)
_READ = (*_WHOLE, *_FLOATING, t.BOOLEAN, t.STRING, t.BINARY, t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_EXACT = 1 << 24  # whole numbers up to it are floats, too
_FALSE_OF_NULL = (0, 1)  # how IN of a null is matched: to a null among the options, or to nothing


class _NotReadError(Exception):
    """An expression is none of those that are read here."""


_UNREAD = (SchemaMismatchError, pa.ArrowException, ValueError, OverflowError)


def predicate_of(expression: pc.Expression, schema: pa.Schema) -> tuple[Node | None, bool]:
    """What of a filter over rows of `schema` is a predicate, and whether that is all of it.

    Rows that the filter keeps satisfy the predicate.
    """
    try:
        serialised: Any = expression.__reduce__()[1]
        with pa.ipc.open_file(serialised[0]) as opened:
            batch = opened.get_batch(0)
        return _Reading(schema, batch).whole()
    except (_NotReadError, *_UNREAD):
        return None, False


class _Call:
    """A call whose end has not come yet. Of its arguments those are None that cannot be read."""

    __slots__ = ("arguments", "name", "options")

    def __init__(self, name: str) -> None:
        self.name = name
        self.arguments: list[Node | None] = []
        self.options: Any = None


class _Reading:
    """The words of an expression, one after the other, however deep it nests."""

    def __init__(self, schema: pa.Schema, batch: pa.RecordBatch) -> None:
        self._schema = schema
        self._batch = batch
        self._calls = [_Call(_AND)]
        self._negations = 0

    def whole(self) -> tuple[Node | None, bool]:
        """The parts of a conjunction that can be read, and whether these are all."""
        words = _metadata(self._batch.schema)
        for key, value in words:
            match key:
                case "call":
                    self._calls.append(_Call(value))
                    self._negations += value == _NOT
                case "end":
                    self._close()
                case "options":
                    self._calls[-1].options = self._batch.column(int(value))[0]
                case "field_ref":
                    self._calls[-1].arguments.append(self._column(value))
                case "nested_field_ref":
                    path = [next(words)[1] for _ in range(int(value))]
                    self._calls[-1].arguments.append(self._column(*path))
                case "literal":
                    self._calls[-1].arguments.append(_literal(self._batch.column(int(value))[0]))
                case _:
                    raise _NotReadError
        (everything,) = self._calls
        found = [part for part in everything.arguments if part is not None]
        return conjunction(*found), len(found) == len(everything.arguments)

    def _close(self) -> None:
        """Make an argument of the call that ends; what AND has of AND, and OR of OR, is one."""
        call, above = self._calls.pop(), self._calls[-1]
        self._negations -= call.name == _NOT
        if call.name != above.name or call.name not in (_AND, _OR):
            above.arguments.append(self._node(call))
        elif above.arguments:
            above.arguments += call.arguments
        else:
            above.arguments = call.arguments  # a long chain nests at its beginning

    def _node(self, call: _Call) -> Node | None:
        nodes = [node for node in call.arguments if node is not None]
        if len(nodes) < len(call.arguments):
            return None
        match call.name, nodes:
            case "and_kleene", _:
                return conjunction(*nodes)
            case "or_kleene", _:
                return disjunction(*nodes)
            case "is_in", [Column() as operand]:
                return self._in(operand, call.options)
            case "is_null", [operand] if not call.options["nan_is_null"].as_py():
                return IsNull(operand)
            case "is_valid", [operand]:
                return Not(IsNull(operand))
            case "is_nan", [operand]:
                return Call("isnan", (operand,))
            case "invert", [operand]:
                return Not(operand)
            case name, [one, other] if name in _COMPARISONS:
                pair = self._alike(one, other)
                return None if pair is None else Comparison(_COMPARISONS[name], *pair)
        return None

    def _in(self, operand: Column, options: Any) -> Node | None:
        if options["null_matching_behavior"].as_py() not in _FALSE_OF_NULL:
            return None
        found = []
        for value in options["value_set"].values:
            option = _literal(value)
            pair = None if option is None else self._alike(operand, option)
            if pair is None:
                return None
            found.append(pair[1])
        if not found:
            return None
        node = In(operand, tuple(found))
        # that it is false of null, as Arrow has it, tells where it is negated alone
        return conjunction(node, Not(IsNull(operand))) if self._negations else node

    def _alike(self, one: Node, other: Node) -> tuple[Node, Node] | None:
        """The two as they are compared by Arrow and by adelta alike; None where they are not."""
        match one, other:
            case Literal(), Column():
                pair = self._alike(other, one)
                return None if pair is None else (pair[1], pair[0])
            case Column(), Column() if self._type(one) == self._type(other):
                return one, other
            case Column(), Literal():
                return _compared(one, self._type(one), other)
        return None

    def _column(self, *path: str) -> Column | None:
        column = Column(path)
        return column if self._type(column) is not None else None

    def _type(self, column: Column) -> t.DataType | None:
        """The type of a column, or of a field inside one; None where it is not there."""
        fields: Any = self._schema
        found: Any = None
        for step in column.path:
            place = fields.get_field_index(step)
            if place < 0:
                return None
            found = fields.field(place).type
            fields = found if pa.types.is_struct(found) else pa.struct([])
        try:
            return from_arrow_type(found)
        except SchemaMismatchError:
            return None


def _compared(
    column: Column, kind: t.DataType | None, literal: Literal
) -> tuple[Column, Literal] | None:
    is_decimal, is_whole = isinstance(kind, t.DecimalType), literal.type in _WHOLE
    if (
        kind == literal.type
        or (is_whole and (kind in _WHOLE or is_decimal))
        or (is_decimal and isinstance(literal.type, t.DecimalType))
        or (kind in _FLOATING and literal.type in _FLOATING)
    ):
        return column, literal
    value = literal.value
    if kind in _FLOATING and is_whole and isinstance(value, int) and abs(value) <= _EXACT:
        return column, Literal(float(value), kind)
    return None


def _literal(scalar: pa.Scalar[Any]) -> Literal | None:
    """A constant; None where it is null, or of a type or value that adelta does not have."""
    try:
        kind = from_arrow_type(scalar.type)
        if pa.types.is_timestamp(scalar.type):
            scalar = scalar.cast(pa.timestamp("us", scalar.type.tz))
        value = scalar.as_py()
    except _UNREAD:
        return None
    if value is None or not (kind in _READ or isinstance(kind, t.DecimalType)):
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)
    return Literal(value, kind)


# --------------------------------------------------------- the metadata of a schema, in their order


_pointer_of = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _metadata(schema: pa.Schema) -> Iterator[tuple[str, str]]:
    """The names and texts of a schema's metadata; pyarrow has only the last one of each name.

    They are read as Arrow's C data interface (https://arrow.apache.org/docs/format/) lays them out.
    """
    capsule = schema.__arrow_c_schema__()  # which keeps the memory
    structure = ctypes.cast(_pointer_of(capsule, b"arrow_schema"), ctypes.POINTER(ctypes.c_void_p))
    at = structure[2]
    if not at:
        return

    def size() -> int:
        nonlocal at
        value = int.from_bytes(ctypes.string_at(at, 4), sys.byteorder, signed=True)
        at += 4
        return value

    def text() -> str:
        nonlocal at
        length = size()
        value = ctypes.string_at(at, length)
        at += length
        return value.decode()

    for _ in range(size()):
        key = text()
        yield key, text()
    del capsule
