"""Directories that are removed while others write into them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from adelta.storage.local import LocalStore

if TYPE_CHECKING:
    from pathlib import Path


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
                lambda name: name.startswith("_"), older_than_ms=1 << 60, emptied=()
            )
            await asyncio.sleep(0.001)

    remover = asyncio.create_task(remove())
    await asyncio.gather(*(write(name) for name in "bcd"))
    writing = False
    await remover
    assert removed > 3
