"""What the decoding of a file is held to: the memory there is, and the checksums of its pages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta._memory import check_memory
from adelta.errors import InvalidTableError
from adelta.parquet.guard.page_checks import check_pages
from adelta.parquet.guard.unfolding import unfolded
from adelta.parquet.page_headers import HeldBytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.footer.layout import FileLayout
    from adelta.parquet.page_headers import PageBytes

__all__ = ["DecodingGuard"]

_LARGEST_ROW_GROUP = 8 << 30  # bytes of the columns read: a row group is decoded as a whole
_HELD_BYTES = 1 << 20
_MOST_ROWS = 2**31 - 1  # in a row group, as Arrow and Spark count them


@dataclass(frozen=True, slots=True)
class DecodingGuard:
    """Checks before and while row groups of one file are decoded.

    Attributes:
        layout: the file.
        memory_limit: bytes that may be decoded at once.
        verifies: whether pages are held to their checksums, where they have any.
    """

    layout: FileLayout
    memory_limit: int
    verifies: bool = False

    def check_memory(self, leaves: Sequence[int], groups: Sequence[int]) -> None:
        """Refuse what no memory can hold.

        Raises:
            InvalidTableError, OutOfMemoryError: these leaves of a row group take too much.
        """
        for group in groups:
            if self.layout.metadata.row_group(group).num_rows > _MOST_ROWS:
                raise self._too_large(group)
            self.check_decoded(self.layout.decoded_bytes(leaves, group), group)

    def check_chunks(
        self,
        source: pa.NativeFile,
        leaves: Sequence[int],
        groups: Sequence[int],
        rows: int | None = None,
    ) -> int | None:
        """How many of `rows`, all by default, can be decoded at once; None for all. CPU-heavy.

        `source` has the bytes of the chunks.

        Raises:
            InvalidTableError: they come to more than memory holds, or than the footer says; or
                pages are not those that were written, where the guard `verifies`.
        """
        layout, at_once = self.layout, list[int]()
        for group in groups:
            left = most = min(_LARGEST_ROW_GROUP, self.memory_limit)
            left -= layout.decoded_bytes(leaves, group)
            if left < 0:
                self.check_decoded(most - left, group)
            places = dict(zip(leaves, layout.places(leaves, (group,)), strict=True))
            unfolding = layout.byte_arrays(leaves, group)
            checked = leaves if self.verifies else unfolding
            pages = _held(source, list(places.values())) if checked else source
            for leaf in checked:
                chunk, place = (group, leaf), places[leaf]
                if self.verifies:
                    check_pages(layout.path, pages, layout.metadata, chunk, place)
                if leaf not in unfolding:  # of others one page at a time is held beside the values
                    continue
                found = unfolded(
                    layout.path, pages, layout.metadata, chunk, place, limit=left, rows=rows
                )
                left -= found.text_bytes
                if left < 0:
                    self.check_decoded(most - left, group)
                if found.rows_at_once is not None:
                    at_once.append(found.rows_at_once)
        return min(at_once, default=None)

    def check_decoded(self, size: int, row_group: int) -> None:
        """Refuse a row group of which so many bytes have been, or are to be, decoded.

        Raises:
            InvalidTableError, OutOfMemoryError: they are too many for any memory, or for ours.
        """
        if size > _LARGEST_ROW_GROUP:
            raise self._too_large(row_group)
        check_memory(size, self.memory_limit, f"{self.layout.path}: its row group {row_group}")

    def _too_large(self, group: int) -> InvalidTableError:
        rows = self.layout.metadata.row_group(group).num_rows
        return InvalidTableError(
            f"{self.layout.path}: its row group {group} of {rows:,} rows needs more than "
            f"{_LARGEST_ROW_GROUP >> 30} GiB of memory at once. Read fewer of its columns, or "
            "rewrite it in smaller row groups; if nobody meant it, remove it from the table."
        )


def _held(source: pa.NativeFile, places: Sequence[ByteRange]) -> PageBytes:
    """The bytes of chunks that lie next to each other, read at once where they are few."""
    start = min((place[0] for place in places), default=0)
    end = max((place[1] for place in places), default=0)
    few = end - start <= _HELD_BYTES and end - start == sum(end - start for start, end in places)
    return HeldBytes(source, (start, end)) if places and few else source
