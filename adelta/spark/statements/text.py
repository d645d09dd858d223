"""Statements in SQL text: those that Spark does not know, or not in this session, are adelta's.

A classic session knows most statements over Delta tables itself (`adelta.spark.classic.names`);
adelta runs those that are not in Spark's grammar. Through Spark Connect it runs all of its own that
are about Delta tables: in the client, with names resolved by the session; queries inside of them
are Spark's.
"""

from __future__ import annotations

import re
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql.utils import is_remote

from adelta._clock import moment
from adelta.errors import InvalidExpressionError, InvalidStatementError, TableNotFoundError
from adelta.kernel.schema.types import StructType
from adelta.spark.connect.changes import run_change
from adelta.spark.connect.locations import check_entry
from adelta.spark.connect.view_targets import table_to_change
from adelta.spark.connect.views import run_view
from adelta.spark.exceptions import condition_of, known_as_of, raises_as_spark
from adelta.spark.options.commits import forget_txn
from adelta.spark.options.session_settings import session_zone
from adelta.spark.session.registration import ensure_registered
from adelta.spark.sql_hook import plain_sql
from adelta.spark.statements.arguments import with_arguments
from adelta.spark.statements.run import (
    run_clone,
    run_create,
    run_insert,
    run_merge,
    run_query,
    run_replacing,
    run_vacuum,
)
from adelta.spark.statements.table_changes import views_of, with_changes, with_frames
from adelta.spark.tables.converting import convert_in_place
from adelta.spark.tables.sql_names import cluster_session, frame
from adelta.spark.translate.identifiers import FORMATS, quoted
from adelta.sql.execute.definition import field_of
from adelta.sql.grammar.query import query_within
from adelta.sql.grammar.reader import Reader
from adelta.sql.parse import begins_as, parse_change, parse_statement, with_in_query
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
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import Statement

__all__ = ["sql"]

_Args: TypeAlias = "dict[str, Any] | list[Any] | None"

