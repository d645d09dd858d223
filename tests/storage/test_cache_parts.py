"""Small extents of an object that come into one file of the disk cache."""

from __future__ import annotations

import itertools
import os
import random
import time
from typing import TYPE_CHECKING, Any

from adelta.storage._cache_writer import later, written
from adelta.storage.cache_file import CHUNK, Extent, tag_of
from adelta.storage.cached_ranges import CachedRanges
from adelta.storage.disk_cache import DiskCache
from tests.storage.test_disk_cache import (
    ENTRY,
    UNIQUE,
    inner_of,
    open_cached,
    read_of,
    settled,
)

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["open_cached"]

DATA = random.Random(4).randbytes(200_000)
SPANS = [(120_000, 120_000 + CHUNK), (4, 1_000), (50_000, 70_000)]


def filled(folder: Path) -> tuple[DiskCache, Path]:
    """A cache that has the spans in one file, and that file."""
    cache = DiskCache(folder, 64 << 20)
    for number, (start, end) in enumerate(SPANS):
        size = len(DATA) if number == 1 else None
        extent = Extent(start, end, size, tag_of("e"), kept=False)
        later(cache, ENTRY, extent, memoryview(DATA)[start:end])
    written()
    (file,) = folder.rglob("*.s")
    return cache, file


def files_below(folder: Path) -> list[Path]:
    return [*folder.rglob("*.s")]


async def test_small_ranges_of_an_object_are_read_again_from_one_file(
    open_cached: Any, tmp_path: Path
) -> None:
    first = open_cached()
    await first.put(UNIQUE, DATA)
    assert (await first.get_suffix(UNIQUE, CHUNK)).data == DATA[-CHUNK:]
    ranges = [(4, 1_000), (50_000, 70_000)]
    await first.get_ranges(UNIQUE, ranges)
    await settled(first)
    assert len(files_below(tmp_path)) == 1
    again = open_cached()
    assert again.read_suffix(UNIQUE, CHUNK).data == DATA[-CHUNK:]
    found = again.read_ranges(UNIQUE, [*ranges, (50_100, 50_200), (len(DATA) - 9, len(DATA))])
    expected = [DATA[4:1_000], DATA[50_000:70_000], DATA[50_100:50_200], DATA[-9:]]
    assert [bytes(each) for each in found] == expected
    # Of a range that is there in part the rest alone is asked for.
    assert await again.get_range(UNIQUE, 900, 60_000) == DATA[900:60_000]
    assert inner_of(again).request_count == 1
    assert again.figures.bytes_from_store == 49_000


async def test_an_object_that_was_written_again_is_not_answered_as_it_was(
    open_cached: Any,
) -> None:
    first = open_cached()
    await first.put(UNIQUE, DATA)
    await first.get_ranges(UNIQUE, SPANS)
    await settled(first)
    assert first.read_ranges(UNIQUE, SPANS[:2]) is not None
    await first.put(UNIQUE, DATA[::-1])
    assert first.read_ranges(UNIQUE, SPANS) is None
    found = await first.get_ranges(UNIQUE, SPANS)
    assert [bytes(each) for each in found] == [DATA[::-1][start:end] for start, end in SPANS]


def test_every_part_of_every_extent_of_a_file_is_what_was_kept(tmp_path: Path) -> None:
    cache, _ = filled(tmp_path)
    found = cache.extents(ENTRY)
    assert [(each.start, each.end) for each in found] == SPANS
    assert cache.status().extents == len(SPANS)
    assert {each.size for each in found} == {len(DATA)}
    late = CachedRanges(cache, ENTRY, found, SPANS)
    with late.open() as pieces:
        for (start, data), extent in zip(pieces, found, strict=True):
            length = extent.end - start
            edges = sorted({0, 1, 777, CHUNK - 1, length // 2, length - 1, length})
            for first, last in itertools.combinations([e for e in edges if e <= length], 2):
                expected = DATA[start + first : start + last]
                assert bytes(data[first:last]) == expected
                part = read_of(cache, ENTRY, extent, start + first, start + last)
                assert part == expected


def test_no_damaged_byte_of_a_file_of_several_extents_is_ever_answered(tmp_path: Path) -> None:
    cache, file = filled(tmp_path)
    found = cache.extents(ENTRY)
    whole = file.read_bytes()
    content = b"".join(DATA[start:end] for start, end in SPANS)
    for at in [*range(0, 80, 7), 90, len(whole) // 2, len(whole) - 25_000, len(whole) - 1]:
        for damaged in (
            whole[:at],
            whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :],
            whole[:at] + bytes(len(whole) - at),
        ):
            for extent in found:
                file.write_bytes(damaged)
                assert read_of(cache, ENTRY, extent) in (None, DATA[extent.start : extent.end])
            file.write_bytes(damaged)
            read = cache.read_parts(ENTRY, found[0])
            assert read is None or read == content


def test_a_file_of_several_extents_under_anothers_name_is_not_taken_for_it(tmp_path: Path) -> None:
    cache, file = filled(tmp_path)
    (first, *_) = cache.extents(ENTRY)
    ranges = first.parts
    moved = [
        (ranges[0], ranges[2], ranges[1]),
        (ranges[0], (5, 1_001), ranges[2]),
        ranges[:2],
    ]
    for parts in moved:
        other = Extent(*parts[0], first.size, first.tag, False, tuple(parts))
        os.link(file, file.parent / other.name)
        assert cache.read_parts(ENTRY, other) is None
    one = Extent(0, first.content_length, first.size, first.tag, False)
    os.link(file, file.parent / one.name)
    assert read_of(cache, ENTRY, one) is None


def test_extents_of_several_versions_or_of_much_are_files_of_their_own(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 64 << 20)
    for start, end, tag in ((0, 10, "a"), (10, 20, "b"), (20, 30, "a"), (30, 40 + 2 * CHUNK, "a")):
        extent = Extent(start, end, None, tag_of(tag), kept=False)
        later(cache, ENTRY, extent, memoryview(DATA)[start:end])
    written()
    assert len(files_below(tmp_path)) == 3
    for extent in cache.extents(ENTRY):
        assert read_of(cache, ENTRY, extent) == DATA[extent.start : extent.end]


def test_files_of_several_extents_go_and_stay_as_others_do(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path, 2 << 20)
    for number in range(100):
        for start, end in ((0, 20_000), (30_000, 50_000)):
            extent = Extent(start, end, None, tag_of("e"), kept=False)
            later(cache, f"{number:032x}", extent, memoryview(DATA)[start:end])
        written()
        if number % 10 == 0:
            for extent in cache.extents(f"{number:032x}"):
                assert read_of(cache, f"{number:032x}", extent) is not None
        time.sleep(0.0001)
    status = cache.status()
    assert status.bytes <= 2 << 20
    assert any(file.suffix == ".m" for file in tmp_path.rglob("*.[sm]"))
    for number in range(100):
        for extent in cache.extents(f"{number:032x}"):
            found = read_of(cache, f"{number:032x}", extent)
            assert found == DATA[extent.start : extent.end]
