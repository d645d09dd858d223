"""UPDATE of some columns: the others are copied into the new file as they are, byte for byte.

One file becomes one file, row group by row group. That takes a table whose rules look at no other
column, and files as they would be written now.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from adelta._arrow_values import array_of_numpy
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.deletion_vector.mask import named_rows
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import columns_of
from adelta.kernel.schema.cast import relabel
from adelta.kernel.schema.types import StructType
from adelta.kernel.stats_text import stats_with_columns
from adelta.operations.assigned_rows import AssignedRows
from adelta.operations.copy_plan import copy_plan
from adelta.operations.one_by_one import one_by_one
from adelta.parquet.chunk_copies import encoded_chunks
from adelta.parquet.write.statistics import StatisticsCollector
from adelta.read.data_files import read_files
from adelta.read.opener import open_data_file
from adelta.write.chunk_file import ChunkDataFile, ChunkLayout, UncheckedPagesError
from adelta.write.row_rules import RowRules

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.matching import MatchedFile
    from adelta.parquet.chunk_copies import ChunkBytes
    from adelta.parquet.footer.footer_parts import FooterParts
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.roots import StoreRoots
    from adelta.write.spec import WriteSpec

__all__ = ["ColumnAssignments", "update_columns"]

_LEAST_BYTES: Final = 1024 * 1024  # of a file; smaller ones had better share one
_READ_AHEAD: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class ColumnAssignments:
    """New values for columns of rows of which nothing else is looked at, as a plain value.

    `values` are bound expressions by column; `target` has these columns in the table's types.
    Dates and timestamps without a time zone are read in `zone`.
    """

    values: tuple[tuple[str, Node], ...]
    target: pa.Schema
    zone: str = "UTC"

    @classmethod
    def of(
        cls, values: Sequence[tuple[str, Node]], assigned: AssignedRows
    ) -> ColumnAssignments | None:
        """What is assigned; None where the rules of the table look at other columns, too."""
        rules = assigned.rules
        looks = (*rules.checks, *rules.generated, *rules.shapes)
        if looks or assigned.recomputed or assigned.row_commit_version is not None:
            return None
        names = {name for name, _ in values}
        fields = [field for field in assigned.target if field.name in names]
        return cls(tuple(values), pa.schema(fields), rules.zone)

    @property
    def needed(self) -> list[str]:
        """The columns that rows have to have: those that are assigned come first."""
        read = (path[0] for _, node in self.values for path in columns_of(node))
        return list(dict.fromkeys((*self.target.names, *read)))

    def apply(self, rows: pa.RecordBatch, matching: pa.BooleanArray | None) -> pa.RecordBatch:
        """The columns that are assigned: with new values in the rows that are `matching`, or all.

        Raises:
            InvariantViolationError: a column that must not be null would hold one.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
        """
        if matching is None:
            return self._assigned(rows)
        mask: Any = np.asarray(matching)
        after = self._assigned(rows.filter(matching))
        before = rows.select(self.target.names).filter(array_of_numpy(~mask))
        places = np.empty(rows.num_rows, np.int64)
        places[~mask] = np.arange(before.num_rows)
        places[mask] = np.arange(before.num_rows, rows.num_rows)
        before = pa.RecordBatch.from_arrays(before.columns, schema=self.target)
        both = pa.Table.from_batches([before, after]).combine_chunks().take(places)
        (joined,) = both.combine_chunks().to_batches()
        return joined

    def _assigned(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        computed = {name: evaluate(node, rows) for name, node in self.values}
        rules = RowRules(StructType(), zone=self.zone, assigns=True)
        plain = AssignedRows(self.target, (), rules, None)
        return plain.apply(rows.select(self.target.names), computed)


async def update_columns(
    roots: StoreRoots,
    configuration: TableConfiguration,
    spec: WriteSpec,
    assignments: ColumnAssignments,
    files: Sequence[MatchedFile],
) -> tuple[list[AddFile], list[MatchedFile]]:
    """The files that those of `files` become whose other columns are copied; and the other files.

    Where it fails, nothing of it is left.

    Raises:
        InvariantViolationError: a column that must not be null would hold one.
        InvalidExpressionError: a value cannot be computed.
        SchemaMismatchError: a column cannot hold a value.
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        StorageError: the store refused or failed.
    """
    left = [each for each in files if not _may_be_copied(each)]
    if len(left) == len(files) or set(assignments.target.names) & set(spec.partition_columns):
        return [], list(files)
    layout = await in_thread(ChunkLayout.of, spec)
    if layout is None:
        return [], list(files)
    updating = _Updating(roots, configuration, layout, assignments)
    done, others = await one_by_one(roots, filter(_may_be_copied, files), updating.file)
    return done, left + others


def _may_be_copied(matched: MatchedFile) -> bool:
    file = matched.file
    return file.deletion_vector is None and bool(file.stats) and file.size >= _LEAST_BYTES


class _Updating:
    """Files whose columns are assigned; the methods are for one file at a time."""

    def __init__(
        self,
        roots: StoreRoots,
        configuration: TableConfiguration,
        layout: ChunkLayout,
        assignments: ColumnAssignments,
    ) -> None:
        self._roots = roots
        self._layout = layout
        self._assignments = assignments
        self._plan = copy_plan(configuration, columns=assignments.needed)
        files = layout.files
        places = [files.table_schema.get_field_index(n) for n in assignments.target.names]
        self._named = pa.schema([files.physical_schema.field(place) for place in places])
        self._stored = pa.schema([files.file_schema.field(name) for name in self._named.names])

    async def file(self, matched: MatchedFile) -> AddFile | None:
        """The file that a file becomes; None where it has to be written anew as a whole."""
        parquet = await open_data_file(self._roots, matched.file)
        parts = await in_thread(self._layout.parts_of, parquet)
        if parts is None:
            return None
        try:
            return await self._written(matched, parquet, parts)
        except UncheckedPagesError:
            return None

    async def _written(
        self, matched: MatchedFile, parquet: ParquetFile, parts: FooterParts
    ) -> AddFile:
        files, names = self._layout.files, set(self._stored.names)
        leaves = [path for path in files.statistics_leaves if path[0] in names]
        bounded = files.bounded_leaves
        statistics = StatisticsCollector(
            self._stored,
            leaves,
            bounded=None if bounded is None else [path for path in bounded if path[0] in names],
        )
        values = matched.file.partition_values
        groups = self._groups(matched, parts)
        async with (
            ChunkDataFile(self._roots.store, self._layout, values) as written,
            aclosing(groups) as tables,
        ):
            number = 0
            async for rows in tables:
                chunks = await in_thread(
                    encoded_chunks, written.path, self._stored, files.options, [rows], statistics
                )
                for copied, own in self._runs(parquet, chunks):
                    await written.copy(parquet, parts, number, copied)
                    await written.put(own)
                written.end_group(rows.num_rows)
                number += 1
            new = await in_thread(files.stats_json, statistics.result())
            return await written.finish(
                await in_thread(stats_with_columns, matched.file.stats or "{}", new, names)
            )

    def _runs(
        self, parquet: ParquetFile, chunks: list[ChunkBytes]
    ) -> Iterator[tuple[list[int], list[ChunkBytes]]]:
        """The chunks of a row group in order: leaves that are copied, and new ones behind them."""
        copied: list[int] = []
        for node in parquet.layout.tree.columns:
            leaves = range(node.first_leaf, node.end_leaf)
            if node.name in self._stored.names:
                yield copied, [chunks.pop(0) for _ in leaves]
                copied = []
            else:
                copied += leaves
        yield copied, []

    async def _groups(
        self, matched: MatchedFile, parts: FooterParts
    ) -> AsyncGenerator[pa.Table, None]:
        """The columns that are assigned, by row group."""
        sizes = [group.num_rows for group in parts.groups]
        waiting: list[pa.RecordBatch] = []
        held = first = 0
        plan, file = self._plan, replace(matched.file, stats=None)
        read = read_files(self._roots, plan, [file], read_ahead_bytes=_READ_AHEAD)
        async with aclosing(read) as tables:
            async for table in tables:
                for batch in table.to_batches():
                    waiting.append(await in_thread(self._assigned, batch, matched, first))
                    first += batch.num_rows
                    held += batch.num_rows
                while sizes and held >= sizes[0]:
                    rows = pa.Table.from_batches(waiting, schema=self._named)
                    held -= (size := sizes.pop(0))
                    yield rows.slice(0, size)
                    waiting = rows.slice(size).to_batches()

    def _assigned(self, batch: pa.RecordBatch, matched: MatchedFile, first: int) -> pa.RecordBatch:
        matching = None
        if not matched.is_whole:
            matching = named_rows(matched.rows, first, batch.num_rows)
            if matching is None:
                matching = array_of_numpy(np.zeros(batch.num_rows, bool))
        return relabel(self._assignments.apply(batch, matching), self._named)
