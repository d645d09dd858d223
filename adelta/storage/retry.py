"""What comes after an attempt at a request: nothing, or another one, when and how (pure).

Whoever speaks a protocol says what may help after an attempt, as an `Outcome`. `next_step` decides,
for every protocol alike, and `request_runner` does what it says.
"""

from __future__ import annotations

from dataclasses import field
from typing import TypeAlias

from adelta._dataclasses import dataclass

__all__ = [
    "Again",
    "Done",
    "Move",
    "Outcome",
    "Renew",
    "Retry",
    "RetryPolicy",
    "Step",
    "Tries",
    "next_step",
]

_MOST_KINDS = 2  # of other ways of making a request, each of which is tried once


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


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt failed, as far as that decides what comes next.

    Attributes:
        why: what went wrong, in words that hold nothing of the answer's: the log has them.
        transient: whether the same request may succeed later.
        maybe_applied: whether a failed request may have taken effect all the same.
        expired: whether newer credentials may help.
        region: where the server says the request belongs; None where it went there.
        otherwise: whether the next attempt is of another kind, and may succeed at once.
        wait: the seconds that the server asks for.
    """

    why: str = "it failed"
    transient: bool = False
    maybe_applied: bool = False
    expired: bool = False
    region: str | None = None
    otherwise: bool = False
    wait: float = 0.0


@dataclass(frozen=True, slots=True)
class Tries:
    """The attempts at a request so far.

    Attributes:
        retries: attempts that were made because of a failure that might pass.
        elapsed: seconds since the first one began.
        luck: a random number in ``[0, 1)``.
        may_renew: whether there may be newer credentials; they are asked for once.
        may_move: whether the request can go to another region; it goes once.
        kinds: attempts that were made in another way, whatever the policy says.
        policy: how often and for how long it is tried.
    """

    retries: int = 0
    elapsed: float = 0.0
    luck: float = 0.0
    may_renew: bool = False
    may_move: bool = False
    kinds: int = 0
    policy: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True, slots=True)
class Done:
    """The outcome stands."""


@dataclass(frozen=True, slots=True)
class Retry:
    """Make the request again in `delay` seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Again:
    """Make the request again at once, in the other way that there is."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Make the request again with newer credentials; where there are none, the outcome stands."""


@dataclass(frozen=True, slots=True)
class Move:
    """Make the request again in `region`."""

    region: str


Step: TypeAlias = Done | Retry | Again | Renew | Move


def next_step(tries: Tries, outcome: Outcome) -> Step:
    """What comes after the last of `tries`, which ended in `outcome`.

    >>> next_step(Tries(may_move=True), Outcome(region="eu-north-1"))
    Move(region='eu-north-1')
    """
    if outcome.otherwise and tries.kinds < _MOST_KINDS:
        return Again()
    if outcome.region is not None and tries.may_move:
        return Move(outcome.region)
    if outcome.expired and tries.may_renew:
        return Renew()
    if outcome.transient:
        delay = tries.policy.delay(tries.retries, tries.elapsed, tries.luck, at_least=outcome.wait)
        if delay is not None:
            return Retry(delay)
    return Done()
