"""Streaming writes: each micro-batch written by tasks, and committed at most once.

A commit records the query and the number of the micro-batch (`txn`), and a micro-batch that the
table shows as done is not added again: after a failure Spark runs the same one once more.

Spark makes one writer that plans a micro-batch and writes it in tasks, and another one, in another
process, that commits it. What the second has to know of the plan comes with the tasks' messages.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.operations.distributed_write import WriteJob, commit_write, discard_files, write_files
from adelta.spark.source.writer import plan_job, stored_rows
from adelta.spark.versions import SPARK
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter
    from pyspark.sql.types import StructType

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.spark.options.read_write import WriteOptions
else:
    StreamWriter = SPARK.stream_writer_base()

__all__ = ["DeltaStreamWriter", "MicroBatchWritten", "stream_write_options"]

_COMMIT_WORKER = "pyspark.sql.worker.python_streaming_sink_runner"
_QUERY_ID = "sql.streaming.queryId"
_OF_SPARK = ("checkpointlocation", "queryname")
_OF_BATCHES = ("txnAppId", "txnVersion", "replaceWhere", "partitionOverwriteMode", "ifExists")


@dataclass(frozen=True)
class MicroBatchWritten(WriterCommitMessage):
    """What one task wrote; the first one brings the job, too, without the store's options."""

    files: tuple[AddFile, ...]
    marks: Mapping[str, int]
    query_id: str
    job: WriteJob | None


def stream_write_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a table's writer reads.

    Raises:
        InvalidOptionError: one of them is for batches alone.
    """
    for name in _OF_BATCHES:
        if name.lower() in {key.lower() for key in options}:
            raise InvalidOptionError(
                f"{name} is not for streams: a stream appends, or replaces everything in the mode "
                "'complete', and records by itself which micro-batches are done; leave it out, or "
                "write in foreachBatch"
            )
    return {key: value for key, value in options.items() if key.lower() not in _OF_SPARK}


class DeltaStreamWriter(StreamWriter):
    """Carries out the micro-batches of one query, each of which replaces all where `overwrite`."""

    def __init__(self, options: WriteOptions, schema: StructType, *, overwrite: bool) -> None:
        """It plans a micro-batch at once, but in the process that Spark commits in.

        Raises:
            AdeltaError: the table cannot take these rows; see `plan_write`.
        """
        self._options = options
        self._schema = schema
        self._overwrite = overwrite
        self._job = None if _commits() else self._planned()

    def _planned(self) -> WriteJob:
        return plan_job(self._options, self._schema, overwrite=self._overwrite, assigns=True)

    def write(  # type: ignore[override]  # as in PySpark's own class for Arrow
        self, iterator: Iterator[pa.RecordBatch]
    ) -> MicroBatchWritten:
        """Write the rows of one task.

        Raises:
            SchemaMismatchError: a value cannot be stored in its column.
            InvariantViolationError: a column that must not be null holds a null.
            StorageError: the store refused or failed.
        """
        context = TaskContext.get()
        query_id = None if context is None else context.getLocalProperty(_QUERY_ID)
        if context is None or query_id is None or self._job is None:
            raise InvalidUseError("micro-batches are written by the tasks of a streaming query")
        task = context.partitionId()
        done = call(write_files, self._job, stored_rows(iterator), task=task)
        job = replace(self._job, storage_options={}) if task == 0 else None
        return MicroBatchWritten(done.files, done.high_water_marks, query_id, job)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit what the tasks of a micro-batch wrote, unless the table has it already.

        Raises:
            CommitConflictError: another commit came first; the query has to be started again.
            CommitOutcomeUnknownError: the commit may or may not have happened; the query, started
                again, finds out.
            StorageError: the store refused; nothing was committed.
        """
        written = [message for message in messages if isinstance(message, MicroBatchWritten)]
        if len(written) < len(messages):
            raise InvalidUseError(
                "a micro-batch was to be committed whose tasks have not all finished: only Spark "
                "may call commit, with one message of each task; nothing was committed"
            )
        jobs = [message.job for message in written if message.job is not None]
        if not jobs and not self._overwrite:
            return  # there was no task: nothing to add
        job = jobs[0] if jobs else self._planned()
        request = job.request
        if written:
            request = replace(request, micro_batch=(written[0].query_id, batchId))
        job = replace(job, storage_options=self._options.storage_options, request=request)
        files = [file for message in written for file in message.files]
        call(commit_write, job, files, [message.marks for message in written])

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Clean up after a micro-batch that failed.

        A message that is missing is of a task that did not finish, and then no commit was tried.
        Otherwise the commit itself failed: it has cleaned up, unless nobody knows its outcome.
        """
        if all(message is not None for message in messages):
            return
        options = self._options
        request = options.request(overwrite=self._overwrite)
        written = [m for m in messages if isinstance(m, MicroBatchWritten)]
        files = [file.path for message in written for file in message.files]
        call(discard_files, WriteJob(options.uri, options.storage_options, request), files)


def _commits() -> bool:
    """Whether this is the process that Spark commits micro-batches in."""
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _COMMIT_WORKER in sys.modules or getattr(main, "name", None) == _COMMIT_WORKER
