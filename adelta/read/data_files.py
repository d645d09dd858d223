"""Data files → rows: what a plan makes of files, with read-ahead under a memory bound.

Row groups are the unit of work, small neighbours together: while one is handed over, large ones
slice by slice, the next ones are fetched and decoded, in order, within a budget of bytes.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._read_ahead import ReadAhead
from adelta.parquet.fetch import FetchedColumns
from adelta.read.opener import Opener
from adelta.read.unit_decoder import UNITS_AHEAD, UnitDecoder
from adelta.read.units import Piece, Unit
from adelta.storage.providers import provider_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.storage.roots import StoreRoots

__all__ = ["READ_AHEAD_BYTES", "Piece", "read_files", "read_pieces"]

READ_AHEAD_BYTES = 256 * 1024 * 1024
"""Bytes of rows that are held ahead of the consumer, beside a quarter of that as files have it."""

_OPEN_AHEAD = 32  # footers read ahead of the row groups
_OPEN_AHEAD_NEAR = 4  # likewise where that takes the time of decoding, and no other
_OPENED_TOGETHER = 1024 * 1024  # bytes of small files nearby that one thread opens in one go


async def read_files(
    roots: StoreRoots,
    plan: ScanPlan,
    files: Iterable[AddFile],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
) -> AsyncGenerator[pa.Table, None]:
    """The rows that `plan` makes of `files`, table by table, in order.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    pieces = (Piece(file) for file in files)
    opener = Opener(roots, plan, joins=True)
    read = _read(roots, plan, pieces, opener, read_ahead_bytes)
    async with aclosing(read) as tables:
        async for _, table in tables:
            yield table


def read_pieces(
    roots: StoreRoots,
    plan: ScanPlan,
    pieces: Iterable[Piece] | AsyncIterator[Piece],
    *,
    read_ahead_bytes: int = READ_AHEAD_BYTES,
    skipping: Skipping | None = None,
) -> AsyncGenerator[tuple[Piece, pa.Table], None]:
    """The rows that `plan` makes of every piece, table by table, in order.

    `skipping` is that of the plan's predicate, where the caller has made it.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        SchemaMismatchError: a file's column cannot be converted to the table's type.
    """
    return _read(roots, plan, pieces, Opener(roots, plan, skipping), read_ahead_bytes)


async def _read(
    roots: StoreRoots,
    plan: ScanPlan,
    pieces: Iterable[Piece] | AsyncIterator[Piece],
    opener: Opener,
    read_ahead_bytes: int,
) -> AsyncGenerator[tuple[Piece, pa.Table], None]:
    limit = roots.store.concurrency
    near = provider_of(roots.store.uri).is_near

    async def units() -> AsyncIterator[Unit]:
        ahead = ReadAhead(
            opener.open_batch,
            _in_batches(pieces, opener.opens_together, opener.most_together),
            limit=_OPEN_AHEAD_NEAR if near else min(_OPEN_AHEAD, limit),
        )
        async with ahead as opened:
            async for batch in opened:
                while batch:
                    piece, found = batch.pop(0)
                    found = found if found is not None else await opener.open(piece)
                    while found:
                        yield found.pop(0)

    async def fetch(unit: Unit) -> tuple[Unit, FetchedColumns]:
        columns, groups, parquet = unit.opened.columns, unit.row_groups, unit.opened.parquet
        if unit.pages is not None:
            return unit, await parquet.fetch_pages(columns, groups[0], unit.pages)
        return unit, await parquet.fetch(columns, row_groups=groups, late=True)

    def at_hand(unit: Unit) -> tuple[Unit, FetchedColumns] | None:
        nothing = FetchedColumns(unit.row_groups, unit.opened.columns, ())
        return None if unit.table is None else (unit, nothing)

    # Bytes are fetched far ahead where they come from afar. Rows are only decoded as fast as they
    # are taken: memory that was just given back is a third cheaper than memory that is new.
    decoder = UnitDecoder(plan, roots.store.uri, read_ahead_bytes)
    fetching = ReadAhead(
        fetch,
        units(),
        limit=UNITS_AHEAD if near else limit,
        cost=lambda unit: unit.bytes if unit.table is None else read_ahead_bytes,
        budget=max(1, read_ahead_bytes // 4),
        at_once=at_hand,
    )
    decoding = ReadAhead(
        decoder.begin,
        fetching,
        limit=UNITS_AHEAD,
        cost=lambda one: one[0].decoded_bytes if one[0].table is None else read_ahead_bytes,
        budget=max(1, read_ahead_bytes),
        at_once=decoder.decoded,
    )
    async with aclosing(decoder), decoding as begun:
        async for rows in begun:
            async for table in rows:
                yield rows.piece, table
                del table  # so that what is decoded next may have its memory
            await decoder.end(rows)


async def _in_batches(
    pieces: Iterable[Piece] | AsyncIterator[Piece],
    size: Callable[[Piece], int],
    most_together: int,
) -> AsyncGenerator[list[Piece], None]:
    """The pieces in order, those with a `size` together: few at first, so that rows come soon."""
    batch: list[Piece] = []
    held, most = 0, 1
    async with aclosing(_one_by_one(pieces)) as given:
        async for piece in given:
            nbytes = size(piece)
            if batch and (not nbytes or held + nbytes > _OPENED_TOGETHER or len(batch) == most):
                yield batch
                batch, held, most = [], 0, min(2 * most, most_together)
            batch.append(piece)
            held += nbytes
            if not nbytes:
                yield batch
                batch = []
    if batch:
        yield batch


async def _one_by_one(
    pieces: Iterable[Piece] | AsyncIterator[Piece],
) -> AsyncGenerator[Piece, None]:
    if not isinstance(pieces, AsyncIterator):
        for piece in pieces:
            yield piece
        return
    try:
        async for piece in pieces:
            yield piece
    finally:
        if isinstance(pieces, AsyncGenerator):
            await pieces.aclose()
