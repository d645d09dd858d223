"""Timestamp ⇄ version (PROTOCOL.md, "In-Commit Timestamps").

File modification times may stand still or run backwards, so they are made to ascend: a commit that
is not later than the one before counts as a millisecond after it.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError, TimestampOutOfRangeError, TimestampTooEarlyError
from adelta.kernel.timestamps import from_ms, to_ms

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["adjusted_timestamps", "parse_timestamp", "version_at"]


def parse_timestamp(when: datetime | str) -> int:
    """Milliseconds since the Unix epoch of a datetime or ISO 8601 text, UTC by default.

    Raises:
        InvalidOptionError: the text is no ISO 8601 date or time.
    """
    if isinstance(when, datetime):
        return to_ms(when)
    if not isinstance(when, str):
        raise InvalidOptionError(
            f"{when!r:.100} is not a timestamp; pass a datetime, or text like 2024-06-01T12:00:00Z"
        )
    text = re.sub(r"([Tt ]\d{2}:\d{2}:\d{2}[.,]\d{6})\d+", r"\1", when.strip())
    try:
        return to_ms(datetime.fromisoformat(text))
    except ValueError as error:
        raise InvalidOptionError(
            f"{when!r} is not a timestamp; write one like 2024-06-01T12:00:00Z"
        ) from error


def adjusted_timestamps(modified_ms: Sequence[int]) -> list[int]:
    """Modification times of consecutive commits, made to ascend.

    Example: ``[5, 3, 3, 9]`` becomes ``[5, 6, 7, 9]``.
    """
    adjusted: list[int] = []
    for modified in modified_ms:
        adjusted.append(max(modified, adjusted[-1] + 1) if adjusted else modified)
    return adjusted


def version_at(when_ms: int, versions: Sequence[int], timestamps_ms: Sequence[int]) -> int:
    """The last of `versions`, ascending, whose timestamp is not after `when_ms`.

    Raises:
        TimestampOutOfRangeError: the time is before the first timestamp or after the last one.
    """
    if when_ms < timestamps_ms[0] or when_ms > timestamps_ms[-1]:
        first, last = from_ms(timestamps_ms[0]), from_ms(timestamps_ms[-1])
        kind = TimestampTooEarlyError if when_ms < timestamps_ms[0] else TimestampOutOfRangeError
        raise kind(
            f"{from_ms(when_ms).isoformat()} is outside the table's history: version "
            f"{versions[0]} is of {first.isoformat()} and version {versions[-1]} of "
            f"{last.isoformat()}",
            earliest_version=versions[0],
            latest_version=versions[-1],
        )
    found = versions[0]
    for version, timestamp in zip(versions, timestamps_ms, strict=True):
        if timestamp > when_ms:
            break
        found = version
    return found
