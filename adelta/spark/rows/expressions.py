"""Conditions and values that users give as text or as columns → Spark SQL text over a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.nodes import Column as ColumnNode
from adelta.kernel.expressions.nodes import children_of, with_children
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.exceptions import WrongTypeError
from adelta.spark.side import side_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame, SparkSession

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType

__all__ = ["assignments", "sql_text", "unqualified"]


def sql_text(
    spark: SparkSession, argument: str, value: object, rows: Callable[[], DataFrame]
) -> str:
    """The expression as text; `rows` are those of the table that it is about.

    Raises:
        WrongTypeError: it is neither text nor a column.
        ParseException: Spark cannot parse the text.
        InvalidOptionError: it is a column of a session whose columns cannot be looked into.
        InvalidExpressionError: the column is more than an expression over a row.
    """
    if not isinstance(value, str | Column):
        raise WrongTypeError(
            f"{argument} must be a Spark SQL Column or a string (expression in SQL syntax), found "
            f"to be of type {type(value)}"
        )
    return side_of(spark).expression_text(argument, value, rows)


def assignments(argument: str, given: object) -> dict[str, Any]:
    """What columns are to be set to, by their names.

    Raises:
        InvalidOptionError: nothing is.
        WrongTypeError: it is no dict, a name in it no text, or a value neither text nor a column.
    """
    if given is None:
        raise InvalidOptionError(f"{argument} cannot be None: name columns and their new values")
    if not isinstance(given, dict):
        raise WrongTypeError(f"{argument} must be a dict, found to be {type(given)}")
    for name, value in given.items():
        if type(name) is not str:
            raise WrongTypeError(
                f"Keys of dict in {argument} must contain only strings with column names, found "
                f"'{name}' of type '{type(name)}'"
            )
        if not isinstance(value, (str, Column)):
            raise WrongTypeError(
                f"Values of dict in {argument} must contain only Spark SQL Columns or strings "
                f"(expressions in SQL syntax) as values, found '{value}' of type '{type(value)}'"
            )
    return given


def unqualified(text: str, schema: StructType, names: Collection[str], zone: str) -> str:
    """The expression, in which columns are no longer named as those of one of `names`.

    Raises:
        InvalidExpressionError: it cannot be parsed.
    """
    folded = {name.lower() for name in names}
    if not folded:
        return text
    return to_sql(_stripped(parse_expression(text, zone=zone), schema, folded))


def _stripped(node: Node, schema: StructType, names: Collection[str]) -> Node:
    if isinstance(node, ColumnNode):
        path = node.path
        of_table = len(path) > 1 and path[0].lower() in names
        return ColumnNode(path[1:]) if of_table and schema.field(path[1]) is not None else node
    children = children_of(node)
    return with_children(node, tuple(_stripped(each, schema, names) for each in children))
