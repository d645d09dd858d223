"""Reading and writing tables by function call: everything that ``format("adelta")`` can do, typed.

Beside naming the options, `write` has the modes ``error`` and ``ignore``, which Spark refuses for a
data source written in Python before that is ever asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from pyspark.sql.utils import is_remote

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.datasource import FORMAT
from adelta.spark.options import absolute_uri
from adelta.spark.session import ensure_registered

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from adelta.kernel.expressions.dnf import Where

__all__ = ["WriteMode", "read", "write"]

WriteMode = Literal["append", "overwrite", "error", "ignore"]
"""What to do where the table exists: add rows, replace all rows, fail, or do nothing."""


def read(
    spark: SparkSession,
    uri: str,
    *,
    columns: Sequence[str] | None = None,
    where: Where | None = None,
    version: int | None = None,
    timestamp: datetime | str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Rows of one version of a table: the latest one, or the one at `version` or `timestamp`.

    Only the bytes of `columns` are read, and only files that may hold rows for which `where` is
    true: Spark tells a Python data source neither which columns a query needs nor, safely, its
    filters, so both are better said here than in `select` and `where` afterwards. `where` is SQL
    text, or tuples as `Snapshot.scan` takes them; times in it are the session's.

    Raises:
        AnalysisException: Spark's wrapping of any error of adelta, whose text it holds.
        InvalidOptionError: `version` and `timestamp` are both given.
        InvalidExpressionError: `where` cannot be parsed.
    """
    if version is not None and timestamp is not None:
        raise InvalidOptionError("give a version or a timestamp, not both")
    ensure_registered(spark)
    reader = spark.read.format(FORMAT).options(**_prefixed(storage_options))
    if columns is not None:
        reader = reader.option("columns", json.dumps(list(columns)))
    zone = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    if (predicate := to_predicate(where, zone=zone)) is not None:
        reader = reader.option("where", to_sql(predicate)).option("timeZone", zone)
    if version is not None:
        reader = reader.option("versionAsOf", str(version))
    if timestamp is not None:
        text = timestamp if isinstance(timestamp, str) else timestamp.isoformat()
        reader = reader.option("timestampAsOf", text)
    if not is_remote():
        reader = reader.option("minPartitions", str(spark.sparkContext.defaultParallelism))
    return reader.load(absolute_uri(uri))


def write(
    df: DataFrame,
    uri: str,
    *,
    mode: WriteMode = "error",
    partition_by: Sequence[str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> None:
    """Write the rows of `df` as one commit, which creates the table where there is none.

    With `txn`, an application's id and the number of this write, a write that the table shows as
    done already is skipped.

    Raises:
        AnalysisException: Spark's wrapping of any error of adelta, whose text it holds.
        InvalidOptionError: the mode is unknown.
    """
    if mode not in ("append", "overwrite", "error", "ignore"):
        raise InvalidOptionError(
            f"there is no mode {mode!r}: use append, overwrite, error or ignore"
        )
    ensure_registered(df.sparkSession)
    writer = df.write.format(FORMAT).options(**_prefixed(storage_options))
    if mode in ("error", "ignore"):
        writer = writer.option("ifExists", mode)
    if partition_by is not None:
        writer = writer.option("partitionBy", json.dumps(list(partition_by)))
    if txn is not None:
        writer = writer.option("txnAppId", txn[0]).option("txnVersion", str(txn[1]))
    if user_metadata is not None:
        writer = writer.option("userMetadata", user_metadata)
    writer.mode("overwrite" if mode == "overwrite" else "append").save(absolute_uri(uri))


def _prefixed(storage_options: Mapping[str, str] | None) -> dict[str, str]:
    return {f"option.{key}": str(value) for key, value in (storage_options or {}).items()}
