"""Values for identity columns, batch by batch, in the order in which rows come.

A writer makes them for all the rows that it takes in, from behind the column's high-water mark on,
and says afterwards how far it came. Two writers that start from the same mark make the same values:
so of two commits only one can move a mark, and rows that many tasks write need one that numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute

from adelta.errors import InvariantViolationError, SchemaMismatchError
from adelta.kernel.table_features import identities_of

if TYPE_CHECKING:
    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_features import IdentityColumn

__all__ = ["IdentityValues"]

pc: Any = pyarrow.compute  # the stubs refuse most mixtures of arrays and scalars
arrow: Any = pa  # likewise of `arange`

_LEAST, _GREATEST = -(2**63), 2**63 - 1


class IdentityValues:
    """The values that one writer makes. Used by one task at a time."""

    def __init__(self, schema: StructType) -> None:
        self._columns = identities_of(schema)
        self._next = {column.name: column.next_value for column in self._columns}
        self._marks: dict[str, int] = {}

    @property
    def high_water_marks(self) -> dict[str, int]:
        """The last value that was made, by column; columns for which there was none are absent."""
        return dict(self._marks)

    def missing_in(self, names: list[str]) -> list[str]:
        """The columns that rows with these columns need values for."""
        given = {name.lower() for name in names}
        return [c.name for c in self._columns if c.name.lower() not in given]

    def fill(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`rows` with values for the identity columns that they leave out.

        Raises:
            SchemaMismatchError: `rows` have values for a column that only the table numbers.
            InvariantViolationError: there are no more values of 64 bits.
        """
        missing = self.missing_in(rows.schema.names)
        for column in self._columns:
            if column.name in missing:
                values = self._values(column, rows.num_rows)
                rows = rows.append_column(column.name, values)
            elif not column.allows_explicit:
                raise SchemaMismatchError(
                    f"column {column.name!r} is GENERATED ALWAYS AS IDENTITY: the table numbers "
                    "its rows itself; leave the column out"
                )
        return rows

    def _values(self, column: IdentityColumn, count: int) -> pa.Array[Any]:
        if not count:
            return pa.array([], pa.int64())
        first = self._next[column.name]
        last = first + column.step * (count - 1)
        if not (_LEAST <= first <= _GREATEST and _LEAST <= last <= _GREATEST):
            raise InvariantViolationError(
                f"the identity column {column.name!r} has run out of 64-bit values: {count} more "
                f"rows by {column.step} from {first} on would pass the end"
            )
        self._next[column.name] = last + column.step
        self._marks[column.name] = last
        # Products may wrap around, and the sums wrap back: only these are known to be in range.
        steps = pc.multiply(arrow.arange(0, count), pa.scalar(column.step, pa.int64()))
        values: pa.Array[Any] = pc.add(steps, pa.scalar(first, pa.int64()))
        return values
