"""Queries through Spark Connect, over DataFrames in the place of Delta tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.sql_hook import plain_sql
from adelta.spark.statements.tables import rows_of
from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from adelta.sql.statements import Query

__all__ = ["run_query"]


def run_query(
    spark: SparkSession,
    query: Query,
    zone: str,
    known: Mapping[str, DataFrame] | None = None,
    *,
    before: str = "",
) -> DataFrame | None:
    """The rows of a query; None where no table of it is a Delta table, or `known` by its name.

    With what stands `before` it, it is a statement, and that is what Spark answers.
    """
    frames: dict[str, DataFrame] = {}
    parts = [_escaped(before)]
    at = 0
    for reference in query.references:
        found = (known or {}).get(".".join(reference.name.parts))
        if found is None:
            found = rows_of(spark, reference, zone)
        if found is None:
            continue
        name = f"adelta_{len(frames)}"
        frames[name] = found
        parts += [_escaped(query.text[at : reference.start]), f"{{{name}}}"]
        if reference.name.parts and not reference.has_alias:
            parts.append(f" AS {_escaped(quoted(reference.name.parts[-1:]))}")
        at = reference.end
    if not frames:
        return None
    return plain_sql(spark, "".join((*parts, _escaped(query.text[at:]))), **frames)


def _escaped(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")
