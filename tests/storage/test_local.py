from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from typing import TYPE_CHECKING

import pytest

from adelta.errors import ObjectNotFoundError, RootNotAllowedError, StorageError
from adelta.storage.local import LocalStore
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path


class TestLocalStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, tmp_path: Path) -> LocalStore:
        return LocalStore(tmp_path / "a root%20 #é")


def names_below(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


async def test_no_hidden_file_is_left(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("a/x", b"1")
    await store.put_if_absent("a/y", b"1")
    with pytest.raises(FileExistsError):
        await store.put_if_absent("a/y", b"2")
    await store.put_stream("a/z", pieces(b"1", b"2"))

    async def broken() -> AsyncIterator[bytes]:
        yield b"half"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await store.put_stream("a/w", broken())

    async def race(number: int) -> None:
        with pytest.raises(FileExistsError):
            await store.put_if_absent("a/y", str(number).encode())

    await asyncio.gather(*map(race, range(20)))
    assert names_below(tmp_path) == ["a/x", "a/y", "a/z"]


async def test_a_stale_hidden_file_is_not_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/1", b"")
    (tmp_path / "log" / ".adelta-tmp-0123456789abcdef").write_bytes(b"half")
    assert await paths_of(store) == ["log/1"]
    assert await paths_of(store, "log/", recursive=False) == ["log/1"]


_CRASH = """
import os, sys
from adelta.storage import local

calls = 0
def die(*_, **__):
    os._exit(7)

setattr(os, sys.argv[2], die)  # the process ends at this call
import asyncio
asyncio.run(local.LocalStore(sys.argv[1]).put_if_absent("log/0.json", b"x" * 100_000))
"""


@pytest.mark.parametrize("call", ["write", "fsync", "link"])
async def test_a_crash_before_the_link_leaves_no_entry(tmp_path: Path, call: str) -> None:
    command = [sys.executable, "-c", _CRASH, str(tmp_path), call]
    assert await asyncio.to_thread(subprocess.call, command) == 7
    store = LocalStore(tmp_path)
    assert await paths_of(store) == []
    await store.put_if_absent("log/0.json", b"whole")
    assert await store.get("log/0.json") == b"whole"


async def test_a_crash_after_the_link_leaves_the_whole_entry(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _CRASH, str(tmp_path), "unlink"]
    assert await asyncio.to_thread(subprocess.call, command) == 7
    store = LocalStore(tmp_path)
    assert await paths_of(store) == ["log/0.json"]
    assert await store.get("log/0.json") == b"x" * 100_000


async def test_the_file_is_synced_before_it_appears_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace: list[str] = []

    def traced(name: str) -> None:
        real = getattr(os, name)

        def call(*arguments: object, **keywords: object) -> object:
            target = "" if name != "fsync" else os.readlink(f"/proc/self/fd/{arguments[0]}")
            trace.append(f"{name} {'directory' if os.path.isdir(target) else 'file'}")
            return real(*arguments, **keywords)

        monkeypatch.setattr(os, name, call)

    (tmp_path / "log").mkdir()
    for name in ("fsync", "link", "replace"):
        traced(name)
    store = LocalStore(tmp_path)
    await store.put_if_absent("log/0.json", b"x")
    assert trace.pop(0) == "fsync directory", "whoever made it may have failed before he synced it"
    assert trace == ["fsync file", "link file", "fsync directory"]
    trace.clear()
    await store.put("log/1.json", b"x")
    assert trace == ["fsync file", "replace file", "fsync directory"]
    trace.clear()
    await store.put("new/deep/1", b"x")
    assert trace[:2] == ["fsync directory"] * 2


async def test_ten_thousand_small_files_are_read_in_few_trips_to_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adelta.storage import local

    trips = 0
    real = local.in_io_thread

    async def counted(*arguments: object, **keywords: object) -> object:
        nonlocal trips
        trips += 1
        return await real(*arguments, **keywords)

    for number in range(200):
        (tmp_path / f"{number}").write_bytes(bytes(500))
    monkeypatch.setattr(local, "in_io_thread", counted)
    found = await LocalStore(tmp_path).get_many([f"{number % 200}" for number in range(10_000)])
    assert sum(map(len, found)) == 5_000_000
    assert trips <= 96


async def test_a_disk_that_keeps_one_thread_waiting_is_waited_for_by_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from adelta.storage import local

    for number in range(20):
        (tmp_path / f"{number}").write_bytes(b"%d" % number)
    real, first, all_wait = local.read_at, threading.Event(), threading.Barrier(8)

    def slow(*arguments: int) -> bytes:
        if first.is_set():
            all_wait.wait(timeout=20)  # for seven others who read meanwhile
        first.set()
        return real(*arguments)

    monkeypatch.setattr(local, "read_at", slow)
    monkeypatch.setattr(local, "_PATIENCE", -1)  # which the first file exhausts
    names = [f"{number}" for number in range(17)]
    assert await LocalStore(tmp_path).get_many(names) == [name.encode() for name in names]


async def test_links_are_followed_but_not_in_circles(tmp_path: Path) -> None:
    (tmp_path / "table" / "sub").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_bytes(b"1")
    (tmp_path / "table" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "table" / "sub" / "up").symlink_to(tmp_path / "table")
    (tmp_path / "table" / "broken").symlink_to(tmp_path / "nowhere")
    (tmp_path / "table" / "sub" / "beside").symlink_to(tmp_path / "table" / "kept")
    (tmp_path / "table" / "kept").mkdir()
    (tmp_path / "table" / "kept" / "file").write_bytes(b"2")
    within = LocalStore(tmp_path / "table")
    assert await paths_of(within) == ["kept/file", "sub/beside/file"]
    assert await within.get("sub/beside/file") == b"2"
    allowed = LocalStore(tmp_path / "table", [str(tmp_path / "elsewhere")])
    assert await paths_of(allowed) == ["kept/file", "linked/file", "sub/beside/file"]
    assert await allowed.get("linked/file") == b"1"


@pytest.mark.parametrize("linked", ["file", "folder"])
async def test_nothing_is_read_through_a_link_that_leads_out(tmp_path: Path, linked: str) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "x").write_bytes(b"secret")
    (tmp_path / "table").mkdir()
    store = LocalStore(tmp_path / "table")
    name = "x" if linked == "file" else "sub/x"
    place = tmp_path / "table" / name.partition("/")[0]
    place.symlink_to(tmp_path / "elsewhere" / ("x" if linked == "file" else ""))
    readings: list[Callable[[], Awaitable[object]]] = [
        lambda: store.get(name),
        lambda: store.get_with_meta(name),
        lambda: store.get_many([name]),
        lambda: store.get_range(name, 0, 1),
        lambda: store.get_ranges(name, [(0, 1)]),
        lambda: store.get_suffix(name, 1),
        lambda: store.head(name),
    ]
    for read in readings:
        with pytest.raises(RootNotAllowedError, match="allowed_roots=/"):
            await read()
    with pytest.raises(RootNotAllowedError), store.file_to_read(name):
        pass
    with pytest.raises(RootNotAllowedError):
        next(store.read_suffixes([name], 1))
    if linked == "folder":
        with pytest.raises(RootNotAllowedError):
            await paths_of(store, "sub/")


async def test_ends_of_many_files_come_in_order_up_to_one_that_is_missing(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for path in ("a", "one/b", "one/c", "two/d"):
        await store.put(path, b"0123" + path.encode())
    paths = ["one/c", "a", "one/b", "two/d", "two/nothing", "a"]
    ends = store.read_suffixes(paths, 5)
    for path in paths[:4]:
        end = next(ends)
        assert (end.data, end.object_size) == ((b"0123" + path.encode())[-5:], 4 + len(path))
    with pytest.raises(ObjectNotFoundError, match="nothing"):
        next(ends)


async def test_a_root_that_is_a_link_may_lead_elsewhere_later(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    (tmp_path / "current").symlink_to(tmp_path / "one")
    store = LocalStore(tmp_path / "current")
    assert await store.get("x") == b"one"
    (tmp_path / "current").unlink()
    (tmp_path / "current").symlink_to(tmp_path / "two")
    assert await store.get("x") == b"two"


async def test_a_file_to_read_stays_the_same_one(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    store = LocalStore(tmp_path / "table")
    await store.put("x", b"open")
    with store.file_to_read("x") as name:
        (tmp_path / "table" / "x").unlink()
        (tmp_path / "table" / "x").symlink_to(tmp_path / "secret")
        with open(name, "rb") as file:  # noqa: ASYNC230
            assert file.read() == b"open"


async def test_a_root_that_does_not_exist_is_empty(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "not" / "there")
    assert await paths_of(store) == []
    with pytest.raises(ObjectNotFoundError, match="not/there/x"):
        await store.get("x")


async def test_a_file_in_the_place_of_a_directory_is_a_storage_error(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await store.put("x", b"")
    with pytest.raises(StorageError, match="x/y"):
        await store.put("x/y", b"")
