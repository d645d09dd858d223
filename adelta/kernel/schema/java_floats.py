"""Floating-point numbers as text, digit for digit as Java 17 prints them.

Spark casts floats to strings and to decimals by `Double.toString` and `Float.toString`. Up to Java
18 these may print more digits than are needed to identify a number: the float 2^31 is
``2.14748365E9`` there, and ``2.1474836E9`` in later releases.
"""

from __future__ import annotations

import math
import struct

__all__ = ["float_text"]

_DOUBLE_BITS = 53  # of a significand
_FLOAT_BITS = 24
_LARGEST_SMALL_EXPONENT, _SMALLEST_SMALL_EXPONENT = 62, -21
_INT_BITS, _LONG_BITS = 32, 64
_POWERS_OF_FIVE = 27  # whose numbers of bits Java looks up; it estimates the others


def float_text(value: float, *, single: bool = False) -> str:
    """A double, or with `single` a float, as Java 17 prints it.

    Example: ``1.0``, ``1.0E10``, ``NaN``, ``-Infinity``.
    """
    if math.isnan(value):
        return "NaN"
    sign = "-" if math.copysign(1.0, value) < 0 else ""
    if math.isinf(value):
        return f"{sign}Infinity"
    if value == 0:
        return f"{sign}0.0"
    digits, point = _digits(*_significand(abs(value), single=single))
    if 0 < point <= 7:
        padded = digits.ljust(point, "0")
        return f"{sign}{padded[:point]}.{padded[point:] or '0'}"
    if -2 <= point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{point - 1}"


def _significand(value: float, *, single: bool) -> tuple[int, int, int]:
    """A positive number as (significand of 53 bits, exponent of its first bit, exact bits)."""
    bits, bias, width = _DOUBLE_BITS, 1023, 64
    if single:
        bits, bias, width = _FLOAT_BITS, 127, 32
    (raw,) = struct.unpack("<I" if single else "<Q", struct.pack("<f" if single else "<d", value))
    exponent = (raw >> (bits - 1)) & ((1 << (width - bits)) - 1)
    fraction = raw & ((1 << (bits - 1)) - 1)
    exact = bits
    if exponent == 0:  # a subnormal number
        exact = fraction.bit_length()
        fraction <<= bits - exact
        exponent = 1 - (bits - exact)
    else:
        fraction |= 1 << (bits - 1)
    return fraction << (_DOUBLE_BITS - bits), exponent - bias, exact


def _digits(fraction: int, exponent: int, exact: int) -> tuple[str, int]:
    """The decimal digits, and how many of them are before the decimal point."""
    trailing = (fraction & -fraction).bit_length() - 1
    num_bits = _DOUBLE_BITS - trailing
    num_tiny = max(0, num_bits - exponent - 1)  # bits behind the binary point
    if num_tiny == 0 and exponent <= _LARGEST_SMALL_EXPONENT and num_bits < _LONG_BITS:
        return _whole_digits(fraction, exponent, exact)
    return _shortened(fraction >> trailing, exponent, exact, num_bits, num_tiny)


def _whole_digits(fraction: int, exponent: int, exact: int) -> tuple[str, int]:
    """The digits of an integer below 2^63, without those that its precision does not determine."""
    shift = exponent - (_DOUBLE_BITS - 1)
    whole = fraction << shift if shift >= 0 else fraction >> -shift
    dropped = 0
    if exponent > exact and (open_bits := exponent - exact - 1) > 1:
        dropped = len(str(1 << open_bits)) - 1
        power = 10**dropped
        whole, rest = divmod(whole, power)
        whole += bool(dropped) and rest >= power // 2
    text = str(whole)
    return text.rstrip("0"), len(text) + dropped


def _shortened(
    fraction: int, exponent: int, exact: int, num_bits: int, num_tiny: int
) -> tuple[str, int]:
    """The digits by long division, up to the first that identifies the number."""
    place = _estimated_place(fraction, exponent, num_bits)
    value_fives, scale_fives = max(0, -place), max(0, place)
    value_twos, scale_twos = value_fives + num_tiny + exponent, scale_fives + num_tiny
    margin_twos = value_twos - exact
    value_twos -= num_bits - 1
    common = min(value_twos, scale_twos)
    value_twos, scale_twos, margin_twos = (
        value_twos - common,
        scale_twos - common,
        margin_twos - common,
    )
    if num_bits == 1:  # Below a power of two, the next number is half as far away.
        margin_twos -= 1
    if margin_twos < 0:
        value_twos, scale_twos, margin_twos = (
            value_twos - margin_twos,
            scale_twos - margin_twos,
            0,
        )
    bits = max(
        num_bits + value_twos + _bits_of_fives(value_fives),
        scale_twos + 1 + _bits_of_fives(scale_fives + 1),
    )
    # Java computes with machine integers where it can, and these overflow.
    width = _INT_BITS if bits < _INT_BITS else _LONG_BITS if bits < _LONG_BITS else None
    value = fraction * 5**value_fives << value_twos
    scale = 5**scale_fives << scale_twos
    margin = 5**value_fives << margin_twos
    tens = scale * 10
    digits: list[int] = []

    def step() -> tuple[int, bool, bool]:
        nonlocal value, margin
        digit, rest = divmod(value, scale)
        value, margin = rest * 10, margin * 10
        if width is None:
            return digit, value < margin, value + margin >= tens
        margin = _wrapped(margin, width)
        if margin <= 0:
            return digit, True, True
        return digit, value < margin, _wrapped(value + margin, width) > tens

    digit, low, high = step()
    if digit == 0 and not high:
        place -= 1
    else:
        digits.append(digit)
    if not -3 <= place < 8:  # The exponent form has at least two digits.
        low = high = False
    while not (low or high):
        digit, low, high = step()
        digits.append(digit)
    twice = value * 2 - tens if width is None else _wrapped(value * 2 - tens, width)
    if high and (not low or twice > 0 or (twice == 0 and digits[-1] % 2)):
        text = str(int("".join(map(str, digits))) + 1).rjust(len(digits), "0")
        place += len(text) - len(digits)
    else:
        text = "".join(map(str, digits))
    return text.rstrip("0") or "0", place + 1


def _wrapped(number: int, width: int) -> int:
    half = 1 << (width - 1)
    return (number + half) % (2 * half) - half


def _estimated_place(fraction: int, exponent: int, num_bits: int) -> int:
    leading = fraction / (1 << (num_bits - 1))  # at least 1, less than 2
    return math.floor((leading - 1.5) * 0.289529654 + 0.176091259 + exponent * 0.301029995663981)


def _bits_of_fives(power: int) -> int:
    if power == 0:
        return 0
    return (5**power).bit_length() if power < _POWERS_OF_FIVE else power * 3
