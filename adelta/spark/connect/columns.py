"""Where the columns of a DataFrame of Spark Connect's come from, by the plan that its client has.

Spark's server knows, and is asked by names alone: of two columns of one name it tells neither.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from adelta._dataclasses import dataclass
from adelta.spark.rows.side_names import called_in, text_in_names_of
from adelta.spark.translate.identifiers import identifier_parts, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from adelta.spark.rows.side_names import Side

__all__ = ["Origin", "column_meant", "in_names_of", "origins_of", "qualifiers", "sole_qualifier"]

_SAME_COLUMNS = frozenset(
    (
        "CollectMetrics", "Deduplicate", "Filter", "Hint", "Limit", "NADrop", "Offset",
        "Repartition", "RepartitionByExpression", "Sample", "Sort", "Tail", "WithWatermark",
    )
)  # fmt: skip
_OF_LEFT = ("JOIN_TYPE_LEFT_SEMI", "JOIN_TYPE_LEFT_ANTI")
_OF_BOTH = ("JOIN_TYPE_INNER", "JOIN_TYPE_LEFT_OUTER")


@dataclass(frozen=True, slots=True)
class Origin:
    """A column: its name, what may stand before that, and the plans that have it."""

    name: str
    before: str | None = None
    plans: frozenset[int] = frozenset()


def origins_of(df: DataFrame) -> list[Origin]:
    """The columns of a DataFrame, in their order."""
    sent: Any = df
    return _of(sent._plan, sent._session)


def _of(plan: Any, session: Any) -> list[Origin]:
    kind = type(plan).__name__
    if kind in _SAME_COLUMNS:
        found = _of(plan._child, session)
    elif kind == "SubqueryAlias":
        found = [replace(each, before=plan._alias) for each in _of(plan._child, session)]
    elif kind == "Join":
        found = _joined(plan, session) or _as_named(plan, session)
    else:
        found = _as_named(plan, session)
    return [replace(each, plans=each.plans | {plan._plan_id}) for each in found]


def _as_named(plan: Any, session: Any) -> list[Origin]:
    from pyspark.sql.connect.dataframe import DataFrame as RemoteFrame  # which needs grpc

    return [Origin(name) for name in RemoteFrame(plan, session).columns]


def _joined(plan: Any, session: Any) -> list[Origin] | None:
    """The columns of a join; None where some are made of those of both sides."""
    from pyspark.sql.connect.proto import Join

    how = Join.JoinType.Name(plan.how)
    left = _of(plan.left, session)
    if how in _OF_LEFT:
        return left
    right = _of(plan.right, session)
    on = [plan.on] if isinstance(plan.on, str) else plan.on
    using = [each.lower() for each in on if isinstance(each, str)] if isinstance(on, list) else []
    if not using:
        return left + right
    if how not in _OF_BOTH:
        return None
    shared = [each for name in using for each in left if each.name.lower() == name]
    rest = [each for each in left + right if each.name.lower() not in using]
    return shared + rest


def column_meant(side: Side, parts: tuple[str, ...], length: int) -> str | None:
    """The column that a name means, of which `length` parts stand before the column's own."""
    column = parts[length]
    if side.has(parts[0]):  # a field of one
        return None
    if side.times[column.lower()] > 1:
        before = parts[length - 1].lower()
        return _sole_column(side, column, lambda each: (each.before or "").lower() == before)
    try:
        _ = side.frame.select(f.col(quoted(parts[: length + 1]))).schema
    except AnalysisException:
        return None
    return column


def in_names_of(sides: Sequence[Side], column: Column) -> Column:
    """The column, with references to columns of `sides` by the names that the change uses."""
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
                called_in(sides, parts)
                if side is None
                else _called_by_plan(side, parts, expression._plan_id)
            )
            if called is not None:
                expression._unparsed_identifier = quoted(called)
                expression._plan_id = None
        elif type(expression).__name__ == "SQLExpression":
            expression._expr = text_in_names_of(sides, expression._expr)

    expression = deepcopy(sent._expr)
    expression.foreach(name)
    made: Any = type(sent)
    found: Column = made(expression)
    return found


def _called_by_plan(side: Side, parts: tuple[str, ...], number: int) -> tuple[str, ...]:
    """The name of a column that was taken from the DataFrame of a plan.

    Raises:
        AmbiguousColumnError: it may be one or another.
    """
    if side.times[parts[0].lower()] < 2:
        return side.called(parts)
    column = _sole_column(side, parts[0], lambda each: number in each.plans)
    if column is None:
        side.check_one(parts[0])
        return side.called(parts)
    return side.called((column, *parts[1:]))


def _sole_column(side: Side, name: str, is_meant: Callable[[Origin], bool]) -> str | None:
    """The one of several columns of a name that is meant; None where that is not known."""
    found = [
        column
        for each, column in zip(side.origins, side.columns, strict=True)
        if each.name.lower() == name.lower() and is_meant(each)
    ]
    return found[0] if len(found) == 1 else None


def _plan_ids(df: Any) -> Iterator[int]:
    """The numbers of the plans that a DataFrame is made of."""
    below: list[Any] = [df._plan] if df._plan is not None else []
    while below:
        plan = below.pop()
        yield plan._plan_id
        below += _plans_below(plan)


def sole_qualifier(df: Any) -> str | None:
    """What the columns of a DataFrame have before their names, where that is one name."""
    plan = df._plan
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


def qualifiers(df: Any) -> set[str]:
    """What columns of a DataFrame have right before their names, and perhaps more."""
    found, below = set[str](), [df._plan]
    while below:
        plan = below.pop()
        if type(plan).__name__ == "SubqueryAlias":
            found.add(plan._alias)
        elif type(plan).__name__ == "Read":
            found.add(identifier_parts(plan.table_name)[-1])
        below += _plans_below(plan)
    return found


def _plans_below(plan: Any) -> list[Any]:
    plans = (plan._child, getattr(plan, "right", None), getattr(plan, "other", None))
    return [each for each in plans if each is not None]
