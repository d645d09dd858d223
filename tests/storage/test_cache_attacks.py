"""Reads through the disk cache that are cancelled, beside somebody who spoils what is in it."""

from __future__ import annotations

import asyncio
import os
import random
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

import pytest

from adelta.storage.cached_ranges import LostBytesError
from adelta.storage.caching_store import CachingStore
from adelta.storage.resolve import open_store
from tests.storage.test_disk_cache import UNIQUE, options_of, settled

if TYPE_CHECKING:
    from collections.abc import Awaitable
    from pathlib import Path

    from tests.support.gcs_server import GcsLocation

DATA = random.Random(18).randbytes(1_300_000)
SPANS = [(10, 70_000), (70_001, 1_200_000)]


async def read(store: CachingStore, how: int) -> None:
    """Read in one of five ways, and see that the bytes are right."""
    if how == 0:
        assert (await store.get_suffix(UNIQUE, 90_000)).data == DATA[-90_000:]
    elif how == 1:
        found = await store.get_ranges(UNIQUE, SPANS)
        assert list(map(bytes, found)) == [DATA[start:end] for start, end in SPANS]
    elif how == 2:
        assert await store.get(UNIQUE) == DATA
    elif how == 3:
        suffix = await asyncio.to_thread(store.read_suffix, UNIQUE, 90_000)
        assert suffix is None or suffix.data == DATA[-90_000:]
    else:
        cached = await asyncio.to_thread(store.find_ranges, UNIQUE, SPANS)
        if cached is None:
            return
        with suppress(LostBytesError), cached.open() as pieces:
            for start, data in pieces:
                assert bytes(data[9:-9]) == DATA[start + 9 : start + len(data) - 9]


async def cancelled_after(steps: int, awaitable: Awaitable[None]) -> None:
    task = asyncio.ensure_future(awaitable)
    for _ in range(steps):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


def spoil(folder: Path, luck: random.Random) -> None:
    """Do one thing to a file of the cache that nobody but an enemy or a broken disk would do."""
    with suppress(FileNotFoundError):  # it has just been deleted
        if files := sorted(folder.glob("objects/*/*/*")):
            spoil_one(folder, files, luck)


def spoil_one(folder: Path, files: list[Path], luck: random.Random) -> None:
    """The same of one of these files. Raises: FileNotFoundError."""
    file, size = luck.choice(files), luck.randrange(1000)
    what = luck.randrange(6)
    if what == 0:
        file.unlink()
    elif what == 1:
        os.truncate(file, size)
    elif what == 2:
        with file.open("r+b") as opened:
            opened.seek(luck.randrange(file.stat().st_size + 1))
            opened.write(b"spoilt")
    elif what == 3:
        file.replace(luck.choice(files))
    elif what == 4:
        os.utime(file, ns=(0, luck.randrange(1 << 62)))  # as if the clock had been another one
    else:
        (folder / "total").write_bytes(luck.randbytes(24))


@pytest.mark.parametrize("seed", range(2))
async def test_no_read_is_wrong_or_fails_whatever_becomes_of_the_cache(
    gcs_location: GcsLocation, tmp_path: Path, seed: int
) -> None:
    luck = random.Random(seed)
    one, other = (
        open_store(gcs_location.uri, options_of(gcs_location, tmp_path)) for _ in range(2)
    )
    assert isinstance(one, CachingStore)
    assert isinstance(other, CachingStore)
    async with aclosing(one), aclosing(other):
        await one.put(UNIQUE, DATA)
        for steps in range(60):
            how = steps % 5
            await asyncio.gather(
                cancelled_after(steps // 5 + luck.randrange(6), read(one, how)),
                read(other, luck.randrange(5)),
                asyncio.to_thread(spoil, tmp_path / "cache", luck),
            )
            if steps % 7 == 0:
                await settled(one)
                await read(one, 4)
        assert one.figures.bytes_from_cache + other.figures.bytes_from_cache > 0
        for how in range(5):
            await read(one, how)
