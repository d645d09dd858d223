"""BaseAge: for how long a version that changes are based on may not have been the latest.

The version after one that was the latest lately is young, where there is one, and no clean-up takes
what is young. After one that was the latest long ago, there may be versions that are gone: the name
of the next one looks free then, also while a clean-up has not come yet to delete the one before.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._clock import Since
from adelta._dataclasses import dataclass
from adelta.kernel.log_cleanup import LEAST_AGE_MS

if TYPE_CHECKING:
    from adelta._clock import Clock

__all__ = ["BaseAge"]

_MOST_MS = LEAST_AGE_MS // 2  # by then it may have been known for some minutes, and clocks differ


@dataclass(frozen=True, slots=True)
class BaseAge:
    """That of a version which was the latest then."""

    then: Since

    @classmethod
    def new(cls, clock: Clock) -> BaseAge:
        """That of a version which is the latest now."""
        return cls(Since.now(clock))

    def made_at(self, made_ms: int) -> BaseAge:
        """That of a version which may have been the latest only when it was made."""
        return BaseAge(replace(self.then, ms=min(self.then.ms, made_ms)))

    @property
    def is_great(self) -> bool:
        """Whether commits that came since then may have been cleaned up."""
        return self.then.passed_ms > _MOST_MS
