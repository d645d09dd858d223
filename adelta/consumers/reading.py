"""Reading: the rows of a stretch of a table's log, and at each of them how far that is.

Files are read in the order of their indexes. A commit whose files belong together counts as one
file: then the rows that have been read count from its beginning.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.changes.change_rows import change_columns, label
from adelta.consumers.shares import rows_of_share, share_predicate
from adelta.errors import SchemaMismatchError
from adelta.kernel.position import Position
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.read.data_files import Piece, read_pieces

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence

    import pyarrow as pa

    from adelta.changes.table_source import SourcePart, TableSource
    from adelta.consumers.request import ConsumerRequest
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.storage.roots import StoreRoots

__all__ = ["Columns", "Reading"]


@dataclass(frozen=True, slots=True)
class Columns:
    """How files become rows: the plan, the schema of the rows, and which of them are wanted."""

    plan: ScanPlan
    schema: pa.Schema
    labels: bool
    share: Node | None

    @classmethod
    def of(cls, source: TableSource, request: ConsumerRequest) -> Columns:
        """Those of a source.

        Raises:
            SchemaMismatchError: there is no such column.
        """
        columns, whole = request.columns, source.configuration.schema
        share = None
        if request.share is not None:
            if columns is not None and request.share[0] not in columns:
                raise SchemaMismatchError(
                    f"the rows are shared by {request.share[0]!r}, which is not among the columns "
                    "that are read; name it, too"
                )
            share = share_predicate(request.share, whole)
        if request.of == "changes":
            plan = source.change_plan(columns)
            return cls(plan, to_arrow_schema(change_columns(plan)), True, share)
        plan = source.plan(whole.names if columns is None else columns)
        return cls(plan, plan.arrow_schema, False, share)


@dataclass(frozen=True, slots=True)
class _Unit:
    """What rows are counted in: a file, or the files of a commit that belong together."""

    first: Position
    pieces: tuple[Piece, ...]


class Reading:
    """Rows from `start` to `end`, taken bit by bit; `position` is how far they have been taken."""

    def __init__(
        self,
        roots: StoreRoots,
        columns: Columns,
        parts: Sequence[SourcePart],
        start: Position,
        end: Position,
    ) -> None:
        self._columns = columns
        self._end = end
        self._skip = start.row
        units = [unit for part in parts for unit in _units(part, start.table_id)]
        self._unit_of = {id(piece): unit for unit in units for piece in unit.pieces}
        pieces = [piece for unit in units for piece in unit.pieces]
        self._pieces = pieces
        self._places = {id(piece): place for place, piece in enumerate(pieces)}
        self._next_place = 0
        self._unit: _Unit | None = None
        self._rows = 0  # of the unit, that came so far
        self._rest: tuple[pa.Table, int] | None = None
        self._is_over = not units
        self.position = end if self._is_over else start
        self._tables: AsyncGenerator[tuple[Piece, pa.Table], None] = read_pieces(
            roots, columns.plan, pieces
        )

    @property
    def is_over(self) -> bool:
        """Whether all rows have been taken."""
        return self._is_over

    @property
    def next_version(self) -> int | None:
        """The version of the next file that has given no rows; None where all have."""
        if self._next_place == len(self._pieces):
            return None
        return self._unit_of[id(self._pieces[self._next_place])].first.version

    async def take(self, most: int) -> pa.Table | None:
        """Some of the next rows, at most so many; None where there are no more.

        Raises:
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
        """
        while True:
            rows, at = self._rest or await self._next()
            self._rest = None
            if rows is None:
                self.position, self._is_over = self._end, True
                return None
            share = self._columns.share
            wanted: Any = None if share is None else await in_thread(rows_of_share, share, rows)
            if wanted is None:
                used = min(most, rows.num_rows)
                taken = rows.slice(0, used)
            else:
                used = rows.num_rows if len(wanted) <= most else wanted[most - 1].as_py() + 1
                taken = rows.take(wanted.slice(0, most))
            if used < rows.num_rows:
                self._rest = rows.slice(used), at + used
            assert self._unit is not None
            self.position = replace(self._unit.first, row=at + used)
            if taken.num_rows:
                return taken

    async def _next(self) -> tuple[pa.Table | None, int]:
        """The next table, and how many rows of its unit come before it."""
        async for piece, table in self._tables:
            unit = self._unit_of[id(piece)]
            self._next_place = self._places[id(piece)] + 1
            if unit is not self._unit:
                if self._unit is not None:
                    self._skip = 0
                self._unit, self._rows = unit, 0
            before, self._rows = self._rows, self._rows + table.num_rows
            passed = min(max(0, self._skip - before), table.num_rows)
            if passed == table.num_rows:
                continue
            table = table.slice(passed)
            if self._columns.labels:
                table = await in_thread(label, piece, table)
            return table, before + passed
        return None, 0

    async def aclose(self) -> None:
        """Give up what has not been taken."""
        await self._tables.aclose()


def _units(part: SourcePart, table_id: str | None) -> Iterator[_Unit]:
    files = part.files
    first = Position(files.version, part.first, 0, files.is_initial, table_id)
    if files.together:
        if part.pieces:
            yield _Unit(first, tuple(part.pieces))
        return
    paths: list[Any] = files.paths.slice(part.first, part.stop - part.first).to_pylist()
    of_path = {piece.file.path: piece for piece in part.pieces}
    for number, path in enumerate(paths):
        if (piece := of_path.get(path)) is not None:
            yield _Unit(replace(first, index=part.first + number), (piece,))
