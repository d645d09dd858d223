"""Which rows of a table a change depends on whose rows Spark finds.

A condition is true of no row of which a part is not that AND joins. So by the parts that adelta
computes, those of partition columns among them, it is known which rows were looked at in vain or
not; commits that are about others are no conflict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.nodes import Column as ColumnNode
from adelta.kernel.expressions.nodes import children_of, conjunction
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.spark.rows.expressions import unqualified
from adelta.spark.side import side_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import Column, DataFrame

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType

__all__ = ["rows_looked_at"]


def rows_looked_at(
    rows: DataFrame,
    condition: Column,
    name: str,
    schema: StructType,
    zone: str,
    *,
    alone: bool = False,
) -> Node | None:
    """What is true, over the columns of a table, of all rows that `condition` may be true of.

    `rows` are those of the table, which is called `name`, `alone`; else pairs of them and others.
    None is all rows.
    """
    parts = [
        part
        for text in side_of(rows.sparkSession).conjuncts(rows, condition)
        if (part := _of_table(text, name, schema, zone, alone=alone)) is not None
    ]
    return conjunction(*parts)


def _of_table(text: str, name: str, schema: StructType, zone: str, *, alone: bool) -> Node | None:
    """The part of a condition, where adelta computes it of rows of the table alone."""
    try:
        paths = list(_paths(parse_expression(text, zone=zone)))
        if not alone and any(len(path) < 2 or path[0].lower() != name.lower() for path in paths):
            return None
        plain: Any = unqualified(text, schema, (name,), zone)
        return bind_predicate(parse_expression(plain, zone=zone), schema, zone=zone)
    except InvalidExpressionError:
        return None


def _paths(node: Node) -> Iterator[tuple[str, ...]]:
    if isinstance(node, ColumnNode):
        yield node.path
    for child in children_of(node):
        yield from _paths(child)
