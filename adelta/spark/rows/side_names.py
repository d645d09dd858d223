"""What the columns of a change's sides are called in expressions → what they are called in it.

Spark knows a column by the DataFrame that it was taken from, and by any part of the full name that
it got where its table was named: ``s.id`` is one still after ``source.alias("s").withColumn(...)``.
A change knows a side by one name. So each expression is put into those names before it is looked
at: a side's name, and the column's.
"""

from __future__ import annotations

from collections import Counter
from copy import deepcopy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.utils import is_remote

from adelta.errors import AmbiguousColumnError, InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.schema.names import apart
from adelta.spark.classic import jvm
from adelta.spark.connect.columns import origins_of
from adelta.spark.translate.identifiers import identifier_parts, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from adelta.kernel.expressions.lexer import Token
    from adelta.spark.connect.columns import Origin

__all__ = ["Side", "in_names_of", "qualifiers", "sole_qualifier"]

_Name = tuple[str, ...]
_QUALIFIERS = 3  # parts that may stand before a column's name: catalog, schema, table


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
        self._frame = frame
        self._others = others
        self._full_name = _folded(full_name)
        given = frame.columns
        self.columns = apart(given)
        self._times = Counter(map(str.lower, given))

    @property
    def frames(self) -> tuple[DataFrame, ...]:
        """All DataFrames the columns of which are meant."""
        return (self._frame, *self._others)

    def called(self, column: Iterable[str]) -> _Name:
        """A column, or a field of one, under the side's name."""
        return (*(() if self.name is None else (self.name,)), *column)

    def all_called(self, frame: DataFrame) -> list[_Name]:
        """The columns of one of the frames."""
        columns = self.columns if frame is self._frame else frame.columns
        return [self.called((column,)) for column in columns]

    def has(self, column: str) -> bool:
        """Whether there is such a column."""
        return column.lower() in self._times

    def check_one(self, column: str) -> None:
        """Refuse the name of two columns.

        Raises:
            AmbiguousColumnError: there are two.
        """
        if self._times[column.lower()] > 1:
            raise AmbiguousColumnError(
                f"{self.name}.{column} may be one or another column of the DataFrame that the rows "
                "are of: name it by what was joined, or give one of them another name"
            )

    def found(self, parts: _Name) -> _Name | None:
        """What a name of several parts means here; None where it means nothing, or two columns."""
        for length in range(min(_QUALIFIERS, len(parts) - 1), 0, -1):
            if self.has(parts[length]):
                column = self._column(parts, length)
                if column is not None:
                    return self.called((column, *parts[length + 1 :]))
        return None

    def _column(self, parts: _Name, length: int) -> str | None:
        """The column that a name's first parts mean, of which `length` stand before its own."""
        before, column = _folded(parts[:length]), parts[length]
        if self._full_name[-length:] == before:
            return column
        if not is_remote():
            found = self._suffixes.get((*before, column.lower()), set())
            return next(iter(found)) if len(found) == 1 else None
        if self.has(parts[0]):  # a field of one
            return None
        if self._times[column.lower()] > 1:
            return self._remote_column(
                column, lambda each: (each.before or "").lower() == before[-1]
            )
        try:
            _ = self._frame.select(f.col(quoted(parts[: length + 1]))).schema
        except AnalysisException:
            return None
        return column

    def of_plan(self, parts: _Name, number: int) -> _Name:
        """A column that the DataFrame of a plan of Spark Connect's gave.

        Raises:
            AmbiguousColumnError: it may be one or another.
        """
        if self._times[parts[0].lower()] < 2:
            return self.called(parts)
        column = self._remote_column(parts[0], lambda each: number in each.plans)
        if column is None:
            self.check_one(parts[0])
            return self.called(parts)
        return self.called((column, *parts[1:]))

    def _remote_column(self, name: str, is_meant: Callable[[Origin], bool]) -> str | None:
        """The one of several columns of a name that is meant; None where that is not known."""
        found = [
            column
            for each, column in zip(self._origins, self.columns, strict=True)
            if each.name.lower() == name.lower() and is_meant(each)
        ]
        return found[0] if len(found) == 1 else None

    @cached_property
    def _origins(self) -> list[Origin]:
        return origins_of(self._frame)

    @cached_property
    def _suffixes(self) -> dict[_Name, set[str]]:
        """The columns by what may stand for them: their names with some parts before them."""
        found: dict[_Name, set[str]] = {}
        for full, column in zip(jvm.full_names(self._frame), self.columns, strict=True):
            for length in range(2, min(_QUALIFIERS + 1, len(full)) + 1):
                found.setdefault(_folded(full[-length:]), set()).add(column)
        return found


