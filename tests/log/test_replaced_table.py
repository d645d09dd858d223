"""A table that is dropped, made anew or cleaned up while a handle on it stays open."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import ObjectNotFoundError, TableNotFoundError
from adelta.kernel.log_path import checkpoint_path, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.commit_provenance import read_commit_info
from adelta.log.commit_reader import read_commit
from adelta.log.latest import LatestState
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.logs import Line, add, metadata, protocol, put_commit
from tests.support.stores import CountingStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectMeta

HOW = pytest.mark.parametrize("recent", [True, False], ids=["by name", "by listing"])
PROVENANCE = pytest.mark.parametrize("provenance", [True, False], ids=["txnId", "no provenance"])


def info(**more: Any) -> Line:
    return {"commitInfo": {"timestamp": 1, "txnId": str(uuid.uuid4()), **more}}


async def make(
    store: MemoryStore, last: int, *, name: str = "old", provenance: bool = True, first: int = 0
) -> None:
    """A table of which every version adds a file."""
    for version in range(first, last + 1):
        lines = [protocol(), metadata(id=name)] if version == 0 else []
        stamp = [info()] if provenance else []
        await put_commit(store, version, *stamp, *lines, add(f"{name}-{version}.parquet"))


async def drop(store: MemoryStore) -> None:
    await store.delete([meta.path async for page in store.list() for meta in page])


async def files_of(state: LogState) -> set[str]:
    return {file.path for file in (await state.files()).rows()}


def all_of(name: str, last: int) -> set[str]:
    return {f"{name}-{version}.parquet" for version in range(last + 1)}


async def opened_at(store: MemoryStore, last: int, how: str) -> LogState:
    """A state of version `last`: opened there, or brought there by commits."""
    if how == "opened":
        return await load_state(store)
    state = await load_state(store, version=last - 1)
    return state.advance([await read_commit(store, last)])


@HOW
@PROVENANCE
@pytest.mark.parametrize("how", ["opened", "advanced"])
@pytest.mark.parametrize("new_last", [0, 2, 5, 6, 7, 9])
async def test_a_table_that_was_made_anew_is_followed(
    recent: bool, provenance: bool, how: str, new_last: int
) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await make(store, 5, provenance=provenance)
    state = await opened_at(store, 5, how)
    assert await files_of(state) == all_of("old", 5)
    await drop(store)
    clock.advance(ms=1 if provenance else 1000)
    await make(store, new_last, name="new", provenance=provenance)
    found = await refresh_state(state, recent=recent)
    assert (found.version, found.metadata.id) == (new_last, "new")
    assert await files_of(found) == all_of("new", new_last)


@HOW
@PROVENANCE
async def test_a_table_that_was_dropped_is_not_found(recent: bool, provenance: bool) -> None:
    store = MemoryStore()
    await make(store, 5, provenance=provenance)
    state = await load_state(store)
    await drop(store)
    with pytest.raises(TableNotFoundError):
        await refresh_state(state, recent=recent)


@HOW
async def test_a_version_whose_commit_is_unchanged_stays_as_it_is(recent: bool) -> None:
    store = MemoryStore()
    await make(store, 5)
    for how in ("opened", "advanced"):
        state = await opened_at(store, 5, how)
        assert await refresh_state(state, recent=recent) is state


@HOW
async def test_a_commit_that_is_put_in_place_again_is_known_by_its_transaction(
    recent: bool,
) -> None:
    """As a coordinator does that finds it missing: the file has another time then."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await make(store, 5)
    for how in ("opened", "advanced"):
        state = await opened_at(store, 5, how)
        clock.advance(seconds=100)
        await store.put(commit_path(5), await store.get(commit_path(5)))
        assert await refresh_state(state, recent=recent) is state


@HOW
async def test_one_without_a_transaction_id_is_read_anew_and_is_the_same_table(
    recent: bool,
) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    await make(store, 5, provenance=False)
    state = await load_state(store)
    clock.advance(seconds=100)
    await store.put(commit_path(5), await store.get(commit_path(5)))
    found = await refresh_state(state, recent=recent)
    assert found is not state
    assert found.continues(state)
    assert await refresh_state(found, recent=recent) is found


