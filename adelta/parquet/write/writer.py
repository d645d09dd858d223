"""Arrow batches into a Parquet object, in bounded memory.

Rows are gathered into row groups, encoded in a worker thread, and handed to the store while the
next rows are gathered and encoded. A file that stays small is one put; a larger one is streamed.
Guarantees:

* Nothing appears under the path until `close` has returned, and nothing at all after `abort`.
* Held at any time are one row group of rows, one row group encoded, and 16 MiB that wait for the
  store, beside what the store itself holds.
* Timestamps are stored as INT64 microseconds, field ids are those of the Arrow field metadata
  ``PARQUET:field_id``, and no Arrow schema is put into the footer.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final

import anyio
import pyarrow as pa

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError, SchemaMismatchError
from adelta.parquet.write.abortable import Abortable
from adelta.parquet.write.encoder import Encoder
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.row_shape import check_shape
from adelta.parquet.write.upload import Upload

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pyarrow.parquet as pq

    from adelta.parquet.write.statistics import StatisticsCollector
    from adelta.storage.object_store import ObjectStore

__all__ = ["ParquetObjectWriter", "WrittenFile", "write_parquet"]

_DEFAULT_OPTIONS: Final = WriterOptions()


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A Parquet object as it was written; `metadata` is its footer."""

    path: str
    size: int
    num_rows: int
    metadata: pq.FileMetaData


class _State(enum.Enum):
    OPEN = "open"
    CLOSED = "closed"
    ABORTED = "aborted"


