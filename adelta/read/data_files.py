"""Data files → rows: what a plan makes of files, with read-ahead under a memory bound.

Row groups are the unit of work, small neighbours together: while one is handed over, large ones
slice by slice, the next ones are fetched and decoded, in order, within a budget of bytes.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from adelta._concurrency import ReadAhead, in_thread, map_concurrent
from adelta.errors import MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.kernel.deletion_vector.mask import check_bounds
from adelta.kernel.scan_plan import (
    ScanPlan,
    file_column_indices,
    row_id_columns,
)
from adelta.kernel.schema.calendar import legacy_calendar
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.parquet.reader import FetchedColumns, ParquetFile, SelectedColumns
from adelta.read.index_skipping import IndexSkipping
from adelta.read.row_groups import RowGroupSkipping
from adelta.read.unit_decoder import UNITS_AHEAD, UnitDecoder
from adelta.read.unit_decoding import Opened, Piece, Unit

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator

    import pyarrow as pa
    from pyroaring import BitMap64

    from adelta.storage.roots import StoreRoots

__all__ = ["READ_AHEAD_BYTES", "Piece", "open_data_file", "read_files", "read_pieces"]

READ_AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes of rows that are held ahead of the consumer, beside a quarter of that as files have it."""

_OPEN_AHEAD = 32  # footers read ahead of the row groups
_OPEN_AHEAD_NEAR = 4  # likewise where that takes the time of decoding, and no other
_SMALL = 16 * 1024 * 1024  # adjacent row groups are read at once up to this size, decoded
_NEAR = ("file:", "memory:")  # stores that answer at once


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
    """The rows that `plan` makes of `files`, table by table, in order.

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
    """The rows that `plan` makes of every piece, table by table, in order.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    limit = roots.store.concurrency
    near = roots.store.uri.startswith(_NEAR)
    opener = await in_thread(_Opener, roots, plan)

    async def units() -> AsyncIterator[Unit]:
        ahead = ReadAhead(
            opener.open, pieces, limit=_OPEN_AHEAD_NEAR if near else min(_OPEN_AHEAD, limit)
        )
        async with ahead as opened:
            async for one in opened:
                for unit in _units(one):
                    yield unit

    async def fetch(unit: Unit) -> tuple[Unit, FetchedColumns]:
        opened = unit.opened
        return unit, await opened.parquet.fetch(opened.columns, row_groups=unit.row_groups)

    # Bytes are fetched far ahead where they come from afar. Rows are only decoded as fast as they
    # are taken: memory that was just given back is a third cheaper than memory that is new.
    decoder = UnitDecoder(plan, roots.store.uri)
    fetching = ReadAhead(
        fetch,
        units(),
        limit=UNITS_AHEAD if near else limit,
        cost=lambda unit: unit.bytes,
        budget=max(1, read_ahead_bytes // 4),
    )
    decoding = ReadAhead(
        decoder.begin,
        fetching,
        limit=UNITS_AHEAD,
        cost=lambda one: one[0].decoded_bytes,
        budget=max(1, read_ahead_bytes),
    )
    async with aclosing(decoder), decoding as begun:
        async for rows in begun:
            async for table in rows:
                yield rows.piece, table
                del table  # so that what is decoded next may have its memory
            await decoder.end(rows)


def _units(opened: Opened) -> Iterator[Unit]:
    """The row groups to read, small ones together."""
    only, metadata = opened.piece.only, opened.parquet.metadata
    waiting: Unit | None = None
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
                rows=waiting.rows + rows,
                bytes=waiting.bytes + sizes[0],
                decoded_bytes=waiting.decoded_bytes + sizes[1],
            )
            waiting = None
        else:
            unit = Unit(opened, (group,), first_row, rows, *sizes)
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

    async def open(self, piece: Piece) -> Opened:
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
        return Opened(piece, parquet, columns, deciding, deleted, legacy, groups)

    def _choose(self, piece: Piece, parquet: ParquetFile) -> _Chosen:
        """The columns to read, those that decide, and the row groups worth it with their bytes."""
        columns, deciding = self._columns(self._plan, parquet), None
        if self._plan.where is not None:
            deciding = self._columns(self._plan.deciding, parquet)
            if len(deciding.leaves) == len(columns.leaves):
                deciding = None
        kept = self._skipping.kept(piece.file, parquet)
        parquet.places(columns.leaves, kept)
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
