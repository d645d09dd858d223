"""Async iterators as plain ones, one blocking step an item.

All of an async iterator happens in one task: an async generator may hold a cancel scope or a task
group across its yields, and these belong to the task that entered them.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Generic, ParamSpec, TypeVar, cast

from adelta.errors import InvalidUseError
from adelta.sync._portal import END, Caller, Done, Failed, Portal, call, current, is_current, run

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ArrowIterator", "BlockingIterator", "items", "iterate"]

P = ParamSpec("P")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_INTERRUPTED: Final = (
    "this iteration was interrupted while it fetched an item, which is lost; start it again"
)


class _Pump(Generic[T_co]):
    """The loop's half of an iteration, and its task. Everything here runs on the loop.

    The task starts with the first item asked for. It knows nothing of the caller's half, so that
    an iterator left alone is collected and ends it.
    """

    def __init__(self, portal: Portal, source: AsyncIterator[T_co]) -> None:
        self._portal = portal
        self._source = source
        self._wanted: asyncio.Queue[Caller] = asyncio.Queue()
        self._closers: list[Caller] = []
        self._task: asyncio.Task[None] | None = None
        self._ended = False
        self._cancelled = False
        self._interrupted = False

    def ask(self, caller: Caller) -> None:
        """Give the next item to `caller`."""
        if self._ended:
            caller.finish(self._last())
            return
        caller.interrupt = self._interrupt
        self._wanted.put_nowait(caller)
        if self._task is None:
            self._task = self._portal.start(self._run())

    def cancel(self) -> None:
        """End soon."""
        self._cancelled = True
        if self._task is None:
            self._ended = True
        elif not self._ended:
            self._task.cancel()

    def close(self, caller: Caller) -> None:
        """End, and tell `caller` when all is cleaned up."""
        self.cancel()
        if self._task is None or self._task.done():
            caller.finish(Done(None))
        else:
            self._closers.append(caller)

    def _interrupt(self) -> None:
        self._interrupted = True
        self.cancel()

    def _last(self) -> Done | Failed:
        return Failed(InvalidUseError(_INTERRUPTED)) if self._interrupted else Done(END)

    async def _run(self) -> None:
        caller: Caller | None = None
        try:
            while True:
                caller = await self._wanted.get()
                caller.finish(Done(await anext(self._source)))
                caller = None
        except StopAsyncIteration:
            outcome = self._last()
        except BaseException as error:
            cancelled = self._cancelled and isinstance(error, asyncio.CancelledError)
            outcome = self._last() if cancelled else Failed(error)
        self._ended = True
        closed = await self._close_source()
        if caller is not None:
            caller.finish(outcome)
        while not self._wanted.empty():
            self._wanted.get_nowait().finish(self._last())
        for closer in self._closers:
            closer.finish(closed)
        if isinstance(closed, Failed) and not self._closers:
            self._portal.report(f"closing {self._source!r} failed", closed.error)
        del outcome, closed  # their tracebacks hold this frame

    async def _close_source(self) -> Done | Failed:
        try:
            if (aclose := getattr(self._source, "aclose", None)) is not None:
                await aclose()
        except BaseException as error:
            return Failed(error)
        return Done(None)


class BlockingIterator(Iterator[T_co]):
    """Items of an async iterator, one blocking step each.

    It is its own context manager: leaving the block ends what runs behind it, as `close` does, and
    as collection does without waiting. Several threads may share it; each item goes to one.
    """

    __slots__ = ("_over", "_owners", "_portal", "_pump")

    def __init__(
        self, portal: Portal, source: AsyncIterator[T_co], owners: Sequence[object] = ()
    ) -> None:
        self._over = False
        self._owners = tuple(owners)  # a handle that were collected meanwhile would close
        self._portal = portal
        self._pump = _Pump(portal, source)

    def __iter__(self) -> BlockingIterator[T_co]:
        """The iterator itself."""
        return self

    def __next__(self) -> T_co:
        """The next item.

        Raises:
            InvalidUseError: the iterator was made in another process, or a step of it was
                interrupted.
        """
        if self._over:
            raise StopIteration
        if self._portal is not current():
            raise InvalidUseError(
                "this iterator was made in the process that forked this one, and lives there; "
                "start the iteration again in this process"
            )
        caller, pump = Caller(self._portal), self._pump
        item = caller.wait(lambda: pump.ask(caller))
        if item is END:
            self._end()
            raise StopIteration
        return cast("T_co", item)

    def close(self) -> None:
        """End the iteration, and wait until what runs behind it has ended too.

        A thread that waits for an item meanwhile sees the iteration end.
        """
        self._end()
        if is_current(self._portal):
            caller, pump = Caller(self._portal), self._pump
            caller.wait(lambda: pump.close(caller))

    def __enter__(self) -> BlockingIterator[T_co]:
        """The iterator itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the iterator."""
        self.close()

    def __del__(self) -> None:
        """End the iteration soon, without waiting: the collector may run on any thread."""
        if is_current(self._portal):
            self._portal.post(self._pump.cancel)

    def _end(self) -> None:
        self._over = True
        self._owners = ()


class ArrowIterator(BlockingIterator["pa.RecordBatch"]):
    """Batches of rows, which other libraries of Arrow's take as a stream, lazily.

    A stream takes what is left of the iterator, and can be asked for once.
    """

    def __init__(
        self,
        portal: Portal,
        source: AsyncIterator[pa.RecordBatch],
        owners: Sequence[object],
        schema_of: Callable[[], Coroutine[Any, Any, pa.Schema]],
    ) -> None:
        super().__init__(portal, source, owners)
        self._schema_of = schema_of
        self._schema: pa.Schema | None = None

    @property
    def schema(self) -> pa.Schema:
        """The columns of the rows."""
        if self._schema is None:
            self._schema = call(self._schema_of)
        return self._schema

    def __arrow_c_schema__(self) -> object:
        """The columns, to other libraries of Arrow's."""
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, to other libraries of Arrow's."""
        from adelta.sync._arrow import reader_of

        reader: Any = reader_of(self.schema, self)
        stream: object = reader.__arrow_c_stream__(requested_schema)
        return stream


def iterate(
    owners: Sequence[object],
    function: Callable[P, AsyncIterator[T]],
    /,
    *args: P.args,
    **kwargs: P.kwargs,
) -> BlockingIterator[T]:
    """Items of ``function(*args, **kwargs)``, which keeps `owners` alive until it ends.

    The function itself is called at once, so that wrong arguments are refused here.

    Raises:
        InvalidUseError: this is the loop's own thread, or the interpreter is exiting.
    """
    source = run(function, *args, **kwargs)
    schema_of = getattr(function, "arrow_schema", None)
    if schema_of is None:
        return BlockingIterator(current(), source, owners)
    described = partial(schema_of, *args, **kwargs)
    rows = ArrowIterator(
        current(), cast("AsyncIterator[pa.RecordBatch]", source), owners, described
    )
    return cast("BlockingIterator[T]", rows)


async def items(source: AsyncIterable[T]) -> AsyncIterator[T]:
    """Each item of `source`, which itself stays open when the iteration ends."""
    async for item in source:
        yield item
