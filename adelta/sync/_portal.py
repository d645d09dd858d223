"""One event loop for the process's blocking callers, in a thread of its own.

`call` runs a coroutine function there and waits; `_iterate` and `_enter` do the same for async
iterators and async context managers. What they guarantee:

1. Whatever interrupts the wait (Ctrl-C, an exception raised by a signal handler such as a timeout)
   cancels the work, lets it clean up for a moment, and is raised.
2. A forked child starts afresh: it neither uses nor collects anything of its parent's loop.
3. A call made on the loop's own thread, where waiting could never end, is refused at once.
4. When the interpreter exits, work is cancelled, what is open is closed, the loop is stopped.
5. The coroutine sees the caller's context variables.
6. An iterable handed to `feed` is consumed in the thread that waits, never in another.
"""

from __future__ import annotations

import asyncio
import atexit
import contextvars
import ctypes
import os
import queue
import threading
import time
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Iterable,
    Iterator,
)
from contextlib import suppress
from enum import Enum
from typing import Any, Final, ParamSpec, Protocol, TypeVar, cast

from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError
from adelta.sync._loop import new_event_loop

__all__ = [
    "END",
    "Caller",
    "Closable",
    "Done",
    "Failed",
    "Portal",
    "abandon",
    "call",
    "current",
    "feed",
    "is_current",
    "run",
]

P = ParamSpec("P")
T = TypeVar("T")

_CLEANUP_SECONDS: Final = 5.0
"""How long cancelled work may clean up, be it interrupted or ended by the interpreter's exit."""

_SLICE_SECONDS: Final = 0.5
"""How long a thread sleeps at most before it looks for signals: one that comes just before it falls
asleep does not wake it, and on Windows none does."""

_EXITING: Final = (
    "adelta.sync cannot be used any more, because the interpreter is exiting; use it before, or in "
    "an exit handler that is registered after its first use"
)

_VANISHING_SECONDS: Final = 30.0
"""How long a daemon thread that calls too late is held: far longer than an interpreter exits."""


class Closable(Protocol):
    """What must be closed on the loop that it was opened on."""

    async def aclose(self) -> None:
        """Close it."""
        ...


class _End(Enum):
    END = "end"


END: Final = _End.END
"""The word for "no more items", which no item can be."""


@dataclass(frozen=True, slots=True)
class Done:
    """A result for a waiting thread."""

    value: object


@dataclass(frozen=True, slots=True)
class Failed:
    """An error for a waiting thread."""

    error: BaseException


@dataclass(frozen=True, slots=True)
class _Pull:
    """The loop asks the waiting thread for the next item of its iterable."""

    items: Iterator[object]
    answer: Callable[[Done | Failed], None]


class Caller:
    """One waiting thread, as the loop sees it: everything but `wait` is the loop's to call.

    `interrupt` is what cancels the work that the thread waits for; the work sets it.
    """

    __slots__ = ("_mailbox", "_portal", "gone", "interrupt")

    def __init__(self, portal: Portal) -> None:
        self._mailbox: queue.SimpleQueue[Done | Failed | _Pull] = queue.SimpleQueue()
        self._portal = portal
        self.gone = False
        self.interrupt: Callable[[], object] | None = None

    def finish(self, outcome: Done | Failed) -> None:
        """End the wait.

        While the interpreter exits nobody is told: who still waits is a daemon thread, which is
        about to vanish and must not wake to print a traceback.
        """
        self.gone = True
        if not self._portal.stopping:
            self._mailbox.put(outcome)

    def pull(self, items: Iterator[object], answer: Callable[[Done | Failed], None]) -> None:
        """Ask the waiting thread for an item."""
        self._mailbox.put(_Pull(items, answer))

    def wait(self, begin: Callable[[], None]) -> Any:
        """Have the loop run `begin`, serve its pulls, and return or raise the outcome."""
        self._portal.refuse_own_thread()
        try:
            self._portal.submit(begin)
            message = self._receive()
            while isinstance(message, _Pull):
                self._serve(message)
                message = self._receive()
        except BaseException as error:
            if isinstance(error.__context__, queue.Empty):  # an interrupt between two looks
                error.__context__ = None
            if self._portal.post(self._give_up):
                self._linger()
            raise
        if isinstance(message, Done):
            return message.value
        try:
            if isinstance(message.error, asyncio.CancelledError):
                raise InvalidUseError(
                    "the work was cancelled on the event loop of adelta.sync, by none of its "
                    "callers; please report this as a defect of adelta"
                ) from message.error
            raise message.error
        finally:
            del message, self  # else the error's traceback holds the error: a cycle

    def _receive(self) -> Done | Failed | _Pull:
        while True:
            with suppress(queue.Empty):
                return self._mailbox.get(timeout=_SLICE_SECONDS)

    def _serve(self, pull: _Pull) -> None:
        answer: Done | Failed
        try:
            answer = Done(next(pull.items, END))
        except Exception as error:
            answer = Failed(error)
        self._portal.submit(lambda: pull.answer(answer))

    def _give_up(self) -> None:
        # Also when the outcome is in the mailbox already: nobody will take it.
        self.gone = True
        if self.interrupt is not None:
            self.interrupt()

    def _linger(self) -> None:
        left = _CLEANUP_SECONDS
        while left > 0:
            try:
                if not isinstance(self._mailbox.get(timeout=min(left, _SLICE_SECONDS)), _Pull):
                    return
            except queue.Empty:
                left -= _SLICE_SECONDS


