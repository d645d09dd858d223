"""What the disk cache is to take in, written beside all else by one thread of the process.

It begins once nothing has come for a moment, or much waits, or somebody waits for it: to make files
takes a system longer than to read them, and whoever scans many small ones would wait with it. Small
extents of an object that wait at the same time come into one file, where that may be. What
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
from adelta.storage.cache_file import together

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.storage.cache_file import Extent
    from adelta.storage.disk_cache import DiskCache

__all__ = ["is_behind", "keeping_all", "later", "written"]

_log = logging.getLogger("adelta.storage")

_MOST_WAITING = 128 << 20  # bytes
_MUCH = 32 << 20  # bytes that are not left waiting
_MOMENT = 0.2  # seconds


class _Task:
    """A file that is to be written."""

    __slots__ = ("cache", "entry", "extent", "pieces")

    def __init__(self, cache: DiskCache, entry: str, extent: Extent, data: memoryview) -> None:
        self.cache = cache
        self.entry = entry
        self.extent = extent
        self.pieces = [data]

    @property
    def key(self) -> tuple[DiskCache, str, str]:
        """What those have in common that may be written together."""
        return self.cache, self.entry, self.extent.tag

    def takes(self, extent: Extent, data: memoryview) -> bool:
        """Whether an extent of the same version comes into this file."""
        joined = together(self.extent, extent)
        if joined is None:
            return False
        self.extent = joined
        self.pieces.append(data)
        return True

    def write(self) -> None:
        """Write it, unless that cannot be."""
        one = len(self.pieces) == 1
        self.cache.write(self.entry, self.extent, self.pieces[0] if one else b"".join(self.pieces))


class _Writer:
    """The thread, and what waits for it."""

    def __init__(self) -> None:
        self.process = os.getpid()
        self.waiting = 0
        self.entries: Counter[str] = Counter()  # extents that wait, by their objects
        self.tasks: queue.Queue[_Task | threading.Event] = queue.Queue()
        self.hurry = threading.Event()
        self._lock = threading.Lock()
        self._latest: dict[tuple[DiskCache, str, str], _Task] = {}  # of those that wait, by key
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
            task = _Task(cache, entry, extent, data)
            before = self._latest.get(task.key)
            if before is not None and before.takes(extent, data):
                return
            self._latest[task.key] = task
        self.tasks.put(task)

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
            self._take(task)
            try:
                task.write()
            except MemoryError:  # as a full disk: a miss later
                pass
            except Exception:  # nobody else would write, and who waits for it would wait for ever
                _log.warning("%s: an extent was not kept", task.cache.folder, exc_info=True)
            finally:
                self._over(task.entry, sum(map(len, task.pieces)), len(task.pieces))
            del task

    def _take(self, task: _Task) -> None:
        """Let nothing more come into its file."""
        with self._lock:
            if self._latest.get(task.key) is task:
                del self._latest[task.key]

    def _over(self, entry: str = "", size: int = 0, pieces: int = 0) -> None:
        with self._lock:
            self.waiting -= size
            self.entries[entry] -= pieces
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
