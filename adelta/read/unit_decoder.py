"""Fetched row groups of data files, decoded in worker threads while others are fetched."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import CPU_THREADS, in_thread, map_concurrent
from adelta._read_ahead import ReadAhead
from adelta.read.unit_slices import UnitSlice, UnitSlices
from adelta.storage.cached_ranges import LostBytesError

if TYPE_CHECKING:
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.parquet.fetch import FetchedColumns
    from adelta.read.units import Piece, Unit

__all__ = ["UNITS_AHEAD", "UnitDecoder", "UnitRows"]

UNITS_AHEAD = CPU_THREADS + 1
"""Units that are begun ahead: all threads decode, and the first to be free has its next one."""

_SLICE = 64 * 1024 * 1024  # larger units are decoded in slices of at most about so many bytes,
_SLICE_ROWS = 65_536  # and of a multiple of so many rows
_WORTH_SHARING = 2 * 1024 * 1024  # bytes of a unit that has all threads for itself


class UnitDecoder:
    """Decodes units, as many at once as give all threads work; the rows come in order.

    A large unit is decoded slice by slice, and its columns are shared among the threads: so few
    rows are in memory at once, and the first ones are soon there. So are the columns of a unit that
    comes when no other is under way. A slice has about `read_ahead_bytes` at most. `aclose` ends
    what was begun.
    """

    def __init__(self, plan: ScanPlan, root: str, read_ahead_bytes: int) -> None:
        self._plan = plan
        self._root = root
        self._slice_bytes = min(_SLICE, read_ahead_bytes)
        self._entry = asyncio.Lock()
        self._threads = asyncio.Semaphore(CPU_THREADS)  # for shares of large units
        self._begun: set[UnitRows] = set()

    @staticmethod
    def decoded(fetched: tuple[Unit, FetchedColumns]) -> UnitRows | DecodedRows | None:
        """The rows of a unit that was decoded where its file was opened; None of another one."""
        table = fetched[0].table
        return None if table is None else DecodedRows(fetched[0].opened.piece, table)

    async def begin(self, fetched: tuple[Unit, FetchedColumns]) -> UnitRows | DecodedRows:
        """The rows of the unit, once there are threads for all of its shares."""
        alone = not self._begun
        rows = UnitRows(
            self._plan, *fetched, self._root, self._slice_bytes, self._threads, alone=alone
        )
        self._begun.add(rows)
        async with self._entry:  # one after the other, in order
            await rows.begin()
        return rows

    async def end(self, rows: UnitRows | DecodedRows) -> None:
        """All slices of a unit have been taken."""
        if isinstance(rows, UnitRows):
            self._begun.discard(rows)
            await rows.aclose()

    async def aclose(self) -> None:
        """End every unit that was begun."""
        for rows in list(self._begun):
            await self.end(rows)


class UnitRows(AsyncIterator[pa.Table]):
    """The rows of one unit of `piece`, slice by slice."""

    def __init__(
        self,
        plan: ScanPlan,
        unit: Unit,
        columns: FetchedColumns,
        root: str,
        slice_bytes: int,
        threads: asyncio.Semaphore,
        *,
        alone: bool,
    ) -> None:
        self.piece = unit.opened.piece
        self._unit = unit
        self._fetched: FetchedColumns | None = None  # once more
        self._fetching = asyncio.Lock()
        self._threads = threads
        self._held = 0  # of the threads
        self._rows = _rows_a_slice(unit, slice_bytes)
        self._slices = 1 if self._rows is None else -(-unit.rows // self._rows)
        shared = self._rows is not None or (alone and unit.decoded_bytes > _WORTH_SHARING)
        shares = CPU_THREADS if shared else 1
        self._decoding = UnitSlices(plan, unit, columns, root, self._rows, shares)
        self._turns = [asyncio.Lock() for _ in self._decoding.shares]
        # Where one unit keeps all threads busy, its next slice is under way. Where there are others
        # beside it, they are so far ahead that all of them go on for the same time.
        beside = -(-CPU_THREADS // len(self._turns)) - 1
        ahead = max(2, -(-self._slices * beside // (beside + 1)))
        self._ahead = ReadAhead(self._slice, range(self._slices), limit=ahead)

    async def begin(self) -> None:
        """Start with the first slices, once there is a thread for every share."""
        if self._slices > 1:
            for _ in self._turns:
                await self._threads.acquire()
                self._held += 1
        await self._ahead.begin()

    async def __anext__(self) -> pa.Table:
        """The next slice."""
        return await anext(self._ahead)

    async def _slice(self, index: int) -> pa.Table:
        rows = None if index == self._slices - 1 else self._rows
        decoded = UnitSlice(self._decoding, index * (self._rows or 0), rows)

        async def share(number: int) -> pa.Table | None:
            async with self._turns[number]:  # the slice before comes first
                try:
                    table = await in_thread(decoded.share, number)
                except LostBytesError:
                    columns = await self._columns_of_store()
                    self._decoding.begin_again(number, columns)
                    table = await in_thread(decoded.share, number)
            if rows is None:
                self._leave(1)
            return table

        shares = range(len(self._turns))
        found = await map_concurrent(share, shares, limit=len(shares))
        (table,) = (table for table in found if table is not None)
        return table

    async def _columns_of_store(self) -> FetchedColumns:
        """What the disk cache has lost since it was found there, and all else, in memory."""
        async with self._fetching:
            if self._fetched is None:
                opened, groups = self._unit.opened, self._unit.row_groups
                self._fetched = await opened.parquet.fetch(opened.columns, row_groups=groups)
            return self._fetched

    def _leave(self, most: int) -> None:
        """Give back up to so many of the threads."""
        leaving = min(most, self._held)
        self._held -= leaving
        for _ in range(leaving):
            self._threads.release()

    async def aclose(self) -> None:
        """End what is under way."""
        await self._ahead.aclose()
        self._leave(self._held)
        self._decoding.close()
        self._fetched = None


class DecodedRows(AsyncIterator[pa.Table]):
    """The rows of a unit of `piece` that was decoded where its file was opened."""

    def __init__(self, piece: Piece, table: pa.Table) -> None:
        self.piece = piece
        self._tables = [table]

    async def __anext__(self) -> pa.Table:
        """The rows, once."""
        if not self._tables:
            raise StopAsyncIteration
        return self._tables.pop()


def _rows_a_slice(unit: Unit, most_bytes: int) -> int | None:
    """Rows to be decoded at a time, of about so many bytes; None for all of them."""
    row_bytes = max(1, unit.decoded_bytes // max(1, unit.rows))
    rows = max(most_bytes // row_bytes // _SLICE_ROWS, 1) * _SLICE_ROWS
    return rows if rows * 3 // 2 < unit.rows else None
