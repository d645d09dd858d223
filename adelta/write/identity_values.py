"""Values for identity columns, batch by batch, in the order in which rows come.

A writer makes them for all the rows that it takes in, from behind the column's high-water mark on,
and says afterwards how far it came. Two writers that start from the same mark make the same values:
so of two commits only one can move a mark.

Tasks that write at the same time, for one commit, do not know how many rows the others have. Each
takes the values behind the mark by blocks that are its own: the block k of the task t is at the
place that Cantor's pairing gives the two. So numbers are unique, whatever the number of tasks, and
small where these are few; a task that is run again makes the same ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, scalar_of
from adelta.errors import InvariantViolationError, SchemaMismatchError
from adelta.kernel.table_features import identities_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.schema.types import StructType
    from adelta.kernel.table_features import IdentityColumn

__all__ = ["IdentityValues"]

arrow: Any = pa  # likewise of `arange`

_LEAST, _GREATEST = -(2**63), 2**63 - 1
_BLOCK = 4096
"""Values that a task takes at a time."""


class IdentityValues:
    """The values that one writer makes. Used by one task at a time.

    `task` counts the writers of one commit from 0; None says that there is no other one.
    """

    def __init__(self, schema: StructType, *, task: int | None = None) -> None:
        self._columns = identities_of(schema)
        self._task = task
        self._rows = 0
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
                    "its rows itself; leave the column out",
                    reason="identity_values_given",
                )
        self._rows += rows.num_rows
        return rows

    def _values(self, column: IdentityColumn, count: int) -> pa.Array[Any]:
        runs = [self._run(column, place, length) for place, length in self._places(count)]
        return pa.concat_arrays(runs) if runs else array_of([], pa.int64())

    def _places(self, count: int) -> Iterator[tuple[int, int]]:
        """Where the next `count` values are behind the mark, as runs: the first, and how many."""
        if self._task is None:
            if count:
                yield self._rows, count
            return
        at, end = self._rows, self._rows + count
        while at < end:
            block, offset = divmod(at, _BLOCK)
            length = min(_BLOCK - offset, end - at)
            diagonal = self._task + block
            yield (diagonal * (diagonal + 1) // 2 + block) * _BLOCK + offset, length
            at += length

    def _run(self, column: IdentityColumn, place: int, count: int) -> pa.Array[Any]:
        first = column.next_value + column.step * place
        last = first + column.step * (count - 1)
        if not (_LEAST <= first <= _GREATEST and _LEAST <= last <= _GREATEST):
            raise InvariantViolationError(
                f"the identity column {column.name!r} has run out of 64-bit values: {count} more "
                f"rows by {column.step} from {first} on would pass the end"
            )
        self._marks[column.name] = last
        # Products may wrap around, and the sums wrap back: only these are known to be in range.
        steps = pc.multiply(arrow.arange(0, count), scalar_of(column.step, pa.int64()))
        values: pa.Array[Any] = pc.add(steps, scalar_of(first, pa.int64()))
        return values
