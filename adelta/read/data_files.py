"""Data files → rows: what a plan makes of files, with read-ahead under a memory bound.

Row groups are the unit of work, small neighbours together: while one is handed over the next ones
are fetched and decoded, in order, within a budget of bytes.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from adelta._concurrency import ReadAhead, in_thread, map_concurrent
from adelta.errors import MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.kernel.deletion_vector.mask import check_bounds, kept_rows, named_rows
from adelta.kernel.scan_plan import (
    ScanPlan,
    assemble,
    attach_row_ids,
    file_column_indices,
    row_id_columns,
)
from adelta.kernel.schema.calendar import LegacyCalendar, legacy_calendar, rebase
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.parquet.reader import FetchedColumns, ParquetFile, SelectedColumns
from adelta.read.index_skipping import IndexSkipping
from adelta.read.row_groups import RowGroupSkipping

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator

    from pyroaring import BitMap64

    from adelta.storage.roots import StoreRoots

__all__ = ["READ_AHEAD_BYTES", "Piece", "open_data_file", "read_files", "read_pieces"]

READ_AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes of rows that are held ahead of the consumer, beside a quarter of that as files have it."""

_OPEN_AHEAD = 32  # footers read ahead of the row groups
_OPEN_AHEAD_NEAR = 4  # likewise where that takes the time of decoding, and no other
_DECODED_AHEAD = 2  # row groups decoded, or being decoded, ahead of the consumer
_SMALL = 16 * 1024 * 1024  # adjacent row groups are read at once up to this size, decoded
_NEAR = ("file:", "memory:")  # stores that answer at once


@dataclass(frozen=True, slots=True)
class Piece:
    """What to read of one data file: the rows that its deletion vector leaves, or `only` these.

    `tag` is the caller's own.
    """

    file: AddFile
    only: BitMap64 | None = None
    tag: object = None


@dataclass(frozen=True, slots=True)
class _Opened:
    piece: Piece
    parquet: ParquetFile
    columns: SelectedColumns
    deciding: SelectedColumns | None
    deleted: BitMap64 | None
    legacy: LegacyCalendar | None
    row_groups: dict[int, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Unit:
    """Row groups of one file that follow each other, and are read at once."""

    opened: _Opened
    row_groups: tuple[int, ...]
    first_row: int
    bytes: int
    decoded_bytes: int


_Chosen: TypeAlias = tuple[SelectedColumns, SelectedColumns | None, dict[int, tuple[int, int]]]
"""The columns to read, those that decide, and row groups with their bytes, stored and decoded."""


async def open_data_file(
    roots: StoreRoots, file: AddFile, then: Callable[[ParquetFile], None] | None = None
) -> ParquetFile:
    """The opened Parquet object of a data file; `then` looks at it in the thread that opens it.

    Raises:
        MissingDataFileError: it is not there.
        InvalidTableError: it is damaged.
    """
    store, path = roots.locate(file.path, decode_path(file.path))
    try:
        return await ParquetFile.open(store, path, size=file.size or None, then=then)
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"{store.uri}/{path} is named by the log and not there; if it was vacuumed, read a "
            "later version, else restore the file or remove it from the log (fsck)"
        ) from error


