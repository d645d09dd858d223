"""What differs between classic Spark and Spark Connect: one protocol, and a side for each.

A session has the side of its class. `adelta.spark.session.registration` chooses it when the first
session of a class is registered; sessions made from that one later, by `newSession`, for a stream
or for a micro-batch, are of the same class. Code below the sides calls `side_of` and never asks
which kind of session it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from adelta._dataclasses import dataclass
from adelta.errors import InvalidUseError
from adelta.spark.translate.identifiers import FORMATS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark import SparkConf
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from adelta.spark.options.read_write import WriteOptions
    from adelta.sql.statements import Query, TableName

__all__ = [
    "ManagedPlace",
    "NamedTable",
    "ParquetEntry",
    "Registration",
    "SparkSide",
    "TableScan",
    "side_of",
    "use_side",
]


@dataclass(frozen=True, slots=True)
class NamedTable:
    """What a session knows of a table, or of a view, by its name."""

    name: str
    provider: str | None
    location: str | None
    kind: str | None = None
    """``MANAGED`` or ``EXTERNAL``, where Spark described it; None of temporary views."""

    @property
    def is_delta(self) -> bool:
        """Whether it is a Delta table, as far as the session knows."""
        return (self.provider or "").lower() in FORMATS and self.location is not None


@dataclass(frozen=True, slots=True)
class TableScan:
    """A scan of the latest version of a table, as it was when the DataFrame was made.

    `version` is None where that is known only when the scan runs.
    """

    uri: str
    version: int | None


class ManagedPlace(Protocol):
    """A folder that the session's catalog keeps for a table whose name is not taken yet."""

    @property
    def name(self) -> str:
        """All parts of the name."""
        ...

    @property
    def location(self) -> str:
        """The folder."""
        ...

    def enter(self, format: str, comment: str | None) -> None:
        """Let the catalog know the table that is there now."""
        ...


class ParquetEntry(Protocol):
    """The entry of a Parquet table in the session's catalog, which may become a Delta table's."""

    @property
    def partitions(self) -> StructType:
        """The columns by which the table is partitioned."""
        ...

    def check_convertible(self) -> None:
        """Refuse an entry that cannot become a Delta table's without loss.

        Raises:
            InvalidOptionError: the catalog would delete the files.
        """
        ...

    def become_delta(self) -> None:
        """Let the catalog know the table as a Delta table."""
        ...


@dataclass(frozen=True, slots=True)
class Registration:
    """How sessions get to know adelta, which the sides call and do not define.

    Attributes:
        ensure: registers a session where nobody has.
        register: registers a session, as `adelta.spark.register`.
        adopt: registers a session of a process beside a server that has the data source already,
            for some formats, and with SQL or without.
    """

    ensure: Callable[[SparkSession], None]
    register: Callable[..., None]
    adopt: Callable[[SparkSession, frozenset[str], bool], None]


