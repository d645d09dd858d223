"""Time enters adelta here alone, so that a test can set it."""

from __future__ import annotations

import time
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "SYSTEM_CLOCK",
    "Clock",
    "Since",
    "SystemClock",
    "TimeSource",
    "moment",
    "monotonic",
    "now_ns",
    "told_by",
]


class Clock(Protocol):
    """Tells the time of day."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        ...


class TimeSource(Protocol):
    """What tells a process the time; the machine's is the module `time`."""

    def time_ns(self) -> int:
        """Nanoseconds since the Unix epoch, by a clock that may be set."""
        ...

    def monotonic(self) -> float:
        """Seconds since some moment, by a clock that never goes back."""
        ...


_source: TimeSource = time


@contextmanager
def told_by(source: TimeSource) -> Iterator[None]:
    """Inside the block the machine's clocks are `source`, for all of the process."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before


def monotonic() -> float:
    """Seconds since some moment, by a clock that never goes back: for how long something took."""
    return _source.monotonic()


def now_ns() -> int:
    """Nanoseconds since the Unix epoch, by a clock that may be set: for times of files."""
    return _source.time_ns()


@dataclass(frozen=True, slots=True)
class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch."""
        return _source.time_ns() // 1_000_000


SYSTEM_CLOCK = SystemClock()


@dataclass(frozen=True, slots=True)
class Since:
    """A moment: `ms` by `clock`, which may be set, and `seconds` by the one that never goes back.

    That one may stand still while a machine sleeps.
    """

    clock: Clock
    ms: int
    seconds: float

    @classmethod
    def now(cls, clock: Clock) -> Since:
        """This moment."""
        return cls(clock, clock.now_ms(), monotonic())

    @property
    def passed_ms(self) -> float:
        """Milliseconds since then, by the clock that says more."""
        return max(self.clock.now_ms() - self.ms, 1000 * (monotonic() - self.seconds))


def moment(clock: Clock = SYSTEM_CLOCK) -> datetime:
    """The time of day, in UTC: what `current_timestamp` means to a statement that begins now."""
    return datetime.fromtimestamp(clock.now_ms() / 1000, UTC)
