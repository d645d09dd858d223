"""Dates and times a calendar's interval later: of months, or of days and microseconds.

An interval is a literal: a number of months or of microseconds, of the types below. Days are those
of a calendar, in the session's zone, so that a day later is the same time of the clock.
"""

from __future__ import annotations

import re

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import column_of
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.casts import instants_near, wall_clock
from adelta.kernel.expressions.datetimes import add_months
from adelta.kernel.expressions.library._function import Function, Parameter, Values
from adelta.kernel.schema import types as t

__all__ = [
    "DAYS",
    "INTERVALS",
    "INTERVAL_TYPES",
    "MICROS",
    "MONTHS",
    "interval_text",
    "parse_day_to_second",
    "parse_interval",
]


MONTHS = t.PrimitiveType("interval year to month")
DAYS = t.PrimitiveType("interval day")
MICROS = t.PrimitiveType("interval day to second")
INTERVAL_TYPES = (MONTHS, DAYS, MICROS)

_DAY = 86_400_000_000
_LARGEST = 1 << 62
_UNITS = {
    "YEAR": (MONTHS, 12),
    "MONTH": (MONTHS, 1),
    "WEEK": (DAYS, 7 * _DAY),
    "DAY": (DAYS, _DAY),
    "HOUR": (MICROS, 3_600_000_000),
    "MINUTE": (MICROS, 60_000_000),
    "SECOND": (MICROS, 1_000_000),
    "MILLISECOND": (MICROS, 1_000),
    "MICROSECOND": (MICROS, 1),
}
_NUMBER = re.compile(r"\s*([+-]?)(\d{1,18})(?:\.(\d{1,6}))?\s*")
_DAY_TO_SECOND = re.compile(r"\s*([+-]?)(\d{1,9}) (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?\s*")


def parse_interval(parts: list[tuple[str, str]]) -> tuple[int, t.PrimitiveType]:
    """The value and the type of an interval of numbers with their units.

    Example: ``[("1", "DAY"), ("2", "HOURS")]`` is 93,600,000,000 microseconds.

    Raises:
        InvalidExpressionError: there is no such unit, a number is none, months and days are mixed.
    """
    total, kinds = 0, set()
    for number, unit in parts:
        name = unit.upper()
        found = _UNITS.get(name) or _UNITS.get(name.removesuffix("S"))
        match = _NUMBER.fullmatch(number)
        if found is None or match is None:
            raise InvalidExpressionError(f"{number!r} {unit} is no interval; write INTERVAL 3 DAYS")
        kind, factor = found
        sign, whole, fraction = match.groups()
        if fraction and name.removesuffix("S") != "SECOND":
            raise InvalidExpressionError(f"only seconds have a fraction, and {unit} {number} has")
        size = int(whole) * factor + int((fraction or "").ljust(6, "0")[:6])
        total += -size if sign == "-" else size
        kinds.add(kind)
    if MONTHS in kinds and len(kinds) > 1:
        raise InvalidExpressionError(
            "an interval has years and months, or days and times, not both: add one, then the other"
        )
    if abs(total) > _LARGEST:
        raise InvalidExpressionError("the interval is too long")
    return total, MONTHS if MONTHS in kinds else MICROS if MICROS in kinds else DAYS


def parse_day_to_second(text: str) -> int:
    """The microseconds of ``1 02:03:04.5``.

    Raises:
        InvalidExpressionError: it is none.
    """
    match = _DAY_TO_SECOND.fullmatch(text)
    if match is None:
        raise InvalidExpressionError(f"{text!r} is no interval of the form 'd hh:mm:ss.fff'")
    sign, days, hours, minutes, seconds, fraction = match.groups()
    whole = int(days) * 86_400 + int(hours) * 3_600 + int(minutes) * 60 + int(seconds)
    micros = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -micros if sign == "-" else micros


def interval_text(value: int, kind: t.DataType) -> str:
    """The literal of an interval, as SQL has it."""
    if kind == MONTHS:
        return f"INTERVAL '{value}' MONTH"
    if kind == DAYS:
        return f"INTERVAL '{value // _DAY if value >= 0 else -(-value // _DAY)}' DAY"
    days, rest = divmod(abs(value), _DAY)
    seconds, micros = divmod(rest, 1_000_000)
    clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{micros:06}"
    return f"INTERVAL '{'-' if value < 0 else ''}{days} {clock}' DAY TO SECOND"


def _plus_months(values: Values, months: int, *, zone: str) -> Values:
    count = column_of([months] * len(values), pa.int64())
    if pa.types.is_date32(values.type):
        return add_months(values, count)
    wall = values if values.type.tz is None else wall_clock(values, zone)
    midnight = pc.floor_temporal(wall, unit="day")
    of_day = pc.subtract(wall.cast(pa.int64()), midnight.cast(pa.int64()))
    day = add_months(midnight.cast(pa.date32()), count).cast(pa.timestamp("us")).cast(pa.int64())
    moved = pc.add(day, of_day).cast(pa.timestamp("us"))
    return moved if values.type.tz is None else instants_near(moved, values, wall, zone)


def _plus_micros(values: Values, micros: int, *, zone: str) -> Values:
    days, rest = divmod(abs(micros), _DAY)
    days, rest = (-days, -rest) if micros < 0 else (days, rest)
    zoned = values.type.tz is not None
    try:
        if days:
            wall = wall_clock(values, zone) if zoned else values
            moved = pc.add_checked(wall.cast(pa.int64()), days * _DAY).cast(pa.timestamp("us"))
            values = instants_near(moved, values, wall, zone) if zoned else moved
        kind = values.type
        return pc.add_checked(values.cast(pa.int64()), rest).cast(kind)
    except pa.ArrowInvalid as error:
        raise InvalidExpressionError("adding the interval overflows the range of times") from error


_TIMES = (t.TIMESTAMP, t.TIMESTAMP_NTZ)

INTERVALS = {
    "+ months": Function(
        group="intervals",
        example="DATE '2024-01-31' + INTERVAL 1 MONTH",
        parameters=(Parameter((*_TIMES, t.DATE)), Parameter(INTERVAL_TYPES)),
        constants=(1,),
        result=lambda kinds: kinds[0],
        compute=_plus_months,
        safe=False,
        zoned=True,
    ),
    "+ micros": Function(
        group="intervals",
        example="TIMESTAMP '2024-02-29 10:00:00' - INTERVAL 36 HOURS",
        parameters=(Parameter(_TIMES), Parameter(INTERVAL_TYPES)),
        constants=(1,),
        result=lambda kinds: kinds[0],
        compute=_plus_micros,
        safe=False,
        zoned=True,
    ),
}
"""The names are none that can be written: `bind` makes calls of sums with an interval."""
