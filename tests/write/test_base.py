"""What a commit is based on is in the log when it is put: else it would be put behind a gap."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import CommitConflictError, TableNotFoundError
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.stores import CountingStore, SlowStore

if TYPE_CHECKING:
    from adelta.transaction import Transaction


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


def space() -> MemoryStore:
    return MemoryStore(f"base-{uuid.uuid4().hex}", "t")


async def appended(store: MemoryStore, *ids: int) -> None:
    """Commits of another process."""
    table = Table(store.uri, store=MemoryStore(*store.uri.removeprefix("memory://").split("/")))
    for number in ids:
        await write_table(table, rows(number))


async def versions(store: MemoryStore) -> list[int]:
    paths = [meta.path async for page in store.list(LOG_DIR) for meta in page]
    return sorted(int(p[len(LOG_DIR) : len(LOG_DIR) + 20]) for p in paths if p.endswith(".json"))


async def begun(table: Table) -> Transaction:
    tx = table.transaction()
    await tx.__aenter__()
    return tx


async def end(tx: Transaction) -> None:
    await tx.__aexit__(None, None, None)


async def clean_up(store: MemoryStore, before: int) -> None:
    await write_checkpoint(await load_state(store))
    await store.delete([commit_path(version) for version in range(before)])


async def test_a_transaction_held_open_over_a_clean_up_fails_and_the_next_one_does_not() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))
    tx = await begun(table)
    await tx.append(rows(99))
    await appended(store, *range(1, 12))
    await clean_up(store, 10)
    with pytest.raises(CommitConflictError, match="no longer has version 0"):
        await end(tx)
    assert await versions(store) == [10, 11]
    assert (await write_table(table, rows(12))).version == 12


async def test_an_idle_handle_does_not_commit_to_a_number_that_was_cleaned_up() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))
    await appended(store, *range(1, 12))
    await clean_up(store, 10)
    with pytest.raises(CommitConflictError, match="cleaned up"):
        await write_table(table, rows(99))
    assert (await write_table(table, rows(12))).version == 12
    assert await versions(store) == [10, 11, 12]


@pytest.mark.parametrize("anew", [0, 2, 6, 9])
async def test_a_handle_of_a_table_that_was_dropped_leaves_no_gap_in_the_new_one(anew: int) -> None:
    """With fewer versions, as many and more; without a look at it in between."""
    store = space()
    table = Table(store.uri, store=store)
    for number in range(6):
        await write_table(table, rows(number))
    await store.delete([m.path async for page in store.list() for m in page])
    await appended(store, *range(100, 100 + anew))
    with pytest.raises((CommitConflictError, TableNotFoundError)):
        await write_table(table, rows(7))
    assert await versions(store) == list(range(anew))
    assert (await write_table(table, rows(8))).version == anew
    found = await (await table.snapshot()).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == [8, *range(100, 100 + anew)]


async def test_the_base_is_asked_for_unless_others_in_the_queue_have_just_made_it() -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    await write_table(table, rows(1))
    store.clear()
    await write_table(table, rows(2))
    assert store.kinds == {"put": 3, "get": 1}, "a data file, the commit, its checksum; the base"
    store.clear()
    slow = Table(store.uri, store=SlowStore(store, 0.05))
    staged = asyncio.Barrier(20)

    async def append(number: int) -> None:
        async with slow.transaction() as tx:
            await tx.append(rows(number))
            await staged.wait()
            store.clear()

    await asyncio.gather(*(append(n) for n in range(20)))
    assert len([path for path in store.paths("put") if path.endswith(".json")]) == 20
    assert len([path for path in store.paths("get") if path.endswith(".json")]) == 1
