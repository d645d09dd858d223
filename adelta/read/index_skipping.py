"""Skipping row groups and pages by what lies beside the data: page indexes and Bloom filters.

They are asked about row groups that the footer's statistics keep, where there are any. What came
along with the footer costs nothing; the rest is asked for at once, and only where that is little
against the data that it may save. An index that is damaged says nothing: the data itself decides.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from dataclasses import field
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import AdeltaError
from adelta.kernel.data_skipping.equality import (
    Condition,
    columns_asked,
    may_hold,
    wanted_values,
)
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, NUM_RECORDS
from adelta.kernel.schema.conform import conform
from adelta.parquet.row_pages import row_pages
from adelta.parquet.skip.bloom_filter import LONGEST_HEADER, SplitBlockFilter
from adelta.parquet.skip.page_index import (
    IndexPlace,
    PageLocations,
    Pages,
    decode_pages,
    index_places,
    page_locations,
)
from adelta.parquet.skip.plain_values import PlainType, decode_plain, encode_plain
from adelta.parquet.thrift import ThriftError
from adelta.read.row_group_skipping import RowGroupSkipping, bounds_mean_nothing, locate
from adelta.read.row_ranges import common_rows, joined_ranges, named_ranges
from adelta.read.units import Part, Piece

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.expressions.nodes import LiteralValue
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.schema.types import DataType
    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.layout import SelectedColumns
    from adelta.parquet.reader import ParquetFile

__all__ = ["IndexSkipping"]

_WORTH_A_LOOK = 64 * 1024  # bytes of data: below, reading is as cheap as looking
_WORTH_A_REQUEST = 1024 * 1024  # bytes of data that may be saved by asking for indexes
_WORTH_LEAVING_OUT = 256 * 1024  # bytes between pages that are read
_LEAST_SHARE = 4  # a row group is read whole where less than one part in so many is left out
_SHARE = 4  # indexes are asked for that are at most one part in so many of the data
_LARGEST_FOOTER = 512 * 1024  # it is walked through in Python
_MOST_SEGMENTS = 50_000
_NARROWS_LOCAL_FILES = False  # the predicate's rows decide by themselves what is decoded of these
_LARGEST_FILTER = 1024 * 1024  # where the footer does not say how large one is

Path: TypeAlias = tuple[str, ...]
Chunk: TypeAlias = tuple[int, int]
"""A row group and a leaf."""
_Kept: TypeAlias = "list[range] | None"
"""The rows of a row group that may match; None for all."""


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column of the table as the file has it."""

    number: int
    stored: PlainType


@dataclass(slots=True)
class _Indexes:
    """Where the indexes of a file lie, and those of their bytes that are there."""

    pages: dict[Chunk, tuple[ByteRange, ByteRange]] = field(default_factory=dict)
    filters: dict[Chunk, ByteRange] = field(default_factory=dict)
    offsets: dict[Chunk, IndexPlace] = field(default_factory=dict)
    bytes: dict[ByteRange, memoryview] = field(default_factory=dict)

    def missing(self, kept: Mapping[int, _Kept]) -> list[ByteRange]:
        """What of the indexes of row groups is not there, in order.

        Where their columns' pages are is only asked where some of these may be left out.
        """
        wanted = {place for chunk, both in self.pages.items() if chunk[0] in kept for place in both}
        wanted |= {place for chunk, place in self.filters.items() if chunk[0] in kept}
        unknown = {
            chunk[0] for chunk, both in self.pages.items() if not self.bytes.keys() >= {*both}
        }
        wanted |= {
            place.offset_index
            for (group, _), place in self.offsets.items()
            if group in kept and (group in unknown or kept[group] is not None)
        }
        return sorted(wanted - self.bytes.keys())


