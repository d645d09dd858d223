"""DELETE and UPDATE by what only Spark computes, such as functions of the user's own.

Spark finds what the columns that are named hold in the rows for which the condition is true, and
the rows of the table that hold it are merged, as it is with statements (`NamedRows.java`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import Column
from pyspark.sql import functions as f

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.delete import delete
from adelta.operations.update import update
from adelta.spark.exceptions import known_as_of
from adelta.spark.options.session_settings import pads_chars
from adelta.spark.rows.expressions import assignments
from adelta.spark.rows.looked_at import rows_looked_at
from adelta.spark.rows.merging import merge_rows, rows_said
from adelta.spark.rows.row_keys import named_by, text_of
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import quoted
from adelta.spark.translate.types import to_spark_schema
from adelta.spark.translate.zones import value_in
from adelta.sql import records

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.spark.rows.target import Target
    from adelta.table import Table

__all__ = ["NOT_ADELTAS", "affected", "asks_others", "delete_rows", "update_rows", "version_of"]

_AFFECTED = to_spark_schema(from_arrow_schema(records.AFFECTED))

NOT_ADELTAS = (InvalidExpressionError, UnsupportedOperationException)
"""How it shows that adelta does not compute an expression."""


def delete_rows(target: Target, condition: Column | str | None) -> int | None:
    """Delete the rows for which a condition is true; how many, where that is known.

    Raises: as `DeltaTable.delete` does.
    """
    try:
        where = None if condition is None else target.condition(condition)
    except NOT_ADELTAS as error:
        return _change_by_spark(target, "delete", condition, {}, error).num_target_rows_deleted
    return target.access.run(lambda table: delete(table, where)).num_deleted_rows


def update_rows(target: Target, condition: Column | str | None, given: object) -> int | None:
    """Set columns by name, to expressions where a condition is true; how many rows were set.

    Raises: as `DeltaTable.update` does.
    """
    values = assignments("'set'", given)
    if not values:
        name = quoted((target.settable(),))
        values = {name: name}
    schema, zone, pads = target.schema(), target.zone, pads_chars(target.spark)
    try:
        where = None if condition is None else target.condition(condition)
        new = {
            target.column(name): value_in(zone, target.text(value), schema, pads=pads)
            for name, value in values.items()
        }
    except NOT_ADELTAS as error:
        merged = _change_by_spark(target, "update", condition, values, error)
        return merged.num_target_rows_updated
    with known_as_of("update"):
        done = target.access.run(lambda table: update(table, new, where, zone=zone))
    return done.num_updated_rows


def affected(spark: SparkSession, num_rows: int | None) -> DataFrame:
    """The answer of a change of rows: how many, or -1 where that is not known."""
    return spark.createDataFrame([(-1 if num_rows is None else num_rows,)], _AFFECTED)


def _change_by_spark(
    target: Target,
    verb: str,
    given_condition: Column | str | None,
    given_values: Mapping[str, Column | str],
    reason: Exception,
) -> MergeMetrics:
    """Delete or update the rows that Spark finds, to what it computes, in one commit.

    `reason` is why adelta does not compute the expressions itself, and is raised where Spark does
    not, either.

    Raises:
        InvalidExpressionError: an expression is another value whenever it is computed.
    """
    access, condition = target.access, target.in_names(given_condition)
    values = {
        target.column_parts(name): target.in_names(value) for name, value in given_values.items()
    }
    name = target.full_name[-1] if target.full_name else "target"
    zone = target.zone
    version, schema = access.learn(version_of)
    df = access.rows(version).alias(name)
    where = f.lit(True) if condition is None else _column(condition)
    computed = {
        f"v{index}": _column(value)
        for index, value in enumerate(values.values())
        if not _is_default(value)
    }
    try:
        looked_at = rows_looked_at(df, where, name, schema, zone, alone=True)
        if looked_at is not None and not side_of(access.spark).readers_see_conditions:
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
