"""The rows that the clauses of a merge make: target rows that are updated, and new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._dataclasses import dataclass
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import Column, Node

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.operations.assigned_rows import AssignedRows

__all__ = ["Assigned", "Insertion", "StructValue", "Update", "nodes_of"]


@dataclass(frozen=True, slots=True)
class StructValue:
    """A struct some of whose fields are set, and the others kept.

    `kept` is the struct as it was, `fields` are the values by field, in the order of the target.
    A struct that was null becomes one, with what is set in it. Where `source` is given, all that is
    set comes of that struct; where it is null, nothing becomes of a struct that keeps no field.
    """

    kept: Column
    fields: tuple[tuple[str, Assigned], ...]
    source: Column | None = None

    def evaluate(self, rows: pa.RecordBatch) -> pa.Array[Any]:
        """The struct for each of `rows`.

        Raises:
            InvalidExpressionError: a value cannot be computed.
        """
        arrays = [value_of(value, rows) for _, value in self.fields]
        names = [name for name, _ in self.fields]
        mask = None
        if self.source is not None:
            mask = pc.is_null(evaluate(self.source, rows))
            if any(value == _field(self.kept, name) for name, value in self.fields):
                mask = pc.and_(mask, pc.is_null(evaluate(self.kept, rows)))
        return pa.StructArray.from_arrays(arrays, names, mask=mask)


Assigned = Node | StructValue
"""What a column or a field is set to."""


def value_of(value: Assigned, rows: pa.RecordBatch) -> pa.Array[Any]:
    """The values for each of `rows`, as `Sides.paired` makes them.

    Raises:
        InvalidExpressionError: a value cannot be computed.
    """
    return value.evaluate(rows) if isinstance(value, StructValue) else evaluate(value, rows)


def nodes_of(value: Assigned) -> Iterator[Node]:
    """The expressions that a value is made of."""
    if not isinstance(value, StructValue):
        yield value
        return
    yield value.kept
    if value.source is not None:
        yield value.source
    for _, inner in value.fields:
        yield from nodes_of(inner)


def _field(column: Column, name: str) -> Column:
    return Column((*column.path, name))


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
