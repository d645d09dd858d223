"""Many snapshots of one handle at one moment share a look at the log, which begins after them."""

from __future__ import annotations

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
import pytest

import adelta
import adelta.sync
from adelta._clock import monotonic
from adelta.errors import InvalidUseError, StorageError, TableNotFoundError
from adelta.log.latest import LatestState
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.stores import CountingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.support.s3_server import S3Location

R = TypeVar("R")

AT_ONCE = 200
A_LOOK = Counter(get=2)  # whether the version stands, and the one after it


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


class GatedStore(WrappedStore):
    """A store whose requests take effect, and are answered when the gate is open."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.open = asyncio.Event()
        self.open.set()
        self.answered: list[Request] = []

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        try:
            return await run()
        finally:
            await self.open.wait()
            self.answered.append(request)


async def looking(table: Table, count: int = 1) -> list[asyncio.Task[adelta.Snapshot]]:
    """Calls of `snapshot` whose look at the log is under way."""
    tasks = [asyncio.ensure_future(table.snapshot()) for _ in range(count)]
    for _ in range(20):
        await asyncio.sleep(0)
    return tasks


async def test_snapshots_of_one_moment_cost_two_looks_at_most() -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    await adelta.write_table(table, rows(1))
    store.clear()
    found = await asyncio.gather(*(table.snapshot() for _ in range(AT_ONCE)))
    assert {snapshot.version for snapshot in found} == {0}
    assert store.kinds in (A_LOOK, A_LOOK + A_LOOK)


async def test_on_s3_too(s3_location: S3Location) -> None:
    async with adelta.open_table(s3_location.uri, s3_location.storage_options) as table:
        await adelta.write_table(table, rows(1))
        before = table.store.inner.request_count  # type: ignore[attr-defined]
        found = await asyncio.gather(*(table.snapshot() for _ in range(AT_ONCE)))
        assert {snapshot.version for snapshot in found} == {0}
        asked = table.store.inner.request_count - before  # type: ignore[attr-defined]
        assert asked <= 2 * A_LOOK.total()


def test_of_threads_too(s3_location: S3Location) -> None:
    seen: list[str] = []
    with adelta.sync.open_table(s3_location.uri, s3_location.storage_options) as table:
        adelta.sync.write_table(table, rows(1))
        store = table._async().store.inner
        store.observe_requests(lambda method, *_: seen.append(method))
        with ThreadPoolExecutor(32) as threads:
            found = list(threads.map(lambda _: table.snapshot().version, range(320)))
    assert set(found) == {0}
    assert len(seen) < 320, "threads that come together share a look"


async def test_an_answer_is_never_older_than_the_question() -> None:
    store = GatedStore()
    table, other = Table(store.uri, store=store), Table(store.uri, store=store.inner)
    await adelta.write_table(table, rows(1))
    store.open.clear()
    early = await looking(table, 3)
    await adelta.write_table(other, rows(2))
    late = await looking(table, AT_ONCE)
    store.open.set()
    assert {snapshot.version for snapshot in await asyncio.gather(*early)} == {0}
    found = await asyncio.gather(*late)
    assert {snapshot.version for snapshot in found} == {1}


async def test_an_error_of_a_look_reaches_all_and_the_next_look_is_well() -> None:
    store = GatedStore()
    table = Table(store.uri, store=store)
    with pytest.raises(TableNotFoundError):
        await table.snapshot()
    errors = await asyncio.gather(*await looking(table, AT_ONCE), return_exceptions=True)
    assert {type(error) for error in errors} == {TableNotFoundError}
    assert len({id(error) for error in errors}) == AT_ONCE
    await adelta.write_table(table, rows(1))
    assert (await table.snapshot()).version == 0


async def test_a_dropped_table_is_gone_for_all_who_shared_the_look() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, rows(1))
    old = await table._source.latest_state()
    await store.delete([meta.path async for page in store.list() for meta in page])
    errors = await asyncio.gather(*await looking(table, 5), return_exceptions=True)
    assert {type(error) for error in errors} == {TableNotFoundError}
    table._source.publish_state(old)
    with pytest.raises(TableNotFoundError):
        await table._source.known_state()


async def test_a_state_is_seen_when_the_shared_look_began() -> None:
    store = GatedStore()
    latest = LatestState(store)
    await adelta.write_table(Table(store.uri, store=store.inner), rows(1))
    before = monotonic()
    store.open.clear()
    look = asyncio.ensure_future(latest.latest_state())
    await asyncio.sleep(0.01)
    begun = monotonic()
    store.open.set()
    state = await look
    assert state.newest_since(before)
    assert not state.newest_since(begun)


async def test_a_look_that_began_before_a_doubt_does_not_settle_it() -> None:
    store = GatedStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, rows(1))
    store.open.clear()
    (look,) = await looking(table)
    table._source.doubt_state()
    store.open.set()
    await look
    store.answered.clear()
    await table._source.known_state()
    assert store.answered, "the log is looked at again"
    store.answered.clear()
    await table._source.known_state()
    assert not store.answered


@pytest.mark.parametrize("count", [1, 5])
async def test_a_handle_that_is_closed_ends_its_looks(count: int) -> None:
    store = GatedStore()
    table = Table(store.uri, store=store)
    await adelta.write_table(table, rows(1))
    store.open.clear()
    store.answered.clear()
    before = asyncio.all_tasks()
    looks = [*await looking(table, count), *await looking(table, count)]
    await table.aclose()
    for error in await asyncio.gather(*looks, return_exceptions=True):
        assert isinstance(error, InvalidUseError)
        assert "closed" in str(error)
    assert asyncio.all_tasks() == before
    store.open.set()
    for _ in range(20):
        await asyncio.sleep(0)
    assert not store.answered, "no request of an ended look is still under way"


async def test_a_look_on_s3_that_is_ended_leaves_no_connection(s3_location: S3Location) -> None:
    table = adelta.open_table(s3_location.uri, s3_location.storage_options)
    await adelta.write_table(table, rows(1))
    looks = [asyncio.ensure_future(table.snapshot()) for _ in range(AT_ONCE)]
    await asyncio.sleep(0.001)
    await table.aclose()
    for end in await asyncio.gather(*looks, return_exceptions=True):
        assert isinstance(end, InvalidUseError | adelta.Snapshot), end
        assert not isinstance(end, StorageError)
    assert table.store.inner._client._pool._bound is None  # type: ignore[attr-defined]
