"""Streams that close in order and in silence, however they are left.

A stream of adelta's is an async generator over others, each of which has something to end:
requests, tasks, worker threads. An event loop knows of every async generator, and at its own end
closes them all at once, an inner one while the outer one is closing it; and the closing of one that
is collected as the loop ends is broken off. So of a `stream` the loop is shown a single generator,
which stands for the whole: the loop's end waits for it, and with it for all that it stands for.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

__all__ = ["OutOfSight", "stream"]

P = ParamSpec("P")
T = TypeVar("T")


def stream(
    function: Callable[P, AsyncGenerator[T, None]],
) -> Callable[P, AsyncGenerator[T, None]]:
    """Let what `function`, an async generator function, gives close in order and in silence."""

    @wraps(function)
    def begun(*args: P.args, **kwargs: P.kwargs) -> AsyncGenerator[T, None]:
        return _Stream(function(*args, **kwargs))

    return begun


class _Stream(AsyncGenerator[T, None]):
    """What the user iterates over: collecting it ends what runs behind it."""

    __slots__ = ("_run",)

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self._run = _Run(source)

    def __repr__(self) -> str:
        return f"<stream of {self._run.source!r}>"

    async def asend(self, value: None) -> T:
        """The next item."""
        return await self._run.step(partial(self._run.source.asend, value))

    async def athrow(
        self,
        kind: Any,
        value: Any = None,
        trace: TracebackType | None = None,
    ) -> T:
        """The next item, where the source makes one of the error."""
        error = kind if value is None else value
        return await self._run.step(partial(self._run.source.athrow, error))

    async def aclose(self) -> None:
        """End what runs behind the stream, and wait for it."""
        await self._run.close()

    def __del__(self) -> None:
        self._run.leave()


class _Run(Generic[T]):
    """A stream on its way: it lives until it has ended, though nobody may hold the stream."""

    __slots__ = ("_closing", "_guard", "_loop", "_over", "source")

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self.source = source
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._over = False

    async def step(self, take: Callable[[], Awaitable[T]]) -> T:
        """What `take` gets of the source, which is over where it raises."""
        if self._loop is None:
            await self._begin()
        try:
            return await OutOfSight(take)
        except BaseException:
            self._end()
            raise

    async def close(self) -> None:
        """Close the source."""
        try:
            await OutOfSight(self.source.aclose)
        finally:
            self._end()

    def leave(self) -> None:
        """Close the source soon. Any thread may call it."""
        if self._loop is not None and not self._over:
            try:
                self._loop.call_soon_threadsafe(self._close_soon)
            except RuntimeError:  # the loop is closed
                _under_way.discard(self)

    async def _begin(self) -> None:
        for run in list(_under_way):
            if run._loop is None or run._loop.is_closed():
                _under_way.discard(run)
        self._loop = asyncio.get_running_loop()
        self._guard = self._until_the_loop_ends()
        _under_way.add(self)
        await anext(self._guard)

    async def _until_the_loop_ends(self) -> AsyncGenerator[None, None]:
        try:
            yield
        finally:
            self._close_soon()
            if self._closing is not None:
                await asyncio.wait((self._closing,))

    def _close_soon(self) -> None:
        if self._closing is None and not self._over:
            self._closing = asyncio.ensure_future(self.close())

    def _end(self) -> None:
        self._over = True
        _under_way.discard(self)
        guard, self._guard = self._guard, None
        if guard is not None and not guard.ag_running:  # type: ignore[attr-defined]  # of typeshed
            with suppress(StopIteration):
                guard.aclose().__await__().send(None)  # which waits for nothing now


_under_way: set[_Run[Any]] = set()


class OutOfSight(Awaitable[T]):
    """What `begin` gives; the event loop learns of no async generator that begins in it.

    Whoever begins one so has to close it.
    """

    __slots__ = ("_begin",)

    def __init__(self, begin: Callable[[], Awaitable[T]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, T]:
        with _unseen():
            steps = self._begin().__await__()
        value: Any = None
        error: BaseException | None = None
        while True:
            with _unseen():
                try:
                    waits_for = steps.send(value) if error is None else steps.throw(error)
                except StopIteration as end:
                    return cast("T", end.value)
            value, error = None, None
            try:
                value = yield waits_for
            except GeneratorExit:
                with _unseen():
                    steps.close()
                raise
            except BaseException as raised:
                error = raised


@contextmanager
def _unseen() -> Iterator[None]:
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, _let_go)
    try:
        yield
    finally:
        sys.set_asyncgen_hooks(*hooks)


def _let_go(_generator: object) -> None:
    """Nothing: a loop that ended without closing its generators has ended what they wait for."""
