"""Constants: what number, string and typed literals of Spark SQL stand for, and those of Python.

`literal_of` gives a Python value the type that Spark would give it; the parser's functions read the
literals of SQL text.
"""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.nodes import Cast, Literal, LiteralValue, Node
from adelta.kernel.expressions.text_values import (
    parse_date,
    parse_day,
    parse_instant,
    parse_timestamp,
    parse_timestamp_ntz,
    parse_wall_clock,
)
from adelta.kernel.schema import types as t

__all__ = [
    "NULL",
    "bytes_literal",
    "decimal_type_of",
    "literal_of",
    "number_literal",
    "typed_literal",
]

NULL = Literal(None, t.VOID)

_MAX_PRECISION = 38
_INTEGRAL_SUFFIXES = {"L": (t.LONG, 63), "S": (t.SHORT, 15), "Y": (t.BYTE, 7)}


def literal_of(value: LiteralValue) -> Literal:
    """The literal of a Python value, with the type that Spark gives such a literal.

    Raises:
        InvalidExpressionError: the value is of no type that a column can have.
    """
    match value:
        case None:
            return NULL
        case bool():
            return Literal(value, t.BOOLEAN)
        case int():
            return _integer(value, str(value))
        case float():
            return Literal(value, t.DOUBLE)
        case Decimal():
            return _decimal(str(value))
        case str():
            return Literal(value, t.STRING)
        case bytes():
            return Literal(value, t.BINARY)
        case datetime():
            return Literal(value, t.TIMESTAMP_NTZ if value.tzinfo is None else t.TIMESTAMP)
        case date():
            return Literal(value, t.DATE)
    raise InvalidExpressionError(
        f"{value!r} is a {type(value).__name__}, which no column can hold: compare with a bool, "
        "int, float, Decimal, str, bytes, date or datetime"
    )


def number_literal(text: str, *, negative: bool = False) -> Literal:
    """The literal of a number as SQL text writes it: ``7``, ``7L``, ``1.5``, ``1.5BD``, ``1e3``.

    Raises:
        InvalidExpressionError: the number is too large for its type.
    """
    signed = f"-{text}" if negative else text
    suffix = text[-2:].upper()
    if suffix == "BD":
        return _decimal(signed[:-2])
    suffix = suffix[-1]
    if suffix in "DF":
        return _float(signed[:-1], t.DOUBLE if suffix == "D" else t.FLOAT)
    if suffix in _INTEGRAL_SUFFIXES:
        data_type, bits = _INTEGRAL_SUFFIXES[suffix]
        try:
            whole = int(signed[:-1])
        except ValueError as error:
            raise InvalidExpressionError(
                f"{signed} is no {data_type}: it has a fraction"
            ) from error
        if not -(1 << bits) <= whole < 1 << bits:
            raise InvalidExpressionError(f"{signed} is outside the range of {data_type}")
        return Literal(whole, data_type)
    if "e" in text or "E" in text:
        return _float(signed, t.DOUBLE)
    if "." in text:
        return _decimal(signed)
    return _integer(int(signed) if len(signed) < 60 else None, signed)


def typed_literal(keyword: str, text: str, zone: str) -> Node:
    """The literal of ``DATE '…'``, ``TIMESTAMP '…'`` and so on, given keyword and text.

    It is a cast of the text where Python's `date` or `datetime` does not hold the value.

    Raises:
        InvalidExpressionError: the text is no such value.
    """
    value: LiteralValue
    if keyword == "DATE":
        value, number, data_type = parse_date(text), parse_day(text), t.DATE
    elif keyword == "TIMESTAMP_NTZ":
        value, number = parse_timestamp_ntz(text), parse_wall_clock(text)
        data_type = t.TIMESTAMP_NTZ
    else:
        value, number = parse_timestamp(text, zone), parse_instant(text, zone)
        data_type = t.TIMESTAMP
    if value is None and number is not None:
        return Cast(Literal(text, t.STRING), data_type)
    if value is None:
        raise InvalidExpressionError(
            f"{keyword} '{text}' is no {data_type}: write it as '2024-01-31'"
            + ("" if keyword == "DATE" else " or '2024-01-31 12:30:00'")
        )
    return Literal(value, data_type)


def bytes_literal(digits: str) -> Literal:
    """The literal of ``X'…'``, given the digits.

    Raises:
        InvalidExpressionError: they are not hexadecimal.
    """
    try:
        return Literal(bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}"), t.BINARY)
    except ValueError as error:
        raise InvalidExpressionError(f"X'{digits}' holds what is no hexadecimal digit") from error


def decimal_type_of(value: Decimal) -> t.DecimalType | None:
    """The narrowest decimal type that holds `value` as it is written, or None where none does."""
    if not value.is_finite():
        return None
    _, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    scale = max(0, -exponent)
    precision = max(len(digits) + max(0, exponent), scale)
    return t.DecimalType(precision, scale) if precision <= _MAX_PRECISION else None


def _integer(value: int | None, text: str) -> Literal:
    if value is not None and -(1 << 31) <= value < 1 << 31:
        return Literal(value, t.INTEGER)
    if value is not None and -(1 << 63) <= value < 1 << 63:
        return Literal(value, t.LONG)
    return _decimal(text)


def _float(text: str, data_type: t.PrimitiveType) -> Literal:
    value = float(text)
    if math.isinf(value):
        raise InvalidExpressionError(f"{text[:60]} is outside the range of {data_type}")
    return Literal(value, data_type)


def _decimal(text: str) -> Literal:
    try:
        value = Decimal(text)
        data_type = decimal_type_of(value)
    except InvalidOperation:
        data_type = None  # an exponent beyond all bounds
    if data_type is None:
        raise InvalidExpressionError(
            f"{text[:60]} has more than the {_MAX_PRECISION} digits of a decimal; write it with an "
            "exponent to make it a double"
        )
    return Literal(value, data_type)
