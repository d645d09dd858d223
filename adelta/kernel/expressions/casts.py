"""Casts as Spark makes them in ANSI mode: right or an error, never NULL or wrapped in silence.

Each cast has a quick way through Arrow's kernels where these mean the same, and a way value by
value for the spellings that only Spark knows. With `is_try`, what does not fit is NULL.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of, scalar_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.coercion import is_numeric
from adelta.kernel.expressions.text_values import (
    FIRST_DAY,
    LAST_DAY,
    UTC_NAMES,
    format_day,
    format_timestamp,
    parse_day,
    parse_instant,
    parse_wall_clock,
    time_zone,
)
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.java_floats import float_text

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "can_cast",
    "cast_values",
    "instants_near",
    "instants_of",
    "never_fails",
    "wall_clock",
]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

_CHANGES_END = 2_145_916_800_000_000  # 2038: Arrow does not go on with a zone's last rule
_CALENDAR = 146_097 * 86_400_000_000  # 400 years, after which days of the week come again
_CALENDAR_BEGINS = -62_135_510_400_000_000  # the second day of year 1
_RULES_BEGIN = 4_102_444_800_000_000  # 2100: from here on all zones change by a rule
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_EXACT = Context(prec=100)
_PRODUCTS = Context(prec=34)  # as Scala multiplies decimals
_TIMES = (t.DATE, t.TIMESTAMP, t.TIMESTAMP_NTZ)
_INTEGERS = {t.BYTE: 8, t.SHORT: 16, t.INTEGER: 32, t.LONG: 64}
_MAX_DIGITS = 38  # of a decimal
_COMPACT = 18  # digits of decimals that Spark keeps as integers
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_FLOAT = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_NAMED_FLOATS = {
    **dict.fromkeys(("nan",), math.nan),
    **dict.fromkeys(("inf", "+inf", "infinity", "+infinity"), math.inf),
    **dict.fromkeys(("-inf", "-infinity"), -math.inf),
}
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_MICROS = 1_000_000
_FARTHEST_DAY = (1 << 63) // 86_400_000_000  # of timestamps, in days from 1970
_FIRST_INSTANT, _LAST_INSTANT = -(1 << 63), (1 << 63) - 1


def can_cast(source: t.DataType, to: t.DataType) -> bool:
    """Whether adelta casts between these types; it does so between those that Spark does."""
    if source in (to, t.VOID):
        return True
    if is_numeric(source):
        return is_numeric(to) or to in (t.STRING, t.BOOLEAN, t.TIMESTAMP)
    if source == t.STRING:
        return is_numeric(to) or to in (t.BOOLEAN, t.BINARY, *_TIMES)
    if source == t.BOOLEAN:
        return is_numeric(to) or to == t.STRING
    if source == t.TIMESTAMP:
        return is_numeric(to) or to in (t.STRING, *_TIMES)
    if source in (t.DATE, t.TIMESTAMP_NTZ):
        return to in (t.STRING, *_TIMES)
    return source == t.BINARY and to == t.STRING


def never_fails(source: pa.DataType, to: t.DataType) -> bool:
    """Whether every value of an Arrow type fits the type that it is cast to."""
    if to == t.STRING or pa.types.is_boolean(source) or pa.types.is_null(source):
        return True
    if pa.types.is_integer(source):
        if to in (t.DOUBLE, t.FLOAT):
            return True
        if isinstance(to, t.DecimalType):
            return _DIGITS[source.bit_width] <= to.precision - to.scale
        return isinstance(to, t.PrimitiveType) and source.bit_width <= _INTEGERS.get(to, 0)
    if pa.types.is_decimal(source):
        if isinstance(to, t.DecimalType):
            scales, digits = to.scale - source.scale, to.precision - source.precision
            return bool(digits >= scales >= 0)
        return to == t.DOUBLE
    if pa.types.is_floating(source):
        return to in (t.DOUBLE, t.FLOAT)
    return pa.types.is_temporal(source) and to in _TIMES


def cast_values(
    values: Values, to: t.DataType, *, zone: str = "UTC", is_try: bool = False
) -> Values:
    """`values` as another type.

    Raises:
        InvalidExpressionError: a value does not fit, and `is_try` is not given.
    """
    target = to_arrow_type(to)
    source = values.type
    if source == target:
        return values
    if pa.types.is_null(source):
        return arrow.nulls(len(values), target)
    if pa.types.is_string(source):
        return _from_string(values, to, target, zone, is_try)
    if to == t.STRING:
        return _to_string(values, zone)
    if pa.types.is_timestamp(source) or pa.types.is_date32(source):
        return _from_time(values, to, target, zone, is_try)
    if to == t.TIMESTAMP:
        return _number_to_timestamp(values, is_try)
    if to == t.BOOLEAN:
        return pc.not_equal(values, scalar_of(0, values.type))
    return _between_numbers(values, to, target, is_try)


# ------------------------------------------------------------------------------------ one by one


def _each(values: Values, convert: Callable[[Any], Any], to: t.DataType, is_try: bool) -> Values:
    """Convert value by value; None from `convert` is a value that does not fit.

    It gives dates and times as days and microseconds since 1970.
    """
    target = to_arrow_type(to)
    carrier = pa.int32() if to == t.DATE else pa.int64() if to in _TIMES else target
    out: list[Any] = []
    for value in values.to_pylist():
        made = None if value is None else convert(value)
        if made is None and value is not None and not is_try:
            _refuse(value, to)
        out.append(made)
    try:
        return pc.cast(column_of(out, carrier), target)
    except (pa.ArrowInvalid, OverflowError) as error:
        raise InvalidExpressionError(f"a value does not fit into {to}: {error}") from error


def _refuse(value: object, to: t.DataType) -> None:
    raise InvalidExpressionError(
        f"{value!r} cannot be cast to {to}: correct the value, or use TRY_CAST to get NULL"
    )


def _spoilt(values: Values, bad: Any, to: t.DataType, is_try: bool) -> Values:
    """`values` without those that are `bad`: NULL in their place, or an error that names one."""
    bad = pc.fill_null(bad, False)
    if not pc.any(bad, min_count=0).as_py():
        return values
    if not is_try:
        _refuse(values.filter(bad)[0].as_py(), to)
    return pc.if_else(bad, scalar_of(None, values.type), values)


# ----------------------------------------------------------------------------------- from string


def _from_string(
    values: Values, to: t.DataType, target: pa.DataType, zone: str, is_try: bool
) -> Values:
    if to == t.BINARY:
        return values.cast(target)
    encoded = pc.dictionary_encode(values)
    distinct = encoded.dictionary
    if (to in _INTEGERS and not pc.any(pc.match_substring_regex(distinct, "[xX]")).as_py()) or (
        to == t.DATE
    ):  # Arrow reads hexadecimal numbers, which Spark does not
        try:
            return pc.take(pc.cast(distinct, target), encoded.indices)
        except pa.ArrowInvalid:
            pass  # another spelling, or no value at all: look at each
    return pc.take(_each(distinct, _reader(to, zone), to, is_try), encoded.indices)


def _reader(to: t.DataType, zone: str) -> Callable[[str], Any]:
    if isinstance(to, t.DecimalType):
        return lambda text: _decimal_of_text(text, to)
    if to in (t.FLOAT, t.DOUBLE):
        return _float_of_text
    if to == t.BOOLEAN:
        return _boolean_of_text
    if to == t.DATE:
        return parse_day
    if to == t.TIMESTAMP:
        return lambda text: parse_instant(text, zone)
    if to == t.TIMESTAMP_NTZ:
        return parse_wall_clock
    limit = 1 << (_INTEGERS[to] - 1)  # type: ignore[index]  # what is left are the integers
    return lambda text: _integer_of_text(text, limit)


def _integer_of_text(text: str, limit: int) -> int | None:
    text = text.strip(_BLANK)
    if not _WHOLE.fullmatch(text) or len(text) > 100:
        return None
    value = int(text)
    return value if -limit <= value < limit else None


def _float_of_text(text: str) -> float | None:
    text = text.strip(_BLANK)
    if _FLOAT.fullmatch(text):
        return float(text.rstrip("dDfF"))
    return _NAMED_FLOATS.get(text.lower())


def _decimal_of_text(text: str, to: t.DecimalType) -> Decimal | None:
    text = text.strip(_BLANK)
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        return _fit_decimal(Decimal(text), to)
    except InvalidOperation:
        return None  # an exponent beyond all bounds


def _boolean_of_text(text: str) -> bool | None:
    text = text.strip(_BLANK).lower()
    return True if text in _TRUE else False if text in _FALSE else None


def _fit_decimal(value: Decimal, to: t.DecimalType) -> Decimal | None:
    """`value` with the digits of `to`, half rounded up; None where it has too many."""
    if value.adjusted() > to.precision:
        return None
    try:
        rounded = value.quantize(Decimal(1).scaleb(-to.scale), ROUND_HALF_UP, _EXACT)
    except InvalidOperation:
        return None
    return rounded if rounded.is_zero() or rounded.adjusted() < to.precision - to.scale else None


# ------------------------------------------------------------------------------------- to string


def _to_string(values: Values, zone: str) -> Values:
    source = values.type
    if pa.types.is_timestamp(source):
        if source.tz is not None:
            values = wall_clock(values, zone)
        encoded = values.dictionary_encode()
        micros = encoded.dictionary.cast(pa.timestamp("us")).cast(pa.int64())
        return _each(micros, format_timestamp, t.STRING, False).take(encoded.indices)
    if pa.types.is_date32(source):
        days = values.cast(pa.int32())
        if pc.any(
            pc.or_(pc.less(days, FIRST_DAY), pc.greater(days, LAST_DAY)), min_count=0
        ).as_py():
            return _each(days, format_day, t.STRING, False)
        return values.cast(pa.string())
    if pa.types.is_floating(source):
        single, encoded = pa.types.is_float32(source), values.dictionary_encode()
        texts = _each(encoded.dictionary, lambda v: float_text(v, single=single), t.STRING, False)
        return texts.take(encoded.indices)
    if pa.types.is_decimal(source):
        return _each(values, lambda v: f"{v:f}", t.STRING, False)
    if pa.types.is_binary(source):
        return _each(values, lambda v: v.decode("utf-8", "replace"), t.STRING, False)
    return values.cast(pa.string())


# --------------------------------------------------------------------------------- dates and times


def wall_clock(instants: Values, zone: str) -> Values:
    """What a clock in `zone` shows at these instants."""
    if zone in UTC_NAMES:
        return instants.cast(pa.timestamp("us"))
    there = time_zone(zone)

    def local(instant: datetime) -> datetime:
        return instant.replace(tzinfo=UTC).astimezone(there).replace(tzinfo=None)

    if _is_far(instants):
        return _by_calendar(instants, local).cast(pa.timestamp("us"))
    try:
        shown: Values = pc.local_timestamp(instants.cast(pa.timestamp("us", zone)))
        return shown
    except (pa.ArrowInvalid, pa.ArrowKeyError):  # an offset, not a region
        return _by_calendar(instants, local).cast(pa.timestamp("us"))


def instants_of(wall: Values, zone: str) -> Values:
    """When a clock in `zone` shows this: the earlier of two, and past a gap by the gap's length."""
    if zone in UTC_NAMES:
        return pc.cast(wall, pa.timestamp("us", "UTC"))
    there = time_zone(zone)

    def instant(shown: datetime) -> datetime:
        return shown.replace(tzinfo=there).astimezone(UTC).replace(tzinfo=None)

    if _is_far(wall):
        return _by_calendar(wall, instant).cast(pa.timestamp("us", "UTC"))
    try:
        found = pc.assume_timezone(wall, zone, ambiguous="earliest", nonexistent="raise")
        return found.cast(pa.timestamp("us", "UTC"))
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return _by_calendar(wall, instant).cast(pa.timestamp("us", "UTC"))


