"""Functions of dates and timestamps, in the session's time zone; weeks begin on Monday."""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.casts import instants_near, instants_of, wall_clock

__all__ = [
    "FIELDS",
    "add_days",
    "add_months",
    "date_format",
    "days_between",
    "field",
    "last_day",
    "truncate_date",
    "truncate_timestamp",
]


Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

FIELDS = {
    "day": "day",
    "dayofyear": "day_of_year",
    "hour": "hour",
    "minute": "minute",
    "month": "month",
    "quarter": "quarter",
    "second": "second",
    "weekofyear": "iso_week",
    "year": "year",
}
"""Functions that give one field of a date or time, and Arrow's kernels for them."""

_DATE_UNITS = {
    **dict.fromkeys(("YEAR", "YYYY", "YY"), "year"),
    "QUARTER": "quarter",
    **dict.fromkeys(("MONTH", "MM", "MON"), "month"),
    "WEEK": "week",
}
_TIME_UNITS = {
    **_DATE_UNITS,
    **dict.fromkeys(("DAY", "DD"), "day"),
    "HOUR": "hour",
    "MINUTE": "minute",
    "SECOND": "second",
    "MILLISECOND": "millisecond",
    "MICROSECOND": "microsecond",
}
_PATTERNS = {
    "yyyy": "%Y",
    "MM": "%m",
    "dd": "%d",
    "HH": "%H",
    "mm": "%M",
    "ss": "%S",
    "DDD": "%j",
}
_QUOTED = re.compile(r"'((?:[^']|'')*)'", re.DOTALL)
_MOST_MONTHS = 12 * 10_000 - 1


def field(name: str, values: Values, zone: str) -> Values:
    """One field of dates or timestamps, as an integer.

    Example: ``dayofweek`` is 1 on Sunday, ``weekday`` is 0 on Monday.
    """
    wall = _wall(values, zone)
    if name == "dayofweek":
        found = pc.day_of_week(wall, count_from_zero=False, week_start=7)
    elif name == "weekday":
        found = pc.day_of_week(wall, count_from_zero=True, week_start=1)
    else:
        found = getattr(pc, FIELDS[name])(wall)
    return found.cast(pa.int32())


def _wall(values: Values, zone: str) -> Values:
    if pa.types.is_date32(values.type):
        return values.cast(pa.timestamp("s"))
    return values if values.type.tz is None else wall_clock(values, zone)


def truncate_date(values: Values, unit: str) -> Values:
    """`trunc`: the first day of the year, quarter, month or week; NULL for any other unit."""
    name = _DATE_UNITS.get(unit.upper())
    if name is None:
        return pa.nulls(len(values), pa.date32())
    return pc.floor_temporal(values.cast(pa.timestamp("s")), unit=name).cast(pa.date32())


def truncate_timestamp(values: Values, unit: str, zone: str) -> Values:
    """`date_trunc`: the instant at which the unit began in `zone`; NULL for an unknown unit."""
    name = _TIME_UNITS.get(unit.upper())
    if name is None:
        return pa.nulls(len(values), pa.timestamp("us", "UTC"))
    wall = _wall(values, zone)
    began = pc.floor_temporal(wall, unit=name)
    if name in _DATE_UNITS.values():
        return instants_of(began, zone)
    return instants_near(began, values, wall, zone)


def add_days(values: Values, days: Values) -> Values:
    """Dates so many days later.

    Raises:
        InvalidExpressionError: a date is out of range.
    """
    try:
        return pc.add_checked(values.cast(pa.int32()), days.cast(pa.int32())).cast(pa.date32())
    except pa.ArrowInvalid as error:
        raise InvalidExpressionError("adding days overflows the range of dates") from error


def days_between(end: Values, start: Values) -> Values:
    """`datediff`: how many days `end` is after `start`."""
    apart = pc.subtract(
        end.cast(pa.int32()).cast(pa.int64()), start.cast(pa.int32()).cast(pa.int64())
    )
    return apart.cast(pa.int32())


