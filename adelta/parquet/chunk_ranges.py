"""Where a Parquet file has its column chunks, by asking Arrow what it would read.

Arrow's reader judges the metadata of a chunk before it reads the chunk; its Python access to that
metadata ends the process where the metadata is damaged or encrypted. So a reader over a file of
nothing but zeros goes first, and what it asks for is where the chunks are. It asks for all chunks
of a row group before it looks at any, and then finds that zeros are no page.
"""

from __future__ import annotations

import io
import mmap
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.errors import InvalidTableError, InvalidUseError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.faults import reading

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange

__all__ = ["chunk_ranges"]


def chunk_ranges(
    path: str, size: int, metadata: pq.FileMetaData, groups: Sequence[int], leaves: Sequence[int]
) -> dict[tuple[int, int], ByteRange]:
    """Where the chunks of the leaves in the row groups are, by row group and leaf. CPU-heavy.

    Raises:
        InvalidTableError: the metadata of a chunk is damaged.
        UnsupportedFeatureError: a chunk uses a part of Parquet that Arrow does not read.
    """
    zeros = _Zeros(path, size)
    source = pa.PythonFile(zeros, mode="r")  # type: ignore[arg-type]  # any object with the methods
    reader = open_arrow_reader(path, source, metadata).reader
    ordered = sorted(leaves)

    def asked_for(group: int, columns: list[int]) -> list[ByteRange]:
        zeros.asked.clear()
        try:
            with reading(path):
                reader.read_row_groups([group], column_indices=columns, use_threads=False)
        except InvalidTableError:
            if len(zeros.asked) < len(columns):
                raise
        return zeros.asked[:]

    found: dict[tuple[int, int], ByteRange] = {}
    for group in groups:
        ranges = asked_for(group, ordered)
        if len(ranges) != len(ordered):  # a chunk was read in no or several pieces
            each = (asked_for(group, [leaf]) for leaf in ordered)
            ranges = [one[0] if one else (0, 0) for one in each]
        found.update(((group, leaf), span) for leaf, span in zip(ordered, ranges, strict=True))
    return found


class _Zeros:
    """A seekable file of `size` zeros that remembers which were read."""

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._position = 0
        self._zeros = memoryview(bytes(64 * 1024))
        self.closed = False
        self.asked: list[ByteRange] = []

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def writable(self) -> bool:
        return False

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise InvalidUseError(f"{self._path}: cannot seek to {base + offset}, before its start")
        self._position = base + offset
        return self._position

    def read(self, length: int = -1) -> bytes:
        return self.read_buffer(length).to_pybytes()

    def read_buffer(self, length: int = -1) -> pa.Buffer:
        """Zeros that need no memory."""
        start = self._position
        self._position = end = self._size if length < 0 else min(self._size, start + length)
        self.asked.append((start, end))
        count = max(0, end - start)
        if count > len(self._zeros):
            self._zeros = memoryview(mmap.mmap(-1, 2 * count, access=mmap.ACCESS_READ))
        return pa.py_buffer(self._zeros[:count])

    def close(self) -> None:
        self.closed = True
