"""What a statement about a table runs with, and its answer as a DataFrame."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.options.commits import session_commits
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.session_settings import (
    checks_retention,
    overwrites_dynamically,
    pads_chars,
)
from adelta.spark.translate.types import to_spark_schema
from adelta.sql.session import Session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["cluster_session", "frame"]


def cluster_session(spark: SparkSession, uri: str, zone: str) -> Session:
    """What a statement about the table at `uri` is run with: Spark carries out its tasks."""
    commits = session_commits(spark)
    return Session(
        storage_options=storage_of_session(spark, uri),
        zone=zone,
        executors=partial(SparkTaskExecutor, spark, jobs=JobSettings.of_this_thread(spark)),
        enforce_retention=checks_retention(spark),
        dynamic_overwrite=overwrites_dynamically(spark),
        pads_chars=pads_chars(spark),
        commits=commits,
        user_metadata=commits.user_metadata,
    )


def frame(spark: SparkSession, answer: pa.Table) -> DataFrame:
    """An answer as a DataFrame."""
    if not answer.num_rows:  # of which a client of Spark Connect takes no columns
        return spark.createDataFrame([], to_spark_schema(from_arrow_schema(answer.schema)))
    return spark.createDataFrame(answer)