def instants_near(wall: Values, of: Values, shown: Values, zone: str) -> Values:
    """When a clock in `zone` shows `wall`, of which it is made at the instants `of`.

    These are those at which it has `shown` another time. Of two it is the one at which the clock is
    as far ahead as it is then, as Java has it.
    """
    found = instants_of(wall, zone)
    if zone in UTC_NAMES:
        return found
    ahead = pc.subtract(shown.cast(pa.int64()), of.cast(pa.int64()))
    alike = pc.subtract(pc.cast(wall, pa.timestamp("us")).cast(pa.int64()), ahead)
    differs = pc.not_equal(alike, found.cast(pa.int64()))
    if not pc.any(differs, min_count=0).as_py():
        return found
    alike = alike.cast(found.type)
    return pc.if_else(pc.equal(wall_clock(alike, zone), wall), alike, found)


def _by_calendar(times: Values, convert: Callable[[datetime], datetime]) -> Values:
    """Microseconds of times that Arrow does not convert, one by one, without a zone on both sides.

    Years that Python lacks go by others with the same calendar.
    """
    out: list[int | None] = []
    micros = pc.cast(times, pa.timestamp("us", times.type.tz)).cast(pa.int64())
    for value in micros.to_pylist():
        if value is None:
            out.append(None)
            continue
        cycles = 0
        if value >= _RULES_BEGIN:
            cycles = (value - _RULES_BEGIN) // _CALENDAR
        elif value < _CALENDAR_BEGINS:
            cycles = (value - _CALENDAR_BEGINS) // _CALENDAR
        found = convert(_EPOCH + timedelta(microseconds=value - cycles * _CALENDAR))
        out.append((found - _EPOCH) // _MICROSECOND + cycles * _CALENDAR)
    return column_of(out, pa.int64())


def _is_far(times: Values) -> bool:
    """Whether some are later than the changes of clocks that Arrow knows of."""
    latest = pc.max(times).cast(pa.int64()).as_py() if len(times) else None
    return latest is not None and latest >= _CHANGES_END


def _from_time(
    values: Values, to: t.DataType, target: pa.DataType, zone: str, is_try: bool
) -> Values:
    source = values.type
    if pa.types.is_date32(source):
        days = values.cast(pa.int32())
        far = pc.greater(pc.abs(days.cast(pa.int64())), _FARTHEST_DAY)
        values = _spoilt(values, far, to, is_try)
        midnight = pc.cast(pc.cast(values, pa.timestamp("s")), pa.timestamp("us"))
        return midnight if to == t.TIMESTAMP_NTZ else instants_of(midnight, zone)
    if to == t.DATE:
        wall = values if source.tz is None else wall_clock(values, zone)
        return pc.floor_temporal(wall, unit="day").cast(pa.date32())
    if to == t.TIMESTAMP:
        return instants_of(values, zone)
    if to == t.TIMESTAMP_NTZ:
        return wall_clock(values, zone)
    micros = values.cast(pa.int64())
    if to in (t.FLOAT, t.DOUBLE):
        return pc.divide(micros.cast(pa.float64(), safe=False), float(_MICROS)).cast(
            target, safe=False
        )
    if isinstance(to, t.DecimalType):
        return _each(micros, lambda v: _fit_decimal(Decimal(v).scaleb(-6), to), to, is_try)
    numbers = micros.to_numpy(zero_copy_only=False) if not micros.null_count else None
    if numbers is not None:
        seconds: Values = pa.array(np.floor_divide(numbers, _MICROS))
    else:
        seconds = column_of(
            [None if v is None else v // _MICROS for v in micros.to_pylist()], pa.int64()
        )
    return _between_numbers(seconds, to, target, is_try)


def _number_to_timestamp(values: Values, is_try: bool) -> Values:
    """Timestamps from seconds since 1970; values out of range are cast as Spark casts them."""

    def instant(seconds: Any) -> int | None:
        if isinstance(seconds, Decimal):  # Spark keeps the low 64 bits of the product.
            product = _PRODUCTS.multiply(seconds, _MICROS)
            micros = int(product.to_integral_value(ROUND_DOWN, _EXACT))
            return (micros + (1 << 63)) % (1 << 64) - (1 << 63)
        micros = seconds * _MICROS
        if isinstance(micros, float) and not abs(micros) <= -float(_FIRST_INSTANT):
            return None
        return max(_FIRST_INSTANT, min(int(micros), _LAST_INSTANT))

    return _each(values, instant, t.TIMESTAMP, is_try)


# --------------------------------------------------------------------------------------- numbers


def _between_numbers(values: Values, to: t.DataType, target: pa.DataType, is_try: bool) -> Values:
    source = values.type
    if isinstance(to, t.DecimalType):
        return _to_decimal(values, to, target, is_try)
    if to in (t.FLOAT, t.DOUBLE):
        if pa.types.is_decimal(source):
            return pc.cast(pc.cast(values, pa.string()), target)  # by its digits: correctly rounded
        return values.cast(target, safe=False)
    if pa.types.is_boolean(source):
        return values.cast(target)
    limit = 1 << (_INTEGERS[to] - 1)  # type: ignore[index]  # what is left are the integers
    if pa.types.is_floating(source):
        whole = pc.trunc(values.cast(pa.float64(), safe=False))
        below = pc.less(whole, float(limit))
        fits = pc.and_(pc.greater_equal(whole, float(-limit)), below)
        if to == t.LONG:  # As a double, the largest long is 2^63, which Spark casts to it.
            fits = pc.or_(fits, pc.equal(whole, float(limit)))
        kept = pc.trunc(_spoilt(values, pc.invert(fits), to, is_try))
        if to == t.LONG and pc.any(pc.invert(below), min_count=0).as_py():
            cut = pc.if_else(below, kept, scalar_of(0.0, kept.type)).cast(target)
            return pc.if_else(pc.equal(kept, float(limit)), limit - 1, cut)
        return kept.cast(target)
    if pa.types.is_decimal(source):
        by_double = to != t.LONG and source.precision > _COMPACT
        return _each(values, lambda v: _whole_of_decimal(v, limit, by_double), to, is_try)
    if source.bit_width > target.bit_width:
        low, high = scalar_of(-limit, source), scalar_of(limit - 1, source)
        bad = pc.or_(pc.less(values, low), pc.greater(values, high))
        values = _spoilt(values, bad, to, is_try)
    return values.cast(target)


def _whole_of_decimal(value: Decimal, limit: int, by_double: bool) -> int | None:
    """A decimal truncated to an integer, or None if it does not fit.

    Spark checks the range of wide decimals as doubles (`by_double`).
    """
    whole = int(value)
    if by_double and not (math.floor(float(value)) < limit and math.ceil(float(value)) >= -limit):
        return None
    return whole if -limit <= whole < limit else None


def _to_decimal(values: Values, to: t.DecimalType, target: pa.DataType, is_try: bool) -> Values:
    source = values.type
    if pa.types.is_boolean(source):
        values, source = values.cast(pa.int8()), pa.int8()
    if not pa.types.is_floating(source):
        try:
            return _rounded(values, to).cast(target)
        except pa.ArrowInvalid:
            pass  # A value does not fit. The cast of each value below finds which.

    def fit(value: Any) -> Decimal | None:
        if isinstance(value, float):
            if not math.isfinite(value):
                return None
            value = float_text(value)  # Spark converts a float to a double first.
        return _fit_decimal(Decimal(value), to)

    return _each(values, fit, to, is_try)


def _rounded(values: Values, to: t.DecimalType) -> Values:
    """Decimals with at most as many fractional digits as `to` has, rounded half up."""
    source = values.type
    if not pa.types.is_decimal(source) or source.scale <= to.scale:
        return values
    # Arrow rounds a decimal128 of 38 digits that needs one more digit to zero.
    kind = pa.decimal128 if source.precision < _MAX_DIGITS else pa.decimal256
    wider = values.cast(kind(source.precision + 1, source.scale))
    return pc.round(wider, ndigits=to.scale, round_mode="half_towards_infinity")
