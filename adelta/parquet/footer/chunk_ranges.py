"""Where a Parquet file has its column chunks, by asking Arrow what it would read.

Arrow's reader judges the metadata of a chunk before it reads the chunk; its Python access to that
metadata ends the process where the metadata is damaged or encrypted. So a reader over a file of
nothing but zeros goes first, and what it asks for is where the chunks are. It asks for all chunks
of a row group before it looks at any, and gives up when the last one is cut short.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from adelta.errors import InvalidTableError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.faults import reading
from adelta.parquet.seekable_file import SeekableFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange

__all__ = ["ChunkLayout", "chunk_layouts", "chunk_ranges", "decoded_bytes"]

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "INT96": 8}


class ChunkLayout(NamedTuple):
    """Where a column chunk is in its object, and what it comes to.

    Attributes:
        place: its bytes, ``[start, end)``.
        physical_type: Parquet's own type of its values, which is the schema's.
        decoded_bytes: the memory that it takes at least, once it is decoded.
    """

    place: ByteRange
    physical_type: str
    decoded_bytes: int


def decoded_bytes(physical_type: str, length: int, unfolded: int, values: int) -> int:
    """The memory that a chunk takes at least: runs of equal values are few bytes that make many.

    `length` is that of values of a fixed one, `unfolded` the bytes of the pages.
    """
    width = _WIDTHS.get(physical_type, 4)
    if physical_type == "FIXED_LEN_BYTE_ARRAY":
        width = max(width, length)
    return max(unfolded, width * max(values, 0))


def chunk_layouts(
    path: str, size: int, metadata: pq.FileMetaData, groups: Sequence[int], leaves: Sequence[int]
) -> dict[tuple[int, int], ChunkLayout]:
    """Where the chunks of the leaves in the row groups are, by row group and leaf. CPU-heavy.

    They are held to the schema's types: Arrow ends the process where it meets another one.

    Raises:
        InvalidTableError: the metadata of a chunk is damaged.
        UnsupportedFeatureError: a chunk uses a part of Parquet that Arrow does not read.
    """
    places = chunk_ranges(path, size, metadata, groups, leaves)
    columns = {leaf: metadata.schema.column(leaf) for leaf in leaves}
    types = {leaf: (column.physical_type, column.length) for leaf, column in columns.items()}
    found: dict[tuple[int, int], ChunkLayout] = {}
    for group in groups:
        chunks = metadata.row_group(group)
        for leaf in leaves:
            chunk, (expected, length) = chunks.column(leaf), types[leaf]
            if chunk.physical_type != expected:
                raise InvalidTableError(
                    f"{path}: a chunk of its row group {group} is of {chunk.physical_type}, where "
                    f"the schema says {expected}. The footer is damaged: restore the object, or "
                    "remove it from the table."
                )
            unfolded, values = chunk.total_uncompressed_size, chunk.num_values
            size_of = decoded_bytes(expected, length or 0, unfolded, values)
            found[group, leaf] = ChunkLayout(places[group, leaf], expected, size_of)
    return found


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
    reader = open_arrow_reader(path, source, metadata)
    ordered = sorted(leaves)

    def asked_for(group: int, columns: list[int]) -> list[ByteRange]:
        zeros.expect(len(columns))
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


class _Zeros(SeekableFile):
    """A file of nothing but zeros, which need no memory, that remembers what was read."""

    def __init__(self, path: str, size: int) -> None:
        super().__init__(path, size)
        self._zeros = memoryview(bytes(64 * 1024))
        self.asked: list[ByteRange] = []
        self._expected = 0

    def expect(self, reads: int) -> None:
        """Forget what was read, and let the last one of so many reads find nothing."""
        self.asked.clear()
        self._expected = reads

    def _bytes(self, start: int, end: int) -> memoryview:
        self.asked.append((start, end))
        if len(self.asked) == self._expected:
            return self._zeros[:0]
        count = end - start
        if count > len(self._zeros):
            self._zeros = memoryview(mmap.mmap(-1, 2 * count, access=mmap.ACCESS_READ))
        return self._zeros[:count]
