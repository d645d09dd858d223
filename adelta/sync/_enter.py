"""Async context managers as plain ones, entered and left in one and the same task."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from adelta.errors import InvalidUseError
from adelta.sync._portal import Caller, Done, Failed, current, is_current

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager
    from types import TracebackType

__all__ = ["Hold", "enter"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_Leaving = tuple[Caller, BaseException | None]


class Hold(Generic[T_co]):
    """An async context manager that is entered on the loop and left there, by blocking calls."""

    __slots__ = ("_leave", "_manager", "_portal", "_task")

    def __init__(self, manager: AbstractAsyncContextManager[T_co, bool | None]) -> None:
        self._manager = manager
        self._portal = current()
        self._leave: asyncio.Future[_Leaving] | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def foreign(self) -> bool:
        """Whether the block was entered in the process that forked this one."""
        return not is_current(self._portal)

    def __enter__(self) -> T_co:
        """Enter the async context manager; what it gives."""
        caller = Caller(self._portal)
        return cast("T_co", caller.wait(lambda: self._begin(caller)))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Leave the async context manager; whether it swallows the error."""
        caller = Caller(self._portal)
        return bool(caller.wait(lambda: self._finish(caller, error)))

    def drop(self) -> None:
        """Leave soon, as if the block had been cancelled. Never blocks: finalisers call it."""
        if not self.foreign:
            self._portal.post(self._cancel)

    def _begin(self, caller: Caller) -> None:
        self._leave = self._portal.loop.create_future()
        self._task = self._portal.start(_hold(self._manager, caller, self._leave))
        caller.interrupt = self._task.cancel

    def _finish(self, caller: Caller, error: BaseException | None) -> None:
        if self._task is None or self._leave is None or self._leave.done():
            caller.finish(Failed(InvalidUseError("this block is left already: enter a new one")))
        else:
            caller.interrupt = self._task.cancel
            self._leave.set_result((caller, error))

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()


async def _hold(
    manager: AbstractAsyncContextManager[object, bool | None],
    caller: Caller,
    leave: asyncio.Future[_Leaving],
) -> None:
    """The task of a hold. It refers to no handle: one left alone is collected, and drops it."""
    try:
        caller.finish(Done(await manager.__aenter__()))
    except BaseException as failure:
        caller.finish(Failed(failure))
        leave.cancel()
        return
    error: BaseException | None = None
    try:
        caller, error = await leave
    except asyncio.CancelledError as cancelled:
        await manager.__aexit__(type(cancelled), cancelled, cancelled.__traceback__)
        raise
    try:
        if error is None:
            swallowed = await manager.__aexit__(None, None, None)
        else:
            swallowed = await manager.__aexit__(type(error), error, error.__traceback__)
        caller.finish(Done(swallowed))
    except BaseException as failure:
        caller.finish(Done(False) if failure is error else Failed(failure))
    finally:
        del error  # its traceback may hold this frame


def enter(manager: AbstractAsyncContextManager[T, bool | None]) -> Hold[T]:
    """Async context manager `manager` as a plain one.

    Raises:
        InvalidUseError: the interpreter is exiting.
    """
    return Hold(manager)
