"""Column chunks that Snappy has compressed, as Arrow reads them without a Snappy of its own.

Half of the time that Arrow takes to decode such chunks goes to Snappy, as its wheels have it; the
one of cramjam takes less than half of that. So Arrow gets a file of its own: the same pages, not
compressed, and a footer that says so. A chunk is decompressed when Arrow asks for it. That is for
chunks that are decoded as a whole: to hand out parts of them takes what it saves.

What is not as it should be is left to Arrow, which says what it makes of it.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.chunk_source import ChunkSource
from adelta.parquet.decode.partial_footer import SNAPPY, UNCOMPRESSED, PlacedChunk, footer_of
from adelta.parquet.page_headers import DICTIONARY_PAGE, Page, pages_of
from adelta.parquet.seekable_file import SeekableFile
from adelta.parquet.snappy import unsnapped
from adelta.parquet.thrift import ThriftError, encoded_integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.layout import FileLayout

__all__ = ["UnsnappedError", "decompressed_chunks"]

_FEWEST_BYTES: Final = 512 * 1024  # of chunks, on average, that are worth the work
_LEAST_UNFOLDED: Final = 1.05  # bytes that Snappy makes of one, where that is work to speak of
_MOST_UNFOLDED: Final = 32  # bytes that Snappy makes of one, and more
_MOST_BYTES: Final = 32 * 1024 * 1024  # decompressed ones of a chunk: Arrow needs but a page's
_SWITCH: Final = "ADELTA_SNAPPY"  # "arrow" leaves all of Snappy to Arrow
_START: Final = 4  # of the first chunk: Arrow takes 0 for none


class UnsnappedError(ValueError):
    """A page is not what Snappy makes of anything."""


def decompressed_chunks(
    layout: FileLayout, source: pa.NativeFile, groups: Sequence[int], leaves: Sequence[int]
) -> ChunkSource | None:
    """The chunks of the leaves in the row groups, decompressed as Arrow asks for them. CPU-heavy.

    `source` has the bytes of the file; the chunks are to be taken as a whole. None where there is
    nothing to be gained, or where something is not as it should be.
    """
    places = layout.places(leaves, groups)
    size = sum(end - start for start, end in places)
    if os.environ.get(_SWITCH) == "arrow" or layout.footer is None:
        return None
    if size < _FEWEST_BYTES * len(places):
        return None
    chunks: dict[tuple[int, int], _Chunk | _PlainChunk] = {}
    at = _START
    try:
        wanted = ((group, leaf) for group in groups for leaf in leaves)
        for (group, leaf), place in zip(wanted, places, strict=True):
            column = layout.metadata.row_group(group).column(leaf)
            small = column.total_uncompressed_size < (place[1] - place[0]) * _LEAST_UNFOLDED
            pages = _first_pages(source, place) if small else _snappy_pages(source, place)
            if pages is None:
                return None
            chunk = _Chunk(pages, at, place) if small else _PlainChunk(pages, at)
            chunks[group, leaf] = chunk
            at = chunk.end
            if chunk.end - chunk.start > _MOST_BYTES:
                return None
        placed = {key: chunk.placed for key, chunk in chunks.items()}
        footer = footer_of(layout.metadata, layout.footer, groups, placed)
        metadata = open_arrow_reader(layout.path, memoryview(footer)).metadata
    except (ThriftError, InvalidTableError, pa.ArrowException, OSError):
        return None
    if not any(isinstance(chunk, _PlainChunk) for chunk in chunks.values()):
        return None
    plain: Any = _PlainFile(layout.path, source, list(chunks.values()))
    numbers = list(range(len(groups)))
    return ChunkSource(pa.PythonFile(plain, mode="r"), metadata, numbers, decompressed=True)


def _first_pages(source: pa.NativeFile, place: ByteRange) -> list[Page] | None:
    """The first page or two of the chunk at `place`; None where Snappy seems to have no part in it.

    The footer's word for it is not asked for: Arrow ends the process where it does not know it.
    """
    found = list(islice(pages_of(source, place), 2))
    return found if _is_snappy(source, found) else None


def _snappy_pages(source: pa.NativeFile, place: ByteRange) -> list[Page] | None:
    """The pages of the chunk at `place`; None where Snappy seems not to have compressed them."""
    found = list(pages_of(source, place))
    if not _is_snappy(source, found) or found[-1].payload[1] != place[1]:
        return None
    alike = True
    for index, page in enumerate(found):
        start, end = page.payload
        dictionary = page.kind == DICTIONARY_PAGE
        if dictionary and (index or len(found) == 1):
            return None
        same = page.unfolded == end - start
        if not page.levels <= page.unfolded <= (end - start) * _MOST_UNFOLDED:
            return None
        if not (page.compressed or same):
            return None
        alike = alike and same
    return None if alike else found  # alike they are where nothing is compressed, too


def _is_snappy(source: pa.NativeFile, pages: list[Page]) -> bool:
    compressed = next((page for page in pages if page.compressed), None)
    if compressed is None:
        return False
    return compressed.may_be_snappy(compressed.starts_with(source))


class _Chunk:
    """A chunk as it is, from `start` to `end` of the file for Arrow."""

    def __init__(self, pages: list[Page], start: int, place: ByteRange) -> None:
        self.start = start
        self.end = start + place[1] - place[0]
        self._place = place
        first = pages[0]
        data = start + first.payload[1] - place[0] if first.kind == DICTIONARY_PAGE else None
        self.placed = PlacedChunk(start, self.end, data, SNAPPY)

    def bytes_of(self, source: pa.NativeFile) -> memoryview:
        """The bytes from `start` to `end`."""
        source.seek(self._place[0])
        return memoryview(source.read_buffer(self._place[1] - self._place[0])).cast("B")


class _PlainChunk:
    """The pages of one chunk, decompressed, from `start` to `end` of the file for Arrow."""

    def __init__(self, pages: list[Page], start: int) -> None:
        self.start = start
        self._pages = pages
        self._headers: list[bytes] = []
        self._starts: list[int] = []
        for page in pages:
            low, high = page.length
            header = page.header[:low] + encoded_integer(page.unfolded) + page.header[high:]
            self._headers.append(header)
            self._starts.append(start)
            start += len(header) + page.unfolded
        self.end = start
        data = self._starts[1] if pages[0].kind == DICTIONARY_PAGE else None
        self.placed = PlacedChunk(self.start, self.end, data, UNCOMPRESSED)

    def bytes_of(self, source: pa.NativeFile) -> memoryview:
        """The bytes from `start` to `end`.

        Raises:
            UnsnappedError: they are damaged, or something else than Snappy has compressed them.
        """
        first, last = self._pages[0].payload[0], self._pages[-1].payload[1]
        source.seek(first)
        data = memoryview(source.read_buffer(last - first)).cast("B")
        found: Any = pa.allocate_buffer(self.end - self.start, memory_pool=lasting_pool())
        out = memoryview(found).cast("B")
        at = 0
        for page, header in zip(self._pages, self._headers, strict=True):
            payload = data[page.payload[0] - first : page.payload[1] - first]
            values = at + len(header) + (page.levels if page.compressed else page.unfolded)
            end = at + len(header) + page.unfolded
            out[at : at + len(header)] = header
            out[at + len(header) : values] = payload[: values - at - len(header)]
            if page.compressed:
                try:
                    unsnapped(payload[page.levels :], out[values:end])
                except ValueError as error:
                    raise UnsnappedError(str(error)) from error
            at = end
        return out


class _PlainFile(SeekableFile):
    """The file that Arrow reads: every chunk that it asks for is decompressed for it."""

    def __init__(
        self, path: str, source: pa.NativeFile, chunks: list[_Chunk | _PlainChunk]
    ) -> None:
        super().__init__(path, chunks[-1].end)
        self._source = source
        self._chunks = chunks
        self._starts = [chunk.start for chunk in chunks]

    def _bytes(self, start: int, end: int) -> memoryview:
        if start == end:
            return memoryview(b"")
        first = max(0, bisect_right(self._starts, start) - 1)
        wanted = [chunk for chunk in self._chunks[first:] if chunk.start < end]
        parts = [chunk.bytes_of(self._source) for chunk in wanted]
        data = parts[0] if len(parts) == 1 else memoryview(b"".join(parts))
        return data[start - wanted[0].start : end - wanted[0].start]
