"""Scans that are begun at one moment: so many are on the way to their first rows, and no more."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta.read import admission
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

R = TypeVar("R")

SCANS, AT_ONCE = 100, 32
FILES = 3


class Watched(WrappedStore):
    """A store of which it is known how many reads of data files are under way."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.now = self.most = 0
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if not request.path.endswith(".parquet") or request.kind != "get":
            return await run()
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await self.open.wait()
            await asyncio.sleep(0)
            return await run()
        finally:
            self.now -= 1


@pytest.fixture
async def table() -> Table:
    store = Watched()
    table = Table(store.uri, store=store)
    for number in range(FILES):
        await adelta.write_table(table, pa.table({"id": [number]}))
    return table


def watched(table: Table) -> Watched:
    store = table.store.inner  # type: ignore[attr-defined]
    assert isinstance(store, Watched)
    return store


async def rows_of(table: Table) -> list[int]:
    scan = (await table.snapshot()).scan(where="id >= 0")
    return sorted((await scan.to_arrow()).column("id").to_pylist())


async def test_so_many_are_on_the_way_to_their_first_rows(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(admission, "_LONGEST_TURN", 60)
    store = watched(table)
    store.open.clear()
    scans = [asyncio.ensure_future(rows_of(table)) for _ in range(SCANS)]
    with anyio.fail_after(60):
        while store.now < AT_ONCE * FILES:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
    await asyncio.sleep(0.2)
    assert store.most == AT_ONCE * FILES
    store.open.set()
    assert await asyncio.gather(*scans) == [[0, 1, 2]] * SCANS


async def test_a_scan_that_streams_holds_up_no_other(table: Table) -> None:
    snapshot = await table.snapshot()
    streams: list[Any] = [snapshot.scan().batches() for _ in range(SCANS)]
    with anyio.fail_after(60):
        for stream in streams:
            await anext(stream)  # and more of them would come
        assert await rows_of(table) == [0, 1, 2]
    for stream in streams:
        await stream.aclose()


async def test_scans_that_wait_for_a_store_hold_up_others_for_a_moment_only(table: Table) -> None:
    store = watched(table)
    store.open.clear()
    stuck = [asyncio.ensure_future(rows_of(table)) for _ in range(AT_ONCE)]
    while store.now < AT_ONCE:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.001)
    other = Table("memory://another-lake/t")
    await adelta.write_table(other, pa.table({"id": [7]}))
    with anyio.fail_after(60):
        assert await rows_of(other) == [7]
    store.open.set()
    assert await asyncio.gather(*stuck) == [[0, 1, 2]] * AT_ONCE


async def test_scans_that_are_cancelled_give_their_turn_back(table: Table) -> None:
    store = watched(table)
    store.open.clear()
    waiting = [asyncio.ensure_future(rows_of(table)) for _ in range(SCANS)]
    with anyio.fail_after(60):
        while store.now < AT_ONCE:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
        for task in (*waiting[::2], *reversed(waiting[1::2])):
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        store.open.set()
        assert await asyncio.gather(*(rows_of(table) for _ in range(SCANS))) == [[0, 1, 2]] * SCANS


async def test_so_do_scans_that_fail_and_those_that_are_left_unread(table: Table) -> None:
    await table.store.delete([(await (await table.snapshot()).add_files())[0].path])
    snapshot = await table.snapshot()
    with anyio.fail_after(60):
        for _ in range(2 * AT_ONCE):
            with pytest.raises(adelta.errors.MissingDataFileError):
                await snapshot.scan().to_arrow()
            async with aclosing(snapshot.scan().batches()) as batches:  # type: ignore[type-var]
                with pytest.raises(adelta.errors.MissingDataFileError):
                    await anext(batches)
            assert not (await snapshot.scan(where="id > 7").to_arrow()).num_rows


async def test_a_delete_does_not_wait_for_readers(table: Table) -> None:
    store = watched(table)
    store.open.clear()
    readers = [asyncio.ensure_future(rows_of(table)) for _ in range(SCANS)]
    while store.now < AT_ONCE:  # noqa: ASYNC110 - no event
        await asyncio.sleep(0.001)
    before = store.now
    deleting = asyncio.ensure_future(adelta.delete(table, "id = 1"))
    with anyio.fail_after(60):
        while store.now <= before:  # noqa: ASYNC110 - no event
            await asyncio.sleep(0.001)
    store.open.set()
    await asyncio.gather(deleting, *readers)
    assert await rows_of(table) == [0, 2]
