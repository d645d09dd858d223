"""What the disk cache is to take in, written beside all else by one thread of the process.

It begins once nothing has come for a moment, or much waits, or somebody waits for it: to make files
takes a system longer than to read them, and whoever scans many small ones would wait with it. What
comes faster than the disk takes it is left out: a miss later, and no wait now; but inside
`keeping_all` readers wait. A forked child has a thread of its own.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from adelta._locks import ForkSafeLock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.storage.cache_file import Extent
    from adelta.storage.disk_cache import DiskCache

__all__ = ["is_behind", "keeping_all", "later", "written"]

_log = logging.getLogger("adelta.storage")

_MOST_WAITING = 128 << 20  # bytes
_MUCH = 32 << 20  # bytes that are not left waiting
_MOMENT = 0.2  # seconds


class _Writer:
    """The thread, and what waits for it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waiting = 0
        self.entries: Counter[str] = Counter()  # extents that wait, by their objects
        self.tasks: queue.Queue[tuple[DiskCache, str, Extent, memoryview] | threading.Event]
        self.tasks = queue.Queue()
        self.hurry = threading.Event()
        self._lock = threading.Lock()
        self._added = self._seen = 0
        threading.Thread(target=self._run, name="adelta cache", daemon=True).start()

    def add(self, cache: DiskCache, entry: str, extent: Extent, data: memoryview) -> None:
        with self._lock:
            if self.waiting + len(data) > _MOST_WAITING and not _keeps_all:
                return
            self.waiting += len(data)
            self.entries[entry] += 1
            self._added += 1
            if self.waiting > _MUCH:
                self.hurry.set()
        self.tasks.put((cache, entry, extent, data))

    def catch_up(self) -> None:
        """Wait until all that waits now is written, whatever comes meanwhile. Blocks."""
        reached = threading.Event()
        self.hurry.set()
        self.tasks.put(reached)
        reached.wait()

    def _run(self) -> None:
        while True:
            task = self.tasks.get()
            if isinstance(task, threading.Event):
                task.set()
                self._over()
                continue
            self._wait()
            cache, entry, extent, data = task
            try:
                cache.write(entry, extent, data)
            except MemoryError:  # as a full disk: a miss later
                pass
            except Exception:  # nobody else would write, and who waits for it would wait for ever
                _log.warning("%s: an extent was not kept", cache.folder, exc_info=True)
            finally:
                self._over(entry, len(data))
            del task, data

    def _over(self, entry: str = "", size: int = 0) -> None:
        with self._lock:
            self.waiting -= size
            self.entries[entry] -= 1
            if self.entries[entry] <= 0:
                del self.entries[entry]
            if not self.waiting:
                self.hurry.clear()

    def _wait(self) -> None:
        """Wait for a moment in which nothing comes."""
        while self._seen != self._added and not self.hurry.is_set():
            self._seen = self._added
            self.hurry.wait(_MOMENT)


_making = ForkSafeLock()
_writer: _Writer | None = None
_keeps_all = False


@contextmanager
def keeping_all() -> Iterator[None]:
    """Inside, nothing is left out: who reads is to wait for `written` where `is_behind`."""
    global _keeps_all
    before, _keeps_all = _keeps_all, True
    try:
        yield
    finally:
        _keeps_all = before


def is_behind() -> bool:
    """Whether who reads is to wait, so that memory holds what is still to be written."""
    return _keeps_all and _writer is not None and _writer.waiting > _MUCH


def later(cache: DiskCache, entry: str, extent: Extent, data: memoryview) -> None:
    """Have an extent written to the cache, unless too many wait for that."""
    global _writer
    writer = _writer
    if writer is None or writer.process != os.getpid():
        with _making:
            if _writer is None or _writer.process != os.getpid():
                try:
                    _writer = _Writer()
                except RuntimeError:  # the system has no thread left, or Python ends
                    return
            writer = _writer
    writer.add(cache, entry, extent, data)


def written(entry: str | None = None) -> None:
    """Wait until all that was to be written is, unless nothing of `entry` is in it. Blocks."""
    writer = _writer
    if writer is None or writer.process != os.getpid():
        return
    if entry is None or entry in writer.entries:
        writer.catch_up()
