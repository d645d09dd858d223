"""Views and caches of queries over Delta tables, through Spark Connect.

The server cannot read a Delta table by its name, so that it keeps no text which names one: views
are made of DataFrames, and last as long as the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidStatementError, TableNotFoundError
from adelta.spark.connect.queries import run_query
from adelta.spark.statements.tables import rows_of
from adelta.spark.tables.answers import frame
from adelta.spark.tables.names import named_table
from adelta.spark.translate.identifiers import quoted
from adelta.sql.grammar.query import begins_query, read_query
from adelta.sql.grammar.reader import Reader
from adelta.sql.records import NOTHING, table_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import Query, TableName

__all__ = ["run_view"]


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is to be kept: the rows of a query under a name, or a table that is there."""

    name: TableName
    query: Query | None
    caches: bool = False
    lasts: bool = False
    replaces: bool = False
    everywhere: bool = False


def run_view(
    spark: SparkSession, text: str, zone: str, known: Mapping[str, DataFrame]
) -> DataFrame | None:
    """Answer CREATE VIEW and CACHE TABLE; None where no Delta table is in it, or Spark is to judge.

    DataFrames that are `known` by names in the text are taken in as tables are.

    Raises:
        InvalidStatementError: the view is to outlast the session, or a table is cached by its name.
    """
    try:
        asked = _read(Reader(text, zone))
    except InvalidStatementError:
        return None
    if asked.query is None:
        _check_foreign(spark, asked.name)
        return None
    rows = _whole_table(spark, asked.query, zone) or run_query(spark, asked.query, zone, known)
    if rows is None:
        return None
    if asked.lasts:
        raise InvalidStatementError(
            "through Spark Connect a view of a Delta table lasts as long as the session: write "
            "CREATE TEMPORARY VIEW, or create the view in a classic session"
        )
    name = ".".join(asked.name.parts)
    if asked.everywhere:
        create = rows.createOrReplaceGlobalTempView if asked.replaces else rows.createGlobalTempView
    else:
        create = rows.createOrReplaceTempView if asked.replaces else rows.createTempView
    create(name)
    if asked.caches:
        spark.catalog.cacheTable(name)
    return frame(spark, table_of(NOTHING))


def _whole_table(spark: SparkSession, query: Query, zone: str) -> DataFrame | None:
    """All rows of the one table that a query has without more; None of other queries."""
    if len(query.references) != 1:
        return None
    [reference] = query.references
    rest = f"{query.text[: reference.start]};{query.text[reference.end :]}"
    is_whole = " ".join(rest.upper().split()) == "SELECT * FROM ;"
    return rows_of(spark, reference, zone) if is_whole else None


def _check_foreign(spark: SparkSession, table: TableName) -> None:
    """Refuse to cache a Delta table by its name, as nothing would be read from there."""
    try:
        named_table(spark, table)
    except TableNotFoundError:
        return
    name = quoted(table.parts or ("delta", str(table.path)))
    raise InvalidStatementError(
        "through Spark Connect a Delta table is not cached by its name: keep its rows by "
        f"spark.table('{name}').cache(), or by CACHE TABLE another_name AS SELECT * FROM {name}"
    )


def _read(reader: Reader) -> _Kept:
    if reader.accept("CACHE"):
        reader.accept("LAZY")
        reader.expect("TABLE")
        name = reader.table()
        if reader.accept("OPTIONS"):
            reader.properties()
        query = None
        if reader.accept("AS") or begins_query(reader):
            query = read_query(reader)
        found = _Kept(name, query, caches=True)
    else:
        reader.expect("CREATE")
        replaces, everywhere = reader.accept("OR", "REPLACE"), reader.accept("GLOBAL")
        lasts = not (reader.accept("TEMPORARY") or reader.accept("TEMP"))
        reader.expect("VIEW")
        name = reader.table()
        reader.expect("AS")
        query = read_query(reader)
        found = _Kept(name, query, False, lasts, replaces, everywhere)
    reader.end()
    return found