class IndexSkipping:
    """The predicate of a plan, ready to be asked of page indexes and Bloom filters."""

    def __init__(self, plan: ScanPlan, row_groups: RowGroupSkipping) -> None:
        self._plan = plan
        self._row_groups = row_groups
        self._values: Condition | None = None
        if plan.where is not None:
            self._values = wanted_values(plan.where, plan.schema, plan.partition_columns)

    async def parts(
        self,
        piece: Piece,
        parquet: ParquetFile,
        columns: SelectedColumns,
        groups: Mapping[int, Part],
    ) -> dict[int, list[Part]]:
        """What of the row groups may hold rows of the piece for which the predicate is true.

        They come in order. Of `groups` each is given as it is where it is read whole.

        Raises:
            InvalidTableError: the file is shorter than it was, or its footer is damaged.
            ObjectNotFoundError: the file is no longer there.
        """
        whole = {group: [part] for group, part in groups.items()}
        if self._values is None and self._row_groups.skipping is None and piece.only is None:
            return whole
        if sum(part.bytes for part in groups.values()) < _WORTH_A_LOOK:
            return whole
        look = _Look(piece, parquet, columns, groups)
        found = await in_thread(self._find, look)
        if found is None:
            return whole
        leaves, indexes, parts, missing = found
        cost, saved = (
            sum(end - start for start, end in missing),
            sum(part.bytes for found in parts.values() for part in found),
        )
        if not missing or saved < _WORTH_A_REQUEST or cost * _SHARE > saved:
            return parts
        answers = await parquet.bytes.get(missing)
        indexes.bytes |= {place: data for place, (_, data) in zip(missing, answers, strict=True)}
        return await in_thread(self._parts, look, leaves, indexes, list(parts))

    def _find(
        self, look: _Look
    ) -> tuple[dict[Path, _Leaf], _Indexes, dict[int, list[Part]], list[ByteRange]] | None:
        """Where indexes lie, what those of them keep that are there already, and which are not."""
        leaves = self._leaves(look.parquet)
        indexes, groups = _Indexes(), list(look.groups)
        self._find_pages(look, leaves, indexes)
        self._find_filters(look.parquet, leaves, indexes, groups)
        if not indexes.pages and not indexes.filters and not indexes.offsets:
            return None
        offsets = (place.offset_index for place in indexes.offsets.values())
        beside = (indexes.filters.values(), offsets, *indexes.pages.values())
        for place in set(chain.from_iterable(beside)):
            data = look.parquet.bytes.slice(*place)
            if data is not None:
                indexes.bytes[place] = data
        kept = self._judged(look, leaves, indexes, groups)
        return leaves, indexes, look.parts(kept, indexes), indexes.missing(kept)

    def _parts(
        self, look: _Look, leaves: Mapping[Path, _Leaf], indexes: _Indexes, groups: list[int]
    ) -> dict[int, list[Part]]:
        return look.parts(self._judged(look, leaves, indexes, groups), indexes)

    def _leaves(self, parquet: ParquetFile) -> dict[Path, _Leaf]:
        """The columns asked about that the file has as leaves of a type that is understood."""
        skipping = self._row_groups.skipping
        paths = dict.fromkeys(s.path[1:] for s in skipping.statistics) if skipping else {}
        paths |= dict.fromkeys(columns_asked(self._values)) if self._values else {}
        leaves: dict[Path, _Leaf] = {}
        for path in filter(None, paths):
            found = locate(path, self._plan, parquet.layout.schema)
            if found is None or bounds_mean_nothing(parquet, *found):
                continue
            number = parquet.layout.leaf(found[0])
            column = parquet.layout.metadata.schema.column(number)
            stored = PlainType(column.physical_type, found[1], column.length or 0)
            if column.max_repetition_level == 0:
                leaves[path] = _Leaf(number, stored)
        return leaves

    def _find_pages(self, look: _Look, leaves: Mapping[Path, _Leaf], indexes: _Indexes) -> None:
        parquet = look.parquet
        skipping, footer = self._row_groups.skipping, parquet.layout.footer
        if footer is None or len(footer) > _LARGEST_FOOTER:
            return
        statistics = skipping.statistics if skipping else ()
        bounds = [s for s in statistics if s.kind in (MIN_VALUES, MAX_VALUES)]
        narrows = _NARROWS_LOCAL_FILES or parquet.bytes.store.local is None
        if len(bounds) < 2 and not narrows:
            bounds = []  # where a row group's own bound meets one condition, that of a page does
        named = {bound.path[1:] for bound in bounds}
        wanted = {
            (group, leaf.number)
            for path, leaf in leaves.items()
            if path in named
            for group in look.groups
            if parquet.layout.chunk(group, leaf.number).has_column_index
        }
        some = {group for group, _ in wanted if narrows} | {*look.named()}
        if not some and not wanted:
            return
        read = {(group, leaf) for group in some for leaf in look.columns.leaves}
        try:
            places = index_places(footer, wanted | read, end=parquet.layout.footer_start)
        except ThriftError:
            return
        for chunk, place in places.items():
            if chunk in wanted and place.column_index is not None:
                indexes.pages[chunk] = (place.column_index, place.offset_index)
            if chunk in read:
                indexes.offsets[chunk] = place

    def _find_filters(
        self,
        parquet: ParquetFile,
        leaves: Mapping[Path, _Leaf],
        indexes: _Indexes,
        groups: Sequence[int],
    ) -> None:
        """Where the filters lie that can exclude a row group."""
        if self._values is None:
            return
        asked = [leaves[path] for path in set(columns_asked(self._values)) if path in leaves]
        end = parquet.layout.footer_start
        for group in groups:
            places: dict[int, ByteRange] = {}
            for leaf in asked:
                chunk: Any = parquet.layout.chunk(group, leaf.number)  # the stubs lack filters
                start, length = chunk.bloom_filter_offset, chunk.bloom_filter_length
                stop = min(end, (start or 0) + (length or LONGEST_HEADER + _LARGEST_FILTER))
                if start is not None and 0 < start < stop:
                    places[leaf.number] = (start, stop)

            def unknown(
                path: Path, value: LiteralValue, places: Mapping[int, ByteRange] = places
            ) -> bool:
                leaf = leaves.get(path)
                return (
                    leaf is None
                    or leaf.number not in places
                    or encode_plain(value, leaf.stored) is None
                )

            if places and not may_hold(self._values, unknown):
                indexes.filters |= {(group, leaf): place for leaf, place in places.items()}

    def _judged(
        self, look: _Look, leaves: Mapping[Path, _Leaf], indexes: _Indexes, groups: list[int]
    ) -> dict[int, _Kept]:
        """What the indexes keep of row groups whose bytes are there. CPU-heavy."""
        kept = self._by_pages(look, leaves, indexes, groups)
        for group, named in look.named().items():
            if group in kept:
                rows = kept[group]
                kept[group] = named if rows is None else common_rows(rows, named)
        return {
            group: rows
            for group, rows in kept.items()
            if rows != [] and self._by_filters(leaves, indexes, group)
        }

    def _by_filters(self, leaves: Mapping[Path, _Leaf], indexes: _Indexes, group: int) -> bool:
        if self._values is None:
            return True
        filters: dict[int, SplitBlockFilter | None] = {}

        def may_contain(path: Path, value: LiteralValue) -> bool:
            leaf = leaves.get(path)
            encoded = None if leaf is None else encode_plain(value, leaf.stored)
            if leaf is None or encoded is None:
                return True
            if leaf.number not in filters:
                filters[leaf.number] = _filter(indexes, (group, leaf.number))
            found = filters[leaf.number]
            return found is None or found.may_contain(encoded)

        return may_hold(self._values, may_contain)

    def _by_pages(
        self, look: _Look, leaves: Mapping[Path, _Leaf], indexes: _Indexes, groups: list[int]
    ) -> dict[int, _Kept]:
        skipping = self._row_groups.skipping
        kept: dict[int, _Kept] = dict.fromkeys(groups)
        if skipping is None:
            return kept
        segments = _Segments(look.parquet, indexes, leaves.values(), groups)
        if not 0 < len(segments.rows) <= _MOST_SEGMENTS:
            return kept
        columns: dict[Path, pa.Array[Any]] = {}
        for statistic in skipping.statistics:
            if statistic.kind == NUM_RECORDS:
                columns[statistic.path] = array_of(segments.rows, pa.int64())
                continue
            leaf = leaves.get(statistic.path[1:])
            if leaf is None:
                continue
            if statistic.kind not in (MIN_VALUES, MAX_VALUES):
                columns[statistic.path] = array_of(segments.null_counts(leaf.number), pa.int64())
                continue
            values = segments.bounds(leaf.number, up=statistic.kind == MAX_VALUES)
            bounds = _typed(values, leaf.stored, statistic.type)
            if bounds is not None:
                columns[statistic.path] = bounds
        rows = len(segments.rows)
        partition = self._row_groups.partition(look.piece.file, rows)
        mask = skipping.statistics_mask(columns, partition, rows)
        for group, ranges in segments.runs(mask.to_pylist()).items():
            if not ranges:
                del kept[group]
            elif ranges != [range(look.parquet.layout.rows_of((group,)))]:
                kept[group] = ranges
        return kept


