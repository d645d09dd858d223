"""Directories that are removed while others write into them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from adelta.storage import local_tree
from adelta.storage.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


class _EveryFolder:
    def __contains__(self, path: object) -> bool:
        return True


@pytest.mark.parametrize("joined", [1, 100], ids=["a few at a time", "in one go"])
def test_files_come_in_the_order_of_whole_paths_however_many_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, joined: int
) -> None:
    monkeypatch.setattr(local_tree, "_SORTED_AT_ONCE", 7)
    monkeypatch.setattr(local_tree, "_JOINED_AT_ONCE", joined)
    names = [f"{number * 37 % 101:03}" for number in range(100)] + ["a/x", "a-b", "aé", "a0", "B/y"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    pages = LocalStore(tmp_path).own_files(lambda name: name.startswith("_"))
    assert [path for page in pages for path in page.paths] == sorted(names, key=str.encode)


async def test_writers_do_not_notice_that_empty_directories_are_removed(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    removed = 0
    writing = True

    async def write(name: str) -> None:
        while removed <= 3:
            await store.put(f"a/{name}/x", b"1")
            await store.delete([f"a/{name}/x"])

    async def remove() -> None:
        nonlocal removed
        while writing:
            removed += await store.remove_empty_directories(
                lambda name: name.startswith("_"), older_than_ms=0, emptied=_EveryFolder()
            )
            await asyncio.sleep(0.001)

    remover = asyncio.create_task(remove())
    await asyncio.gather(*(write(name) for name in "bcd"))
    writing = False
    await remover
    assert removed > 3
