"""Moments as Delta has them, milliseconds since the Unix epoch, and as Python has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

__all__ = ["from_ms", "to_ms"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def from_ms(timestamp_ms: int) -> datetime:
    """An aware datetime, in UTC, of milliseconds since the Unix epoch."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def to_ms(moment: datetime) -> int:
    """Milliseconds since the Unix epoch; a datetime without a zone is taken as UTC."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (aware - _EPOCH) // timedelta(milliseconds=1)
