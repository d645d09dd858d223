from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.storage import memory, parallel_list
from adelta.storage.memory import MemoryStore
from adelta.storage.parallel_list import cuts_after, list_in_parallel
from tests.storage.object_store_suite import paths_of
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.storage import ObjectStore


async def filled(paths: Iterable[str]) -> MemoryStore:
    store = MemoryStore()
    for path in paths:
        await store.put(path, b"")
    return store


async def in_parallel(store: ObjectStore, prefix: str = "", **how: object) -> list[str]:
    return [meta.path async for page in list_in_parallel(store, prefix, **how) for meta in page]


SEGMENT = st.text("01239abfz-_.=%é\uffee\U0001f600", min_size=1, max_size=6).filter(
    lambda text: text not in (".", "..")
)
PATH = st.lists(SEGMENT, min_size=1, max_size=3).map("/".join)


@settings(max_examples=200, deadline=None)
@given(
    paths=st.one_of(
        st.sets(PATH, max_size=60),
        st.sets(st.integers(0, 500), max_size=200).map(lambda s: {f"log/{n:04}.json" for n in s}),
    ),
    prefix=st.sampled_from(["", "log/", "0", "a", "log/00"]),
    after=st.one_of(st.none(), PATH),
    limit=st.integers(1, 9),
)
def test_it_gives_what_one_listing_gives(
    paths: set[str], prefix: str, after: str | None, limit: int
) -> None:
    async def compare() -> None:
        store = await filled(paths)
        expected = await paths_of(store, prefix, start_after=after)
        assert await in_parallel(store, prefix, start_after=after, limit=limit) == expected

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "_PAGE", 3)
        asyncio.run(compare())


LOG = [f"_delta_log/{number:020}.json" for number in range(40_000)]
PARTS = sorted(
    f"part-{number % 10:05}-{(number * 2654435761) % 2**32:08x}-c000.parquet"
    for number in range(40_000)
)
DAYS = sorted(
    f"day=2024-{month:02}-{day:02}/part-{number:05}.parquet"
    for month in range(1, 13)
    for day in range(1, 29)
    for number in range(120)
)


@pytest.mark.parametrize(
    ("paths", "most"),
    [(LOG, 1.25), (PARTS, 1.75), (DAYS, 2.5)],
    ids=["log", "parts", "days"],
)
async def test_a_large_listing_waits_far_less_for_few_more_requests(
    paths: list[str], most: float
) -> None:
    store = CountingStore(await filled(paths))
    rounds = 0
    real = parallel_list.map_concurrent

    async def counted(*arguments: object, **keywords: object) -> object:
        nonlocal rounds
        rounds += 1
        return await real(*arguments, **keywords)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parallel_list, "map_concurrent", counted)
        assert await in_parallel(store) == paths
    pages = -(-len(paths) // 1000)
    assert store.count <= most * pages
    assert rounds <= pages / 3


async def test_a_listing_of_one_page_costs_one_request() -> None:
    store = CountingStore(await filled(LOG[:900]))
    assert await in_parallel(store) == LOG[:900]
    assert store.count == 1


def test_cuts_lie_between_the_page_and_the_end() -> None:
    page = [f"{number:04}.json" for number in range(100)]
    cuts = cuts_after(page, "0500", count=9, pages=1)
    assert cuts == sorted(cuts)
    assert all("0099.json" < cut < "0500" for cut in cuts)
    assert cuts_after(["a"], None, count=4, pages=1) == []


async def test_a_path_at_the_very_cut_is_listed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_PAGE", 10)
    monkeypatch.setattr(
        parallel_list,
        "cuts_after",
        lambda paths, end, **_: [LOG[50]] if paths[-1] < LOG[50] else [],
    )
    assert await in_parallel(await filled(LOG[:100])) == LOG[:100]
