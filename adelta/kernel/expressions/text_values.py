"""Dates and timestamps as Spark's casts read and write them.

One place for the spellings that Spark accepts: ``2024``, ``2024-1``, ``2024-01-31``, a ``T`` or a
space before the time, fractions of a second of any length (cut after microseconds), and behind
seconds a zone as ``Z``, an offset or a region. Years before 1 and after 9999, which Python's `date`
and `datetime` cannot hold, are read and written as numbers of days and microseconds.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from adelta.errors import InvalidExpressionError

__all__ = [
    "FIRST_DAY",
    "LAST_DAY",
    "UTC_NAMES",
    "format_day",
    "format_timestamp",
    "parse_date",
    "parse_day",
    "parse_instant",
    "parse_timestamp",
    "parse_timestamp_ntz",
    "parse_wall_clock",
    "time_zone",
]

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*(\S+)?)?)?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAYS_OF_CYCLE = 146_097  # 400 years, after which the calendar comes again
FIRST_DAY, LAST_DAY = (day.toordinal() - _EPOCH.toordinal() for day in (date.min, date.max))
"""The days of years 1 and 9999, which Python's `date` holds, counted from 1970."""
# Java's String.trim and Spark's trimAll: all controls and the space.
_BLANK = "".join(map(chr, range(33))) + "\x7f"


UTC_NAMES = frozenset(("UTC", "Z", "GMT", "UT", "Etc/UTC", "+00:00"))


@lru_cache(maxsize=256)
def time_zone(name: str) -> tzinfo:
    """The zone that a region name, ``Z``, ``UTC+1`` or an offset such as ``+01:00`` stands for.

    Raises:
        InvalidExpressionError: there is no such zone.
    """
    if name in UTC_NAMES:
        return UTC
    if match := _OFFSET.fullmatch(name):
        sign, hours, minutes, seconds = match.groups()
        offset = timedelta(hours=int(hours), minutes=int(minutes or 0), seconds=int(seconds or 0))
        if offset <= timedelta(hours=18) and int(minutes or 0) < 60 and int(seconds or 0) < 60:
            return timezone(-offset if sign == "-" else offset)
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InvalidExpressionError(
            f"{name!r} is no time zone: name a region such as Europe/Vienna, or an offset"
        ) from error


def parse_date(text: str) -> date | None:
    """The date that `text` casts to, or None where it casts to none, or Python has none for it."""
    day = parse_day(text)
    try:
        return None if day is None else _EPOCH.date() + timedelta(days=day)
    except OverflowError:
        return None


def parse_day(text: str) -> int | None:
    """The date that `text` casts to, in days since 1970, or None where it casts to none."""
    match = _DATE.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    year, month, day = match.groups()
    cycles, near = _near(int(year))
    try:
        found = date(near, int(month or 1), int(day or 1)).toordinal() - _EPOCH.toordinal()
    except ValueError:
        return None
    found += cycles * _DAYS_OF_CYCLE
    return found if -(1 << 31) <= found < 1 << 31 else None


def parse_timestamp(text: str, zone: str = "UTC") -> datetime | None:
    """The instant, in UTC, that `text` casts to, or None; it is in `zone` if it names none.

    There is none, either, where Python's `datetime` cannot hold it.
    """
    micros = parse_instant(text, zone)
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None


def parse_instant(text: str, zone: str = "UTC") -> int | None:
    """The instant that `text` casts to, in microseconds since 1970, or None where it is none.

    Where it is the last day of 9999, whose end is later in UTC, it is one all the same.

    Raises:
        InvalidExpressionError: there is no such `zone`.
    """
    parsed = _parse(text)
    if parsed is None:
        return None
    wall, cycles, suffix = parsed
    try:
        there = time_zone(suffix or zone)
    except InvalidExpressionError:
        if suffix is None:
            raise
        return None
    ahead = wall.replace(tzinfo=there).utcoffset() or timedelta(0)
    return _micros(wall, cycles, ahead)


def parse_timestamp_ntz(text: str) -> datetime | None:
    """The wall-clock time that `text` casts to, or None; a zone is read over, as Spark does.

    There is none, either, where Python's `datetime` cannot hold it.
    """
    micros = parse_wall_clock(text)
    try:
        found = None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return None
    return None if found is None else found.replace(tzinfo=None)


def parse_wall_clock(text: str) -> int | None:
    """What `parse_timestamp_ntz` gives, of any year: in microseconds since 1970."""
    parsed = _parse(text)
    if parsed is None:
        return None
    wall, cycles, zone = parsed
    try:
        time_zone(zone or "UTC")
    except InvalidExpressionError:
        return None
    return _micros(wall, cycles, timedelta(0))


def _micros(wall: datetime, cycles: int, ahead: timedelta) -> int | None:
    """Microseconds from 1970, by a clock that is `ahead`; None where a column cannot hold them."""
    micros = (wall.replace(tzinfo=UTC) - _EPOCH - ahead) // timedelta(microseconds=1)
    micros += cycles * _DAYS_OF_CYCLE * 86_400_000_000
    return micros if -(1 << 63) <= micros < 1 << 63 else None


def _near(year: int) -> tuple[int, int]:
    """A year with the same calendar that Python has, and how many times 400 years it is away."""
    if 1 <= year <= 9999:
        return 0, year
    near = (400 if year < 1 else 9200) + year % 400
    return (year - near) // 400, near


def _parse(text: str) -> tuple[datetime, int, str | None] | None:
    """The clock's time in a year that Python has, how many times 400 years it is away, its zone."""
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    cycles, near = _near(int(year))
    try:
        wall = datetime(
            near,
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
        )
    except ValueError:
        return None
    return wall, cycles, zone


def format_day(days: int) -> str:
    """How a cast to string writes a date, which is so many days after 1970."""
    cycles = 0
    if not FIRST_DAY <= days <= LAST_DAY:
        cycles = days // _DAYS_OF_CYCLE
    near = _EPOCH.date() + timedelta(days=days - cycles * _DAYS_OF_CYCLE)
    year = near.year + 400 * cycles
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04}-{near:%m-%d}"


def format_timestamp(micros: int) -> str:
    """How a cast to string writes a wall-clock time, which is so many microseconds after 1970.

    It has a fraction only where there is one.
    """
    days, of_day = divmod(micros, 86_400_000_000)
    seconds, fraction = divmod(of_day, 1_000_000)
    clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    text = f"{format_day(days)} {clock}"
    return f"{text}.{fraction:06d}".rstrip("0") if fraction else text
