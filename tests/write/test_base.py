"""What a commit is based on is in the log when it is put: else it would be put behind a gap."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, TypeVar

import anyio
import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    InvalidTableError,
    SchemaMismatchError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore, SlowStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from adelta.transaction import Transaction
    from tests.support.stores import Request

R = TypeVar("R")


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


class UploadsAfterLook(WrappedStore):
    """Whose data files are put as soon as the log has been asked for a commit."""

    looked: asyncio.Event

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "put" and request.path.endswith(".parquet"):
            await self.looked.wait()
        found = await run()
        if request.kind == "get" and request.path.endswith(".json"):
            self.looked.set()
        return found


async def test_an_operation_asks_for_its_base_while_its_rows_are_uploaded() -> None:
    """A commit of one writer takes the time of two requests, one after the other, not of three."""
    inner = MemoryStore()
    store = UploadsAfterLook(inner)
    store.looked = asyncio.Event()
    store.looked.set()
    table = Table(inner.uri, store=store)
    await write_table(table, rows(1))
    for mode in ("append", "overwrite"):
        store.looked.clear()
        with anyio.fail_after(20):
            await write_table(table, rows(2), mode=mode)


async def test_rows_that_take_the_log_away_while_they_are_read_are_not_committed() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))

    async def data() -> AsyncIterator[pa.RecordBatch]:
        yield rows(99).to_batches()[0]
        await appended(store, *range(1, 12))
        await clean_up(store, 10)

    with pytest.raises(CommitConflictError, match="no longer has version 0"):
        await write_table(table, data())
    assert await versions(store) == [10, 11]


async def test_a_look_that_fails_is_left_for_the_commit_to_meet() -> None:
    class FailsOnce(WrappedStore):
        fails = False

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if self.fails and request.kind == "get":
                self.fails = False
                raise ThrottledError("slow down")
            return await run()

    inner = MemoryStore()
    store = FailsOnce(inner)
    table = Table(inner.uri, store=store)
    await write_table(table, rows(1))
    store.fails = True
    assert (await write_table(table, rows(2))).version == 1
    assert not store.fails


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


async def emptied(store: MemoryStore, under: str = "") -> None:
    await store.delete([m.path async for page in store.list(under) for m in page])


async def made_anew(store: MemoryStore, versions: int) -> None:
    """Another table in the place of the one that was here, by another process."""
    await emptied(store, LOG_DIR)
    table = Table(store.uri, store=MemoryStore(*store.uri.removeprefix("memory://").split("/")))
    for _ in range(versions):
        await write_table(table, pa.table({"name": ["x"]}))


async def names(store: MemoryStore) -> list[str | None]:
    found = await (await Table(store.uri, store=store).snapshot()).scan().to_arrow()
    return found.column("name").to_pylist()


async def test_a_race_is_not_lost_to_another_table() -> None:
    """It is made anew between the look at the base and the put."""
    store = space()
    for number in range(3):
        await write_table(Table(store.uri, store=store), rows(number))
    table = Table(store.uri, store=OvertakenStore(store, lambda: made_anew(store, 5)))
    await table.snapshot()
    with pytest.raises(CommitConflictError, match="dropped or made anew"):
        await write_table(table, rows(99))
    assert await names(store) == ["x"] * 5
    with pytest.raises(SchemaMismatchError):
        await write_table(table, rows(99))


async def test_commits_that_are_read_over_a_gap_are_of_the_same_table() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(0))
    tx = await begun(table)
    await tx.append(rows(99))
    for number in range(260):  # more than a queue remembers
        await write_table(table, rows(number))
    await made_anew(store, 4)
    with pytest.raises(CommitConflictError, match="dropped or made anew"):
        await end(tx)
    assert await names(store) == ["x"] * 4


async def test_what_a_late_answer_says_is_as_old_as_its_question() -> None:
    """A commit lands, its table is dropped, and only then comes the answer."""
    store = space()
    landed, go = asyncio.Event(), asyncio.Event()

    class SlowAnswer(WrappedStore):
        slow = False

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            found = await run()
            if self.slow and request.kind == "put" and request.path.endswith(".json"):
                self.slow = False
                landed.set()
                await go.wait()
            return found

    slow = SlowAnswer(store)
    table = Table(store.uri, store=slow)
    for number in range(3):
        await write_table(table, rows(number))
    slow.slow = True
    first = asyncio.create_task(write_table(table, rows(3)))
    await landed.wait()
    await emptied(store)
    second = asyncio.create_task(write_table(table, rows(4)))
    await asyncio.sleep(0.05)
    go.set()
    assert (await first).version == 3
    with pytest.raises((CommitConflictError, TableNotFoundError)):
        await second
    assert await versions(store) == []


async def test_the_version_that_a_handle_holds_is_not_another_tables() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await appended(store, 0, 1)
    await table.snapshot()
    await made_anew(store, 3)
    found = await (await table.snapshot(version=1)).scan().to_arrow()
    assert found.to_pydict() == {"name": ["x", "x"]}


async def test_a_winner_that_is_damaged_leaves_no_doubt() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(1))
    await store.put(commit_path(1), b'{"add":')
    with pytest.raises(InvalidTableError):
        await write_table(table, rows(3))
    paths = [m.path async for page in store.list() for m in page]
    assert sum(path.endswith(".parquet") for path in paths) == 1, "what was written is deleted"
