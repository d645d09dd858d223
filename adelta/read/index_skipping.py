"""Skipping row groups by what lies beside the data: page indexes and Bloom filters.

They are asked about row groups that the footer's statistics keep, where there are any. What came
along with the footer costs nothing; the rest is asked for at once, and only where that is little
against the data that it may save. An index that is damaged says nothing: the data itself decides.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import field
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
from adelta.kernel.data_skipping.rewrite import MAX_VALUES, MIN_VALUES, NUM_RECORDS
from adelta.kernel.schema.conform import conform
from adelta.parquet.skip.bloom_filter import LONGEST_HEADER, SplitBlockFilter
from adelta.parquet.skip.page_index import Pages, decode_pages, index_places
from adelta.parquet.skip.plain_values import PlainType, decode_plain, encode_plain
from adelta.parquet.thrift import ThriftError
from adelta.read.row_group_skipping import RowGroupSkipping, bounds_mean_nothing, locate

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import LiteralValue
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.schema.types import DataType
    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.reader import ParquetFile

__all__ = ["IndexSkipping"]

_WORTH_A_LOOK = 64 * 1024  # bytes of data: below, reading is as cheap as looking
_WORTH_A_REQUEST = 1024 * 1024  # bytes of data that may be saved by asking for indexes
_SHARE = 4  # indexes are asked for that are at most one part in so many of the data
_LARGEST_FOOTER = 512 * 1024  # it is walked through in Python
_MOST_SEGMENTS = 50_000
_LARGEST_FILTER = 1024 * 1024  # where the footer does not say how large one is

Path: TypeAlias = tuple[str, ...]
Chunk: TypeAlias = tuple[int, int]
"""A row group and a leaf."""


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
    bytes: dict[ByteRange, memoryview] = field(default_factory=dict)

    def missing(self, groups: Iterable[int]) -> list[ByteRange]:
        """What of the indexes of these row groups is not there, in order."""
        kept = set(groups)
        wanted = {place for chunk, both in self.pages.items() if chunk[0] in kept for place in both}
        wanted |= {place for chunk, place in self.filters.items() if chunk[0] in kept}
        return sorted(wanted - self.bytes.keys())


class IndexSkipping:
    """The predicate of a plan, ready to be asked of page indexes and Bloom filters."""

    def __init__(self, plan: ScanPlan, row_groups: RowGroupSkipping) -> None:
        self._plan = plan
        self._row_groups = row_groups
        self._values: Condition | None = None
        if plan.where is not None:
            self._values = wanted_values(plan.where, plan.schema, plan.partition_columns)

    async def kept(
        self, file: AddFile, parquet: ParquetFile, sizes: Mapping[int, int]
    ) -> Sequence[int]:
        """Those of the row groups that may hold rows for which the predicate is true.

        `sizes` are the bytes that each row group would take to read.

        Raises:
            InvalidTableError: the file is shorter than it was, or its footer is damaged.
            ObjectNotFoundError: the file is no longer there.
        """
        groups = list(sizes)
        if self._values is None and self._row_groups.skipping is None:
            return groups
        if sum(sizes.values()) < _WORTH_A_LOOK:
            return groups
        found = await in_thread(self._find, file, parquet, groups)
        if found is None:
            return groups
        leaves, indexes, groups = found
        missing = indexes.missing(groups)
        cost, saved = sum(end - start for start, end in missing), sum(sizes[g] for g in groups)
        if not missing or saved < _WORTH_A_REQUEST or cost * _SHARE > saved:
            return groups
        answers = await parquet.bytes.get(missing)
        indexes.bytes |= {place: data for place, (_, data) in zip(missing, answers, strict=True)}
        return await in_thread(self._judged, file, parquet, leaves, indexes, groups)

    def _find(
        self, file: AddFile, parquet: ParquetFile, groups: list[int]
    ) -> tuple[dict[Path, _Leaf], _Indexes, list[int]] | None:
        """Where indexes lie, and the row groups that those of them keep that are there already."""
        leaves = self._leaves(parquet)
        indexes = _Indexes()
        self._find_pages(parquet, leaves, indexes, groups)
        self._find_filters(parquet, leaves, indexes, groups)
        if not indexes.pages and not indexes.filters:
            return None
        for place in indexes.missing(groups):
            data = parquet.bytes.slice(*place)
            if data is not None:
                indexes.bytes[place] = data
        return leaves, indexes, self._judged(file, parquet, leaves, indexes, groups)

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

    def _find_pages(
        self,
        parquet: ParquetFile,
        leaves: Mapping[Path, _Leaf],
        indexes: _Indexes,
        groups: Sequence[int],
    ) -> None:
        skipping, footer = self._row_groups.skipping, parquet.layout.footer
        if skipping is None or footer is None or len(footer) > _LARGEST_FOOTER:
            return
        bounds = [s for s in skipping.statistics if s.kind in (MIN_VALUES, MAX_VALUES)]
        if len(bounds) < 2:
            return  # where a row group's own bound meets one condition, that of a page does
        named = {bound.path[1:] for bound in bounds}
        wanted = {
            (group, leaf.number)
            for path, leaf in leaves.items()
            if path in named
            for group in groups
            if parquet.layout.chunk(group, leaf.number).has_column_index
        }
        if not wanted:
            return
        try:
            places = index_places(footer, wanted, end=parquet.layout.footer_start)
        except ThriftError:
            return
        indexes.pages = {
            chunk: (place.column_index, place.offset_index) for chunk, place in places.items()
        }

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
        self,
        file: AddFile,
        parquet: ParquetFile,
        leaves: Mapping[Path, _Leaf],
        indexes: _Indexes,
        groups: list[int],
    ) -> list[int]:
        """The row groups that the indexes keep whose bytes are there. CPU-heavy."""
        groups = self._by_pages(file, parquet, leaves, indexes, groups)
        return [group for group in groups if self._by_filters(leaves, indexes, group)]

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
        self,
        file: AddFile,
        parquet: ParquetFile,
        leaves: Mapping[Path, _Leaf],
        indexes: _Indexes,
        groups: list[int],
    ) -> list[int]:
        skipping = self._row_groups.skipping
        if skipping is None:
            return groups
        segments = _Segments(parquet, indexes, leaves.values(), groups)
        if not 0 < len(segments.rows) <= _MOST_SEGMENTS:
            return groups
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
        mask = skipping.statistics_mask(columns, self._row_groups.partition(file, rows), rows)
        kept = {
            group for group, keep in zip(segments.groups, mask.to_pylist(), strict=True) if keep
        }
        return [group for group in groups if group in kept or group not in segments.known]


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