_caller: contextvars.ContextVar[Caller | None] = contextvars.ContextVar(
    "adelta.sync caller", default=None
)


class Portal:
    """A running event loop in a daemon thread, and everything that lives on it.

    The portal holds its tasks and what is open by strong references: while the portal is there,
    nothing of its loop is collected unclosed. See `current` for the process's one portal.
    """

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.stopping = False
        self.reopening = threading.RLock()
        self._exit = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closing: set[asyncio.Task[None]] = set()
        self._open: dict[int, Closable] = {}
        # A daemon, or the interpreter would wait for it before it runs exit handlers.
        self._thread = threading.Thread(target=self._main, name="adelta-loop", daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:  # some Pythons start no thread any more when they exit
            self.loop.close()
            raise InvalidUseError(_EXITING) from error

    # In any thread.

    def refuse_own_thread(self) -> None:
        """Prove that the calling thread may wait for the loop.

        Raises:
            InvalidUseError: it is the loop's own.
        """
        if threading.get_ident() == self._thread.ident:
            raise InvalidUseError(
                "a blocking call of adelta.sync was made on its own event loop's thread, where "
                "it would wait for itself; use the async face there: `import adelta`, and `await`"
            )

    def submit(self, step: Callable[[], None]) -> None:
        """Have the loop run `step` in a copy of the caller's context, unless it ends before.

        Raises:
            InvalidUseError: the loop is ending.
        """

        def unless_stopping() -> None:  # whoever comes too late begins nothing that stays undone
            if not self.stopping:
                step()

        if self.stopping or not self.post(unless_stopping):
            raise _too_late()

    def post(self, step: Callable[[], object]) -> bool:
        """Have the loop run `step`; whether the loop is still there. Never blocks, never raises."""
        try:
            self.loop.call_soon_threadsafe(step)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def adopt(self, resource: Closable) -> None:
        """Close `resource` at exit, unless it is released or disowned before."""
        self._open[id(resource)] = resource

    def disown(self, resource: Closable) -> None:
        """Forget `resource`: its owner has closed it."""
        self._open.pop(id(resource), None)

    def release(self, resource: Closable) -> None:
        """Close `resource` soon, if it is still open. Never blocks: finalisers call it."""
        self.post(lambda: self._release(resource))

    def stop(self) -> None:
        """Cancel all work, close what is open, end the loop and its thread."""
        self.stopping = True
        self.post(self._exit.set)
        self._thread.join(4 * _CLEANUP_SECONDS)

    # On the loop's thread.

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that the portal holds until it is done, in the current context."""
        return self._spawn(work, self._tasks)

    def report(self, message: str, error: BaseException) -> None:
        """Tell of an error that no caller waits for."""
        self.loop.call_exception_handler({"message": message, "exception": error})

    def _spawn(
        self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]
    ) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        return task

    def _release(self, resource: Closable) -> None:
        if self._open.pop(id(resource), None) is not None:
            self._spawn(self._close(resource), self._closing)

    async def _close(self, resource: Closable) -> None:
        try:
            await resource.aclose()
        except Exception as error:
            self.report(f"closing {resource!r} failed", error)

    def _main(self) -> None:
        # Not asyncio.run: that joins the loop's executor in a new thread, which an interpreter that
        # is exiting refuses to start. The executor's threads end by an exit handler of their own.
        try:
            self.loop.run_until_complete(self._stay())
        finally:
            self.loop.close()

    async def _stay(self) -> None:
        await self._exit.wait()
        await self._cancel(self._tasks)
        for resource in list(self._open.values()):
            self._release(resource)
        if self._closing:
            await asyncio.wait(self._closing, timeout=_CLEANUP_SECONDS)
        await self._cancel(asyncio.all_tasks() - {asyncio.current_task()})
        await self.loop.shutdown_asyncgens()

    @staticmethod
    async def _cancel(tasks: Collection[asyncio.Task[Any] | None]) -> None:
        running = [task for task in tasks if task is not None]
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running, timeout=_CLEANUP_SECONDS)


_portal: Portal | None = None
_starting = threading.Lock()
_exiting = False
_abandoned: list[object] = []


def current() -> Portal:
    """The portal of this process, started where there is none yet.

    Raises:
        InvalidUseError: the interpreter is exiting.
    """
    global _portal
    portal = _portal
    if portal is None:
        with _starting:
            if not _exiting:
                portal = _portal = _portal or Portal()
    if portal is None:
        raise _too_late()
    return portal


def _too_late() -> InvalidUseError:
    """The refusal of a call that comes when the interpreter exits.

    A daemon thread is held first: it is about to vanish, and shall not print a traceback before.
    """
    if threading.current_thread().daemon:
        time.sleep(_VANISHING_SECONDS)
    return InvalidUseError(_EXITING)


def is_current(portal: Portal | None) -> bool:
    """Whether `portal` is this process's own. Starts none: finalisers call it."""
    return portal is not None and portal is _portal


def abandon(thing: object) -> None:
    """Keep `thing`, which belongs to the loop of the parent process, from being collected here.

    Collecting it would run its parent's clean-up in this process: a session would complain that it
    is unclosed; a socket would leave the epoll set that both processes share, and the parent would
    wait for that socket for ever.
    """
    _abandoned.append(thing)


def _start_afresh() -> None:
    """In a forked child: forget the parent's portal, but let go of nothing (see `abandon`)."""
    global _portal, _starting
    if _portal is not None:
        abandon(_portal)
    _portal = None
    _starting = threading.Lock()  # another thread of the parent may have held the old one


def _stop_at_exit() -> None:
    global _exiting
    with _starting:
        _exiting = True
    if _portal is not None:
        _portal.stop()


# One reference that nothing gives back: the list outlives even the interpreter's last sweep.
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_abandoned))
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_start_afresh)
atexit.register(_stop_at_exit)


