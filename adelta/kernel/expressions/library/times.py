"""Functions of dates and times: as counts since the epoch, by names, by parts, in other zones."""

from __future__ import annotations

from datetime import date
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of, scalar_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.casts import instants_of, wall_clock
from adelta.kernel.expressions.library._function import (
    DATE,
    INT,
    LONG,
    STRING,
    TIME,
    Function,
    Parameter,
    Values,
    any_of,
    per_row,
)
from adelta.kernel.expressions.text_values import time_zone
from adelta.kernel.schema import types as t

__all__ = ["TIMES"]


_SECOND, _MILLISECOND = 1_000_000, 1_000
_DAY = 86_400 * _SECOND
_DAYS = {
    **dict.fromkeys(("MO", "MON", "MONDAY"), 0),
    **dict.fromkeys(("TU", "TUE", "TUESDAY"), 1),
    **dict.fromkeys(("WE", "WED", "WEDNESDAY"), 2),
    **dict.fromkeys(("TH", "THU", "THURSDAY"), 3),
    **dict.fromkeys(("FR", "FRI", "FRIDAY"), 4),
    **dict.fromkeys(("SA", "SAT", "SATURDAY"), 5),
    **dict.fromkeys(("SU", "SUN", "SUNDAY"), 6),
}
_DAY_NAMES = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTH_NAMES = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_EXACT = Context(prec=60)
_THURSDAY = 3  # the day of the week of the epoch, Monday being 0


def _floored(values: Values, by: int) -> Values:
    micros = values.cast(pa.int64())
    down = pc.subtract(pc.divide(micros, by), 1)
    whole = pc.divide(micros, by)
    below = pc.and_(pc.less(micros, 0), pc.not_equal(pc.multiply(whole, by), micros))
    return pc.if_else(below, down, whole)


def _instants(values: Values, unit: int) -> Values:
    try:
        micros = pc.multiply_checked(values.cast(pa.int64()), unit)
    except pa.ArrowInvalid as error:
        raise InvalidExpressionError("the instant overflows the range of timestamps") from error
    return micros.cast(pa.timestamp("us", "UTC"))


def _timestamp_seconds(values: Values) -> Values:
    if pa.types.is_integer(values.type):
        return _instants(values, _SECOND)

    def micros(seconds: Decimal) -> int:
        exact = _EXACT.multiply(seconds, Decimal(_SECOND))
        whole = int(exact)
        if whole != exact or not -(1 << 63) <= whole < 1 << 63:
            raise InvalidExpressionError(
                f"timestamp_seconds: {seconds} seconds are no whole number of microseconds, or too "
                "many"
            )
        return whole

    return per_row(t.LONG, micros, values).cast(pa.timestamp("us", "UTC"))


def _dates(values: Values) -> Values:
    return values.cast(pa.int32()).cast(pa.date32())


def _make_date(year: Values, month: Values, day: Values) -> Values:
    def one(y: int, m: int, d: int) -> date:
        try:
            return date(y, m, d)
        except ValueError as error:
            raise InvalidExpressionError(f"make_date: {y}-{m}-{d} is no date: {error}") from error

    return per_row(t.DATE, one, year, month, day)


def _next_day(values: Values, day: Values) -> Values:
    def one(number: int, name: str) -> int:
        wanted = _DAYS.get(name.upper())
        if wanted is None:
            raise InvalidExpressionError(f"next_day: {name!r} is no day of the week")
        return number + 1 + (wanted - (number + 1 + _THURSDAY)) % 7

    return per_row(t.INTEGER, one, values.cast(pa.int32()), day).cast(pa.date32())


def _named(values: Values, names: tuple[str, ...], place: Any, zone: str) -> Values:
    kind = values.type
    if pa.types.is_timestamp(kind):
        values = values if kind.tz is None else wall_clock(values, zone)
    else:
        values = values.cast(pa.timestamp("s"))
    return column_of(names, pa.string()).take(place(values))


def _dayname(values: Values, *, zone: str) -> Values:
    return _named(values, _DAY_NAMES, lambda v: pc.day_of_week(v), zone)


def _monthname(values: Values, *, zone: str) -> Values:
    return _named(values, _MONTH_NAMES, lambda v: pc.subtract(pc.month(v), 1), zone)


def _months_between(end: Values, start: Values, rounds: Any = True, *, zone: str) -> Values:
    parts = []
    for side in (end, start):
        wall = wall_clock(side, zone)
        months = pc.add(pc.multiply(pc.year(wall), 12), pc.month(wall))
        midnight = pc.floor_temporal(wall, unit="day")
        of_day = pc.subtract(side.cast(pa.int64()), instants_of(midnight, zone).cast(pa.int64()))
        length = pc.day(_last_day(wall))
        parts.append((months, pc.day(wall), length, pc.divide(of_day, _SECOND)))
    (m1, d1, e1, s1), (m2, d2, e2, s2) = parts
    apart = pc.subtract(m1, m2).cast(pa.float64())
    whole = pc.or_(pc.equal(d1, d2), pc.and_(pc.equal(d1, e1), pc.equal(d2, e2)))
    days = pc.add(pc.multiply(pc.subtract(d1, d2), 86_400), pc.subtract(s1, s2))
    rest = pc.divide(days.cast(pa.float64()), float(31 * 86_400))
    found = pc.if_else(whole, apart, pc.add(apart, rest))
    if not rounds:
        return found

    return pc.divide(pc.floor(pc.add(pc.multiply(found, 1e8), 0.5)), 1e8)


