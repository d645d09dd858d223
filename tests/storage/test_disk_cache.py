"""The disk cache: what it answers, and what it never does."""

from __future__ import annotations

import asyncio
import itertools
import os
import random
import signal
import subprocess
import sys
import time
from hashlib import shake_128
from typing import TYPE_CHECKING, Any

import pytest

import adelta
from adelta.errors import (
    InvalidOptionError,
    ObjectChangedError,
    ObjectNotFoundError,
    OutOfMemoryError,
)
from adelta.storage.cache_file import CHUNK, Extent, tag_of
from adelta.storage.caching_store import CachingStore
from adelta.storage.disk_cache import CacheFigures, DiskCache, _total_of
from adelta.storage.gcs import GcsStore
from adelta.storage.object_store import SuffixRead
from adelta.storage.pin import Pin, pinned
from adelta.storage.resolve import open_store
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.gcs_server import GcsLocation

UNIQUE = "part-00000-3f2b8c1e-9d4a-4f6b-8a71-0c5d2e9f7b64.c000.snappy.parquet"
COMMIT = "_delta_log/00000000000000000000.json"
ENTRY = "ab" * 16


def options_of(location: GcsLocation, folder: Path, size: str = "64MiB") -> dict[str, str]:
    cache = {"adelta_cache_dir": str(folder / "cache"), "adelta_cache_size": size}
    return {**location.storage_options, **cache}


@pytest.fixture
async def open_cached(gcs_location: GcsLocation, tmp_path: Path) -> AsyncIterator[Any]:
    made: list[CachingStore] = []

    def opened() -> CachingStore:
        store = open_store(gcs_location.uri, options_of(gcs_location, tmp_path))
        assert isinstance(store, CachingStore)
        made.append(store)
        return store

    yield opened
    for each in made:
        await each.aclose()


def inner_of(store: CachingStore) -> GcsStore:
    assert isinstance(store.inner, GcsStore)
    return store.inner


async def settled(store: CachingStore) -> None:
    from adelta.storage._cache_writer import written

    await asyncio.to_thread(written)


class TestCachingStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, gcs_location: GcsLocation, tmp_path: Path) -> AsyncIterator[Any]:
        store = open_store(gcs_location.uri, options_of(gcs_location, tmp_path))
        yield store
        await store.aclose()

    test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]
    test_a_large_object_goes_in_and_comes_out = None  # type: ignore[assignment]
    test_it_counts_requests_by_kind_and_bytes = None  # type: ignore[assignment]  # some are spared
    test_a_stream_of_any_shape_becomes_one_object = None  # type: ignore[assignment]


# --------------------------------------------------------------------------------- what it answers


async def test_ranges_that_were_read_are_read_again_without_requests(open_cached: Any) -> None:
    data = random.Random(1).randbytes(9 << 20)
    first = open_cached()
    await first.put(UNIQUE, data)
    ranges = [(100, 5_000_000), (5_000_000, 5_000_100), (8 << 20, (8 << 20) + 5)]
    expected = [data[start:end] for start, end in ranges]
    assert [bytes(each) for each in await first.get_ranges(UNIQUE, ranges)] == expected
    assert (await first.get_suffix(UNIQUE, 1000)).data == data[-1000:]
    await settled(first)
    again = open_cached()
    assert [bytes(each) for each in await again.get_ranges(UNIQUE, ranges)] == expected
    assert await again.get_range(UNIQUE, 200, 4_999_999) == data[200:4_999_999]
    assert await again.get_suffix(UNIQUE, 1000) == SuffixRead(data[-1000:], len(data))
    assert await again.get_suffix(UNIQUE, 10) == SuffixRead(data[-10:], len(data))
    assert inner_of(again).request_count == 0
    assert again.figures.misses == 0
    # Of a range that is there in part the rest alone is asked for.
    asked: list[tuple[int, int]] = []
    original = again.inner.get_ranges

    async def watched(path: str, ranges: Any) -> Any:
        asked.extend(ranges)
        return await original(path, ranges)

    again.inner.get_ranges = watched
    assert await again.get_range(UNIQUE, 50, 5_000_200) == data[50:5_000_200]
    assert asked == [(50, 100), (5_000_100, 5_000_200)]


