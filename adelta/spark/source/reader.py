"""Batch reads: planned in the driver from the log, carried out in the executors from data files.

A read is of one version, chosen when the DataFrame is made. The driver prunes files by partition
values and statistics and packs the rest into tasks; a task gets the plan and its files, reads only
the bytes of its columns, and hands Arrow batches to Spark. It never looks at the log.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import SchemaMismatchError
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import conjunction
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.file_set import FileSet
from adelta.log.checkpoint_replay import PieceReplay
from adelta.operations.distributed_files import shares_of
from adelta.scan import read_files
from adelta.spark.cluster.planning import planned_from
from adelta.spark.source.partitions import pack_files
from adelta.spark.translate.filters import to_expression
from adelta.spark.translate.shapes import holds_shapes, with_systems
from adelta.spark.translate.types import arrow_schema, conform, fits, to_spark_schema
from adelta.spark.translate.zones import moment_in
from adelta.storage.resolve import open_store
from adelta.storage.roots import StoreRoots
from adelta.sync._iterate import iterate
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import (
        AsyncGenerator,
        AsyncIterator,
        Iterable,
        Iterator,
        Mapping,
        Sequence,
    )

    import pyarrow as pa
    from pyspark.sql import types as s
    from pyspark.sql.datasource import Filter

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.replay import ReconciledTail
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.schema.types import StructType
    from adelta.log.checkpoint_replay import CheckpointPiece
    from adelta.log.version_replay import VersionReplay
    from adelta.snapshot import Snapshot
    from adelta.spark.options.read_write import ReadOptions
    from adelta.table import Table

__all__ = [
    "READ_AHEAD_BYTES",
    "DeltaReader",
    "FilePartition",
    "FilteringDeltaReader",
    "as_spark_has_them",
    "check_fits",
    "load_schema",
    "read_partition",
]

_BATCH_ROWS = 32 * 1024
READ_AHEAD_BYTES = 64 << 20
"""What a task holds ahead: an executor runs several, and the JVM needs memory, too."""


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """One task's share of a scan: data files, and what is read of each."""

    plan: ScanPlan
    files: tuple[AddFile, ...]


@dataclass(frozen=True)
class LogPartition(InputPartition):
    """One task's share of a scan of a large table: where the log names the files that it reads."""

    plan: ScanPlan
    pieces: tuple[CheckpointPiece, ...]
    tail: ReconciledTail
    skipping: Skipping | None


def load_schema(options: ReadOptions) -> tuple[int, s.StructType]:
    """The version that a read is of, and the columns that it yields.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the version or time asked for is outside the history.
        SchemaMismatchError: a column asked for does not exist.
        UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
    """

    async def load() -> tuple[int, s.StructType]:
        async with options.opened() as table:
            snapshot = await _snapshot(table, options)
            plan = snapshot.scan(options.columns, _where(options, snapshot.delta_schema)).plan
            return snapshot.version, to_spark_schema(plan.output)

    return call(load)


async def _snapshot(table: Table, options: ReadOptions, version: int | None = None) -> Snapshot:
    if version is None and options.timestamp is not None:
        moment = moment_in(options.timestamp, options.time_zone)
        return await table.snapshot(timestamp=moment)
    return await table.snapshot(version=options.version if version is None else version)


def _where(options: ReadOptions, schema: StructType) -> Node | None:
    node = to_predicate(options.where, zone=options.time_zone)
    return None if node is None else bind_predicate(node, schema, zone=options.time_zone)


