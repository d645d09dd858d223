"""How often somebody may do something."""

from __future__ import annotations

from collections import OrderedDict

from adelta._clock import monotonic

__all__ = ["Rates"]


class Rates:
    """How often somebody did something: a bucket that fills with time, for each of the last many.

    `per_second` is the average that is allowed, and `burst` what is at once.
    """

    def __init__(self, per_second: float, burst: float, most: int = 10_000) -> None:
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> bool:
        """Whether it is allowed once more, which counts."""
        left = self.left(who)
        if left < 1:
            return False
        self._left[who] = (left - 1, monotonic())
        self._left.move_to_end(who)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return True

    def left(self, who: str) -> float:
        """How often it is allowed now."""
        left, since = self._left.get(who, (self._burst, 0.0))
        return min(self._burst, left + (monotonic() - since) * self._per_second)