@dataclass(frozen=True, slots=True)
class _Look:
    """A file that is looked at, the columns to be read of it, and its row groups."""

    piece: Piece
    parquet: ParquetFile
    columns: SelectedColumns
    groups: Mapping[int, Part]

    def named(self) -> dict[int, list[range]]:
        """The rows of row groups around those that the piece names, where it does not name all."""
        only, found = self.piece.only, dict[int, list[range]]()
        if only is None:
            return found
        first = 0
        for group in range(self.parquet.layout.num_row_groups):
            count = self.parquet.layout.rows_of((group,))
            if group in self.groups:
                ranges = named_ranges(only, first, count)
                if ranges != [range(count)]:
                    found[group] = ranges
            first += count
        return found

    def parts(self, kept: Mapping[int, _Kept], indexes: _Indexes) -> dict[int, list[Part]]:
        """What is to be read of the row groups: whole ones where little would be left out."""
        return {group: self._parts(group, rows, indexes) for group, rows in kept.items()}

    def _parts(self, group: int, kept: _Kept, indexes: _Indexes) -> list[Part]:
        whole = self.groups[group]
        leaves, layout = self.columns.leaves, self.parquet.layout
        if kept is None:
            return [whole]
        count = layout.rows_of((group,))
        located = _located(indexes, group, leaves, count, layout.footer_start)
        if not located:
            return [whole]
        parts = []
        for rows in joined_ranges(kept, _WORTH_LEAVING_OUT * count // max(1, whole.bytes)):
            pages = row_pages(layout, leaves, group, rows, located)
            decoded = whole.decoded_bytes * len(rows) // count
            parts.append(Part(pages.size(leaves), decoded, pages))
        saved = whole.bytes - sum(part.bytes for part in parts)
        worth = saved >= _WORTH_LEAVING_OUT and saved * _LEAST_SHARE >= whole.bytes
        return parts if worth else [whole]


def _located(
    indexes: _Indexes, group: int, leaves: Sequence[int], rows: int, end: int
) -> dict[int, PageLocations]:
    """Where the pages of the leaves are, where that is known."""
    located = {}
    for leaf in leaves:
        place = indexes.offsets.get((group, leaf))
        data = None if place is None else indexes.bytes.get(place.offset_index)
        if place is not None and data is not None:
            with suppress(ThriftError):
                located[leaf] = page_locations(
                    data, rows=rows, end=end, by_dictionary=place.by_dictionary
                )
    return located


class _Segments:
    """Row groups cut wherever a page of some leaf starts, so that each part is in one page of each.

    Attributes:
        groups: the row group of each segment.
        rows: how many rows each segment has.
        known: the row groups that have segments.
    """

    def __init__(
        self,
        parquet: ParquetFile,
        indexes: _Indexes,
        leaves: Iterable[_Leaf],
        groups: Sequence[int],
    ) -> None:
        self.groups: list[int] = []
        self.rows: list[int] = []
        self.known: set[int] = set()
        self._pages: list[dict[int, tuple[Pages, int]]] = []
        numbers = sorted({leaf.number for leaf in leaves})
        for group in groups:
            rows = parquet.layout.metadata.row_group(group).num_rows
            end = parquet.layout.footer_start
            found = {
                number: pages
                for number in numbers
                if (pages := _pages(indexes, (group, number), rows, end)) is not None
            }
            if not found or rows == 0:
                continue
            self.known.add(group)
            starts = sorted({row for pages in found.values() for row in pages.first_rows})
            for start, stop in zip(starts, [*starts[1:], rows], strict=True):
                self.groups.append(group)
                self.rows.append(stop - start)
                self._pages.append(
                    {
                        number: (pages, bisect_right(pages.first_rows, start) - 1)
                        for number, pages in found.items()
                    }
                )

    def runs(self, keep: Sequence[bool | None]) -> dict[int, list[range]]:
        """The rows of segments that are kept, by row group; neighbours as one range."""
        found: dict[int, list[range]] = {group: [] for group in self.known}
        at = 0
        for index, (group, rows) in enumerate(zip(self.groups, self.rows, strict=True)):
            at = 0 if index == 0 or self.groups[index - 1] != group else at
            ranges = found[group]
            if keep[index]:
                before = ranges.pop() if ranges and ranges[-1].stop == at else range(at, at)
                ranges.append(range(before.start, at + rows))
            at += rows
        return found

    def bounds(self, leaf: int, *, up: bool) -> list[bytes | None]:
        """A bound of the leaf in each segment; None where it is not known."""
        found: list[bytes | None] = []
        for pages in self._pages:
            if leaf not in pages:
                found.append(None)
                continue
            page, index = pages[leaf]
            found.append((page.maxima if up else page.minima)[index])
        return found

    def null_counts(self, leaf: int) -> list[int | None]:
        """How many nulls of the leaf are in each segment: all or none; None where not known."""
        found: list[int | None] = []
        for pages, rows in zip(self._pages, self.rows, strict=True):
            if leaf not in pages:
                found.append(None)
                continue
            page, index = pages[leaf]
            if page.minima[index] is None:
                found.append(rows)
            else:
                none = page.null_counts is not None and page.null_counts[index] == 0
                found.append(0 if none else None)
        return found


def _typed(values: list[bytes | None], stored: PlainType, target: DataType) -> pa.Array[Any] | None:
    """The bounds in the type of the table's column; None where they mean nothing in it."""
    try:
        bounds = decode_plain(values, stored)
        return None if bounds is None else conform(bounds, target, "none", "statistics")
    except (AdeltaError, pa.ArrowException, OverflowError, ValueError):
        return None


def _pages(indexes: _Indexes, chunk: Chunk, rows: int, end: int) -> Pages | None:
    """The pages of a chunk, where their indexes are there and sound."""
    places = indexes.pages.get(chunk)
    if places is None or not all(place in indexes.bytes for place in places):
        return None
    column_index, offset_index = (indexes.bytes[place] for place in places)
    try:
        return decode_pages(column_index, offset_index, rows=rows, end=end)
    except ThriftError:
        return None


def _filter(indexes: _Indexes, chunk: Chunk) -> SplitBlockFilter | None:
    """The filter of a chunk, where it is there and sound."""
    place = indexes.filters.get(chunk)
    data = None if place is None else indexes.bytes.get(place)
    if data is None:
        return None
    try:
        return SplitBlockFilter(data)
    except ThriftError:
        return None
