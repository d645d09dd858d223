"""Tailing a log: every commit once, in order, and then those that are still to come."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

import anyio
import pyarrow as pa
import pytest

from adelta import Position, changes, tail
from adelta.errors import (
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    MissingCommitError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.operations import write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.logs import add, metadata, protocol, put_checkpoint, put_commit, remove
from tests.support.stores import CountingStore, OverlookingStore, WrappedStore
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.storage.object_store import ObjectStore
    from tests.support.stores import Request

R = TypeVar("R")


class CleanedUpStore(WrappedStore):
    """Commits that are `gone` when they are first fetched."""

    gone: tuple[int, ...] = ()

    async def get_many(self, paths: Sequence[str]) -> list[bytes]:
        await self.inner.delete([commit_path(version) for version in self.gone])
        return await super().get_many(paths)


@pytest.fixture
def store() -> CountingStore:
    return CountingStore(MemoryStore())


@pytest.fixture
def table(store: CountingStore) -> Table:
    return Table("memory://tail", store=store)


async def write(store: ObjectStore, *versions: int) -> None:
    for version in versions:
        lines = [protocol(), metadata()] if version == 0 else []
        await put_commit(
            store,
            version,
            {"commitInfo": {"timestamp": version, "operation": "WRITE"}},
            *lines,
            add(f"{version}.parquet"),
        )


async def take(table: Table, count: int, since: object = 0, poll: float = 0.02) -> list[int]:
    versions = []
    with anyio.fail_after(60):
        async with aclosing(tail(table, since, poll=poll)) as commits:  # type: ignore[arg-type,type-var]
            async for commit in commits:
                versions.append(commit.version)
                if len(versions) == count:
                    break
    return versions


async def it_waits(store: CountingStore) -> None:
    """Wait until whoever follows has come to the end, where it looks again and again."""
    seen = store.kinds["list"]
    await until(lambda: store.kinds["list"] > seen + 3)


async def test_every_commit_comes_once_and_in_order(store: CountingStore, table: Table) -> None:
    await write(store, *range(150))
    assert await take(table, 150) == list(range(150))


async def test_a_commit_says_what_it_did(store: CountingStore, table: Table) -> None:
    await write(store, 0)
    await put_commit(store, 1, add("b%20c.parquet", size=7), remove("0.parquet"))
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        first, second = await anext(commits), await anext(commits)
    assert first.info.operation == "WRITE"
    assert first.metadata is not None
    assert first.protocol is not None
    assert first.position == Position(1)
    assert second.adds.select(["path", "size"]).to_pylist() == [
        {"path": "b%20c.parquet", "size": 7}
    ]
    assert second.removes.column("path").to_pylist() == ["0.parquet"]
    assert second.timestamp >= first.timestamp


async def test_commits_that_come_later_are_waited_for(store: CountingStore, table: Table) -> None:
    await write(store, 0)
    seen: list[int] = []

    async def consume() -> None:
        seen.extend(await take(table, 3))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await it_waits(store)
            await write(store, 1)
            await it_waits(store)
            await write(store, 2)
    assert seen == [0, 1, 2]


async def test_waiting_costs_one_listing_a_look(store: CountingStore, table: Table) -> None:
    await write(store, 0)
    async with aclosing(tail(table, poll=0.01)) as commits:  # type: ignore[type-var]
        await anext(commits)
        store.clear()
        waiting = asyncio.ensure_future(anext(commits))
        await until(lambda: store.kinds["list"] > 5)
        looks = [request.kind for request in store.requests]
        waiting.cancel()
        await asyncio.wait([waiting])
    first = looks.index("get")  # one look at who decides on the table's commits
    assert set(looks[first + 3 :]) == {"list"}


async def test_a_position_goes_on_where_the_consumer_stopped(
    store: CountingStore, table: Table
) -> None:
    await write(store, *range(5))
    position = Position.parse(str(Position(3)))
    store.requests.clear()
    assert await take(table, 2, since=position) == [3, 4]
    asked = [request.path for request in store.requests if request.kind == "get"]
    assert asked.count(commit_path(2)) == 2, "for the table's id; and by which it is known again"
    assert all(asked.count(commit_path(version)) == 1 for version in (0, 1))


async def test_latest_is_what_is_committed_from_now_on(store: CountingStore, table: Table) -> None:
    await write(store, 0, 1)
    seen: list[int] = []

    async def consume() -> None:
        seen.extend(await take(table, 1, since="latest"))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await it_waits(store)
            await write(store, 2)
    assert seen == [2]


async def test_a_consumer_that_clean_up_has_overtaken_is_told_where_to_start(
    store: CountingStore, table: Table
) -> None:
    await write(store, *range(6))
    await put_checkpoint(store, 4, [protocol(), metadata()])
    await store.delete([commit_path(version) for version in range(4)])
    with pytest.raises(ChangesNotAvailableError, match=r"0 to 3 .* start again from version 4"):
        await take(table, 1)


async def test_clean_up_under_a_waiting_consumer_is_told_too(
    store: CountingStore, table: Table
) -> None:
    await write(store, 0)
    async with aclosing(tail(table, poll=0.01)) as commits:  # type: ignore[type-var]
        await anext(commits)
        await put_checkpoint(store, 2, [protocol(), metadata()])
        await write(store, 3)
        with pytest.raises(ChangesNotAvailableError, match="1 to 2"):
            await anext(commits)


async def test_a_gap_in_the_log_is_named(store: CountingStore, table: Table) -> None:
    await write(store, 0, 1, 3)
    with pytest.raises(MissingCommitError, match="version 2"):
        await take(table, 4)


@pytest.mark.parametrize(
    "overlooked",
    [
        [{1}],  # the next one, and a later one is shown
        [{1}, {1}],
        [{2}, {2}],  # the next but one: list_log looks twice itself
        [{1, 2}],
        [{2, 3}] * 2,
        [{1, 2, 3, 4}],  # nothing is shown at all, though the table is at version 4
        [{2, 3, 4}] * 3,
    ],
)
@pytest.mark.parametrize("before", [0, 1])
async def test_what_a_listing_overlooks_comes_once_and_in_order(
    overlooked: list[set[int]], before: int
) -> None:
    store = OverlookingStore(MemoryStore())
    table = Table("memory://overlooked", store=store)
    await write(store, *range(5))
    if before:  # the consumer has begun already
        async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
            seen = [(await anext(commits)).version]
            store.overlooked = list(overlooked)
            seen += [(await anext(commits)).version for _ in range(4)]
        assert seen == [0, 1, 2, 3, 4]
    else:
        store.overlooked = list(overlooked)
        assert await take(table, 4, since=1) == [1, 2, 3, 4]


async def test_a_position_at_the_head_is_in_reach_though_a_listing_overlooks_the_head() -> None:
    store = CountingStore(overlooking := OverlookingStore(MemoryStore()))
    table = Table("memory://overlooked", store=store)
    await write(store, 0, 1, 2)
    overlooking.overlooked = [set(), {2}]
    seen: list[int] = []

    async def consume() -> None:
        seen.extend(await take(table, 1, since=Position(3)))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(consume)
            await it_waits(store)
            await write(store, 3)
    assert seen == [3]


async def test_what_is_read_before_a_commit_is_found_gone_is_given() -> None:
    store = CleanedUpStore(MemoryStore())
    table = Table("memory://overlooked", store=store)
    await write(store, *range(6))
    await put_checkpoint(store, 4, [protocol(), metadata()])
    store.gone = (0, 1, 2, 3)
    with pytest.raises(ChangesNotAvailableError, match=r"0 to 3 .* start again from version 4"):
        await take(table, 1)
    assert await take(table, 2, since=4) == [4, 5]
    store.gone = (5,)
    with pytest.raises(VersionNotFoundError, match="version 5 is gone, and nothing later"):
        await take(table, 2, since=4)


async def test_a_commit_in_the_middle_of_the_log_that_stays_missing_is_named() -> None:
    """A checkpoint that is later than the next commit does not make the log begin there."""
    store = CountingStore(MemoryStore())
    table = Table("memory://gap", store=store)
    await write(store, 0, 1, 3, 4, 5)
    await put_checkpoint(store, 4, [protocol(), metadata()])
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        assert [(await anext(commits)).version for _ in range(2)] == [0, 1]
        with pytest.raises(MissingCommitError, match="version 2 is missing"):
            await anext(commits)
    asked = [request for request in store.requests if request.kind == "head"]
    assert {request.path for request in asked} == {commit_path(2)}
    assert len(asked) > 1


async def test_what_a_clean_up_that_failed_has_left_does_not_make_the_log_a_damaged_one() -> None:
    """It deletes in no order, and keeps commits that the times of later ones hang on."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    table = Table(store.uri, store=store)
    await write(store, *range(6))
    clock.advance(days=40)
    await write(store, 6, 7, 8)
    await put_checkpoint(store, 6, [protocol(), metadata()])
    await store.delete([commit_path(version) for version in (2, 3)])
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        assert [(await anext(commits)).version for _ in range(2)] == [0, 1]
        with pytest.raises(ChangesNotAvailableError, match=r"2 to 3 .* again from version 4") as it:
            await anext(commits)
    assert it.value.earliest_version == 4
    assert await take(table, 5, since=4) == [4, 5, 6, 7, 8]


