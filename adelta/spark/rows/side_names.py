"""What the columns of a change's sides are called in expressions → what they are called in it.

Spark knows a column by the DataFrame that it was taken from, and by any part of the full name that
it got where its table was named: ``s.id`` is one still after ``source.alias("s").withColumn(...)``.
A change knows a side by one name. So each expression is put into those names before it is looked
at: a side's name, and the column's.
"""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column

from adelta.errors import AmbiguousColumnError, InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.schema.names import apart
from adelta.spark.side import side_of
from adelta.spark.translate.identifiers import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from adelta.kernel.expressions.lexer import Token

__all__ = ["QUALIFIERS", "Side", "called_in", "folded", "in_names_of", "text_in_names_of"]

_Name = tuple[str, ...]
QUALIFIERS = 3  # parts that may stand before a column's name: catalog, schema, table


class Side:
    """A table of a change.

    `name` is what the change calls it, and stands before the names of its columns; None where they
    have nothing before them. Its columns are those of `frame`, under `columns`, which differ; those
    of `others` are meant by them, too. `full_name` is the table's in the session.
    """

    def __init__(
        self,
        name: str | None,
        frame: DataFrame,
        others: Iterable[DataFrame] = (),
        full_name: _Name = (),
    ) -> None:
        self.name = name
        self.frame = frame
        self._others = others
        self._full_name = folded(full_name)
        given = frame.columns
        self.columns = apart(given)
        self.times = Counter(map(str.lower, given))

    @property
    def frames(self) -> tuple[DataFrame, ...]:
        """All DataFrames the columns of which are meant."""
        return (self.frame, *self._others)

    def called(self, column: Iterable[str]) -> _Name:
        """A column, or a field of one, under the side's name."""
        return (*(() if self.name is None else (self.name,)), *column)

    def all_called(self, frame: DataFrame) -> list[_Name]:
        """The columns of one of the frames."""
        columns = self.columns if frame is self.frame else frame.columns
        return [self.called((column,)) for column in columns]

    def has(self, column: str) -> bool:
        """Whether there is such a column."""
        return column.lower() in self.times

    def check_one(self, column: str) -> None:
        """Refuse the name of two columns.

        Raises:
            AmbiguousColumnError: there are two.
        """
        if self.times[column.lower()] > 1:
            raise AmbiguousColumnError(
                f"{self.name}.{column} may be one or another column of the DataFrame that the rows "
                "are of: name it by what was joined, or give one of them another name"
            )

    def found(self, parts: _Name) -> _Name | None:
        """What a name of several parts means here; None where it means nothing, or two columns."""
        for length in range(min(QUALIFIERS, len(parts) - 1), 0, -1):
            if self.has(parts[length]):
                column = self._column(parts, length)
                if column is not None:
                    return self.called((column, *parts[length + 1 :]))
        return None

    def _column(self, parts: _Name, length: int) -> str | None:
        """The column that a name's first parts mean, of which `length` stand before its own."""
        if self._full_name[-length:] == folded(parts[:length]):
            return parts[length]
        return side_of(self.frame.sparkSession).column_meant(self, parts, length)

    @cached_property
    def origins(self) -> Any:
        """Where the columns come from, as the session's side knows it."""
        return side_of(self.frame.sparkSession).column_origins(self.frame)


def in_names_of(asked: Callable[[], Sequence[Side]], value: Any) -> Any:
    """The text or column, whose columns bear the names of the sides that they are of.

    What is no name of one side's, or is one of two, stays as it is.
    """
    if isinstance(value, str):
        return text_in_names_of(asked(), value) if "." in value else value
    if not isinstance(value, Column):
        return value
    sides = asked()
    return side_of(sides[0].frame.sparkSession).in_names_of(sides, value)


def called_in(sides: Sequence[Side], parts: _Name) -> _Name | None:
    """What a change calls a column; None where it is no column of one of the sides."""
    if len(parts) < 2:
        return None
    for side in sides:
        if side.name is not None and parts[0].lower() == side.name.lower() and side.has(parts[1]):
            side.check_one(parts[1])
            return None
    found = [name for side in sides if (name := side.found(parts)) is not None]
    return found[0] if len(found) == 1 else None


def text_in_names_of(sides: Sequence[Side], text: str) -> str:
    """SQL text, whose columns bear the names of the sides that they are of."""
    try:
        tokens = tokenize(text)
    except InvalidExpressionError:
        return text  # of which whoever parses it says what is wrong
    parts, at = [], 0
    for start, end, name in _names_in(tokens):
        called = called_in(sides, name)
        if called is not None:
            parts += [text[at:start], quoted(called)]
            at = end
    return "".join((*parts, text[at:]))


def _names_in(tokens: Sequence[Token]) -> Iterator[tuple[int, int, _Name]]:
    """Where names of several parts begin and end, and their parts."""
    at = 0
    while at < len(tokens):
        begin, parts = at, []
        while tokens[at].kind in ("word", "quoted"):
            parts.append(_part(tokens[at]))
            if tokens[at + 1].operator != "." or tokens[at + 2].kind not in ("word", "quoted"):
                break
            at += 2
        if len(parts) > 1 and tokens[at + 1].operator != "(":
            yield tokens[begin].at, tokens[at].at + len(tokens[at].text), tuple(parts)
        at += 1


def _part(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def folded(parts: Iterable[str]) -> _Name:
    """The parts of a name in lower case."""
    return tuple(part.lower() for part in parts)
