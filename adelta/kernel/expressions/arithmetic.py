"""Arithmetic as Spark does it in ANSI mode: overflow and division by zero are errors."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_UP, Context, Decimal
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of, numpy_of, scalar_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.coercion import decimal_arithmetic
from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["arithmetic", "magnitude", "negate", "pmod", "round_half_up", "round_whole"]


Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

_CHECKED = {"+": "add_checked", "-": "subtract_checked", "*": "multiply_checked"}
_FLOATING = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_EXACT = Context(prec=160)
_MAX_PRECISION = 38
_LONG_END = float(1 << 63)
_MOST_DIGITS = 100  # rounding to more changes nothing that matters
_NO_FRACTION = 1e40


def arithmetic(op: str, left: Values, right: Values) -> Values:
    """``left op right`` for columns of one type, or of two decimal types.

    Raises:
        InvalidExpressionError: a result does not fit its type, or a divisor is zero.
    """
    if op in ("/", "%", "div"):
        _refuse_zero(left, right)
    if pa.types.is_decimal(left.type):
        return _decimal_arithmetic(op, left, right)
    if op == "%":
        return _remainder(left, right)
    if pa.types.is_floating(left.type):
        result: Values = getattr(pc, _FLOATING[op])(left, right)
        return result
    try:
        if op == "div":
            return pc.divide_checked(left, right)
        return getattr(pc, _CHECKED[op])(left, right)
    except pa.ArrowInvalid as error:
        raise InvalidExpressionError(
            f"{op} overflows {left.type}: cast the operands to a wider type"
        ) from error


def negate(values: Values) -> Values:
    """The values with their signs turned.

    Raises:
        InvalidExpressionError: a result does not fit its type.
    """
    if pa.types.is_floating(values.type) or pa.types.is_decimal(values.type):
        return pc.negate(values)
    return _unary("negate_checked", values)


def magnitude(values: Values) -> Values:
    """The absolute values.

    Raises:
        InvalidExpressionError: a result does not fit its type.
    """
    return pc.abs(values) if pa.types.is_floating(values.type) else _unary("abs_checked", values)


def pmod(left: Values, right: Values) -> Values:
    """The remainder with the divisor's sign taken out: ``pmod(-5, 3)`` is 1.

    Raises:
        InvalidExpressionError: a divisor is zero.
    """
    rest = arithmetic("%", left, right)
    if pa.types.is_decimal(rest.type):
        pairs = zip(rest.to_pylist(), right.to_pylist(), strict=True)
        return column_of([_lift(r, n) for r, n in pairs], rest.type)
    below = pc.less(rest, scalar_of(0, rest.type))
    return pc.if_else(below, _remainder(pc.add(rest, right), right), rest)


def _lift(rest: Decimal | None, divisor: Decimal) -> Decimal | None:
    if rest is None or rest >= 0:
        return rest
    return _EXACT.remainder(_EXACT.add(rest, divisor), divisor)


def _unary(kernel: str, values: Values) -> Values:
    try:
        result: Values = getattr(pc, kernel)(values)
    except pa.ArrowInvalid as error:
        raise InvalidExpressionError(
            f"{kernel.removesuffix('_checked')} overflows {values.type}: cast to a wider type"
        ) from error
    return result


def _refuse_zero(left: Values, right: Values) -> None:
    zero = pc.and_(pc.equal(right, scalar_of(0, right.type)), pc.is_valid(left))
    if pc.any(zero).as_py():
        raise InvalidExpressionError(
            "division by zero: guard the divisor with NULLIF(divisor, 0) or a CASE"
        )


def _remainder(left: Values, right: Values) -> Values:
    missing = pc.or_(pc.is_null(left), pc.is_null(right))
    one = scalar_of(1, right.type)
    filled = pc.fill_null(left, scalar_of(0, left.type)), pc.fill_null(right, one)
    divisor = pc.if_else(missing, one, filled[1])
    dividend, divisor = (numpy_of(a) for a in (filled[0], divisor))
    with np.errstate(invalid="ignore"):
        rest = np.fmod(dividend, divisor)
    return pa.array(rest, left.type, mask=missing.to_numpy(zero_copy_only=False))


# -------------------------------------------------------------------------------------- decimals


def _decimal_arithmetic(op: str, left: Values, right: Values) -> Values:
    kinds = [t.DecimalType(a.type.precision, a.type.scale) for a in (left, right)]
    if op == "div":
        return _each_pair(_integral, left, right, pa.int64())
    result = decimal_arithmetic(op, *kinds)
    target = pa.decimal128(result.precision, result.scale)
    if op in _CHECKED:
        try:
            made = getattr(pc, _CHECKED[op])(left, right)
            if made.type == target:
                return made
        except pa.ArrowInvalid:
            pass  # more than 38 digits on the way: with Python's decimals, then
    operation = {
        "+": _EXACT.add,
        "-": _EXACT.subtract,
        "*": _EXACT.multiply,
        "/": _EXACT.divide,
        "%": _EXACT.remainder,
    }[op]
    unit = Decimal(1).scaleb(-result.scale)
    whole = result.precision - result.scale

    def compute(a: Decimal, b: Decimal) -> Decimal:
        exact = operation(a, b).quantize(unit, ROUND_HALF_UP, _EXACT)
        if exact and exact.adjusted() >= whole:
            raise InvalidExpressionError(f"{a} {op} {b} does not fit into {result}")
        return exact

    return _each_pair(compute, left, right, target)


def _integral(a: Decimal, b: Decimal) -> int:
    whole = int(_EXACT.divide_int(a, b))
    if not -(1 << 63) <= whole < 1 << 63:
        raise InvalidExpressionError(f"{a} div {b} overflows long: divide with / instead")
    return whole


def _each_pair(
    compute: Callable[[Decimal, Decimal], Any], left: Values, right: Values, target: pa.DataType
) -> Values:
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    made = [None if a is None or b is None else compute(a, b) for a, b in pairs]
    return column_of(made, target)


# -------------------------------------------------------------------------------------- rounding


def round_whole(values: Values, *, up: bool) -> Values:
    """`floor` or `ceil`: a long, or a decimal without digits after the point.

    Raises:
        InvalidExpressionError: a result does not fit a long.
    """
    kind = values.type
    if pa.types.is_integer(kind):
        return values.cast(pa.int64())
    if pa.types.is_decimal(kind):
        digits = min(max(kind.precision - kind.scale + (kind.scale > 0), 1), _MAX_PRECISION)
        rounding = ROUND_CEILING if up else ROUND_FLOOR
        made = [
            None if v is None else v.quantize(Decimal(1), rounding, _EXACT)
            for v in values.to_pylist()
        ]
        return column_of(made, pa.decimal128(digits, 0))
    whole = (pc.ceil(values) if up else pc.floor(values)).cast(pa.float64())
    whole = pc.if_else(pc.is_nan(whole), 0.0, whole)  # Java's conversion to a long makes NaN zero
    fits = pc.and_(pc.greater_equal(whole, -_LONG_END), pc.less(whole, _LONG_END))
    if not pc.all(fits, min_count=0).as_py():
        raise InvalidExpressionError(f"{'ceil' if up else 'floor'} overflows long")
    return whole.cast(pa.int64())


def round_half_up(values: Values, digits: int) -> Values:
    """`round`: to `digits` after the point, half away from zero; negative counts before the point.

    Raises:
        InvalidExpressionError: a result does not fit its type.
    """
    kind = values.type
    digits = min(max(digits, -_MOST_DIGITS), _MOST_DIGITS)
    unit = Decimal(1).scaleb(-digits)
    if pa.types.is_integer(kind):
        if digits >= 0:
            return values
        made = [
            None if v is None else int(_quantized(Decimal(v), unit)) for v in values.to_pylist()
        ]
        try:
            return column_of(made, kind)
        except (pa.ArrowInvalid, OverflowError) as error:
            raise InvalidExpressionError(f"round overflows {kind}: cast to a wider type") from error
    if pa.types.is_decimal(kind):
        whole = kind.precision - kind.scale + 1
        kept = min(kind.scale, max(digits, 0))
        precision = max(whole, 1 - digits) if digits < 0 else whole + kept
        target = pa.decimal128(min(precision, _MAX_PRECISION), kept)
        if digits >= kind.scale:
            return values.cast(target)
        return column_of(
            [None if v is None else _quantized(v, unit) for v in values.to_pylist()], target
        )
    rounded = [None if v is None else _rounded_float(v, unit) for v in values.to_pylist()]
    return column_of(rounded, kind)


def _quantized(value: Decimal, unit: Decimal) -> Decimal:
    return value.quantize(unit, ROUND_HALF_UP, _EXACT)


def _rounded_float(number: float, unit: Decimal) -> float:
    if not math.isfinite(number) or abs(number) >= _NO_FRACTION:
        return number
    rounded = float(Decimal(repr(number)).quantize(unit, ROUND_HALF_UP, _EXACT))
    return rounded + 0.0  # Java's decimals have one zero