async def test_checkpoints_alone_tell_of_clean_up_too(store: CountingStore, table: Table) -> None:
    await write(store, 0, 1)
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        assert [(await anext(commits)).version for _ in range(2)] == [0, 1]
        await put_checkpoint(store, 3, [protocol(), metadata()])
        await store.delete([commit_path(0), commit_path(1)])
        with pytest.raises(ChangesNotAvailableError, match=r"2 to 3 .* start again from version 4"):
            await anext(commits)


async def test_a_table_that_is_dropped_under_a_consumer_is_an_error() -> None:
    store = CleanedUpStore(MemoryStore())
    table = Table("memory://dropped", store=store)
    await write(store, 0, 1)
    store.gone = (0, 1)
    with pytest.raises(TableNotFoundError):
        await take(table, 1)


async def test_a_damaged_commit_is_named(store: CountingStore, table: Table) -> None:
    await write(store, 0)
    await store.put(commit_path(1), b'{"add":')
    with pytest.raises(InvalidTableError, match="version 1"):
        await take(table, 2)


class Failing(WrappedStore):
    """Where some commits cannot be read, a number of times each, for a reason of its own."""

    def __init__(self, inner: ObjectStore, why: Exception, times: dict[int, int]) -> None:
        super().__init__(inner)
        self.why = why
        self.times = {commit_path(version): left for version, left in times.items()}
        self.asked = 0

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "get" and self.times.get(request.path, 0):
            self.times[request.path] -= 1
            self.asked += 1
            raise self.why
        return await run()


