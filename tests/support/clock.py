"""A clock that stands still until it is told to go on, and clocks that are ahead."""

from __future__ import annotations

import time
from dataclasses import dataclass

__all__ = ["Later", "ManualClock"]


@dataclass(slots=True)
class ManualClock:
    """Tells the time it was set to; `tick_ms` passes with every look at it."""

    ms: int = 1_700_000_000_000
    tick_ms: int = 0

    def now_ms(self) -> int:
        self.ms += self.tick_ms
        return self.ms

    def advance(self, *, ms: int = 0, seconds: float = 0, days: float = 0) -> None:
        self.ms += ms + round(seconds * 1000) + round(days * 86_400_000)


@dataclass(frozen=True, slots=True)
class Later:
    """Clocks that are ahead of the machine's by seconds: the one that may be set, and the other."""

    set_ahead: float
    ahead: float

    def time_ns(self) -> int:
        return time.time_ns() + round(self.set_ahead * 1e9)

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead
