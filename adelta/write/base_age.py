"""BaseAge: for how long a version that changes are based on may not have been the latest.

The version after one that was the latest lately is young, where there is one, and no clean-up takes
what is young. After one that was the latest long ago, there may be versions that are gone: the name
of the next one looks free then, also while a clean-up has not come yet to delete the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._clock import monotonic
from adelta._dataclasses import dataclass
from adelta.kernel.log_cleanup import LEAST_AGE_MS

if TYPE_CHECKING:
    from adelta._clock import Clock

__all__ = ["BaseAge"]

_MOST_MS = LEAST_AGE_MS // 2  # by then it may have been known for some minutes, and clocks differ


@dataclass(frozen=True, slots=True)
class BaseAge:
    """Since `since_ms` by `clock`, which is `since_s` by the one that never goes back."""

    clock: Clock
    since_ms: int
    since_s: float

    @classmethod
    def new(cls, clock: Clock) -> BaseAge:
        """That of a version which is the latest now."""
        return cls(clock, clock.now_ms(), monotonic())

    def made_at(self, made_ms: int) -> BaseAge:
        """That of a version which may have been the latest only when it was made."""
        return BaseAge(self.clock, min(self.since_ms, made_ms), self.since_s)

    @property
    def is_great(self) -> bool:
        """Whether commits that came since then may have been cleaned up: one of the clocks says so.

        The clock that never goes back may stand still while a machine sleeps.
        """
        passed = self.clock.now_ms() - self.since_ms, 1000 * (monotonic() - self.since_s)
        return max(passed) > _MOST_MS
