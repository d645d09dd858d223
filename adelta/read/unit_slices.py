"""Fetched row groups of a data file → rows, in slices, and in shares of their columns."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._arrow_values import empty_table
from adelta._memory import filtered
from adelta.kernel.deletion_vector.mask import kept_rows, named_rows
from adelta.kernel.scan_plan import ScanPlan, assemble, attach_row_ids
from adelta.kernel.schema.calendar import LegacyCalendar, rebase
from adelta.parquet.decode.tables import side_by_side

if TYPE_CHECKING:
    from collections.abc import Generator

    from adelta.parquet.fetch import FetchedColumns
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
        self.shares = [
            _Share(parquet.slices(one, rows, keeps_dictionaries=keeps)) for one in wanted
        ]
        self._order = None if whole else columns.columns.order
        self._deciding = threading.Lock()
        self._kept: bool | None = None if unit.opened.deciding is not None else True

    def close(self) -> None:
        """Give back the bytes, or close the file."""
        for share in self.shares:
            share.close()
        self.shares.clear()
        self._columns = replace(self._columns, pieces=())

    @property
    def keeps_any(self) -> bool:
        """Whether there is a row for which the predicate is true, by its own columns."""
        with self._deciding:
            if self._kept is None:
                assert self._unit.opened.deciding is not None
                columns = replace(self._columns, columns=self._unit.opened.deciding)
                table = self._unit.opened.parquet.decode(columns)
                rows = self._assembled(self._plan.deciding, table, 0)
                self._kept = rows.num_rows > 0
            return self._kept

    def rows(self, parts: list[pa.Table], at: int) -> pa.Table:
        """What the plan makes of a slice, given by its shares, that begins at row `at`."""
        table = side_by_side(parts)
        if self._order is not None:
            table = table.select(list(self._order))
        return self._assembled(self._plan, table, at)

    def none(self) -> pa.Table:
        """No rows."""
        return empty_table(self._plan.arrow_schema)

    def _assembled(self, plan: ScanPlan, table: pa.Table, at: int) -> pa.Table:
        opened, first, count = self._unit.opened, self._unit.first_row + at, table.num_rows
        piece, file = opened.piece, opened.piece.file
        if opened.legacy is not None:
            table = _in_todays_calendar(table, opened.parquet, opened.legacy)
        table = attach_row_ids(plan, table, file, first, self._source)
        if opened.deleted is not None:
            mask = kept_rows(opened.deleted, first, count)
            table = table if mask is None else _filtered(table, mask)
        elif piece.only is not None:
            mask = named_rows(piece.only, first, count)
            table = table.slice(0, 0) if mask is None else _filtered(table, mask)
        return assemble(plan, table, file.partition_values, self._source)


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
        shares = self._unit.shares
        kept = self._unit.keeps_any
        part = shares[number].take(self._wanted) if kept else self._unit.none()
        with self._lock:
            self._parts[number] = part
            if len(self._parts) < len(shares):
                return None
        del part
        parts = [self._parts.pop(number) for number in range(len(shares))]
        return self._unit.rows(parts, self._at) if kept else parts[0]


class _Share:
    """Tables of some columns, to be taken by numbers of rows of the taker's own."""

    def __init__(self, tables: Generator[pa.Table, None, None]) -> None:
        self._tables = tables
        self._left: pa.Table | None = None

    def take(self, rows: int | None) -> pa.Table:
        """The next rows; all that are left where that is None."""
        found = [] if self._left is None else [self._left]
        self._left = None
        count = sum(table.num_rows for table in found)
        while rows is None or count < rows:
            table = next(self._tables, None)
            if table is None:
                break
            found.append(table)
            count += table.num_rows
        taken = found[0] if len(found) == 1 else pa.concat_tables(found)
        if rows is not None and count > rows:
            taken, self._left = taken.slice(0, rows), taken.slice(rows)
        return taken

    def close(self) -> None:
        """Nothing more is taken."""
        self._left = None
        self._tables.close()


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