class WholeSeconds(WrappedStore):
    """A store that lists times in milliseconds, and else tells them in seconds, as some do."""

    async def head(self, path: str) -> ObjectMeta:
        meta = await super().head(path)
        return type(meta)(meta.path, meta.size, meta.last_modified_ms // 1000 * 1000)


async def test_times_in_whole_seconds_do_not_look_like_another_table() -> None:
    inner = MemoryStore(clock=ManualClock(1_700_000_000_123))
    await make(inner, 5, provenance=False)
    state = await load_state(WholeSeconds(inner))
    assert await refresh_state(state, recent=True) is state


async def test_provenance_is_read_by_one_request_unless_much_is_before_it() -> None:
    store = CountingStore(MemoryStore())
    await put_commit(store, 0, info(operation="first"), *(add(f"{n}") for n in range(400)))
    await put_commit(store, 1, add("a"), info(operation="last"))
    await put_commit(store, 2, *(add(f"{n}") for n in range(400)), info(operation="far"))
    await put_commit(store, 3, add("a"))
    await put_commit(store, 4)
    found = []
    for version in range(5):
        store.clear()
        told = await read_commit_info(store, version)
        found.append((told.operation, store.count))
    assert found == [("first", 1), ("last", 1), ("far", 2), (None, 1), (None, 1)]


@HOW
async def test_provenance_that_is_long_or_not_in_front_is_found_all_the_same(recent: bool) -> None:
    store = MemoryStore()
    await make(store, 1)
    await put_commit(store, 2, info(userMetadata="x" * 100_000), add("a"))
    await put_commit(store, 3, add("b"), info())
    await put_commit(store, 4, *(add(f"{n}.parquet") for n in range(400)), info())
    for version in (2, 3, 4):
        before = await load_state(store, version=version - 1)
        state = before.advance([await read_commit(store, version)])
        later = await refresh_state(state, recent=recent)
        assert later.version == 4
        assert later.continues(state)
        assert later.segment is state.segment, "it was carried on"


@HOW
async def test_a_log_that_was_cleaned_up_behind_a_newer_checkpoint_is_opened_anew(
    recent: bool,
) -> None:
    store = MemoryStore()
    await make(store, 5)
    state = await load_state(store)
    await make(store, 20, first=6)
    await write_checkpoint(await load_state(store))
    await store.delete([commit_path(version) for version in range(20)])
    found = await refresh_state(state, recent=recent)
    assert found.version == 20
    assert found.continues(state)
    assert await files_of(found) == all_of("old", 20)


@HOW
async def test_a_log_of_which_only_a_checkpoint_is_left_can_be_followed(recent: bool) -> None:
    store = CountingStore(MemoryStore())
    await make(store.inner, 5)  # type: ignore[arg-type]  # it is one
    await write_checkpoint(await load_state(store))
    await store.delete([commit_path(version) for version in range(6)])
    state = await load_state(store)
    store.clear()
    assert await refresh_state(state, recent=recent) is state
    assert store.kinds == (Counter(get=1, head=1) if recent else Counter(list=1))
    await make(store.inner, 6, first=6)  # type: ignore[arg-type]
    later = await refresh_state(state, recent=recent)
    assert await files_of(later) == all_of("old", 6)
    await write_checkpoint(later)
    await store.delete([commit_path(6), checkpoint_path(5)])
    assert (await refresh_state(state, recent=recent)).version == 6


# ------------------------------------------------------------------------------ through a handle


async def test_a_handle_follows_the_new_table_and_forgets_the_old_one() -> None:
    store = MemoryStore()
    await make(store, 5)
    latest = LatestState(store)
    old = await latest.latest_state()
    await drop(store)
    await make(store, 1, name="new")
    assert (await latest.latest_state()).metadata.id == "new"
    known = await latest.known_state()
    assert (known.version, known.metadata.id) == (1, "new")
    latest.publish_state(old)
    assert await latest.known_state() is known, "it is of a table that is gone"
    await make(store, 2, name="new", first=2)
    assert (await latest.latest_state()).version == 2


async def test_a_handle_does_not_know_a_table_that_it_has_found_dropped() -> None:
    store = MemoryStore()
    await make(store, 5)
    latest = LatestState(store)
    old = await latest.latest_state()
    await drop(store)
    for look in (latest.latest_state, latest.known_state, latest.latest_state):
        with pytest.raises(TableNotFoundError):
            await look()
    latest.publish_state(old)
    with pytest.raises(TableNotFoundError):
        await latest.known_state()
    await make(store, 0, name="new")
    assert (await latest.known_state()).metadata.id == "new"


async def test_a_table_that_comes_back_under_its_id_is_known_again() -> None:
    store = MemoryStore()
    await make(store, 5)
    counted = CountingStore(store)
    latest = LatestState(counted)
    await latest.latest_state()
    await drop(store)
    with pytest.raises(TableNotFoundError):
        await latest.latest_state()
    await make(store, 3)
    assert (await latest.latest_state()).version == 3
    counted.clear()
    assert (await latest.known_state()).version == 3
    assert counted.count == 0
    await drop(store)
    await make(store, 1)
    assert (await latest.latest_state()).version == 1
    await make(store, 2, first=2)
    latest.publish_state(await load_state(store))
    assert (await latest.known_state()).version == 2


async def test_a_state_of_before_does_not_take_the_place_of_a_newer_one() -> None:
    store = MemoryStore()
    await make(store, 3)
    latest = LatestState(store)
    older = await latest.latest_state()
    await make(store, 4, first=4)
    newer = older.advance([await read_commit(store, 4)])
    latest.publish_state(newer)
    latest.publish_state(older)
    assert await latest.known_state() is newer


async def test_a_first_version_takes_the_place_of_a_table_that_was_here_before() -> None:
    store = MemoryStore()
    await make(store, 5)
    latest = LatestState(store)
    old = await latest.latest_state()
    await drop(store)
    await make(store, 0, name="new")
    created = await load_state(store)
    latest.publish_state(created)
    assert await latest.known_state() is created
    latest.publish_state(old)
    assert await latest.known_state() is created


async def test_a_metadata_of_another_id_within_the_log_is_no_other_table() -> None:
    store = MemoryStore()
    await make(store, 2)
    latest = LatestState(store)
    await latest.latest_state()
    await put_commit(store, 3, info(), metadata(id="replaced"))
    replaced = await latest.latest_state()
    assert replaced.metadata.id == "replaced"
    await put_commit(store, 4, info(), metadata(id="old"))
    latest.publish_state(replaced.advance([await read_commit(store, 4)]))
    assert (await latest.known_state()).version == 4


def rows(value: int) -> pa.Table:
    return pa.table({"a": [value]})


@pytest.fixture(params=["memory", "disk"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return f"memory://{uuid.uuid4()}" if request.param == "memory" else f"{tmp_path}/table"


async def test_a_write_through_a_stale_handle_leaves_no_gap(uri: str) -> None:
    async with adelta.open_table(uri) as stale:
        for n in range(6):
            await adelta.write_table(stale, rows(n))
        await stale.snapshot()
        await stale.store.delete([meta.path async for page in stale.store.list() for meta in page])
        for n in range(2):
            await adelta.write_table(uri, rows(100 + n))
        assert (await stale.snapshot()).version == 1
        await adelta.write_table(stale, rows(7))
        found = await (await stale.snapshot()).scan().to_arrow()
        assert sorted(found.column("a").to_pylist()) == [7, 100, 101]
    async with adelta.open_table(uri) as anew:
        assert (await anew.snapshot()).version == 2


async def test_a_snapshot_after_ones_own_write_asks_for_two_things_and_reads_nothing() -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    await adelta.write_table(table, rows(1))
    for n in range(2):
        await adelta.write_table(table, rows(n))
        store.clear()
        before = await table.snapshot()
        assert store.kinds == Counter(get=2)
        assert (await table.snapshot())._state is before._state


async def test_a_log_that_is_cleaned_up_between_the_look_and_the_reading_is_loaded_anew() -> None:
    class CleanedUp(WrappedStore):
        gone = False

        async def get_many(self, paths: Sequence[str]) -> list[bytes]:
            if self.gone:
                self.gone = False
                raise ObjectNotFoundError(f"there is no {paths[0]}")
            return await super().get_many(paths)

    store = CleanedUp(MemoryStore())
    table, other = Table(store.uri, store=store), Table(store.uri, store=store)
    await adelta.write_table(table, pa.table({"id": [0]}))
    state = await load_state(store)
    for number in range(1, 6):
        await adelta.write_table(other, pa.table({"id": [number]}))
    store.gone = True
    assert (await refresh_state(state)).version == 5
    assert not store.gone
