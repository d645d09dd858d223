"""Streaming writes of a classic session: each micro-batch planned and committed in the driver.

Spark calls a function of the driver's Python for each micro-batch, as it does for `foreachBatch`:
no process is started to plan the micro-batch or to commit it, which the data source needs.

A commit records the query and the number of the micro-batch (`txn`) as that of the data source
does, so a query may be started again by either of them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidUseError
from adelta.operations.distributed_write import commit_write
from adelta.spark.classic import jvm
from adelta.spark.classic.native.frame_write import write_planned
from adelta.spark.classic.native.parquet_writer import NativeWriter
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.side import side_of
from adelta.spark.source.stream_writer import stream_write_options
from adelta.spark.source.writer import DeltaWriter, plan_job
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

__all__ = ["micro_batch_writer"]


def micro_batch_writer(
    options: Mapping[str, str], *, overwrite: bool
) -> Callable[[DataFrame, int], None]:
    """The function of `foreachBatch` that writes each micro-batch to the table of `options`.

    Each micro-batch replaces the table's rows where `overwrite`.
    """

    def write(df: DataFrame, batch_id: int) -> None:
        spark = df.sparkSession
        query_id = side_of(spark).query_id(df)
        if query_id is None:
            raise InvalidUseError("micro-batches are written by a streaming query alone")
        asked = WriteOptions.parse(stream_write_options(options))
        try:
            _write(df, asked, (query_id, int(batch_id)), overwrite=overwrite)
        except Exception:
            jvm.check_interrupted(spark)
            raise

    return write


def _write(
    df: DataFrame, options: WriteOptions, micro_batch: tuple[str, int], *, overwrite: bool
) -> None:
    """Write the rows of a micro-batch as one commit, unless the table has that micro-batch already.

    `micro_batch` is the id of the streaming query and the number of the micro-batch.

    Raises:
        AdeltaError: the table cannot take these rows, or the commit failed.
        PySparkException: a task failed; its text has the error of adelta.
    """
    job = plan_job(options, df.schema, overwrite=overwrite, assigns=True)
    job = replace(job, request=replace(job.request, micro_batch=micro_batch))
    # The job runs in another thread: a query that is stopped by now would wait for all of it.
    jvm.check_interrupted(df.sparkSession)
    if jvm.has_tasks(df):
        write_planned(df, DeltaWriter(job), options, native=NativeWriter.of)
    elif overwrite:
        call(commit_write, job, [])
