"""Batch writes: files written by tasks under their final names, added by one commit.

Exactly once. A task's files are named uniquely and belong to no table until its message is
committed; Spark hands over one message a partition, the winner's, however often tasks were retried
or raced.

An aborted job leaves the table as it was. Spark aborts after a failed *commit*, too, and cannot
tell the two apart for us; files are deleted only where the commit was certainly never tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError
from adelta.operations.distributed_write import (
    commit_write,
    discard_files,
    plan_write,
    write_files,
)
from adelta.spark.shapes import holds_shapes, without_systems
from adelta.spark.types import arrow_schema, to_delta_schema
from adelta.sync._portal import call, feed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Sequence

    from pyspark.sql.types import StructType

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.distributed_write import WriteJob
    from adelta.spark.options import WriteOptions

__all__ = ["DeltaWriter", "FilesWritten"]


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):
    """What one task wrote."""

    files: tuple[AddFile, ...]


class DeltaWriter(DataSourceArrowWriter):
    """Carries out one job. Spark pickles it from the process that plans to those that write."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @classmethod
    def plan(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> DeltaWriter:
        """The writer of rows of `schema`, which replace the table's where `overwrite`.

        Raises:
            AdeltaError: the table cannot take these rows; see `plan_write`.
        """

        async def plan() -> WriteJob:
            return await plan_write(
                options.uri,
                options.storage_options,
                options.request(overwrite=overwrite),
                to_delta_schema(schema),
                _stored_schema(schema),
            )

        return cls(call(plan))

    def write(  # type: ignore[override]  # as in PySpark's own class for Arrow
        self, iterator: Iterator[pa.RecordBatch]
    ) -> FilesWritten:
        """Write the rows of one task.

        Raises:
            SchemaMismatchError: a value cannot be stored in its column.
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed.
        """
        return FilesWritten(tuple(call(write_files, self._job, _as_stored(feed(iterator)))))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote.

        Raises:
            CommitConflictError: another commit came first and the job has to run again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; nothing was committed.
        """
        if not all(isinstance(message, FilesWritten) for message in messages):
            raise InvalidUseError("a job was to be committed whose tasks have not all finished")
        call(commit_write, self._job, _files(messages))

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Clean up after a job that failed.

        A message that is missing is of a task that did not finish, and then no commit was tried.
        Otherwise the commit itself failed: it has cleaned up, unless nobody knows its outcome.
        """
        if any(message is None for message in messages):
            call(discard_files, self._job, _files(messages))


def _stored_schema(schema: StructType) -> pa.Schema:
    """How the rows reach the tasks' files."""
    columns = arrow_schema(schema)
    none = pa.record_batch([pa.array([], field.type) for field in columns], schema=columns)
    return without_systems(none).schema


async def _as_stored(batches: AsyncIterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    """Batches of Spark's in which shapes are as tables have them."""
    async for batch in batches:
        yield await in_thread(without_systems, batch) if holds_shapes(batch.schema) else batch


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[AddFile]:
    return [f for message in messages if isinstance(message, FilesWritten) for f in message.files]
