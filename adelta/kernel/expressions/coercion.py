"""Which type two values of different types meet in: Spark's implicit casts in ANSI mode, as tables.

Pure functions over types. None says that Spark has no such cast, and the expression is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "FRACTIONS",
    "INTEGERS",
    "common_type",
    "decimal_arithmetic",
    "decimal_of_integer",
    "is_atomic",
    "is_numeric",
    "widest",
]

INTEGERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
FRACTIONS = (t.FLOAT, t.DOUBLE)
_ORDER = (*INTEGERS, *FRACTIONS)
_TIMES = (t.DATE, t.TIMESTAMP_NTZ, t.TIMESTAMP)
_ATOMIC = {*_ORDER, *_TIMES, t.STRING, t.BINARY, t.BOOLEAN}
_DIGITS = {t.BYTE: 3, t.SHORT: 5, t.INTEGER: 10, t.LONG: 20}
_MAX_PRECISION = 38
_MIN_SCALE = 6


def is_numeric(data_type: t.DataType) -> bool:
    """Whether arithmetic is for this type."""
    return isinstance(data_type, t.DecimalType) or data_type in _ORDER


def is_atomic(data_type: t.DataType) -> bool:
    """Whether values of this type can be compared."""
    return isinstance(data_type, t.DecimalType) or data_type in _ATOMIC


def decimal_of_integer(data_type: t.DataType) -> t.DecimalType | None:
    """The decimal type that holds every value of an integral type; None for other types."""
    digits = _DIGITS.get(data_type) if isinstance(data_type, t.PrimitiveType) else None
    return None if digits is None else t.DecimalType(digits, 0)


def common_type(left: t.DataType, right: t.DataType) -> t.DataType | None:
    """The type that values of both types are cast to before they meet, or None.

    Example: an integer and a float meet as double, a string and a date as date.
    """
    if left == right:
        return left
    if t.VOID in (left, right):
        return right if left == t.VOID else left
    for one, other in ((left, right), (right, left)):
        if one == t.STRING:
            return _with_string(other) if is_atomic(other) else None
    for one, other in ((left, right), (right, left)):
        if isinstance(one, t.DecimalType):
            return _with_decimal(one, other)
    if left in _ORDER and right in _ORDER:
        wider = max(left, right, key=_ORDER.index)
        return t.DOUBLE if wider == t.FLOAT else wider
    if left in _TIMES and right in _TIMES:
        return max(left, right, key=_TIMES.index)
    return None


def widest(types: Iterable[t.DataType]) -> t.DataType | None:
    """The type that values of all these types are cast to before they meet, or None.

    Strings come first, as in Spark, so that the order of the values does not matter.
    """
    found: t.DataType | None = t.VOID
    for data_type in sorted(dict.fromkeys(types), key=lambda one: one != t.STRING):
        found = None if found is None else common_type(found, data_type)
    return found


def decimal_arithmetic(op: str, left: t.DecimalType, right: t.DecimalType) -> t.DecimalType:
    """The type of ``left op right``: exact where 38 digits suffice, else with a smaller scale."""
    p1, s1, p2, s2 = left.precision, left.scale, right.precision, right.scale
    match op:
        case "*":
            precision, scale = p1 + p2 + 1, s1 + s2
        case "/":
            scale = max(_MIN_SCALE, s1 + p2 + 1)
            precision = p1 - s1 + s2 + scale
        case "%":
            scale = max(s1, s2)
            precision = min(p1 - s1, p2 - s2) + scale
        case _:
            scale = max(s1, s2)
            precision = max(p1 - s1, p2 - s2) + scale + 1
    if precision <= _MAX_PRECISION:
        return t.DecimalType(precision, scale)
    whole = precision - scale
    return t.DecimalType(_MAX_PRECISION, max(_MAX_PRECISION - whole, min(scale, _MIN_SCALE)))


def _with_string(other: t.DataType) -> t.DataType:
    if other in INTEGERS:
        return t.LONG
    return t.DOUBLE if is_numeric(other) else other


def _with_decimal(one: t.DecimalType, other: t.DataType) -> t.DataType | None:
    if other in FRACTIONS:
        return t.DOUBLE
    decimal = other if isinstance(other, t.DecimalType) else decimal_of_integer(other)
    if decimal is None:
        return None
    scale = max(one.scale, decimal.scale)
    whole = max(one.precision - one.scale, decimal.precision - decimal.scale)
    return t.DecimalType(min(whole + scale, _MAX_PRECISION), min(scale, _MAX_PRECISION))
