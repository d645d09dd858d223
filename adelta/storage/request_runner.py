"""Requests, made again as `next_step` says: the one loop of S3, JSON services and DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from adelta._chance import fraction
from adelta._clock import monotonic
from adelta._dataclasses import dataclass
from adelta.errors import StorageError
from adelta.storage.request_log import log_retry
from adelta.storage.retry import Again, Done, Move, Renew, Tries, next_step

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.storage.retry import Outcome, RetryPolicy
    from adelta.storage.stats import RequestCounter

__all__ = ["Ended", "run_request"]

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Ended(Generic[R]):
    """How a request ended: the `result` of the last of its `attempts`.

    `repeated` says that an earlier attempt may have taken effect, too. Where that is so, `stopped`
    is why there could be no other one, such as credentials that cannot be renewed.
    """

    result: R
    attempts: int
    repeated: bool
    stopped: StorageError | None = None


async def run_request(
    attempt: Callable[[], Awaitable[tuple[Outcome | None, R]]],
    policy: RetryPolicy,
    *,
    name: str,
    renew: Callable[[], Awaitable[bool]] | None = None,
    move: Callable[[str], None] | None = None,
    counter: RequestCounter | None = None,
) -> Ended[R]:
    """The result of `attempt`, made once or more often until nothing helps any more.

    An attempt gives its result, and what may help after it; None where it has succeeded.
    `renew` gets newer credentials than those of the last attempt, and says whether there are any;
    `move` lets the next attempt go to another region. What cannot be done is left out. `name` says
    in the log what was requested; `counter` is told of each time but the first.

    Raises:
        Exception: whatever `attempt` and `renew` raise, at once; no `StorageError` where an earlier
            attempt may have taken effect, which the result tells.
    """
    began = monotonic()
    attempts = retries = kinds = 0
    may_renew, may_move, repeated = renew is not None, move is not None, False
    while True:
        if attempts and counter is not None:
            counter.retried()
        try:
            outcome, result = await attempt()
        except StorageError as error:
            if repeated:
                return Ended(result, attempts, repeated, error)
            raise
        attempts += 1
        if outcome is None:
            return Ended(result, attempts, repeated)
        elapsed = monotonic() - began
        step = next_step(
            Tries(retries, elapsed, fraction(), may_renew, may_move, kinds, policy), outcome
        )
        if isinstance(step, Done):
            return Ended(result, attempts, repeated)
        if isinstance(step, Renew):
            may_renew = False
            try:
                renewed = renew is not None and await renew()
            except StorageError as error:
                if repeated:
                    return Ended(result, attempts, repeated, error)
                raise
            if not renewed:
                return Ended(result, attempts, repeated)
            log_retry(name, "the credentials had expired")
        elif isinstance(step, Move):
            may_move = False
            if move is not None:
                move(step.region)
            log_retry(name, "it belongs to another region")
        elif isinstance(step, Again):
            kinds += 1
            log_retry(name, outcome.why)
        else:
            retries += 1
            log_retry(name, outcome.why, step.delay)
            await anyio.sleep(step.delay)
        repeated = repeated or outcome.maybe_applied
