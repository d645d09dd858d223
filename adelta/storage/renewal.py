"""Renewed: the newest of what is fetched by calls that block, as tokens and keys are.

One call is made at a time, in a worker thread. Who waits for one that fails fails with it, and
makes no other. Ahead of its end one caller renews it, while the others go on with what there is,
but wait once that is over; where that fails it is left alone for a while. A forked child makes
calls by itself, whatever its parent was doing.
"""

from __future__ import annotations

import copy
import os
from typing import TYPE_CHECKING, Generic, TypeVar

from adelta._clock import monotonic
from adelta._concurrency import in_io_thread
from adelta._locks import ForkSafeLock
from adelta.errors import AdeltaError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Renewed"]

_PAUSE = 10.0  # seconds after a failure in which what is not over is not renewed

R = TypeVar("R")


class Renewed(Generic[R]):
    """What `fetch` has given last, `newest`; None before."""

    def __init__(self, fetch: Callable[[], R], newest: R | None = None) -> None:
        self.newest = newest
        self._fetch = fetch
        self._lock = ForkSafeLock()  # held in worker threads alone
        self._failures = 0
        self._failure: AdeltaError | None = None  # the last one
        self._paused_until = 0.0
        self._renewing: int | None = None  # the process that does so ahead of time

    async def after(self, known: R | None) -> R:
        """Another one than `known`: the newest, or one that is fetched.

        Raises:
            AdeltaError: as `fetch` does.
        """
        return await in_io_thread(self._after, known, self._failures)

    async def ahead(self, known: R, is_over: Callable[[], bool]) -> R:
        """Another one than `known`, or `known` while it is not over and another cannot be had now.

        Raises:
            AdeltaError: as `fetch` does, where `known` is over.
        """
        if is_over():
            return await self.after(known)
        if monotonic() < self._paused_until or self._renewing == os.getpid():
            return known
        self._renewing = os.getpid()
        try:
            return await self.after(known)
        except StorageError:
            if is_over():
                raise
            return known
        finally:
            self._renewing = None

    def _after(self, known: R | None, failures: int) -> R:
        """As `after`, for who asked when there had been so many failures."""
        with self._lock:
            if self.newest is not None and self.newest is not known:
                return self.newest
            if self._failure is not None and self._failures > failures:
                raise copy.copy(self._failure)
            try:
                self.newest = self._fetch()
            except AdeltaError as error:
                self._failures += 1
                self._failure = copy.copy(error)
                self._paused_until = monotonic() + _PAUSE
                raise
            return self.newest
