"""The side of sessions of Spark Connect, whose clients have no JVM at hand."""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from adelta.spark.connect import columns, expressions, writers
from adelta.spark.connect.formats import formats_of
from adelta.spark.connect.names import names_sent
from adelta.spark.connect.queries import run_query
from adelta.spark.connect.reads import remote_scans
from adelta.spark.connect.statements import run_sql
from adelta.spark.connect.view_targets import table_to_change
from adelta.spark.sql_hook import has_sql_hook, plain_sql
from adelta.spark.tables.converting import DescribedEntry
from adelta.spark.tables.names import catalog_fails, describe_table

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark import SparkConf
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from adelta.spark.options.read_write import WriteOptions
    from adelta.spark.rows.side_names import Side
    from adelta.spark.side import (
        ManagedPlace,
        NamedTable,
        ParquetEntry,
        Registration,
        TableScan,
    )
    from adelta.sql.statements import Query, TableName

__all__ = ["ConnectSide"]


class ConnectSide:
    """Sessions of Spark Connect."""

    builders_accumulate = True
    names_need_columns = True
    readers_see_conditions = False
    knows_query_ids = False

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def ensure_registered(self, spark: SparkSession) -> None:
        self._registration.ensure(spark)

    def formats(self, spark: SparkSession) -> frozenset[str]:
        return formats_of(spark)

    def hook(self, spark: SparkSession, formats: frozenset[str]) -> None:
        writers.hook_writers(spark, formats, self._registration.register)

    def activate(self, spark: SparkSession) -> None:
        pass

    def add_exceptions(self, spark: SparkSession) -> None:
        pass

    def lacks_catalog(self, spark: SparkSession, name: str) -> bool:
        return catalog_fails(spark)

    def coming_settings(self, spark: SparkSession) -> SparkConf | None:
        return None

    def application(self, spark: SparkSession) -> object:
        return spark

    def tasks_at_once(self, spark: SparkSession) -> int:
        return int(spark.conf.get("spark.default.parallelism", None) or 2)

    def job_properties(self, spark: SparkSession) -> Any:
        return None

    @contextmanager
    def jobs_as(
        self, spark: SparkSession, tags: Collection[str], properties: Any, tag: str
    ) -> Iterator[None]:
        own = {*tags, tag}
        for each in own:
            spark.addTag(each)
        try:
            yield
        finally:
            for each in own:
                spark.removeTag(each)

    def cancel_jobs(self, spark: SparkSession, tag: str) -> None:
        spark.interruptTag(tag)

    def read_options(self, spark: SparkSession) -> Mapping[str, str]:
        return {}

    def write(
        self, df: DataFrame, asked: WriteOptions, options: Mapping[str, str], *, overwrite: bool
    ) -> None:
        writers.write_by_source(df, asked, options, overwrite=overwrite)

    def scans(self, df: DataFrame) -> list[TableScan]:
        return remote_scans(df)

    def find_table(self, spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
        return describe_table(spark, parts)

    def managed_place(self, spark: SparkSession, name: str) -> ManagedPlace | None:
        return None

    def parquet_entry(self, spark: SparkSession, table: NamedTable) -> ParquetEntry:
        return DescribedEntry(spark, table)

    def expression_text(
        self, argument: str, value: Column | str, rows: Callable[[], DataFrame]
    ) -> str:
        return expressions.expression_text(value, rows)

    def conjuncts(self, rows: DataFrame, condition: Column) -> list[str]:
        return expressions.conjuncts_of(condition)

    def history_text(self, rows: DataFrame, column: Column) -> str:
        return str(column).removeprefix("Column<'").removesuffix("'>")

    def columns_named(
        self, target: DataFrame, rows: DataFrame, columns: Sequence[Column], name: str
    ) -> tuple[set[int], bool]:
        _ = rows.select(*columns).schema  # which Spark refuses if it does not understand them
        return names_sent(rows, columns, target, name)

    def column_origins(self, df: DataFrame) -> Any:
        return columns.origins_of(df)

    def column_meant(self, side: Side, parts: tuple[str, ...], length: int) -> str | None:
        return columns.column_meant(side, parts, length)

    def in_names_of(self, sides: Sequence[Side], column: Column) -> Column:
        return columns.in_names_of(sides, column)

    def qualifiers(self, df: DataFrame) -> set[str]:
        return columns.qualifiers(df)

    def sole_qualifier(self, df: DataFrame) -> str | None:
        return columns.sole_qualifier(df)

    def sql(
        self, spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]
    ) -> DataFrame:
        return run_sql(spark, text, args, frames)

    def query(self, spark: SparkSession, query: Query, zone: str) -> DataFrame:
        found = run_query(spark, query, zone)
        return plain_sql(spark, query.text) if found is None else found

    def query_of(
        self, spark: SparkSession, query: Query, zone: str, known: Mapping[str, DataFrame]
    ) -> DataFrame | None:
        return run_query(spark, query, zone, known)

    def table_to_change(self, spark: SparkSession, statement: Any) -> TableName:
        return table_to_change(spark, statement)

    def stream_classes(self) -> tuple[Any, Any]:
        from pyspark.sql.connect.streaming import readwriter  # which needs more packages

        return readwriter.DataStreamReader, readwriter.DataStreamWriter

    def stream_schema(self, writer: Any) -> StructType:
        from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame

        return RemoteFrame(writer._write_stream._child, writer._session).schema

    def for_batches(self, spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, which runs in a process beside the server, in sessions of its own."""
        adopt = self._registration.adopt
        return partial(_in_batch, adopt, function, formats_of(spark), has_sql_hook(spark))

    def stream_read(self, df: DataFrame) -> DataFrame:
        return df

    def micro_batch_writer(
        self, spark: SparkSession, options: Mapping[str, str], *, overwrite: bool
    ) -> Callable[[DataFrame, int], None] | None:
        return None  # Spark would run it in yet another process, beside the server

    def query_id(self, df: DataFrame) -> str | None:
        return None


def _in_batch(
    adopt: Callable[[SparkSession, frozenset[str], bool], None],
    function: Callable[[DataFrame, int], object],
    formats: frozenset[str],
    takes_sql: bool,
    df: DataFrame,
    batch_id: int,
) -> object:
    adopt(df.sparkSession, formats, takes_sql)
    return function(df, batch_id)
