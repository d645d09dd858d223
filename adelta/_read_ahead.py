"""ReadAhead: work over items in order, with later items under way meanwhile.

Two parties share a window of items. The feeder puts an item in when there is room, and starts its
work; the taker waits for the first one in the window alone.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from adelta._concurrency import ended
from adelta._streams import OutOfSight

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Iterator

__all__ = ["ReadAhead"]

T = TypeVar("T")
R = TypeVar("R")


class ReadAhead(AsyncIterator[R], Generic[T, R]):
    """Results of `work` over `items` in order, with later items under way meanwhile.

    A result that is there, with all those before it, is given at once, whatever `items` or later
    work takes. `items` may be an async iterator: it is asked for the next item when there is room
    for one, in a task of its own, and closed in the end. What `work` or `items` raise is raised
    after the results before it.

    At most `limit` items are under way or waiting to be taken, and their summed `cost` stays
    within `budget`, except that one item is always let in. What `at_once` gives for an item is its
    result, without any work, unless that is None. `aclose` cancels what is under way; use the
    object as an async context manager, or close it in a ``finally``.
    """

    def __init__(
        self,
        work: Callable[[T], Awaitable[R]],
        items: Iterable[T] | AsyncIterator[T],
        *,
        limit: int,
        cost: Callable[[T], int] | None = None,
        budget: int = 0,
        at_once: Callable[[T], R | None] | None = None,
    ) -> None:
        self._work = work
        self._at_once = at_once
        self._items = items if isinstance(items, AsyncIterator) else iter(items)
        self._limit = max(1, limit)
        self._cost = cost
        self._budget = budget
        self._spent = 0
        self._under_way: deque[tuple[asyncio.Future[R], int]] = deque()
        self._next: tuple[T, int] | None = None
        self._exhausted = False
        self._failure: BaseException | None = None  # of the items
        self._feeder: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()  # for the one of the feeder and the taker that waits

    async def begin(self) -> None:
        """Start what can be under way, before the first result is asked for."""
        self._feed()

    def __aiter__(self) -> ReadAhead[T, R]:
        """The iterator itself."""
        return self

    async def __anext__(self) -> R:
        """The next result in order."""
        try:
            self._feed()
            while not self._under_way:
                if self._exhausted:
                    failure, self._failure = self._failure, None
                    try:
                        raise StopAsyncIteration if failure is None else failure
                    finally:
                        del failure  # whose traceback refers to this frame
                await self._change()
            task, cost = self._under_way[0]
            result = task.result() if task.done() else await asyncio.shield(task)
            self._under_way.popleft()
            self._spent -= cost
            self._feed()
        except StopAsyncIteration:
            raise
        except BaseException:
            await self.aclose()
            raise
        return result

    # -------------------------------------------------------------------------------- the feeder

    def _feed(self) -> None:
        """Start what there is room for, or let the feeder do so."""
        if not isinstance(self._items, AsyncIterator):
            self._feed_from(self._items)
        elif self._feeder is not None:
            self._changed.set()
        elif not self._exhausted:
            self._feeder = asyncio.ensure_future(self._feed_from_async(self._items))

    def _feed_from(self, items: Iterator[T]) -> None:
        while self._has_room() and not self._exhausted:
            try:
                item = next(items)
            except StopIteration:
                self._exhausted = True
            except Exception as error:
                self._exhausted, self._failure = True, error
            else:
                self._next = item, self._cost(item) if self._cost else 0

    async def _feed_from_async(self, items: AsyncIterator[T]) -> None:
        take = partial(anext, items)
        if not isinstance(items, ReadAhead):
            take = partial(OutOfSight, take)  # `aclose` closes them
        try:
            while True:
                while not self._has_room():
                    await self._change()
                item = await take()
                if self._exhausted:  # closed, by items that take no cancellation
                    return
                self._next = item, self._cost(item) if self._cost else 0
        except StopAsyncIteration:
            pass
        except Exception as error:
            self._failure = error
        except BaseException as error:  # be it a cancellation that is not ours
            self._failure = error
            raise
        finally:
            self._exhausted = True
            self._changed.set()

    def _has_room(self) -> bool:
        """Whether another item is wanted, once the one that waits is under way."""
        if self._next is not None:
            item, cost = self._next
            if self._under_way and self._budget and self._spent + cost > self._budget:
                return False
            self._next = None
            self._spent += cost
            self._under_way.append((self._begun(item), cost))
            self._changed.set()
        return len(self._under_way) < self._limit

    async def _change(self) -> None:
        self._changed.clear()
        await self._changed.wait()

    def _begun(self, item: T) -> asyncio.Future[R]:
        result = None if self._at_once is None else self._at_once(item)
        if result is None:
            return asyncio.ensure_future(self._run(item))
        done = asyncio.get_running_loop().create_future()
        done.set_result(result)
        return done

    async def _run(self, item: T) -> R:
        return await self._work(item)

    async def aclose(self) -> None:
        """Cancel what is under way, wait for it to end, and close the items."""
        self._exhausted = True
        self._next = None
        tasks: list[asyncio.Future[Any]] = [task for task, _ in self._under_way]
        self._under_way.clear()
        try:
            try:
                if self._feeder is not None:
                    self._feeder.cancel()
                    await ended((self._feeder,))
            finally:  # whoever is cancelled once more meanwhile
                self._failure = None
                if isinstance(self._items, ReadAhead | AsyncGenerator):
                    await self._items.aclose()
        finally:
            for task in tasks:
                task.cancel()
            await ended(tasks)  # a half-cancelled fetch must not outlive us
            for task in tasks:
                if not task.cancelled():
                    task.exception()

    async def __aenter__(self) -> ReadAhead[T, R]:
        """The iterator itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the iterator."""
        await self.aclose()
