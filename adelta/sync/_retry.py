"""The blocking twin of `adelta.retry`, by hand: it is the caller's own work that is run again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from adelta._arguments import check_count, check_seconds
from adelta._clock import monotonic
from adelta.errors import CommitConflictError
from adelta.retry import again_in, check_operation

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["retry"]

T = TypeVar("T")


def retry(operation: Callable[[], T], *, attempts: int = 10, timeout: float = 300.0) -> T:
    """Run an operation, and run it again while it loses to other commits; what it returns.

    `operation` is called without arguments and has to do all of its work anew each time: reading
    the table, and writing to it in a transaction. A `CommitConflictError` that says that this may
    help (`retryable`) is followed by another attempt, after a pause that grows and is random, until
    there have been `attempts` or `timeout` seconds have passed. Any other error is raised at once.

    Example::

        adelta.sync.retry(lambda: adelta.sync.delete("trips", "km < 4"))

    Raises:
        InvalidOptionError: `attempts` or `timeout` is no such number.
        CommitConflictError: the last attempt lost too.
        Exception: as `operation` does.
    """
    check_operation(operation)
    check_count("attempts", attempts, least=1, optional=False)
    deadline = monotonic() + check_seconds("timeout", timeout)
    made = 0
    while True:
        try:
            return operation()
        except CommitConflictError as conflict:
            made += 1
            pause = again_in(conflict, made, attempts, deadline - monotonic())
            if pause is None:
                raise
        time.sleep(pause)
