"""What the disk cache is to take in, written beside all else by one thread of the process.

What comes faster than the disk takes it is left out: a miss later, and no wait now. A forked child
has a thread of its own.
"""

from __future__ import annotations

import os
import queue
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from adelta._locks import ForkSafeLock

if TYPE_CHECKING:
    from adelta.storage.cache_file import Extent
    from adelta.storage.disk_cache import DiskCache

__all__ = ["later", "written"]

_MOST_WAITING = 128 << 20  # bytes


class _Writer:
    """The thread, and what waits for it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waiting = 0
        self.tasks: queue.Queue[tuple[DiskCache, str, Extent, memoryview]] = queue.Queue()
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name="adelta cache", daemon=True).start()

    def add(self, cache: DiskCache, entry: str, extent: Extent, data: memoryview) -> None:
        with self._lock:
            if self.waiting + len(data) > _MOST_WAITING:
                return
            self.waiting += len(data)
        self.tasks.put((cache, entry, extent, data))

    def _run(self) -> None:
        while True:
            cache, entry, extent, data = self.tasks.get()
            try:
                with suppress(MemoryError):  # as a full disk: a miss later
                    cache.write(entry, extent, data)
            finally:
                with self._lock:
                    self.waiting -= len(data)
                del data
                self.tasks.task_done()


_making = ForkSafeLock()
_writer: _Writer | None = None


def later(cache: DiskCache, entry: str, extent: Extent, data: memoryview) -> None:
    """Have an extent written to the cache, unless too many wait for that."""
    global _writer
    writer = _writer
    if writer is None or writer.process != os.getpid():
        with _making:
            if _writer is None or _writer.process != os.getpid():
                _writer = _Writer()
            writer = _writer
    writer.add(cache, entry, extent, data)


def written() -> None:
    """Wait until all that was to be written is. Blocks."""
    writer = _writer
    if writer is not None and writer.process == os.getpid():
        writer.tasks.join()
