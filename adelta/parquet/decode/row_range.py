"""Some rows of a row group that follow each other, decoded without the pages around them.

Arrow reads a chunk from its start, page by page, and no further than to the rows asked for. So it
gets a file in which the pages before them are missing: after a chunk's dictionary, if these rows
need it, comes the page that has the first of them. A column whose pages do not tell which rows they
have, as those of lists do not, is read from its start. All else is the file's own: its footer, its
codecs.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.tables import read_batches, side_by_side
from adelta.parquet.faults import reading, rows_missing
from adelta.parquet.guard.page_checks import check_pages, is_as_written
from adelta.parquet.guard.unfolding import Unfolding, unfolded
from adelta.parquet.page_headers import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, pages_of
from adelta.parquet.row_pages import PartialChunk
from adelta.parquet.seekable_file import SeekableFile
from adelta.parquet.skip.page_index import BY_DICTIONARY
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.layout import FileLayout

__all__ = ["are_as_told", "decode_row_range"]

_OF_VALUES = (DATA_PAGE, DATA_PAGE_V2)
_TEXTS = 64 << 20  # bytes of texts of a column that are decoded together
_BUFFERED = 64 * 1024  # bytes read of a chunk at a time: Arrow stops amid it


def decode_row_range(
    layout: FileLayout, fetched: FetchedColumns, source: pa.NativeFile, rows: range
) -> tuple[pa.Table, int]:
    """These rows of the one row group that was `fetched`, counted from its first. CPU-heavy.

    With them comes how many bytes were read for them. `source` has the bytes. There is at least one
    leaf, and one row.

    Raises:
        InvalidTableError: the object is damaged.
        UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
    """
    (group,) = fetched.row_groups
    leaves, there = fetched.columns.leaves, fetched.chunks
    chosen = set(leaves)
    if there is None:
        places = layout.places(leaves, (group,))
        there = {leaf: PartialChunk.whole(p) for leaf, p in zip(leaves, places, strict=True)}
    columns = [
        [leaf for leaf in range(column.first_leaf, column.end_leaf) if leaf in chosen]
        for column in layout.tree.columns
    ]
    gaps: list[PartialChunk] = []
    parts: dict[int, list[list[int]]] = {}  # columns by the first row that is decoded
    for column in filter(None, columns):
        chunks = [_from_row(layout, source, leaf, there[leaf], rows) for leaf in column]
        if any(chunk.before != chunks[0].before for chunk in chunks):
            chunks = [there[leaf] for leaf in column]
        gaps += chunks
        parts.setdefault(chunks[0].before, []).append(column)
    file: Any = _WithGaps(layout.path, layout.size, source, gaps)
    with reading(layout.path):
        reader = open_arrow_reader(
            layout.path,
            pa.PythonFile(file, mode="r"),
            layout.metadata,
            pool=lasting_pool(),
            buffered=_BUFFERED,
        )
        tables: dict[int, pa.Table] = {}  # by their first leaf
        for first, of in parts.items():
            wanted = range(rows.start - first, rows.stop - first)
            batches: list[pa.RecordBatch] = []
            count = 0
            for batch in read_batches(reader, [group], list(chain.from_iterable(of)), wanted.stop):
                batches.append(batch)
                count += batch.num_rows
                if count >= wanted.stop:
                    break
            if count < wanted.stop:
                raise rows_missing(layout.path, first + count, layout.rows_of((group,)))
            table = pa.Table.from_batches(batches).slice(wanted.start, len(wanted))
            tables |= {leaves[0]: table.select([at]) for at, leaves in enumerate(of)}
    whole = side_by_side([tables[first] for first in sorted(tables)])
    order = fetched.columns.order
    return (whole if order is None else whole.select(list(order))), file.bytes_read


def are_as_told(
    layout: FileLayout, fetched: FetchedColumns, source: pa.NativeFile, *, verifies: bool
) -> bool:
    """Whether pages that an index tells of are where it says, with as many rows. CPU-heavy.

    Also whether they can all be decoded together, and have the bytes that their checksums say,
    where the caller `verifies` that. `source` has the bytes of what was `fetched`.
    """
    (group,) = fetched.row_groups
    chunks = fetched.chunks or {}
    texts = set(layout.byte_arrays(fetched.columns.leaves, group))
    for leaf in fetched.columns.leaves:
        chunk = chunks[leaf]
        try:
            if chunk.told is not None and not _is_as_told(chunk, source, verifies=verifies):
                return False
            if chunk.told is None and verifies:
                check_pages(layout.path, source, layout.metadata, (group, leaf), chunk.place)
            if leaf in texts and not _is_small(layout, (group, leaf), chunk, source):
                return False
        except (ThriftError, InvalidTableError):
            return False
    return True


def _is_as_told(chunk: PartialChunk, source: pa.NativeFile, *, verifies: bool) -> bool:
    front, values = chunk.ranges
    dictionaries, pages = list(pages_of(source, front)), list(pages_of(source, values))
    if [page.payload[1] for page in dictionaries] != ([front[1]] if front[0] < front[1] else []):
        return False
    if pages[-1].payload[1] != values[1] or tuple(page.values for page in pages) != chunk.told:
        return False
    return (
        all(page.kind == DICTIONARY_PAGE for page in dictionaries)
        and all(page.kind in _OF_VALUES for page in pages)
        and (bool(dictionaries) or not any(page.encoding in BY_DICTIONARY for page in pages))
        and (not verifies or all(is_as_written(source, page) for page in (*dictionaries, *pages)))
    )


def _is_small(
    layout: FileLayout, of: tuple[int, int], chunk: PartialChunk, source: pa.NativeFile
) -> bool:
    """Whether the texts of a chunk, or of these pages, can be decoded together."""
    file: Any = _WithGaps(layout.path, layout.size, source, [chunk])
    place = (chunk.place[0], chunk.place[0] + sum(end - start for start, end in chunk.ranges))
    rows = None if chunk.told is None else sum(chunk.told)
    pages = pa.PythonFile(file, mode="r")
    return Unfolding() == unfolded(
        layout.path, pages, layout.metadata, of, place, limit=_TEXTS, rows=rows
    )


def _from_row(
    layout: FileLayout, source: pa.NativeFile, leaf: int, there: PartialChunk, rows: range
) -> PartialChunk:
    """A chunk from the page on that has the first of the rows; as it is `there` if none tells.

    Its dictionary is left out, too, where none of the rows' pages refers to it.
    """
    if layout.metadata.schema.column(leaf).max_repetition_level:
        return there
    front, values = there.ranges
    dictionary_end = there.left_out[0]
    found, passed = None, there.before
    try:
        for page in chain(pages_of(source, front), pages_of(source, values)):
            header = page.payload[0] - len(page.header)
            if page.kind == DICTIONARY_PAGE and header == there.place[0]:
                dictionary_end = page.payload[1]
                continue
            if page.kind not in _OF_VALUES or page.values < 0:
                return there
            before, passed = passed, passed + page.values
            if passed <= rows.start:
                continue
            if found is None:
                found = PartialChunk(there.place, before, (dictionary_end, header), there.end)
            if page.encoding in BY_DICTIONARY:
                return found
            if passed >= rows.stop:
                return found._replace(left_out=(there.place[0], found.left_out[1]))
    except ThriftError:
        pass  # damaged: reading it says so
    return there


class _WithGaps(SeekableFile):
    """A file whose chunks go on behind a gap at once: as many bytes are missing at their ends."""

    def __init__(
        self, path: str, size: int, source: pa.NativeFile, chunks: Sequence[PartialChunk]
    ) -> None:
        super().__init__(path, size)
        self._source: Any = source  # the stubs know no offset to read at
        self._chunks = sorted(chunks)
        self._starts = [chunk.place[0] for chunk in self._chunks]
        self.bytes_read = 0

    def _bytes(self, start: int, end: int) -> memoryview:
        index = bisect_right(self._starts, start) - 1
        if index < 0 or start >= self._chunks[index].place[1]:
            self.bytes_read += end - start
            return memoryview(self._source.read_at(end - start, start))
        low, high = self._chunks[index].left_out
        parts = [(start, min(end, low))]
        moved = high - low
        parts.append((max(start, low) + moved, min(end + moved, self._chunks[index].end)))
        parts = [(at, to) for at, to in parts if at < to]
        self.bytes_read += sum(to - at for at, to in parts)
        found = [self._source.read_at(to - at, at) for at, to in parts]
        return memoryview(found[0] if len(found) == 1 else b"".join(found))
