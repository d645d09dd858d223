"""A Parquet object over the storage port, read by column chunk.

`ParquetFile.open` reads the footer; `read` asks the store for the bytes of the projected columns
alone, all at once, and decodes them in a worker thread. Guarantees:

* Only the column chunks asked for leave the store; what the footer's read brought along is used.
* Arrow reads the chunks of a file of this machine by itself, so that no byte of them is copied.
* Nothing is held between reads but the footer and those few bytes, so any number of row groups can
  be read at the same time, and a caller bounds memory by `column_bytes` and `uncompressed_bytes`.
* The event loop never decodes.

INT96 timestamps arrive as microseconds, field ids as the Arrow field metadata ``PARQUET:field_id``.
Columns have the Arrow types of Parquet's own: no views, large offsets, dictionaries, extensions.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from adelta._concurrency import in_io_thread, in_thread, map_concurrent
from adelta._memory import check_memory, lasting_pool, memory_limit_of
from adelta.errors import InvalidTableError, InvalidUseError, SchemaMismatchError
from adelta.parquet.arrow_reader import open_arrow_reader, open_footer
from adelta.parquet.byte_ranges import ByteRange, extents, join_adjacent, subtract
from adelta.parquet.chunk_ranges import chunk_ranges
from adelta.parquet.chunk_statistics import ChunkStatistics, chunk_statistics
from adelta.parquet.columns import ColumnName, ColumnNode, column_tree, evenly, top_level_order
from adelta.parquet.faults import reading, unchanged
from adelta.parquet.footer import (
    DEFAULT_TAIL,
    TRAILER,
    FetchedFooter,
    check_counts,
    fetch_footer,
    footer_within,
)
from adelta.parquet.page_checks import check_pages
from adelta.parquet.row_slices import row_slices
from adelta.parquet.sparse_file import SparseFile
from adelta.parquet.unfolding import unfolded
from adelta.storage.object_store import LocalFiles
from adelta.storage.pin import Pin, pinned

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adelta.storage.object_store import ObjectStore

__all__ = ["FetchedColumns", "ParquetFile", "SelectedColumns"]

_JOINED = 4 * 1024 * 1024  # adjacent chunks are asked for as one range up to this size
_LARGEST_ROW_GROUP = 8 << 30  # bytes of the columns read: a row group is decoded as a whole
_MOST_ROWS = 2**31 - 1  # in a row group, as Arrow and Spark count them
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "FLOAT": 4, "DOUBLE": 8, "INT96": 8}
_ROW_GROUPS_DECODED = 4  # at once, in one read; the worker threads bound it further

Pieces: TypeAlias = tuple[tuple[int, memoryview], ...]  # bytes of an object, and where they start


@dataclass(frozen=True, slots=True)
class SelectedColumns:
    """Columns that `ParquetFile.select` has found: their leaves, and the order asked for."""

    leaves: tuple[int, ...]
    order: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class FetchedColumns:
    """What `ParquetFile.fetch` has brought: the bytes of some columns in some row groups."""

    row_groups: tuple[int, ...]
    columns: SelectedColumns
    pieces: Pieces = field(repr=False)
    in_file: bool = False
    """Whether `decode` reads the bytes by itself, of a file of this machine."""


class ParquetFile:
    """One opened Parquet object. It holds no connection: there is nothing to close.

    Attributes:
        path: the object's path in its store.
        size: the object's size in bytes.
        metadata: the footer.
        schema: the Arrow schema of the whole file.
        footer: the footer's bytes, with the eight after it; None where `metadata` was given.
        verifies: whether pages are held to their checksums before they are decoded.
    """

    __slots__ = (
        "_held",
        "_pin",
        "_ranges",
        "_store",
        "_texts",
        "_tree",
        "footer",
        "metadata",
        "path",
        "schema",
        "size",
        "verifies",
    )

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        size: int,
        metadata: pq.FileMetaData,
        schema: pa.Schema,
        held: Pieces,
        footer: memoryview | None = None,
        *,
        verifies: bool = False,
        pin: Pin | None = None,
    ) -> None:
        self._store = store
        self._pin = pin or Pin()
        self.path = path
        self.size = size
        self.metadata = metadata
        self.schema = schema
        self._held = held
        self.footer = footer
        self.verifies = verifies
        self._ranges: dict[tuple[int, int], ByteRange] = {}
        with reading(path):  # names that are no text
            self._tree = column_tree(schema)
        self._texts = {
            node.first_leaf: node.name
            for node in self._tree.columns
            if node.type.equals(pa.string()) and "." not in node.name
        }
        check_counts(path, metadata, self._tree.num_leaves)

    def __repr__(self) -> str:
        return (
            f"<ParquetFile {self.path!r}: {self.num_rows:,} rows in {self.num_row_groups} "
            f"row groups, {self.size:,} bytes>"
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
        head: int = 0,
        then: Callable[[ParquetFile], None] | None = None,
        then_decodes: bool = False,
        verify: bool = False,
    ) -> ParquetFile:
        """Open the object at `path`: one request, two where its footer exceeds `tail` bytes.

        With `metadata` from an earlier open there is no request, or one for the size where `size`
        is not given. Without it `size` only keeps the first request from asking for more than
        there is; the store's own word on the size counts. So many bytes of its `head` are asked for
        at the same time, for later reads. `then` is called with the file in the
        worker thread that describes it, which spares the way to another one; with `then_decodes`
        that is one of those for CPU-heavy work. With `verify`, pages that are read are held to
        their checksums first, where they have any.

        Raises:
            InvalidTableError: the object is no Parquet, is cut short, damaged or encrypted.
            ObjectNotFoundError: there is no such object.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        begin = _Opening(store, path, then, verify, pin := Pin())
        if metadata is not None:
            if size is None:
                size = (await store.head(path)).size
            return await in_thread(begin.described, size, None, metadata, ())
        tail = tail if size is None else min(tail, size)
        thread = in_thread if then_decodes else in_io_thread
        if isinstance(store, LocalFiles) and (found := await thread(begin.here, store, tail)):
            return found
        head = 0 if size is None else max(0, min(head, size - tail))
        fetched = await fetch_footer(store, path, tail=tail, head=head, pin=pin)
        return await in_thread(begin.fetched, fetched)

    @property
    def num_rows(self) -> int:
        """Rows in the file."""
        return self.metadata.num_rows

    @property
    def num_row_groups(self) -> int:
        """Row groups in the file."""
        return self.metadata.num_row_groups

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

    def select(self, columns: Sequence[ColumnName] | None) -> SelectedColumns:
        """The columns, found: to be found once where `fetch` is called for each row group.

        Raises:
            SchemaMismatchError: the file has no such column.
        """
        selection = self._select(columns)
        order = top_level_order(selection)
        leaves = self._tree.leaf_indices(selection)
        return SelectedColumns(tuple(leaves), None if order is None else tuple(order))

    def shares(
        self, columns: SelectedColumns, row_groups: Sequence[int], most: int
    ) -> list[SelectedColumns]:
        """The columns in at most `most` parts, in the file's order, to be decoded at once."""
        chosen = set(columns.leaves)
        each = [
            [n for n in range(c.first_leaf, c.end_leaf) if n in chosen] for c in self._tree.columns
        ]
        each = [leaves for leaves in each if leaves]
        sizes = [sum(self._decoded_bytes(leaves, group) for group in row_groups) for leaves in each]
        return [
            SelectedColumns(tuple(chain.from_iterable(each[start:end])), None)
            for start, end in evenly(sizes, most)
        ]

    async def fetch(
        self,
        columns: Sequence[ColumnName] | SelectedColumns | None = None,
        *,
        row_groups: Sequence[int] | None = None,
        having: FetchedColumns | None = None,
    ) -> FetchedColumns:
        """The bytes that `read` needs, for `decode` to make a table of.

        What `having`, an earlier answer, has of them is not asked for again.

        Raises:
            InvalidTableError: the object is damaged.
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
            ObjectNotFoundError: the object is no longer there.
        """
        groups = tuple(self._groups(row_groups))
        chosen = columns if isinstance(columns, SelectedColumns) else self.select(columns)
        if any((group, leaf) not in self._ranges for group in groups for leaf in chosen.leaves):
            await in_thread(self.places, chosen.leaves, groups)
        fetched, missing = self.at_hand(chosen, groups, having)
        if not missing or fetched.in_file:
            return fetched
        return replace(fetched, pieces=(*fetched.pieces, *await self.fetch_bytes(missing)))

    def at_hand(
        self,
        columns: SelectedColumns,
        row_groups: tuple[int, ...],
        having: FetchedColumns | None = None,
    ) -> tuple[FetchedColumns, list[ByteRange]]:
        """What `fetch` answers without a request, and what it then has to ask for."""
        if not columns.leaves or not row_groups:
            return FetchedColumns(row_groups, columns, ()), []
        held = having.pieces if having is not None and having.pieces else self._held
        wanted = join_adjacent(self.places(columns.leaves, row_groups), limit=_JOINED)
        missing = subtract(wanted, extents(held))
        in_file = bool(missing) and isinstance(self._store, LocalFiles)
        return FetchedColumns(row_groups, columns, () if in_file else held, in_file), missing

    def decode(self, fetched: FetchedColumns) -> pa.Table:
        """The rows of what was fetched. CPU-heavy: call it in a worker thread.

        Raises:
            InvalidTableError: the object is damaged.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        tables = list(row_slices(self, fetched))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)

    def texts(self, leaves: Sequence[int]) -> dict[int, str]:
        """Those of the leaves that are columns of texts by themselves, with their names."""
        return {leaf: self._texts[leaf] for leaf in leaves if leaf in self._texts}

    @contextmanager
    def source(self, fetched: FetchedColumns) -> Iterator[pa.NativeFile]:
        """The bytes as Arrow reads them: what was fetched, or the file itself."""
        if not fetched.in_file:
            sparse: Any = SparseFile(self.path, self.size, fetched.pieces)
            yield pa.PythonFile(sparse, mode="r")
            return
        assert isinstance(self._store, LocalFiles)
        chunks = self.places(fetched.columns.leaves, fetched.row_groups)
        ranges = join_adjacent(chunks, limit=_JOINED)
        with (
            unchanged(self.path),
            self._store.file_to_read(self.path, ranges, pin=self._pin) as name,
            pa.OSFile(name, mode="r", memory_pool=lasting_pool()) as file,  # type: ignore[arg-type]  # bytes do as well
        ):
            yield file

    def has_column(self, column: ColumnName) -> bool:
        """Whether the file has the column."""
        return bool(self._tree.find(column))

    def physical_types(self, column: ColumnName) -> tuple[str, ...]:
        """Parquet's own types of the leaves of a column, such as ``INT96``.

        Raises:
            SchemaMismatchError: the file has no such column.
        """
        (chain,) = self._select((column,))
        leaves = range(chain[-1].first_leaf, chain[-1].end_leaf)
        with reading(self.path):
            return tuple(self.metadata.schema.column(leaf).physical_type for leaf in leaves)

    def column_bytes(
        self, columns: Sequence[ColumnName] | SelectedColumns | None, row_group: int
    ) -> int:
        """Bytes that a read of the columns takes from the store for one row group.

        Raises:
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
        """
        chosen = columns if isinstance(columns, SelectedColumns) else self.select(columns)
        ranges = self.places(chosen.leaves, self._groups((row_group,)))
        return sum(end - start for start, end in ranges)

    def uncompressed_bytes(
        self, columns: Sequence[ColumnName] | SelectedColumns | None, row_group: int
    ) -> int:
        """The memory that the columns of one row group need at least, once they are decoded.

        Texts that a dictionary holds once may need more.

        Raises:
            SchemaMismatchError: the file has no such column.
            InvalidUseError: the file has no such row group.
        """
        chosen = columns if isinstance(columns, SelectedColumns) else self.select(columns)
        (group,) = self._groups((row_group,))
        return self._decoded_bytes(chosen.leaves, group)

    def _decoded_bytes(self, leaves: Sequence[int], group: int) -> int:
        """What runs of equal values and nulls, of which a few bytes make millions, come to."""
        self.places(leaves, (group,))
        chunks = self.metadata.row_group(group)
        total = 0
        for leaf in leaves:
            chunk = chunks.column(leaf)
            width = _WIDTHS.get(chunk.physical_type, 4)
            if chunk.physical_type == "FIXED_LEN_BYTE_ARRAY":
                width = max(width, self.metadata.schema.column(leaf).length or 0)
            total += max(chunk.total_uncompressed_size, width * max(chunk.num_values, 0))
        return total

    def check_memory(self, leaves: Sequence[int], groups: Sequence[int]) -> None:
        """Refuse what no memory can hold.

        Raises:
            InvalidTableError, OutOfMemoryError: these leaves of a row group take too much.
        """
        for group in groups:
            rows = self.metadata.row_group(group).num_rows
            if rows > _MOST_ROWS:
                raise self._too_large(group)
            self.check_decoded(self._decoded_bytes(leaves, group), group)

    def check_chunks(
        self,
        source: pa.NativeFile,
        leaves: Sequence[int],
        groups: Sequence[int],
        rows: int | None = None,
    ) -> int | None:
        """How many of `rows`, all by default, can be decoded at once; None for all. CPU-heavy.

        Raises:
            InvalidTableError: they come to more than memory holds, or than the footer says; or
                pages are not those that were written, where the file `verifies`.
        """
        at_once: list[int] = []
        for group in groups:
            left = most = min(_LARGEST_ROW_GROUP, memory_limit_of(self._store))
            left -= self._decoded_bytes(leaves, group)
            for leaf in leaves:
                chunk = (group, leaf)
                place = self._ranges[chunk]
                if self.verifies:
                    check_pages(self.path, source, self.metadata, chunk, place)
                found = unfolded(
                    self.path, source, self.metadata, chunk, place, limit=left, rows=rows
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
        check_memory(size, memory_limit_of(self._store), f"{self.path}: its row group {row_group}")

    def _too_large(self, group: int) -> InvalidTableError:
        rows = self.metadata.row_group(group).num_rows
        return InvalidTableError(
            f"{self.path}: its row group {group} of {rows:,} rows needs more than "
            f"{_LARGEST_ROW_GROUP >> 30} GiB of memory at once. Read fewer of its columns, or "
            "rewrite it in smaller row groups; if nobody meant it, remove it from the table."
        )

    def statistics(self, row_group: int, column: ColumnName) -> ChunkStatistics | None:
        """What the footer says of a leaf in one row group; None where it says nothing.

        Raises:
            SchemaMismatchError: the file has no such column, or the column is no leaf.
            InvalidUseError: the file has no such row group.
        """
        return chunk_statistics(self.path, self.chunk(row_group, self.leaf(column)))

    def leaf(self, column: ColumnName) -> int:
        """The number of a column that is a leaf among all leaves.

        Raises:
            SchemaMismatchError: the file has no such column, or the column is no leaf.
        """
        (chain,) = self._select((column,))
        if not chain[-1].is_leaf:
            raise SchemaMismatchError(
                f"{self.path}: {_text(column)} is {chain[-1].type}, and statistics are of leaves: "
                "name one of its fields"
            )
        return chain[-1].first_leaf

    def chunk(self, row_group: int, leaf: int) -> pq.ColumnChunkMetaData:
        """What the footer says of one leaf in one row group, once Arrow has found it sound.

        Raises:
            InvalidTableError: it is damaged.
            InvalidUseError: the file has no such row group.
        """
        (group,) = self._groups((row_group,))
        self.places((leaf,), (group,))
        return self.metadata.row_group(group).column(leaf)

    def _groups(self, row_groups: Sequence[int] | None) -> list[int]:
        if row_groups is None:
            return list(range(self.num_row_groups))
        for group in row_groups:
            if not 0 <= group < self.num_row_groups:
                raise InvalidUseError(
                    f"{self.path}: has no row group {group}; it has {self.num_row_groups}, "
                    "counted from 0"
                )
        return list(row_groups)

    def _select(self, columns: Sequence[ColumnName] | None) -> list[tuple[ColumnNode, ...]]:
        if columns is None:
            return [(node,) for node in self._tree.columns]
        selection = []
        for column in columns:
            chain = self._tree.find(column)
            if not chain:
                raise SchemaMismatchError(
                    f"{self.path}: has no column {_text(column)}; it has "
                    f"{', '.join(node.name for node in self._tree.columns[:50]) or 'none at all'}"
                )
            selection.append(chain)
        return selection

    def places(self, leaves: Sequence[int], groups: Sequence[int]) -> list[ByteRange]:
        """Where the store holds the leaves' chunks, one row group after the other. CPU-heavy.

        Raises:
            InvalidTableError: the metadata of a chunk is damaged.
        """
        pairs = [(group, leaf) for group in groups for leaf in leaves]
        unknown = [pair for pair in pairs if pair not in self._ranges]
        if unknown:
            new_groups = list(dict.fromkeys(group for group, _ in unknown))
            new_leaves = sorted({leaf for _, leaf in unknown})
            self._ranges |= chunk_ranges(
                self.path, self.size, self.metadata, new_groups, new_leaves
            )
        return [self._ranges[pair] for pair in pairs]

    def held_bytes(self, start: int, end: int) -> memoryview | None:
        """The bytes ``[start, end)`` where they came along with the footer; None where not."""
        for at, data in self._held:
            if at <= start and end <= at + len(data):
                return data[start - at : end - at]
        return None

    async def fetch_bytes(self, ranges: Sequence[ByteRange]) -> list[tuple[int, memoryview]]:
        """The bytes of each of the ranges ``[start, end)``, with their start.

        Raises:
            InvalidTableError: the object was written again, or is shorter than it was.
            ObjectNotFoundError: the object is no longer there.
        """
        if not ranges:
            return []
        with unchanged(self.path), pinned(self._pin):
            answers = await self._store.get_ranges(self.path, ranges)
        for (start, end), answer in zip(ranges, answers, strict=True):
            if len(answer) != end - start:
                raise InvalidTableError(
                    f"{self.path}: is shorter than it was: {end - start:,} bytes were asked for "
                    f"at {start:,}, {len(answer):,} came. Data files are never overwritten in a "
                    "Delta table: find out what wrote this one again."
                )
        return [(start, memoryview(a)) for (start, _), a in zip(ranges, answers, strict=True)]


@dataclass(frozen=True, slots=True)
class _Opening:
    """How an object is being opened; the methods are for worker threads."""

    store: ObjectStore
    path: str
    then: Callable[[ParquetFile], None] | None
    verify: bool
    pin: Pin

    def here(self, store: LocalFiles, tail: int) -> ParquetFile | None:
        """A file of this machine, on one way; None where its footer does not fit into `tail`."""
        suffix = store.read_suffix(self.path, max(tail, TRAILER), pin=self.pin)
        found = footer_within(self.path, suffix)
        return None if found is None else self.fetched(found)

    def fetched(self, found: FetchedFooter) -> ParquetFile:
        pieces = ((0, found.front), (found.data_start, found.data))
        held = tuple((start, data) for start, data in pieces if len(data))
        return self.described(found.object_size, found.footer, None, held)

    def described(
        self,
        size: int,
        footer: memoryview | None,
        metadata: pq.FileMetaData | None,
        held: Pieces,
    ) -> ParquetFile:
        if footer is None:
            reader = open_arrow_reader(self.path, pa.BufferReader(b""), metadata)
        else:
            reader = open_footer(self.path, footer)
        with reading(self.path):
            schema = reader.schema_arrow
        file = ParquetFile(
            self.store,
            self.path,
            size,
            reader.metadata,
            schema,
            held,
            footer,
            verifies=self.verify,
            pin=self.pin,
        )
        if self.then is not None:
            self.then(file)
        return file


def _text(column: ColumnName) -> str:
    return repr(column if isinstance(column, str) else ".".join(column))
