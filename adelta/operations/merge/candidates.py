"""Which files a merge has to look at, by what is known of the keys of its source.

A row of the target can only match where each key is among the source's: between the least and the
greatest, or one of a few. Partition values and statistics say of a file whether it may hold such
rows, and so it is known of files that others add meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import (
    FALSE,
    TRUE,
    Comparison,
    In,
    IsNull,
    Literal,
    conjunction,
    disjunction,
    split_conjuncts,
)
from adelta.kernel.schema.types import BINARY, DOUBLE, FLOAT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.keys import JoinKey
    from adelta.operations.merge.names import Sides
    from adelta.operations.merge.plan import BoundClause, MergePlan

__all__ = ["candidate_rows"]


_FEW = 64


class KnownKeys:
    """What is known of the keys of a source, of which it is told batch by batch."""

    def __init__(self, keys: Sequence[JoinKey], sides: Sides) -> None:
        self._keys = keys
        self._sides = sides
        self._values = [_Values(key) for key in keys]
        self._any = False

    def add(self, source: pa.RecordBatch) -> None:
        """Take in source rows.

        Raises:
            InvalidExpressionError: a key cannot be computed.
        """
        if source.num_rows:
            self._any = True
            rows = self._sides.paired(None, source)
            for values in self._values:
                values.add(evaluate(values.key.source, rows))

    def matching(self) -> Node | None:
        """What is true of the target's rows that can match one of the source; None is all."""
        if not self._any:
            return FALSE
        return conjunction(*(v.among(self._sides.alone(v.key.target)) for v in self._values))


def candidate_rows(plan: MergePlan, known: KnownKeys) -> Node | None:
    """What is true, over the target's columns, of all rows that the merge depends on; None is all.

    Raises:
        InvalidExpressionError: a key cannot be computed.
    """
    matching = conjunction(known.matching(), *_of_target(plan, plan.residual))
    if not plan.not_matched and not plan.not_matched_by_source:
        matching = conjunction(matching, _of_clauses(plan, plan.matched))
    if not plan.not_matched_by_source:
        return None if matching == TRUE else matching
    others = _of_clauses(plan, plan.not_matched_by_source)
    if others is None or matching is None:
        return None
    return disjunction(matching, others)


def _of_target(plan: MergePlan, node: Node | None) -> list[Node]:
    """The parts of a condition that ask nothing of the source."""
    parts = split_conjuncts(node)
    return [plan.sides.alone(part) for part in parts if "source" not in plan.sides.sides_of(part)]


def _of_clauses(plan: MergePlan, clauses: Sequence[BoundClause]) -> Node | None:
    """What is true of the target's rows that one of the clauses may take; None is all of them."""
    found = [conjunction(*_of_target(plan, clause.condition)) for clause in clauses]
    known = [each for each in found if each is not None]
    return disjunction(*known) if len(known) == len(found) else None


class _Values:
    """The values of one key: all different ones as long as these are few, and their bounds."""

    def __init__(self, key: JoinKey) -> None:
        self.key = key
        self._few: Any = None
        self._are_few = True
        self._least: Any = None
        self._greatest: Any = None
        self._has_null = self._has_nan = False

    def add(self, values: Any) -> None:
        self._has_null = self._has_null or values.null_count > 0
        values = values.drop_null()
        if self.key.type in (FLOAT, DOUBLE):
            numbers = values.filter(pc.invert(pc.is_nan(values)))
            self._has_nan = self._has_nan or len(numbers) < len(values)
            values = numbers
        if not len(values):
            return
        if self._are_few:
            known = [] if self._few is None else [self._few]
            first = pc.unique(pa.concat_arrays([*known, values.slice(0, 2 * _FEW)]))
            if len(first) <= _FEW:  # else it is soon seen that they are not
                first = pc.unique(pa.concat_arrays([*known, values]))
            self._few, self._are_few = first, len(first) <= _FEW
        bounds = pc.min_max(values)
        least, greatest = bounds["min"], bounds["max"]
        if self._least is not None:
            both = pa.concat_arrays([_one(least), _one(self._least)])
            least = pc.min(both)
            greatest = pc.max(pa.concat_arrays([_one(greatest), _one(self._greatest)]))
        self._least, self._greatest = least, greatest

    def among(self, target: Node) -> Node | None:
        """That an expression is one of the values, or between them; None where it may be any."""
        parts: list[Node | None] = []
        if self.key.null_safe and self._has_null:
            parts.append(IsNull(target))
        if self._least is not None or self._has_nan:
            parts.append(self._between(target))
        found = [part for part in parts if part is not None]
        return disjunction(*found) if len(found) == len(parts) else None

    def _between(self, target: Node) -> Node | None:
        if self._least is None or self.key.type == BINARY:
            return None
        try:
            if self._are_few and not self._has_nan:
                return In(target, tuple(map(self._literal, self._few)))
            parts = [Comparison(">=", target, self._literal(self._least))]
            if not self._has_nan:  # which is greater than any number
                parts.append(Comparison("<=", target, self._literal(self._greatest)))
        except (OverflowError, ValueError):  # dates that Python does not have
            return None
        return conjunction(*parts)

    def _literal(self, value: pa.Scalar[Any]) -> Literal:
        return Literal(value.as_py(), self.key.type)


def _one(value: pa.Scalar[Any]) -> pa.Array[Any]:
    found: pa.Array[Any] = array_of([value.as_py()], value.type)
    return found
