"""Columns of Spark Connect, which are trees of what a client sends → SQL text."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import functions as f
from pyspark.sql import types as s

from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.translate.identifiers import identifier_parts, quoted
from adelta.spark.versions import SPARK

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Column, DataFrame

__all__ = ["conjuncts_of", "expression_text"]

_OPERATORS = {
    "==": "=", "!=": "!=", "<=>": "<=>", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "and": "AND",
    "or": "OR", "+": "+", "-": "-", "*": "*", "/": "/", "%": "%", "like": "LIKE",
}  # fmt: skip
_BEFORE = {"not": "NOT", "!": "NOT", "negative": "-"}
_BEHIND = {"isnull": "IS NULL", "isnotnull": "IS NOT NULL"}
_OPENS, _CLOSES = ("(", "[", "CASE"), (")", "]", "END")
_EPOCH = datetime(1970, 1, 1)
_NOT_COMPARED = (s.ArrayType, s.DayTimeIntervalType, *SPARK.time_types())


def expression_text(value: Column | str, rows: Callable[[], DataFrame]) -> str:
    """The expression as SQL text; the server is asked about it where adelta cannot parse it.

    Raises:
        ParseException: Spark cannot parse the text.
        InvalidExpressionError: the column is more than an expression over a row.
    """
    sent: Any = value
    return _checked(value if isinstance(value, str) else _connect_sql(sent._expr), value, rows)


def _checked(text: str, value: Column | str, rows: Callable[[], DataFrame]) -> str:
    """The text, about which a server of Spark Connect is asked where adelta cannot parse it."""
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


def conjuncts_of(condition: Column) -> list[str]:
    """The texts of those parts of a condition that AND joins, and that have one.

    Names of columns are as they are written.
    """
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