async def followed(table: Table, count: int, since: int = 0) -> tuple[list[int], int]:
    """So many versions by whoever goes on behind the last one after an error; and those errors."""
    versions: list[int] = []
    errors = 0
    with anyio.fail_after(60):
        while len(versions) < count:
            next_one = versions[-1] + 1 if versions else since
            try:
                async with aclosing(tail(table, next_one, poll=0.02)) as commits:  # type: ignore[type-var]
                    while len(versions) < count:
                        versions.append((await anext(commits)).version)
            except StorageError:
                errors += 1
    return versions, errors


async def test_commits_before_one_that_cannot_be_read_come_before_the_error() -> None:
    store = Failing(MemoryStore(), StorageError("not now"), {5: 3, 9: 1})
    table = Table("memory://failing", store=store)
    await write(store, *range(12))
    seen: list[int] = []
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        seen += [(await anext(commits)).version for _ in range(5)]
        with pytest.raises(StorageError, match="not now"):
            await anext(commits)
    assert seen == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_whoever_goes_on_after_such_an_error_gets_each_commit_once(times: int) -> None:
    failing = dict.fromkeys(range(0, 150, 7), times)
    store = Failing(MemoryStore(), StorageError("not now"), failing)
    table = Table("memory://failing", store=store)
    await write(store, *range(150))
    versions, errors = await followed(table, 150)
    assert versions == list(range(150))
    assert errors <= sum(failing.values()) // 2, "each is asked for again at once"


