"""Cancelling a task wherever it can be cancelled: at each step of the event loop, at each request.

A step is what runs between two moments at which a task waits, in the task itself or in one of those
that it has begun. The steps of an operation are counted by running it once; then it is run again
for each of them, and cancelled there.
"""

from __future__ import annotations

import asyncio
import types
from typing import TYPE_CHECKING, Any, TypeVar

from tests.support.races import is_commit
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Generator

    from adelta.storage.object_store import ObjectStore

__all__ = [
    "FACTORIES",
    "GivenUpStore",
    "PausingStore",
    "Steps",
    "all_but",
    "run_to_its_end",
]

R = TypeVar("R")

FACTORIES = ["plain", *(["eager"] if hasattr(asyncio, "eager_task_factory") else [])]
"""The task factories that the running Python has."""

_LATE = 0.004  # seconds after which a request that was given up still takes effect
_HANGS = 60.0


class Steps:
    """Counts the steps of every task that begins while it is in use, and cancels one at the n-th.

    As a context manager it stands in for the event loop's task factory, `eager` or plain.
    """

    def __init__(self, factory: str = "plain", at: int | None = None) -> None:
        self.count = 0
        self.counting = True
        self.victim: asyncio.Task[Any] | None = None
        self._at = at
        self._eager = factory == "eager"
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Steps:
        factory: Any = lambda loop, coroutine, **options: self._made(  # noqa: E731
            coroutine, loop=loop, **options
        )
        if self._eager:  # made as asyncio's own, by which anyio knows it
            factory = asyncio.create_eager_task_factory(self._made)  # type: ignore[attr-defined]
        self._loop.set_task_factory(factory)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.set_task_factory(None)

    def _made(self, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        async def counted() -> Any:
            return await self._stepped(coroutine)

        task = asyncio.Task(counted(), **options)
        task.add_done_callback(lambda _: coroutine.close())  # one cancelled before it began
        return task

    @types.coroutine
    def _stepped(self, coroutine: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        error: BaseException | None = None
        while True:
            self._step()
            try:
                waits = coroutine.send(None) if error is None else coroutine.throw(error)
            except StopIteration as done:
                return done.value
            error = None
            try:
                yield waits
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as raised:  # it is the coroutine's to deal with
                error = raised

    def _step(self) -> None:
        self.count += self.counting
        if self.counting and self.count == self._at and self.victim is not None:
            self.victim.cancel()


class PausingStore(WrappedStore):
    """A store whose requests let the event loop go round before they take effect, and after that.

    So each can be cancelled on its way there, and on its way back. `commits` counts the puts of
    commits that were begun.
    """

    def __init__(self, inner: ObjectStore, pauses: int = 1) -> None:
        super().__init__(inner)
        self.commits = 0
        self._pauses = pauses

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        self.commits += request.kind == "put" and is_commit(request.path)
        await self._pause()
        result = await run()
        await self._pause()
        return result

    async def _pause(self) -> None:
        for _ in range(self._pauses):
            await asyncio.sleep(0)


class GivenUpStore(PausingStore):
    """A store during whose n-th request, counted from 1, a task is cancelled.

    Where the request is given up for that, and was one to write, it takes effect all the same,
    after a while: it was on its way. `late` are such requests.
    """

    def __init__(self, inner: ObjectStore, at: int) -> None:
        super().__init__(inner)
        self.victim: asyncio.Task[Any] | None = None
        self.count = 0
        self.late: list[asyncio.Future[Any]] = []
        self._at = at

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        self.count += 1
        if self.count == self._at and self.victim is not None:
            self.victim.cancel()
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                self.commits += request.kind == "put" and is_commit(request.path)
                if request.kind == "put":
                    self.late.append(asyncio.ensure_future(self._later(run)))
                raise
        return await super().request(request, run)

    async def _later(self, run: Callable[[], Awaitable[R]]) -> None:
        await asyncio.sleep(_LATE)
        await run()


async def run_to_its_end(task: asyncio.Task[Any]) -> BaseException | None:
    """What the task raises; None where it has done its work.

    Raises:
        AssertionError: it hangs.
    """
    done, _ = await asyncio.wait({task}, timeout=_HANGS)
    assert done, f"it hangs: {task.get_stack()}"
    return asyncio.CancelledError() if task.cancelled() else task.exception()


async def all_but(before: set[asyncio.Task[Any]]) -> None:
    """Wait until every task has ended that was not there before.

    Raises:
        AssertionError: one hangs.
    """
    left = asyncio.all_tasks() - before
    if left:
        _, hanging = await asyncio.wait(left, timeout=_HANGS)
        assert not hanging, f"these hang: {hanging}"
