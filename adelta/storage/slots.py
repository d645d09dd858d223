"""Slots: how many requests of a store are under way at once, and whose turn is next.

First come, first served; but what others wait for (`adelta._concurrency.ahead_of_others`) goes
before the rest, so that hundreds of readers do not hold up a commit in which a queue of writers
waits for its turn.
"""

from __future__ import annotations

import asyncio
from collections import deque

from adelta._concurrency import goes_ahead

__all__ = ["Slots"]


class Slots:
    """So many slots, each of which is held inside an `async with` block; of one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._ahead: deque[asyncio.Future[None]] = deque()
        self._others: deque[asyncio.Future[None]] = deque()

    async def __aenter__(self) -> None:
        """Wait for a slot."""
        await self.take()

    async def __aexit__(self, *_: object) -> None:
        """Give the slot to the next who waits."""
        self.give()

    async def take(self) -> None:
        """Wait for a slot, which the caller then gives back."""
        if self._free:  # then nobody waits
            self._free -= 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._ahead if goes_ahead() else self._others).append(turn)
        try:
            await turn
        except BaseException:  # of a coroutine that is closed where it waits, too
            if turn.done() and not turn.cancelled():  # it had come
                self.give()
            turn.cancel()
            raise

    def give(self) -> None:
        """Give a slot that was taken to the next who waits."""
        for queue in (self._ahead, self._others):
            while queue:
                turn = queue.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._free += 1
