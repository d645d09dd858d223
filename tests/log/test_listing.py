"""Listing a log while others write to it: a file may be left out that is older than one shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import MissingCommitError
from adelta.kernel.log_path import commit_path
from adelta.log.listing import list_log
from adelta.log.state import load_state, refresh_state
from adelta.storage.memory import MemoryStore
from tests.support.builders import TableBuilder
from tests.support.stores import WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.storage.object_store import ObjectMeta, ObjectStore

SCHEMA = pa.schema([("id", pa.int64())])


class OverlookingStore(WrappedStore):
    """Each listing overlooks the next of the paths, as a folder's may that is written to."""

    def __init__(self, inner: ObjectStore, *paths: str) -> None:
        super().__init__(inner)
        self.overlooked = list(paths)
        self.listings = 0

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncIterator[list[ObjectMeta]]:
        self.listings += 1
        without = self.overlooked.pop(0) if self.overlooked else None
        async for page in self.inner.list(prefix, start_after=start_after, recursive=recursive):
            yield [meta for meta in page if meta.path != without]


async def table(commits: int) -> MemoryStore:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    for number in range(commits):
        await builder.commit(builder.add(f"{number}.parquet", rows=1))
    return store


async def test_a_commit_that_a_listing_overlooks_is_not_missing() -> None:
    inner = await table(6)
    for overlooked in ([3], [2, 4], [1, 3, 5]):
        store = OverlookingStore(inner, *map(commit_path, overlooked))
        state = await load_state(store)
        assert state.version == 6
        assert (await state.files()).num_files == 6
    store = OverlookingStore(inner, commit_path(4))
    assert (await load_state(store, version=5)).version == 5


async def test_a_refresh_is_not_misled_either() -> None:
    inner = await table(6)
    state = await load_state(inner, version=1)
    state.store = OverlookingStore(inner, commit_path(4))
    assert (await refresh_state(state)).version == 6


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
