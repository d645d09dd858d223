"""A transaction that has been open for long does not trust that the next version's name is free."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta._clock import told_by
from adelta.errors import CommitConflictError
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import Later
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from adelta.transaction import Transaction

HOUR = 3600.0
START = 1  # the version that transactions begin with


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids)})


async def begun() -> tuple[CountingStore, Table, Transaction]:
    """A transaction that has begun with version 1."""
    store = CountingStore(MemoryStore(f"age-{uuid.uuid4().hex}", "t"))
    table = Table(store.uri, store=store)
    for number in range(START + 1):
        await write_table(table, rows(number))
    tx = table.transaction()
    await tx.__aenter__()
    return store, table, tx


async def others_commit(store: CountingStore, last: int) -> None:
    """The versions up to the last one, by another process."""
    other = Table(store.uri, store=MemoryStore(*store.uri.removeprefix("memory://").split("/")))
    for number in range(START + 1, last + 1):
        await write_table(other, rows(number))


@pytest.mark.parametrize("clocks", [Later(HOUR, HOUR), Later(HOUR, 0.0), Later(0.0, HOUR)])
@pytest.mark.parametrize("gone", [(2,), (2, 4), (0, 2, 3), (3,), (1, 2, 3, 4, 5)])
async def test_it_is_refused_where_a_clean_up_is_under_way_that_has_not_come_to_its_base(
    clocks: Later, gone: tuple[int, ...]
) -> None:
    store, table, tx = await begun()
    await others_commit(store, 6)
    await write_checkpoint(await load_state(store))
    await store.delete([commit_path(version) for version in gone])
    with told_by(clocks):
        await tx.append(rows(99))
        with pytest.raises(CommitConflictError, match="cleaned up"):
            await tx.__aexit__(None, None, None)
        left = {commit_path(version) for version in range(7)} - {*map(commit_path, gone)}
        names = [meta.path async for page in store.list(LOG_DIR) for meta in page]
        assert {name for name in names if name in {*map(commit_path, range(9))}} == left
        newest = await table.snapshot()
        assert newest.version == 6
        assert sorted((await newest.scan().to_arrow())["id"].to_pylist()) == list(range(7))
        assert (await write_table(table, rows(7))).version == 7


async def test_it_goes_behind_those_that_came_since_where_all_are_there() -> None:
    store, _, tx = await begun()
    await others_commit(store, 4)
    with told_by(Later(HOUR, HOUR)):
        await tx.append(rows(99))
        await tx.__aexit__(None, None, None)
    assert tx.version == 5


async def test_a_look_at_the_log_is_made_for_old_transactions_alone() -> None:
    for clocks, looks in ((Later(600.0, 600.0), 0), (Later(HOUR, HOUR), 1)):
        store, _, tx = await begun()
        with told_by(clocks):
            await tx.append(rows(99))
            store.clear()
            await tx.__aexit__(None, None, None)
        assert (tx.version, store.kinds["list"]) == (START + 1, looks)
