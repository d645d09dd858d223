"""The rows that the clauses of a merge make: target rows that are updated, and new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._dataclasses import dataclass
from adelta.kernel.expressions.compute import evaluate
from adelta.operations.nested_values import value_of

if TYPE_CHECKING:
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.assigned_rows import AssignedRows
    from adelta.operations.nested_values import Assigned

__all__ = ["Insertion", "Update"]


@dataclass(frozen=True, slots=True)
class Update:
    """What an UPDATE clause makes of rows: `values` by column of the target."""

    values: tuple[tuple[str, Assigned], ...]
    assigned: AssignedRows

    def apply(self, rows: pa.RecordBatch, paired: pa.RecordBatch) -> pa.RecordBatch:
        """`rows` of the target, updated; `paired` are the same beside what they match.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            SchemaMismatchError: a column cannot hold a value.
        """
        values = {name: value_of(value, paired) for name, value in self.values}
        return self.assigned.apply(rows, values)


@dataclass(frozen=True, slots=True)
class Insertion:
    """What an INSERT clause makes of source rows; the table fills the other columns."""

    values: tuple[tuple[str, Node], ...]

    def apply(self, paired: pa.RecordBatch) -> pa.RecordBatch:
        """New rows with the columns that have values.

        Raises:
            InvalidExpressionError: a value cannot be computed.
        """
        arrays = [evaluate(value, paired) for _, value in self.values]
        return pa.RecordBatch.from_arrays(arrays, [name for name, _ in self.values])
