"""The page index of a file: bounds and null counts of the pages of a column chunk.

Where the indexes lie is said in the footer, in fields that Arrow does not hand on: `index_places`
reads them from the footer's bytes. `decode_pages` reads what lies there. An index that is damaged,
or disagrees with the footer, says nothing: it decides what is worth reading, never what is read.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from adelta._dataclasses import dataclass
from adelta.parquet.thrift import BINARY, BOOLEANS, I64, LIST, STRUCT, CompactReader, ThriftError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from adelta.parquet.byte_ranges import ByteRange

__all__ = [
    "BY_DICTIONARY",
    "IndexPlace",
    "PageLocations",
    "Pages",
    "decode_pages",
    "index_places",
    "page_locations",
]

_ROW_GROUPS, _COLUMN_ORDERS = 4, 7  # of FileMetaData
_COLUMNS = 1  # of RowGroup
_META_DATA = 3  # of ColumnChunk
_OFFSET_INDEX, _OFFSET_INDEX_LENGTH, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH = 4, 5, 6, 7
_ENCODING_STATS = 13  # of ColumnMetaData
_PAGE_TYPE, _ENCODING, _COUNT = 1, 2, 3  # of PageEncodingStats
_DICTIONARY_PAGE = 2
_NULL_PAGES, _MINIMA, _MAXIMA, _NULL_COUNTS = 1, 2, 3, 5  # of ColumnIndex
_PAGE_LOCATIONS = 1  # of OffsetIndex
_PAGE_OFFSET, _PAGE_SIZE, _FIRST_ROW = 1, 2, 3  # of PageLocation


BY_DICTIONARY: Final = (2, 8)
"""Encodings of pages that refer to a dictionary."""


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where the indexes of a column chunk lie.

    Attributes:
        column_index: bounds of its pages; None where there is no such index.
        offset_index: places of its pages.
        by_dictionary: how many pages refer to a dictionary; None where that is not known.
    """

    column_index: ByteRange | None
    offset_index: ByteRange
    by_dictionary: int | None = None


@dataclass(frozen=True, slots=True)
class PageLocations:
    """Where the data pages of a column chunk are, in the order of their rows.

    Attributes:
        first_rows: the first row of each page, counted within the row group.
        places: where in the file each page lies, header included.
        by_dictionary: how many of them refer to a dictionary; None where that is not known.
    """

    first_rows: tuple[int, ...]
    places: tuple[ByteRange, ...]
    by_dictionary: int | None = None


@dataclass(frozen=True, slots=True)
class Pages:
    """The data pages of a column chunk, in the order of their rows.

    Attributes:
        first_rows: the first row of each page, counted within the row group.
        minima: a lower bound of each page's values, as Parquet stores a value plainly; None where
            all are null.
        maxima: likewise an upper bound.
        null_counts: how many values of each page are null; None where the file does not say.
    """

    first_rows: tuple[int, ...]
    minima: tuple[bytes | None, ...]
    maxima: tuple[bytes | None, ...]
    null_counts: tuple[int, ...] | None


def index_places(
    footer: memoryview, wanted: Collection[tuple[int, int]], *, end: int
) -> dict[tuple[int, int], IndexPlace]:
    """Where the indexes of the chunks `wanted` lie: (row group, leaf) to place.

    `footer` starts with the file's Thrift metadata, and `end` is where that starts in the file.
    Chunks without an offset index are left out. Where the file does not say in which order its
    bounds are, there is no column index. CPU-heavy: call it in a worker thread.

    Raises:
        ThriftError: the footer is damaged.
    """
    reader = CompactReader(footer)
    places: dict[tuple[int, int], IndexPlace] = {}
    ordered = False
    for field, kind in reader.fields():
        if field == _ROW_GROUPS and kind == LIST:
            last = max((group for group, _ in wanted), default=-1)
            for group in range(reader.list_of(STRUCT)):
                if group > last:
                    reader.skip(STRUCT)
                    continue
                leaves = {leaf for one, leaf in wanted if one == group}
                for leaf, place in _places_in_group(reader, leaves, end):
                    places[group, leaf] = place
        else:
            ordered = ordered or field == _COLUMN_ORDERS
            reader.skip(kind)
    if ordered:
        return places
    return {chunk: replace(place, column_index=None) for chunk, place in places.items()}


def _places_in_group(
    reader: CompactReader, leaves: Collection[int], end: int
) -> list[tuple[int, IndexPlace]]:
    found = []
    for field, kind in reader.fields():
        if field != _COLUMNS or kind != LIST:
            reader.skip(kind)
            continue
        for leaf in range(reader.list_of(STRUCT)):
            if leaf not in leaves:
                reader.skip(STRUCT)
                continue
            numbers, by_dictionary = _numbers_of_chunk(reader)
            offsets = _within(numbers, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH, end)
            if offsets is not None:
                bounds = _within(numbers, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH, end)
                found.append((leaf, IndexPlace(bounds, offsets, by_dictionary)))
    return found


