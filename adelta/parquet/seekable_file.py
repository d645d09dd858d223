"""What Arrow asks of a file in Python that it reads from: a position, and reads from there."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod

import pyarrow as pa

from adelta.errors import InvalidUseError

__all__ = ["SeekableFile"]


class SeekableFile(ABC):
    """A seekable, read-only file of `size` bytes, which a subclass has somewhere.

    Args:
        path: the object's path, for messages.
        size: size in bytes of the whole object.
    """

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._position = 0
        self._closed = False

    @abstractmethod
    def _bytes(self, start: int, end: int) -> memoryview:
        """The bytes from `start` to `end`, which is not before it.

        Raises:
            InvalidUseError: they are not to be had.
        """

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

    def read(self, length: int = -1) -> memoryview:
        """The next `length` bytes, or all that follow, not copied: Arrow takes any buffer.

        Raises:
            InvalidUseError: some of them are not to be had.
        """
        return self._take(length)

    def read_buffer(self, length: int = -1) -> pa.Buffer:
        """The next `length` bytes as an Arrow buffer that shares their memory.

        Raises:
            InvalidUseError: some of them are not to be had.
        """
        return pa.py_buffer(self._take(length))

    def close(self) -> None:
        """Give back the bytes."""
        self._closed = True

    def _take(self, length: int) -> memoryview:
        start = self._position
        end = max(start, self._size if length < 0 else min(self._size, start + length))
        found = self._bytes(start, end)
        self._position = end
        return found