async def test_commits_are_answered_where_a_listing_told_of_them(open_cached: Any) -> None:
    first = open_cached()
    await first.put_if_absent(COMMIT, b"one")
    assert await paths_of(first, "_delta_log/") == [COMMIT]
    assert await first.get(COMMIT) == b"one"
    await settled(first)
    again = open_cached()
    assert await again.get(COMMIT) == b"one"  # nobody has said which it is
    assert inner_of(again).request_count == 1
    assert await paths_of(again, "_delta_log/") == [COMMIT]
    assert await again.get(COMMIT) == b"one"
    data, meta = await again.get_with_meta(COMMIT)
    assert (data, meta.size) == (b"one", 3)
    assert await again.get_many([COMMIT]) == [b"one"]
    assert inner_of(again).request_count == 2


async def test_another_tables_commit_of_that_number_is_never_taken_for_it(
    open_cached: Any,
) -> None:
    first = open_cached()
    await first.put(COMMIT, b"one")
    await paths_of(first, "_delta_log/")
    assert await first.get(COMMIT) == b"one"
    await settled(first)
    await inner_of(first).put(COMMIT, b"two")
    assert await open_cached().get(COMMIT) == b"two"
    again = open_cached()
    await paths_of(again, "_delta_log/")
    assert await again.get(COMMIT) == b"two"


@pytest.mark.parametrize(
    "path",
    [
        "_delta_log/_last_checkpoint",
        "a.parquet",
        "_delta_log/x.json",
        "_holds/3f2b8c1e-9d4a-4f6b-8a71-0c5d2e9f7b64.json",  # of a consumer with such a name
    ],
)
async def test_what_may_change_is_never_kept(open_cached: Any, path: str) -> None:
    store = open_cached()
    for data in (b"first", b"other"):
        await store.put(path, data)
        await paths_of(store)
        assert await store.get(path) == data
        assert await store.get_range(path, 0, 5) == data
        assert (await store.get_suffix(path, 5)).data == data
        await settled(store)
    assert store.cache.status().extents == 0


async def test_what_is_deleted_is_gone_here_too(open_cached: Any) -> None:
    store = open_cached()
    await store.put(UNIQUE, b"some bytes")
    assert await store.get(UNIQUE) == b"some bytes"
    await settled(store)
    assert await store.get_range(UNIQUE, 0, 4) == b"some"
    await store.delete([UNIQUE])
    with pytest.raises(ObjectNotFoundError):
        await store.get(UNIQUE)


@pytest.mark.parametrize("path", [COMMIT, UNIQUE])
async def test_what_is_written_anew_or_deleted_at_once_is_not_answered(
    open_cached: Any, path: str
) -> None:
    store = open_cached()
    await store.put(path, b"first")
    for data in (b"again", b"third"):
        await paths_of(store)
        await store.get(path)  # which is still to be kept
        if data == b"third":
            await settled(store)
            await store.put_stream(path, chunks_of(data))
        else:
            await store.put(path, data)
        assert await store.get(path) == await store.get_range(path, 0, 9) == data
    await store.delete([path])
    await settled(store)
    with pytest.raises(ObjectNotFoundError):
        await store.get(path)
    await store.put_if_absent(path, b"fourth")
    assert await store.get(path) == b"fourth"


async def chunks_of(data: bytes) -> AsyncIterator[bytes]:
    yield data


async def test_an_object_of_more_bytes_than_memory_may_have_is_refused_from_here_too(
    gcs_location: GcsLocation, tmp_path: Path, open_cached: Any
) -> None:
    store = open_cached()
    await store.put(UNIQUE, bytes(2 << 20))
    await store.get(UNIQUE)
    await settled(store)
    options = {**options_of(gcs_location, tmp_path), "memory_limit": "1MiB"}
    little = open_store(gcs_location.uri, options)
    with pytest.raises(OutOfMemoryError, match="raise the storage option memory_limit"):
        await little.get(UNIQUE)
    assert len(await little.get_range(UNIQUE, 0, 100)) == 100
    await little.aclose()


async def test_versions_of_an_object_do_not_mix(open_cached: Any) -> None:
    """Also where a name that is to be unique was written twice."""
    store = open_cached()
    await store.put(UNIQUE, b"a" * 100)
    await store.get_range(UNIQUE, 0, 50)
    await settled(store)
    await inner_of(store).put(UNIQUE, b"b" * 100)
    assert await store.get_range(UNIQUE, 0, 100) == b"b" * 100
    await settled(store)
    assert {extent.tag for extent in store.cache.extents(store._entry(UNIQUE))} <= {
        tag_of((await store.head(UNIQUE)).etag or "")
    }
    with pinned(Pin()):
        await store.get_range(UNIQUE, 50, 100)
        await settled(store)
    pin = Pin()
    with pinned(pin):
        assert await store.get_range(UNIQUE, 50, 100) == b"b" * 50  # of the cache
    await inner_of(store).put(UNIQUE, b"c" * 200)
    with pinned(pin), pytest.raises(ObjectChangedError):
        await store.get_range(UNIQUE, 100, 200)


