"""What is tried again, how often, and how long a caller waits in between (pure)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RetryPolicy"]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Exponential backoff with full jitter, bounded by a count and by a deadline.

    Durations are in seconds. `retry_timeout` counts from the first attempt: no attempt begins
    later than that.
    """

    max_retries: int = 10
    retry_timeout: float = 180.0
    init_backoff: float = 0.1
    max_backoff: float = 15.0
    base: float = 2.0

    def delay(
        self, retries: int, elapsed: float, luck: float, *, at_least: float = 0.0
    ) -> float | None:
        """Seconds to wait before the next attempt, or None to give up.

        `retries` have been made in `elapsed` seconds, `luck` is a random number in ``[0, 1)``, and
        the store asked to wait `at_least` so long.

        >>> RetryPolicy().delay(3, 1.0, 0.5)
        0.4
        >>> RetryPolicy(max_retries=3).delay(3, 1.0, 0.5) is None
        True
        """
        if retries >= self.max_retries:
            return None
        growth = self.base ** min(retries, 64)
        delay = max(at_least, luck * min(self.max_backoff, self.init_backoff * growth))
        return delay if elapsed + delay <= self.retry_timeout else None
