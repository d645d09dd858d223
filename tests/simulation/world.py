"""A world: a loop, processes on it, their clocks and their chance, and the trace of what they do.

A process is a group of tasks. When it crashes none of its code runs any more, not even to clean up;
what it has sent may arrive all the same.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import itertools
import random
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import proxy

import pyarrow as pa

from adelta._chance import drawn_from
from adelta._clock import told_by
from adelta._concurrency import have_jobs_run
from adelta.parquet.footer.known_shapes import forget_shapes
from adelta.write.spec import engine_info
from tests.simulation.loop import SimulatedLoop, numbered_scopes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

__all__ = ["Process", "World", "here"]

T = TypeVar("T")

EPOCH_S = 1_700_000_000
_TURN = 5.0  # seconds
_TURNS = 20

_here: ContextVar[Process | None] = ContextVar("the process of this task", default=None)


def here() -> Process | None:
    """The process whose code asks; None of the world's own."""
    return _here.get()


@dataclass(eq=False)
class Process:
    """A group of tasks with a chance and a clock of their own, that dies as one.

    `skew_s` is how far its clock is off, in seconds.
    """

    world: World
    name: str
    random: random.Random
    skew_s: float = 0.0
    alive: bool = True

    def __post_init__(self) -> None:
        self.crashed: asyncio.Future[None] = self.world.loop.create_future()

    def start(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Have the process do some work."""
        before = _here.set(self)
        try:
            task = self.world.loop.create_task(work)
        finally:
            _here.reset(before)
        self.world.begun.append(task)
        return task

    def crash(self) -> None:
        """Do nothing any more."""
        self.alive = False
        if not self.crashed.done():
            self.crashed.set_result(None)
        self.world.note(f"{self.name} crashes")


class _Chance(random.Random):
    """Draws from the chance of whoever asks, so that it does not depend on what others draw."""

    def __init__(self, own: random.Random) -> None:
        super().__init__(0)
        self.own = own

    def _source(self) -> random.Random:
        process = here()
        return self.own if process is None else process.random

    def random(self) -> float:
        return self._source().random()

    def getrandbits(self, k: int, /) -> int:
        return self._source().getrandbits(k)


class World:
    """Everything that a run has, made from its seed.

    With `shuffled` the order in which things happen is drawn; else it is that in which they came,
    and pauses that are drawn are none, so that nothing but requests is a matter of chance.
    """

    def __init__(self, seed: int, *, shuffled: bool = True) -> None:
        self.seed = seed
        self.random = random.Random(f"world {seed}")
        self.loop = SimulatedLoop(random.Random(f"order {seed}") if shuffled else None)
        self.loop.may_run = self._may_run
        self.shuffled = shuffled
        self.processes: list[Process] = []
        self.begun: list[asyncio.Task[Any]] = []
        self.trace: list[str] = []
        self.keeps_trace = True
        self.ended = False
        self.on_end: Callable[[], None] = lambda: None
        self.context = copy_context()
        self.context.run(_here.set, None)

    # ---------------------------------------------------------------------------------- its time

    def time_ns(self) -> int:
        """Nanoseconds since the Unix epoch, by the clock of whoever asks."""
        process = here()
        skew = 0.0 if process is None else process.skew_s
        return round((EPOCH_S + self.loop.time() + skew) * 1000) * 1_000_000

    def monotonic(self) -> float:
        """Seconds since the world began."""
        return self.loop.time()

    def now_ms(self) -> int:
        """Milliseconds since the Unix epoch, by the store's clock."""
        return round((EPOCH_S + self.loop.time()) * 1000)

    # ----------------------------------------------------------------------------- its processes

    def process(self, name: str, *, skew_s: float = 0.0) -> Process:
        """A new process. What it draws depends on the seed and on its name alone."""
        made = Process(self, name, random.Random(f"{self.seed} {name}"), skew_s)
        self.processes.append(made)
        return made

    def _may_run(self, context: Any) -> bool:
        process = context.get(_here)
        return process is None or process.alive or self.ended

    def run(self, main: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What `main` returns, run in this world; nothing of it is left behind."""
        with self._in_force():
            try:
                self.begun.append(self.loop.create_task(main()))
                return self.loop.run_until_complete(self.begun[0])  # type: ignore[no-any-return]
            finally:
                self._clear()
                self.loop.close()

    def _clear(self) -> None:
        """End what is left, of the dead as well, which would be closed at some other moment."""
        self.ended = True
        self.loop.at_rest = lambda: False
        self.on_end()
        self.loop.resume()
        for task in self.begun:
            task.cancel()
        self.begun.clear()
        self.processes.clear()

        async def over() -> None:
            for turn in itertools.count(1):
                left = _others(self.loop)  # they find that the store answers nobody any more
                if not left:
                    return
                if turn % _TURNS == 0:
                    for task in sorted(left, key=hash):
                        task.cancel()
                await asyncio.sleep(_TURN)

        self.loop.set_exception_handler(lambda *_: None)
        self.loop.run_until_complete(over())
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        pa.scalar(0)  # what Arrow imports first is no job of the world's
        forget_shapes()
        engine_info()  # nor is what the first commit of a process looks up
        cpus, files = pa.cpu_count(), pa.io_thread_count()
        pa.set_cpu_count(1)
        pa.set_io_thread_count(1)
        collects = gc.isenabled()
        gc.disable()  # else what is collected, and when, would be part of the world
        have_jobs_run(self.loop, proxy(self.loop))  # by itself it would be kept for ever
        try:
            with (
                numbered_scopes(),
                told_by(self),
                drawn_from(_Chance(self.random) if self.shuffled else _Even(self)),
            ):
                yield
        finally:
            gc.collect(1)  # what the world has left, without all that was there before it
            if collects:
                gc.enable()
            pa.set_cpu_count(cpus)
            pa.set_io_thread_count(files)

    # --------------------------------------------------------------------------------- its trace

    def note(self, line: str) -> None:
        """Put a line into the trace."""
        if self.keeps_trace:
            self.trace.append(f"{self.loop.time():.6f} {line}")

    def digest(self) -> str:
        """What stands for the whole trace, and for how many steps it took."""
        text = "\n".join([*self.trace, str(self.loop.steps)])
        return hashlib.sha256(text.encode()).hexdigest()


class _Even(_Chance):
    """Draws names, and no pauses."""

    def __init__(self, world: World) -> None:
        super().__init__(world.random)

    def random(self) -> float:
        return 0.0


def _others(loop: SimulatedLoop) -> set[asyncio.Task[Any]]:
    """The tasks that are not done, but for the one that asks."""
    asks = asyncio.current_task(loop)
    return {task for task in loop.tasks if task is not asks and not task.done()}
