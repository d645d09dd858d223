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
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.tables import read_batches, side_by_side
from adelta.parquet.faults import reading, rows_missing
from adelta.parquet.page_headers import DATA_PAGE, DATA_PAGE_V2, DICTIONARY_PAGE, pages_of
from adelta.parquet.seekable_file import SeekableFile
from adelta.parquet.thrift import ThriftError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.layout import FileLayout

__all__ = ["decode_row_range"]

_BY_DICTIONARY = (2, 8)  # encodings of values that a dictionary has
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
    chosen = set(fetched.columns.leaves)
    columns = [
        [leaf for leaf in range(column.first_leaf, column.end_leaf) if leaf in chosen]
        for column in layout.tree.columns
    ]
    gaps: list[_Gap] = []
    parts: dict[int, list[list[int]]] = {}  # columns by the first row that is decoded
    for leaves in filter(None, columns):
        found = [_gap_before(layout, source, group, leaf, rows) for leaf in leaves]
        first = found[0].rows
        if any(gap.rows != first for gap in found):
            first = 0
        else:
            gaps += found
        parts.setdefault(first, []).append(leaves)
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


class _Gap(NamedTuple):
    """What is left out of a chunk: so many of its `rows`, in pages that are at `pages`."""

    place: ByteRange
    rows: int
    pages: ByteRange


def _gap_before(
    layout: FileLayout, source: pa.NativeFile, group: int, leaf: int, rows: range
) -> _Gap:
    """The pages of a chunk before those of the rows: none where they do not tell.

    The dictionary is among them where none of those pages refers to it.
    """
    (place,) = layout.places((leaf,), (group,))
    nothing = _Gap(place, 0, (place[1], place[1]))
    if layout.metadata.schema.column(leaf).max_repetition_level:
        return nothing
    passed, start, found = 0, place[0], nothing
    try:
        for page in pages_of(source, place):
            header = page.payload[0] - len(page.header)
            if page.kind == DICTIONARY_PAGE and header == place[0]:
                start = page.payload[1]
                continue
            if page.kind not in (DATA_PAGE, DATA_PAGE_V2) or page.values < 0:
                return nothing
            before, passed = passed, passed + page.values
            if passed <= rows.start:
                continue
            if found is nothing:
                found = _Gap(place, before, (start, header))
            if page.encoding in _BY_DICTIONARY:
                return found
            if passed >= rows.stop:
                return found._replace(pages=(place[0], found.pages[1]))
    except ThriftError:
        pass  # damaged: reading it says so
    return nothing


class _WithGaps(SeekableFile):
    """A file whose chunks go on behind a gap at once: as many bytes are missing at their ends."""

    def __init__(self, path: str, size: int, source: pa.NativeFile, gaps: Sequence[_Gap]) -> None:
        super().__init__(path, size)
        self._source: Any = source  # the stubs know no offset to read at
        self._gaps = sorted(gaps)
        self._starts = [gap.place[0] for gap in self._gaps]
        self.bytes_read = 0

    def _bytes(self, start: int, end: int) -> memoryview:
        self.bytes_read += end - start
        index = bisect_right(self._starts, start) - 1
        if index < 0 or start >= self._gaps[index].place[1]:
            return memoryview(self._source.read_at(end - start, start))
        (_, stop), _, (before, behind) = self._gaps[index]
        parts = [(start, min(end, before))]
        moved = behind - before
        parts.append((max(start, before) + moved, min(end + moved, stop)))
        found = [self._source.read_at(high - low, low) for low, high in parts if low < high]
        return memoryview(found[0] if len(found) == 1 else b"".join(found))
