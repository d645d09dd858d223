"""Streams that close in order and in silence, however they are left.

A stream of adelta's is an async generator over others, each of which has something to end:
requests, tasks, worker threads. An event loop knows of every async generator, and at its own end
closes them all at once, an inner one while the outer one is closing it. So of a `stream` the loop
is shown a single generator, which stands for the whole: the loop's end waits for it, and with it
for all that it stands for. Generators of the user's own that are begun meanwhile it is shown as
ever. A closing that is itself cancelled half way is cut off, as any generator's is.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast
from weakref import WeakSet

if TYPE_CHECKING:
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

    __slots__ = ("_closed", "_closing", "_guard", "_loop", "_over", "source")

    def __init__(self, source: AsyncGenerator[T, None]) -> None:
        self.source = source
        _sources.add(source)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._closed: asyncio.Future[None] | None = None  # while somebody closes it
        self._closing: asyncio.Task[None] | None = None  # where nobody else does
        self._over = False

    async def step(self, take: Callable[[], Awaitable[T]]) -> T:
        """What `take` gets of the source, which is over where it raises."""
        if self._loop is None:
            await self._begin()
        try:
            return await OutOfSight(take)
        finally:
            self._end_with_source()

    async def close(self) -> None:
        """Close the source, or wait for who does."""
        while self._closed is not None:
            await asyncio.wait((self._closed,))
        self._closed = closed = asyncio.get_running_loop().create_future()
        try:
            await OutOfSight(self.source.aclose)
        finally:
            self._closed = None
            closed.set_result(None)
            self._end_with_source()

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
            while not self._over:
                closing = self._close_soon()
                await asyncio.wait((closing,))
                if not closing.cancelled():  # as all tasks are at the end of a loop
                    closing.result()
                    break

    def _close_soon(self) -> asyncio.Task[None]:
        if self._closing is None or self._closing.done():
            self._closing = asyncio.ensure_future(self.close())
        return self._closing

    def _end_with_source(self) -> None:
        """Note that the source has ended, if it has: not so where somebody else's step goes on."""
        if self.source.ag_frame is not None:  # type: ignore[attr-defined]  # of typeshed
            return
        self._over = True
        _under_way.discard(self)
        guard, self._guard = self._guard, None
        if guard is not None and not guard.ag_running:  # type: ignore[attr-defined]  # of typeshed
            with suppress(StopIteration):
                guard.aclose().__await__().send(None)  # which waits for nothing now


_under_way: set[_Run[Any]] = set()
_sources: WeakSet[AsyncGenerator[Any, None]] = WeakSet()


class OutOfSight(Awaitable[T]):
    """What `begin` gives; the event loop learns of no async generator that begins in it.

    Whoever begins one so has to close it.
    """

    __slots__ = ("_begin",)

    def __init__(self, begin: Callable[[], Awaitable[T]]) -> None:
        self._begin = begin

    def __await__(self) -> Generator[Any, Any, T]:
        steps = _unseen(lambda: self._begin().__await__())
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                if error is None:
                    waits_for = _unseen(partial(steps.send, value))
                else:
                    waits_for = _unseen(partial(steps.throw, error))
            except StopIteration as end:
                return cast("T", end.value)
            value, error = None, None
            try:
                value = yield waits_for
            except GeneratorExit:
                _unseen(steps.close)
                raise
            except BaseException as raised:
                error = raised


def _unseen(step: Callable[[], T]) -> T:
    first, last = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(partial(_pass_on, first), partial(_pass_on, last))
    try:
        return step()
    finally:
        sys.set_asyncgen_hooks(first, last)


def _pass_on(hook: Callable[[Any], None] | None, generator: Any) -> None:
    """Tell the loop of the user's own generators, and of what stands for another stream.

    Of adelta's it is told nothing: a loop that ended without closing them has ended what they wait
    for.
    """
    frame = generator.ag_frame
    module = "" if frame is None else str(frame.f_globals.get("__name__"))
    ours = generator in _sources or (module.startswith("adelta.") and module != __name__)
    if hook is not None and not ours:
        hook(generator)
