"""Which single values a predicate asks for: what a Bloom filter can answer.

Only ``=``, ``<=>`` and IN of a data column and constants, joined by AND and OR, ask for values. A
cast of the column is looked through where it keeps different values apart.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeAlias

from adelta._dataclasses import dataclass
from adelta.kernel.expressions.coercion import INTEGERS
from adelta.kernel.expressions.nodes import And, Cast, Column, Comparison, In, Literal, Node, Or
from adelta.kernel.expressions.resolve import bind_predicate, type_of
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from adelta.kernel.expressions.nodes import LiteralValue

__all__ = ["AllOf", "AnyOf", "Condition", "Equals", "columns_asked", "may_hold", "wanted_values"]

_DIGITS = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 19}


@dataclass(frozen=True, slots=True)
class Equals:
    """The column has one of these values, none of which is null."""

    path: tuple[str, ...]
    values: tuple[LiteralValue, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """Some part holds."""

    parts: tuple[Condition, ...]


Condition: TypeAlias = Equals | AllOf | AnyOf


def wanted_values(
    predicate: Node, schema: t.StructType, partition_columns: Collection[str]
) -> Condition | None:
    """What must hold of the values of a row for which `predicate` is true.

    None where the predicate asks for no single values.

    Example: ``id = 5 AND (name IN ('a', 'b') OR name = 'c') AND x > 1`` asks for the value 5 of
    ``id`` and for one of three of ``name``.

    Raises:
        InvalidExpressionError: the predicate does not fit the schema.
    """
    partitions = {name.lower() for name in partition_columns}
    return _condition(bind_predicate(predicate, schema), schema, partitions)


def may_hold(
    condition: Condition, may_contain: Callable[[tuple[str, ...], LiteralValue], bool]
) -> bool:
    """Whether the condition may hold where `may_contain` says which values columns may have."""
    if isinstance(condition, Equals):
        return any(may_contain(condition.path, value) for value in condition.values)
    parts = (may_hold(part, may_contain) for part in condition.parts)
    return all(parts) if isinstance(condition, AllOf) else any(parts)


def columns_asked(condition: Condition) -> Iterator[tuple[str, ...]]:
    """The columns that the condition is about, some of them several times."""
    if isinstance(condition, Equals):
        yield condition.path
        return
    for part in condition.parts:
        yield from columns_asked(part)


def _condition(node: Node, schema: t.StructType, partitions: set[str]) -> Condition | None:
    match node:
        case And(operands):
            known = [_condition(one, schema, partitions) for one in operands]
            parts = tuple(part for part in known if part is not None)
            return AllOf(parts) if parts else None
        case Or(operands):
            known = [_condition(one, schema, partitions) for one in operands]
            parts = tuple(part for part in known if part is not None)
            return AnyOf(parts) if len(parts) == len(known) else None
        case Comparison("=" | "<=>", Literal() as literal, other):
            return _equals(other, (literal,), schema, partitions)
        case Comparison("=" | "<=>", other, Literal() as literal):
            return _equals(other, (literal,), schema, partitions)
        case In(operand, options):
            literals = tuple(one for one in options if isinstance(one, Literal))
            known_options = tuple(one for one in literals if one.value is not None)
            if len(literals) < len(options):
                return None
            return _equals(operand, known_options, schema, partitions)
    return None


def _equals(
    operand: Node, literals: tuple[Literal, ...], schema: t.StructType, partitions: set[str]
) -> Condition | None:
    while isinstance(operand, Cast) and _keeps_apart(
        type_of(operand.operand, schema), operand.type
    ):
        operand = operand.operand
    if not isinstance(operand, Column) or any(one.value is None for one in literals):
        return None
    path = operand.path
    if len(path) == 1 and path[0].lower() in partitions:
        return None
    return Equals(path, tuple(map(_value, literals)))


def _value(literal: Literal) -> LiteralValue:
    """The constant as rows are compared with it."""
    value = literal.value
    if literal.type == t.FLOAT and isinstance(value, float):
        try:
            rounded: float = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            return float("inf") if value > 0 else float("-inf")
        return rounded
    return value


def _keeps_apart(source: t.DataType, to: t.DataType) -> bool:
    """Whether the cast never fails and makes no two different values equal."""
    if source in INTEGERS and to in INTEGERS:
        return INTEGERS.index(to) >= INTEGERS.index(source)
    if source in INTEGERS and isinstance(to, t.DecimalType):
        return to.precision - to.scale >= _DIGITS[source]
    if source in INTEGERS:
        return to == t.DOUBLE and source != t.LONG
    if isinstance(source, t.DecimalType) and isinstance(to, t.DecimalType):
        whole = source.precision - source.scale
        return to.scale >= source.scale and to.precision - to.scale >= whole
    return source == t.FLOAT and to == t.DOUBLE
