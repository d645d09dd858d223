"""Doing the work of an operation again where another commit came first."""

from __future__ import annotations

from inspect import isawaitable
from typing import TYPE_CHECKING, TypeVar

import anyio

from adelta._arguments import check_count, check_seconds
from adelta._chance import uniform
from adelta.errors import CommitConflictError, InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["again_in", "check_operation", "retry"]

T = TypeVar("T")

_FIRST_PAUSE = 0.05
_LONGEST_PAUSE = 2.0


async def retry(
    operation: Callable[[], Awaitable[T]], *, attempts: int = 10, timeout: float = 300.0
) -> T:
    """Run an operation, and run it again while it loses to other commits; what it returns.

    `operation` is called without arguments and has to do all of its work anew each time: reading
    the table, and writing to it in a transaction. A `CommitConflictError` that says that this may
    help (`retryable`) is followed by another attempt, after a pause that grows and is random, until
    there have been `attempts` or `timeout` seconds have passed. Any other error is raised at once.

    Example::

        await adelta.retry(lambda: adelta.delete("trips", "km < 4"))

    Raises:
        InvalidOptionError: `operation` is none, or `attempts` or `timeout` is no such number.
        CommitConflictError: the last attempt lost too.
        Exception: as `operation` does.
    """
    check_operation(operation)
    check_count("attempts", attempts, least=1, optional=False)
    deadline = anyio.current_time() + check_seconds("timeout", timeout)
    made = 0
    while True:
        try:
            attempt = operation()
            if not isawaitable(attempt):
                raise InvalidOptionError(
                    f"the operation gives {attempt!r:.60}, which cannot be awaited; pass a "
                    "function that begins it"
                )
            return await attempt
        except CommitConflictError as conflict:
            made += 1
            pause = again_in(conflict, made, attempts, deadline - anyio.current_time())
            if pause is None:
                raise
        await anyio.sleep(pause)


def check_operation(operation: object) -> None:
    """Refuse what cannot be called.

    Raises:
        InvalidOptionError: it cannot.
    """
    if not callable(operation):
        raise InvalidOptionError(
            f"{operation!r:.60} is no operation; pass a function that begins it, such as "
            "lambda: adelta.delete(table, where)"
        )


def again_in(
    conflict: CommitConflictError, made: int, attempts: int, seconds_left: float
) -> float | None:
    """Seconds until the next attempt after `made` of them; None where there is to be none."""
    if not conflict.retryable or made >= attempts:
        return None
    pause = uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(made, 16)))
    return pause if pause < seconds_left else None
