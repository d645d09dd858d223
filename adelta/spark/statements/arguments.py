"""Values for the parameters of a statement, ``:name`` and ``?``, as constants in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, time, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column
from pyspark.sql import functions as f

from adelta.errors import InvalidExpressionError, InvalidOptionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.sql import to_sql
from adelta.spark.rows.expressions import sql_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from adelta.kernel.expressions.lexer import Token

__all__ = ["with_arguments"]


def with_arguments(spark: SparkSession, text: str, args: Any) -> str:
    """The statement, in which constants stand in the place of its parameters.

    Values are those that `spark.sql` takes, and mean what they do there: a `datetime` without a
    zone is of the time zone of this process, a list is an array, and a column an expression.

    Raises:
        InvalidOptionError: there are too few values.
        InvalidExpressionError: a value is none that can be written in a statement.
    """
    if not args:
        return text
    parts: list[str] = []
    at = 0
    for start, end, value in _found(tokenize(text), args):
        parts += [text[at:start], _text(spark, value)]
        at = end
    return "".join((*parts, text[at:]))


def _found(tokens: Sequence[Token], args: Any) -> Iterator[tuple[int, int, Any]]:
    """Where parameters begin and end, and their values."""
    listed = 0
    for token, behind in pairwise(tokens):
        if token.operator == "?" and not isinstance(args, Mapping):
            if listed == len(args):
                raise InvalidOptionError(f"args has no value for the ? at character {token.at + 1}")
            yield token.at, token.at + 1, args[listed]
            listed += 1
        elif token.operator == ":" and isinstance(args, Mapping) and behind.text in args:
            yield token.at, behind.at + len(behind.text), args[behind.text]


def _text(spark: SparkSession, value: Any) -> str:
    """What stands for a value."""
    match value:
        case Column():
            return sql_text(spark, "a value of args", value, lambda: spark.range(1))
        case list():
            return f"array({', '.join(_text(spark, each) for each in value)})"
        case datetime(tzinfo=None):
            value = value.astimezone()
        case timedelta():
            return f"INTERVAL '{_days(value)}' DAY TO SECOND"
        case time():
            return f"TIME '{value.isoformat()}'"
    try:
        return to_sql(literal_of(value))
    except InvalidExpressionError:  # a value of NumPy's perhaps, which Spark knows
        return sql_text(spark, "a value of args", f.lit(value), lambda: spark.range(1))


def _days(value: timedelta) -> str:
    """``[-]d hh:mm:ss.ffffff``."""
    length = abs(value)
    minutes, seconds = divmod(length.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    clock = f"{hours:02}:{minutes:02}:{seconds:02}.{length.microseconds:06}"
    return f"{'-' if value < timedelta() else ''}{length.days} {clock}"
