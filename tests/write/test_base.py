"""What a commit is based on is in the log when it is put: else it would be put behind a gap."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import anyio
import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidTableError,
    SchemaMismatchError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.latest import LatestState
from adelta.log.load import load_state
from adelta.log.refresh import is_in_log
from adelta.operations import delete, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, latest_state
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore, DenyingStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectMeta, ObjectStore
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


class Together(WrappedStore):
    """Where a commit is put only while its base is asked for, and the reverse."""

    both: asyncio.Barrier | None = None

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.both is not None and request.path.endswith(".json"):
            await self.both.wait()
        return await run()


async def test_the_base_is_asked_for_beside_the_put() -> None:
    """A commit of one writer takes the time of one request, and an append that of two."""
    inner = MemoryStore()
    store = Together(inner)
    table = Table(inner.uri, store=store)
    await write_table(table, rows(1))
    store.both = asyncio.Barrier(2)
    with anyio.fail_after(60):
        await write_table(table, rows(2))
        async with table.transaction() as tx:
            await tx.append(rows(3))


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


class FailsToLook(WrappedStore):
    """Where the next `fails` requests for a commit fail."""

    fails = 0

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if self.fails and request.kind == "get":
            self.fails -= 1
            raise ThrottledError("slow down")
        return await run()


async def test_a_look_that_fails_is_made_again() -> None:
    inner = MemoryStore()
    store = FailsToLook(inner)
    table = Table(inner.uri, store=store)
    await write_table(table, rows(1))
    store.fails = 1
    assert (await write_table(table, rows(2))).version == 1
    assert not store.fails


async def test_where_the_base_cannot_be_asked_for_the_outcome_is_unknown() -> None:
    """Others may have committed behind it: to take the commit back would leave a gap."""
    inner = MemoryStore()
    store = FailsToLook(inner)
    table = Table(inner.uri, store=store)
    await write_table(table, rows(1))
    store.fails = 2
    with pytest.raises(CommitOutcomeUnknownError, match="slow down"):
        await write_table(table, rows(2))
    found = await (await Table(inner.uri, store=inner).snapshot()).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == [1, 2]


async def test_an_append_asks_for_one_object_and_puts_three() -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    await write_table(table, rows(1))
    store.clear()
    await write_table(table, rows(2))
    assert store.kinds == {"put": 3, "get": 1}, "a data file, the commit, its checksum; the base"


class OnPut(WrappedStore):
    """Where something happens as soon as a commit has been put, before its answer comes."""

    happens: Callable[[], Awaitable[None]] | None = None

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.happened = asyncio.Event()

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "get" and request.path.endswith(".json") and self.happens is not None:
            await self.happened.wait()  # the look comes after the put
        found = await run()
        if request.kind == "put" and request.path.endswith(".json") and self.happens is not None:
            happens, self.happens = self.happens, None
            await happens()
            self.happened.set()
        return found


async def test_a_commit_whose_base_goes_while_it_is_put_is_taken_back() -> None:
    store = space()
    on_put = OnPut(store)
    table = Table(store.uri, store=on_put)
    for number in range(3):
        await write_table(table, rows(number))

    async def drop_base() -> None:
        await store.delete([commit_path(2)])

    on_put.happens = drop_base
    with pytest.raises(CommitConflictError, match="no longer has version 2"):
        await write_table(table, rows(3))
    assert await versions(store) == [0, 1]
    assert (await write_table(table, rows(4))).version == 2
    paths = [m.path async for page in store.list() for m in page]
    assert sum(path.endswith(".parquet") for path in paths) == 4, "what was not committed is gone"


async def test_the_base_is_asked_for_again_where_the_put_took_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was there when it was sent off need not be there when it landed."""
    monkeypatch.setattr("adelta.commit.filesystem.LOOK_HOLDS", 0.1)
    store = space()

    class SlowPut(WrappedStore):
        slow = False

        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if self.slow and request.kind == "put" and request.path.endswith(".json"):
                await asyncio.sleep(0.2)
                await store.delete([commit_path(2)])
            return await run()

    slow = SlowPut(store)
    table = Table(store.uri, store=slow)
    for number in range(3):
        await write_table(table, rows(number))
    slow.slow = True
    with pytest.raises(CommitConflictError, match="no longer has version 2"):
        await write_table(table, rows(3))
    assert await versions(store) == [0, 1]


