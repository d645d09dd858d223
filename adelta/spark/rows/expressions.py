"""Conditions and values that users give as text or as columns → Spark SQL text over a table."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql import types as s
from pyspark.sql.utils import is_remote

from adelta.errors import InvalidExpressionError, InvalidOptionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import Column as ColumnNode
from adelta.kernel.expressions.nodes import children_of, with_children
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.classic import jvm
from adelta.spark.exceptions import WrongTypeError
from adelta.spark.translate.identifiers import identifier_parts, quoted
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from pyspark.sql import DataFrame

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType

__all__ = ["assignments", "conjuncts_of", "sql_text", "unqualified"]

_OPERATORS = {
    "==": "=", "!=": "!=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND",
    "or": "OR", "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "like": "LIKE",
}  # fmt: skip
_BEFORE = {"not": "NOT", "!": "NOT", "negative": "-"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_OPENS, _CLOSES = ("(", "[", "CASE"), (")", "]", "END")
_EPOCH = datetime(1970, 1, 1)
_NOT_COMPARED = (s.ArrayType, s.DayTimeIntervalType, *SPARK.time_types())


def sql_text(argument: str, value: object, rows: Callable[[], DataFrame]) -> str:
    """The expression as text; `rows` are those of the table that it is about.

    Raises:
        WrongTypeError: it is neither text nor a column.
        ParseException: Spark cannot parse the text.
        InvalidOptionError: it is a column of a session whose columns cannot be looked into.
        InvalidExpressionError: the column is more than an expression over a row.
    """
    if isinstance(value, str):
        jvm.check_expression(value)
        return _checked(value, value, rows)
    if not isinstance(value, Column):
        raise WrongTypeError(
            f"{argument} must be a Spark SQL Column or a string (expression in SQL syntax), found "
            f"to be of type {type(value)}"
        )
    if hasattr(value, "_jc"):
        df = rows()
        if (reason := jvm.unusable(df.sparkSession)) is not None:
            raise InvalidOptionError(f"{argument} is a column, and {reason}; write it as SQL text")
        return jvm.sql_of(df, value)
    connects: Any = value
    return _checked(_connect_sql(connects._expr), value, rows)


def _checked(text: str, value: Column | str, rows: Callable[[], DataFrame]) -> str:
    """The text, about which a server of Spark Connect is asked where adelta cannot parse it."""
    if not is_remote():
        return text
    try:
        parse_expression(text)
    except InvalidExpressionError:
        column = f.expr(value) if isinstance(value, str) else value
        try:
            _ = rows().sparkSession.range(0).select(column).schema
        except ParseException:
            raise
        except AnalysisException:
            pass  # it parses, over columns that are not there
    return text


def conjuncts_of(rows: DataFrame, condition: Column) -> list[str]:
    """The texts of those parts of a condition that AND joins, and that have one.

    Columns bear the names of their tables; through Spark Connect as they are written.
    """
    if hasattr(condition, "_jc"):
        return jvm.conjuncts_of(rows, condition)
    texts: list[str] = []
    sent: Any = condition
    parts = [sent._expr]
    while parts:
        part = parts.pop()
        if getattr(part, "_name", None) == "and":
            parts += part._args
            continue
        if type(part).__name__ == "SQLExpression":
            texts += _texts_of(part._expr)
            continue
        with suppress(InvalidExpressionError):
            texts.append(_connect_sql(part))
    return texts


def _texts_of(text: str) -> list[str]:
    """The parts of a text that AND joins; the text itself where it is one."""
    try:
        tokens = tokenize(text)
    except InvalidExpressionError:
        return [text]
    parts = list[str]()
    begin = depth = between = 0
    for token in tokens:
        word = token.upper
        depth += (word in _OPENS) - (word in _CLOSES)
        if depth:
            continue
        if word in ("OR", "->"):  # which join more than AND does
            return [text]
        if word == "BETWEEN":
            between += 1
        elif word == "AND" and between:
            between -= 1
        elif word == "AND":
            parts.append(text[begin : token.at])
            begin = token.at + len(word)
    return [*parts, text[begin:]]


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


# ------------------------------------------------------------------------------- Spark Connect


def _connect_sql(expression: Any) -> str:
    """The text of an expression of Spark Connect's, which only names what it is made of."""
    match type(expression).__name__:
        case "ColumnReference":
            return quoted(identifier_parts(expression._unparsed_identifier))
        case "LiteralExpression":
            return _literal(expression._value, expression._dataType)
        case "SQLExpression":
            return f"({expression._expr})"
        case "ColumnAlias":
            return _connect_sql(expression._child)
        case "CastExpression":
            to = expression._data_type
            name = to if isinstance(to, str) else to.simpleString()
            verb = "TRY_CAST" if expression._eval_mode == "try" else "CAST"
            return f"{verb}({_connect_sql(expression._expr)} AS {name})"
        case "CaseWhen":
            branches = [
                f"WHEN {_connect_sql(when)} THEN {_connect_sql(then)}"
                for when, then in expression._branches
            ]
            if expression._else_value is not None:
                branches.append(f"ELSE {_connect_sql(expression._else_value)}")
            return f"CASE {' '.join(branches)} END"
        case "UnresolvedFunction" if not expression._is_distinct:
            return _call(expression._name, [_connect_sql(each) for each in expression._args])
    raise InvalidExpressionError(
        f"the column {expression} is more than adelta computes for a row of a table; write it as "
        "SQL text, or compute it in a DataFrame"
    )


def _call(name: str, arguments: list[str]) -> str:
    folded = name.lower()
    if folded in _OPERATORS and len(arguments) == 2:
        return f"({arguments[0]} {_OPERATORS[folded]} {arguments[1]})"
    if folded in _BEFORE and len(arguments) == 1:
        return f"({_BEFORE[folded]} {arguments[0]})"
    if folded in _BEHIND and len(arguments) == 1:
        return f"({arguments[0]} {_BEHIND[folded]})"
    if folded == "in":
        return f"({arguments[0]} IN ({', '.join(arguments[1:])}))" if arguments[1:] else "false"
    return f"{name}({', '.join(arguments)})"


def _literal(value: Any, data_type: s.DataType) -> str:
    """The text of a constant, which Spark Connect holds as Spark's inside does."""
    match data_type:
        case _ if value is None:
            return "NULL"
        case s.DateType():
            value = s.DateType().fromInternal(value)
        case s.TimestampType():
            value = (_EPOCH + timedelta(microseconds=value)).replace(tzinfo=UTC)
        case s.TimestampNTZType():
            value = _EPOCH + timedelta(microseconds=value)
        case _ if isinstance(data_type, _NOT_COMPARED):
            raise InvalidExpressionError(
                f"a constant of type {data_type.simpleString()} is none that adelta compares with; "
                "write the condition in another way"
            )
    return to_sql(literal_of(bytes(value) if isinstance(value, bytearray) else value))
