"""Renewed: the newest of what is fetched by calls that block, as tokens and keys are.

One call is made at a time, beside all other work. Who waits for one that fails fails with it, and
makes no other; who is cancelled leaves at once, and the call goes on for the others. Ahead of its
end one caller renews it, for a while at most, while the others go on with what there is, but wait
once that is over; where that fails it is left alone for a while. A forked child makes calls by
itself, whatever its parent was doing.
"""

from __future__ import annotations

import asyncio
import copy
import os
from concurrent.futures import Future
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio

from adelta._clock import monotonic
from adelta._concurrency import beside_in_thread
from adelta._locks import ForkSafeLock
from adelta.errors import AdeltaError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Renewed"]

_PATIENCE = 10.0  # seconds that one caller waits for what it could do without
_PAUSE = 10.0  # seconds after a failure in which what is not over is not renewed

R = TypeVar("R")


class Renewed(Generic[R]):
    """What `fetch` has given last, `newest`; None before."""

    def __init__(self, fetch: Callable[[], R], newest: R | None = None) -> None:
        self.newest = newest
        self._fetch = fetch
        self._lock = ForkSafeLock()  # held for a moment
        self._under_way: Future[R] | None = None
        self._process = 0  # that makes the call which is under way
        self._paused_until = 0.0

    async def after(self, known: R | None) -> R:
        """Another one than `known`: the newest, or one that is fetched.

        Raises:
            AdeltaError: as `fetch` does.
        """
        call = self._call(known)
        if not isinstance(call, Future):
            return call
        try:
            return await asyncio.wrap_future(call)
        except AdeltaError as error:
            failure = copy.copy(error)  # of which the others have their own
            failure.__cause__ = error.__cause__
        raise failure

    async def ahead(self, known: R, is_over: Callable[[], bool]) -> R:
        """Another one than `known`, or `known` while it is not over and another cannot be had now.

        Raises:
            AdeltaError: as `fetch` does, where `known` is over.
        """
        if not is_over():
            if monotonic() < self._paused_until or self._is_under_way():
                return known
            try:
                with anyio.move_on_after(_PATIENCE):
                    return await self.after(known)
            except StorageError:
                if is_over():
                    raise
                return known
        return await self.after(known) if is_over() else known

    def _is_under_way(self) -> bool:
        return self._under_way is not None and self._process == os.getpid()

    def _call(self, known: R | None) -> R | Future[R]:
        """The newest, if that is another one than `known`, or the call that gives one."""
        with self._lock:
            if self.newest is not None and self.newest is not known:
                return self.newest
            if self._under_way is None or not self._is_under_way():
                self._under_way, self._process = beside_in_thread(self._fetched), os.getpid()
            return self._under_way

    def _fetched(self) -> R:
        found: R | None = None
        try:
            found = self._fetch()
            return found
        except AdeltaError:
            self._paused_until = monotonic() + _PAUSE
            raise
        finally:
            with self._lock:
                self._under_way = None
                if found is not None:
                    self.newest = found
