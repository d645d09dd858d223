"""Fetched ranges of an object, posing as the whole object to a synchronous reader.

Arrow decodes in a worker thread, where nothing can be awaited. So the reader fetches first, and
Arrow finds the bytes here. A read outside what was fetched raises.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

from adelta.errors import InvalidUseError
from adelta.parquet.seekable_file import SeekableFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.storage.cached_ranges import CachedBytes

__all__ = ["SparseFile"]


class SparseFile(SeekableFile):
    """A file of which only some bytes are there.

    Reads inside one fetched piece copy nothing. Of pieces that a disk cache has they read no more
    than what is asked for.

    Args:
        path: the object's path, for messages.
        size: size in bytes of the whole object.
        pieces: the start of every fetched range with its bytes; they must not overlap.
    """

    def __init__(
        self, path: str, size: int, pieces: Iterable[tuple[int, memoryview | CachedBytes]]
    ) -> None:
        super().__init__(path, size)
        ordered = sorted(
            ((start, data) for start, data in pieces if len(data)), key=lambda piece: piece[0]
        )
        self._starts = [start for start, _ in ordered]
        self._data = [data for _, data in ordered]

    def close(self) -> None:
        """Give back the fetched bytes."""
        super().close()
        self._starts.clear()
        self._data.clear()

    def _bytes(self, start: int, end: int) -> memoryview:
        parts: list[memoryview] = []
        at = start
        index = bisect_right(self._starts, start) - 1
        while at < end:
            if not 0 <= index < len(self._starts):
                break
            offset = at - self._starts[index]
            if not 0 <= offset < len(self._data[index]):
                break
            part = self._data[index][offset : offset + end - at]
            parts.append(part)
            at += len(part)
            index += 1
        if at < end:
            raise InvalidUseError(
                f"{self._path}: bytes {at:,} to {end:,} were read but never fetched from the store"
            )
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
