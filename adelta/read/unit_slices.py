"""Fetched row groups of a data file → rows, in slices, and in shares of their columns."""

from __future__ import annotations

import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import array_of, empty_table
from adelta._memory import filtered
from adelta.kernel.deletion_vector.mask import kept_rows, named_rows
from adelta.kernel.scan_plan import ScanPlan, assemble, attach_row_ids, matches
from adelta.kernel.schema.calendar import LegacyCalendar, rebase
from adelta.parquet.decode.tables import side_by_side

if TYPE_CHECKING:
    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.layout import SelectedColumns
    from adelta.parquet.reader import ParquetFile
    from adelta.read.units import Unit

__all__ = ["UnitSlice", "UnitSlices"]


class UnitSlices:
    """The columns of a unit, in shares that can be decoded at the same time.

    Each share is one thread's at a time. Every slice takes as many rows of each. CPU-heavy, but for
    making and closing it.

    Args:
        plan: what is to become of the rows.
        unit: the row groups.
        columns: what was fetched of them.
        root: where the table is, for messages.
        rows: rows of a slice; None where the unit is decoded as a whole.
        threads: how many shares there are to be at most.
    """

    def __init__(
        self,
        plan: ScanPlan,
        unit: Unit,
        columns: FetchedColumns,
        root: str,
        rows: int | None = None,
        threads: int = 1,
    ) -> None:
        self._plan = plan
        self._unit = unit
        self._columns = columns
        self._source = f"{root}: {unit.opened.piece.file.path}"
        parquet = unit.opened.parquet
        chosen = [columns.columns]
        if threads > 1 and columns.columns.leaves:
            chosen = parquet.layout.shares(columns.columns, columns.row_groups, threads)
        whole = len(chosen) == 1
        keeps = plan.keeps_dictionaries
        wanted = [columns if whole else replace(columns, columns=one) for one in chosen]
        self.shares = [_Share(parquet, one, rows, keeps_dictionaries=keeps) for one in wanted]
        self._order = None if whole else columns.columns.order
        self._most = unit.rows // 2 if rows is None else min(rows, unit.rows // 2)
        self._deciding = threading.Lock()
        self._range: range | None = None

    def begin_again(self, number: int, columns: FetchedColumns) -> None:
        """Have a share go on, after the rows that it gave, with the same columns fetched anew."""
        self._columns = columns
        chosen = replace(columns, columns=self.shares[number].columns)
        self.shares[number].begin_again(chosen)

    def close(self) -> None:
        """Give back the bytes, or close the file."""
        for share in self.shares:
            share.close()
        self.shares.clear()
        self._columns = replace(self._columns, pieces=())

    @property
    def only(self) -> range | None:
        """The rows to decode, where the rest is not wanted; None where all rows are decoded.

        They are those from the first to the last for which the predicate is true, by its own
        columns: all are decoded where that would leave out little.
        """
        if self._unit.opened.deciding is None:
            return None
        with self._deciding:
            if self._range is None:
                self._range = self._decided()
        few = not self._range or (
            len(self._unit.row_groups) == 1 and len(self._range) <= self._most
        )
        return self._range if few else None

    def _decided(self) -> range:
        """From the first to the last row for which the predicate is true."""
        opened = self._unit.opened
        assert opened.deciding is not None
        table = opened.parquet.decode(replace(self._columns, columns=opened.deciding))
        plan = self._plan.deciding
        table, left = self._left(plan, table, 0)
        mask = matches(plan, table, opened.piece.file.partition_values, self._source)
        found = pc.indices_nonzero(mask)
        if not len(found):
            return range(0)
        ends = pc.take(found, array_of([0, len(found) - 1], pa.int64()))
        if left is not None:
            ends = pc.take(pc.indices_nonzero(left), ends)
        first, last = ends.to_pylist()
        return range(first, last + 1)

    def rows(self, parts: list[pa.Table], at: int) -> pa.Table:
        """What the plan makes of a slice, given by its shares, that begins at row `at`."""
        table = side_by_side(parts)
        if self._order is not None:
            table = table.select(list(self._order))
        left, _ = self._left(self._plan, table, at)
        partition_values = self._unit.opened.piece.file.partition_values
        return assemble(self._plan, left, partition_values, self._source)

    def none(self) -> pa.Table:
        """No rows."""
        return empty_table(self._plan.arrow_schema)

    def _left(
        self, plan: ScanPlan, table: pa.Table, at: int
    ) -> tuple[pa.Table, pa.BooleanArray | None]:
        """What the piece leaves of rows that begin at row `at`, and which of them; None for all."""
        opened, first = self._unit.opened, self._unit.first_row + at
        piece, count = opened.piece, table.num_rows
        if opened.legacy is not None:
            table = _in_todays_calendar(table, opened.parquet, opened.legacy)
        table = attach_row_ids(plan, table, piece.file, first, self._source)
        mask = None
        if opened.deleted is not None:
            mask = kept_rows(opened.deleted, first, count)
        elif piece.only is not None:
            mask = named_rows(piece.only, first, count)
            if mask is None:
                return table.slice(0, 0), None
        return (table if mask is None else _filtered(table, mask)), mask


