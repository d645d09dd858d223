"""Files are removed when their removal is committed, whatever clock said so, and however early."""

from __future__ import annotations

import pyarrow as pa

import adelta
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.created import create_in

DAY = 86_400_000
ROWS = pa.table({"id": [1, 2]})


async def removed(store: MemoryStore, clock: ManualClock, *, open_ms: int = 0) -> int:
    """When the log says that the files were removed, which a transaction so long open removes."""
    async with Table(store.uri, store=store, clock=clock) as table:
        async with table.transaction() as tx:
            tx.remove_files(await tx.read())
            tx.set_transaction("job", 1)
            clock.advance(ms=open_ms)
        snapshot = await table.snapshot()
        state = snapshot._state
        (txn,) = (await state.set_transactions()).values()
        times = (await state.replayed(lambda replay: replay.tombstones()))["deletion_timestamp"]
        (time,) = {*times.to_pylist(), txn.last_updated}
        return int(time)


async def with_rows(clock: ManualClock) -> MemoryStore:
    store = MemoryStore(clock=clock)
    async with Table(store.uri, store=store, clock=clock) as table:
        await create_in(table, ROWS.schema)
        await adelta.write_table(table, ROWS)
    return store


async def test_the_stores_clock_counts_where_this_machines_is_behind() -> None:
    clock = ManualClock(19_000 * DAY)
    store = await with_rows(clock)
    assert await removed(store, ManualClock(0)) == clock.ms


async def test_this_machines_counts_where_it_is_ahead() -> None:
    clock = ManualClock(19_000 * DAY)
    store = await with_rows(clock)
    assert await removed(store, ManualClock(clock.ms + DAY)) == clock.ms + DAY


async def test_what_a_transaction_removes_that_was_open_for_long_is_removed_at_its_end() -> None:
    clock = ManualClock(19_000 * DAY)
    store = await with_rows(clock)
    clock.advance(days=30)
    began = clock.ms
    assert await removed(store, clock, open_ms=9 * DAY) == began + 9 * DAY


async def test_so_vacuum_leaves_files_that_a_machine_without_a_clock_removes() -> None:
    clock = ManualClock(19_000 * DAY)
    store = await with_rows(clock)
    clock.advance(days=30)
    await removed(store, ManualClock(0))
    async with Table(store.uri, store=store, clock=clock) as table:
        assert (await adelta.vacuum(table)).num_deleted_files == 0
        before = await table.snapshot(version=1)
        assert (await before.scan().to_arrow()).num_rows == ROWS.num_rows
