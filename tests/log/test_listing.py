"""Listing a log while others write to it: a file may be left out that is older than one shown."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from adelta.errors import MissingCommitError
from adelta.kernel.log_path import commit_path
from adelta.log.listing import list_commits, list_log
from adelta.log.load import load_state
from adelta.log.refresh import refresh_state
from adelta.storage.memory import MemoryStore
from tests.support.builders import TableBuilder
from tests.support.stores import CountingStore, OverlookingStore

SCHEMA = pa.schema([("id", pa.int64())])


async def table(commits: int) -> MemoryStore:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    for number in range(commits):
        await builder.commit(builder.add(f"{number}.parquet", rows=1))
    return store


async def test_a_commit_that_a_listing_overlooks_is_not_missing() -> None:
    inner = await table(6)
    for overlooked in ([3], [2, 4], [1, 3, 5]):
        store = OverlookingStore(inner, *({version} for version in overlooked))
        state = await load_state(store)
        assert state.version == 6
        assert (await state.files()).num_files == 6
    store = OverlookingStore(inner, {4})
    assert (await load_state(store, version=5)).version == 5


async def test_a_refresh_is_not_misled_either() -> None:
    inner = await table(6)
    state = await load_state(inner, version=1)
    misled = replace(state, store=OverlookingStore(inner, {4}))
    assert (await refresh_state(misled)).version == 6


async def test_a_commit_that_is_really_missing_is_looked_for_twice() -> None:
    inner = await table(6)
    await inner.delete([commit_path(3)])
    store = OverlookingStore(inner)
    await list_log(store)
    assert store.listings == 2
    with pytest.raises(MissingCommitError):
        await load_state(store)


async def test_a_whole_log_is_listed_once() -> None:
    store = OverlookingStore(await table(6))
    await list_log(store)
    assert store.listings == 1


async def test_commits_that_listings_overlook_are_asked_for_by_name() -> None:
    inner = await table(6)
    for overlooked in ({3}, {6}, {0}, {5, 6}, {0, 1}, {2, 3, 4}, {0, 3, 6}):
        store = OverlookingStore(inner)
        store.always = overlooked
        commits = await list_commits(store, 0, 6)
        assert [commit.version for commit in commits] == [0, 1, 2, 3, 4, 5, 6]
        assert commits == await list_commits(inner, 0, 6)
        commits = await list_commits(store, 2, 5)
        assert [commit.version for commit in commits] == [2, 3, 4, 5]


async def test_commits_that_are_cleaned_up_cost_one_request() -> None:
    inner = await table(9)
    await inner.delete([commit_path(version) for version in range(5)])
    store = CountingStore(inner)
    commits = await list_commits(store, 0, 9)
    assert [commit.version for commit in commits] == [5, 6, 7, 8, 9]
    assert store.kinds == {"list": 1, "head": 1}