class SparkSide(Protocol):
    """What sessions of one class can do, and how it is done there.

    Attributes:
        builders_accumulate: a step of a builder changes the builder, as in delta-spark's client.
        names_need_columns: the catalog takes the name of a table only with a column at least.
        readers_see_conditions: Spark hands the conditions of a query to the reader of a table.
        knows_query_ids: a micro-batch tells which streaming query it is of.
    """

    builders_accumulate: bool
    names_need_columns: bool
    readers_see_conditions: bool
    knows_query_ids: bool

    # ------------------------------------------------------------------------------- sessions

    def ensure_registered(self, spark: SparkSession) -> None:
        """Register a session where nobody has."""
        ...

    def formats(self, spark: SparkSession) -> frozenset[str]:
        """The formats, in lower case, that are adelta's in a session."""
        ...

    def hook(self, spark: SparkSession, formats: frozenset[str]) -> None:
        """Let readers, writers and names of a session be adelta's for `formats`."""
        ...

    def activate(self, spark: SparkSession) -> None:
        """Make the session the one in which Spark looks for data sources in this thread."""
        ...

    def add_exceptions(self, spark: SparkSession) -> None:
        """Let the driver's JVM, where it can be reached, have delta-spark's exceptions."""
        ...

    def lacks_catalog(self, spark: SparkSession, name: str) -> bool:
        """Whether the class `name`, which is set as the session's catalog, is not there."""
        ...

    def coming_settings(self, spark: SparkSession) -> SparkConf | None:
        """The settings with which later sessions of the application begin, if they are at hand."""
        ...

    def application(self, spark: SparkSession) -> object:
        """What all sessions that share statements with this one have in common."""
        ...

    # ----------------------------------------------------------------------------------- jobs

    def tasks_at_once(self, spark: SparkSession) -> int:
        """How many tasks the cluster runs at the same time, as far as the session knows."""
        ...

    def job_properties(self, spark: SparkSession) -> Any:
        """The properties of this thread that jobs get from it; None where there are none."""
        ...

    def jobs_as(
        self, spark: SparkSession, tags: Collection[str], properties: Any, tag: str
    ) -> AbstractContextManager[None]:
        """Let jobs of this thread have tags and properties, and be cancelled by `tag`."""
        ...

    def cancel_jobs(self, spark: SparkSession, tag: str) -> None:
        """Cancel the jobs that were begun under `tag`."""
        ...

    # ------------------------------------------------------------------------ reads and writes

    def read_options(self, spark: SparkSession) -> Mapping[str, str]:
        """Options of a read that follow from the session alone."""
        ...

    def write(
        self, df: DataFrame, asked: WriteOptions, options: Mapping[str, str], *, overwrite: bool
    ) -> None:
        """Write rows as one commit; `options` are those that `asked` was parsed from."""
        ...

    def scans(self, df: DataFrame) -> list[TableScan]:
        """The tables that a DataFrame reads, but for versions that were asked for."""
        ...

    # ---------------------------------------------------------------------------------- names

    def find_table(self, spark: SparkSession, parts: tuple[str, ...]) -> NamedTable | None:
        """What the session knows by a name.

        Raises:
            AnalysisException: nothing is known by it.
        """
        ...

    def managed_place(self, spark: SparkSession, name: str) -> ManagedPlace | None:
        """Where the catalog would keep a new table; None where it does not tell.

        Raises:
            AnalysisException: there is no such database.
        """
        ...

    def parquet_entry(self, spark: SparkSession, table: NamedTable) -> ParquetEntry:
        """The catalog's entry of a Parquet table."""
        ...

    # ---------------------------------------------------------------------------- expressions

    def expression_text(
        self, argument: str, value: Column | str, rows: Callable[[], DataFrame]
    ) -> str:
        """The SQL text of an expression over `rows`.

        Raises:
            ParseException: Spark cannot parse the text.
            InvalidOptionError: it is a column, and this side cannot look into columns.
            InvalidExpressionError: the column is more than an expression over a row.
        """
        ...

    def conjuncts(self, rows: DataFrame, condition: Column) -> list[str]:
        """The texts of the AND-ed parts of a condition that have one."""
        ...

    def history_text(self, rows: DataFrame, column: Column) -> str:
        """The text of a column over `rows` for the table's history."""
        ...

    def columns_named(
        self, target: DataFrame, rows: DataFrame, columns: Sequence[Column], name: str
    ) -> tuple[set[int], bool]:
        """The positions of columns of `target` that `columns` may use, and if these are settled.

        `rows` begin with the columns of `target`, which is called `name` there. An expression is
        settled if it has the same value whenever it is computed, and is about one row.

        Raises:
            AnalysisException: Spark does not understand one of them.
        """
        ...

    def column_origins(self, df: DataFrame) -> Any:
        """Where the columns of a DataFrame come from, for `column_meant`."""
        ...

    def column_meant(self, side: Any, parts: tuple[str, ...], length: int) -> str | None:
        """The column of one side of a change that a name of several parts means; None if none.

        `length` parts stand before the column's own name.
        """
        ...

    def in_names_of(self, sides: Sequence[Any], column: Column) -> Column:
        """The column, with references to columns of `sides` by the names that the change uses."""
        ...

    def qualifiers(self, df: DataFrame) -> set[str]:
        """What may stand right before the names of a DataFrame's columns."""
        ...

    def sole_qualifier(self, df: DataFrame) -> str | None:
        """The same where it is one name for all columns; else None."""
        ...

    # ----------------------------------------------------------------------------- statements

    def sql(
        self, spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]
    ) -> DataFrame:
        """What a statement answers; see `adelta.spark.sql`."""
        ...

    def query(self, spark: SparkSession, query: Query, zone: str) -> DataFrame:
        """The rows of a query over tables of any format."""
        ...

    def query_of(
        self, spark: SparkSession, query: Query, zone: str, known: Mapping[str, DataFrame]
    ) -> DataFrame | None:
        """The rows of a query of Delta tables and DataFrames; None where Spark reads it alone."""
        ...

    def table_to_change(self, spark: SparkSession, statement: Any) -> TableName:
        """The table of a statement, with its path; a statement that changes rows may name a view.

        Raises:
            TableNotFoundError: the session knows no such Delta table.
        """
        ...

    # -------------------------------------------------------------------------------- streams

    def stream_classes(self) -> tuple[Any, Any]:
        """PySpark's classes of stream readers and writers."""
        ...

    def stream_schema(self, writer: Any) -> StructType:
        """The columns of the rows that a stream writer was made of."""
        ...

    def for_batches(self, spark: SparkSession, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function of micro-batches, in whose sessions adelta is known as it is in `spark`."""
        ...

    def stream_read(self, df: DataFrame) -> DataFrame:
        """The streaming read `df`, whose source may take `spark.network.timeout` to start.

        Spark itself waits for its Python process for 10 seconds, whatever the settings say.
        """
        ...

    def micro_batch_writer(
        self, spark: SparkSession, options: Mapping[str, str], *, overwrite: bool
    ) -> Callable[[DataFrame, int], None] | None:
        """The function of `foreachBatch` that writes each micro-batch to the table of `options`.

        Each micro-batch replaces the table's rows where `overwrite`. None: the data source writes.
        """
        ...

    def query_id(self, df: DataFrame) -> str | None:
        """The id of the streaming query that a micro-batch is of."""
        ...


_sides: dict[type, SparkSide] = {}  # by the class of sessions


def use_side(spark: SparkSession, side: SparkSide) -> None:
    """Let all sessions of this session's class have a side."""
    _sides[type(spark)] = side


def side_of(spark: SparkSession) -> SparkSide:
    """The side of a session.

    Raises:
        InvalidUseError: no session of its class has been registered.
    """
    for kind in type(spark).__mro__:
        if kind in _sides:
            return _sides[kind]
    raise InvalidUseError(
        "this Spark session does not know adelta: call adelta.spark.register(spark) first"
    )
