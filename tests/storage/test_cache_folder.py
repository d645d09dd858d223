"""The disk cache's folder: what others have left in it, who has it besides us, and what goes."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

from adelta.storage import disk_cache
from adelta.storage._cache_writer import later, written
from adelta.storage.cache_file import Extent, tag_of
from adelta.storage.disk_cache import DiskCache, _total_of
from tests.storage.test_disk_cache import ENTRY, filled, read_of

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    "name", ["0-a-n-zz.s", "0-64-n-\udcff.s", "0-ffffffffffffff-n-{}.m", "0-09-n-{}.s"]
)
def test_a_name_that_no_file_of_the_cache_has_is_none(tmp_path: Path, name: str) -> None:
    cache, extent, data = filled(tmp_path, limit=10 << 20)
    (file,) = (each for each in tmp_path.rglob("*.s"))
    odd = file.parent / name.format(extent.tag)
    odd.write_bytes(b"bytes" * 1000)
    os.utime(odd, ns=(0, 0))
    read = {
        each: read_of(cache, ENTRY, each, each.start, each.start + 9)
        for each in cache.extents(ENTRY)
    }
    assert read.pop(extent) == data[:9]
    assert not any(read.values())
    cache._evict(0)
    assert not file.exists()


def test_a_file_of_another_user_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, extent, data = filled(tmp_path)
    us = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: us + 1)
    assert read_of(cache, ENTRY, extent) is None
    monkeypatch.undo()
    assert read_of(cache, ENTRY, extent) == data


def test_what_cannot_be_counted_is_not_counted_as_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, extent, _ = filled(tmp_path)
    cache = DiskCache(tmp_path, 64 << 20)

    def none(*_: object) -> Any:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "scandir", none)
    (tmp_path / "total").write_bytes(b"")
    assert not cache.write(ENTRY, Extent(0, 9, None, extent.tag, kept=False), bytes(9))
    assert (tmp_path / "total").read_bytes() == b""  # it is not counted as empty


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_turn_ends_though_a_child_was_forked_in_it_and_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, extent, _ = filled(tmp_path)
    more = Extent(0, 9, None, extent.tag, kept=False)
    with cache._turn():
        child = os.fork()
        if not child:
            time.sleep(30)
            os._exit(0)
        monkeypatch.setattr("adelta.storage.disk_cache._LONGEST_TURN", 0.05)
        other = DiskCache(tmp_path, 64 << 20)
        assert not other.write(ENTRY, more, bytes(9))
    assert DiskCache(tmp_path, 64 << 20).write(ENTRY, more, bytes(9))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert not other.write(ENTRY, more, bytes(9))  # it waits once in a minute


def test_a_folder_that_is_deleted_below_a_process_is_made_anew_for_its_owner_alone(
    tmp_path: Path,
) -> None:
    cache, extent, data = filled(tmp_path / "cache", limit=1 << 30)
    shutil.rmtree(tmp_path / "cache")
    assert cache.write(ENTRY, extent, data)
    assert read_of(cache, ENTRY, extent) == data
    assert (tmp_path / "cache").stat().st_mode & 0o77 == 0


def test_who_waits_for_what_is_to_be_written_waits_for_no_more(tmp_path: Path) -> None:
    class Slow(DiskCache):
        def write(self, *_: object) -> bool:
            time.sleep(0.01)
            raise ValueError("as nothing should")

    _, extent, data = filled(tmp_path)
    slow, ended = Slow(tmp_path, 64 << 20), threading.Event()

    def add() -> None:
        while not ended.wait(0.001):
            later(slow, ENTRY, extent, memoryview(data))

    later(slow, ENTRY, extent, memoryview(data))
    adding = threading.Thread(target=add)
    adding.start()
    waiting = threading.Thread(target=written, daemon=True)
    waiting.start()
    waiting.join(20)
    came_to_an_end = not waiting.is_alive()
    ended.set()
    adding.join()
    assert came_to_an_end


def test_on_a_full_disk_what_is_read_now_comes_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the disk is smaller than the limit: it is filled by what came first."""
    cache, size, room, write = DiskCache(tmp_path, 64 << 20), 100_000, 3 << 20, os.writev

    def full(file: int, waiting: Any) -> int:
        if sum(each.stat().st_size for each in tmp_path.rglob("*") if each.is_file()) > room:
            raise OSError(28, "No space left on device")
        return write(file, waiting)

    monkeypatch.setattr(os, "writev", full)
    monkeypatch.setattr(disk_cache, "_LEFT_ALONE", 0.0)
    for number in range(200):
        extent = Extent(0, size, None, tag_of("e"), kept=False)
        cache.write(f"{number:032x}", extent, bytes(size))
    there = [number for number in range(200) if cache.extents(f"{number:032x}")]
    assert len(there) > 20
    assert sum(number >= 100 for number in there) > 10
    counted = _total_of((tmp_path / "total").read_bytes())
    assert counted is not None
    assert cache.status().bytes <= counted.bytes


def test_what_came_by_a_clock_that_was_ahead_goes_before_what_comes_by_the_right_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = DiskCache(tmp_path, 10 << 20)
    size = 200_000

    def write(number: int) -> None:
        extent = Extent(0, size, None, tag_of("e"), kept=False)
        assert cache.write(f"{number:032x}", extent, bytes(size))

    def has(number: int) -> bool:
        return bool(cache.extents(f"{number:032x}"))

    with monkeypatch.context() as ahead:
        ahead.setattr(disk_cache, "now_ns", lambda: time.time_ns() + 10**18)
        for number in range(50):
            write(number)
    for number in range(1000, 1030):
        write(number)
    assert all(has(number) for number in range(1000, 1030))
    assert not all(has(number) for number in range(50))
