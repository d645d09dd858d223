"""Time enters adelta here alone, so that a test can set it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

__all__ = ["SYSTEM_CLOCK", "Clock", "SystemClock", "moment"]


class Clock(Protocol):
    """Tells the time of day."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK = SystemClock()


def moment(clock: Clock = SYSTEM_CLOCK) -> datetime:
    """The time of day, in UTC: what `current_timestamp` means to a statement that begins now."""
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
