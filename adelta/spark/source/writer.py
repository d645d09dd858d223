"""Batch writes: files written by tasks under their final names, added by one commit.

Exactly once. A task's files are named uniquely and belong to no table until its message is
committed; Spark hands over one message a partition, the winner's, however often tasks were retried
or raced.

An aborted job leaves the table as it was. Spark aborts after a failed *commit*, too, and cannot
tell the two apart for us; files are deleted only where the commit was certainly never tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidUseError, SchemaMismatchError
from adelta.operations.distributed_write import (
    commit_write,
    discard_files,
    plan_write,
    write_files,
)
from adelta.spark.exceptions import tells_reasons
from adelta.spark.translate.shapes import holds_shapes, without_systems
from adelta.spark.translate.types import arrow_schema, to_delta_schema
from adelta.sync._portal import call, feed

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator, Mapping, Sequence

    from pyspark.sql.types import StructType

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.operations.distributed_write import WriteJob
    from adelta.spark.options.read_write import WriteOptions

__all__ = ["DeltaWriter", "FilesWritten", "plan_job", "stored_rows"]

_BATCH_BYTES = 16 * 1024 * 1024
_BATCH_ROWS = 128 * 1024


@dataclass(frozen=True)
class FilesWritten(WriterCommitMessage):
    """What one task wrote, and the values that identity columns have come to in it."""

    files: tuple[AddFile, ...]
    marks: Mapping[str, int]


class DeltaWriter(DataSourceArrowWriter):
    """Carries out one job. Spark pickles it from the process that plans to those that write."""

    def __init__(self, job: WriteJob) -> None:
        self._job = job

    @property
    def job(self) -> WriteJob:
        """What is to be written, and against what."""
        return self._job

    @property
    def has_work(self) -> bool:
        """Whether rows are to be written: not where the table is to be left alone as it is."""
        return self._job.spec is not None

    @classmethod
    def plan(cls, options: WriteOptions, schema: StructType, *, overwrite: bool) -> DeltaWriter:
        """The writer of rows of `schema`, which replace the table's where `overwrite`.

        Raises:
            InvalidOptionError: which partitions are replaced depends on the session, and this
                process cannot see it.
            AdeltaError: the table cannot take these rows; see `plan_write`.
        """
        job = plan_job(options, schema, overwrite=overwrite)
        _check_partitions_are_told(options, job)
        return cls(job)

    def write(  # type: ignore[override]  # as in PySpark's own class for Arrow
        self, iterator: Iterator[pa.RecordBatch]
    ) -> FilesWritten:
        """Write the rows of one task.

        Raises:
            SchemaMismatchError: a value cannot be stored in its column.
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed.
        """
        context = TaskContext.get()
        task = None if context is None else context.partitionId()
        written = call(write_files, self._job, stored_rows(iterator), task=task)
        return FilesWritten(written.files, written.high_water_marks)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit what the tasks wrote.

        Raises:
            CommitConflictError: another commit came first and the job has to run again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; nothing was committed.
        """
        if not all(isinstance(message, FilesWritten) for message in messages):
            raise InvalidUseError(
                "a job was to be committed whose tasks have not all finished: only Spark may call"
                " commit, with one message of each task; nothing was committed"
            )
        marks = [message.marks for message in messages if isinstance(message, FilesWritten)]
        call(commit_write, self._job, _files(messages), marks)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Clean up after a job that failed.

        A message that is missing is of a task that did not finish, and then no commit was tried.
        Otherwise the commit itself failed: it has cleaned up, unless nobody knows its outcome.
        """
        if any(message is None for message in messages):
            call(discard_files, self._job, [file.path for file in _files(messages)])


def _check_partitions_are_told(options: WriteOptions, job: WriteJob) -> None:
    """Refuse to replace all partitions where the session may ask for those of the new rows alone.

    A data source in Python is shown none of the session's settings. Writers that know them, which
    are those of a registered session, hand them over as options.
    """
    kind = job.request.kind
    if kind.mode != "overwrite" or kind.schema_mode == "overwrite" or job.version is None:
        return
    told = options.partition_overwrite is not None or kind.replace_where is not None
    if told or job.spec is None or not job.spec.partition_columns:
        return
    raise InvalidOptionError(
        f"{job.uri} is partitioned, and an overwrite replaces all partitions or those of the new"
        " rows, as spark.sql.sources.partitionOverwriteMode says, which is not seen from here: add"
        ' .option("partitionOverwriteMode", "static") or "dynamic" to the writer, call'
        " adelta.spark.register(spark) before, or use adelta.spark.write(df, path)"
    )


@tells_reasons
def plan_job(
    options: WriteOptions, schema: StructType, *, overwrite: bool, assigns: bool = False
) -> WriteJob:
    """The job that writes rows of `schema`, which replace the table's where `overwrite`.

    With `assigns` their types may be others than the table's where they are taken in, too.

    Raises:
        SchemaMismatchError: the rows have no columns.
        AdeltaError: the table cannot take these rows; see `plan_write`.
    """

    async def plan() -> WriteJob:
        return await plan_write(
            options.uri,
            options.storage_options,
            options.request(overwrite=overwrite),
            to_delta_schema(schema),
            _stored_schema(schema),
            zone=options.time_zone,
            catalog=options.catalog,
            assigns=assigns,
        )

    job = call(plan)
    if job.spec is not None and not schema.fields:
        # Spark hands tasks no rows where there are no columns: they would be lost.
        raise SchemaMismatchError(
            f"{options.uri}: the rows to write have no columns; select those that the table is to "
            "get, and leave out what it fills in by itself"
        )
    return job


def _stored_schema(schema: StructType) -> pa.Schema:
    """How the rows reach the tasks' files."""
    columns = arrow_schema(schema)
    none = pa.record_batch([pa.array([], field.type) for field in columns], schema=columns)
    return without_systems(none).schema


def _gathered(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in fewer batches.

    Spark's are small, and each has its cost, once for each partition of the table and each column.
    """
    waiting: list[pa.RecordBatch] = []
    size = rows = 0
    for batch in batches:
        waiting.append(batch)
        size += batch.nbytes
        rows += batch.num_rows
        if size >= _BATCH_BYTES or rows >= _BATCH_ROWS:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, size, rows = [], 0, 0
    if waiting:
        yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()


def stored_rows(batches: Iterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    """A task's rows as they go to its files, for a call of the portal."""
    return _as_stored(feed(_gathered(batches)))


async def _as_stored(batches: AsyncIterator[pa.RecordBatch]) -> AsyncIterator[pa.RecordBatch]:
    """Batches of Spark's in which shapes are as tables have them."""
    async for batch in batches:
        yield await in_thread(without_systems, batch) if holds_shapes(batch.schema) else batch


def _files(messages: Sequence[WriterCommitMessage | None]) -> list[AddFile]:
    return [f for message in messages if isinstance(message, FilesWritten) for f in message.files]
