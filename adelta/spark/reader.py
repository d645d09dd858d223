"""Batch reads: planned in the driver from the log, carried out in the executors from data files.

A read is of one version, chosen when the DataFrame is made. The driver prunes files by partition
values and statistics and packs the rest into tasks; a task gets the plan and its files, reads only
the bytes of its columns, and hands Arrow batches to Spark. It never looks at the log.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from adelta._concurrency import in_thread
from adelta.errors import SchemaMismatchError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.nodes import conjunction
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.file_set import FileSet
from adelta.scan import read_files
from adelta.spark.filters import to_expression
from adelta.spark.partitions import pack_files
from adelta.spark.shapes import holds_shapes, with_systems
from adelta.spark.types import arrow_schema, conform, fits, to_spark_schema
from adelta.storage.resolve import open_store
from adelta.storage.roots import StoreRoots
from adelta.sync._iterate import iterate
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

    import pyarrow as pa
    from pyspark.sql import types as s
    from pyspark.sql.datasource import Filter

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.schema.types import StructType
    from adelta.snapshot import Snapshot
    from adelta.spark.options import ReadOptions
    from adelta.table import Table

__all__ = ["DeltaReader", "FilePartition", "FilteringDeltaReader", "load_schema"]

_BATCH_ROWS = 32 * 1024
_READ_AHEAD_BYTES = 64 << 20  # an executor runs several tasks, and the JVM needs memory, too


@dataclass(frozen=True)
class FilePartition(InputPartition):
    """One task's share of a scan: data files, and what is read of each."""

    plan: ScanPlan
    files: tuple[AddFile, ...]


def load_schema(options: ReadOptions) -> tuple[int, s.StructType]:
    """The version that a read is of, and the columns that it yields.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the version or time asked for is outside the history.
        SchemaMismatchError: a column asked for does not exist.
        UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
    """

    async def load() -> tuple[int, s.StructType]:
        async with open_table(options.uri, options.storage_options) as table:
            snapshot = await _snapshot(table, options)
            plan = snapshot.scan(options.columns, _where(options, snapshot.delta_schema)).plan
            return snapshot.version, to_spark_schema(plan.output)

    return call(load)


async def _snapshot(table: Table, options: ReadOptions, version: int | None = None) -> Snapshot:
    if version is None and options.timestamp is not None:
        return await table.snapshot(timestamp=options.timestamp)
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

    async def _plan(self) -> list[FilePartition]:
        options = self._options
        async with open_table(options.uri, options.storage_options) as table:
            snapshot = await _snapshot(table, options, self._version)
            pushed = to_expression(self._pushed, snapshot.delta_schema)
            where = conjunction(_where(options, snapshot.delta_schema), pushed)
            scan = snapshot.scan(self._schema.fieldNames(), where)
            self._check(scan.plan)
            found = FileSet(await scan.files())
            files = list(found.rows())
        tasks = pack_files(
            [file.size for file in files],
            max_bytes=options.max_partition_bytes,
            min_partitions=options.min_partitions,
        )
        return [FilePartition(scan.plan, tuple(files[i] for i in task)) for task in tasks]

    def _check(self, plan: ScanPlan) -> None:
        for have, want in zip(to_spark_schema(plan.output), self._schema, strict=True):
            if not fits(have, want):
                raise SchemaMismatchError(
                    f"{self._options.uri}: column {have.name!r} is {_shown(have)}, not "
                    f"{_shown(want)}; load the table without a schema, or with its own"
                )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises:
            MissingDataFileError: a file that the log names is not there.
            InvalidTableError: a file is damaged.
        """
        if not isinstance(partition, FilePartition):  # Spark's stand-in where there are no tasks
            return
        options, schema = self._options, arrow_schema(self._schema)
        with iterate((), _rows, options.uri, options.storage_options, partition, schema) as batches:
            yield from batches


class FilteringDeltaReader(DeltaReader):
    """A reader that Spark may hand filters to: it skips the files and rows that they rule out."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take note of filters; Spark evaluates all of them again."""
        self._pushed = tuple(filters)
        return filters


async def _rows(
    uri: str, storage_options: Mapping[str, str], partition: FilePartition, schema: pa.Schema
) -> AsyncIterator[pa.RecordBatch]:
    shapes = holds_shapes(schema)
    async with aclosing(StoreRoots(open_store(uri, storage_options), storage_options)) as roots:
        tables = read_files(
            roots, partition.plan, partition.files, read_ahead_bytes=_READ_AHEAD_BYTES
        )
        # A LIMIT ends the task early, and then what is under way has to end with it.
        async with aclosing(tables):
            async for table in tables:
                for batch in table.to_batches(max_chunksize=_BATCH_ROWS):
                    if batch.num_rows:
                        if shapes:
                            batch = await in_thread(with_systems, batch, schema)
                        yield conform(batch, schema)


def _shown(field: s.StructField) -> str:
    return field.dataType.simpleString() + ("" if field.nullable else " not null")
