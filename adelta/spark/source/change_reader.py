"""Batch reads of the change data feed: planned in the driver, read in the executors.

The driver reads the commits of the range, and deletion vectors that one of them puts in the place
of another; tasks read data files. The last version is that of the moment when the DataFrame was
made.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from adelta._dataclasses import dataclass
from adelta.changes.change_rows import change_columns, change_plan, change_rows
from adelta.changes.feed import open_feed
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    TimestampOutOfRangeError,
    VersionNotFoundError,
)
from adelta.kernel.history import parse_timestamp
from adelta.log.load import load_state
from adelta.log.time_travel import first_version_after, version_at_timestamp
from adelta.spark.source.partitions import pack_files
from adelta.spark.source.reader import READ_AHEAD_BYTES, as_spark_has_them, check_fits
from adelta.spark.translate.types import arrow_schema, to_spark_schema
from adelta.spark.translate.zones import moment_in
from adelta.storage.resolve import open_store
from adelta.storage.roots import StoreRoots
from adelta.sync._iterate import iterate
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import types as s

    from adelta.kernel.scan_plan import ScanPlan
    from adelta.read.data_files import Piece
    from adelta.spark.options.read_write import ReadOptions
    from adelta.storage.object_store import ObjectStore

__all__ = ["ChangePartition", "ChangeReader", "load_change_schema", "pack_changes", "read_changes"]


@dataclass(frozen=True)
class ChangePartition(InputPartition):
    """One task's share of a feed: pieces of data files, and what is read of each."""

    plan: ScanPlan
    pieces: tuple[Piece, ...]


def load_change_schema(options: ReadOptions) -> tuple[int, s.StructType]:
    """The latest version, up to which a feed is read at most, and the feed's columns.

    They are the latest ones; of a table whose columns are mapped, those of the end of the range.

    Raises:
        TableNotFoundError: there is no table.
        VersionNotFoundError: the end of the range is outside the history.
        SchemaMismatchError: a column asked for does not exist.
        UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
    """

    async def load() -> tuple[int, s.StructType]:
        async with options.opened() as table:
            latest = (await table.snapshot()).version
            state = await load_state(
                table.store, version=await _schema_version(table.store, options, latest)
            )
            plan = change_plan(state.configuration, options.columns)
            return latest, to_spark_schema(change_columns(plan))

    return call(load)


class ChangeReader(DataSourceReader):
    """Reads the rows that a range of commits changed, up to `version`, with `schema`'s columns."""

    def __init__(self, options: ReadOptions, schema: s.StructType, version: int | None) -> None:
        self._options = options
        self._schema = schema
        self._version = version

    def partitions(self) -> list[InputPartition]:
        """The tasks of the read.

        Raises:
            VersionNotFoundError: the range begins beyond the table's history.
            InvalidOptionError: the range ends before it begins.
            ChangesNotAvailableError: the feed was not enabled for a version of the range, or a
                commit has been cleaned up.
            InvalidTableError: the log is damaged.
        """
        return list(call(self._plan))

    async def _plan(self) -> list[ChangePartition]:
        options = self._options
        async with options.opened() as table:
            latest = self._version
            if latest is None:
                latest = (await table.snapshot()).version
            bounds = await _bounds(table.store, options, latest)
            if bounds is None:
                return []
            columns = self._schema.fieldNames()[:-3]
            schema_of = await _schema_version(table.store, options, latest)
            feed = await open_feed(table, *bounds, columns, schema_of=schema_of)
            check_fits(options.uri, to_spark_schema(change_columns(feed.plan)), self._schema)
            pieces = [piece async for piece in feed.pieces()]
        return pack_changes(feed.plan, pieces, options.max_partition_bytes, options.min_partitions)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one task.

        Raises:
            MissingDataFileError: a file that the log names has been vacuumed.
            InvalidTableError: a file is damaged.
        """
        options = self._options
        return read_changes(options.uri, options.storage_options, partition, self._schema)


def pack_changes(
    plan: ScanPlan, pieces: Sequence[Piece], max_bytes: int, min_partitions: int
) -> list[ChangePartition]:
    """Tasks that read `pieces`."""
    sizes = [piece.file.size for piece in pieces]
    tasks = pack_files(sizes, max_bytes=max_bytes, min_partitions=min_partitions)
    return [ChangePartition(plan, tuple(pieces[i] for i in task)) for task in tasks]


def read_changes(
    uri: str, storage_options: Mapping[str, str], partition: InputPartition, schema: s.StructType
) -> Iterator[pa.RecordBatch]:
    """The rows of one task.

    Raises:
        MissingDataFileError: a file that the log names has been vacuumed.
        InvalidTableError: a file is damaged.
    """
    if not isinstance(partition, ChangePartition):  # Spark's stand-in where there are no tasks
        return
    columns = arrow_schema(schema)
    with iterate((), _rows, uri, storage_options, partition, columns) as batches:
        yield from batches


async def _rows(
    uri: str, storage_options: Mapping[str, str], partition: ChangePartition, schema: pa.Schema
) -> AsyncIterator[pa.RecordBatch]:
    async with aclosing(StoreRoots(open_store(uri, storage_options), storage_options)) as roots:
        found = change_rows(
            roots, partition.plan, partition.pieces, read_ahead_bytes=READ_AHEAD_BYTES
        )
        async with aclosing(found) as batches:
            async for batch in batches:
                yield await as_spark_has_them(batch, schema)


async def _bounds(store: ObjectStore, options: ReadOptions, latest: int) -> tuple[int, int] | None:
    """The first version and the last one.

    None where two times have no commit between them, or a lenient range begins after them all.
    """
    asked = options.changes
    if asked is None:
        raise InvalidUseError("a reader of changes was made without a range of them")
    first = asked.start
    if isinstance(first, str):
        try:
            first = await first_version_after(store, _moment_ms(first, options.time_zone))
        except TimestampOutOfRangeError:
            if not asked.is_lenient:
                raise
            return None
    last = await _end(store, options, latest)
    if first > latest:
        if asked.is_lenient:
            return None
        raise VersionNotFoundError(
            f"{options.uri}: there are no changes from version {first} on; the latest version is"
            f" {latest}"
        )
    if first <= last:
        return first, last
    times = isinstance(asked.start, str) and isinstance(asked.end, str)
    if times and first == last + 1 and not _is_reversed(options):
        return None
    raise InvalidOptionError(
        f"{options.uri}: the changes from version {first} to {last} are an empty range: the end"
        " comes before the start"
    )


async def _end(store: ObjectStore, options: ReadOptions, latest: int) -> int:
    asked = options.changes
    if asked is None or asked.end is None:
        return latest
    if isinstance(asked.end, str):
        when, state = _moment_ms(asked.end, options.time_zone), await load_state(store)
        if asked.is_lenient:
            when = min(when, state.timestamp_ms)
        return min(await version_at_timestamp(state, when), latest)
    return min(asked.end, latest)


async def _schema_version(store: ObjectStore, options: ReadOptions, latest: int) -> int:
    """The version whose columns the rows have."""
    if options.changes is None or options.changes.end is None:
        return latest
    state = await load_state(store, version=latest)
    if state.configuration.column_mapping_mode == "none":
        return latest
    return await _end(store, options, latest)


def _is_reversed(options: ReadOptions) -> bool:
    asked = options.changes
    assert asked is not None
    bounds = [_moment_ms(str(bound), options.time_zone) for bound in (asked.start, asked.end)]
    return bounds[0] > bounds[1]


def _moment_ms(text: str, zone: str) -> int:
    return parse_timestamp(moment_in(text, zone))
