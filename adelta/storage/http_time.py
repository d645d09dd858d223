"""Times as HTTP tells them: dates, and how long a server asks to be left alone."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["http_time_ms", "retry_after"]

_LONGEST_ASKED = 60.0  # seconds that a server's wish to be left alone is heeded
_HTTP_TIME = re.compile(
    r"[MTWFS][a-z]{2}, (\d{2}) ([A-Z][a-z]{2}) (\d{4}) (\d{2}):(\d{2}):([0-5]\d) GMT", re.ASCII
)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@lru_cache(maxsize=256)
def http_time_ms(date: str) -> int:
    """A time as HTTP tells it, in milliseconds since the Unix epoch.

    Raises:
        ValueError: it is none.
    """
    try:
        if usual := _HTTP_TIME.fullmatch(date):
            day, month, *rest = usual.groups()
            year, hour, minute, second = map(int, rest)
            at = datetime(
                year, _MONTHS.index(month) + 1, int(day), hour, minute, second, tzinfo=UTC
            )
            return int(at.timestamp()) * 1000
        rare = parsedate_to_datetime(date)
        at = rare if rare.tzinfo is not None else rare.replace(tzinfo=UTC)
        return round(at.timestamp() * 1000)
    except OverflowError as error:  # of a year that the system does not count
        raise ValueError(str(error)) from error


def retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the headers of an answer ask to wait, a minute at most; 0 where they do not.

    A date is one by the server's clock, which the answer's own date tells, or else by ours.
    """
    value = headers.get("retry-after", "")
    if value.isdecimal():
        return min(float(value), _LONGEST_ASKED)
    try:
        until = http_time_ms(value)
    except ValueError:
        return 0.0
    try:
        now = http_time_ms(headers.get("date", ""))
    except ValueError:
        now = SYSTEM_CLOCK.now_ms()
    return min(max(0.0, (until - now) / 1000), _LONGEST_ASKED)
