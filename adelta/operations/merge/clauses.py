"""The clauses of a merge, as they are written: what is to become of which rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from adelta._arguments import check_text
from adelta._dataclasses import dataclass
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.dnf import to_predicate
from adelta.kernel.expressions.literals import literal_of
from adelta.kernel.expressions.nodes import LiteralValue, Node
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql

if TYPE_CHECKING:
    from datetime import datetime

    from adelta.kernel.expressions.dnf import Where

__all__ = [
    "Action",
    "Clause",
    "ClauseKind",
    "MergeValue",
    "Values",
    "check_clauses",
    "said_of",
    "values_of",
]

ClauseKind = Literal["matched", "not_matched", "not_matched_by_source"]
Action = Literal["update", "delete", "insert"]
MergeValue = LiteralValue | Node
"""Text is a Spark SQL expression, or the word DEFAULT; a node one parsed; all else is a value."""
Values: TypeAlias = "tuple[tuple[str, Node], ...]"
"""What a clause gives columns, by their names as they are written."""


@dataclass(frozen=True, slots=True)
class Clause:
    """One WHEN clause; `values` are by column as they are written, None stands for ``*``."""

    kind: ClauseKind
    action: Action
    condition: Node | None = None
    values: Values | None = None

    @classmethod
    def of(
        cls,
        kind: ClauseKind,
        action: Action,
        condition: Where | None,
        values: Values | None,
        zone: str,
        now: datetime,
    ) -> Clause:
        """The clause of this condition, in which times that name no zone are of `zone`.

        Raises:
            InvalidExpressionError: the condition cannot be parsed.
        """
        return cls(kind, action, to_predicate(condition, zone=zone, now=now), values)

    @property
    def shown(self) -> str:
        """What messages call it."""
        return f"WHEN {self.kind.upper().replace('_', ' ')} THEN {self.action.upper()}"


def values_of(argument: str, values: object, zone: str, now: datetime) -> Values:
    """The values that a clause gives columns, each an expression.

    Raises:
        InvalidOptionError: these are no columns with values, or none.
        InvalidExpressionError: an expression cannot be parsed.
    """
    if not isinstance(values, Mapping):
        raise InvalidOptionError(
            f"{argument} is {values!r:.100}; pass a dict of columns and their values"
        )
    for name in values:
        check_text(f"a column of {argument}", name)
    if not values:
        raise InvalidOptionError(f"{argument} is empty; name a column and its value")
    return tuple((name, _expression(value, zone, now)) for name, value in values.items())


def _expression(value: Any, zone: str, now: datetime) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, str):
        return parse_expression(value, zone=zone, now=now)
    return literal_of(value)


def check_clauses(clauses: Sequence[Clause]) -> None:
    """Refuse clauses of which one can never apply, and a merge without any.

    Raises:
        InvalidOptionError: there is such a clause, or none at all.
    """
    if not clauses:
        raise InvalidOptionError(
            "the merge has no clause; say what becomes of rows, such as by "
            "when_matched_update_all() or when_not_matched_insert_all()",
            reason="merge_without_clause",
        )
    open_ended: dict[str, Clause] = {}
    for clause in clauses:
        before = open_ended.get(clause.kind)
        if before is not None:
            raise InvalidOptionError(
                f"the clause {clause.shown} comes after {before.shown}, which has no condition and "
                "takes all of these rows; give every clause of a kind but the last a condition",
                reason=f"{clause.kind}_clause_never_applies",
            )
        if clause.condition is None:
            open_ended[clause.kind] = clause


def said_of(on: Node, clauses: Sequence[Clause]) -> dict[str, Any]:
    """What the history says of a merge, by the names that Delta Spark has for it."""
    kinds: dict[ClauseKind, str] = {
        "matched": "matchedPredicates",
        "not_matched": "notMatchedPredicates",
        "not_matched_by_source": "notMatchedBySourcePredicates",
    }
    said = {
        name: [_said(each) for each in clauses if each.kind == kind] for kind, name in kinds.items()
    }
    return {"predicate": [to_sql(on)], **said}


def _said(clause: Clause) -> dict[str, str]:
    predicate = {} if clause.condition is None else {"predicate": to_sql(clause.condition)}
    return {**predicate, "actionType": clause.action}
