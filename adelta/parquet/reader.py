"""A Parquet object over the storage port, read by column chunk.

`ParquetFile.open` reads the footer; `read` asks the store for the bytes of the projected columns
alone, all at once, and decodes them in a worker thread. Guarantees:

* Only the column chunks asked for leave the store; what the footer's read brought along is used.
* Arrow reads the chunks of a file of this machine by itself, so that no byte of them is copied.
* Nothing is held between reads but the footer and those few bytes, so any number of row groups can
  be read at the same time, and a caller bounds memory by the sizes that the `layout` gives.
* The event loop never decodes.

INT96 timestamps arrive as microseconds, field ids as the Arrow field metadata ``PARQUET:field_id``.
Columns have the Arrow types of Parquet's own: no views, large offsets, dictionaries, extensions.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from adelta._concurrency import in_io_thread, in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta._memory import lasting_pool, memory_limit_of
from adelta.errors import InvalidTableError, UnsupportedFeatureError
from adelta.parquet.arrow_reader import open_arrow_reader, open_footer
from adelta.parquet.decode.row_range import are_as_told, decode_row_range
from adelta.parquet.decode.rows import decode_rows
from adelta.parquet.faults import reading
from adelta.parquet.fetch import FetchedColumns, ObjectBytes
from adelta.parquet.footer.fetch_footer import (
    DEFAULT_TAIL,
    TRAILER,
    FetchedFooter,
    fetch_footer,
    footer_within,
)
from adelta.parquet.footer.layout import FileLayout, SelectedColumns
from adelta.parquet.guard.decoding import DecodingGuard
from adelta.storage.distrust import distrust, distrusting
from adelta.storage.pin import Pin

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    import pyarrow.parquet as pq

    from adelta.parquet.fetch import Pieces
    from adelta.parquet.footer.columns import ColumnName
    from adelta.parquet.row_pages import RowPages
    from adelta.storage.object_store import NearbyObjects, ObjectStore

__all__ = ["ParquetFile"]

R = TypeVar("R")

_ROW_GROUPS_DECODED = 4  # at once, in one read; the worker threads bound it further


@dataclass(frozen=True, slots=True, eq=False)
class ParquetFile:
    """One opened Parquet object. It holds no connection: there is nothing to close.

    Attributes:
        layout: what its footer says.
        bytes: its bytes, to be fetched.
        guard: what decoding is held to.
    """

    layout: FileLayout
    bytes: ObjectBytes
    guard: DecodingGuard

    def __repr__(self) -> str:
        return (
            f"<ParquetFile {self.layout.path!r}: {self.layout.num_rows:,} rows in "
            f"{self.layout.num_row_groups} row groups, {self.layout.size:,} bytes>"
        )

    @classmethod
    async def open(
        cls,
        store: ObjectStore,
        path: str,
        *,
        size: int | None = None,
        metadata: pq.FileMetaData | None = None,
        tail: int = DEFAULT_TAIL,
        verify: bool = False,
    ) -> ParquetFile:
        """Open the object at `path`: one request, two where its footer exceeds `tail` bytes.

        With `metadata` from an earlier open there is no request, or one for the size where `size`
        is not given. Without it `size` only keeps the first request from asking for more than
        there is; the store's own word on the size counts. With `verify`, pages that are read are
        held to their checksums first, where they have any.

        Raises:
            InvalidTableError: the object is no Parquet, is cut short, damaged or encrypted.
            ObjectNotFoundError: there is no such object.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        if metadata is None:
            file, _ = await cls.open_and(store, path, _nothing, size=size, tail=tail, verify=verify)
            return file
        if size is None:
            size = (await store.head(path)).size
        begin = _Opening(store, path, _nothing, verify, Pin())
        file, _ = await in_thread(begin.described, size, None, metadata, ())
        return file

    @classmethod
    async def of_footer(
        cls, store: ObjectStore, footer: FetchedFooter, pin: Pin, *, verify: bool = False
    ) -> ParquetFile:
        """The object whose `footer` was fetched with `pin`; no request is made.

        Raises: as `open` does.
        """
        begin = _Opening(store, footer.path, _nothing, verify, pin)
        file, _ = await in_thread(begin.fetched, footer)
        return file

    @classmethod
    async def open_and(
        cls,
        store: ObjectStore,
        path: str,
        look: Callable[[ParquetFile], R],
        *,
        size: int | None = None,
        tail: int = DEFAULT_TAIL,
        head: int = 0,
        decodes: bool = False,
        verify: bool = False,
        afar: bool = False,
    ) -> tuple[ParquetFile, R]:
        """As `open`; and what `look` makes of the file, in the worker thread that describes it.

        That spares the way to another one. Where `look` `decodes` it is one of those for CPU-heavy
        work. So many bytes of the object's `head` are asked for with its footer, for later reads.
        One that is `afar` is not looked for on a disk of this machine: that was done a moment ago.

        Raises: as `open` does, and `look`.
        """
        begin = _Opening(store, path, look, verify, pin := Pin())
        tail = tail if size is None else min(tail, size)
        thread = in_thread if decodes else in_io_thread
        nearby = None if afar else store.nearby
        if nearby is not None and (found := await thread(begin.here, nearby, tail)):
            return found
        head = 0 if size is None else max(0, min(head, size - tail))
        try:
            fetched = await fetch_footer(store, path, tail=tail, head=head, pin=pin)
        except InvalidTableError as error:
            await in_io_thread(distrust, store, (path,), error)
            raise
        return await in_thread(begin.fetched, fetched)

    @staticmethod
    def open_here(
        store: ObjectStore,
        path: str,
        look: Callable[[ParquetFile], R],
        *,
        size: int,
        verify: bool = False,
    ) -> tuple[ParquetFile, R] | None:
        """As `open_and`, for a worker thread that opens objects nearby one after the other.

        None where the object's end is not on a disk of this machine, or its footer is a long one.
        A file of this machine is read whole.

        Raises: as `open` does, and `look`.
        """
        if store.nearby is None:
            return None
        begin = _Opening(store, path, look, verify, Pin())
        return begin.here(store.nearby, size if store.local else min(size, DEFAULT_TAIL))

    async def read(
        self,
        columns: Sequence[ColumnName] | None = None,
        *,
        row_groups: Sequence[int] | None = None,
    ) -> pa.Table:
        """The rows of the row groups named, all by default, with the columns named.

        A column is a field's name, a dotted path (``"add.path"``) or a tuple of steps. Fields of
        one struct come back as one column with only these fields. The order of the top-level
        columns is the order asked for. With no columns the table still has its number of rows.

        Raises:
            InvalidTableError: the object is damaged.
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
            ObjectNotFoundError: the object is no longer there.
        """
        fetched = await self.fetch(columns, row_groups=row_groups)
        if len(fetched.row_groups) <= 1 or not fetched.columns.leaves:
            return await in_thread(self.decode, fetched)
        each = [replace(fetched, row_groups=(group,)) for group in fetched.row_groups]
        tables = await map_concurrent(
            lambda one: in_thread(self.decode, one), each, limit=_ROW_GROUPS_DECODED
        )
        return pa.concat_tables(tables)

    async def fetch(
        self,
        columns: Sequence[ColumnName] | SelectedColumns | None = None,
        *,
        row_groups: Sequence[int] | None = None,
        having: FetchedColumns | None = None,
        late: bool = False,
    ) -> FetchedColumns:
        """The bytes that `read` needs, for `decode` to make a table of.

        What `having`, an earlier answer, has of them is not asked for again. With `late`, what a
        disk cache has may be read only as it is decoded, which may raise `LostBytesError`.

        Raises:
            InvalidTableError: the object is damaged.
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
            ObjectNotFoundError: the object is no longer there.
        """
        groups = tuple(self.layout.groups(row_groups))
        return await self.bytes.fetch(self.layout.select(columns), groups, having, late=late)

    async def fetch_pages(
        self, columns: SelectedColumns, row_group: int, pages: RowPages
    ) -> FetchedColumns:
        """As `fetch`, of some rows of a row group: their `pages` where these are what is told.

        Raises: as `fetch` does.
        """
        fetched = await self.bytes.fetch_pages(columns, row_group, pages)
        if await in_io_thread(self._are_as_told, fetched):
            return fetched
        whole = await self.bytes.fetch(columns, (row_group,), having=fetched)
        return replace(whole, rows=pages.rows)

    def _are_as_told(self, fetched: FetchedColumns) -> bool:
        if not fetched.columns.leaves:
            return True
        with self.bytes.source(fetched, whole=False) as source:
            return are_as_told(self.layout, fetched, source, verifies=self.guard.verifies)

    def decode(self, fetched: FetchedColumns) -> pa.Table:
        """The rows of what was fetched. CPU-heavy: call it in a worker thread.

        Raises:
            InvalidTableError: the object is damaged.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        tables = list(self.slices(fetched))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def slices(
        self,
        fetched: FetchedColumns,
        rows: int | None = None,
        *,
        keeps_dictionaries: bool = False,
        lasting: bool = True,
    ) -> Generator[pa.Table, None, None]:
        """The rows of what was fetched, in order, as tables of `rows` rows, or as one.

        CPU-heavy: take each in a worker thread. Not all that are taken may have `rows` rows. A
        slice takes a part of the memory of its row group, and the next one the same memory again.
        With `keeps_dictionaries` texts that repeat come as dictionaries of numbers. Unless that is
        to be `lasting`, their memory is that of the process's own pool: so is best what is encoded
        anew at once, in the same memory.

        Raises:
            InvalidTableError: the object is damaged.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        if fetched.rows is not None:
            yield self.row_range(fetched, fetched.rows)
            return
        if not fetched.columns.leaves:
            count = self.layout.rows_of(fetched.row_groups)
            yield pa.table({"": pa.nulls(count)}).select([])
            return
        with self.bytes.source(fetched) as source:
            self.guard.check_memory(fetched.columns.leaves, fetched.row_groups)
            yield from decode_rows(
                self.layout,
                self.guard,
                fetched,
                source,
                rows,
                keeps_dictionaries=keeps_dictionaries,
                pool=lasting_pool() if lasting else None,
            )

    def row_range(self, fetched: FetchedColumns, rows: range) -> pa.Table:
        """These rows of the one row group fetched, counted from its first. CPU-heavy.

        Pages before them are not decoded where that can be, nor pages after them.

        Raises:
            InvalidTableError: the object is damaged.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        leaves, groups = list(fetched.columns.leaves), fetched.row_groups
        if not leaves:
            return pa.table({"": pa.nulls(len(rows))}).select([])
        if fetched.chunks is not None and rows:
            with self.bytes.source(fetched, whole=False) as source:
                return self._row_range(fetched, source, rows)
        self.guard.check_memory(leaves, groups)
        if rows:
            with (
                suppress(InvalidTableError, UnsupportedFeatureError),  # all rows: they say so too
                self.bytes.source(fetched, whole=False) as source,
            ):
                at_once = self.guard.check_chunks(source, leaves, groups, len(rows))
                if at_once is None or at_once >= len(rows):
                    return self._row_range(fetched, source, rows)
        return self.decode(replace(fetched, rows=None)).slice(rows.start, len(rows))

    def _row_range(self, fetched: FetchedColumns, source: pa.NativeFile, rows: range) -> pa.Table:
        found, count = decode_row_range(self.layout, fetched, source, rows)
        self.bytes.store.counter.received(count if fetched.in_file else 0)
        return found


@dataclass(frozen=True, slots=True)
class _Opening(Generic[R]):
    """How an object is being opened; the methods are for worker threads."""

    store: ObjectStore
    path: str
    look: Callable[[ParquetFile], R]
    verify: bool
    pin: Pin

    def here(self, nearby: NearbyObjects, tail: int) -> tuple[ParquetFile, R] | None:
        """An object nearby, on one way; None where its `tail` is not, or lacks the footer."""
        suffix = nearby.read_suffix(self.path, max(tail, TRAILER), pin=self.pin)
        with distrusting(self.store, self.path):
            found = None if suffix is None else footer_within(self.path, suffix)
        return None if found is None else self.fetched(found)

    def fetched(self, found: FetchedFooter) -> tuple[ParquetFile, R]:
        pieces = ((0, found.front), (found.data_start, found.data))
        held = tuple((start, data) for start, data in pieces if len(data))
        return self.described(found.object_size, found.footer, None, held)

    def described(
        self,
        size: int,
        footer: memoryview | None,
        metadata: pq.FileMetaData | None,
        held: Pieces,
    ) -> tuple[ParquetFile, R]:
        with distrusting(self.store, self.path):
            if footer is None:
                reader = open_arrow_reader(self.path, pa.BufferReader(b""), metadata)
            else:
                reader = open_footer(self.path, footer)
            with reading(self.path):
                schema = reader.schema_arrow
            layout = FileLayout.of(self.path, size, reader.metadata, schema, footer)
            bytes_of = ObjectBytes(self.store, layout, held, self.pin)
            guard = DecodingGuard(layout, memory_limit_of(self.store), self.verify)
            file = ParquetFile(layout, bytes_of, guard)
            return file, self.look(file)


def _nothing(_: ParquetFile) -> None:
    pass