def call(function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Result of ``await function(*args, **kwargs)`` on the loop.

    Raises:
        InvalidUseError: this is the loop's own thread, or the interpreter is exiting.
    """
    portal = current()
    caller = Caller(portal)

    def begin() -> None:
        _caller.set(caller)
        caller.interrupt = portal.start(_drive(caller, function, *args, **kwargs)).cancel

    return cast("T", caller.wait(begin))


async def _drive(
    caller: Caller, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
) -> None:
    try:
        caller.finish(Done(await function(*args, **kwargs)))
    except BaseException as error:  # a KeyboardInterrupt that left the task would end the loop
        caller.finish(Failed(error))


def run(function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Result of plain ``function(*args, **kwargs)`` on the loop, which keeps state in one thread.

    Raises:
        InvalidUseError: this is the loop's own thread, or the interpreter is exiting.
    """

    async def plain() -> T:
        return function(*args, **kwargs)

    return call(plain)


class _Feed(AsyncIterator[T]):
    """An iterable that the loop consumes item by item, in the thread that waits for the call."""

    def __init__(self, items: Iterator[T]) -> None:
        self._items = items

    async def __anext__(self) -> T:
        caller = _caller.get()
        if caller is None or caller.gone:
            raise InvalidUseError(
                "an iterable is read during the call that it was passed to, and that call has "
                "ended; pass the iterable to the call that reads it"
            )
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def receive(outcome: Done | Failed) -> None:
            if answer.done():  # cancelled meanwhile
                return
            if isinstance(outcome, Failed):
                answer.set_exception(outcome.error)
            elif outcome.value is END:
                answer.set_exception(StopAsyncIteration())
            else:
                answer.set_result(cast("T", outcome.value))

        caller.pull(self._items, receive)
        return await answer


def feed(items: Iterable[T]) -> AsyncIterator[T]:
    """An async iterator to pass to `call`; `items` is consumed in the calling thread.

    That thread waits anyway: so a generator runs where its author wrote it, with its thread locals,
    its own calls of adelta.sync and Ctrl-C, and the loop is never held.
    """
    return _Feed(iter(items))
