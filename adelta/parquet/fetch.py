"""The bytes of an object: those at hand, those that are asked for, and both as a file for Arrow."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta._concurrency import in_io_thread, in_thread
from adelta._dataclasses import dataclass
from adelta._memory import lasting_pool
from adelta.errors import InvalidTableError
from adelta.parquet.byte_ranges import ByteRange, extents, join_adjacent, subtract
from adelta.parquet.faults import unchanged
from adelta.parquet.sparse_file import SparseFile
from adelta.storage.distrust import distrusting
from adelta.storage.pin import Pin, pinned

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from adelta.parquet.footer.layout import FileLayout, SelectedColumns
    from adelta.parquet.row_pages import PartialChunk, RowPages
    from adelta.storage.cached_ranges import CachedRanges
    from adelta.storage.object_store import ObjectStore

__all__ = ["FetchedColumns", "ObjectBytes", "Pieces"]

_JOINED = 4 * 1024 * 1024  # adjacent chunks are asked for as one range up to this size
_LAID_OUT = 512 * 1024  # bytes of a file that take less time to copy than Arrow's calls of Python

Pieces: TypeAlias = tuple[tuple[int, memoryview], ...]  # bytes of an object, and where they start


@dataclass(frozen=True, slots=True)
class FetchedColumns:
    """What `ObjectBytes.fetch` has brought: the bytes of some columns in some row groups.

    Attributes:
        row_groups: the row groups.
        columns: the columns.
        pieces: the bytes.
        in_file: whether they are read as they are decoded, from files of this machine.
        rows: the rows of the one row group that are wanted; None for all rows of all.
        chunks: what of each chunk is there, by its leaf; None where all of it is.
        cached: what a disk cache has of them beside the pieces; None where they are not `in_file`,
            or that is the object itself.
    """

    row_groups: tuple[int, ...]
    columns: SelectedColumns
    pieces: Pieces = field(repr=False)
    in_file: bool = False
    rows: range | None = None
    chunks: Mapping[int, PartialChunk] | None = field(default=None, repr=False)
    cached: CachedRanges | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, eq=False)
class ObjectBytes:
    """The bytes of one version of an object.

    Attributes:
        store: where it is.
        layout: where in it the columns are.
        held: the bytes that came along with its footer.
        pin: the version that was opened: all reads are of it.
    """

    store: ObjectStore
    layout: FileLayout
    held: Pieces
    pin: Pin

    async def fetch(
        self,
        columns: SelectedColumns,
        row_groups: tuple[int, ...],
        having: FetchedColumns | None = None,
        *,
        late: bool = False,
    ) -> FetchedColumns:
        """The bytes of the columns in the row groups, in as few requests as is good.

        What `having`, an earlier answer, has of them is not asked for again. With `late`, what a
        disk cache has may be read only as it is decoded, which may raise `LostBytesError`.

        Raises:
            InvalidTableError: the object is damaged, or was written again.
            ObjectNotFoundError: the object is no longer there.
        """
        if not self.layout.knows_places(columns.leaves, row_groups):
            await in_thread(self._find_places, columns.leaves, row_groups)
        fetched, missing = self.at_hand(columns, row_groups, having)
        if not missing or fetched.in_file:
            return fetched
        if late and (disk := self.store.nearby) is not None:
            find = partial(disk.find_ranges, self.layout.path, missing, pin=self.pin)
            if (cached := await in_io_thread(find)) is not None:
                return replace(fetched, in_file=True, cached=cached)
        return replace(fetched, pieces=(*fetched.pieces, *await self.get(missing)))

    async def fetch_pages(
        self, columns: SelectedColumns, row_group: int, pages: RowPages
    ) -> FetchedColumns:
        """The bytes of the columns that these pages of a row group are.

        Raises: as `fetch` does.
        """
        spans = [span for leaf in columns.leaves for span in pages.chunks[leaf].ranges]
        missing = subtract(join_adjacent(spans, limit=_JOINED), extents(self.held))
        in_file = bool(missing) and self.store.local is not None
        pieces = () if in_file else (*self.held, *await self.get(missing))
        return FetchedColumns((row_group,), columns, pieces, in_file, pages.rows, pages.chunks)

    def at_hand(
        self,
        columns: SelectedColumns,
        row_groups: tuple[int, ...],
        having: FetchedColumns | None = None,
    ) -> tuple[FetchedColumns, list[ByteRange]]:
        """What `fetch` answers without a request, and what it then has to ask for."""
        if not columns.leaves or not row_groups:
            return FetchedColumns(row_groups, columns, ()), []
        held = having.pieces if having is not None and having.pieces else self.held
        missing = subtract(self._ranges(columns, row_groups), extents(held))
        in_file = bool(missing) and self.store.local is not None
        return FetchedColumns(row_groups, columns, () if in_file else held, in_file), missing

    def nearby(
        self, columns: SelectedColumns, row_groups: tuple[int, ...]
    ) -> tuple[FetchedColumns, list[ByteRange]]:
        """As `at_hand`, with what a disk of this machine has. Blocks.

        Raises:
            InvalidTableError: the object was written again.
        """
        fetched, missing = self.at_hand(columns, row_groups)
        disk = self.store.nearby
        if not missing or fetched.in_file or disk is None:
            return fetched, missing
        with unchanged(self.layout.path):
            answers = disk.read_ranges(self.layout.path, missing, pin=self.pin)
        if answers is None:
            return fetched, missing
        return replace(fetched, pieces=(*fetched.pieces, *self._pieces(missing, answers))), []

    async def get(self, ranges: Sequence[ByteRange]) -> list[tuple[int, memoryview]]:
        """The bytes of each of the ranges ``[start, end)``, with their start.

        Raises:
            InvalidTableError: the object was written again, or is shorter than it was.
            ObjectNotFoundError: the object is no longer there.
        """
        if not ranges:
            return []
        with unchanged(self.layout.path), pinned(self.pin):
            answers = await self.store.get_ranges(self.layout.path, ranges)
        return self._pieces(ranges, answers)

    def _pieces(
        self, ranges: Sequence[ByteRange], answers: Sequence[bytes | memoryview]
    ) -> list[tuple[int, memoryview]]:
        path = self.layout.path
        for (start, end), answer in zip(ranges, answers, strict=True):
            if len(answer) != end - start:
                raise InvalidTableError(
                    f"{path}: is shorter than it was: {end - start:,} bytes were asked for "
                    f"at {start:,}, {len(answer):,} came. Data files are never overwritten in a "
                    "Delta table: find out what wrote this one again."
                )
        return [(start, memoryview(a)) for (start, _), a in zip(ranges, answers, strict=True)]

    def slice(self, start: int, end: int) -> memoryview | None:
        """The bytes ``[start, end)`` where they came along with the footer; None where not."""
        for at, data in self.held:
            if at <= start and end <= at + len(data):
                return data[start - at : end - at]
        return None

    @contextmanager
    def source(self, fetched: FetchedColumns, *, whole: bool = True) -> Iterator[pa.NativeFile]:
        """The bytes as Arrow reads them: what was fetched, or the file itself.

        Unless they are read as a `whole`, nothing of a file is asked for ahead, nor counted. A disk
        cache forgets the object where they turn out damaged inside the block, which is for a worker
        thread.
        """
        store, path = self.store, self.layout.path
        with distrusting(store, path), self._source(fetched, whole=whole) as source:
            yield source

    @contextmanager
    def _source(self, fetched: FetchedColumns, *, whole: bool) -> Iterator[pa.NativeFile]:
        path = self.layout.path
        if fetched.cached is not None:
            with fetched.cached.open() as found:
                late: Any = SparseFile(path, self.layout.size, (*fetched.pieces, *found))
                yield pa.PythonFile(late, mode="r")
            return
        if not fetched.in_file:
            if len(fetched.pieces) == 1 and fetched.pieces[0][0] == 0:  # as if it ended there
                yield pa.BufferReader(fetched.pieces[0][1])
                return
            if self.layout.size <= _LAID_OUT:
                yield pa.BufferReader(_laid_out(self.layout.size, fetched.pieces))
                return
            sparse: Any = SparseFile(path, self.layout.size, fetched.pieces)
            yield pa.PythonFile(sparse, mode="r")
            return
        local = self.store.local
        assert local is not None
        ranges = self._ranges(fetched.columns, fetched.row_groups) if whole else ()
        with (
            unchanged(path),
            local.file_to_read(path, ranges, pin=self.pin) as name,
            pa.OSFile(name, mode="r", memory_pool=lasting_pool()) as file,  # type: ignore[arg-type]  # bytes do as well
        ):
            yield file

    def _find_places(self, leaves: tuple[int, ...], row_groups: tuple[int, ...]) -> None:
        with distrusting(self.store, self.layout.path):
            self.layout.places(leaves, row_groups)

    def _ranges(self, columns: SelectedColumns, row_groups: tuple[int, ...]) -> list[ByteRange]:
        return join_adjacent(self.layout.places(columns.leaves, row_groups), limit=_JOINED)


def _laid_out(size: int, pieces: Pieces) -> bytearray:
    """A file of so many bytes with the pieces where they belong; between them are zeros.

    No page's header begins with a zero: what was not fetched is not taken for anything.
    """
    found = bytearray(size)
    for start, data in pieces:
        found[start : start + len(data)] = data
    return found
