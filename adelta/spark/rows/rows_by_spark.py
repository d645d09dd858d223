"""DELETE and UPDATE by what only Spark computes, such as functions of the user's own.

Spark finds what the columns that are named hold in the rows for which the condition is true, and
the rows of the table that hold it are merged, as it is with statements (`NamedRows.java`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.options.session_settings import session_zone
from adelta.spark.rows.looked_at import rows_looked_at
from adelta.spark.rows.merging import merge_rows, rows_said
from adelta.spark.rows.row_keys import named_by, text_of
from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.spark.tables.access import TableAccess
    from adelta.table import Table

__all__ = ["NOT_ADELTAS", "asks_others", "change_by_spark", "version_of"]

NOT_ADELTAS = (InvalidExpressionError, UnsupportedOperationException)
"""How it shows that adelta does not compute an expression."""


def change_by_spark(
    access: TableAccess,
    name: str | None,
    verb: str,
    condition: Column | str | None,
    values: Mapping[tuple[str, ...], Column | str],
    reason: Exception,
) -> MergeMetrics:
    """Delete or update the rows that Spark finds, to what it computes, in one commit.

    Expressions may name the table `name`; `values` are for columns, or fields in them. `reason` is
    why adelta does not compute them itself, and is raised where Spark does not, either.

    Raises:
        InvalidExpressionError: an expression is another value whenever it is computed.
    """
    version, schema = access.learn(version_of)
    name, zone = name or "target", session_zone(access.spark)
    df = access.rows(version).alias(name)
    where = f.lit(True) if condition is None else _column(condition)
    computed = {
        f"v{index}": _column(value)
        for index, value in enumerate(values.values())
        if not _is_default(value)
    }
    try:
        looked_at = rows_looked_at(df, where, name, schema, zone, alone=True)
        if looked_at is not None and is_remote():  # where Spark tells a reader no conditions
            df = access.rows(version, to_sql(looked_at)).alias(name)
        keys = named_by(df, df, [*computed.values(), where], name)
        found = df.where(where).select(
            f.lit(True).alias("k"),
            *keys.columns("k", name),
            *(value.alias(column) for column, value in computed.items()),
        )
        found = found.dropDuplicates(["k", *keys.names("k")])
    except AnalysisException as error:
        raise reason from error
    if any(isinstance(each, str) and asks_others(each) for each in (condition, *values.values())):
        looked_at = None
    said = {
        "on": keys.matched("target", "source", "k"),
        "predicate": text_of(df, where) if isinstance(condition, Column) else condition,
        "values": [
            [quoted(each), f"source.v{index}" if f"v{index}" in computed else None]
            for index, each in enumerate(values)
        ],
    }
    merge, to = rows_said(access.spark, verb, said, looked_at), access.to_change()
    return merge_rows(access.spark, to.uri, version, merge, found, to.storage_options, to.catalog)


async def version_of(table: Table, version: int | None = None) -> tuple[int, StructType]:
    """A version of a table, by default the latest one, and its columns."""
    snapshot = await table.snapshot(version=version)
    return snapshot.version, snapshot.delta_schema


def asks_others(text: str) -> bool:
    """Whether an expression may ask for other rows of the table than the one that it is about."""
    try:
        return "SELECT" in (each.upper for each in tokenize(text))
    except InvalidExpressionError:
        return True


def _is_default(value: Column | str) -> bool:
    return isinstance(value, str) and value.strip().upper() == "DEFAULT"


def _column(value: Column | str) -> Column:
    return f.expr(value) if isinstance(value, str) else value
