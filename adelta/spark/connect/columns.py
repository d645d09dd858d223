"""Where the columns of a DataFrame of Spark Connect's come from, by the plan that its client has.

Spark's server knows, and is asked by names alone: of two columns of one name it tells neither.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["Origin", "origins_of"]

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
