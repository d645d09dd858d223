"""Requests that write an object, and whose callers have been cancelled meanwhile.

Such a request may be on the wire already, and be carried out later than a deletion that is sent
after it. So it goes on without its caller, to its end. Who deletes its object waits for that; where
it takes too long, the object is deleted once more when the request is over. All of this ends in
bounded time, and closing the store waits for it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, TypeVar

from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable

__all__ = ["AbandonedWrites"]

R = TypeVar("R")

_log = logging.getLogger("adelta.storage")

_WAIT = 5.0  # seconds that a deletion waits
_LONGEST = 30.0  # seconds that a request goes on without its caller


class AbandonedWrites:
    """The requests of one store that are under way without their callers, by key."""

    def __init__(self) -> None:
        self._requests: dict[str, set[asyncio.Task[Any]]] = {}
        self._deletions: set[asyncio.Task[None]] = set()

    async def run(
        self,
        key: str,
        request: Coroutine[Any, Any, R],
        undo: Callable[[R], Awaitable[object]] | None = None,
    ) -> R:
        """The result of a request that writes `key`; it goes on where the caller is cancelled.

        Then `undo` is given its result, if any: what it has begun, and nobody goes on with.
        """
        task = asyncio.ensure_future(request)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            self._keep(key, task)
            if undo is not None:
                self._do_later(_undone(task, undo))
            raise
        try:
            return task.result()
        finally:
            del task  # else the traceback of an error holds the error

    async def over(self, keys: Collection[str]) -> list[str]:
        """Wait for the requests to `keys`: those keys whose requests take longer than that."""
        requests = self._under_way(keys)
        if requests:
            _, requests = await asyncio.wait(requests, timeout=_WAIT)
        return [key for key in keys if key in self._requests] if requests else []

    def delete_after(self, keys: Collection[str], delete: Callable[[], Awaitable[object]]) -> None:
        """Have `keys` deleted when the requests to them are over."""
        requests = self._under_way(keys)

        async def run() -> None:
            if requests:
                await asyncio.wait(requests)
            try:
                await delete()
            except AdeltaError as error:
                _log.warning("objects that were written late were left behind: %s", error)

        self._do_later(run())

    async def then(self, key: str, work: Callable[[], Awaitable[object]]) -> None:
        """Do `work` when requests to `key` are over, and again where one takes long."""
        if late := await self.over([key]):
            self.delete_after(late, work)
        await work()

    def _do_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._deletions.add(task)
        task.add_done_callback(self._deletions.discard)

    async def aclose(self) -> None:
        """Wait until all is over, and give up what takes too long."""
        requests = self._under_way(self._requests)
        if requests:
            await asyncio.wait(requests, timeout=_WAIT)
        deletions = _of_this_loop(self._deletions)
        if deletions:
            await asyncio.wait(deletions, timeout=_LONGEST)
        left = [*self._under_way(self._requests), *_of_this_loop(self._deletions)]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _under_way(self, keys: Iterable[str]) -> set[asyncio.Task[Any]]:
        if not self._requests:
            return set()
        return _of_this_loop(task for key in keys for task in self._requests.get(key, ()))

    def _keep(self, key: str, task: asyncio.Task[Any]) -> None:
        limit = task.get_loop().call_later(_LONGEST, task.cancel)
        self._requests.setdefault(key, set()).add(task)

        def over(task: asyncio.Task[Any]) -> None:
            limit.cancel()
            if not task.cancelled():
                task.exception()  # nobody is there to be told
            left = self._requests[key]
            left.discard(task)
            if not left:
                del self._requests[key]

        task.add_done_callback(over)


async def _undone(begun: asyncio.Task[R], undo: Callable[[R], Awaitable[object]]) -> None:
    await asyncio.wait((begun,))
    if begun.cancelled() or begun.exception() is not None:
        return
    try:
        await undo(begun.result())
    except AdeltaError as error:
        _log.warning("an upload that was given up was left behind: %s", error)


def _of_this_loop(tasks: Iterable[asyncio.Task[R]]) -> set[asyncio.Task[R]]:
    """Those that can be waited for: a store may outlive a loop, and be in a forked child."""
    loop = asyncio.get_running_loop()
    return {task for task in tasks if task.get_loop() is loop}