def add_months(values: Values, months: Values) -> Values:
    """Dates so many months later; a day that the month lacks becomes its last one.

    Raises:
        InvalidExpressionError: a date is out of range.
    """
    days = values.cast(pa.timestamp("s"))
    index = pc.add(
        pc.add(pc.multiply(pc.year(days), 12), pc.subtract(pc.month(days), 1)),
        months.cast(pa.int64()),
    )
    if pc.any(pc.greater(pc.abs(index), _MOST_MONTHS)).as_py():
        raise InvalidExpressionError("adding months overflows the range of dates")
    first, length = _month(index), _month_length(index)
    day = pc.min_element_wise(pc.day(days), length, skip_nulls=False)
    return pc.add(first, pc.subtract(day, 1)).cast(pa.int32()).cast(pa.date32())


def last_day(values: Values) -> Values:
    """The last day of each date's month."""
    days = values.cast(pa.timestamp("s"))
    index = pc.add(pc.multiply(pc.year(days), 12), pc.subtract(pc.month(days), 1))
    last = pc.subtract(_month(pc.add(index, 1)), 1)
    return last.cast(pa.int32()).cast(pa.date32())


def _month(index: Values) -> Values:
    """Days from the epoch to the first of a month, which is counted from January of year 0."""
    # Howard Hinnant's count of days, with years that begin in March.
    shifted = pc.subtract(index, 2)
    year = _floor_divide(shifted, 12)
    month = pc.subtract(shifted, pc.multiply(year, 12))
    era = _floor_divide(year, 400)
    of_era = pc.subtract(year, pc.multiply(era, 400))
    of_year = pc.divide(pc.add(pc.multiply(month, 153), 2), 5)
    of_era_days = pc.add(
        pc.subtract(pc.add(pc.multiply(of_era, 365), pc.divide(of_era, 4)), pc.divide(of_era, 100)),
        of_year,
    )
    return pc.subtract(pc.add(pc.multiply(era, 146_097), of_era_days), 719_468)


def _month_length(index: Values) -> Values:
    return pc.subtract(_month(pc.add(index, 1)), _month(index))


def _floor_divide(values: Values, by: int) -> Values:
    below = pc.subtract(values, by - 1)
    return pc.divide(pc.if_else(pc.less(values, 0), below, values), by)


def date_format(values: Values, pattern: str, zone: str) -> Values:
    """The text of timestamps by a pattern of ``yyyy MM dd HH mm ss DDD`` and what stands between.

    Raises:
        InvalidExpressionError: the pattern has other letters.
    """
    seconds = pc.floor_temporal(_wall(values, zone), unit="second").cast(pa.timestamp("s"))
    return pc.strftime(seconds, format=_strftime(pattern))


def _strftime(pattern: str) -> str:
    out: list[str] = []
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "'":
            quoted = _QUOTED.match(pattern, at)
            if quoted is None:
                raise InvalidExpressionError(
                    f"the pattern {pattern!r} has a quote that is not closed"
                )
            out.append((quoted[1].replace("''", "'") or "'").replace("%", "%%"))
            at = quoted.end()
            continue
        run = len(pattern) - at - len(pattern[at:].lstrip(letter))
        if letter.isascii() and letter.isalpha():
            directive = _PATTERNS.get(letter * run)
            if directive is None:
                raise InvalidExpressionError(
                    f"adelta formats {', '.join(_PATTERNS)}; {letter * run!r} in {pattern!r} is "
                    "formatted by the Spark engine: use it in a Spark job over this table"
                )
            out.append(directive)
        elif letter in "[]{}#":
            raise InvalidExpressionError(f"{letter!r} in the pattern {pattern!r} must be quoted")
        else:
            out.append((letter * run).replace("%", "%%"))
        at += run
    return "".join(out)
