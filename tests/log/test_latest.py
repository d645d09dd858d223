"""A handle that lives long: what it keeps in memory does not grow with every commit."""

from __future__ import annotations

import pyarrow as pa
import pytest

from adelta._clock import told_by
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.commit_reader import read_commit
from adelta.log.latest import LatestState
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from tests.support.builders import TableBuilder
from tests.support.clock import Later
from tests.support.stores import CountingStore

SCHEMA = pa.schema([("id", pa.int64())])
COMMITS = 1010


async def after_many_commits(*, checkpoint_at: int | None) -> tuple[CountingStore, LatestState]:
    """The state of a writer that has followed the table from its beginning."""
    inner = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=inner)
    store = CountingStore(inner)
    latest = LatestState(store)
    state = await latest.latest_state()
    for version in range(1, COMMITS + 1):
        await builder.commit(builder.add(f"{version}.parquet", rows=1))
        state = state.advance([await read_commit(store, version)])
    latest.publish_state(state)
    if checkpoint_at is not None:
        await write_checkpoint(await load_state(inner, version=checkpoint_at))
    store.clear()
    return store, latest


async def test_a_state_that_followed_very_many_commits_begins_anew_with_a_checkpoint() -> None:
    store, latest = await after_many_commits(checkpoint_at=1000)
    state = await latest.known_state()
    assert (state.version, state.tail_length) == (COMMITS, 10)
    assert (await state.files()).num_files == COMMITS
    store.clear()
    assert await latest.known_state() is state
    assert store.count == 0


async def test_without_a_checkpoint_it_does_not_try_again_at_once() -> None:
    store, latest = await after_many_commits(checkpoint_at=None)
    state = await latest.known_state()
    assert state.version == COMMITS
    store.clear()
    assert await latest.known_state() is state
    assert store.count == 0


@pytest.mark.parametrize("clocks", [Later(700.0, 0.0), Later(0.0, 700.0), Later(-86_400.0, 700.0)])
async def test_a_state_is_not_recent_any_more_by_whichever_clock_says_so(clocks: Later) -> None:
    store = CountingStore(MemoryStore())
    builder = await TableBuilder.create(SCHEMA, store=store)
    latest = LatestState(store)
    await latest.latest_state()
    await builder.commit(builder.add("a.parquet", rows=1))
    assert (await latest.known_state()).version == 0
    with told_by(clocks):
        assert (await latest.known_state()).version == 1


async def test_the_list_of_files_stays_in_few_pieces_however_often_it_is_carried_on() -> None:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    state = await load_state(store)
    for version in range(1, 201):
        await builder.commit(builder.add(f"{version}.parquet", rows=1))
        state = state.advance([await read_commit(store, version)])
        files = await state.files()
        assert files.num_files == version
        assert files.table.column(0).num_chunks <= 64