def in_names_of(asked: Callable[[], Sequence[Side]], value: Any) -> Any:
    """The text or column, whose columns bear the names of the sides that they are of.

    What is no name of one side's, or is one of two, stays as it is.
    """
    if isinstance(value, str):
        return _text_in_names_of(asked(), value) if "." in value else value
    if not isinstance(value, Column):
        return value
    sides = asked()
    if hasattr(value, "_jc"):

        def columns() -> list[tuple[DataFrame, list[_Name]]]:
            return [(frame, side.all_called(frame)) for side in sides for frame in side.frames]

        return jvm.renamed(value, lambda parts: _named(sides, parts), columns)
    return _connects_in_names_of(sides, value)


def sole_qualifier(df: DataFrame) -> str | None:
    """What the columns of a DataFrame have before their names, where that is one name."""
    plan: Any = getattr(df, "_plan", None)
    if plan is None:
        found = {full[-2] for full in jvm.full_names(df) if len(full) > 1}
        return found.pop() if len(found) == 1 else None
    while plan is not None:
        match type(plan).__name__:
            case "SubqueryAlias":
                alias: str = plan._alias
                return alias
            case "Read":
                return identifier_parts(plan.table_name)[-1]
            case "Join" | "AsOfJoin" | "LateralJoin" | "SetOperation":
                return None
        plan = plan._child
    return None


def qualifiers(df: DataFrame) -> set[str]:
    """What columns of a DataFrame have right before their names; through Connect perhaps more."""
    if not hasattr(df, "_plan"):
        return {full[-2] for full in jvm.full_names(df) if len(full) > 1}
    found, below = set[str](), [df._plan]
    while below:
        plan: Any = below.pop()
        if type(plan).__name__ == "SubqueryAlias":
            found.add(plan._alias)
        elif type(plan).__name__ == "Read":
            found.add(identifier_parts(plan.table_name)[-1])
        below += _plans_below(plan)
    return found


def _plans_below(plan: Any) -> list[Any]:
    plans = (plan._child, getattr(plan, "right", None), getattr(plan, "other", None))
    return [each for each in plans if each is not None]


def _named(sides: Sequence[Side], parts: _Name) -> _Name | None:
    if len(parts) < 2:
        return None
    for side in sides:
        if side.name is not None and parts[0].lower() == side.name.lower() and side.has(parts[1]):
            side.check_one(parts[1])
            return None
    found = [name for side in sides if (name := side.found(parts)) is not None]
    return found[0] if len(found) == 1 else None


def _text_in_names_of(sides: Sequence[Side], text: str) -> str:
    try:
        tokens = tokenize(text)
    except InvalidExpressionError:
        return text  # of which whoever parses it says what is wrong
    parts, at = [], 0
    for start, end, name in _names_in(tokens):
        called = _named(sides, name)
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


def _connects_in_names_of(sides: Sequence[Side], column: Column) -> Column:
    plans = {
        number: side
        for side in reversed(sides)  # a column that the table gave is the table's
        for df in side.frames
        for number in _plan_ids(df)
    }
    sent: Any = column

    def name(expression: Any) -> None:
        if (text := getattr(expression, "_unparsed_identifier", None)) is not None:
            if type(expression).__name__ != "ColumnReference":
                return
            parts = identifier_parts(text)
            side = plans.get(expression._plan_id)
            called = (
                _named(sides, parts) if side is None else side.of_plan(parts, expression._plan_id)
            )
            if called is not None:
                expression._unparsed_identifier = quoted(called)
                expression._plan_id = None
        elif type(expression).__name__ == "SQLExpression":
            expression._expr = _text_in_names_of(sides, expression._expr)

    expression = deepcopy(sent._expr)
    expression.foreach(name)
    made: Any = type(sent)
    found: Column = made(expression)
    return found


def _plan_ids(df: DataFrame) -> Iterator[int]:
    """The numbers of the plans that a DataFrame of Spark Connect's is made of."""
    below: list[Any] = [df._plan] if getattr(df, "_plan", None) is not None else []
    while below:
        plan = below.pop()
        yield plan._plan_id
        below += _plans_below(plan)


def _folded(parts: Iterable[str]) -> _Name:
    return tuple(part.lower() for part in parts)
