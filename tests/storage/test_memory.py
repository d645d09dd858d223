from __future__ import annotations

import pytest

from adelta.storage import open_store
from adelta.storage.memory import MemoryStore
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of


class TestMemoryStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(self) -> MemoryStore:
        return MemoryStore()


async def test_stores_of_one_name_share_their_objects() -> None:
    outer, inner = open_store("memory://shared-name"), open_store("memory://shared-name/in/side")
    await inner.put("x", b"1")
    assert await outer.get("in/side/x") == b"1"
    assert await paths_of(outer) == ["in/side/x"]
    assert await paths_of(inner) == ["x"]
    assert await paths_of(open_store("memory://another-name")) == []


async def test_stores_without_a_name_are_apart() -> None:
    await (first := MemoryStore()).put("x", b"1")
    assert await paths_of(MemoryStore()) == []
    assert await paths_of(first) == ["x"]


async def test_a_page_is_read_when_it_is_asked_for() -> None:
    store = MemoryStore()
    for number in range(1500):
        await store.put(f"{number:05}", b"")
    pages = store.list()
    await anext(pages)
    await store.delete([f"{number:05}" for number in range(1100, 1500)])
    assert len(await anext(pages)) == 100