async def test_threads_read_what_is_all_here_and_of_one_version(open_cached: Any) -> None:
    store = open_cached()
    await store.put(UNIQUE, b"a" * 100)
    nearby = store.nearby
    assert nearby.read_suffix(UNIQUE, 10) is None
    await store.get_suffix(UNIQUE, 10)
    await store.get_range(UNIQUE, 0, 50)
    await settled(store)
    asked = inner_of(store).request_count
    pin = Pin()
    assert nearby.read_suffix(UNIQUE, 10, pin=pin) == SuffixRead(b"a" * 10, 100)
    assert nearby.read_ranges(UNIQUE, [(5, 20), (95, 100)], pin=pin) == [b"a" * 15, b"a" * 5]
    assert nearby.read_ranges(UNIQUE, [(5, 20), (49, 51)], pin=pin) is None
    assert nearby.read_suffix(UNIQUE, 60, pin=pin) is None
    assert nearby.read_ranges(COMMIT, [(0, 1)]) is None
    assert inner_of(store).request_count == asked
    assert (store.figures.hits, store.figures.bytes_from_cache) == (2, 30)
    await inner_of(store).put(UNIQUE, b"b" * 100)
    with pinned(pin), pytest.raises(ObjectChangedError):
        await store.get_range(UNIQUE, 60, 70)


async def test_what_comes_is_written_in_a_quiet_moment(open_cached: Any) -> None:
    store = open_cached()
    await store.put(UNIQUE, b"a" * 100)
    for start in range(0, 100, 10):
        await store.get_range(UNIQUE, start, start + 10)
    async with asyncio.timeout(60):
        while len(store.cache.extents(store._entry(UNIQUE))) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def test_buckets_of_one_name_on_two_servers_are_two(
    open_cached: Any, gcs_location: GcsLocation, tmp_path: Path
) -> None:
    store = open_cached()
    await store.put(UNIQUE, b"here")
    await store.get(UNIQUE)
    await settled(store)
    elsewhere = options_of(gcs_location, tmp_path) | {"google_base_url": "http://127.0.0.1:1"}
    other = open_store(gcs_location.uri, {**elsewhere, "max_retries": "0"})
    with pytest.raises(adelta.errors.StorageError):
        await other.get(UNIQUE)
    await other.aclose()


# --------------------------------------------------------------------------- damage, death, no room


def read_of(
    cache: DiskCache, entry: str, extent: Extent, start: int | None = None, end: int | None = None
) -> bytes | None:
    """Bytes of an extent, or all of it, where the cache has them."""
    first = extent.start if start is None else start
    into = memoryview(bytearray((extent.end if end is None else end) - first))
    return bytes(into) if cache.read(entry, extent, first, into) else None


def filled(folder: Path, limit: int = 64 << 20) -> tuple[DiskCache, Extent, bytes]:
    cache = DiskCache(folder, limit)
    data = random.Random(2).randbytes(3 * CHUNK + 100)
    extent = Extent(1000, 1000 + len(data), None, tag_of("e"), kept=False)
    assert cache.write(ENTRY, extent, data)
    return cache, extent, data


