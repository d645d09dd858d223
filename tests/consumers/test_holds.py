"""The log is not cleaned up before a consumer that holds it has read it."""

from __future__ import annotations

from datetime import timedelta

import pyarrow as pa
import pytest

import adelta
from adelta import Consumer, Position
from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    MissingDataFileError,
    StorageError,
)
from adelta.kernel.log_path import commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.consumers.test_consumer import Kept, consume, of, put
from tests.support.clock import ManualClock
from tests.support.stores import DenyingStore

HELD = {"adelta.consumerHolds": "_consumers"}


async def versions(table: Table) -> list[int]:
    found = []
    for version in range(9):
        try:
            await table.store.head(commit_path(version))
        except FileNotFoundError:
            continue
        found.append(version)
    return found


async def test_a_named_consumer_holds_the_log_until_it_has_read_it_or_its_time_is_over() -> None:
    clock = ManualClock(1_700_000_000_000)
    store = MemoryStore(clock=clock)
    table = Table(store.uri, store=store, clock=clock)
    for number in range(6):
        await adelta.write_table(table, pa.table({"id": [number]}), properties=HELD)
        clock.advance(seconds=1)
        await write_checkpoint(await load_state(store))
    kept, hold = Kept(), timedelta(days=90)
    async with Consumer(table, "slow", kept, start=2, hold=hold, max_files=1) as consumer:
        clock.advance(days=60)
        await adelta.cleanup_log(table)
        assert await versions(table) == [1, 2, 3, 4, 5], "and what the columns are known by"
        for _ in range(2):
            await consumer.acknowledge(await anext(consumer))
        assert consumer.position == Position(4)
        await adelta.cleanup_log(table)
        assert await versions(table) == [3, 4, 5]
    clock.advance(days=60)
    async with Consumer(table, "slow", kept, hold=hold, follow=False) as consumer:
        clock.advance(days=60)  # it was renewed
        await adelta.cleanup_log(table)
        assert await versions(table) == [3, 4, 5]
    clock.advance(days=60)
    await adelta.cleanup_log(table)
    assert await versions(table) == [5], "the consumer has not come back"
    await adelta.vacuum(table, retention=timedelta(0), enforce_retention=False)
    await store.head("_consumers/slow.json")


async def test_a_consumer_lets_go() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, pa.table({"id": [1]}), properties=HELD)
    async with Consumer(table, "c", Kept(), hold=timedelta(days=1)) as consumer:
        await store.head("_consumers/c.json")
        await store.put("_consumers/c.json", b"{}")
        with pytest.raises(InvalidTableError, match=r"_consumers/c\.json.*damaged"):
            await adelta.cleanup_log(table)
        await consumer.forget()
        with pytest.raises(FileNotFoundError):
            await store.head("_consumers/c.json")
    await adelta.cleanup_log(table)


async def test_a_hold_that_is_listed_and_denied_is_not_let_go() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, pa.table({"id": [1]}), properties=HELD)
    async with Consumer(table, "c", Kept(), hold=timedelta(days=1)):
        denying = Table(store.uri, store=DenyingStore(store, "_consumers/c.json"))
        with pytest.raises(StorageError, match=r"lists _consumers/c\.json"):
            await adelta.cleanup_log(denying)


async def test_a_table_says_in_which_folder_its_log_is_held() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, pa.table({"id": [1]}))
    with pytest.raises(InvalidOptionError, match=r"adelta\.consumerHolds"):
        async with Consumer(table, "c", Kept(), hold=timedelta(days=1)):
            pass
    for wrong in ("consumers", "_a/b", "_delta_log", "_", ".."):
        with pytest.raises(InvalidPropertyError, match="underscore"):
            await adelta.set_properties(table, {"adelta.consumerHolds": wrong})


@pytest.mark.parametrize(
    ("gone", "given", "lost"),
    [
        ((2,), [[0, 1], [3, 4]], [None, (2, 2)]),
        ((0,), [[1, 2, 3, 4]], [(0, 0)]),
        ((4,), [[0, 1, 2, 3], []], [None, (4, 4)]),
        ((1, 2), [[0], [3, 4]], [None, (1, 2)]),
    ],
)
async def test_what_was_vacuumed_before_it_was_read_is_met_as_was_asked_for(
    gone: tuple[int, ...], given: list[list[int]], lost: list[object]
) -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(5):
        await put(table, number)
    (paths,) = await consume(table, Kept(), of="commits")
    added = [str(commit.adds.column("path")[0].as_py()) for commit in paths.commits]
    await adelta.optimize(table)
    await store.delete([added[number] for number in gone])
    table = Table(store.uri, store=store)
    with pytest.raises(MissingDataFileError):
        await consume(table, Kept(), start=0)
    batches = await consume(table, Kept(), start=0, on_lost="skip")
    assert of(batches) == given
    assert [batch.lost for batch in batches] == lost
    anew = (await consume(table, Kept(), start=0, on_lost="resnapshot"))[-1]
    assert anew.restarted
    assert of([anew]) == [[0, 1, 2, 3, 4]]
    live = (await (await table.snapshot()).files()).column("path").to_pylist()
    await store.delete([str(path) for path in live])
    with pytest.raises(MissingDataFileError):
        await consume(Table(store.uri, store=store), Kept(), start=0, on_lost="resnapshot")
