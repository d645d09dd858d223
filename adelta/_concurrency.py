"""Fan-out over tasks and worker threads; `ReadAhead`, which works in order, is beside it.

* `map_concurrent` runs work over items, a bounded number at a time, and fails as one.
* `map_stream` does so over items that arrive one by one, and asks for the next when it has room.
* `together` runs a few different things at once.
* `in_thread` runs blocking or CPU-heavy work in a worker thread. Its limit is the process's cores:
  more threads of CPU work only fight for the interpreter lock.
* `ItemsInThread` asks an iterator for each item in a worker thread, up to its end.
* `in_io_thread` runs blocking file-system calls, which wait rather than compute.
* `beside_in_thread` runs a call that nobody has to wait for.
* `in_engine_thread` runs calls into a library that itself asks adelta for rows.
* `have_jobs_run` lets something else than threads run a loop's jobs.
* `to_the_end` runs what must not be torn by a cancellation.
* `ahead_of_others` lets work for which others wait go before the rest, where there is a queue.

The first failure cancels the rest and is raised as itself, never inside an exception group.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Sequence,
)
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import ContextVar, copy_context
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeAlias, TypeVar, cast, overload
from weakref import WeakKeyDictionary

import anyio

from adelta._workers import Workers, no_thread
from adelta.errors import OutOfMemoryError

__all__ = [
    "CPU_THREADS",
    "MOST_THREADS",
    "ItemsInThread",
    "JobRunner",
    "ahead_of_others",
    "beside_in_thread",
    "ended",
    "goes_ahead",
    "have_jobs_run",
    "in_engine_thread",
    "in_io_thread",
    "in_thread",
    "map_concurrent",
    "map_stream",
    "to_the_end",
    "together",
]

P = ParamSpec("P")
T = TypeVar("T")
R = TypeVar("R")
A = TypeVar("A")
B = TypeVar("B")

CPU_THREADS = max(2, os.cpu_count() or 2)
"""Calls that `in_thread` runs at once."""

MOST_THREADS = {"adelta-cpu": CPU_THREADS, "adelta-io": 16, "adelta-engine": 8}
"""How many threads of each name an event loop has at most. Each starts when all others are busy,
and stays."""

_NO_MEMORY = (
    "the memory of this machine, or of this process, does not suffice: ask for less at once, or "
    "give it more"
)
_END = object()  # of an iterator, which must not raise StopIteration in a thread
_ByLoop: TypeAlias = "WeakKeyDictionary[asyncio.AbstractEventLoop, JobRunner]"
_ahead: ContextVar[bool] = ContextVar("adelta: ahead of others", default=False)


class JobRunner(Protocol):
    """What runs the jobs of an event loop: `Workers`, unless `have_jobs_run` says otherwise."""

    def submit(
        self, job: Callable[[], Callable[[], object] | None], *, ahead: bool = False
    ) -> None:
        """Have `job` run before long, and then what it returns. Neither raises anything."""
        ...


class _Pool:
    """The threads for one sort of work: each loop has its own, at most so many."""

    __slots__ = ("_by_loop", "_most", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._most = MOST_THREADS[name]
        self._by_loop: _ByLoop = WeakKeyDictionary()

    def of(self, loop: asyncio.AbstractEventLoop) -> JobRunner:
        """What runs the jobs of the loop."""
        workers = self._by_loop.get(loop)
        if workers is None:
            workers = self._by_loop[loop] = Workers(loop, self._most, self._name)
        return workers

    def have_jobs_run(self, loop: asyncio.AbstractEventLoop, by: JobRunner) -> None:
        """Let `by` run them."""
        self._by_loop[loop] = by


_CPU, _IO, _ENGINE = _pools = tuple(map(_Pool, MOST_THREADS))


def have_jobs_run(loop: asyncio.AbstractEventLoop, by: JobRunner) -> None:
    """Let `by` run what would be run in threads for this loop, which has run nothing yet.

    Where it has no threads, a call of `in_engine_thread` that asks the loop for rows never ends.
    """
    for pool in _pools:
        pool.have_jobs_run(loop, by)


@contextmanager
def ahead_of_others() -> Iterator[None]:
    """What is begun inside goes before what else waits for a thread, or for a request's turn.

    It is for short work that others wait for, one after the other: a commit, a look at the log.
    """
    before = _ahead.set(True)
    try:
        yield
    finally:
        _ahead.reset(before)


def goes_ahead() -> bool:
    """Whether the caller is inside `ahead_of_others`, or was begun there."""
    return _ahead.get()


async def in_thread(func: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Result of CPU-heavy `func`, run in a worker thread while the loop goes on.

    Where the caller is cancelled, `func` is over, or never begins, when that is raised: what it
    works on may be closed then.
    """
    return await _Job(lambda: func(*args, **kwargs)).done(_CPU)


