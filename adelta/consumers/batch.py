"""What a consumer gives: batches, changes of the schema among them, and how far it is behind."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.commit import Commit
    from adelta.kernel.position import Position

__all__ = ["Batch", "Lag", "SchemaChange"]


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """A commit changed the table's columns, from `before` to `after`."""

    version: int
    before: pa.Schema
    after: pa.Schema


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows, or commits, from one position of a table's log to another.

    Attributes:
        first: where it begins.
        position: where to go on after it, once its work is done.
        data: the rows; none of a consumer of commits.
        commits: the commits; none of a consumer of rows.
        schema_change: what became of the columns since the batch before; None where nothing did.
            Such a batch may have no rows.
        lost: the first and the last version that had been cleaned up, or whose files had been
            vacuumed, before they were read, and are passed over; None where none are, as always
            unless ``on_lost="skip"``.
        restarted: whether the table's rows come anew, from here on, since commits had been cleaned
            up before they were read; what was made of all batches before is to be given up. So it
            is with ``on_lost="resnapshot"`` alone.
    """

    first: Position
    position: Position
    data: pa.Table = field(repr=False, compare=False)
    commits: tuple[Commit, ...] = field(default=(), repr=False)
    schema_change: SchemaChange | None = None
    lost: tuple[int, int] | None = None
    restarted: bool = False

    @property
    def num_rows(self) -> int:
        """How many rows it has."""
        return self.data.num_rows

    @property
    def in_snapshot(self) -> bool:
        """Whether the rows are of those that were in the table when the consumer began."""
        return self.first.in_snapshot

    def __arrow_c_schema__(self) -> object:
        """The columns, to other libraries of Arrow's."""
        return self.data.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, to other libraries of Arrow's."""
        stream: object = self.data.__arrow_c_stream__(requested_schema)  # type: ignore[no-untyped-call]
        return stream


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a consumer is behind the table.

    Attributes:
        versions: commits that are not acknowledged yet.
        seconds: how long the oldest of them has been there; 0 where there is none.
        position: where the consumer goes on.
        latest_version: the latest version of the table.
    """

    versions: int
    seconds: float
    position: Position
    latest_version: int
