"""Hadoop's checksum files on a local disk: no file is left beside the checksum of another one."""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import AdeltaError, ObjectExistsError, PermissionDeniedError
from adelta.storage.local import LocalStore
from tests.storage.object_store_suite import pieces
from tests.storage.test_local_faults import Verb, descriptors, each_failure, failing
from tests.support.hadoop_checksums import (
    checksum_of,
    contradictions,
    faults,
    keep_checksums,
    orphans,
    sums,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PATH = "log/0.json"
REPLACING: dict[str, Verb] = {
    "put": lambda store: store.put(PATH, b"new"),
    "put_stream": lambda store: store.put_stream(PATH, pieces(b"n", b"ew")),
}
CREATING: dict[str, Verb] = {
    **REPLACING,
    "put_if_absent": lambda store: store.put_if_absent(PATH, b"new"),
}


def leave_checksum(root: Path, data: bytes = sums(b"old")) -> Path:
    """Leave a checksum file of a file that is not there."""
    hidden = checksum_of(root / PATH)
    hidden.parent.mkdir(parents=True, exist_ok=True)
    hidden.write_bytes(data)
    return hidden


async def put_old(store: LocalStore) -> None:
    await store.put(PATH, b"old")
    leave_checksum(store_root(store))


def store_root(store: LocalStore) -> Path:
    return Path(store.root)


@pytest.mark.parametrize("verb", REPLACING)
async def test_replacing_a_file_deletes_its_checksum(tmp_path: Path, verb: str) -> None:
    store = LocalStore(tmp_path)
    await put_old(store)
    await REPLACING[verb](store)
    assert await store.get(PATH) == b"new"
    assert os.listdir(tmp_path / "log") == ["0.json"]


@pytest.mark.parametrize("verb", CREATING)
async def test_creating_a_file_deletes_the_checksum_of_a_deleted_one(
    tmp_path: Path, verb: str
) -> None:
    leave_checksum(tmp_path)
    await CREATING[verb](LocalStore(tmp_path))
    assert os.listdir(tmp_path / "log") == ["0.json"]


async def test_deleting_a_file_deletes_its_checksum(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    for path in ("a/1", "a/2", "b/1"):
        await store.put(path, b"x")
    keep_checksums(tmp_path)
    (tmp_path / "b" / "1").unlink()
    await store.delete(["a/1", "b/1"])
    assert sorted(os.listdir(tmp_path / "a")) == [".2.crc", "2"]
    assert os.listdir(tmp_path / "b") == [], "also the one of a file that was gone before"


@pytest.mark.parametrize("verb", CREATING)
async def test_the_deletion_of_a_checksum_is_synced_before_its_file_is_replaced(
    tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/1", b"x")  # the directory is synced
    leave_checksum(tmp_path)
    calls: list[str] = []
    for name in ("unlink", "fsync", "replace", "link"):
        real: Callable[..., Any] = getattr(os, name)

        def noted(*given: Any, _name: str = name, _real: Any = real, **more: Any) -> Any:
            calls.append(_name)
            return _real(*given, **more)

        monkeypatch.setattr(os, name, noted)
    await CREATING[verb](store)
    published = "link" if verb == "put_if_absent" else "replace"
    # The data, then the directory without the checksum, then the directory with the new file.
    expected = ["fsync", "unlink", "fsync", published, "fsync"]
    assert [call for call in calls if call in expected][: len(expected)] == expected


@pytest.mark.parametrize(("verb", "attempts"), [("put", 2), ("put_if_absent", 1), ("delete", 1)])
async def test_a_change_without_checksums_costs_at_most_two_more_system_calls(
    tmp_path: Path, verb: str, attempts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await store.put("log/1", b"x")
    await store.put("log/2", b"x")
    looked: list[str] = []
    for name in ("open", "access", "stat", "unlink"):
        real: Callable[..., Any] = getattr(os, name)

        def noted(path: Any, *given: Any, _real: Any = real, **more: Any) -> Any:
            looked.extend([path] if str(path).endswith(".crc") else [])
            return _real(path, *given, **more)

        monkeypatch.setattr(os, name, noted)
    with failing() as made:
        if verb == "delete":
            await store.delete(["log/1"])
        else:
            await CREATING[verb](store)
    assert len(looked) == attempts
    assert made.count("fsync") == (1 if verb == "delete" else 2), "nothing is synced for it"


@pytest.mark.parametrize("verb", [*CREATING, "delete"])
async def test_no_failing_system_call_leaves_a_file_with_the_checksum_of_another(
    tmp_path: Path, verb: str
) -> None:
    async def prepare(store: LocalStore) -> None:
        await put_old(store)
        if verb == "put_if_absent":
            (store_root(store) / PATH).unlink()

    def run(store: LocalStore) -> Awaitable[object]:
        return store.delete([PATH]) if verb == "delete" else CREATING[verb](store)

    for call, after, store, _, error in await each_failure(tmp_path, run, prepare, sweeps=False):
        where = f"{call}, {'after' if after else 'instead of'} its effect"
        assert error is None or isinstance(error, AdeltaError), where
        assert not contradictions(store_root(store)), where
        await run(store) if verb != "put_if_absent" else await store.put(PATH, b"new")
        assert not faults(store_root(store)), f"{where}: the next attempt"


@pytest.mark.parametrize("data", [b"", b"c", b"crc", b"crc\0", b"crc\0\0\0\2\0"])
async def test_a_truncated_checksum_file_is_deleted(tmp_path: Path, data: bytes) -> None:
    hidden = leave_checksum(tmp_path, data)
    await LocalStore(tmp_path).put(PATH, b"new")
    assert not hidden.exists()


async def test_a_file_of_the_users_own_stays_under_the_name_of_a_checksum(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    hidden = leave_checksum(tmp_path, b"notes of mine")
    await store.put(PATH, b"new")
    await store.delete([PATH])
    await store.remove_empty_directories(lambda name: False, older_than_ms=1 << 62, emptied=())
    assert hidden.read_bytes() == b"notes of mine"
    hidden.unlink()
    hidden.mkdir()
    await store.put(PATH, b"new")
    await store.delete([PATH])
    assert hidden.is_dir()


async def test_a_link_with_the_name_of_a_checksum_is_deleted_without_its_target(
    tmp_path: Path,
) -> None:
    elsewhere = tmp_path / "elsewhere.crc"
    elsewhere.write_bytes(sums(b"old"))
    store = LocalStore(tmp_path / "root")
    await store.put(PATH, b"old")
    hidden = checksum_of(tmp_path / "root" / PATH)
    hidden.symlink_to(elsewhere)
    await store.put(PATH, b"new")
    assert not hidden.is_symlink()
    assert elsewhere.read_bytes() == sums(b"old")


async def test_a_hard_linked_copy_of_a_table_keeps_its_checksums(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "root")
    await put_old(store)
    copy = tmp_path / "copy" / PATH
    copy.parent.mkdir(parents=True)
    for path in (tmp_path / "root" / PATH, checksum_of(tmp_path / "root" / PATH)):
        os.link(path, copy.with_name(path.name))
    await store.put(PATH, b"new")
    await store.delete([PATH])
    assert copy.read_bytes() == b"old"
    assert checksum_of(copy).exists()
    assert not faults(tmp_path)


async def test_a_name_too_long_for_a_checksum_file_is_written_and_deleted(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    name = "x" * 255
    await store.put(name, b"new")
    await store.put_if_absent(f"{name[:-1]}y", b"new")
    await store.delete([name, f"{name[:-1]}y"])
    assert os.listdir(tmp_path) == []


async def test_a_root_that_is_a_link_has_its_checksums_deleted_too(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to("real")
    store = LocalStore(tmp_path / "root")
    await put_old(store)
    await store.put(PATH, b"new")
    assert os.listdir(tmp_path / "real" / "log") == ["0.json"]


@pytest.mark.parametrize("verb", [*CREATING, "delete"])
async def test_a_checksum_that_cannot_be_deleted_keeps_its_file_as_it_is(
    tmp_path: Path, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await put_old(store)
    if verb == "put_if_absent":
        (tmp_path / PATH).unlink()
    real = os.unlink

    def refused(path: Any, *given: Any, **more: Any) -> None:
        if str(path).endswith(".crc"):
            raise PermissionError(1, "Operation not permitted")
        real(path, *given, **more)

    monkeypatch.setattr(os, "unlink", refused)
    with pytest.raises(PermissionDeniedError, match=r"\.0\.json\.crc.*by hand"):
        await (store.delete([PATH]) if verb == "delete" else CREATING[verb](store))
    kept = [".0.json.crc"] if verb == "put_if_absent" else [".0.json.crc", "0.json"]
    assert sorted(os.listdir(tmp_path / "log")) == kept
    assert not contradictions(tmp_path)


async def test_a_lost_race_leaves_the_winning_file_readable(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    await put_old(store)
    with pytest.raises(ObjectExistsError):
        await store.put_if_absent(PATH, b"new")
    assert await store.get(PATH) == b"old"
    assert not faults(tmp_path)
    assert not orphans(tmp_path)


async def test_a_checksum_that_another_writer_renames_late_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hadoop renames a file first and its checksum afterwards."""
    store = LocalStore(tmp_path)
    await put_old(store)
    real = os.replace

    def replaced(*given: Any, **more: Any) -> None:
        real(*given, **more)
        leave_checksum(tmp_path, sums(b"of the other writer"))

    monkeypatch.setattr(os, "replace", replaced)
    await store.put(PATH, b"new")
    assert not faults(tmp_path)


async def test_old_checksums_without_a_file_are_deleted_with_empty_directories(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    for path in ("p=1/x", "p=2/x", "p=3/x", "p=3/y", "_log/x"):
        await store.put(path, b"x")
    keep_checksums(tmp_path)
    (tmp_path / "p=3" / "link").symlink_to("x")
    checksum_of(tmp_path / "p=3" / "link").write_bytes(sums(b"x"))
    old = time.time() - 1000
    for path in ("p=1/x", "p=2/x", "p=3/x", "_log/x"):
        (tmp_path / path).unlink()
        if path != "p=2/x":
            os.utime(checksum_of(tmp_path / path), (old, old))
    cutoff = int((time.time() - 500) * 1000)

    def hides(name: str) -> bool:
        return name.startswith(("_", "."))

    await store.remove_empty_directories(hides, older_than_ms=cutoff, emptied=("p=1/", "p=2/"))
    assert not (tmp_path / "p=1").exists()
    assert os.listdir(tmp_path / "p=2") == [".x.crc"], "it is young"
    assert sorted(os.listdir(tmp_path / "p=3")) == [".link.crc", ".y.crc", "link", "y"]
    assert os.listdir(tmp_path / "_log") == [".x.crc"], "it is hidden"
    assert [each.path for each in await store.list_unfinished("_log")] == ["_log/.x.crc"]


async def test_checksums_with_blocks_of_any_size_are_compared(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    data = os.urandom(10_000_000)
    await store.put("x", data)
    for block_bytes in (1 << 20, 9_000_000, len(data), (1 << 31) - 1):
        blocks = [data[at : at + block_bytes] for at in range(0, len(data), block_bytes)]
        each = b"".join(struct.pack(">I", zlib.crc32(block)) for block in blocks)
        header = b"crc\0" + struct.pack(">i", block_bytes)
        checksum_of(tmp_path / "x").write_bytes(header + each)
        assert await store.list_wrong_checksums("") == ()
        checksum_of(tmp_path / "x").write_bytes(header + each[:-1] + bytes([each[-1] ^ 1]))
        assert [each.path for each in await store.list_wrong_checksums("")] == [".x.crc"]


async def test_checksums_that_do_not_match_their_files_are_listed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    sizes = (0, 1, 511, 512, 513, 70_000)
    for size in sizes:
        await store.put(f"log/{size}", os.urandom(size))
    keep_checksums(tmp_path)
    assert await store.list_wrong_checksums("log") == ()
    for size in sizes[1:]:
        path = tmp_path / "log" / str(size)
        data = bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
    (tmp_path / "log" / "0").write_bytes(b"longer")
    checksum_of(tmp_path / "log" / "511").write_bytes(b"of mine")
    found = [each.path for each in await store.list_wrong_checksums("log")]
    assert sorted(found) == sorted(f"log/.{size}.crc" for size in sizes if size != 511)
    (tmp_path / "log" / "folder").mkdir()
    os.mkfifo(tmp_path / "log" / "pipe")
    (tmp_path / "log" / "link").symlink_to("0")
    for name in ("folder", "pipe", "link"):
        checksum_of(tmp_path / "log" / name).write_bytes(sums(b"of no file"))
    before = descriptors()
    again = [each.path for each in await store.list_wrong_checksums("log")]
    assert sorted(again) == sorted(found), "what is no file has no checksum"
    assert descriptors() == before
    checksum_of(tmp_path / "log" / "513").write_bytes(b"crc\0\0\0\0\0")
    assert "log/.513.crc" in [each.path for each in await store.list_wrong_checksums("")]
