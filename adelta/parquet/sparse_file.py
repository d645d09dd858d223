"""Fetched ranges of an object, posing as the whole object to a synchronous reader.

Arrow decodes in a worker thread, where nothing can be awaited. So the reader fetches first, and
Arrow finds the bytes here. A read outside what was fetched raises.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["SparseFile"]


class SparseFile:
    """A seekable, read-only file of `size` bytes of which only some are there.

    Reads inside one fetched piece copy nothing.

    Args:
        path: the object's path, for messages.
        size: size in bytes of the whole object.
        pieces: the start of every fetched range with its bytes; they must not overlap.
    """

    def __init__(self, path: str, size: int, pieces: Iterable[tuple[int, memoryview]]) -> None:
        self._path = path
        self._size = size
        self._position = 0
        self._closed = False
        ordered = sorted(
            ((start, data) for start, data in pieces if len(data)), key=lambda piece: piece[0]
        )
        self._starts = [start for start, _ in ordered]
        self._data = [data for _, data in ordered]

    @property
    def closed(self) -> bool:
        """Whether the bytes have been given back."""
        return self._closed

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def writable(self) -> bool:
        """Always false."""
        return False

    def tell(self) -> int:
        """The position of the next read."""
        return self._position

    def size(self) -> int:
        """Size in bytes of the whole object."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position of the next read, and return it.

        Raises:
            InvalidUseError: the position would lie before the start of the file.
        """
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidUseError(f"{self._path}: cannot seek to {base + offset}, before its start")
        self._position = base + offset
        return self._position

    def read(self, length: int = -1) -> bytes:
        """The next `length` bytes, or all that follow.

        Raises:
            InvalidUseError: some of them were not fetched.
        """
        return bytes(self._take(length))

    def read_buffer(self, length: int = -1) -> pa.Buffer:
        """The next `length` bytes as an Arrow buffer that shares the fetched memory.

        Raises:
            InvalidUseError: some of them were not fetched.
        """
        return pa.py_buffer(self._take(length))

    def close(self) -> None:
        """Give back the fetched bytes."""
        self._closed = True
        self._starts.clear()
        self._data.clear()

    def _take(self, length: int) -> memoryview:
        start = self._position
        end = self._size if length < 0 else min(self._size, start + length)
        if end <= start:
            return memoryview(b"")
        parts: list[memoryview] = []
        at = start
        index = bisect_right(self._starts, start) - 1
        while at < end:
            if not 0 <= index < len(self._starts):
                break
            offset = at - self._starts[index]
            part = self._data[index][offset : offset + end - at]
            if offset < 0 or not len(part):
                break
            parts.append(part)
            at += len(part)
            index += 1
        if at < end:
            raise InvalidUseError(
                f"{self._path}: bytes {at:,} to {end:,} were read but never fetched from the store"
            )
        self._position = end
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
