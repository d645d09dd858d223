"""Record batches → data files, each with the `add` action that would make it part of the table.

Rows are cast to the table's schema and go to the file of their partition. A file is closed when it
has reached its target size, and when the memory that all open files hold together passes the
budget: so a write of any size, into any number of partitions, runs in bounded memory. Files are
named uniquely and never replaced.

Nothing here touches the log: until a commit adds them, the files are not part of any table.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_actions import AddFile, encode_path
from adelta.parquet.write.abortable import Abortable
from adelta.parquet.write.statistics import StatisticsCollector
from adelta.parquet.write.upload import STREAM_FROM_BYTES
from adelta.parquet.write.writer import ParquetObjectWriter
from adelta.write.discarding import discard_data_files
from adelta.write.layout import DataFileLayout
from adelta.write.partitioner import PartitionedRows, split_by_partition

if TYPE_CHECKING:
    from typing import Self

    from adelta._clock import Clock
    from adelta.storage.object_store import ObjectStore
    from adelta.write.identity_values import IdentityValues
    from adelta.write.spec import WriteSpec

__all__ = ["CLOSING", "DataFileWriter", "OpenFile", "stored_rows"]

CLOSING = 8
"""Files that are closed at the same time."""


def stored_rows(layout: DataFileLayout, batch: pa.RecordBatch) -> list[PartitionedRows]:
    """Rows as the files of their partitions have them. CPU-heavy.

    Raises: as `DataFileLayout.conform` does.
    """
    rows = layout.conform(batch)
    if not layout.keeps_partition_columns:
        return split_by_partition(rows, layout.partition_columns)
    parts = split_by_partition(rows, layout.partition_columns, keep=True)
    return [PartitionedRows(part.values, _complete(layout, part)) for part in parts]


def _complete(layout: DataFileLayout, part: PartitionedRows) -> pa.RecordBatch:
    """The rows with their partition columns behind the others, as null as the log says."""
    rows = part.rows
    for (name, _), value in zip(layout.partition_columns, part.values, strict=True):
        if value is None:  # an empty text too
            field = layout.file_schema.field(name)
            place = rows.schema.get_field_index(name)
            rows = rows.set_column(place, field, pa.nulls(rows.num_rows, field.type))
    return rows.select(layout.file_schema.names)


@dataclass(slots=True)
class OpenFile:
    """A file that takes rows, and the statistics of those it has taken."""

    values: tuple[str | None, ...]
    writer: ParquetObjectWriter
    statistics: StatisticsCollector

    @property
    def held_bytes(self) -> int:
        """Bytes in memory: rows that wait, and a beginning that is too small to be sent off."""
        encoded = self.writer.bytes_written
        return self.writer.buffered_bytes + (encoded if encoded < STREAM_FROM_BYTES else 0)


class DataFileWriter(Abortable):
    """Writes rows into the files of their partitions; used by one task at a time.

    Used as an async context manager: it deletes what it has written where the block fails.
    """

    def __init__(self, store: ObjectStore, spec: WriteSpec, *, clock: Clock = SYSTEM_CLOCK) -> None:
        self._store = store
        self._spec = spec
        self._clock = clock
        self._layout: DataFileLayout
        self._numbers: IdentityValues
        self._open: dict[tuple[str | None, ...], OpenFile] = {}
        self._held = 0  # bytes of all of them, of which there may be thousands
        self._files = 0
        self._done: list[AddFile] = []
        self._paths: list[str] = []

    async def __aenter__(self) -> Self:
        """The writer itself, which knows by now what its files will be like.

        Raises: as `DataFileLayout.of` does.
        """
        self._layout = await in_thread(DataFileLayout.of, self._spec)
        self._numbers = self._layout.identity_values()
        return self

    async def write(self, batch: pa.RecordBatch) -> None:
        """Take in rows.

        Raises:
            SchemaMismatchError: the columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed.
        """
        for part in await in_thread(self._prepare, batch):
            await self._take(part.values, part.rows)
        await self._relieve()

    @property
    def high_water_marks(self) -> dict[str, int]:
        """The values that identity columns have come to, by column."""
        return self._numbers.high_water_marks

    async def finish(self) -> list[AddFile]:
        """Close every file; the actions that would add them, in the order of their completion.

        Raises:
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed.
        """

        async def close(values: tuple[str | None, ...]) -> None:
            await self._close(self._open[values])

        await map_concurrent(close, tuple(self._open), limit=CLOSING)
        return self._done

    async def abort(self) -> None:
        """Delete everything that was written."""
        for file in self._open.values():
            await file.writer.abort()
        self._open.clear()
        await discard_data_files(self._store, self._paths)
        self._done = []

    async def _take(self, values: tuple[str | None, ...], rows: pa.RecordBatch | pa.Table) -> None:
        """Put rows into the file of their partition, and into further ones where it gets full."""
        most = self._spec.max_records_per_file
        while rows.num_rows:
            file = self._open.get(values)
            if file is None:
                file = self._open[values] = self._begin(values)
            room = rows.num_rows if most is None else most - file.writer.num_rows
            before = file.held_bytes
            await file.writer.write(rows.slice(0, room))
            self._held += file.held_bytes - before
            rows = rows.slice(room)
            if file.writer.num_rows == most or self._is_large(file):
                await self._close(file)

    def _is_large(self, file: OpenFile) -> bool:
        return file.writer.estimated_size >= self._spec.target_file_size

    def _prepare(self, batch: pa.RecordBatch) -> list[PartitionedRows]:
        return stored_rows(self._layout, self._numbers.fill(batch))

    def _begin(self, values: tuple[str | None, ...]) -> OpenFile:
        layout = self._layout
        path = layout.path_of(values, self._files)
        self._files += 1
        statistics = StatisticsCollector(
            layout.file_schema, layout.statistics_leaves, bounded=layout.bounded_leaves
        )
        writer = ParquetObjectWriter(
            self._store,
            path,
            schema=layout.file_schema,
            options=layout.options,
            statistics=statistics,
        )
        return OpenFile(values, writer, statistics)

    async def _close(self, file: OpenFile) -> None:
        self._paths.append(file.writer.path)  # before it is there: a put may outlive its failure
        held = file.held_bytes
        written = await file.writer.close()
        self._held -= held
        self._open.pop(file.values, None)
        names = [name for name, _ in self._layout.partition_columns]
        self._done.append(
            AddFile(
                path=encode_path(written.path),
                partition_values=dict(zip(names, file.values, strict=True)),
                size=written.size,
                modification_time=self._clock.now_ms(),
                data_change=True,
                stats=await in_thread(self._layout.stats_json, file.statistics.result()),
                tags=self._spec.file_tags,
            )
        )

    async def _relieve(self) -> None:
        """Bring the memory held by open files back under the budget, largest first.

        A file that mostly holds rows has them encoded, and goes on; one that mostly holds encoded
        bytes is closed.
        """
        while self._held > self._spec.memory_budget:
            file = max(self._open.values(), key=lambda each: each.held_bytes)
            before = file.held_bytes
            if file.writer.buffered_bytes > before // 2:
                await file.writer.flush()
                self._held -= before - file.held_bytes
            else:
                await self._close(file)
