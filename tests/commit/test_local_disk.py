"""Commits to a table on a disk that fails at the wrong moment."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.commit.coordinator import Unknown
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.errors import CommitNotDurableError, CommitOutcomeUnknownError, StorageError
from adelta.kernel.log_path import commit_path
from adelta.storage.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


def rows(number: int) -> pa.Table:
    return pa.table({"id": [number]})


async def ids(path: Path) -> list[int]:
    async with adelta.open_table(str(path)) as table:
        found = await (await table.snapshot()).scan().to_arrow()
        return sorted(found["id"].to_pylist())


def break_after_link(monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Let a system call fail from the moment on that a commit has its name."""
    link = os.link

    def failed(*_: object, **__: object) -> None:
        raise OSError(errno.EIO, "the disk is gone")

    def linked(*arguments: str, **keywords: int) -> None:
        link(*arguments, **keywords)
        monkeypatch.setattr(os, call, failed)

    monkeypatch.setattr(os, "link", linked)


async def test_a_commit_whose_folder_cannot_be_synced_is_in_doubt_and_keeps_its_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await adelta.write_table(str(tmp_path), rows(0))
    break_after_link(monkeypatch, "fsync")
    with pytest.raises(CommitOutcomeUnknownError, match="outlive a crash") as caught:
        await adelta.write_table(str(tmp_path), rows(1))
    monkeypatch.undo()
    assert caught.value.version == 1
    assert await ids(tmp_path) == [0, 1]


@pytest.mark.parametrize("call", ["unlink", "close", "stat"])
async def test_what_fails_once_the_commit_will_last_is_of_no_weight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    await adelta.write_table(str(tmp_path), rows(0))
    store = LocalStore(tmp_path)
    break_after_link(monkeypatch, call)
    await store.put_if_absent(commit_path(1), b"{}")
    monkeypatch.undo()
    assert await store.get(commit_path(1)) == b"{}"


async def test_a_commit_that_could_not_be_written_to_the_disk_takes_its_files_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await adelta.write_table(str(tmp_path), rows(0))
    before = sorted(os.listdir(tmp_path))
    fsync, put = os.fsync, LocalStore.put_if_absent

    def failed(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", fsync)
        raise OSError(errno.EIO, "the disk is gone")

    async def breaking(store: LocalStore, path: str, data: bytes) -> object:
        monkeypatch.setattr(os, "fsync", failed)
        return await put(store, path, data)

    monkeypatch.setattr(LocalStore, "put_if_absent", breaking)
    with pytest.raises(StorageError, match="the disk is gone"):
        await adelta.write_table(str(tmp_path), rows(1))
    monkeypatch.undo()
    assert sorted(os.listdir(tmp_path)) == before
    assert await ids(tmp_path) == [0]


async def test_a_file_that_may_not_last_is_not_read_back_as_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = LocalStore(tmp_path)
    await store.put(commit_path(0), b"{}")
    break_after_link(monkeypatch, "fsync")
    outcome = await FilesystemCoordinator(store).commit(
        1, b'{"commitInfo":{"operation":"WRITE","txnId":"a"}}\n', "a"
    )
    assert isinstance(outcome, Unknown)
    assert isinstance(outcome.cause, CommitNotDurableError)
