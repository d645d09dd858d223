"""Upkeep of large tables by Spark's executors."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta._arguments import check_count
from adelta.operations.distributed_checkpoint import checkpoint_by_tasks
from adelta.spark.cluster.cluster_executor import SparkClusterExecutor
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.session.registration import ensure_registered
from adelta.spark.tables.names import location_of
from adelta.spark.translate.identifiers import path_named
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from adelta.operations.checkpoint import CheckpointMetrics

__all__ = ["checkpoint"]

_PATH = re.compile(r"[/\\]|^[A-Za-z][A-Za-z0-9+.-]*:")  # no name has these out of backticks


def checkpoint(
    spark: SparkSession,
    path_or_name: str,
    *,
    storage_options: Mapping[str, str] | None = None,
    parts: int | None = None,
) -> CheckpointMetrics:
    """Write a checkpoint of the latest version of a table by Spark's executors.

    They replay the log, and write what `adelta.checkpoint` writes: sidecars where the table has the
    feature ``v2Checkpoint``, else the parts of a multi-part checkpoint, about as large as
    ``adelta.checkpoint.partSize`` says, or `parts` of them. The driver never holds the list of
    files. `path_or_name` is a path or URI where it has a slash outside of backticks, else the name
    of a table that the session knows.

    What has expired in the log is cleaned up then, unless ``delta.enableExpiredLogCleanup`` is
    false.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        InvalidOptionError: there cannot be so many parts; or the table is managed by a catalog.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
        PySparkException: Spark gave up the job.
    """
    check_count("parts", parts)
    ensure_registered(spark)
    uri = path_or_name
    if path_named(uri) is not None or not _PATH.search(uri):
        uri, _ = location_of(spark, uri)
    uri, options = absolute_uri(uri), dict(storage_options or {})
    jobs = JobSettings.of_this_thread(spark)
    executor = SparkClusterExecutor(spark, uri, options, jobs=jobs)

    async def work() -> CheckpointMetrics:
        async with open_table(uri, options) as table:
            return await checkpoint_by_tasks(table, executor, parts=parts)

    return call(work)
