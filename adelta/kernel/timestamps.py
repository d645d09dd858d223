"""Moments as Delta has them, milliseconds since the Unix epoch, and as Python has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from adelta.errors import InvalidOptionError

__all__ = ["from_ms", "to_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EARLIEST = datetime(2, 1, 1, tzinfo=UTC) - _EPOCH
_LATEST = datetime(9999, 1, 1, tzinfo=UTC) - _EPOCH


def from_ms(timestamp_ms: int) -> datetime:
    """An aware datetime, in UTC, of milliseconds since the Unix epoch."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def to_ms(moment: datetime) -> int:
    """Milliseconds since the Unix epoch; a datetime without a zone is taken as UTC.

    Raises:
        InvalidOptionError: it lies where a moment before it, or after it, might be none.
    """
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - _EPOCH
    if not _EARLIEST <= since <= _LATEST:
        raise InvalidOptionError(
            f"{moment.isoformat()} lies outside of the years 2 to 9998; pass another time"
        )
    return since // timedelta(milliseconds=1)
