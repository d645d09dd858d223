"""``table_changes('name', 1, 5)`` in a statement, which stands for a DataFrame of these changes."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from adelta._chance import new_uuid
from adelta.errors import InvalidExpressionError, InvalidStatementError
from adelta.kernel.expressions.lexer import tokenize, unescape
from adelta.spark.options.hadoop_conf import prefixed, storage_of_session
from adelta.spark.options.read_write import absolute_uri
from adelta.spark.tables.access import load
from adelta.spark.tables.names import location_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from adelta.kernel.expressions.lexer import Token

__all__ = ["views_of", "with_changes", "with_frames"]

_NAMED, _AT_PATH = "TABLE_CHANGES", "TABLE_CHANGES_BY_PATH"
_MOST_ARGUMENTS = 3


def with_changes(spark: SparkSession, text: str) -> tuple[str, dict[str, DataFrame]]:
    """The statement, in which names stand for changes of tables, and what these are.

    ``table_changes`` is given the name of a table, ``table_changes_by_path`` its path; then the
    first version or time, and perhaps the last one.

    Raises:
        InvalidStatementError: what a function is given is not that.
        TableNotFoundError: there is no such table.
    """
    if _NAMED not in text.upper():
        return text, {}
    try:
        tokens = tokenize(text)
    except InvalidExpressionError:
        return text, {}  # of which Spark says what is wrong
    parts: list[str] = []
    changes: dict[str, DataFrame] = {}
    at = 0
    for index, token in enumerate(tokens):
        if token.upper in (_NAMED, _AT_PATH) and tokens[index + 1].operator == "(":
            given, end = _arguments(tokens, index + 2)
            name = f"adelta_changes_{new_uuid().hex}"
            changes[name] = _changes(spark, token.upper, given)
            parts += [text[at : token.at], name]
            at = end
    return "".join((*parts, text[at:])), changes


def with_frames(
    spark: SparkSession, text: str, frames: Mapping[str, Any]
) -> tuple[str, dict[str, DataFrame]]:
    """A statement for a session of Spark Connect's, and the DataFrames in it by their names there.

    In it a name stands for each ``{name}`` that is a DataFrame, and a constant for other values.
    """
    from pyspark.sql.connect.sql_formatter import SQLStringFormatter  # which needs grpc

    session: Any = spark
    formatter = SQLStringFormatter(session)
    written = formatter.format(text, **frames)
    given: dict[str, Any] = {name: frame for frame, name in formatter._temp_views}
    return written, given


@contextmanager
def views_of(spark: SparkSession, changes: Mapping[str, DataFrame]) -> Iterator[None]:
    """Let the session know DataFrames by their names, as long as a statement is run."""
    try:
        for name, rows in changes.items():
            rows.createOrReplaceTempView(name)
        yield
    finally:
        for name in changes:
            spark.catalog.dropTempView(name)


def _arguments(tokens: Sequence[Token], index: int) -> tuple[list[str | int], int]:
    """What stands between parentheses, and where they end."""
    given: list[str | int] = []
    for place in range(_MOST_ARGUMENTS):
        token = tokens[index + 2 * place]
        if token.kind in ("string", "raw"):
            given.append(unescape(token))
        elif token.text.isdigit() and place:
            given.append(int(token.text))
        else:
            break
        behind = tokens[index + 2 * place + 1]
        if behind.operator == ")" and place:
            return given, behind.at + 1
        if behind.operator != ",":
            break
    raise InvalidStatementError(
        "table_changes takes the name of a table in quotes, and the first version or time, and "
        "perhaps the last one, such as table_changes('events', 3, 7)",
        position=tokens[index].at,
    )


def _changes(spark: SparkSession, function: str, given: Sequence[str | int]) -> DataFrame:
    name = str(given[0])
    place = absolute_uri(name if function == _AT_PATH else location_of(spark, name)[0])
    options = {**prefixed(storage_of_session(spark, place)), "path": place}
    options["readChangeFeed"] = "true"
    for end, value in zip(("starting", "ending"), given[1:], strict=False):
        options[f"{end}{'Version' if isinstance(value, int) else 'Timestamp'}"] = str(value)
    return load(spark, options)
