"""Statements in SQL text that adelta runs for a session: those that no grammar of Spark's has.

Which others it runs is for the session's side to say.
"""

from __future__ import annotations

from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidStatementError, TableNotFoundError
from adelta.kernel.schema.types import StructType
from adelta.spark.exceptions import condition_of, known_as_of
from adelta.spark.options.commits import forget_txn
from adelta.spark.side import side_of
from adelta.spark.statements.table_changes import views_of, with_changes
from adelta.spark.statements.tables import (
    run_clone,
    run_create,
    run_insert,
    run_merge,
    run_replacing,
    run_vacuum,
)
from adelta.spark.tables.answers import cluster_session, frame
from adelta.spark.tables.converting import convert_in_place
from adelta.spark.translate.identifiers import quoted
from adelta.spark.versions import SPARK
from adelta.sql.execute.definition import field_of
from adelta.sql.parse import begins_as, parse_change
from adelta.sql.records import NOTHING, table_of
from adelta.sql.run import run_statement
from adelta.sql.statements import (
    AddConstraint,
    AlterTable,
    ChangeColumn,
    ConvertToDelta,
    CreateClone,
    CreateTable,
    Delete,
    DescribeTable,
    DropColumns,
    DropConstraint,
    DropFeature,
    Insert,
    InsertReplacing,
    Merge,
    Optimize,
    Query,
    RenameColumn,
    ReplaceColumns,
    Restore,
    SetProperties,
    UnsetProperties,
    Update,
    Vacuum,
)
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import Statement, TableName

__all__ = [
    "DELTAS_OWN",
    "IN_PART",
    "VIEWS",
    "change_of",
    "is_deltas_own",
    "replaced_by_query",
    "run_own",
    "with_views",
]

DELTAS_OWN = (
    ("CONVERT", "TO", "DELTA"),
    ("DESC", "DETAIL"),
    ("DESC", "HISTORY"),
    ("DESCRIBE", "DETAIL"),
    ("DESCRIBE", "HISTORY"),
    ("GENERATE",),
    ("RESTORE",),
    ("VACUUM",),
    ("OPTIMIZE",),
    ("REORG", "TABLE"),
)
"""How statements begin that are in no grammar of Spark's, or mean another thing there."""

IN_PART = (
    ("ALTER", "TABLE"),
    ("CREATE", "OR", "REPLACE", "TABLE"),
    ("CREATE", "TABLE"),
    ("INSERT", "INTO"),
    ("INSERT", "WITH"),
    ("MERGE", "INTO"),
    ("MERGE", "WITH"),
    ("REPLACE", "TABLE"),
)
"""How statements begin of which some are, or some forms."""


VIEWS = (
    ("CREATE", "VIEW"),
    ("CREATE", "TEMP"),
    ("CREATE", "TEMPORARY"),
    ("CREATE", "GLOBAL"),
    ("CREATE", "OR", "REPLACE", "VIEW"),
    ("CREATE", "OR", "REPLACE", "TEMP"),
    ("CREATE", "OR", "REPLACE", "TEMPORARY"),
    ("CREATE", "OR", "REPLACE", "GLOBAL"),
)
"""How statements begin of which Spark keeps the text."""
_ACTIONS: dict[type[Any], str] = {
    AddConstraint: "add constraint",
    ChangeColumn: "change column",
    CreateTable: "create",
    DropColumns: "drop column",
    DropConstraint: "drop constraint",
    DropFeature: "drop feature",
    Insert: "write",
    InsertReplacing: "replace",
    Merge: "merge statement",
    Optimize: "optimize",
    RenameColumn: "rename column",
    ReplaceColumns: "drop column",
    Restore: "restore",
    SetProperties: "set properties",
    UnsetProperties: "unset properties",
    Update: "update",
    Vacuum: "vacuum",
}
"""What statements do, as conditions of errors are told apart by."""


@contextmanager
def with_views(
    spark: SparkSession, text: str, given: Mapping[str, DataFrame]
) -> Iterator[tuple[str, Mapping[str, DataFrame]]]:
    """A statement, and the DataFrames that it names, which are views while the block runs.

    These are those `given`, and the changes of tables that the text asks for.

    Raises:
        InvalidStatementError: a view is to keep the changes of a table.
    """
    text, changes = with_changes(spark, text)
    if changes and begins_as(text, VIEWS):
        raise InvalidStatementError(
            "a view does not keep what table_changes stands for: make it of a DataFrame, as by "
            "spark.sql('SELECT ... FROM table_changes(...)').createOrReplaceTempView(name)"
        )
    known = {**given, **changes}
    with views_of(spark, known):
        yield text, known