def test_no_byte_that_was_damaged_is_ever_answered(tmp_path: Path) -> None:
    cache, extent, data = filled(tmp_path)
    (file,) = (each for each in tmp_path.rglob("*.s"))
    whole = file.read_bytes()
    for at in [*range(0, 80, 7), 90, len(whole) // 2, len(whole) - 1]:
        for damaged in (
            whole[:at],
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
            whole[:at] + bytes(len(whole) - at),
        ):
            file.write_bytes(damaged)
            assert read_of(cache, ENTRY, extent) in (None, data)
    file.write_bytes(whole)
    edges = sorted({0, 1, *(n * CHUNK + more for n in (1, 2, 3) for more in (-1, 0, 1)), len(data)})
    for start, end in itertools.combinations(edges, 2):
        part = read_of(cache, ENTRY, extent, 1000 + start, 1000 + end)
        assert part == data[start:end], (start, end)


def test_a_file_under_anothers_name_is_not_taken_for_it(tmp_path: Path) -> None:
    cache, extent, data = filled(tmp_path)
    (file,) = (each for each in tmp_path.rglob("*.s"))
    other = Extent(0, len(data), None, extent.tag, kept=False)
    os.link(file, file.parent / other.name)
    assert read_of(cache, ENTRY, other, 0, 10) is None


_VICTIM = """
import sys
from hashlib import shake_128
from adelta.storage.cache_file import Extent, tag_of
from adelta.storage.disk_cache import DiskCache
cache = DiskCache(sys.argv[1], 64 << 20)
print("begun", flush=True)
for n in range(100_000):
    data = shake_128(b"%d" % n).digest(300_000)
    cache.write(f"{n % 400:032x}", Extent(0, len(data), n, tag_of("e"), False), data)
    if n == 3:
        print("written", flush=True)
"""


def test_processes_that_are_killed_leave_nothing_wrong_and_the_bound_holds(tmp_path: Path) -> None:
    for wait in (0.1, 0.3):
        victims = [
            subprocess.Popen([sys.executable, "-c", _VICTIM, str(tmp_path)], stdout=subprocess.PIPE)
            for _ in range(2)
        ]
        for each in victims:
            assert each.stdout is not None
            assert each.stdout.readline() == b"begun\n"
            assert each.stdout.readline() == b"written\n"
        time.sleep(wait)
        for each in victims:
            each.send_signal(signal.SIGKILL)
            each.communicate()
    cache = DiskCache(tmp_path, 64 << 20)
    read = 0
    for n in range(400):
        for extent in cache.extents(f"{n:032x}"):
            assert extent.size is not None
            found = read_of(cache, f"{n:032x}", extent)
            assert found == shake_128(b"%d" % extent.size).digest(300_000)
            read += 1
    assert read > 0
    assert cache.status().bytes <= 64 << 20


def test_a_full_disk_is_a_miss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, extent, _ = filled(tmp_path)

    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "writev", full)
    later = Extent(0, 10, None, extent.tag, kept=False)
    assert not cache.write(ENTRY, later, bytes(10))
    monkeypatch.undo()
    assert read_of(cache, ENTRY, later) is None
    assert not [each for each in tmp_path.rglob(".*") if each.is_file()]
    unwritable = DiskCache("/proc/nothing", 64 << 20)
    assert not unwritable.write(ENTRY, later, bytes(10))
    assert unwritable.extents(ENTRY) == []
    unwritable.count(CacheFigures(hits=1))


def test_a_count_of_bytes_that_was_torn_is_taken_anew(tmp_path: Path) -> None:
    cache, extent, _ = filled(tmp_path, limit=10 << 20)
    for torn in (b"", bytes(8), bytes(16), b"\xff" * 16):
        (tmp_path / "total").write_bytes(torn)
        for number in range(12):  # of which there is room for ten
            later = Extent(0, 1 << 20, None, extent.tag, kept=False)
            cache.write(f"{number:032x}", later, bytes(1000_000))
            (tmp_path / "total").write_bytes(torn)
        assert cache.status().bytes <= 10 << 20


def test_what_a_process_had_room_for_does_not_count_when_it_is_done(tmp_path: Path) -> None:
    cache, extent, _ = filled(tmp_path, limit=1 << 30)
    for number in range(5):
        assert cache.write(f"{number:032x}", Extent(0, 9, None, extent.tag, kept=False), bytes(9))
    cache.count(CacheFigures())
    counted = _total_of((tmp_path / "total").read_bytes())
    assert counted is not None
    assert counted.bytes == cache.status().bytes


def test_processes_together_hold_no_more_than_the_limit(tmp_path: Path) -> None:
    caches = [DiskCache(tmp_path, 4 << 20) for _ in range(40)]  # each is as one of a process
    _, extent, _ = filled(tmp_path, limit=4 << 20)
    for number in range(40 * 17):
        later = Extent(0, 7_000, None, extent.tag, kept=False)
        caches[number % 40].write(f"{number:032x}", later, bytes(7_000))
        if number % 80 == 0:
            assert caches[0].status().bytes <= 4 << 20
    for each in caches:
        each.count(CacheFigures())
    counted = _total_of((tmp_path / "total").read_bytes())
    assert counted is not None
    assert caches[0].status().bytes <= counted.bytes <= 4 << 20


def test_files_that_are_not_the_caches_stay(tmp_path: Path) -> None:
    """Whatever folder it was told to use."""
    foreign = [tmp_path / name for name in ("objects/ab/cd", "objects/pack/x.idx", "notes")]
    for each in foreign:
        each.parent.mkdir(parents=True, exist_ok=True)
        each.write_bytes(b"of somebody")
        os.utime(each, (0, 0))
    cache, extent, _ = filled(tmp_path, limit=10 << 20)
    left = next(tmp_path.rglob("*.s")).parent / ".123-abc"  # by a process that was killed
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    for number in range(12):
        later = Extent(0, 1000_000, None, extent.tag, kept=False)
        cache.write(f"{number:032x}", later, bytes(1000_000))
    assert not left.exists()
    cache.clear()
    assert cache.status().extents == 0
    assert not list(tmp_path.rglob("*.[sm]"))
    assert [each.read_bytes() for each in foreign] == [b"of somebody"] * 3


