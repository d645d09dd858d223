"""Blocking calls where an event loop is running already, as in a notebook's cell."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from adelta.sync._iterate import iterate
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from types import ModuleType


async def where() -> asyncio.AbstractEventLoop:
    await asyncio.sleep(0)
    return asyncio.get_running_loop()


async def numbers() -> AsyncIterator[int]:
    yield 1
    yield 2


async def test_a_call_inside_a_running_loop_runs_on_the_portals_loop() -> None:
    mine = asyncio.get_running_loop()
    assert call(where) is not mine
    assert asyncio.get_running_loop() is mine
    assert await where() is mine


async def test_iterators_and_blocks_work_inside_a_running_loop(lake: ModuleType, name: str) -> None:
    assert list(iterate((), numbers)) == [1, 2]
    with lake.open_table(name) as table:
        assert table.snapshot().scan().rows() == [1, 2, 3]


async def test_both_faces_work_side_by_side_in_one_process(lake: ModuleType, name: str) -> None:
    import lake as async_lake

    with lake.open_table(name) as blocking:
        async with async_lake.open_table(name) as table:
            assert (await table.snapshot()).version == blocking.snapshot().version == 2
