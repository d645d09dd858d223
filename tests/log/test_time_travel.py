"""The version of a time, by few requests of a long log, and the same as by all of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta.errors import TimestampOutOfRangeError
from adelta.kernel.log_path import commit_path
from adelta.log import commit_provenance, time_travel
from adelta.log.load import load_state
from adelta.log.time_travel import version_at_timestamp
from adelta.storage.memory import MemoryStore
from tests.support.clock import ManualClock
from tests.support.logs import add, metadata, protocol, put_checkpoint, put_commit
from tests.support.stores import CountingStore, OverlookingStore

IN_COMMIT = {"delta.enableInCommitTimestamps": "true"}
LINES = [protocol(1, 7, writerFeatures=["inCommitTimestamp"]), metadata(configuration=IN_COMMIT)]


async def with_times_in_commits(versions: int, *, checkpoint: int, first: int = 0) -> CountingStore:
    """Version v is of the time 10 * v + 1000."""
    inner = MemoryStore()
    for version in range(first, versions):
        info = {"commitInfo": {"inCommitTimestamp": 10 * version + 1000}}
        lines = LINES if version == 0 else [add(f"{version}.parquet")]
        await put_commit(inner, version, info, *lines)
    await put_checkpoint(inner, checkpoint, LINES)
    return CountingStore(inner)


@pytest.mark.parametrize("version", [0, 1, 1234, 2949, 2950, 2998, 2999])
@pytest.mark.parametrize("after", [0, 9])
async def test_times_in_commits_are_searched_by_halves(version: int, after: int) -> None:
    store = await with_times_in_commits(3000, checkpoint=2950)
    state = await load_state(store)
    store.clear()
    if version == 2999:
        after = 0
    assert await version_at_timestamp(state, 10 * version + 1000 + after) == version
    assert store.kinds["get"] <= 13, "the logarithm of 3,000, and the answer"
    assert store.kinds["list"] <= 2 if version >= 2950 else store.kinds["list"] <= 6


async def test_commits_that_listings_overlook_are_found_by_their_times() -> None:
    clock = ManualClock()
    inner = MemoryStore(clock=clock)
    times = []
    for version in range(6):
        clock.advance(ms=10)
        await put_commit(inner, version, *([protocol(), metadata()] if version == 0 else []))
        times.append(clock.now_ms())
    state = await load_state(inner)
    for overlooked in ({3}, {2, 3}, {5}, {4, 5}):
        store = OverlookingStore(inner)
        store.always = overlooked
        state = replace(state, store=store)
        for version, time in enumerate(times):
            assert await version_at_timestamp(state, time) == version


async def test_only_the_beginning_of_a_large_commit_is_read_for_its_time() -> None:
    store = await with_times_in_commits(3, checkpoint=2)
    large = [add(f"{n}.parquet") for n in range(3000)]
    info = {"commitInfo": {"inCommitTimestamp": 1030}}
    await put_commit(store.inner, 3, info, *large)
    await put_commit(store.inner, 4, {"commitInfo": {"inCommitTimestamp": 1040}})
    state = await load_state(store)
    read: list[int] = []
    inner = store.inner
    original = inner.get_range

    async def get_range(path: str, start: int, end: int) -> bytes:
        data = await original(path, start, end)
        read.append(len(data))
        return data

    inner.get_range = get_range  # type: ignore[method-assign]
    store.clear()
    assert await version_at_timestamp(state, 1035) == 3
    assert read
    assert max(read) <= commit_provenance._FIRST_LINE
    assert len(await inner.get(commit_path(3))) > 2 * commit_provenance._FIRST_LINE


async def test_a_commit_whose_first_line_is_another_action_is_read_as_a_whole() -> None:
    store = await with_times_in_commits(3, checkpoint=2)
    await put_commit(store.inner, 3, add("a.parquet"), {"commitInfo": {"inCommitTimestamp": 1030}})
    await put_commit(store.inner, 4, {"commitInfo": {"inCommitTimestamp": 1040}})
    assert await version_at_timestamp(await load_state(store), 1035) == 3


async def test_commits_that_were_cleaned_up_are_no_answer() -> None:
    store = await with_times_in_commits(400, checkpoint=250, first=200)
    state = await load_state(store)
    assert await version_at_timestamp(state, 10 * 250 + 1000) == 250
    assert await version_at_timestamp(state, 10 * 333 + 1005) == 333
    for version in (0, 150, 200, 249):
        with pytest.raises(TimestampOutOfRangeError, match=r"version 250 .* version 399"):
            await version_at_timestamp(state, 10 * version + 1000)
    with pytest.raises(TimestampOutOfRangeError, match=r"version 250 .* version 399"):
        await version_at_timestamp(state, 1 << 40)


async def test_a_time_long_ago_is_found_without_listing_what_came_after() -> None:
    clock = ManualClock()
    inner = MemoryStore(clock=clock)
    for version in range(4000):
        clock.ms = 1000 + 10 * version
        await put_commit(inner, version, *([protocol(), metadata()] if version == 0 else []))
    await put_checkpoint(inner, 3999, [protocol(), metadata()])
    store = CountingStore(inner)
    state = await load_state(store)
    store.clear()
    assert await version_at_timestamp(state, 1000 + 10 * 17 + 5) == 17
    assert store.kinds["list"] == 1
    assert store.count == 1
    assert await version_at_timestamp(state, 1000 + 10 * 3999) == 3999


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=12),
    st.integers(0, 8),
    st.sets(st.integers(0, 11), max_size=2),
    st.integers(-1, 30),
)
async def test_modification_times_give_what_the_whole_log_gives(
    times: list[int], checkpoint: int, gone: set[int], when: int
) -> None:
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    for version, time in enumerate(times):
        clock.ms = 1000 + time
        if version not in gone or version == len(times) - 1:
            await put_commit(store, version, *([protocol(), metadata()] if version == 0 else []))
    await put_checkpoint(store, min(checkpoint, len(times) - 1), [protocol(), metadata()])
    try:
        state = await load_state(store)
    except Exception:
        return  # a log that cannot be read at all
    expected: object
    try:
        expected = await time_travel._in_whole_log(state, 1000 + when)
    except TimestampOutOfRangeError as error:
        expected = str(error)
    found: object
    try:
        found = await version_at_timestamp(state, 1000 + when)
    except TimestampOutOfRangeError as error:
        found = str(error)
    kept = [v for v in range(len(times)) if v not in gone or v == len(times) - 1]
    if all(right - left == 1 for left, right in pairwise(kept)):
        assert found == expected
    else:  # a gap later than the answer need not be seen
        assert found == expected or isinstance(found, int)
