"""An event loop without time and threads of its own: what runs next is decided by a seed.

Time goes on when nothing else is to be done, to the moment of the next timer. Jobs for worker
threads are events like any other, and run where their turn comes. Tasks that are ready at one
moment run in an order that is drawn; callbacks keep their place, as asyncio promises it.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from anyio._backends import _asyncio as backend

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Coroutine, Iterator

__all__ = ["SimulatedLoop", "StuckError", "numbered_scopes"]


_BUSY = 200  # callbacks after which time goes on, though there are more: some wait for it in turns


class StuckError(Exception):
    """Somebody waits for what never comes."""


class _Task(asyncio.Task[Any]):
    """A task with a number: sets of tasks have the same order in every run."""

    def __new__(cls, *_: Any, loop: SimulatedLoop, **__: Any) -> _Task:
        made = super().__new__(cls)
        made.number = next(loop.numbers)
        return made

    number: int

    def __hash__(self) -> int:
        return self.number


class _Future(asyncio.Future[Any]):
    def __new__(cls, *, loop: SimulatedLoop) -> _Future:
        made = super().__new__(cls)
        made.number = next(loop.numbers)
        return made

    number: int

    def __hash__(self) -> int:
        return self.number


class _Scope(backend.CancelScope):
    """A cancel scope with a number: nested ones are cancelled in one order in every run."""

    numbers = itertools.count()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.number = next(self.numbers)

    def __hash__(self) -> int:
        return self.number


@contextmanager
def numbered_scopes() -> Iterator[None]:
    """Have anyio's cancel scopes be ones whose place in sets is the same in every run."""
    before = backend.CancelScope
    _Scope.numbers = itertools.count()
    backend.CancelScope = _Scope  # type: ignore[misc]  # a subclass
    try:
        yield
    finally:
        backend.CancelScope = before  # type: ignore[misc]


class SimulatedLoop(asyncio.BaseEventLoop):
    """Runs everything in one thread, in an order drawn from `source`; without it, as it came.

    `may_run` says of a callback's context whether it may run at all: those of a process that has
    crashed may not. `at_rest` is called where nothing is ready, and says whether something is now.
    `tasks` are those that it has made: `asyncio.all_tasks` goes through those of every loop that is
    not collected yet.
    """

    def __init__(self, source: random.Random | None) -> None:
        super().__init__()
        self.numbers: Iterator[int] = itertools.count()
        self.source = source
        self.may_run: Callable[[Any], bool] = lambda _: True
        self.at_rest: Callable[[], bool] = lambda: False
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.steps = 0
        self._since = 0  # time went on last
        self._left: list[Any] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._now = 0.0
        self.set_task_factory(_make_task)

    def time(self) -> float:
        """Seconds since the world began."""
        return self._now

    def create_future(self) -> asyncio.Future[Any]:
        """A future whose place in sets is the same in every run."""
        return _Future(loop=self)

    def get_debug(self) -> bool:
        """It is none that looks after itself: each callback would ask for that."""
        return False

    def call_soon(self, callback: Any, *args: Any, context: Any = None) -> Any:
        """Have a callback run when its turn comes."""
        made = asyncio.Handle(callback, args, self, context)
        self._ready.append(made)
        return made

    call_soon_threadsafe = call_soon  # there are no other threads

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Have a callback run after so many seconds."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(self, when: float, callback: Any, *args: Any, context: Any = None) -> Any:
        """Have a callback run at a time; of those of one moment the first one that came."""
        made = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self.numbers), made))
        return made

    # ------------------------------------------------------------------------------ what is next

    def _run_once(self) -> None:
        """Run one callback after the other, until the loop is told to stop."""
        ready = self._ready
        while True:
            if not ready and self.at_rest():
                self._since = 0
            elif not ready or (self._since > _BUSY and self._timers):
                self._pass_time()
            if ready:
                handle = ready.popleft() if len(ready) == 1 else self._drawn()
                if not handle._cancelled:
                    if self.may_run(handle._context):
                        self.steps += 1
                        self._since += 1
                        handle._run()
                    else:
                        self._left.append(handle)
                del handle
            if self._stopping:
                return

    def resume(self) -> None:
        """Have what was not run, since it might not, run after all."""
        self._ready.extend(self._left)
        self._left.clear()

    def _drawn(self) -> Any:
        """One of the tasks at the head of what is ready, or the callback that is there."""
        ready = self._ready
        if self.source is None:
            return ready.popleft()
        tasks: list[tuple[int, int]] = []
        for at, each in enumerate(ready):
            owner = getattr(each._callback, "__self__", None)
            if not isinstance(owner, _Task):
                break
            tasks.append((owner.number, at))
        if len(tasks) <= 1:
            return ready.popleft()
        _, at = self.source.choice(sorted(tasks))
        handle = ready[at]
        del ready[at]
        return handle

    def _pass_time(self) -> None:
        self._since = 0
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        if not timers:
            if self._stopping or self._ready:
                return
            raise StuckError("nothing is ready, no request is under way, and no timer is set")
        when, _, handle = heapq.heappop(timers)
        self._now = max(self._now, when)
        self._ready.append(handle)

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """Cancelled timers are passed over when their time comes."""

    def _process_events(self, event_list: object) -> None:
        raise AssertionError(event_list)

    # --------------------------------------------------------------------------- worker threads

    def submit(
        self, job: Callable[[], Callable[[], object] | None], *, ahead: bool = False
    ) -> None:
        """Run a job that is for a worker thread, when its turn comes."""

        def run() -> None:
            then = job()
            if then is not None:
                then()

        if self.source is None:
            self.call_soon(run)
        else:
            self.call_later(self.source.expovariate(1 / (0.0002 if ahead else 0.001)), run)


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **more: Any
) -> _Task:
    made = _Task(coro, loop=loop, **more)
    loop.tasks.add(made)  # type: ignore[attr-defined]  # a simulated one
    return made
