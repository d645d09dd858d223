"""Files without some of their rows: written anew column by column, in the memory of a few columns.

One file becomes one file, row group by row group; a row group that keeps all of its rows is copied
as it is, byte for byte. Rows that stand in the place of others come behind those of their row
group. That takes files that are as they would be written now.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import pyarrow as pa

from adelta._arrow_values import array_of_numpy
from adelta._concurrency import CPU_THREADS, in_thread
from adelta._dataclasses import dataclass
from adelta._read_ahead import ReadAhead
from adelta.kernel.deletion_vector.mask import named_rows
from adelta.kernel.partition import lookup_partition_value
from adelta.operations.matching import live_rows
from adelta.operations.one_by_one import one_by_one
from adelta.parquet.chunk_copies import encoded_chunks
from adelta.parquet.footer.layout import SelectedColumns
from adelta.parquet.write.row_shape import conform
from adelta.parquet.write.statistics import FileStatistics, StatisticsCollector
from adelta.read.opener import open_data_file
from adelta.write.chunk_file import ChunkDataFile, ChunkLayout, UncheckedPagesError
from adelta.write.data_file_writer import stored_rows

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyroaring import BitMap64

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.matching import MatchedFile
    from adelta.parquet.chunk_copies import ChunkBytes
    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.columns import ColumnNode
    from adelta.parquet.footer.footer_parts import FooterParts
    from adelta.parquet.reader import ParquetFile
    from adelta.storage.roots import StoreRoots
    from adelta.write.spec import WriteSpec

__all__ = ["Placed", "copy_by_column"]

_LEAST_BYTES: Final = 1024 * 1024  # of a file; smaller ones had better share one
_READ_AHEAD: Final = 16 * 1024 * 1024
_SLICE: Final = 8 * 1024 * 1024  # bytes of a column that are decoded in one go
_LARGEST_GROUP: Final = 2  # full row groups; of a larger one even a column is much


Placed: TypeAlias = "tuple[NDArray[np.int64], pa.RecordBatch]"
"""Rows of a table, and the places in a file, ascending, of those that they stand for."""


async def copy_by_column(
    roots: StoreRoots,
    spec: WriteSpec,
    files: Sequence[MatchedFile],
    instead: Callable[[AddFile], Awaitable[list[Placed]]] | None = None,
) -> tuple[list[AddFile], list[MatchedFile]]:
    """What those of `files` become of which most rows do not match, without these; and the others.

    `instead` gives the rows of a file that come in the place of some, which are few. Where it
    fails, nothing of it is left.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        StorageError: the store refused or failed.
    """
    left = [each for each in files if not _may_be_copied(each)]
    if len(left) == len(files):
        return [], left
    layout = await in_thread(ChunkLayout.of, spec)
    if layout is None:
        return [], list(files)
    copied = partial(_copied, roots, layout, instead=instead)
    done, others = await one_by_one(roots, filter(_may_be_copied, files), copied)
    return done, left + others


def _may_be_copied(matched: MatchedFile) -> bool:
    staying = matched.num_live - len(matched.rows)
    return matched.file.size >= _LEAST_BYTES and 2 * staying > matched.num_rows


async def _copied(
    roots: StoreRoots,
    layout: ChunkLayout,
    matched: MatchedFile,
    instead: Callable[[AddFile], Awaitable[list[Placed]]] | None,
) -> AddFile | None:
    """The file that a file becomes; None where it has to be written anew as a whole."""
    parquet = await open_data_file(roots, matched.file, verify=True)
    parts = await in_thread(layout.parts_of, parquet)
    if parts is None or not await in_thread(_fits, layout, parquet, matched.num_rows):
        return None
    added: list[Placed] | None = []
    if instead is not None:
        placed = await instead(matched.file)
        added = await in_thread(_stored, layout, matched.file, placed)
    if added is None:
        return None
    staying = await live_rows(roots, matched.file, matched.num_rows)
    staying = await in_thread(lambda: staying - matched.rows)
    values = matched.file.partition_values
    try:
        async with ChunkDataFile(roots.store, layout, values) as written:
            return await _Copy(layout, parquet, parts, staying, added, written).made()
    except UncheckedPagesError:
        return None


def _stored(layout: ChunkLayout, file: AddFile, placed: list[Placed]) -> list[Placed] | None:
    """The rows as files have them; None where some of them are of another partition."""
    names = [name for name, _ in layout.files.partition_columns]
    values = tuple(lookup_partition_value(file.partition_values, name) for name in names)
    found = []
    for places, rows in placed:
        parts = stored_rows(layout.files, rows)
        if [part.values for part in parts] != [values]:
            return None
        found.append((places, parts[0].rows))
    return found


def _fits(layout: ChunkLayout, parquet: ParquetFile, num_rows: int) -> bool:
    """Whether the file has so many rows, in the types and row groups that one written now has."""
    options, found = layout.files.options, parquet.layout
    fields = zip(found.schema, layout.files.file_schema, strict=True)
    return (
        found.num_rows == num_rows
        and all(have.type.equals(want.type) for have, want in fields)
        and all(
            found.rows_of((group,)) <= options.row_group_rows
            and found.uncompressed_bytes(None, group) <= _LARGEST_GROUP * options.row_group_bytes
            for group in range(found.num_row_groups)
        )
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """A row group: its number, its first row, and how many rows it has."""

    number: int
    first: int
    num_rows: int


@dataclass(frozen=True, slots=True)
class _Work:
    """What is to be done about columns of a row group; all of its rows stay without a `mask`.

    Those that are `added` come behind the ones that stay.
    """

    group: _Group
    mask: pa.BooleanArray | None
    added: pa.Table | None
    fetched: FetchedColumns
    node: ColumnNode | None = None
    """The column; None where the row group ends."""


class _Copy:
    """One file on its way into another."""

    def __init__(
        self,
        layout: ChunkLayout,
        parquet: ParquetFile,
        parts: FooterParts,
        staying: BitMap64,
        added: list[Placed],
        written: ChunkDataFile,
    ) -> None:
        self._layout = layout
        self._parquet = parquet
        self._parts = parts
        self._staying = staying
        self._added = added
        self._written = written
        self._columns = parquet.layout.tree.columns
        self._statistics = {node.name: self._collector(node) for node in self._columns}
        self._turns = {node.name: asyncio.Lock() for node in self._columns}

    async def made(self) -> AddFile:
        """The action that would add the file."""
        work = ReadAhead(self._done, self._work(), limit=CPU_THREADS + 1)
        async with work as done:
            async for each, chunks in done:
                if each.node is not None:
                    await self._written.put(chunks)
                else:
                    await self._end(each)
        return await self._written.finish(await in_thread(self._stats))

    async def _end(self, each: _Work) -> None:
        group, added = each.group, 0 if each.added is None else each.added.num_rows
        if each.mask is not None:
            self._written.end_group(each.mask.true_count + added)
            return
        leaves = range(self._parquet.layout.tree.num_leaves)
        await self._written.copy(self._parquet, self._parts, group.number, leaves)
        self._written.end_group(group.num_rows)

    async def _work(self) -> AsyncGenerator[_Work, None]:
        groups = ReadAhead(
            self._fetched,
            self._groups(),
            limit=2,
            cost=lambda group: self._parquet.layout.column_bytes(None, group.number),
            budget=_READ_AHEAD,
        )
        async with groups as fetched:
            async for work in fetched:
                for node in self._columns:
                    yield replace(work, node=node)
                yield work

    def _groups(self) -> Iterator[_Group]:
        """The row groups that keep any rows, or get some."""
        first = 0
        for number, group in enumerate(self._parts.groups):
            end = first + group.num_rows
            gets = any(len(_within(places, first, end)) for places, _ in self._added)
            if gets or self._staying.range_cardinality(first, end):
                yield _Group(number, first, group.num_rows)
            first = end

    async def _fetched(self, group: _Group) -> _Work:
        """A row group with the bytes of those columns that are to be decoded."""
        mask, added = await in_thread(self._chosen, group)
        nodes = self._columns
        if mask is None:
            nodes = await in_thread(lambda: tuple(n for n in nodes if not self._told(group, n)))
        leaves = [leaf for node in nodes for leaf in range(node.first_leaf, node.end_leaf)]
        wanted = SelectedColumns(tuple(leaves), None)
        fetched = await self._parquet.fetch(wanted, row_groups=(group.number,))
        return _Work(group, mask, added, fetched)

    def _chosen(self, group: _Group) -> tuple[pa.BooleanArray | None, pa.Table | None]:
        """Which rows of a group stay, None for all, and those that come to it."""
        first, count = group.first, group.num_rows
        mask = named_rows(self._staying, first, count)
        if mask is None:
            mask = array_of_numpy(np.zeros(count, np.bool_))
        added = []
        for places, rows in self._added:
            chosen = _within(places, first, first + count)
            if len(chosen):
                added.append(rows.slice(chosen.start, len(chosen)))
        if added:
            return mask, pa.Table.from_batches(added)
        return (None if mask.true_count == count else mask), None

    def _told(self, group: _Group, node: ColumnNode) -> bool:
        """Whether the footer says of a column of a row group what its statistics are."""
        metadata = self._parquet.layout.metadata.row_group(group.number)
        return self._statistics[node.name].is_told_by(metadata, node.first_leaf)

    async def _done(self, work: _Work) -> tuple[_Work, list[ChunkBytes]]:
        if work.node is None:
            return work, []
        async with self._turns[work.node.name]:  # statistics take in one after the other
            return work, await in_thread(self._encoded, work, work.node)

    def _encoded(self, work: _Work, node: ColumnNode) -> list[ChunkBytes]:
        """What is left of a column, encoded; of one that stays as it is its statistics alone."""
        group, mask, statistics = work.group, work.mask, self._statistics[node.name]
        if mask is None and self._told(group, node):
            statistics.take_row_group(
                self._parquet.layout.metadata.row_group(group.number), node.first_leaf
            )
            return []
        layout, leaves = self._parquet.layout, range(node.first_leaf, node.end_leaf)
        size = layout.decoded_bytes(leaves, group.number)
        rows = None if size <= _SLICE else max(1, group.num_rows * _SLICE // size)
        fetched = replace(work.fetched, columns=SelectedColumns(tuple(leaves), None))
        kept: list[pa.Table] = []
        at = 0
        slices = self._parquet.slices(fetched, rows, keeps_dictionaries=True, lasting=False)
        for table in slices:
            if mask is None:
                statistics.update(table)
            else:
                kept.append(table.filter(mask.slice(at, table.num_rows)))
            at += table.num_rows
            del table  # so that the next one may have its memory
        if mask is None:
            return []
        options, path, schema = self._layout.files.options, self._written.path, self._schema(node)
        if work.added is not None:
            kept.append(conform(path, work.added.select([node.name]), schema))
        return encoded_chunks(path, schema, options, kept, statistics)

    def _schema(self, node: ColumnNode) -> pa.Schema:
        return pa.schema([self._layout.files.file_schema.field(node.name)])

    def _collector(self, node: ColumnNode) -> StatisticsCollector:
        files = self._layout.files
        bounded = files.bounded_leaves
        return StatisticsCollector(
            self._schema(node),
            [path for path in files.statistics_leaves if path[0] == node.name],
            bounded=None if bounded is None else [p for p in bounded if p[0] == node.name],
        )

    def _stats(self) -> str:
        found = [self._statistics[node.name].result() for node in self._columns]
        columns = {name: each for one in found for name, each in one.columns.items()}
        count = len(self._staying) + sum(rows.num_rows for _, rows in self._added)
        return self._layout.files.stats_json(FileStatistics(count, columns))


def _within(places: NDArray[np.int64], first: int, end: int) -> range:
    """Which of the ascending places lie from `first` on and before `end`."""
    return range(*map(int, np.searchsorted(places, [first, end])))
