"""Lakes of which tables come and go, whose looks are broken off, and whose folders are odd."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta import Lake, write_table
from adelta.errors import InvalidUseError

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2]})


def told(changes: tuple[adelta.TableChange, ...]) -> list[tuple[str, str, int | None]]:
    return [(each.kind, each.name, each.version) for each in changes]


async def test_what_happens_while_a_look_is_under_way_is_told_by_it_or_by_the_next(
    tmp_path: Path,
) -> None:
    """Tables are dropped, made anew and written to while refresh goes on."""
    names = [f"t{number}" for number in range(6)]
    for name in names:
        await write_table(tmp_path / name, ROWS)
    async with Lake(tmp_path) as lake:
        versions: dict[str, int] = {}
        done = False

        async def watch() -> None:
            while True:
                ends = done
                for change in await lake.refresh():
                    assert change.kind != "failed", change.error
                    if change.kind == "dropped":
                        del versions[change.name]
                    else:
                        assert change.version is not None
                        versions[change.name] = change.version
                if ends:
                    return

        async def disturb() -> None:
            nonlocal done
            for number in range(12):
                name = names[number % 3]
                shutil.rmtree(tmp_path / name)
                if number % 2:
                    await write_table(tmp_path / name, ROWS)
                await write_table(tmp_path / names[3 + number % 3], ROWS)
                if not number % 2:
                    await write_table(tmp_path / name, pa.table({"other": ["x"]}))
            shutil.rmtree(tmp_path / names[0])
            done = True

        await asyncio.gather(watch(), disturb())
        assert versions == {"t1": 0, "t2": 0, "t3": 4, "t4": 4, "t5": 4}


async def test_looks_that_are_cancelled_at_any_moment_lose_nothing(tmp_path: Path) -> None:
    for number in range(5):
        await write_table(tmp_path / f"t{number}", ROWS)
    async with Lake(tmp_path) as lake:
        seen: list[str] = []
        for ticks in range(40):
            task = asyncio.ensure_future(lake.refresh())
            for _ in range(ticks):
                await asyncio.sleep(0)
            task.cancel()
            try:
                seen += [each.name for each in await task]
            except asyncio.CancelledError:
                continue
        seen += [each.name for each in await lake.refresh()]
        assert sorted(seen) == [f"t{number}" for number in range(5)]


@pytest.mark.parametrize("ticks", [0, 1, 5, 20, 60])
async def test_a_lake_that_is_closed_at_any_moment_ends_every_look(
    tmp_path: Path, ticks: int
) -> None:
    for number in range(5):
        await write_table(tmp_path / f"t{number}", ROWS)
    lake = Lake(tmp_path)
    looks = [asyncio.ensure_future(lake.refresh()) for _ in range(2)]
    for _ in range(ticks):
        await asyncio.sleep(0)
    await asyncio.gather(lake.aclose(), lake.aclose())
    for found in await asyncio.gather(*looks, return_exceptions=True):
        if isinstance(found, BaseException):
            assert isinstance(found, InvalidUseError)
        else:
            assert len(found) == 5


@pytest.mark.parametrize("name", ["a%2Fb", "a b+c", "x=1", "a#b?c", "日本", "-rf", "a\\b", "a\nb"])
async def test_folders_with_odd_names_are_tables_like_others(tmp_path: Path, name: str) -> None:
    await write_table(tmp_path / "t", ROWS)
    (tmp_path / "t").rename(tmp_path / name)
    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", name, 0)]
        assert (await lake.table(name).snapshot()).version == 0


async def test_what_looks_like_a_table_and_is_none_is_passed_over(tmp_path: Path) -> None:
    await write_table(tmp_path / "t", ROWS)
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "_delta_log").write_bytes(b"no folder")
    (tmp_path / "b" / "_delta_log").mkdir(parents=True)
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "circle").symlink_to(tmp_path)
    async with Lake(tmp_path) as lake:
        assert told(await lake.refresh()) == [("added", "t", 0)]
