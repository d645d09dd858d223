"""Writers of tables with an owner that lose races: they come back one after the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import adelta
from adelta.owner.table_key import TableKey
from adelta.owner.turns import Turns
from adelta.write.commit_queue import QueueOfTable
from tests.support.owned_lake import lake_of, rows

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.owned_lake import Lake


def of_its_own(lake: Lake, name: str) -> adelta.Table:
    """A handle as another process has it: its commits wait in no queue with others."""
    table = lake.table(name)
    table._queue = QueueOfTable(table.store, None)
    return table


async def test_who_has_lost_does_not_ask_for_what_it_has_been_told(tmp_path: Path) -> None:
    """The owner tells losers of the winners: neither it nor the store is asked for them."""
    async with lake_of(tmp_path) as lake:
        await lake.make("orders")
        writers = [of_its_own(lake, "orders") for _ in range(6)]
        for table in writers:
            await table.snapshot()
        before = lake.owner.asked()
        await asyncio.gather(*(adelta.write_table(table, rows(1)) for table in writers))
        for _ in range(2):  # each is several versions behind by now
            await adelta.write_table(writers[0], rows(2))
        await adelta.write_table(writers[1], rows(3))
        asked = lake.owner.asked() - before
        assert asked["/api/v1/commit"] > 9
        assert asked["/api/v1/commits"] == 0
        assert (await writers[0].snapshot()).version == 9


async def test_transactions_over_several_tables_take_turns(tmp_path: Path) -> None:
    async with lake_of(tmp_path) as lake:
        await lake.make("orders", "stock")
        writers = [[of_its_own(lake, name) for name in ("orders", "stock")] for _ in range(12)]

        async def write(orders: adelta.Table, stock: adelta.Table) -> None:
            async with adelta.transaction_over(orders, stock) as (left, right):
                await left.append(rows(1))
                await right.append(rows(1))

        before = lake.owner.asked()
        await asyncio.gather(*(write(*tables) for tables in writers))
        proposals = (lake.owner.asked() - before)["/api/v1/commit-together"]
        assert proposals <= 4 * len(writers)


async def test_nobody_waits_for_a_turn_when_the_service_ends() -> None:
    turns, table = Turns(), TableKey("file:///t", "id")
    assert not await turns.take(table)  # the first comes back at once
    waiting = [asyncio.create_task(turns.take(table)) for _ in range(20)]
    await asyncio.sleep(0)
    turns.stop()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert all(task.done() for task in waiting)
    assert not await turns.take(table)
