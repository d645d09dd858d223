"""SQL text in classic sessions: adelta runs the statements that Spark cannot parse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta._clock import moment
from adelta.errors import InvalidExpressionError, InvalidStatementError
from adelta.spark.options.session_settings import session_zone
from adelta.spark.side import side_of
from adelta.spark.sql_hook import plain_sql
from adelta.spark.statements.arguments import with_arguments
from adelta.spark.statements.text import (
    DELTAS_OWN,
    IN_PART,
    change_of,
    is_deltas_own,
    replaced_by_query,
    run_own,
    with_views,
)
from adelta.sql.parse import begins_as, parse_statement, with_in_query
from adelta.sql.statements import InsertReplacing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

__all__ = ["run_sql"]


def run_sql(spark: SparkSession, text: str, args: Any) -> DataFrame:
    """What a statement answers."""
    with with_views(spark, text, {}) as (text, changes):
        return _answered(spark, text, args, changes)


def _answered(
    spark: SparkSession, text: str, args: Any, changes: Mapping[str, DataFrame]
) -> DataFrame:
    own = begins_as(text, DELTAS_OWN)
    if not own and not begins_as(with_in_query(text), IN_PART):
        return plain_sql(spark, text, args)
    zone = session_zone(spark)
    try:
        statement = parse_statement(with_arguments(spark, text, args), zone=zone, now=moment())
    except (InvalidStatementError, InvalidExpressionError):
        if own:
            raise
        match change_of(spark, with_arguments(spark, text, args)):
            case InsertReplacing() as change, table:
                return replaced_by_query(spark, change, table, zone)
        return plain_sql(spark, text, args)
    if not is_deltas_own(statement, begins_so=own):
        return plain_sql(spark, text, args)
    side_of(spark).ensure_registered(spark)
    found = run_own(spark, statement, zone, changes, strict=own)
    return plain_sql(spark, text, args) if found is None else found
