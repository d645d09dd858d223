"""Rows from the event loop's scans to an engine's threads, a few batches ahead of them.

An engine asks for rows in threads of its own, and waits there. Every scan is read by one task of
the loop's, which whoever runs the engine ends, and waits for.
"""

from __future__ import annotations

import asyncio
import queue
from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._concurrency import ended
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from adelta.scan import Scan

__all__ = ["Feeds"]

_AHEAD = 4  # batches


class Feeds:
    """The scans that one query reads. `failure` is the first error of one."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        self._closed = False
        self.failure: BaseException | None = None

    def rows(self, scan: Scan) -> Iterator[pa.RecordBatch]:
        """The rows of a scan, for a thread that is not the loop's.

        Raises:
            AdeltaError: as the scan does.
            InvalidUseError: the query has been given up.
        """
        feed = _Feed()
        self._loop.call_soon_threadsafe(self._start, feed, scan)
        while (item := feed.items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
            self._loop.call_soon_threadsafe(feed.room.release)

    def interrupt(self) -> None:
        """End all scans soon. On the loop's thread."""
        self._closed = True
        for task in self._tasks:
            task.cancel()

    async def aclose(self) -> None:
        """End all scans, and wait for them."""
        self.interrupt()
        await ended(self._tasks)

    def _start(self, feed: _Feed, scan: Scan) -> None:
        if self._closed:
            feed.items.put(InvalidUseError("the query has been given up"))
        else:
            self._tasks.append(asyncio.ensure_future(self._read(feed, scan)))

    async def _read(self, feed: _Feed, scan: Scan) -> None:
        try:
            async with aclosing(scan.batches()) as batches:
                async for batch in batches:
                    feed.items.put(batch)
                    await feed.room.acquire()
            feed.items.put(None)
        except asyncio.CancelledError:
            feed.items.put(InvalidUseError("the query has been given up"))
        except BaseException as error:
            self.failure = self.failure or error
            feed.items.put(error)


class _Feed:
    """What has been read of a scan and not been taken."""

    __slots__ = ("items", "room")

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[pa.RecordBatch | BaseException | None] = queue.SimpleQueue()
        self.room = asyncio.Semaphore(_AHEAD)
