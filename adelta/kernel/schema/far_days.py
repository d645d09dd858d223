"""Days of the proleptic Gregorian calendar, of whatever year: Python's dates end with 9999."""

from __future__ import annotations

from datetime import date, timedelta

__all__ = ["day_of"]

_EPOCH = date(1970, 1, 1)
_CYCLE_DAYS, _CYCLE_YEARS = 146_097, 400  # after which the calendar repeats itself


def day_of(days: int) -> tuple[int, int, int]:
    """The year, month and day of the month that are so many days after 1970-01-01."""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    found = _EPOCH + timedelta(days=rest)
    return found.year + cycles * _CYCLE_YEARS, found.month, found.day