async def test_commits_before_a_damaged_one_come_before_it_is_named(
    store: CountingStore, table: Table
) -> None:
    await write(store, *range(5))
    await store.put(commit_path(3), b'{"add":')
    assert await take(table, 3) == [0, 1, 2]
    with pytest.raises(InvalidTableError, match="version 3"):
        await take(table, 4)


async def test_a_commit_that_is_shown_and_denied_is_asked_for_again_but_not_for_ever() -> None:
    denied = ObjectNotFoundError("no such key")
    table = Table("memory://lying", store=Failing(MemoryStore(), denied, {2: 3}))
    await write(table.store, *range(4))
    assert await take(table, 4) == [0, 1, 2, 3]
    store = Failing(MemoryStore(), denied, {2: 10_000})
    table = Table("memory://lying", store=store)
    await write(store, *range(4))
    assert await take(table, 2) == [0, 1]
    with pytest.raises(ObjectNotFoundError, match="shows the commit of version 2, and answers"):
        await take(table, 3)
    assert store.asked < 20


async def test_no_table_is_an_error_at_once(table: Table) -> None:
    with pytest.raises(TableNotFoundError):
        await take(table, 1)


async def test_a_start_beyond_the_next_version_is_refused(
    store: CountingStore, table: Table
) -> None:
    await write(store, 0, 1)
    with pytest.raises(VersionNotFoundError, match="next version is 2"):
        await take(table, 1, since=3)


@pytest.mark.parametrize("since", [-1, True, "newest", 1.5])
async def test_a_start_that_makes_no_sense_is_refused(
    store: CountingStore, table: Table, since: object
) -> None:
    await write(store, 0)
    with pytest.raises(InvalidOptionError):
        await take(table, 1, since=since)


async def test_a_consumer_far_behind_fetches_commits_together(
    store: CountingStore, table: Table
) -> None:
    await write(store, *range(100))
    store.requests.clear()
    await take(table, 100)
    assert store.kinds == Counter(list=1, get=100)


def test_positions_are_ordered_and_have_a_text_form() -> None:
    assert Position(1, 5) < Position(2)
    assert Position.parse("12:3") == Position(12, 3)
    within = Position(12, 3, 400, in_snapshot=True, table_id="a b@c")
    assert str(within) == "s12:3+400@a%20b%40c"
    assert Position.parse(str(within)) == within
    assert Position.parse(str(within)).table_id == "a b@c"
    assert Position(12, 3, 5) < within < Position(13)
    with pytest.raises(InvalidOptionError):
        Position.parse("12")
    with pytest.raises(InvalidOptionError):
        Position(-1)


async def test_a_position_of_a_table_that_was_made_anew_is_refused() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(3):
        await write_table(table, pa.table({"id": [number]}))
    for since in (0, 1, Position(1), Position(2)):
        async with aclosing(tail(table, since, poll=0.02)) as commits:  # type: ignore[type-var]
            position = Position.parse(str((await anext(commits)).position))
            assert position.table_id == (await table.snapshot()).metadata.id
    await store.delete([m.path async for page in store.list() for m in page])
    other = Table(store.uri, store=store)
    for number in range(5):
        await write_table(other, pa.table({"id": [number]}))
    with pytest.raises(ChangesNotAvailableError, match="made anew, or another one"):
        await take(other, 1, since=position)
    with pytest.raises(ChangesNotAvailableError, match="made anew, or another one"):
        [batch async for batch in changes(other, position)]
    assert await take(other, 1, since=Position(position.version)) == [3], "an earlier form"


