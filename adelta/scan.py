"""Scan: rows of one version of a table, read file by file with read-ahead under a memory bound.

A scan is lazy: it reads when its rows are asked for. Row groups are the unit of work: while one is
handed over the next ones are fetched and decoded, in order, within `READ_AHEAD_BYTES`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from adelta._concurrency import ReadAhead, in_thread, map_concurrent
from adelta.errors import MissingDataFileError, ObjectNotFoundError
from adelta.kernel.actions.file_actions import AddFile, decode_path
from pyroaring import BitMap64

from adelta.kernel.data_skipping.prune import exact_row_counts, prune_files
from adelta.kernel.deletion_vector.mask import check_bounds, kept_rows
from adelta.kernel.expressions.nodes import Node
from adelta.kernel.file_set import FileSet
from adelta.kernel.scan_plan import ScanPlan, assemble, file_column_indices
from adelta.log.deletion_vector_reader import read_deletion_vector
from adelta.log.state import LogState
from adelta.parquet.reader import ParquetFile
from adelta.storage.roots import StoreRoots

__all__ = ["READ_AHEAD_BYTES", "Scan", "read_files"]

READ_AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes, before compression, that a scan reads ahead of its consumer."""

_BATCH_ROWS = 64 * 1024
_OPEN_AHEAD = 32  # footers read ahead of the row groups
_SMALL = 64 * 1024


class Scan:
    """The rows of a snapshot that a predicate keeps, with the columns asked for."""

    def __init__(
        self, state: LogState, roots: StoreRoots, plan: ScanPlan, *, limit: int | None = None
    ) -> None:
        self._state = state
        self._roots = roots
        self._plan = plan
        self._limit = limit

    @property
    def plan(self) -> ScanPlan:
        """What is read of every file: a value that can be pickled to a worker."""
        return self._plan

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._plan.arrow_schema

    async def files(self) -> pa.Table:
        """The files that may hold rows of the scan, with the columns of `Snapshot.files`.

        Raises:
            InvalidTableError: a checkpoint is damaged.
        """
        return (await self._files()).table

    async def _files(self) -> FileSet:
        return await prune(self._state, self._plan.where, self._plan)

    async def to_arrow(self) -> pa.Table:
        """All rows as one table.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        tables = [table async for table in self._tables()]
        return pa.concat_tables(tables) if tables else self.schema.empty_table()

    async def batches(self) -> AsyncIterator[pa.RecordBatch]:
        """The rows in batches of at most 65,536, in bounded memory.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        async for table in self._tables():
            for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                if batch.num_rows:
                    yield batch

    async def _tables(self) -> AsyncIterator[pa.Table]:
        left = self._limit
        if left == 0:
            return
        files = list((await self._files()).rows())
        async for table in read_files(self._roots, self._plan, files):
            if left is None:
                yield table
                continue
            yield table.slice(0, left)
            left -= min(left, table.num_rows)
            if left == 0:
                return

    async def count(self) -> int:
        """How many rows the scan has; from the log and footers alone where these are exact.

        Raises:
            MissingDataFileError: the log names a file that is not there.
            InvalidTableError: a file is damaged.
        """
        files = await self._files()
        counts = exact_row_counts(files.table, self._plan.where, self._plan.partition_columns)
        if counts is None:
            total = 0
            async for table in self._tables():
                total += table.num_rows
            return total
        known, unknown = counts

        async def footer_rows(file: AddFile) -> int:
            vector = file.deletion_vector
            rows = (await _open(self._roots, file)).num_rows
            return rows - (vector.cardinality if vector else 0)

        rest = FileSet(files.table.take(unknown)).rows() if len(unknown) else ()
        total = known + sum(
            await map_concurrent(footer_rows, rest, limit=self._state.store.concurrency)
        )
        return total if self._limit is None else min(total, self._limit)


async def prune(state: LogState, where: Node | None, plan: ScanPlan) -> FileSet:
    """The live files of `state` that may hold rows for which `where` is true."""
    files = await state.files()
    if where is None or not files.num_files:
        return files
    return FileSet(await in_thread(prune_files, files.table, where, plan), files.root)


@dataclass(frozen=True, slots=True)
class _Opened:
    file: AddFile
    parquet: ParquetFile
    columns: list[tuple[str, ...]]
    deleted: BitMap64 | None


@dataclass(frozen=True, slots=True)
class _Unit:
    """One row group of one file."""

    opened: _Opened
    row_group: int
    first_row: int

    @property
    def bytes(self) -> int:
        return self.opened.parquet.uncompressed_bytes(self.opened.columns, self.row_group)


async def _open(roots: StoreRoots, file: AddFile) -> ParquetFile:
    store, path = roots.locate(file.path, decode_path(file.path))
    try:
        return await ParquetFile.open(store, path, size=file.size or None)
    except ObjectNotFoundError as error:
        raise MissingDataFileError(
            f"{store.uri}/{path} is named by the log and not there; if it was vacuumed, read a "
            "later version, else restore the file or remove it from the log (fsck)"
        ) from error


async def read_files(
    roots: StoreRoots,
    plan: ScanPlan,
    files: Sequence[AddFile],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> AsyncIterator[pa.Table]:
    """The rows that `plan` makes of `files`, a table per row group, in order.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """

    async def open_file(file: AddFile) -> _Opened:
        parquet = await _open(roots, file)
        found = file_column_indices(plan, parquet.schema)
        columns = [(parquet.schema.field(index).name,) for _, index in found if index is not None]
        deleted = None
        if file.deletion_vector is not None:
            source = f"{roots.store.uri}: {file.path}"
            deleted = await read_deletion_vector(roots, file.deletion_vector, source)
            check_bounds(deleted, parquet.num_rows, file.deletion_vector.cardinality, source)
        return _Opened(file, parquet, columns, deleted)

    async def row_groups() -> AsyncIterator[_Unit]:
        async with ReadAhead(open_file, files, limit=min(_OPEN_AHEAD, limit)) as opened:
            async for one in opened:
                first_row = 0
                for row_group in range(one.parquet.num_row_groups):
                    yield _Unit(one, row_group, first_row)
                    first_row += one.parquet.metadata.row_group(row_group).num_rows

    async def read(unit: _Unit) -> pa.Table:
        table = await unit.opened.parquet.read(unit.opened.columns, row_groups=(unit.row_group,))
        return await in_thread(_rows, plan, unit, table, roots.store.uri)

    limit = roots.store.concurrency
    async with ReadAhead(
        read, row_groups(), limit=limit, cost=lambda unit: unit.bytes, budget=read_ahead_bytes
    ) as tables:
        async for table in tables:
            yield table


def _rows(plan: ScanPlan, unit: _Unit, table: pa.Table, root: str) -> pa.Table:
    file, deleted = unit.opened.file, unit.opened.deleted
    if deleted is not None:
        mask = kept_rows(deleted, unit.first_row, table.num_rows)
        table = table if mask is None else _filtered(table, mask)
    return assemble(plan, table, file.partition_values, f"{root}: {file.path}")


def _filtered(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    if table.num_columns:
        return table.filter(mask)
    return pa.table({"": pa.nulls(mask.true_count)}).select([])