async def read_files(
    roots: StoreRoots,
    plan: ScanPlan,
    files: Iterable[AddFile],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> AsyncGenerator[pa.Table, None]:
    """The rows that `plan` makes of `files`, a table per row group, in order.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    pieces = (Piece(file) for file in files)
    read = read_pieces(roots, plan, pieces, read_ahead_bytes=read_ahead_bytes)
    async with aclosing(read) as tables:
        async for _, table in tables:
            yield table


async def read_pieces(
    roots: StoreRoots,
    plan: ScanPlan,
    pieces: Iterable[Piece] | AsyncIterator[Piece],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> AsyncGenerator[tuple[Piece, pa.Table], None]:
    """The rows that `plan` makes of every piece, a table per row group, in order.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    limit = roots.store.concurrency
    near = roots.store.uri.startswith(_NEAR)
    opener = await in_thread(_Opener, roots, plan)

    async def units() -> AsyncIterator[_Unit]:
        ahead = ReadAhead(
            opener.open, pieces, limit=_OPEN_AHEAD_NEAR if near else min(_OPEN_AHEAD, limit)
        )
        async with ahead as opened:
            async for one in opened:
                for unit in _units(one):
                    yield unit

    async def fetch(unit: _Unit) -> tuple[_Unit, FetchedColumns]:
        opened = unit.opened
        return unit, await opened.parquet.fetch(opened.columns, row_groups=unit.row_groups)

    async def decode(fetched: tuple[_Unit, FetchedColumns]) -> tuple[Piece, pa.Table]:
        unit, columns = fetched
        return unit.opened.piece, await in_thread(_rows, plan, unit, columns, roots.store.uri)

    # Bytes are fetched far ahead where they come from afar. Rows are only decoded as fast as they
    # are taken: memory that was just given back is a third cheaper than memory that is new.
    fetching = ReadAhead(
        fetch,
        units(),
        limit=_DECODED_AHEAD if near else limit,
        cost=lambda unit: unit.bytes,
        budget=max(1, read_ahead_bytes // 4),
    )
    decoding = ReadAhead(
        decode,
        fetching,
        limit=_DECODED_AHEAD,
        cost=lambda one: one[0].decoded_bytes,
        budget=max(1, read_ahead_bytes),
    )
    async with decoding as tables:
        async for tagged in tables:
            yield tagged


def _units(opened: _Opened) -> Iterator[_Unit]:
    """The row groups to read, small ones together."""
    only, metadata = opened.piece.only, opened.parquet.metadata
    waiting: _Unit | None = None
    first_row = 0
    for group in range(opened.parquet.num_row_groups):
        rows = metadata.row_group(group).num_rows
        sizes = opened.row_groups.get(group)
        if sizes is None or not (
            only is None or only.range_cardinality(first_row, first_row + rows)
        ):
            unit = None
        elif waiting is not None and waiting.decoded_bytes + sizes[1] <= _SMALL:
            unit = replace(
                waiting,
                row_groups=(*waiting.row_groups, group),
                bytes=waiting.bytes + sizes[0],
                decoded_bytes=waiting.decoded_bytes + sizes[1],
            )
            waiting = None
        else:
            unit = _Unit(opened, (group,), first_row, *sizes)
        if waiting is not None:
            yield waiting
        waiting = unit
        first_row += rows
    if waiting is not None:
        yield waiting


class _Opener:
    """Opens pieces: footer and deletion vector at once, then which row groups are worth reading."""

    def __init__(self, roots: StoreRoots, plan: ScanPlan) -> None:
        self._roots = roots
        self._plan = plan
        self._skipping = RowGroupSkipping(plan)
        self._indexes = IndexSkipping(plan, self._skipping)

    async def open(self, piece: Piece) -> _Opened:
        """The piece, opened."""
        parquet: ParquetFile | None = None
        deleted: BitMap64 | None = None

        chosen: list[_Chosen] = []

        def choose(file: ParquetFile) -> None:
            chosen.append(self._choose(piece, file))

        async def open_file() -> None:
            nonlocal parquet
            parquet = await open_data_file(self._roots, piece.file, choose)

        async def open_vector() -> None:
            nonlocal deleted
            deleted = await self._deleted(piece)

        vector = piece.file.deletion_vector
        both = (open_file, open_vector) if vector is not None else (open_file,)
        await map_concurrent(lambda work: work(), both, limit=2)
        assert parquet is not None
        if deleted is not None and vector is not None:
            source = f"{self._roots.store.uri}: {piece.file.path}"
            check_bounds(deleted, parquet.num_rows, vector.cardinality, source)
        columns, deciding, groups = chosen[0]
        sizes = {group: size for group, (size, _) in groups.items()}
        kept = await self._indexes.kept(piece.file, parquet, sizes)
        groups = {group: groups[group] for group in kept}
        legacy = legacy_calendar(parquet.metadata.metadata)
        return _Opened(piece, parquet, columns, deciding, deleted, legacy, groups)

    def _choose(self, piece: Piece, parquet: ParquetFile) -> _Chosen:
        """The columns to read, those that decide, and the row groups worth it with their bytes."""
        columns, deciding = self._columns(self._plan, parquet), None
        if self._plan.where is not None:
            deciding = self._columns(self._plan.deciding, parquet)
            if len(deciding.leaves) == len(columns.leaves):
                deciding = None
        kept = self._skipping.kept(piece.file, parquet)
        parquet.locate(columns, kept)
        groups = {
            group: (
                parquet.column_bytes(columns, group),
                parquet.uncompressed_bytes(columns, group),
            )
            for group in kept
        }
        return columns, deciding, groups

    @staticmethod
    def _columns(plan: ScanPlan, parquet: ParquetFile) -> SelectedColumns:
        found = file_column_indices(plan, parquet.schema)
        names = [parquet.schema.field(index).name for _, index in found if index is not None]
        names += row_id_columns(plan, parquet.schema)
        return parquet.select([(name,) for name in dict.fromkeys(names)])

    async def _deleted(self, piece: Piece) -> BitMap64 | None:
        vector = piece.file.deletion_vector
        if vector is None or piece.only is not None:
            return None
        source = f"{self._roots.store.uri}: {piece.file.path}"
        return await read_deletion_vector(self._roots, vector, source)


def _rows(plan: ScanPlan, unit: _Unit, columns: FetchedColumns, root: str) -> pa.Table:
    """The rows of a row group: the predicate's columns first, and the others if it keeps any."""
    deciding = unit.opened.deciding
    if deciding is not None:
        first = _assembled(plan.deciding, unit, replace(columns, columns=deciding), root)
        if not first.num_rows:
            return plan.arrow_schema.empty_table()
    return _assembled(plan, unit, columns, root)


def _assembled(plan: ScanPlan, unit: _Unit, columns: FetchedColumns, root: str) -> pa.Table:
    opened = unit.opened
    table = opened.parquet.decode(columns)
    piece, file = opened.piece, opened.piece.file
    source = f"{root}: {file.path}"
    if opened.legacy is not None:
        table = _in_todays_calendar(table, opened.parquet, opened.legacy)
    table = attach_row_ids(plan, table, file, unit.first_row, source)
    if opened.deleted is not None:
        mask = kept_rows(opened.deleted, unit.first_row, table.num_rows)
        table = table if mask is None else _filtered(table, mask)
    elif piece.only is not None:
        mask = named_rows(piece.only, unit.first_row, table.num_rows)
        table = table.slice(0, 0) if mask is None else _filtered(table, mask)
    return assemble(plan, table, file.partition_values, source)


def _in_todays_calendar(table: pa.Table, parquet: ParquetFile, legacy: LegacyCalendar) -> pa.Table:
    for index, name in enumerate(table.column_names):
        int96 = [kind == "INT96" for kind in parquet.physical_types((name,))]
        chunks = [rebase(chunk, legacy, iter(int96)) for chunk in table.column(index).chunks]
        if chunks:
            field = table.schema.field(index).with_type(chunks[0].type)
            table = table.set_column(index, field, pa.chunked_array(chunks))
    return table


def _filtered(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    if table.num_columns:
        return table.filter(mask)
    return pa.table({"": pa.nulls(mask.true_count)}).select([])