async def test_a_position_from_before_the_table_was_replaced_in_its_own_log_is_good() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await write_table(table, pa.table({"id": [1]}))
    async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
        position = (await anext(commits)).position
    await put_commit(store, 1, metadata(id="another"))
    await put_commit(store, 2, add("a.parquet"))
    assert await take(Table(store.uri, store=store), 2, since=position) == [1, 2]


@pytest.mark.parametrize("anew", [0, 2, 4, 6])
async def test_a_table_that_takes_the_place_of_the_one_followed_is_not_taken_for_it(
    anew: int,
) -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(4):
        await write_table(table, pa.table({"id": [number]}))
    with anyio.fail_after(60):
        async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
            assert [(await anext(commits)).version for _ in range(4)] == [0, 1, 2, 3]
            await store.delete([m.path async for page in store.list() for m in page])
            other = Table(store.uri, store=store)
            for number in range(anew):
                await write_table(other, pa.table({"name": [str(number)]}))
            with pytest.raises(ChangesNotAvailableError, match="dropped, or made anew"):
                await anext(commits)


async def test_a_clean_up_of_all_that_was_read_is_no_other_table() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await write_table(table, pa.table({"id": [0]}))
    with anyio.fail_after(60):
        async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
            await anext(commits)
            await write_table(table, pa.table({"id": [1]}))
            await write_checkpoint(await load_state(store))
            await store.delete([commit_path(0)])
            assert (await anext(commits)).version == 1


async def test_a_position_within_a_commit_is_not_for_whole_commits(table: Table) -> None:
    with pytest.raises(InvalidOptionError, match="1:3 stands within the commit 1"):
        await take(table, 1, since=Position(1, 3))


@pytest.mark.parametrize("since", ["latest", 3])
async def test_a_consumer_that_waits_at_the_head_does_not_take_another_table_for_its_own(
    since: object,
) -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    for number in range(3):
        await write_table(table, pa.table({"id": [number]}))
    store.clear()
    with anyio.fail_after(60):
        async with aclosing(tail(table, since, poll=0.02)) as commits:  # type: ignore[arg-type,type-var]
            waiting = asyncio.ensure_future(anext(commits))
            await it_waits(store)
            await store.delete([m.path async for page in store.list() for m in page])
            for number in range(6):
                await write_table(Table(store.uri, store=store), pa.table({"other": [number]}))
            with pytest.raises(ChangesNotAvailableError, match="dropped, or made anew"):
                await waiting


async def test_commits_that_are_put_in_place_again_are_the_same_without_a_transaction_id() -> None:
    """Copied for another encryption, or restored: the same bytes, of another time."""
    clock = ManualClock(1_000)
    store = MemoryStore(clock=clock)
    table = Table(store.uri, store=store)
    await put_commit(store, 0, {"commitInfo": {"operation": "A"}}, protocol(), metadata(), add("a"))
    await put_commit(store, 1, {"commitInfo": {"operation": "B"}}, add("b"))
    with anyio.fail_after(60):
        async with aclosing(tail(table, poll=0.02)) as commits:  # type: ignore[type-var]
            assert [(await anext(commits)).version for _ in range(2)] == [0, 1]
            clock.advance(seconds=100)
            for version in range(2):
                await store.put(commit_path(version), await store.get(commit_path(version)))
            await put_commit(store, 2, {"commitInfo": {"operation": "C"}}, add("c"))
            assert (await anext(commits)).version == 2
