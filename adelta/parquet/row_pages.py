"""The pages with some rows of a row group, as offset indexes tell: all that is fetched of it.

What an index tells is held to the pages' own headers before it is gone by.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.layout import FileLayout
    from adelta.parquet.skip.page_index import PageLocations

__all__ = ["PartialChunk", "RowPages", "row_pages"]


class PartialChunk(NamedTuple):
    """A column chunk without some of its pages.

    Attributes:
        place: where the whole chunk is.
        before: how many rows the pages have that are left out after its dictionary.
        left_out: where these pages are.
        end: where the last page is over that is not left out.
        told: how many rows an index says that each page has; None where none is asked.
    """

    place: ByteRange
    before: int
    left_out: ByteRange
    end: int
    told: tuple[int, ...] | None = None

    @classmethod
    def whole(cls, place: ByteRange) -> PartialChunk:
        """A chunk with all of its pages."""
        return cls(place, 0, (place[0], place[0]), place[1])

    @property
    def ranges(self) -> tuple[ByteRange, ByteRange]:
        """Where its dictionary is, and where its pages of values are. Either may be empty."""
        low, high = self.left_out
        return (self.place[0], low), (high, self.end)


@dataclass(frozen=True, slots=True)
class RowPages:
    """What to read of a row group for some of its `rows`: chunks by the numbers of their leaves."""

    rows: range
    chunks: Mapping[int, PartialChunk]

    def size(self, leaves: Sequence[int]) -> int:
        """Bytes that these leaves take."""
        ranges = (span for leaf in leaves for span in self.chunks[leaf].ranges)
        return sum(end - start for start, end in ranges)


def row_pages(
    layout: FileLayout,
    leaves: Sequence[int],
    group: int,
    rows: range,
    located: Mapping[int, PageLocations],
) -> RowPages:
    """The pages of the leaves that have these rows, of which there is one at least.

    A chunk of lists, or of which it is not known where its pages are, is read whole. The fields of
    one struct begin with the same row. CPU-heavy.
    """
    places = dict(zip(leaves, layout.places(leaves, (group,)), strict=True))
    count = layout.rows_of((group,))
    chunks: dict[int, PartialChunk] = {}
    for column in layout.tree.columns:
        of = [leaf for leaf in range(column.first_leaf, column.end_leaf) if leaf in places]
        found = dict(_partial(layout, of, places, rows, located, count))
        if len({chunk.before for chunk in found.values()}) > 1 or len(found) < len(of):
            found = {leaf: PartialChunk.whole(places[leaf]) for leaf in of}
        chunks |= found
    return RowPages(rows, chunks)


def _partial(
    layout: FileLayout,
    leaves: Sequence[int],
    places: Mapping[int, ByteRange],
    rows: range,
    located: Mapping[int, PageLocations],
    count: int,
) -> Iterator[tuple[int, PartialChunk]]:
    """The chunks of those leaves of which it is known where their pages are."""
    for leaf in leaves:
        pages, place = located.get(leaf), places[leaf]
        if pages is None or layout.metadata.schema.column(leaf).max_repetition_level:
            continue
        begin, end = pages.places[0][0], pages.places[-1][1]
        joined = all(before[1] == page[0] for before, page in pairwise(pages.places))
        if not (joined and place[0] <= begin < end == place[1]):
            continue
        first = bisect_right(pages.first_rows, rows.start) - 1
        stop = bisect_left(pages.first_rows, rows.stop)
        before = pages.first_rows[first]
        told = tuple(high - low for low, high in pairwise((*pages.first_rows, count)))[first:stop]
        if pages.by_dictionary is not None and first >= pages.by_dictionary:
            begin = place[0]  # those with its numbers come first: no dictionary is needed
        left_out = (begin, pages.places[first][0])
        yield leaf, PartialChunk(place, before, left_out, pages.places[stop - 1][1], told)