def _numbers_of_chunk(reader: CompactReader) -> tuple[dict[int, int], int | None]:
    """The fields of a chunk that are integers; and how many of its pages refer to a dictionary."""
    numbers, pages = dict[int, int](), None
    for field, kind in reader.fields():
        if field == _META_DATA and kind == STRUCT:
            for inner, of in reader.fields():
                if inner == _ENCODING_STATS and of == LIST:
                    stats = [_integers(reader) for _ in range(reader.list_of(STRUCT))]
                    pages = sum(
                        one.get(_COUNT, 0)
                        for one in stats
                        if one.get(_PAGE_TYPE) != _DICTIONARY_PAGE
                        and one.get(_ENCODING) in BY_DICTIONARY
                    )
                else:
                    reader.skip(of)
        elif 4 <= kind <= I64:
            numbers[field] = reader.integer()
        else:
            reader.skip(kind)
    return numbers, pages


def _within(numbers: Mapping[int, int], at: int, length: int, end: int) -> ByteRange | None:
    start = numbers.get(at, 0)
    stop = start + numbers.get(length, 0)
    return (start, stop) if 0 < start < stop <= end else None


def _integers(reader: CompactReader) -> dict[int, int]:
    """The fields of a struct that are integers."""
    numbers = {}
    for field, kind in reader.fields():
        if 4 <= kind <= I64:
            numbers[field] = reader.integer()
        else:
            reader.skip(kind)
    return numbers


def decode_pages(
    column_index: memoryview, offset_index: memoryview, *, rows: int, end: int
) -> Pages:
    """The pages of a chunk of a row group of `rows` rows, in a file whose footer starts at `end`.

    Raises:
        ThriftError: the indexes are damaged, or do not agree.
    """
    null_pages: list[bool] = []
    minima: list[bytes] = []
    maxima: list[bytes] = []
    null_counts: list[int] | None = None
    reader = CompactReader(column_index)
    for field, kind in reader.fields():
        if field == _NULL_PAGES and kind == LIST:
            null_pages = [reader.boolean() for _ in range(reader.list_of(BOOLEANS[0]))]
        elif field == _MINIMA and kind == LIST:
            minima = [reader.binary() for _ in range(reader.list_of(BINARY))]
        elif field == _MAXIMA and kind == LIST:
            maxima = [reader.binary() for _ in range(reader.list_of(BINARY))]
        elif field == _NULL_COUNTS and kind == LIST:
            null_counts = [reader.integer() for _ in range(reader.list_of(I64))]
        else:
            reader.skip(kind)
    first_rows = page_locations(offset_index, rows=rows, end=end).first_rows
    lists = (null_pages, minima, maxima, first_rows)
    if null_counts is not None and min(null_counts, default=0) < 0:
        raise ThriftError("a page with fewer nulls than none")
    if len({len(one) for one in (*lists, null_counts or first_rows)}) > 1:
        raise ThriftError("a column index and an offset index of different pages")
    return Pages(
        first_rows,
        tuple(None if null else low for null, low in zip(null_pages, minima, strict=True)),
        tuple(None if null else high for null, high in zip(null_pages, maxima, strict=True)),
        None if null_counts is None else tuple(null_counts),
    )


def page_locations(
    offset_index: memoryview, *, rows: int, end: int, by_dictionary: int | None = None
) -> PageLocations:
    """Where the pages of a chunk are, of `rows` and `end` as `decode_pages` has it.

    Raises:
        ThriftError: the index is damaged.
    """
    reader = CompactReader(offset_index)
    first_rows: list[int] = []
    places: list[ByteRange] = []
    for field, kind in reader.fields():
        if field != _PAGE_LOCATIONS or kind != LIST:
            reader.skip(kind)
            continue
        for _ in range(reader.list_of(STRUCT)):
            numbers = _integers(reader)
            start = numbers.get(_PAGE_OFFSET, -1)
            places.append((start, start + numbers.get(_PAGE_SIZE, 0)))
            first_rows.append(numbers.get(_FIRST_ROW, -1))
    if any(low >= high for low, high in pairwise((*first_rows, rows))) or first_rows[:1] != [0]:
        raise ThriftError(f"pages that do not share {rows:,} rows among them")
    previous = 0
    for start, stop in places:
        if not previous <= start < stop <= end:
            raise ThriftError("pages that overlap, or lie outside the file")
        previous = stop
    return PageLocations(tuple(first_rows), tuple(places), by_dictionary)
