"""Tables, unpacked from an archive say, in which links and foreign files lie."""

from __future__ import annotations

import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import OutsideRootError
from adelta.kernel.log_path import LOG_DIR, SIDECAR_DIR
from adelta.storage.local import LocalStore
from adelta.write.discarding import discard_data_files

if TYPE_CHECKING:
    from pathlib import Path

DAY = 86_400


def rows(number: int) -> pa.Table:
    return pa.table({"id": [number], "part": [number]})


def aged(path: Path, days: int) -> Path:
    os.utime(path, (time.time() - days * DAY,) * 2, follow_symlinks=False)
    return path


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """Somebody's files, one with the name of a sidecar and one with that of a commit."""
    folder = tmp_path / "victim"
    for name in ("thesis.odt", "keys/id_rsa", f"{uuid.uuid4()}.parquet", f"{0:020d}.json"):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"precious")
        aged(file, 90)
    return folder


def files_of(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


async def table_of(path: Path, commits: int) -> str:
    """Every version has a checkpoint, and the log is old."""
    for number in range(commits):
        await adelta.write_table(
            str(path),
            rows(number),
            properties={"delta.checkpointInterval": "1"} if not number else None,
        )
    for file in (path / LOG_DIR).iterdir():
        if file.is_file() and file.name[0] == "0":
            os.utime(file, (time.time() - 60 * DAY + int(file.name[:20]),) * 2)
    return str(path)


async def ids(uri: str) -> list[int]:
    async with adelta.open_table(uri) as table:
        return sorted((await (await table.snapshot()).scan().to_arrow())["id"].to_pylist())


@pytest.mark.parametrize("by", ["append", "cleanup_log"])
async def test_linked_sidecars_are_left_by_a_clean_up(
    tmp_path: Path, victim: Path, by: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = files_of(victim)
    uri = await table_of(tmp_path / "t", 3)
    (tmp_path / "t" / SIDECAR_DIR.rstrip("/")).symlink_to(victim)
    options = {"allowed_roots": str(victim)}  # which may be read, and stays as it is
    if by == "append":
        await adelta.write_table(uri, rows(9), storage_options=options)
    else:
        found = await adelta.cleanup_log(uri, storage_options=options)
        assert found.num_commits > 0
        assert found.num_sidecars == 0
    assert files_of(victim) == before
    assert "its sidecars stay" in caplog.text
    assert f"{0:020d}.json" not in os.listdir(tmp_path / "t" / LOG_DIR), "the log was cleaned up"


async def test_a_linked_commit_is_left_by_a_clean_up(tmp_path: Path, victim: Path) -> None:
    before = files_of(victim)
    uri = await table_of(tmp_path / "t", 3)
    commit = tmp_path / "t" / LOG_DIR / f"{0:020d}.json"
    (victim / "moved").mkdir()
    target = commit.rename(victim / "moved" / "commit")
    commit.symlink_to(target)
    with pytest.raises(OutsideRootError, match=commit.name):
        await adelta.cleanup_log(uri)
    assert files_of(victim) == sorted([*before, "moved/commit"])


async def test_a_linked_log_is_not_written_to(tmp_path: Path, victim: Path) -> None:
    """It may be another table's, which has no use for commits of this one."""
    uri = await table_of(tmp_path / "other", 2)
    before = files_of(tmp_path / "other")
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "_delta_log").symlink_to(tmp_path / "other" / "_delta_log")
    options = {"allowed_roots": str(tmp_path / "other")}  # for reading alone
    with pytest.raises(OutsideRootError, match="_delta_log' is a link"):
        await adelta.write_table(str(tmp_path / "t"), rows(9), storage_options=options)
    assert files_of(tmp_path / "other") == before
    assert files_of(tmp_path / "t") == [], "what was written for the commit is gone again"
    assert await ids(uri) == [0, 1]


async def test_a_linked_partition_is_not_written_to(tmp_path: Path, victim: Path) -> None:
    before = files_of(victim)
    uri = str(tmp_path / "t")
    await adelta.write_table(uri, rows(0), partition_by=["part"])
    (tmp_path / "t" / "part=1").symlink_to(victim)
    with pytest.raises(OutsideRootError, match="part=1"):
        await adelta.write_table(uri, rows(1))
    assert files_of(victim) == before
    assert await ids(uri) == [0]


async def test_a_table_below_a_linked_root_is_cleaned_up(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "lake").symlink_to(tmp_path / "disk")
    uri = await table_of(tmp_path / "lake" / "t", 3)
    assert (await adelta.cleanup_log(uri)).num_commits == 2
    await adelta.write_table(uri, rows(3))
    assert await ids(uri) == [0, 1, 2, 3]


async def test_foreign_files_in_the_log_stay(tmp_path: Path) -> None:
    uri = await table_of(tmp_path / "t", 3)
    (tmp_path / "t" / SIDECAR_DIR).mkdir(exist_ok=True)
    names = ["README.txt", "0.json.bak", ".hidden", "_sidecars/README.txt", "_sidecars/x.parquet"]
    for name in names:
        (tmp_path / "t" / LOG_DIR / name).write_bytes(b"precious")
        aged(tmp_path / "t" / LOG_DIR / name, 90)
    await adelta.cleanup_log(uri)
    assert set(names) < set(files_of(tmp_path / "t" / LOG_DIR))


async def test_what_broken_off_writes_have_left_in_the_log_goes_when_it_is_old(
    tmp_path: Path,
) -> None:
    uri = await table_of(tmp_path / "t", 1)
    (tmp_path / "t" / SIDECAR_DIR).mkdir(exist_ok=True)
    log = tmp_path / "t" / LOG_DIR
    old = [f".adelta-tmp-{'a' * 16}", f"_sidecars/.adelta-tmp-{'b' * 16}"]
    kept = [".adelta-tmp-mine", f".adelta-tmp-{'c' * 16}"]
    for name in (*old, *kept):
        (log / name).write_bytes(b"half")
        aged(log / name, 0 if name.endswith("c") else 9)
    planned = await adelta.cleanup_log(uri, dry_run=True)
    assert sorted(planned.paths) == sorted(LOG_DIR + name for name in old)
    found = await adelta.cleanup_log(uri)
    assert (found.num_unfinished, found.paths) == (2, planned.paths)
    assert not set(old) & set(files_of(log))
    assert set(kept) < set(files_of(log))
    assert (await adelta.cleanup_log(uri, retention=timedelta(0))).num_unfinished == 0


async def test_a_transaction_that_is_given_up_deletes_only_what_adelta_writes(
    tmp_path: Path,
) -> None:
    store = LocalStore(tmp_path)
    own = f"part-00000-{uuid.uuid4()}.c000.zstd.parquet"
    foreign = ["_delta_log/00000000000000000000.json", "salaries.parquet", "part-0.parquet"]
    for path in (own, *foreign):
        await store.put(path, b"x")
    await discard_data_files(store, [own, *foreign, "../secret", "/etc/passwd", "a\0b"])
    assert files_of(tmp_path) == sorted(foreign)
