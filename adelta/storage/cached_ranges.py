"""Ranges of an object that the disk cache has, read as they are wanted.

So they take no memory but that of the reader, who works on them while the processor has them close
by. Between finding and reading them they may go, as whatever the cache has.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._memory import lasting_pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.storage.cache_file import Extent
    from adelta.storage.disk_cache import DiskCache
    from adelta.storage.open_extent import OpenExtent

__all__ = ["CachedRanges", "LostBytesError", "new_memory"]

_LITTLE = 128 << 10


class LostBytesError(Exception):
    """Bytes that the cache had are there no more, or not as they were: ask the store for them."""


class CachedRanges:
    """`ranges` of one version of an object, which these `extents` of the cache have.

    It may be read by several threads at once.
    """

    def __init__(
        self,
        cache: DiskCache,
        entry: str,
        extents: Sequence[Extent],
        ranges: Sequence[tuple[int, int]],
    ) -> None:
        self._cache = cache
        self._entry = entry
        self._extents = extents
        self._ranges = ranges

    @contextmanager
    def open(self) -> Iterator[list[tuple[int, CachedBytes]]]:
        """Each range's start, and its bytes, to be read inside the block by one thread.

        Raises:
            LostBytesError: some of those that were read are there no more, whatever else the
                block raises of that.
        """
        files = _Files(self._cache, self._entry, self._extents)
        try:
            yield [(start, CachedBytes(files, start, end)) for start, end in self._ranges]
        except Exception as error:
            if files.lost and not isinstance(error, LostBytesError):
                raise LostBytesError from error
            raise
        finally:
            files.close()


class CachedBytes:
    """Bytes ``[start, end)`` of an object; a slice of them is read when it is asked for."""

    __slots__ = ("_end", "_files", "_start")

    def __init__(self, files: _Files, start: int, end: int) -> None:
        self._files = files
        self._start = start
        self._end = end

    def __len__(self) -> int:
        return self._end - self._start

    def __getitem__(self, place: slice) -> memoryview:
        """The bytes of a slice without a step. Raises: LostBytesError."""
        start, end, _ = place.indices(len(self))
        memory = new_memory(max(0, end - start))
        self._files.read(self._start + start, memory)
        return memory


class _Files:
    """The extents' files, each opened once it is read."""

    def __init__(self, cache: DiskCache, entry: str, extents: Sequence[Extent]) -> None:
        self.lost = False
        self._cache = cache
        self._entry = entry
        self._extents = extents
        self._open: dict[Extent, OpenExtent] = {}

    def read(self, start: int, into: memoryview) -> None:
        """Fill `into` with the bytes from `start` on. Raises: LostBytesError."""
        done = 0
        while done < len(into):
            at = start + done
            over = [each for each in self._extents if each.start <= at < each.end]
            best = max(over, key=lambda each: each.end, default=None)
            count = 0 if best is None else min(best.end - at, len(into) - done)
            if best is None or not self._read(best, at, into[done : done + count]):
                self.lost = True
                raise LostBytesError
            done += count

    def _read(self, extent: Extent, at: int, into: memoryview) -> bool:
        file = self._open.get(extent)
        if file is None:
            file = self._cache.open(self._entry, extent)
            if file is None:
                return False
            self._open[extent] = file
        return file.read(at, into)

    def close(self) -> None:
        """Give back the files; nothing more is read."""
        self._extents = ()
        while self._open:
            self._open.popitem()[1].close()


def new_memory(length: int) -> memoryview:
    """Memory for so many bytes, which the system need not give anew each time."""
    if length < _LITTLE:
        return memoryview(bytearray(length))
    return memoryview(pa.allocate_buffer(length, memory_pool=lasting_pool())).cast("B")