class ParquetObjectWriter(Abortable):
    """Writes one Parquet object batch by batch; used by one task at a time.

    As an async context manager it closes at the end of the block, and aborts where the block
    fails. A `write`, `flush` or `close` that fails has aborted the file.

    Args:
        store: where the object goes.
        path: its path there.
        schema: the columns; a batch may differ in metadata and nullability alone.
        options: how to write.
        statistics: takes in every row, in the thread that encodes it.

    Raises:
        InvalidOptionError: an option names a column that the schema lacks.
        SchemaMismatchError: the schema has no columns.
    """

    def __init__(
        self,
        store: ObjectStore,
        path: str,
        *,
        schema: pa.Schema,
        options: WriterOptions = _DEFAULT_OPTIONS,
        statistics: StatisticsCollector | None = None,
    ) -> None:
        if not schema.names:
            raise SchemaMismatchError(f"{path}: a Parquet file needs at least one column")
        self.path = path
        self._schema = schema.remove_metadata()
        self._options = options
        self._statistics = statistics
        self._encoder = Encoder(path, self._schema, options)
        self._upload = Upload(store, path)
        self._rows: list[pa.Table] = []
        self._buffered_rows = 0
        self._buffered_bytes = 0
        self._encoded_from_bytes = 0
        self._num_rows = 0
        self._state = _State.OPEN

    def __repr__(self) -> str:
        return (
            f"<ParquetObjectWriter {self.path!r}: {self._state.value}, {self._num_rows:,} rows, "
            f"{self.bytes_written:,} bytes>"
        )

    @property
    def num_rows(self) -> int:
        """Rows taken in so far."""
        return self._num_rows

    @property
    def bytes_written(self) -> int:
        """Bytes of the object that are encoded so far."""
        return self._encoder.written

    @property
    def bytes_taken(self) -> int:
        """Bytes of Arrow data taken in so far."""
        return self._encoded_from_bytes + self._buffered_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes of Arrow data that wait for their row group to fill."""
        return self._buffered_bytes

    @property
    def estimated_size(self) -> int:
        """Bytes that the object would have if it were closed now.

        What is still buffered is taken to shrink as the rows before it did. Before the first row
        group it is taken not to shrink, so that the guess is too high rather than too low.
        """
        if not self._encoded_from_bytes:
            return self.bytes_written + self._buffered_bytes
        ratio = self.bytes_written / self._encoded_from_bytes
        return self.bytes_written + int(self._buffered_bytes * ratio)

    async def write(self, data: pa.RecordBatch | pa.Table) -> None:
        """Take in rows; full row groups are encoded and sent on their way.

        Raises:
            InvalidUseError: the file was closed or aborted.
            InvariantViolationError: a field that is declared not null holds a null.
            SchemaMismatchError: the columns are not the schema's, or Parquet cannot hold a value.
            StorageError: the store refused or failed.
        """
        self._check_open()
        async with self._aborting():
            check_shape(self.path, data.schema, self._schema)
            table = data if isinstance(data, pa.Table) else pa.Table.from_batches([data])
            start = 0
            while start < table.num_rows:
                rest = table.slice(start)
                rows = self._room(rest)
                part = rest.slice(0, rows)
                start += rows
                self._rows.append(part)
                self._num_rows += rows
                self._buffered_rows += rows
                self._buffered_bytes += part.nbytes
                if (
                    self._buffered_rows >= self._options.row_group_rows
                    or self._buffered_bytes >= self._options.row_group_bytes
                ):
                    await self._encode_buffered()

    async def flush(self) -> None:
        """End the row group here: encode what is buffered, and free its memory.

        Raises:
            InvalidUseError: the file was closed or aborted.
            InvariantViolationError: a field that is declared not null holds a null.
            SchemaMismatchError: Parquet cannot hold a value.
            StorageError: the store refused or failed.
        """
        self._check_open()
        async with self._aborting():
            if self._rows:
                await self._encode_buffered()

    async def close(self) -> WrittenFile:
        """Write what is left and the footer; the object is there when this returns.

        Raises:
            InvalidUseError: the file was closed or aborted.
            InvariantViolationError: a field that is declared not null holds a null.
            SchemaMismatchError: Parquet cannot hold a value.
            StorageError: the store refused or failed.
        """
        self._check_open()
        async with self._aborting():
            if self._rows:
                await self._encode_buffered()
            pieces, metadata = await in_thread(self._encoder.finish, self._statistics)
            await self._upload.finish(pieces)
            self._state = _State.CLOSED
        return WrittenFile(self.path, self.bytes_written, self._num_rows, metadata)

    async def abort(self) -> None:
        """Give the file up: nothing appears under its path. Does nothing after `close`."""
        if self._state is not _State.OPEN:
            return
        self._state = _State.ABORTED
        self._rows.clear()
        self._buffered_rows = self._buffered_bytes = 0
        with anyio.CancelScope(shield=True):  # a half-sent upload must be withdrawn
            await self._upload.cancel()
            await in_thread(self._encoder.discard)

    async def _leave(self) -> None:
        if self._state is _State.OPEN:
            await self.close()

    def _check_open(self) -> None:
        if self._state is not _State.OPEN:
            raise InvalidUseError(
                f"{self.path}: the writer is {self._state.value}; make another for another file"
            )

    def _aborting(self) -> _AbortOnFailure:
        return _AbortOnFailure(self)

    def _room(self, table: pa.Table) -> int:
        """How many of the table's rows the row group under way still takes: at least one."""
        bytes_per_row = max(1.0, table.nbytes / table.num_rows)
        by_rows = self._options.row_group_rows - self._buffered_rows
        by_bytes = (self._options.row_group_bytes - self._buffered_bytes) / bytes_per_row
        return max(1, min(table.num_rows, by_rows, int(by_bytes) + 1))

    async def _encode_buffered(self) -> None:
        tables, self._rows = self._rows, []
        self._encoded_from_bytes += self._buffered_bytes
        self._buffered_rows = self._buffered_bytes = 0
        pieces = await in_thread(self._encoder.encode, tables, self._statistics)
        await self._upload.send(pieces)


class _AbortOnFailure:
    """Aborts the file where the block fails or is cancelled."""

    __slots__ = ("_writer",)

    def __init__(self, writer: ParquetObjectWriter) -> None:
        self._writer = writer

    async def __aenter__(self) -> None:
        return None

    async def __aexit__(self, exc_type: type[BaseException] | None, *_: object) -> None:
        if exc_type is not None:
            await self._writer.abort()


async def write_parquet(
    store: ObjectStore,
    path: str,
    batches: AsyncIterator[pa.RecordBatch],
    *,
    schema: pa.Schema,
    options: WriterOptions = _DEFAULT_OPTIONS,
    statistics: StatisticsCollector | None = None,
) -> WrittenFile:
    """Write all batches to one Parquet object.

    Raises:
        InvalidOptionError: an option names a column that the schema lacks.
        InvariantViolationError: a field that is declared not null holds a null.
        SchemaMismatchError: a batch has other columns, or Parquet cannot hold a value.
        StorageError: the store refused or failed.
    """
    async with ParquetObjectWriter(
        store, path, schema=schema, options=options, statistics=statistics
    ) as writer:
        async for batch in batches:
            await writer.write(batch)
        return await writer.close()
