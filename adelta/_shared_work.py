"""SharedWork: one run of a piece of work for all who ask for it at the same time.

An answer is never older than the question: a run serves those who asked before it began. Who asks
while one is under way waits, and shares the next one with all who do. So any number of callers at
one moment cost two runs at most, one after the other.

A run is a task of its own, which belongs to those who wait for it together: that one of them is
cancelled does not concern the others, and where all of them are, the last one cancels the run and
waits for its end. It runs in the context of the one who asked for it first, and ahead of others.

Those who have waited go on a few in each turn of the event loop: what hundreds of them do next, all
in one turn, would hold up everything else.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import nullcontext
from itertools import islice
from typing import TYPE_CHECKING, Generic, TypeVar

from adelta._concurrency import ahead_of_others, ended
from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    import anyio

__all__ = ["SharedWork"]

R = TypeVar("R")

_GO_ON = 8  # in one turn of the loop


class _Run(Generic[R]):
    """One run of the work, and those who wait for its result."""

    __slots__ = ("begun", "stopped_by", "task", "traceback", "waiting")

    def __init__(self) -> None:
        self.begun = False
        self.waiting: dict[asyncio.Future[None], None] = {}
        self.stopped_by: Exception | None = None
        self.task: asyncio.Task[R]
        self.traceback: TracebackType | None = None

    def let_go_on(self, *_: object) -> None:
        """Wake the next few of those who wait, and the rest after them."""
        asleep = (each for each in self.waiting if not each.done())
        for each in islice(asleep, _GO_ON):
            each.set_result(None)
        if next(asleep, None) is not None:
            self.task.get_loop().call_soon(self.let_go_on)

    def failure(self, error: BaseException) -> BaseException:
        """What is raised in one of those who wait: the others leave no trace on it."""
        if self.traceback is None:
            self.traceback = error.__traceback__
        if isinstance(error, AdeltaError):
            return _copy(error, self.traceback)
        return error.with_traceback(self.traceback)


class SharedWork(Generic[R]):
    """Runs one piece of work for all who have asked for it, one run at a time; see the module.

    A run begins when it has got `turn`, which others may take too, and goes ahead of others unless
    it is long.
    """

    def __init__(self, turn: anyio.Lock, *, ahead: bool = True) -> None:
        self._turn = turn
        self._ahead = ahead
        self._runs: set[_Run[R]] = set()
        self._stopped_by: Exception | None = None

    async def result(self, work: Callable[[], Awaitable[R]]) -> R:
        """The result of a run of `work`, the same for all callers, that begins after the call.

        Raises:
            As the work does, in each of those who share the run; and what it was stopped by.
        """
        if self._stopped_by is not None:
            raise _copy(self._stopped_by, None)
        run = self._next_run(work)
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        run.waiting[over] = None
        try:
            await over
        except asyncio.CancelledError:
            if len(run.waiting) == 1:
                await self._end(run)
            raise
        finally:
            del run.waiting[over]
            if not run.waiting:
                self._runs.discard(run)
        try:
            return _outcome(run)
        finally:
            del run  # else the traceback of an error holds the error

    async def stop(self, reason: Exception) -> None:
        """End what is under way, and raise `reason` in all who wait for it, or ask later."""
        self._stopped_by = reason
        left = [run for run in self._runs if not run.task.done()]
        for run in left:
            run.stopped_by = reason
            run.task.cancel()
        for run in left:
            await self._end(run)

    def _next_run(self, work: Callable[[], Awaitable[R]]) -> _Run[R]:
        """The run that has not begun: who asks now may still share it."""
        for run in self._runs:
            if not run.begun and not run.task.done():
                return run
        run = _Run()
        run.task = asyncio.get_running_loop().create_task(self._begin(run, work))
        run.task.add_done_callback(run.let_go_on)
        self._runs.add(run)
        return run

    async def _begin(self, run: _Run[R], work: Callable[[], Awaitable[R]]) -> R:
        async with self._turn:
            run.begun = True
            del run  # which holds this task, and that the error
            with ahead_of_others() if self._ahead else nullcontext():
                return await work()

    async def _end(self, run: _Run[R]) -> None:
        """Leave nothing of a run that nobody waits for any more."""
        self._runs.discard(run)
        if not run.task.done():
            run.task.cancel()
            await ended((run.task,))
        if not run.task.cancelled():
            run.task.exception()


def _outcome(run: _Run[R]) -> R:
    task = run.task
    if run.stopped_by is not None:
        raise _copy(run.stopped_by, None)
    error = None if task.cancelled() else task.exception()
    if error is None:
        return task.result()
    try:
        raise run.failure(error)
    finally:
        del error, task, run


def _copy(error: Exception, traceback: TracebackType | None) -> Exception:
    own = copy.copy(error).with_traceback(traceback)
    own.__cause__, own.__context__ = error.__cause__, error.__context__
    own.__suppress_context__ = error.__suppress_context__
    if notes := getattr(error, "__notes__", None):
        own.__notes__ = list(notes)
    return own
