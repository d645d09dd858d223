"""Batch writes from a classic driver: planned and committed here, their files written by tasks.

Writers of such a session go this road rather than that of the data source, which starts a process
to plan and another one to commit. Tasks do the same on both, and so does the commit.

Exactly once: Spark hands over one answer a partition, however often its task was run. Each task
tells the driver of its files as it ends, also where the job then fails: these are deleted where it
is certain that no commit was tried.
"""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import AccumulatorParam

from adelta.operations.distributed_write import commit_write, discard_files
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.source.writer import DeltaWriter, FilesWritten
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyspark import Accumulator
    from pyspark.sql import DataFrame

    from adelta.operations.distributed_write import WriteJob
    from adelta.spark.classic.native.parquet_writer import NativeWriter
    from adelta.spark.options.read_write import WriteOptions

    NativeWriterOf = Callable[[DataFrame, WriteJob, WriteOptions], NativeWriter | None]

__all__ = ["write_frame", "write_planned"]


def _no_native(df: DataFrame, job: WriteJob, options: WriteOptions) -> None:
    return None


class _Paths(AccumulatorParam[Any]):
    """A list that grows."""

    def zero(self, value: Any) -> Any:
        return []

    def addInPlace(self, value1: Any, value2: Any) -> Any:
        value1.extend(value2)
        return value1


class _Task:
    """What each task does: rows in, one row out, which is what it wrote."""

    def __init__(
        self, writer: DeltaWriter, names: list[str], paths: Accumulator[list[str]]
    ) -> None:
        self._writer = writer
        self._names = names
        self._paths = paths

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written = self._writer.write(batch.rename_columns(self._names) for batch in batches)
        self._paths.add([file.path for file in written.files])
        yield pa.record_batch({"written": pa.array([pickle.dumps(written)], pa.binary())})


def write_frame(
    df: DataFrame, options: WriteOptions, *, overwrite: bool, native: NativeWriterOf = _no_native
) -> None:
    """Write the rows of `df`, which replace the table's where `overwrite`, as one commit.

    `native` gives the writer of Spark's own that writes the files, or None where adelta does.

    Raises:
        AdeltaError: the table cannot take these rows, or the commit failed.
        PySparkException: a task failed; its text has the error of adelta.
    """
    writer = DeltaWriter.plan(options, df.schema, overwrite=overwrite)
    if writer.has_work:
        write_planned(df, writer, options, native=native)


def write_planned(
    df: DataFrame, writer: DeltaWriter, options: WriteOptions, *, native: NativeWriterOf
) -> None:
    """Write the rows of `df` as `writer` has planned it. Spark computes the rows once.

    Raises: as `write_frame` does.
    """
    spark = df.sparkSession
    jobs = SparkTaskExecutor(spark, options.uri, jobs=JobSettings.of_this_thread(spark))
    of_spark = native(df, writer.job, options)
    if of_spark is not None:
        call(commit_write, writer.job, call(of_spark.write, jobs))
        return
    written = _written(df, writer, jobs)
    call(
        commit_write,
        writer.job,
        [file for each in written for file in each.files],
        [each.marks for each in written],
    )


def _written(df: DataFrame, writer: DeltaWriter, jobs: SparkTaskExecutor) -> list[FilesWritten]:
    """What each task has written of the rows."""
    paths = df.sparkSession.sparkContext.accumulator([], _Paths())
    tasks: Any = _Task(writer, df.columns, paths)
    # PySpark cannot hand over columns whose names hold dots or backticks.
    numbered = df.toDF(*(str(at) for at in range(len(df.columns))))
    try:
        # Who is interrupted here cancels the job; in PySpark's own wait it would go on.
        rows = call(jobs.collected, lambda: numbered.mapInArrow(tasks, "written binary"))
        return [pickle.loads(row["written"]) for row in rows]
    except BaseException:
        call(discard_files, writer.job, list(paths.value))
        raise
    finally:
        paths.value = []  # PySpark keeps the accumulator for good
