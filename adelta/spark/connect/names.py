"""Which columns of a table an expression names that a client of Spark Connect sends.

What is sent of a column is a tree of messages, in which names stand as they were written, and SQL
as text. Only Spark resolves them, so what is found here is what they may name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from adelta.errors import InvalidExpressionError, InvalidOptionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.spark.translate.identifiers import identifier_parts

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from adelta.kernel.expressions.lexer import Token

__all__ = ["names_sent"]

_UNSETTLED = {
    "rand",
    "randn",
    "random",
    "randstr",
    "uniform",
    "uuid",
    "shuffle",
    "monotonically_increasing_id",
    "spark_partition_id",
    "input_file_name",
    "over",
}
"""Functions that are another value whenever they are computed, or are about more than one row."""
_QUOTED_NAMES = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
_FUNCTIONS = ("UnresolvedFunction", "CallFunction")
_OF_UNKNOWN_NAMES = (
    "UnresolvedStar",
    "UnresolvedRegex",
    "SubqueryExpression",
    "TypedAggregateExpression",
    "MergeAction",
    "Any",
)
"""Messages that may be about any column, or hold what cannot be looked into."""


def names_sent(
    rows: DataFrame, columns: Sequence[Column], table: DataFrame, name: str
) -> tuple[set[int], bool]:
    """The places of a table's columns that others may name, and whether these settle.

    `rows` are those that the columns are about, in which the table is called `name`. A column
    settles where it is the same whenever it is computed, and about one row.
    """
    remote: Any = rows.sparkSession
    sent = _Sent(remote, [each.lower() for each in table.columns], name.lower())
    for column in columns:
        plan: Any = column.to_plan(remote.client)  # type: ignore[operator]
        sent.look_into(plan)
    settled = sent.settled and _is_deterministic(rows, columns)
    return sent.places if sent.are_known else set(range(len(table.columns))), settled


def _is_deterministic(rows: DataFrame, columns: Sequence[Column]) -> bool:
    """What Spark says, which takes nothing else as the condition of a join."""
    another = rows.sparkSession.range(1).toDF("a row of something else")
    try:
        _ = rows.join(another, f.struct(*columns).isNull()).schema
    except AnalysisException as error:
        return error.getCondition() != "INVALID_NON_DETERMINISTIC_EXPRESSIONS"
    return True


class _Sent:
    """What expressions name, of the columns of a table."""

    def __init__(self, spark: SparkSession, columns: list[str], name: str) -> None:
        self._spark = spark
        self._columns = columns
        self._name = name
        self.places: set[int] = set()
        self.are_known = True
        self.settled = True

    def look_into(self, message: Any) -> None:
        """Take in what a message, and those in it, name."""
        kind = message.DESCRIPTOR.name
        if kind == "Literal":
            return
        if kind == "UnresolvedAttribute":
            self._name_written(message.unparsed_identifier)
        elif kind == "ExpressionString":
            self._text(message.expression)
        elif kind in _FUNCTIONS:
            self._call(message.function_name)
        elif kind in _OF_UNKNOWN_NAMES:
            self.are_known = False
        elif kind == "Window":
            self.settled = False
        elif kind == "CommonInlineUserDefinedFunction":
            self.settled = self.settled and message.deterministic
        for field, value in message.ListFields():
            if field.message_type is None:
                continue
            if hasattr(value, "DESCRIPTOR"):
                self.look_into(value)
            else:
                for each in value:
                    self.look_into(each)

    def _call(self, name: str) -> None:
        name = name.lower().strip("`")
        self.settled = self.settled and name not in _UNSETTLED
        self.are_known = self.are_known and name != "identifier"

    def _name_written(self, text: str) -> None:
        try:
            self._named(identifier_parts(text))
        except InvalidOptionError:
            self.are_known = False

    def _text(self, text: str) -> None:
        try:
            tokens = tokenize(text)
        except InvalidExpressionError:
            self.are_known = False
            return
        if "${" in text:  # in whose place Spark puts the value of a setting
            self.are_known = False
        for place, token in enumerate(tokens):
            if token.operator == "*" and _is_star(tokens, place):
                self.are_known = False
            if token.text[:1] == '"' and self._quotes_names:
                self._named([token.text[1:-1].replace('""', '"')])
        for parts, called in _names(tokens):
            if called:
                self._call(parts[-1])
            else:
                self._named(parts)

    @property
    def _quotes_names(self) -> bool:
        """Whether double quotes are around names, as in standard SQL."""
        said = (str(self._spark.conf.get(each)).lower() for each in _QUOTED_NAMES)
        return all(each == "true" for each in said)

    def _named(self, parts: Sequence[str]) -> None:
        """Take in a name: of a column, or a field in it, after the table's or not."""
        first, *others = map(str.lower, parts)
        if others and first == self._name and others[0] in self._columns:
            first = others[0]
        self.places |= {place for place, each in enumerate(self._columns) if each == first}


def _is_star(tokens: Sequence[Token], place: int) -> bool:
    """Whether it stands for columns: not for a product, nor the rows of `count`, or a query's."""
    before = tokens[place - 1].operator if place else ""
    if before == "(" and place > 1 and tokens[place - 2].upper == "COUNT":
        return False
    return before in ("(", ",", ".")


def _names(tokens: Sequence[Token]) -> Iterator[tuple[tuple[str, ...], bool]]:
    """The names in a text, and whether each is a function's; not those of fields of values."""
    place = 0
    while place < len(tokens):
        if tokens[place].kind not in ("word", "quoted"):
            place += 1
            continue
        begin = place
        parts = [_part(tokens[place])]
        while tokens[place + 1].operator == "." and tokens[place + 2].kind in ("word", "quoted"):
            place += 2
            parts.append(_part(tokens[place]))
        place += 1
        if not begin or tokens[begin - 1].operator != ".":
            yield tuple(parts), tokens[place].operator == "("


def _part(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text