class UnitSlice:
    """The next slice of `unit`, which begins at its row `at` and has so many `rows`.

    It has all that are left where that is None.
    """

    def __init__(self, unit: UnitSlices, at: int, rows: int | None) -> None:
        self._unit = unit
        self._at = at
        self._wanted = rows
        self._parts: dict[int, pa.Table] = {}
        self._lock = threading.Lock()

    def share(self, number: int) -> pa.Table | None:
        """Decode this share: the rows, where the others are decoded already. CPU-heavy.

        Raises:
            InvalidTableError: the file is damaged.
            SchemaMismatchError: a column cannot be converted to the table's type.
        """
        shares, only = self._unit.shares, self._unit.only
        at, kept = self._at, True
        if only is None:
            part = shares[number].take(self._wanted)
        elif only and at == 0:  # all of them are the first slice's
            at, part = only.start, shares[number].row_range(only)
        else:
            kept, part = False, self._unit.none()
        with self._lock:
            self._parts[number] = part
            if len(self._parts) < len(shares):
                return None
        del part
        parts = [self._parts.pop(number) for number in range(len(shares))]
        return self._unit.rows(parts, at) if kept else parts[0]


class _Share:
    """Tables of some columns, to be taken by numbers of rows of the taker's own."""

    def __init__(
        self,
        parquet: ParquetFile,
        columns: FetchedColumns,
        rows: int | None,
        *,
        keeps_dictionaries: bool,
    ) -> None:
        self._parquet = parquet
        self._columns = columns
        self._slices = partial(parquet.slices, rows=rows, keeps_dictionaries=keeps_dictionaries)
        self._tables = self._slices(columns)
        self._left: pa.Table | None = None
        self._given = self._passes = 0  # rows that were given; and those of them that come again

    @property
    def columns(self) -> SelectedColumns:
        """Which columns they have."""
        return self._columns.columns

    def begin_again(self, columns: FetchedColumns) -> None:
        """Go on after the rows that were given, with the same columns fetched anew."""
        self._tables.close()
        self._left, self._passes = None, self._given
        self._columns, self._tables = columns, self._slices(columns)

    def row_range(self, rows: range) -> pa.Table:
        """These rows of the unit, and no others."""
        first = 0 if self._columns.rows is None else self._columns.rows.start
        return self._parquet.row_range(self._columns, range(first + rows.start, first + rows.stop))

    def take(self, rows: int | None) -> pa.Table:
        """The next rows; all that are left where that is None."""
        found = [] if self._left is None else [self._left]
        self._left = None
        count = sum(table.num_rows for table in found)
        while rows is None or count < rows:
            table = next(self._tables, None)
            if table is None:
                break
            if self._passes:
                passed = min(self._passes, table.num_rows)
                self._passes -= passed
                table = table.slice(passed)
            found.append(table)
            count += table.num_rows
        taken = found[0] if len(found) == 1 else pa.concat_tables(found)
        if rows is not None and count > rows:
            taken, self._left = taken.slice(0, rows), taken.slice(rows)
        self._given += taken.num_rows
        return taken

    def close(self) -> None:
        """Nothing more is taken."""
        self._left = None
        self._tables.close()
        self._columns = replace(self._columns, pieces=())


def _in_todays_calendar(table: pa.Table, parquet: ParquetFile, legacy: LegacyCalendar) -> pa.Table:
    for index, name in enumerate(table.column_names):
        int96 = [kind == "INT96" for kind in parquet.layout.physical_types((name,))]
        chunks = [rebase(chunk, legacy, iter(int96)) for chunk in table.column(index).chunks]
        if chunks:
            field = table.schema.field(index).with_type(chunks[0].type)
            table = table.set_column(index, field, pa.chunked_array(chunks))
    return table


def _filtered(table: pa.Table, mask: pa.BooleanArray) -> pa.Table:
    if table.num_columns:
        return filtered(table, mask)
    return pa.table({"": pa.nulls(mask.true_count)}).select([])