_DELTAS_OWN = (
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

_IN_PART = (
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


_AT_PATH = re.compile(r"\ba?delta\s*\.\s*`", re.IGNORECASE)

_VIEWS = (
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
_KEEPS_QUERIES = (*_VIEWS, ("CACHE", "TABLE"), ("CACHE", "LAZY", "TABLE"))
"""How statements begin by which Spark keeps a query, or its rows."""


_DEFINITIONS = (
    ("CREATE", "OR", "REPLACE", "TABLE"),
    ("CREATE", "EXTERNAL", "TABLE"),
    ("CREATE", "TABLE"),
    ("REPLACE", "TABLE"),
)
"""How statements begin that define tables."""

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


@raises_as_spark
def sql(spark: SparkSession, text: str, args: _Args = None, **frames: DataFrame | Any) -> DataFrame:
    """What `spark.sql` answers; and statements over Delta tables that it does not know.

    In every session these are the ones that no grammar of Spark's has, such as ``DESCRIBE
    HISTORY``, ``CREATE TABLE ... CLONE`` and ``ALTER TABLE ... DROP FEATURE``; what is much work in
    them is done by tasks of Spark's. Through Spark Connect they are all that `adelta.sql` has,
    where they are about Delta tables: by path (``delta.`/lake/sales` ``), or by a name that the
    session knows. Times that name no zone are of the session's. ``table_changes('name', 3, 7)`` and
    ``table_changes_by_path`` stand for the rows that commits changed. `args` are values for
    parameters, and `frames` DataFrames and values for ``{name}`` in the text, as `spark.sql` takes
    them. What adelta does not know goes to Spark as it is.

    Raises:
        InvalidStatementError: a statement that only adelta knows is not written as it is to be.
        TableNotFoundError: such a statement is about no Delta table.
        AdeltaError: as `adelta.sql` does, each of them as Spark's error, too.
    """
    if frames and not is_remote():
        return plain_sql(spark, text, args, **frames)
    text, given = with_frames(spark, text, frames) if frames else (text, {})
    text, changes = with_changes(spark, text)
    if given and not changes:
        with views_of(spark, given):
            return _answered(spark, text, args, given)
    if not changes:
        return _answered(spark, text, args, {})
    if begins_as(text, _VIEWS):
        raise InvalidStatementError(
            "a view does not keep what table_changes stands for: make it of a DataFrame, as by "
            "spark.sql('SELECT ... FROM table_changes(...)').createOrReplaceTempView(name)"
        )
    changes = {**given, **changes}
    with views_of(spark, changes):
        return _answered(spark, text, args, changes)


def _answered(
    spark: SparkSession, text: str, args: _Args, changes: Mapping[str, DataFrame]
) -> DataFrame:
    own = begins_as(text, _DELTAS_OWN)
    if not own and not is_remote() and not begins_as(with_in_query(text), _IN_PART):
        return plain_sql(spark, text, args)
    zone = session_zone(spark)
    if is_remote() and begins_as(text, _KEEPS_QUERIES):
        kept = run_view(spark, with_arguments(spark, text, args), zone, changes)
        return plain_sql(spark, text, args) if kept is None else kept
    try:
        statement = parse_statement(with_arguments(spark, text, args), zone=zone, now=moment())
    except (InvalidStatementError, InvalidExpressionError) as error:
        if own:
            raise
        changed = _changed_by_spark(spark, with_arguments(spark, text, args), zone)
        if changed is not None:
            return changed
        if is_remote() and _defines_table(text):
            raise  # else Spark's catalog would have an entry, and no table
        if is_remote():
            check_entry(spark, with_arguments(spark, text, args), zone, error)
        try:
            return _by_spark(spark, text, args, changes, zone)
        except ParseException:
            raise
        except AnalysisException as of_spark:
            if is_remote() and _AT_PATH.search(text):  # where Spark knows no such table
                raise error from of_spark
            raise
    if not is_remote() and not _is_deltas_own(statement, begins_so=own):
        return plain_sql(spark, text, args)
    ensure_registered(spark)
    found = _run(spark, statement, zone, changes, strict=own)
    return _by_spark(spark, text, args, changes, zone) if found is None else found


def _defines_table(text: str) -> bool:
    """Whether a statement that adelta cannot read is to create or to replace a Delta table."""
    if not begins_as(text, _DEFINITIONS):
        return False
    with suppress(InvalidStatementError):
        reader = Reader(text)
        while reader.token.kind != "end" and not reader.follows("SELECT"):
            if reader.accept("USING"):
                return reader.token.text.lower() in FORMATS
            reader.take()
    return False


def _changed_by_spark(spark: SparkSession, text: str, zone: str) -> DataFrame | None:
    """What a change answers that only Spark computes; None where it is none of a Delta table."""
    try:
        statement = parse_change(text)
    except InvalidStatementError:
        return None
    replacing = isinstance(statement, InsertReplacing)
    if statement is None or not (replacing or is_remote()):
        return None
    try:
        table = table_to_change(spark, statement)
    except TableNotFoundError as error:
        if condition_of(error) is not None:
            raise
        return None
    if isinstance(statement, InsertReplacing):
        session = cluster_session(spark, str(table.path), zone)
        with known_as_of("replace"):
            return run_replacing(spark, replace(statement, table=table), session)
    return run_change(spark, replace(statement, table=table), zone)


def _by_spark(
    spark: SparkSession, text: str, args: _Args, changes: Mapping[str, DataFrame], zone: str
) -> DataFrame:
    """What Spark itself answers; through Connect it looks at names when rows are asked for.

    Delta tables in a query that the statement ends with are read by adelta there.
    """
    if not is_remote():
        return plain_sql(spark, text, args)
    with suppress(InvalidStatementError, InvalidExpressionError):
        whole = with_in_query(with_arguments(spark, text, args))
        if (within := query_within(Reader(whole, zone))) is not None:
            begin, query = within
            found = run_query(spark, query, zone, changes, before=whole[:begin])
            if found is not None:
                return found
    if not changes:
        return plain_sql(spark, text, args)
    text = text.replace("{", "{{").replace("}", "}}")
    for name in changes:
        text = text.replace(name, f"{{{name}}}")
    return plain_sql(spark, text, args, **changes)


def _is_deltas_own(statement: Statement, *, begins_so: bool) -> bool:
    if isinstance(statement, AlterTable):
        change = statement.change
        synchronises = isinstance(change, ChangeColumn) and change.sync_identity
        return synchronises or isinstance(change, DropFeature)
    if isinstance(statement, CreateClone | InsertReplacing):
        return True
    if isinstance(statement, CreateTable):
        return statement.like is not None
    if isinstance(statement, Merge):
        return statement.source_as_of is not None
    return begins_so and not isinstance(statement, DescribeTable)


def _run(
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
        return run_query(spark, statement, zone, changes)
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
        table = table_to_change(spark, statement)
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