class Garbles(WrappedStore):
    """Where the first answers to requests for some commits have no body."""

    def __init__(self, inner: ObjectStore) -> None:
        super().__init__(inner)
        self.empty: dict[str, int] = {}

    async def get_range(self, path: str, start: int, end: int) -> bytes:
        found = await super().get_range(path, start, end)
        return self._garbled(path, found)

    async def get(self, path: str) -> bytes:
        return self._garbled(path, await super().get(path))

    def _garbled(self, path: str, found: bytes) -> bytes:
        self.empty[path] = left = self.empty.get(path, 0) - 1
        return b"" if left >= 0 else found


async def test_one_answer_without_a_body_takes_no_commit_back() -> None:
    inner = space()
    store = Garbles(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    store.empty[commit_path(2)] = 1
    assert (await write_table(table, rows(3))).version == 3


@pytest.mark.parametrize("times", [1, 3, 4])
async def test_a_base_that_is_listed_and_denied_takes_no_commit_back(times: int) -> None:
    """Others may have read the commit by then."""
    inner = space()
    store = DenyingStore(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    store.denied, store.left = commit_path(2), times
    assert (await write_table(table, rows(3))).version == 3
    assert not store.left


@pytest.mark.parametrize("times", [5, 7])
async def test_whoever_has_lost_a_race_is_not_refused_because_its_base_is_denied(
    times: int,
) -> None:
    """Four of the denials meet the look beside the put, the others the one beside the winner."""
    inner = space()
    store = DenyingStore(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    await appended(inner, 3)
    store.denied, store.left = commit_path(2), times
    assert (await write_table(table, rows(4))).version == 4
    assert not store.left


@pytest.mark.parametrize("times", [1, 4])
@pytest.mark.parametrize("winner", [3, 4])
async def test_nor_because_a_winner_is_denied(winner: int, times: int) -> None:
    inner = space()
    store = DenyingStore(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    await appended(inner, 3, 4)
    store.denied, store.left = commit_path(winner), times
    assert (await write_table(table, rows(5))).version == 5
    assert not store.left


async def test_where_a_winner_is_always_denied_that_is_said() -> None:
    inner = space()
    store = DenyingStore(inner)
    table = Table(inner.uri, store=store)
    await write_table(table, rows(0))
    await appended(inner, 1)
    store.denied = commit_path(1)
    with pytest.raises(CommitOutcomeUnknownError, match="shows the commit of version 1"):
        await write_table(table, rows(2))
    assert await versions(inner) == [0, 1]


async def test_where_the_base_is_listed_and_always_denied_the_outcome_is_unknown() -> None:
    inner = space()
    store = DenyingStore(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    store.denied, store.left = commit_path(2), 99
    with pytest.raises(CommitOutcomeUnknownError, match="lists the commit of version 2"):
        await write_table(table, rows(3))
    assert await versions(inner) == [0, 1, 2, 3]


async def test_a_commit_that_cannot_be_told_to_be_ours_is_not_taken_back() -> None:
    """Its data files stay: it may well be ours."""
    inner = space()
    store = Garbles(inner)
    table = Table(inner.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    store.empty |= {commit_path(2): 99, commit_path(3): 99}
    with pytest.raises(CommitOutcomeUnknownError, match="does not hold what was put"):
        await write_table(table, rows(3))
    found = await (await Table(inner.uri, store=inner).snapshot()).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == [0, 1, 2, 3]


@pytest.mark.parametrize("denied", [0, 1, 99])
async def test_a_commit_on_which_another_stands_is_not_taken_back(denied: int) -> None:
    """A gap would be worse: the outcome is unknown, and the rows stay."""
    store = space()
    on_put = OnPut(DenyingStore(store, commit_path(4), denied))
    table = Table(store.uri, store=on_put)
    for number in range(3):
        await write_table(table, rows(number))
    base = await store.get(commit_path(2))

    async def other_history() -> None:
        await store.put(commit_path(2), base.replace(b'"txnId":"', b'"txnId":"x'))
        await appended(store, 100)

    on_put.happens = other_history
    with pytest.raises(CommitOutcomeUnknownError, match="another commit stands behind"):
        await write_table(table, rows(3))
    assert await versions(store) == [0, 1, 2, 3, 4]


async def test_a_commit_behind_which_another_comes_while_it_is_taken_back_is_put_back() -> None:
    """Who read it, and looked for it in time, has been told of a commit: no gap comes of that."""
    store = space()

    class SlowDelete(OnPut):
        async def delete(self, paths: Iterable[str]) -> None:
            taken_back = commit_path(3) in (names := list(paths))
            if taken_back:
                await store.put(commit_path(4), await store.get(commit_path(1)))
            await super().delete(names)

    on_put = SlowDelete(store)
    table = Table(store.uri, store=on_put)
    for number in range(3):
        await write_table(table, rows(number))
    base = await store.get(commit_path(2))

    async def other_history() -> None:
        await store.put(commit_path(2), base.replace(b'"txnId":"', b'"txnId":"x'))

    on_put.happens = other_history
    with pytest.raises(CommitOutcomeUnknownError, match="another commit stands behind"):
        await write_table(table, rows(3))
    assert await versions(store) == [0, 1, 2, 3, 4]


async def test_a_commit_that_may_come_late_leaves_an_unknown_outcome() -> None:
    """A request without an answer may be carried out after the commit was taken back."""
    store = space()

    class Repeats(OnPut):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            return replace(await super().put_if_absent(path, data), repeated=True)

    on_put = Repeats(store)
    table = Table(store.uri, store=on_put)
    for number in range(3):
        await write_table(table, rows(number))

    async def drop_base() -> None:
        await store.delete([commit_path(2)])

    on_put.happens = drop_base
    with pytest.raises(CommitOutcomeUnknownError, match="may still put it there"):
        await write_table(table, rows(3))
    assert await versions(store) == [0, 1]
    paths = [m.path async for page in store.list() for m in page]
    assert sum(path.endswith(".parquet") for path in paths) == 4, "its data file stays"


async def test_a_base_with_two_provenances_or_with_none_is_the_base() -> None:
    store = space()
    for number in range(2):
        await write_table(Table(store.uri, store=store), rows(number))
    commit = await store.get(commit_path(1))
    other = b'{"commitInfo":{"operation":"OTHER","txnId":"other"}}\n'
    without = b"".join(line for line in commit.splitlines(True) if b"commitInfo" not in line)
    for at, base in enumerate((commit + other, other + commit, without)):
        await store.put(commit_path(1), base)
        await store.delete([commit_path(2)])
        table = Table(store.uri, store=store)
        await table.snapshot()
        await store.put(commit_path(1), base)  # at another time
        assert (await write_table(table, rows(10 + at))).version == 2


async def test_a_table_restored_from_a_backup_gets_no_commits_of_before() -> None:
    """Neither the handle nor the queue of the process goes on with the versions that are gone."""
    store = space()
    table = Table(store.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    backup = {m.path: await store.get(m.path) async for page in store.list() for m in page}
    for number in range(3, 7):
        await write_table(table, rows(number))
    await emptied(store)
    for path, data in backup.items():
        await store.put(path, data)
    with pytest.raises(CommitConflictError, match="no longer has version 6"):
        await write_table(table, rows(99))
    assert await versions(store) == [0, 1, 2]
    assert (await write_table(table, rows(100))).version == 3
    found = await (await Table(store.uri, store=store).snapshot()).scan().to_arrow()
    assert sorted(found.column("id").to_pylist()) == [0, 1, 2, 100]


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


async def test_a_base_that_is_still_there_is_not_taken_for_the_newest() -> None:
    """What another task of the handle learns of an old version does not spare the look."""
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(1))
    held = await latest_state(table)
    await appended(store, 2)

    class Beside(LatestState):
        async def known_state(self) -> LogState:
            assert await is_in_log(held)  # as another task's commit asks, meanwhile
            return held

    table._source = Beside(store)
    done = await delete(table, "id = 2")
    assert done.num_deleted_rows == 1


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
