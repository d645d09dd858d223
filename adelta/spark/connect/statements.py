"""SQL text through Spark Connect: adelta runs all statements that are about Delta tables.

The server does not know them by name. So the client runs the statement, with names resolved by the
session; queries inside of it are Spark's, over DataFrames in the place of Delta tables.
"""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException

from adelta._clock import moment
from adelta.errors import InvalidExpressionError, InvalidStatementError, TableNotFoundError
from adelta.spark.connect.changes import run_change
from adelta.spark.connect.queries import run_query
from adelta.spark.connect.views import run_view
from adelta.spark.exceptions import known_as_of
from adelta.spark.options.hadoop_conf import storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.options.session_settings import session_zone
from adelta.spark.side import side_of
from adelta.spark.sql_hook import plain_sql
from adelta.spark.statements.arguments import with_arguments
from adelta.spark.statements.table_changes import with_frames
from adelta.spark.statements.text import (
    DELTAS_OWN,
    VIEWS,
    change_of,
    replaced_by_query,
    run_own,
    with_views,
)
from adelta.spark.tables.likeness import check_alike
from adelta.spark.tables.names import named_table
from adelta.spark.translate.identifiers import FORMATS
from adelta.sql.grammar.query import query_within
from adelta.sql.grammar.reader import Reader
from adelta.sql.parse import begins_as, parse_statement, with_in_query
from adelta.sql.statements import InsertReplacing
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["run_sql"]

_AT_PATH = re.compile(r"\ba?delta\s*\.\s*`", re.IGNORECASE)
_KEEPS_QUERIES = (*VIEWS, ("CACHE", "TABLE"), ("CACHE", "LAZY", "TABLE"))
"""How statements begin by which Spark keeps a query, or its rows."""


_DEFINITIONS = (
    ("CREATE", "OR", "REPLACE", "TABLE"),
    ("CREATE", "EXTERNAL", "TABLE"),
    ("CREATE", "TABLE"),
    ("REPLACE", "TABLE"),
)
"""How statements begin that define tables."""


def run_sql(spark: SparkSession, text: str, args: Any, frames: Mapping[str, Any]) -> DataFrame:
    """What a statement answers; `frames` are what ``{name}`` in it stands for."""
    text, given = with_frames(spark, text, frames) if frames else (text, {})
    with with_views(spark, text, given) as (text, known):
        return _answered(spark, text, args, known)


def _answered(
    spark: SparkSession, text: str, args: Any, known: Mapping[str, DataFrame]
) -> DataFrame:
    own, zone = begins_as(text, DELTAS_OWN), session_zone(spark)
    whole = with_arguments(spark, text, args)
    if begins_as(text, _KEEPS_QUERIES):
        kept = run_view(spark, whole, zone, known)
        return plain_sql(spark, text, args) if kept is None else kept
    try:
        statement = parse_statement(whole, zone=zone, now=moment())
    except (InvalidStatementError, InvalidExpressionError) as error:
        if own:
            raise
        match change_of(spark, whole):
            case InsertReplacing() as change, table:
                return replaced_by_query(spark, change, table, zone)
            case change, table:
                changed: Any = change
                return run_change(spark, replace(changed, table=table), zone)
        if _defines_table(text):
            raise  # else Spark's catalog would have an entry, and no table
        check_entry(spark, whole, zone, error)
        try:
            return _by_spark(spark, text, args, known, zone)
        except ParseException:
            raise
        except AnalysisException as of_spark:
            if _AT_PATH.search(text):  # where Spark knows no such table
                raise error from of_spark
            raise
    side_of(spark).ensure_registered(spark)
    found = run_own(spark, statement, zone, known, strict=own)
    return _by_spark(spark, text, args, known, zone) if found is None else found


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


def _by_spark(
    spark: SparkSession, text: str, args: Any, changes: Mapping[str, DataFrame], zone: str
) -> DataFrame:
    """What Spark itself answers.

    Delta tables in a query that the statement ends with are read by adelta there.
    """
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


def check_entry(spark: SparkSession, text: str, zone: str, reason: Exception) -> None:
    """See that a statement changes the entry of a Delta table to what the table is.

    An entry may get another name, or go to a table that is alike. Columns and properties are the
    table's own, of which Spark would change the entry alone: the statement is refused for `reason`,
    why adelta does not know it.

    Raises:
        TableNotFoundError: there is no Delta table to go to.
        SchemaMismatchError: it has other columns, or is partitioned by others.
    """
    reader = Reader(text, zone)
    try:
        reader.expect("ALTER", "TABLE")
        name = reader.table()
    except InvalidStatementError:
        return
    if reader.accept("RENAME", "TO"):
        return
    try:
        known = named_table(spark, name)
    except TableNotFoundError:
        return  # which is none of Delta's
    try:
        reader.expect("SET", "LOCATION")
        place = absolute_uri(reader.string())
        reader.end()
    except InvalidStatementError:
        raise reason from None
    here = str(known.path)
    with known_as_of("set location"):
        call(
            check_alike,
            (here, storage_of_session(spark, here)),
            (place, storage_of_session(spark, place)),
        )
