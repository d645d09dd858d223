"""DeltaTable: delta-spark's handle on a table, over adelta."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as s

from adelta.errors import InvalidOptionError, TableNotFoundError, UnsupportedFeatureError
from adelta.operations.add_feature import add_feature
from adelta.operations.delete import delete
from adelta.operations.detail import detail
from adelta.operations.drop_feature import drop_feature
from adelta.operations.history import history
from adelta.operations.update import update
from adelta.spark.dataframes import read
from adelta.spark.options import absolute_uri
from adelta.sync._portal import call
from adelta.table import open_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.operations.detail import TableDetail
    from adelta.operations.history import HistoryEntry

__all__ = ["DeltaTable"]

_TEXTS = s.MapType(s.StringType(), s.StringType())
_HISTORY = s.StructType(
    [
        s.StructField("version", s.LongType()),
        s.StructField("timestamp", s.TimestampType()),
        s.StructField("userId", s.StringType()),
        s.StructField("userName", s.StringType()),
        s.StructField("operation", s.StringType()),
        s.StructField("operationParameters", _TEXTS),
        s.StructField("job", _TEXTS),
        s.StructField("notebook", _TEXTS),
        s.StructField("clusterId", s.StringType()),
        s.StructField("readVersion", s.LongType()),
        s.StructField("isolationLevel", s.StringType()),
        s.StructField("isBlindAppend", s.BooleanType()),
        s.StructField("operationMetrics", _TEXTS),
        s.StructField("userMetadata", s.StringType()),
        s.StructField("engineInfo", s.StringType()),
    ]
)
_AFFECTED = s.StructType([s.StructField("num_affected_rows", s.LongType())])
_DETAIL = s.StructType(
    [
        s.StructField("format", s.StringType()),
        s.StructField("id", s.StringType()),
        s.StructField("name", s.StringType()),
        s.StructField("description", s.StringType()),
        s.StructField("location", s.StringType()),
        s.StructField("createdAt", s.TimestampType()),
        s.StructField("lastModified", s.TimestampType()),
        s.StructField("partitionColumns", s.ArrayType(s.StringType())),
        s.StructField("clusteringColumns", s.ArrayType(s.StringType())),
        s.StructField("numFiles", s.LongType()),
        s.StructField("sizeInBytes", s.LongType()),
        s.StructField("properties", _TEXTS),
        s.StructField("minReaderVersion", s.IntegerType()),
        s.StructField("minWriterVersion", s.IntegerType()),
        s.StructField("tableFeatures", s.ArrayType(s.StringType())),
    ]
)


class DeltaTable:
    """A table as delta-spark's users know it: class and verbs bear delta-spark's names.

    It reads the log with adelta, in the driver; data goes through the data source ``adelta``.
    """

    def __init__(
        self,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        alias: str | None = None,
    ) -> None:
        self._spark = spark
        self._path = absolute_uri(path)
        self._storage_options = dict(storage_options or {})
        self._alias = alias

    def __repr__(self) -> str:
        return f"<DeltaTable {self._path}>"

    @classmethod
    def forPath(
        cls,
        spark: SparkSession,
        path: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """The table at `path`: a local path, or a URI of a store.

        Raises:
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
        """
        found = cls(spark, path, storage_options)
        call(found._read_log)
        return found

    @classmethod
    def isDeltaTable(
        cls,
        spark: SparkSession,
        identifier: str,
        storage_options: Mapping[str, str] | None = None,
    ) -> bool:
        """Whether there is a Delta table at a path, be it one that adelta can read or not."""
        try:
            cls.forPath(spark, identifier, storage_options)
        except UnsupportedFeatureError:
            return True
        except TableNotFoundError:
            return False
        return True

    def toDF(self) -> DataFrame:
        """The rows of the latest version."""
        df = read(self._spark, self._path, storage_options=self._storage_options)
        return df if self._alias is None else df.alias(self._alias)

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table, whose DataFrame bears a name for expressions to refer to."""
        return DeltaTable(self._spark, self._path, self._storage_options, alias=aliasName)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first, at most `limit` of them.

        Raises:
            TableNotFoundError: there is no table.
            InvalidOptionError: `limit` is below 1.
        """

        async def entries() -> list[HistoryEntry]:
            async with open_table(self._path, self._storage_options) as table:
                return await history(table, limit)

        return self._spark.createDataFrame([_history_row(e) for e in call(entries)], _HISTORY)

    def detail(self) -> DataFrame:
        """One row on what the table is and how large.

        Raises:
            TableNotFoundError: there is no table.
        """

        async def describe() -> TableDetail:
            async with open_table(self._path, self._storage_options) as table:
                return await detail(table)

        return self._spark.createDataFrame([_detail_row(call(describe))], _DETAIL)

    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table support a table feature, and those that it requires.

        Raises:
            UnsupportedFeatureError: adelta does not know the feature, or cannot write a table with
                it.
        """

        async def add() -> None:
            await add_feature(self._path, featureName, storage_options=self._storage_options)

        call(add)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Let the table no longer support a table feature; with its history, if that is truncated.

        Raises:
            InvalidOptionError: the table does not support the feature.
            InvalidUseError: the feature cannot be dropped, or something has to be dropped first.
            HistoryRetainedError: versions that use it are still kept; call it again later.
        """

        async def drop() -> None:
            await drop_feature(
                self._path,
                featureName,
                truncate_history=bool(truncateHistory),
                storage_options=self._storage_options,
            )

        call(drop)

    def delete(self, condition: str | None = None) -> DataFrame:
        """Delete the rows for which `condition`, Spark SQL text, is true; all rows without one.

        As `adelta.delete`, in the driver. The result is one row, ``num_affected_rows``, which is
        null where whole files went that did not say how many rows they had.

        Raises:
            InvalidOptionError: the condition is no text.
            InvalidExpressionError: the condition cannot be parsed or computed, or does not fit.
            InvariantViolationError: the table only takes appends.
            CommitConflictError: another commit came first and the work has to be done again.
        """
        where = None if condition is None else _sql("condition", condition)
        done = call(lambda: delete(self._path, where, storage_options=self._storage_options))
        return self._affected(done.num_deleted_rows)

    def update(
        self,
        condition: str | None = None,
        set: Mapping[str, str] | None = None,  # delta-spark's word
    ) -> DataFrame:
        """Set columns, by name, to Spark SQL expressions where `condition`, SQL text too, is true.

        As `adelta.update`, in the driver. The result is one row, ``num_affected_rows``.

        Raises:
            InvalidOptionError: nothing is to be set, or an expression is no text.
            SchemaMismatchError: there is no such column, it cannot be set, or cannot hold a value.
            InvalidExpressionError: an expression cannot be parsed or computed, or does not fit.
            InvariantViolationError: a row violates a constraint, or the table only takes appends.
            CommitConflictError: another commit came first and the work has to be done again.
        """
        where = None if condition is None else _sql("condition", condition)
        wanted = {name: _sql(f"value of {name!r}", text) for name, text in (set or {}).items()}
        options = self._storage_options
        done = call(lambda: update(self._path, wanted, where, storage_options=options))
        return self._affected(done.num_updated_rows)

    def _affected(self, rows: int | None) -> DataFrame:
        return self._spark.createDataFrame([(rows,)], _AFFECTED)

    async def _read_log(self) -> None:
        async with open_table(self._path, self._storage_options) as table:
            await table.snapshot()


def _history_row(entry: HistoryEntry) -> tuple[object, ...]:
    return (
        entry.version,
        entry.timestamp,
        entry.user_id,
        entry.user_name,
        entry.operation,
        _texts(entry.operation_parameters),
        None if entry.job is None else _texts(entry.job),
        None if entry.notebook is None else _texts(entry.notebook),
        entry.cluster_id,
        entry.read_version,
        entry.isolation_level,
        entry.is_blind_append,
        _texts(entry.operation_metrics),
        entry.user_metadata,
        entry.engine_info,
    )


def _detail_row(found: TableDetail) -> tuple[object, ...]:
    return (
        found.format,
        found.id,
        found.name,
        found.description,
        found.location,
        found.created_at,
        found.last_modified,
        list(found.partition_columns),
        list(found.clustering_columns),
        found.num_files,
        found.size_in_bytes,
        dict(found.properties),
        found.min_reader_version,
        found.min_writer_version,
        list(found.table_features),
    )


def _sql(what: str, text: object) -> str:
    """`text` as an expression: nobody but Spark can say what a Column means."""
    if isinstance(text, str):
        return text
    raise InvalidOptionError(
        f"the {what} is a {type(text).__name__}; write it as Spark SQL text, such as "
        "\"id > 5 AND city = 'Bern'\""
    )


def _texts(values: Mapping[str, Any]) -> dict[str, str | None]:
    return {
        key: value if value is None or isinstance(value, str) else json.dumps(value)
        for key, value in values.items()
    }