def _last_day(wall: Values) -> Values:
    return pc.subtract(
        pc.ceil_temporal(wall, unit="month", ceil_is_strictly_greater=True),
        scalar_of(np.timedelta64(_SECOND, "us"), pa.duration("us")),
    )


def _known_zone(name: str) -> str:
    time_zone(name)
    return name


def _from_utc(values: Values, name: str) -> Values:
    return wall_clock(values, _known_zone(name)).cast(pa.timestamp("us", "UTC"))


def _to_utc(values: Values, name: str) -> Values:
    return instants_of(values.cast(pa.timestamp("us")), _known_zone(name))


_SECONDS = Parameter((t.INTEGER, t.LONG), t.LONG, t.DecimalType)
_DAY_OR_TIME = any_of(t.TIMESTAMP, t.TIMESTAMP_NTZ, t.DATE)


def _counted(name: str, unit: int) -> Function:
    return Function(
        group="dates and times",
        example=f"{name}(TIMESTAMP '1969-12-31 23:59:59.5Z')",
        parameters=(any_of(t.TIMESTAMP_NTZ, t.TIMESTAMP),),  # of what a clock shows, as if in UTC
        result=t.LONG,
        compute=lambda v: _floored(v, unit),
    )


def _made(name: str, example: str, unit: int) -> Function:
    return Function(
        group="dates and times",
        example=example,
        parameters=(LONG,),
        result=t.TIMESTAMP,
        compute=lambda v: _instants(v, unit),
        safe=False,
    )


TIMES = {
    "date_from_unix_date": Function(
        group="dates and times",
        example="date_from_unix_date(-1)",
        parameters=(INT,),
        result=t.DATE,
        compute=_dates,
    ),
    "dayname": Function(
        group="dates and times",
        example="dayname(DATE '2024-02-29')",
        parameters=(_DAY_OR_TIME,),
        result=t.STRING,
        compute=_dayname,
        zoned=True,
    ),
    "from_utc_timestamp": Function(
        group="dates and times",
        example="from_utc_timestamp(TIMESTAMP '2024-01-01 00:00:00Z', 'Asia/Tokyo')",
        parameters=(TIME, STRING),
        constants=(1,),
        result=t.TIMESTAMP,
        compute=_from_utc,
        safe=False,
    ),
    "make_date": Function(
        group="dates and times",
        example="make_date(2024, 2, 29)",
        parameters=(INT, INT, INT),
        result=t.DATE,
        compute=_make_date,
        safe=False,
    ),
    "monthname": Function(
        group="dates and times",
        example="monthname(DATE '2024-02-29')",
        parameters=(_DAY_OR_TIME,),
        result=t.STRING,
        compute=_monthname,
        zoned=True,
    ),
    "months_between": Function(
        group="dates and times",
        example="months_between(TIMESTAMP '2024-03-31', TIMESTAMP '2024-02-28')",
        parameters=(TIME, TIME, any_of(t.BOOLEAN)),
        optional=1,
        constants=(2,),
        result=t.DOUBLE,
        compute=_months_between,
        zoned=True,
    ),
    "next_day": Function(
        group="dates and times",
        example="next_day(DATE '2024-02-29', 'MON')",
        parameters=(DATE, STRING),
        result=t.DATE,
        compute=_next_day,
        safe=False,
    ),
    "timestamp_micros": _made("timestamp_micros", "timestamp_micros(-1)", 1),
    "timestamp_millis": _made("timestamp_millis", "timestamp_millis(1500)", _MILLISECOND),
    "timestamp_seconds": Function(
        group="dates and times",
        example="timestamp_seconds(1.5)",
        parameters=(_SECONDS,),
        result=t.TIMESTAMP,
        compute=_timestamp_seconds,
        safe=False,
    ),
    "to_utc_timestamp": Function(
        group="dates and times",
        example="to_utc_timestamp(TIMESTAMP '2024-01-01 00:00:00Z', 'Asia/Tokyo')",
        parameters=(TIME, STRING),
        constants=(1,),
        result=t.TIMESTAMP,
        compute=_to_utc,
        safe=False,
    ),
    "unix_date": Function(
        group="dates and times",
        example="unix_date(DATE '1969-12-31')",
        parameters=(DATE,),
        result=t.INTEGER,
        compute=lambda v: v.cast(pa.int32()),
    ),
    "unix_micros": _counted("unix_micros", 1),
    "unix_millis": _counted("unix_millis", _MILLISECOND),
    "unix_seconds": _counted("unix_seconds", _SECOND),
}
