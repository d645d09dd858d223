"""Dates and timestamps as Spark's casts read and write them.

One place for the spellings that Spark accepts: ``2024``, ``2024-1``, ``2024-01-31``, a ``T`` or a
space before the time, fractions of a second of any length (cut after microseconds), and behind
seconds a zone as ``Z``, an offset or a region. What Python's `datetime` cannot hold (years beyond
9999) reads as no value.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo

from adelta.errors import InvalidExpressionError

__all__ = [
    "UTC_NAMES",
    "format_timestamp",
    "parse_date",
    "parse_instant",
    "parse_timestamp",
    "parse_timestamp_ntz",
    "time_zone",
]

_DATE = re.compile(r"([+-]?\d{4,7})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.DOTALL)
_TIMESTAMP = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2})"
    r"(?:[ T](?:(\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?\s*(\S+)?)?)?)?)?)?)?"
)
_OFFSET = re.compile(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?(\d{2})(?::?(\d{2}))?)?")
# Java's String.trim and Spark's trimAll: all controls and the space.
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    """The date that `text` casts to, or None where it casts to none."""
    match = _DATE.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    year, month, day = match.groups()
    try:
        return date(int(year), int(month or 1), int(day or 1))
    except ValueError:
        return None


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
    wall, suffix = parsed
    try:
        there = time_zone(suffix or zone)
    except InvalidExpressionError:
        if suffix is None:
            raise
        return None
    ahead = wall.replace(tzinfo=there).utcoffset() or timedelta(0)
    return (wall.replace(tzinfo=UTC) - _EPOCH - ahead) // timedelta(microseconds=1)


def parse_timestamp_ntz(text: str) -> datetime | None:
    """The wall-clock time that `text` casts to, or None; a zone is read over, as Spark does."""
    parsed = _parse(text)
    if parsed is None:
        return None
    wall, zone = parsed
    try:
        time_zone(zone or "UTC")
    except InvalidExpressionError:
        return None
    return wall


def _parse(text: str) -> tuple[datetime, str | None] | None:
    match = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    micros = int((fraction or "").ljust(6, "0")[:6])
    try:
        wall = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
        )
    except ValueError:
        return None
    return wall, zone


def format_timestamp(value: datetime) -> str:
    """How a cast to string writes a wall-clock time: a fraction only where there is one."""
    text = value.replace(tzinfo=None, microsecond=0).isoformat(" ")
    return f"{text}.{value.microsecond:06d}".rstrip("0") if value.microsecond else text