async def test_what_there_is_no_memory_to_keep_is_a_miss_and_ends_nothing(
    open_cached: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_cached()
    await store.put(UNIQUE, b"some bytes")

    def none(*_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr("adelta.storage.disk_cache.content_of", none)
    assert await store.get(UNIQUE) == b"some bytes"
    await asyncio.wait_for(settled(store), 60)
    monkeypatch.undo()
    assert await store.get(UNIQUE) == b"some bytes"
    await asyncio.wait_for(settled(store), 60)
    assert store.cache.status().extents == 1


async def test_what_goes_while_it_is_read_is_read_whole_or_asked_for(open_cached: Any) -> None:
    store = open_cached()
    data = random.Random(3).randbytes(1 << 20)
    await store.put(UNIQUE, data)
    entry = store._entry(UNIQUE)
    ended = False

    async def remove() -> None:
        while not ended:
            await asyncio.to_thread(store.cache.forget, entry)

    removing = asyncio.ensure_future(remove())
    for number in range(60):
        start = number * 1000
        assert await store.get_range(UNIQUE, start, start + 400_000) == data[start:][:400_000]
    ended = True
    await removing


@pytest.mark.parametrize("what", ["file", "symlink to nowhere", "circle", "folder of another"])
async def test_a_folder_that_is_none_is_as_no_cache(
    gcs_location: GcsLocation, tmp_path: Path, what: str
) -> None:
    place = tmp_path / "cache"
    if what == "file":
        place.write_bytes(b"")
    elif what == "symlink to nowhere":
        place.symlink_to("/proc/nowhere")
    elif what == "circle":
        place.symlink_to(place)
    else:
        place.mkdir()
        (place / "objects").symlink_to("/proc/1")
    store = open_store(gcs_location.uri, options_of(gcs_location, tmp_path))
    assert isinstance(store, CachingStore)
    await store.put(UNIQUE, b"some bytes")
    for _ in range(2):
        assert await store.get_range(UNIQUE, 0, 4) == b"some"
        assert (await store.get_suffix(UNIQUE, 5)).data == b"bytes"
        await settled(store)
    await store.aclose()


# ------------------------------------------------------------------------------------- what goes


def test_what_is_read_once_washes_out_nothing_that_is_read_often(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 10 << 20)
    size = 200_000

    def write(number: int) -> None:
        extent = Extent(0, size, None, tag_of("e"), kept=False)
        assert cache.write(f"{number:032x}", extent, bytes(size))

    def read(number: int) -> bool:
        entry = f"{number:032x}"
        return any(read_of(cache, entry, each) is not None for each in cache.extents(entry))

    often = range(15)
    for number in often:
        write(number)
    for number in often:
        assert read(number)
    for number in range(1000, 1200):  # a scan of four times what there is room for
        write(number)
    assert all(read(number) for number in often)
    assert cache.status().bytes <= 10 << 20
    gone = next(number for number in range(1000, 1200) if not read(number))
    write(gone)  # a ghost, which comes to stay
    assert all(extent.kept for extent in cache.extents(f"{gone:032x}"))


def test_the_figures_of_all_processes_are_added_up(tmp_path: Path) -> None:
    cache, _, _ = filled(tmp_path)
    cache.count(CacheFigures(1, 2, 3, 4))
    DiskCache(tmp_path, 1 << 30).count(CacheFigures(10, 0, 0, 1))
    status = cache.status()
    assert status.figures == CacheFigures(11, 2, 3, 5)
    assert status.extents == 1
    (tmp_path / "figures").write_text('{"hits": "1", "misses": null}')
    cache.count(CacheFigures(1, 2, 3, 4))
    assert cache.status().figures == CacheFigures(1, 2, 3, 4)
    cache.clear()
    assert cache.status().bytes == cache.status().extents == cache.status().figures.hits == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"adelta_cache_dir": "cache"}, "an absolute path"),
        ({"adelta_cache_dir": "/c", "adelta_cache_size": "1MiB"}, "at least 64MiB"),
        ({"adelta_cache_folder": "/c"}, "did you mean adelta_cache_dir"),
    ],
)
def test_options_that_are_wrong_are_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        adelta.open_table("gs://bucket/t", options)
    assert not isinstance(open_store("gs://bucket/t"), CachingStore)  # it is off by default
