"""A handle that lives long: what it keeps in memory does not grow with every commit."""

from __future__ import annotations

import pyarrow as pa

from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.commit_reader import read_commit
from adelta.log.latest import LatestState
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from tests.support.builders import TableBuilder
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