def change_of(spark: SparkSession, text: str) -> tuple[Statement, TableName] | None:
    """A change of rows whose expressions only Spark computes, and its Delta table; else None.

    Raises:
        TableNotFoundError: it names a view that cannot be changed.
    """
    try:
        statement = parse_change(text)
    except InvalidStatementError:
        return None
    if statement is None:
        return None
    try:
        return statement, side_of(spark).table_to_change(spark, statement)
    except TableNotFoundError as error:
        if condition_of(error) is not None:
            raise
        return None


def replaced_by_query(
    spark: SparkSession, statement: InsertReplacing, table: TableName, zone: str
) -> DataFrame:
    """The answer of INSERT INTO ... REPLACE by a condition that only Spark computes."""
    session = cluster_session(spark, str(table.path), zone)
    with known_as_of("replace"):
        return run_replacing(spark, replace(statement, table=table), session)


def is_deltas_own(statement: Statement, *, begins_so: bool) -> bool:
    """Whether no grammar of Spark's has a statement; some begin as none of Spark's does."""
    if isinstance(statement, AlterTable):
        change = statement.change
        synchronises = isinstance(change, ChangeColumn) and change.sync_identity
        if isinstance(change, AddConstraint | DropConstraint) and not SPARK.parses_constraints:
            return True
        return synchronises or isinstance(change, DropFeature)
    if isinstance(statement, Insert) and statement.evolves_schema:
        return not SPARK.parses_evolving_inserts
    if isinstance(statement, CreateClone | InsertReplacing):
        return True
    if isinstance(statement, CreateTable):
        return statement.like is not None
    if isinstance(statement, Merge):
        return statement.source_as_of is not None
    return begins_so and not isinstance(statement, DescribeTable)


def run_own(
    spark: SparkSession,
    statement: Statement,
    zone: str,
    changes: Mapping[str, DataFrame],
    *,
    strict: bool,
) -> DataFrame | None:
    """What the statement answers; None where it is not about Delta tables, unless `strict`."""
    said = statement.change if isinstance(statement, AlterTable) else statement
    with known_as_of(_ACTIONS[type(said)]) if type(said) in _ACTIONS else nullcontext():
        return _done(spark, statement, zone, changes, strict=strict)


def _done(
    spark: SparkSession,
    statement: Statement,
    zone: str,
    changes: Mapping[str, DataFrame],
    *,
    strict: bool,
) -> DataFrame | None:
    if isinstance(statement, Query):
        return side_of(spark).query_of(spark, statement, zone, changes)
    if isinstance(statement, CreateTable):
        return run_create(spark, statement, zone)
    if isinstance(statement, CreateClone):
        return run_clone(spark, statement, zone)
    if isinstance(statement, ConvertToDelta) and statement.table.path is None:
        fields = StructType(tuple(map(field_of, statement.partition_by)))
        name = quoted(statement.table.parts)
        convert_in_place(
            spark, name, fields if fields.fields else None, statistics=statement.statistics
        )
        return frame(spark, table_of(NOTHING))
    try:
        table = side_of(spark).table_to_change(spark, statement)
    except TableNotFoundError as error:
        if strict or statement.table.path is not None or condition_of(error) is not None:
            raise
        return None
    session = cluster_session(spark, str(table.path), zone)
    statement = replace(statement, table=table)
    if isinstance(statement, Insert) and isinstance(statement.source, Query):
        return run_insert(spark, statement, session)
    if isinstance(statement, InsertReplacing) and isinstance(statement.source, Query):
        return run_replacing(spark, statement, session)
    if isinstance(statement, Vacuum):
        return run_vacuum(spark, statement, session)
    if isinstance(statement, Merge):
        done = run_merge(spark, statement, session)
    else:
        done = frame(spark, call(run_statement, statement, session))
    if isinstance(statement, Delete | Merge | Update):
        forget_txn(spark)
    return done
