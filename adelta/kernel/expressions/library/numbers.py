"""Functions of numbers whose values are exact: the same bits as Java's."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.library._function import (
    DOUBLE,
    INT,
    LONG,
    Function,
    Parameter,
    Values,
    any_of,
    per_row,
)
from adelta.kernel.schema import types as t

__all__ = ["NUMBERS"]


_DEGREES = 57.29577951308232
_RADIANS = 0.017453292519943295
_EXACT = Context(prec=160)
_INTEGRAL = any_of(t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_SHIFTED = Parameter((t.INTEGER, t.LONG), t.INTEGER)
_MOST_DIGITS = 100
_FLOATING = Parameter((t.FLOAT, t.DOUBLE), t.DOUBLE)


def _floats(function: Any, values: Values) -> Values:
    missing = values.is_null()
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):
        made = function(numbers)
    return pa.array(made, pa.float64(), mask=missing.to_numpy(zero_copy_only=False))


def _sign(numbers: Any) -> Any:
    return np.where(numbers == 0, numbers, np.sign(numbers))


def _factorial(values: Values) -> Values:
    made = [
        None if v is None or not 0 <= v <= 20 else math.factorial(v) for v in values.to_pylist()
    ]
    return column_of(made, pa.int64())


def _bin(number: int) -> str:
    return f"{number & 0xFFFF_FFFF_FFFF_FFFF:b}"


def _bit_count(values: Values) -> Values:
    if pa.types.is_boolean(values.type):
        return values.cast(pa.int32())
    return per_row(t.INTEGER, lambda v: (v & 0xFFFF_FFFF_FFFF_FFFF).bit_count(), values)


def _getbit(values: Values, place: Values) -> Values:
    width = values.type.bit_width

    def one(number: int, bit: int) -> int:
        if not 0 <= bit < width:
            raise InvalidExpressionError(f"getbit: there are the bits 0 to {width - 1}, not {bit}")
        return number >> bit & 1

    return per_row(t.BYTE, one, values, place)


def _wrapped(number: int, width: int) -> int:
    number &= (1 << width) - 1
    return number - (1 << width) if number >> (width - 1) else number


def _shift(values: Values, by: Values, *, kind: str) -> Values:
    width = values.type.bit_width

    def one(number: int, places: int) -> int:
        places &= width - 1
        if kind == "left":
            return _wrapped(number << places, width)
        if kind == "unsigned":
            return _wrapped((number & ((1 << width) - 1)) >> places, width)
        return number >> places

    return per_row(t.LONG if width == 64 else t.INTEGER, one, values, by)


def _shifted(kinds: tuple[t.DataType, ...]) -> t.DataType:
    return t.LONG if kinds[0] == t.LONG else t.INTEGER


def _nanvl(values: Values, other: Values) -> Values:
    return pc.if_else(pc.is_nan(values), other, values)


def _both_floats(kinds: tuple[t.DataType, ...]) -> tuple[t.DataType, ...]:
    one = t.FLOAT if set(kinds) == {t.FLOAT} else t.DOUBLE
    return (one, one)


def _bround(values: Values, digits: int = 0) -> Values:
    digits = min(max(digits, -_MOST_DIGITS), _MOST_DIGITS)
    unit = Decimal(1).scaleb(-digits)

    def one(number: float) -> float:
        if not math.isfinite(number) or abs(number) >= 1e40:
            return number
        rounded = float(Decimal(repr(number)).quantize(unit, ROUND_HALF_EVEN, _EXACT))
        return rounded + 0.0  # Java's decimals have one zero

    return per_row(t.DOUBLE, one, values)


def _double(name: str, example: str, function: Any) -> Function:
    return Function(
        group="numbers",
        example=example,
        parameters=(DOUBLE,),
        result=t.DOUBLE,
        compute=lambda v: _floats(function, v),
    )


NUMBERS = {
    "bin": Function(
        group="bits",
        example="bin(-5)",
        parameters=(LONG,),
        result=t.STRING,
        compute=lambda v: per_row(t.STRING, _bin, v),
    ),
    "bit_count": Function(
        group="bits",
        example="bit_count(-1)",
        parameters=(any_of(t.BOOLEAN, t.BYTE, t.SHORT, t.INTEGER, t.LONG),),
        result=t.INTEGER,
        compute=_bit_count,
    ),
    "bround": Function(
        group="numbers",
        example="bround(2.5D)",
        parameters=(Parameter((t.DOUBLE,)), INT),
        optional=1,
        constants=(1,),
        result=t.DOUBLE,
        compute=_bround,
    ),
    "degrees": _double("degrees", "degrees(3.5D)", lambda x: x * _DEGREES),
    "factorial": Function(
        group="numbers",
        example="factorial(5)",
        parameters=(INT,),
        result=t.LONG,
        compute=_factorial,
    ),
    "getbit": Function(
        group="bits",
        example="getbit(11, 2)",
        parameters=(_INTEGRAL, INT),
        result=t.BYTE,
        compute=_getbit,
        safe=False,
    ),
    "nanvl": Function(
        group="numbers",
        example="nanvl(CAST('NaN' AS DOUBLE), 1.5D)",
        parameters=(_FLOATING, _FLOATING),
        fits=_both_floats,
        result=lambda kinds: kinds[0],
        compute=_nanvl,
        tolerant=True,
    ),
    "radians": _double("radians", "radians(90.0D)", lambda x: x * _RADIANS),
    "rint": _double("rint", "rint(2.5D)", np.rint),
    "shiftleft": Function(
        group="bits",
        example="shiftleft(1, 33)",
        parameters=(_SHIFTED, INT),
        result=_shifted,
        compute=lambda v, by: _shift(v, by, kind="left"),
    ),
    "shiftright": Function(
        group="bits",
        example="shiftright(-8, 1)",
        parameters=(_SHIFTED, INT),
        result=_shifted,
        compute=lambda v, by: _shift(v, by, kind="right"),
    ),
    "shiftrightunsigned": Function(
        group="bits",
        example="shiftrightunsigned(-8, 1)",
        parameters=(_SHIFTED, INT),
        result=_shifted,
        compute=lambda v, by: _shift(v, by, kind="unsigned"),
    ),
    "sign": _double("sign", "sign(-2.5D)", _sign),
    "sqrt": _double("sqrt", "sqrt(2.0D)", np.sqrt),
}
