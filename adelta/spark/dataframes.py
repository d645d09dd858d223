"""Reading and writing tables by function call: everything that ``format("adelta")`` can do, typed.

`write` has the modes ``error`` and ``ignore`` in every session: Spark refuses them for a data
source written in Python before that is ever asked.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Literal

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.options.hadoop_conf import prefixed
from adelta.spark.options.read_write import absolute_uri, with_session_storage
from adelta.spark.options.session_settings import session_zone
from adelta.spark.options.writer import WriteState
from adelta.spark.rows.saving import save
from adelta.spark.session.registration import choose_side
from adelta.spark.tables.access import load
from adelta.spark.translate.identifiers import FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from pyspark.sql import DataFrame, SparkSession

    from adelta.kernel.expressions.dnf import Where

__all__ = ["WriteMode", "read", "write"]

WriteMode = Literal["append", "overwrite", "error", "ignore"]
"""What to do where the table exists: add rows, replace all rows, fail, or do nothing."""

_MODES = {
    "append": "Append",
    "overwrite": "Overwrite",
    "error": "ErrorIfExists",
    "ignore": "Ignore",
}


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

    In a classic session whose JVM can open the files, Spark's own scan of Parquet reads them. Where
    it cannot, adelta's data source does, to which Spark tells neither which columns a query needs
    nor, safely, its filters: so `columns` and `where` are better said here than by `select` and
    `where` afterwards. `where` is SQL text, or tuples as `Snapshot.scan` takes them; times in it
    are the session's.

    Raises:
        AnalysisException: Spark's wrapping of any error of adelta, whose text it holds.
        InvalidOptionError: `version` and `timestamp` are both given.
        InvalidExpressionError: `where` cannot be parsed.
    """
    if version is not None and timestamp is not None:
        raise InvalidOptionError("give a version or a timestamp, not both")
    choose_side(spark)
    zone = session_zone(spark)
    options = {**prefixed(storage_options), "path": absolute_uri(uri)}
    if columns is not None:
        options["columns"] = json.dumps(list(columns))
    if (predicate := to_predicate(where, zone=zone)) is not None:
        options["where"] = to_sql(predicate)
    if version is not None:
        options["versionAsOf"] = str(version)
    if timestamp is not None:
        text = timestamp if isinstance(timestamp, str) else timestamp.isoformat()
        options["timestampAsOf"] = text
    return load(spark, with_session_storage(spark.conf.getAll, options))


def write(
    df: DataFrame,
    uri: str,
    *,
    mode: WriteMode = "error",
    partition_by: Sequence[str] | None = None,
    txn: tuple[str, int] | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
    **options: str | int | bool,
) -> None:
    """Write the rows of `df` as one commit, which creates the table where there is none.

    With `txn`, an application's id and the number of this write, a write that the table shows as
    done already is skipped. `options` are further ones of a writer, such as
    ``partitionOverwriteMode="dynamic"``. What nothing is said of is as the session's settings have
    it.

    Raises:
        AnalysisException: Spark's wrapping of any error of adelta, whose text it holds.
        InvalidOptionError: the mode is unknown.
    """
    choose_side(df.sparkSession)
    if mode not in _MODES:
        raise InvalidOptionError(
            f"there is no mode {mode!r}: use append, overwrite, error or ignore"
        )
    said = {"path": uri, **prefixed(storage_options)}
    if txn is not None:
        said |= {"txnAppId": txn[0], "txnVersion": str(txn[1])}
    if user_metadata is not None:
        said["userMetadata"] = user_metadata
    said |= {
        name: str(value).lower() if isinstance(value, bool) else str(value)
        for name, value in options.items()
    }
    partitions = None if partition_by is None else list(partition_by)
    save(df, WriteState(FORMAT, _MODES[mode], said, partitions, None, buckets=False))
