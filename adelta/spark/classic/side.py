"""The sides of classic sessions: with the inside of a known Spark, or by public API alone."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter

from adelta.errors import InvalidOptionError
from adelta.spark.classic import hook, jvm
from adelta.spark.classic.java_classes import NotCompiledError
from adelta.spark.classic.java_exceptions import add_java_exceptions
from adelta.spark.classic.micro_batches import micro_batch_writer
from adelta.spark.classic.names.entry_points import hook_names, managed_place
from adelta.spark.classic.native.frame_write import write_frame
from adelta.spark.classic.native.parquet_writer import NativeWriter
from adelta.spark.classic.own_scans import scans_of
from adelta.spark.classic.statements import run_sql
from adelta.spark.exceptions import CONFLICTS
from adelta.spark.rows.side_names import called_in, folded
from adelta.spark.side import NamedTable
from adelta.spark.sql_hook import plain_sql
from adelta.spark.tables.converting import DescribedEntry
from adelta.spark.tables.names import (
    catalog_fails,
    describe_table,
    format_of,
    in_session_catalog,
    named_table,
)
from adelta.spark.translate.identifiers import FORMAT, identifier_parts, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from pyspark import SparkConf
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from adelta.spark.options.read_write import WriteOptions
    from adelta.spark.rows.side_names import Side
    from adelta.spark.side import ManagedPlace, ParquetEntry, Registration, TableScan
    from adelta.sql.statements import Query, TableName

__all__ = ["ClassicSide", "PythonSourceSide"]

_QUERY_ID = "sql.streaming.queryId"


class PythonSourceSide:
    """A classic session of a Spark whose inside adelta does not know.

    Tables are read by the Python data source and written by Spark's tasks; the catalog is asked by
    statements, and expressions are text.
    """

    builders_accumulate = False
    names_need_columns = False
    readers_see_conditions = True
    knows_query_ids = True

    def __init__(self, registration: Registration) -> None:
        self._registration = registration

    def ensure_registered(self, spark: SparkSession) -> None:
        self._registration.ensure(spark)

    def formats(self, spark: SparkSession) -> frozenset[str]:
        return frozenset({FORMAT})

    def hook(self, spark: SparkSession, formats: frozenset[str]) -> None:
        pass

    def activate(self, spark: SparkSession) -> None:
        pass

    def add_exceptions(self, spark: SparkSession) -> None:
        pass

    def lacks_catalog(self, spark: SparkSession, name: str) -> bool:
        return catalog_fails(spark)

    def coming_settings(self, spark: SparkSession) -> SparkConf | None:
        return spark.sparkContext._conf

    def application(self, spark: SparkSession) -> object:
        return spark.sparkContext

    def tasks_at_once(self, spark: SparkSession) -> int:
        return spark.sparkContext.defaultParallelism

    def job_properties(self, spark: SparkSession) -> Any:
        return _context(spark).getLocalProperties().clone()

    @contextmanager
    def jobs_as(
        self, spark: SparkSession, tags: Collection[str], properties: Any, tag: str
    ) -> Iterator[None]:
        # The tag is one of Spark's context: actions of a classic session bear no other.
        before = self.job_properties(spark)
        if properties is not None:
            _context(spark).setLocalProperties(properties.clone())
        spark.sparkContext.addJobTag(tag)
        spark.sparkContext.setInterruptOnCancel(True)
        for each in tags:
            spark.addTag(each)
        try:
            yield
        finally:
            for each in tags:
                spark.removeTag(each)
            _context(spark).setLocalProperties(before)

    def cancel_jobs(self, spark: SparkSession, tag: str) -> None:
        spark.sparkContext.cancelJobsWithTag(tag)

    def read_options(self, spark: SparkSession) -> Mapping[str, str]:
        return {"minPartitions": str(spark.sparkContext.defaultParallelism)}

    def write(
        self, df: DataFrame, asked: WriteOptions, options: Mapping[str, str], *, overwrite: bool
    ) -> None:
        write_frame(df, asked, overwrite=overwrite)

    def scans(self, df: DataFrame) -> list[TableScan]:
        return []

    def find_table(self, spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
        return describe_table(spark, parts)

    def managed_place(self, spark: SparkSession, name: str) -> ManagedPlace | None:
        return None

    def parquet_entry(self, spark: SparkSession, table: NamedTable) -> ParquetEntry:
        return DescribedEntry(spark, table)

    def expression_text(
        self, argument: str, value: Column | str, rows: Callable[[], DataFrame]
    ) -> str:
        if isinstance(value, str):
            return value
        raise InvalidOptionError(
            f"{argument} is a column, and adelta does not know the inside of this Spark; write it "
            "as SQL text"
        )

    def conjuncts(self, rows: DataFrame, condition: Column) -> list[str]:
        return []

    def history_text(self, rows: DataFrame, column: Column) -> str:
        return str(column).removeprefix("Column<'").removesuffix("'>")

    def columns_named(
        self, target: DataFrame, rows: DataFrame, columns: Sequence[Column], name: str
    ) -> tuple[set[int], bool]:
        _ = rows.select(*columns).schema  # which Spark refuses if it does not understand them
        return set(range(len(target.columns))), False

    def column_origins(self, df: DataFrame) -> Any:
        return []

    def column_meant(self, side: Side, parts: tuple[str, ...], length: int) -> str | None:
        return None

    def in_names_of(self, sides: Sequence[Side], column: Column) -> Column:
        return column

    def qualifiers(self, df: DataFrame) -> set[str]:
        return set()

    def sole_qualifier(self, df: DataFrame) -> str | None:
        return None

    def sql(
        self, spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]
    ) -> DataFrame:
        if frames:
            return plain_sql(spark, text, args, **frames)
        return run_sql(spark, text, args)

    def query(self, spark: SparkSession, query: Query, zone: str) -> DataFrame:
        return plain_sql(spark, query.text)

    def query_of(
        self, spark: SparkSession, query: Query, zone: str, known: Mapping[str, DataFrame]
    ) -> DataFrame | None:
        return None

    def table_to_change(self, spark: SparkSession, statement: Any) -> TableName:
        return named_table(spark, statement.table)

    def stream_classes(self) -> tuple[Any, Any]:
        return DataStreamReader, DataStreamWriter

    def stream_schema(self, writer: Any) -> StructType:
        found: StructType = writer._df.schema
        return found

    def for_batches(self, spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
        return function  # it runs in this process, in sessions of the same application

    def stream_read(self, df: DataFrame) -> DataFrame:
        return df

    def micro_batch_writer(
        self, spark: SparkSession, options: Mapping[str, str], *, overwrite: bool
    ) -> Callable[[DataFrame, int], None] | None:
        return None

    def query_id(self, df: DataFrame) -> str | None:
        return df.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)


class ClassicSide(PythonSourceSide):
    """A classic session of a Spark whose inside adelta knows, by `adelta.spark.classic.jvm`."""

    def formats(self, spark: SparkSession) -> frozenset[str]:
        return hook.hooked_formats(spark)

    def hook(self, spark: SparkSession, formats: frozenset[str]) -> None:
        for gone in hook.hooked_formats(spark) - formats:
            jvm.forget_source(spark, gone)
        hook.hook(spark, formats)
        hook_names(spark, formats)

    def activate(self, spark: SparkSession) -> None:
        jvm.activate(spark)

    def add_exceptions(self, spark: SparkSession) -> None:
        base, *others = CONFLICTS
        add_java_exceptions(spark, base, others)

    def lacks_catalog(self, spark: SparkSession, name: str) -> bool:
        return not jvm.has_class(spark, name)

    def write(
        self, df: DataFrame, asked: WriteOptions, options: Mapping[str, str], *, overwrite: bool
    ) -> None:
        write_frame(df, asked, overwrite=overwrite, native=NativeWriter.of)

    def stream_read(self, df: DataFrame) -> DataFrame:
        try:
            return jvm.with_patient_start(df)
        except NotCompiledError:  # a warning has been logged
            return df

    def micro_batch_writer(
        self, spark: SparkSession, options: Mapping[str, str], *, overwrite: bool
    ) -> Callable[[DataFrame, int], None] | None:
        if not jvm.shares_threads(spark):
            return None
        return micro_batch_writer(options, overwrite=overwrite)

    def scans(self, df: DataFrame) -> list[TableScan]:
        return scans_of(df.sparkSession, jvm.analyzed(df))

    def find_table(self, spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
        if not in_session_catalog(spark, parts):
            return describe_table(spark, parts)
        entry = jvm.catalog_entry(spark, quoted(parts[-2:]))
        return None if entry is None else NamedTable(*entry)

    def managed_place(self, spark: SparkSession, name: str) -> ManagedPlace | None:
        return managed_place(spark, name)

    def parquet_entry(self, spark: SparkSession, table: NamedTable) -> ParquetEntry:
        return _Entry(spark, table)

    def expression_text(
        self, argument: str, value: Column | str, rows: Callable[[], DataFrame]
    ) -> str:
        if isinstance(value, str):
            jvm.check_expression(value)
            return value
        return jvm.sql_of(rows(), value)

    def conjuncts(self, rows: DataFrame, condition: Column) -> list[str]:
        return jvm.conjuncts_of(rows, condition)

    def history_text(self, rows: DataFrame, column: Column) -> str:
        return jvm.columns_named(rows, [column])[2][0]

    def columns_named(
        self, target: DataFrame, rows: DataFrame, columns: Sequence[Column], name: str
    ) -> tuple[set[int], bool]:
        positions, settled, _ = jvm.columns_named(rows, columns)
        return positions, settled

    def column_origins(self, df: DataFrame) -> Any:
        return jvm.full_names(df)

    def column_meant(self, side: Side, parts: tuple[str, ...], length: int) -> str | None:
        meant = folded(parts[: length + 1])
        found = {
            column
            for full, column in zip(side.origins, side.columns, strict=True)
            if len(full) > length and folded(full[-length - 1 :]) == meant
        }
        return found.pop() if len(found) == 1 else None

    def in_names_of(self, sides: Sequence[Side], column: Column) -> Column:
        def columns() -> list[tuple[DataFrame, list[tuple[str, ...]]]]:
            return [(frame, side.all_called(frame)) for side in sides for frame in side.frames]

        return jvm.renamed(column, lambda parts: called_in(sides, parts), columns)

    def qualifiers(self, df: DataFrame) -> set[str]:
        return {full[-2] for full in jvm.full_names(df) if len(full) > 1}

    def sole_qualifier(self, df: DataFrame) -> str | None:
        found = self.qualifiers(df)
        return found.pop() if len(found) == 1 else None


class _Entry:
    """The entry of a Parquet table in the catalog of the JVM's session."""

    def __init__(self, spark: SparkSession, table: NamedTable) -> None:
        self._spark = spark
        self._name = quoted(identifier_parts(table.name)[-2:])

    @property
    def partitions(self) -> StructType:
        return jvm.partition_schema(self._spark, self._name)

    def check_convertible(self) -> None:
        pass  # the entry changes in its place

    def become_delta(self) -> None:
        jvm.set_provider(self._spark, self._name, format_of(self._spark))


def _context(spark: SparkSession) -> Any:
    context: Any = spark.sparkContext
    return context._jsc.sc()
