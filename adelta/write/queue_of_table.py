"""QueueOfTable: which handles have their commits queued together."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary, WeakValueDictionary

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from adelta.storage.object_store import ObjectStore
    from adelta.write.commit_queue import CommitQueue

__all__ = ["QueueOfTable"]

_Queues = WeakValueDictionary["Hashable", "CommitQueue"]
_queues: WeakKeyDictionary[asyncio.AbstractEventLoop, _Queues] = WeakKeyDictionary()


class QueueOfTable:
    """Finds the queue of a table in the event loop that is running, and keeps it.

    Handles with the same address, the same options and the same catalog's client have one queue.
    The queue of a store that was opened elsewhere is that store's alone.
    """

    def __init__(
        self, store: ObjectStore, options: Mapping[str, str] | None, catalog: object | None = None
    ) -> None:
        self._store = store
        self._key: Hashable = id(store)
        if options is not None:
            self._key = (store.uri, tuple(sorted(options.items())), id(catalog))
        self._queue: CommitQueue | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> CommitQueue:
        """The queue."""
        loop = asyncio.get_running_loop()
        if self._queue is None or self._loop is not loop:
            queues = _queues.setdefault(loop, WeakValueDictionary())
            from adelta.write.commit_queue import CommitQueue

            self._queue = queues.get(self._key) or CommitQueue()
            queues[self._key] = self._queue
            self._loop = loop
        return self._queue