async def in_io_thread(func: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Result of blocking `func` that mostly waits for the operating system.

    Where the caller is cancelled, `func` is over, or never begins, when that is raised.
    """
    return await _Job(lambda: func(*args, **kwargs)).done(_IO)


def beside_in_thread(call: Callable[[], R]) -> Future[R]:
    """The result of blocking `call`, in a thread of its own: it goes on whoever is cancelled.

    It may wait for long, as for a server that does not answer: no other work waits behind it, nor
    does the end of the program. Whoever waits does by ``asyncio.wrap_future``.

    Raises:
        InvalidUseError: no thread can be started.
    """
    told: Future[R] = Future()
    told.set_running_or_notify_cancel()  # so that who is cancelled does not cancel it for others

    def run() -> None:
        try:
            result = call()
        except BaseException as error:
            told.set_exception(error)
        else:
            told.set_result(result)

    try:
        threading.Thread(target=run, name="adelta-beside", daemon=True).start()
    except RuntimeError as error:
        raise no_thread(error) from error
    return told


async def in_engine_thread(func: Callable[[], R], interrupt: Callable[[], object]) -> R:
    """Result of `func`, which waits for other work of the loop, and of its threads.

    Where the caller is cancelled while `func` runs, `interrupt` is called on the loop to have it
    end soon; it is over, or never begins, when the cancellation is raised.
    """
    return await _Job(func, interrupt).done(_ENGINE)


class ItemsInThread(AsyncIterator[T]):
    """The items of an iterator that takes long to make each: one is made in a worker thread.

    It ends where the iterator ends. Every value is an item: None, nothing and zero too.
    """

    __slots__ = ("_items",)

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)

    async def __anext__(self) -> T:
        """The next item; nothing else of the loop waits for it."""
        item = await in_thread(next, self._items, _END)
        if item is _END:
            raise StopAsyncIteration
        return cast("T", item)


class _Job(Generic[R]):
    """A call in a worker thread that is waited for, in the context of its caller."""

    __slots__ = (
        "_call",
        "_context",
        "_ended",
        "_future",
        "_interrupt",
        "_loop",
        "_process",
        "_turn",
    )

    def __init__(
        self, call: Callable[[], R], interrupt: Callable[[], object] | None = None
    ) -> None:
        self._call = call
        self._interrupt = interrupt
        self._context = copy_context()
        self._turn = [True]  # who takes it out decides: the call begins, or it never does
        self._process = os.getpid()
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[R] | None = None
        self._ended: asyncio.Event | None = None

    async def done(self, pool: _Pool) -> R:
        """The result."""
        workers = pool.of(self._loop)
        future: asyncio.Future[R] = self._loop.create_future()
        self._future = future
        workers.submit(self._run, ahead=goes_ahead())
        try:
            return await future
        except asyncio.CancelledError:
            if self._give_up():
                assert self._ended is not None
                if self._interrupt is not None:
                    self._interrupt()
                await to_the_end(self._ended.wait())
            raise

    def _run(self) -> Callable[[], None] | None:
        if self._future is None or self._future.cancelled() or not self._took_turn():
            return None
        try:
            answer = partial(self._answer, self._context.run(self._call))
        except OutOfMemoryError as error:
            answer = partial(self._fail, error)
        except MemoryError as error:  # of Python, of Arrow and of other libraries alike
            failure = OutOfMemoryError(f"{_NO_MEMORY}: {error}" if str(error) else _NO_MEMORY)
            failure.__cause__ = error.with_traceback(None)  # whose frames hold much of it
            answer = partial(self._fail, failure)
        except BaseException as error:
            answer = partial(self._fail, error)
        return partial(self._post, answer)

    def _post(self, answer: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(answer)

    def _answer(self, result: R) -> None:
        future = self._told()
        if not future.done():
            future.set_result(result)

    def _fail(self, error: BaseException) -> None:
        future = self._told()
        if isinstance(error, StopIteration):  # which no future takes
            cause, error = error, RuntimeError("a call in a thread raised StopIteration")
            error.__cause__ = cause
        if not future.done():
            future.set_exception(error)

    def _told(self) -> asyncio.Future[R]:
        """The future, which an error's traceback is not to refer to."""
        assert self._future is not None
        future, self._future = self._future, None
        if self._ended is not None:
            self._ended.set()
        return future

    def _give_up(self) -> bool:
        """Whether the call has begun, so that `_ended` will be set."""
        if self._took_turn() or self._future is None or self._process != os.getpid():
            return False
        self._ended = asyncio.Event()
        return True

    def _took_turn(self) -> bool:
        try:
            self._turn.pop()
        except IndexError:
            return False
        return True


async def map_concurrent(
    work: Callable[[T], Awaitable[R]], items: Iterable[T], *, limit: int
) -> list[R]:
    """Results of `work` for every item, in the items' order, at most `limit` under way at once.

    The first failure cancels what is under way and is raised.
    """
    todo = list(items)
    if len(todo) <= 1 or limit <= 1:
        return [await work(item) for item in todo]
    results: dict[int, R] = {}
    failure: list[BaseException] = []
    queue: Iterator[tuple[int, T]] = iter(enumerate(todo))

    async with anyio.create_task_group() as group:

        async def worker() -> None:
            for index, item in queue:
                try:
                    results[index] = await work(item)
                except Exception as error:
                    failure.append(error)
                    group.cancel_scope.cancel()
                    return

        for _ in range(min(limit, len(todo))):
            group.start_soon(worker)
    if failure:
        raise failure[0]
    return [results[index] for index in range(len(todo))]


@overload
async def together(
    first: Callable[[], Awaitable[A]], second: Callable[[], Awaitable[B]], /
) -> tuple[A, B]: ...
@overload
async def together(*works: Callable[[], Awaitable[R]], limit: int | None = None) -> Sequence[R]: ...
async def together(*works: Callable[[], Awaitable[Any]], limit: int | None = None) -> Sequence[Any]:
    """Results of all `works`, in order, run at once, or at most `limit` of them.

    The first failure cancels the rest and is raised.
    """
    return await map_concurrent(_run, works, limit=limit or len(works))


async def _run(work: Callable[[], Awaitable[R]]) -> R:
    return await work()


async def map_stream(
    work: Callable[[T], Awaitable[R]], items: AsyncIterable[T], *, limit: int
) -> list[R]:
    """Results of `work` for every item, in the items' order, at most `limit` under way at once.

    An item is asked for only when there is room for its work. The first failure, be it of `work`
    or of `items`, cancels what is under way and is raised.
    """
    results: dict[int, R] = {}
    failure: list[BaseException] = []
    room = asyncio.Semaphore(max(1, limit))

    async with anyio.create_task_group() as group:

        async def run(index: int, item: T) -> None:
            try:
                results[index] = await work(item)
            except Exception as error:
                failure.append(error)
                group.cancel_scope.cancel()
            finally:
                room.release()

        try:
            index = 0
            await room.acquire()
            async for item in items:
                group.start_soon(run, index, item)
                index += 1
                await room.acquire()
        except Exception as error:
            failure.append(error)
            group.cancel_scope.cancel()
    if failure:
        raise failure[0]
    return [results[index] for index in range(len(results))]


async def to_the_end(work: Awaitable[R]) -> R:
    """Result of `work`, which is not torn even where the caller is cancelled meanwhile.

    A cancellation, of a scope as of the task, is raised when the work has ended.
    """
    task = asyncio.ensure_future(work)
    try:
        await ended((task,))
    except asyncio.CancelledError:
        if not task.cancelled():
            task.exception()  # seen, and of less weight than the cancellation
        raise
    return task.result()


async def ended(tasks: Collection[asyncio.Future[Any]]) -> None:
    """Wait until all `tasks` have ended, though the caller be cancelled meanwhile.

    The cancellation, of a scope as of the task, is raised then. No task is made that whoever
    cancels all tasks of the loop, as its end does, could cancel in the place of the caller's.
    """
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):  # keeps scopes out; what follows keeps the rest out
        while left := [task for task in tasks if not task.done()]:
            try:
                await asyncio.wait(left)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        raise cancelled