class DeltaReader(DataSourceReader):
    """Reads the columns of `schema` from one version of a table."""

    def __init__(
        self, options: ReadOptions, schema: s.StructType, version: int | None = None
    ) -> None:
        self._options = options
        self._schema = schema
        self._version = version
        self._pushed: tuple[Filter, ...] = ()

    def partitions(self) -> list[InputPartition]:
        """The tasks of the read.

        Raises:
            SchemaMismatchError: the table does not have these columns.
            VersionNotFoundError: the version is no longer kept.
            InvalidTableError: the log is damaged.
        """
        return list(call(self._plan))

    async def _plan(self) -> list[InputPartition]:
        options = self._options
        async with options.opened() as table:
            snapshot = await _snapshot(table, options, self._version)
            pushed = to_expression(self._pushed, snapshot.delta_schema)
            where = conjunction(_where(options, snapshot.delta_schema), pushed)
            scan = snapshot.scan(self._schema.fieldNames(), where)
            check_fits(options.uri, to_spark_schema(scan.plan.output), self._schema)
            state = snapshot._state
            if await state.about_files() >= planned_from(options):
                return await state.replayed(partial(self._shares, scan.plan))
            found = FileSet(await scan.files())
        return [*self._packed(scan.plan, found)]

    async def _shares(self, plan: ScanPlan, replay: VersionReplay) -> list[InputPartition]:
        """Files of the last commits, and shares of the checkpoint before, which tasks look into."""
        skipping = None
        if plan.where is not None:
            skipping = await in_thread(Skipping.for_plan, plan.where, plan)
        tail = await replay.tail()
        adds = tail.adds
        if skipping is not None and adds.num_rows:
            adds = await in_thread(skipping.candidates, adds)
        keys = tail.keys_alone()
        shares = shares_of(replay, self._options.min_partitions)
        return [
            *self._packed(plan, FileSet(adds)),
            *(LogPartition(plan, share, keys, skipping) for share in shares),
        ]

    def _packed(self, plan: ScanPlan, found: FileSet) -> list[FilePartition]:
        files = list(found.rows())
        tasks = pack_files(
            [file.size for file in files],
            max_bytes=self._options.max_partition_bytes,
            min_partitions=self._options.min_partitions,
        )
        return [FilePartition(plan, tuple(files[i] for i in task)) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises:
            MissingDataFileError: a file that the log names is not there.
            InvalidTableError: a file is damaged.
        """
        options = self._options
        return read_partition(options.uri, options.storage_options, partition, self._schema)


class FilteringDeltaReader(DeltaReader):
    """A reader that Spark may hand filters to: it skips the files and rows that they rule out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of filters; Spark evaluates all of them again."""
        self._pushed = tuple(filters)
        return filters


def read_partition(
    uri: str, storage_options: Mapping[str, str], partition: InputPartition, schema: s.StructType
) -> Iterator[pa.RecordBatch]:
    """The rows of one task.

    Raises:
        MissingDataFileError: a file that the log names is not there.
        InvalidTableError: a file is damaged.
    """
    if not isinstance(
        partition, FilePartition | LogPartition
    ):  # Spark's stand-in where there are no tasks
        return
    with iterate((), _rows, uri, storage_options, partition, arrow_schema(schema)) as batches:
        yield from batches


async def _rows(
    uri: str,
    storage_options: Mapping[str, str],
    partition: FilePartition | LogPartition,
    schema: pa.Schema,
) -> AsyncIterator[pa.RecordBatch]:
    # A LIMIT ends the task early, and then what is under way has to end with it.
    async with (
        aclosing(StoreRoots(open_store(uri, storage_options), storage_options)) as roots,
        aclosing(_tables(roots, partition)) as tables,
    ):
        async for table in tables:
            for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                if batch.num_rows:
                    yield await as_spark_has_them(batch, schema)


async def _tables(
    roots: StoreRoots, partition: FilePartition | LogPartition
) -> AsyncGenerator[pa.Table, None]:
    async with aclosing(_files(roots, partition)) as found:
        async for files in found:
            read = read_files(roots, partition.plan, files, read_ahead_bytes=READ_AHEAD_BYTES)
            async with aclosing(read) as tables:
                async for table in tables:
                    yield table


async def _files(
    roots: StoreRoots, partition: FilePartition | LogPartition
) -> AsyncGenerator[Sequence[AddFile], None]:
    if isinstance(partition, FilePartition):
        yield partition.files
        return
    replay = PieceReplay(roots.store, partition.pieces, partition.tail)
    async with aclosing(replay.file_batches(partition.skipping)) as tables:
        async for table in tables:
            yield await in_thread(lambda files: list(FileSet(files).rows()), table)


async def as_spark_has_them(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Rows of a table under the Arrow schema that Spark demands.

    Raises:
        SchemaMismatchError: a column is laid out in another way.
    """
    if holds_shapes(schema):
        batch = await in_thread(with_systems, batch, schema)
    return conform(batch, schema)


def check_fits(uri: str, have: s.StructType, want: s.StructType) -> None:
    """Hold the columns that a read yields to those that a DataFrame was made with.

    Raises:
        SchemaMismatchError: a column is another one.
    """
    for found, wanted in zip(have, want, strict=True):
        if not fits(found, wanted):
            raise SchemaMismatchError(
                f"{uri}: column {found.name!r} is {_shown(found)}, not {_shown(wanted)}; load the"
                " table without a schema, or with its own"
            )


def _shown(field: s.StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " not null")
