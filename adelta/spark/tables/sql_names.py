"""What statements of a session's are run with: its tables, its settings, its DataFrames."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.spark.options.commits import session_commits
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import (
    checks_retention,
    overwrites_dynamically,
    pads_chars,
)
from adelta.spark.tables.names import location_of
from adelta.spark.translate.identifiers import identifier_parts, quoted
from adelta.spark.translate.types import to_spark_schema
from adelta.sql.session import Session

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import TableName

__all__ = ["cluster_session", "frame", "named_table", "storage_options"]


def named_table(spark: SparkSession, name: TableName) -> TableName:
    """The table under its full name, with the path where it is.

    Raises:
        TableNotFoundError: the session knows no Delta table of that name.
    """
    if name.path is not None:
        return replace(name, path=absolute_uri(name.path))
    location, full = location_of(spark, quoted(name.parts))
    return replace(name, parts=identifier_parts(full or ""), path=absolute_uri(location))


def storage_options(spark: SparkSession, uri: str) -> dict[str, str] | None:
    """How the session's settings of Hadoop's say that stores of S3 are opened."""
    return storage_of_session(spark, uri) or None


def cluster_session(spark: SparkSession, uri: str, zone: str) -> Session:
    """What a statement about the table at `uri` is run with: Spark carries out its tasks."""
    commits = session_commits(spark)
    return Session(
        storage_options=storage_options(spark, uri),
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
