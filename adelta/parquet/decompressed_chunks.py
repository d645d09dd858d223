"""Column chunks that Snappy has compressed, as Arrow reads them without a Snappy of its own.

Half of the time that Arrow takes to decode such chunks goes to Snappy, as its wheels have it; the
one of cramjam takes less than half of that. So Arrow gets a file of its own: the same pages, not
compressed, and a footer that says so. A page is decompressed when Arrow asks for it, so there are
never more of them than it decodes at the time.

What is not as it should be is left to Arrow, which says what it makes of it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.page_headers import DICTIONARY_PAGE, Page, pages_of
from adelta.parquet.seekable_file import SeekableFile
from adelta.parquet.snappy import unsnapped
from adelta.parquet.thrift import ThriftError, encoded_integer
from adelta.parquet.uncompressed_footer import UncompressedChunk, uncompressed_footer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.reader import ParquetFile

__all__ = ["ReadableChunks", "decode_chunks"]

_FEWEST_BYTES: Final = 128 * 1024  # compressed ones that are worth the work
_MOST_UNFOLDED: Final = 32  # bytes that Snappy makes of one, and more
_MOST_UNTOLD: Final = 1 << 20  # bytes more than the footer says that a chunk unfolds to
_WINDOW: Final = 1 << 20  # bytes that are read of the file at a time, at least
_START: Final = 4  # of the first chunk: Arrow takes 0 for none
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class ReadableChunks:
    """Column chunks for Arrow to decode.

    Attributes:
        source: the file where they are.
        metadata: its footer.
        row_groups: the numbers of their row groups in it.
        decompressed: bytes of the largest of them where they are decompressed on the way; else 0.
    """

    source: pa.NativeFile
    metadata: pq.FileMetaData
    row_groups: list[int]
    decompressed: int = 0


class _UnsnappedError(Exception):
    """A page is not what Snappy makes of anything."""


def decode_chunks(
    file: ParquetFile,
    source: pa.NativeFile,
    groups: Sequence[int],
    leaves: Sequence[int],
    decode: Callable[[ReadableChunks], Iterator[_T]],
) -> Generator[_T, None, None]:
    """What `decode` makes of the chunks of the leaves in the row groups of `file`. CPU-heavy.

    `source` has the bytes of the file.

    Raises:
        InvalidTableError: the file is damaged.
    """
    began = False
    try:
        for found in decode(_readable(file, source, groups, leaves)):
            began = True
            yield found
            del found  # so that the next one may have its memory
        return
    except _UnsnappedError as error:
        if began:
            raise InvalidTableError(
                f"{file.path}: cannot be read as Parquet: a page cannot be decompressed: {error}. "
                "The object is damaged: restore it, or remove it from the table."
            ) from error
    yield from decode(ReadableChunks(source, file.metadata, list(groups)))


def _readable(
    file: ParquetFile, source: pa.NativeFile, groups: Sequence[int], leaves: Sequence[int]
) -> ReadableChunks:
    as_they_are = ReadableChunks(source, file.metadata, list(groups))
    places = file.places(leaves, groups)
    if file.footer is None or sum(end - start for start, end in places) < _FEWEST_BYTES:
        return as_they_are
    pages: dict[tuple[int, int], _Pages] = {}
    at = _START
    try:
        wanted = ((group, leaf) for group in groups for leaf in leaves)
        for (group, leaf), place in zip(wanted, places, strict=True):
            found = _snappy_pages(source, place)
            if found is None:
                return as_they_are
            chunk = pages[group, leaf] = _Pages(found, at)
            at = chunk.end
            told = file.metadata.row_group(group).column(leaf).total_uncompressed_size
            if chunk.end - chunk.start > told + _MOST_UNTOLD:
                return as_they_are
        described = {chunk: found.described for chunk, found in pages.items()}
        footer = uncompressed_footer(file.metadata, file.footer, groups, described)
        metadata = open_arrow_reader(file.path, memoryview(footer)).metadata
    except (ThriftError, InvalidTableError):
        return as_they_are
    plain: Any = _PlainFile(file.path, source, list(pages.values()))
    largest = max(found.end - found.start for found in pages.values())
    return ReadableChunks(
        pa.PythonFile(plain, mode="r"), metadata, list(range(len(groups))), largest
    )


def _snappy_pages(source: pa.NativeFile, place: ByteRange) -> list[Page] | None:
    """The pages of the chunk at `place`; None where it seems that Snappy has not compressed them.

    The footer's word for it is not asked for: Arrow ends the process where it does not know it.
    """
    found = list(pages_of(source, place))
    if not found or found[-1].payload[1] != place[1]:
        return None
    compressed = next((page for page in found if page.compressed), None)
    if compressed is None:
        return None
    start, end = compressed.payload[0] + compressed.levels, compressed.payload[1]
    source.seek(start)
    if not compressed.may_be_snappy(source.read(min(end - start, 8))):
        return None
    alike = True
    for index, page in enumerate(found):
        start, end = page.payload
        dictionary = page.kind == DICTIONARY_PAGE
        if dictionary and (index or len(found) == 1):
            return None
        same = page.unfolded == end - start
        if page.unfolded > (end - start) * _MOST_UNFOLDED or not (page.compressed or same):
            return None
        alike = alike and same
    return None if alike else found  # alike they are where nothing is compressed, too


class _Pages:
    """The pages of one chunk, decompressed, from `start` to `end` of the file for Arrow."""

    def __init__(self, pages: list[Page], start: int) -> None:
        self.start = start
        self.pages = pages
        self.headers: list[bytes] = []
        self.starts: list[int] = []
        for page in pages:
            low, high = page.length
            header = page.header[:low] + encoded_integer(page.unfolded) + page.header[high:]
            self.headers.append(header)
            self.starts.append(start)
            start += len(header) + page.unfolded
        self.end = start
        self.last: tuple[int, memoryview] | None = None  # the page of which a part was read last
        self.window: tuple[int, memoryview] = (0, memoryview(b""))  # what is at hand of the file

    def payload(self, index: int, source: pa.NativeFile) -> memoryview:
        """What a page has in `source`."""
        start, end = self.pages[index].payload
        at, data = self.window
        if not at <= start <= end <= at + len(data):
            self.window = (0, memoryview(b""))  # gives its memory back first
            source.seek(start)
            until = min(max(end, start + _WINDOW), self.pages[-1].payload[1])
            data = memoryview(source.read_buffer(until - start)).cast("B")
            at = start
            if index + 1 < len(self.pages):
                self.window = (at, data)
        return data[start - at : end - at]

    @property
    def described(self) -> UncompressedChunk:
        """What the footer has to say of the chunk."""
        if self.pages[0].kind != DICTIONARY_PAGE:
            return UncompressedChunk(self.start, self.end, self.start, None)
        return UncompressedChunk(self.start, self.end, self.starts[1], self.starts[0])

    def end_of(self, index: int) -> int:
        """Where the page of this index ends."""
        return self.starts[index + 1] if index + 1 < len(self.starts) else self.end


class _PlainFile(SeekableFile):
    """The file that Arrow reads: every page that it asks for is decompressed for it."""

    def __init__(self, path: str, source: pa.NativeFile, chunks: list[_Pages]) -> None:
        super().__init__(path, chunks[-1].end)
        self._source = source
        self._chunks = chunks
        self._starts = [chunk.start for chunk in chunks]

    def _bytes(self, start: int, end: int) -> memoryview:
        parts = []
        at = start
        while at < end:
            chunk = self._chunks[bisect_right(self._starts, at) - 1]
            stop = min(end, chunk.end)
            parts.append(self._part(chunk, at, stop))
            at = stop
        return parts[0] if len(parts) == 1 else memoryview(b"".join(parts))

    def _part(self, chunk: _Pages, start: int, end: int) -> memoryview:
        """The bytes of one chunk: whole pages at once where they are, or parts of one."""
        index = bisect_right(chunk.starts, start) - 1
        if end <= chunk.end_of(index) and (start, end) != (
            chunk.starts[index],
            chunk.end_of(index),
        ):
            at = chunk.starts[index]
            return self._page(chunk, index)[start - at : end - at]
        out = _memory(end - start)
        at = start
        while at < end:
            low, high = chunk.starts[index], chunk.end_of(index)
            stop = min(end, high)
            into = out[at - start : stop - start]
            if low == at and stop == high:
                self._decompress(chunk, index, into)
            else:
                into[:] = self._page(chunk, index)[at - low : stop - low]
            at = stop
            index += 1
        return out

    def _page(self, chunk: _Pages, index: int) -> memoryview:
        if chunk.last is None or chunk.last[0] != index:
            chunk.last = None  # gives its memory back first
            page = _memory(chunk.end_of(index) - chunk.starts[index])
            self._decompress(chunk, index, page)
            chunk.last = (index, page)
        return chunk.last[1]

    def _decompress(self, chunk: _Pages, index: int, into: memoryview) -> None:
        """Put a page there, with its header.

        Raises:
            _UnsnappedError: it is damaged, or something else than Snappy has compressed it.
        """
        page, header = chunk.pages[index], chunk.headers[index]
        payload = chunk.payload(index, self._source)
        front = len(header) + (page.levels if page.compressed else page.unfolded)
        into[: len(header)] = header
        into[len(header) : front] = payload[: front - len(header)]
        try:
            if page.compressed:
                unsnapped(payload[page.levels :], into[front:])
        except ValueError as error:
            raise _UnsnappedError(str(error)) from error


def _memory(size: int) -> memoryview:
    found: Any = pa.allocate_buffer(size, memory_pool=lasting_pool())
    return memoryview(found).cast("B")
