"""Transactions whose task is cancelled: the table reads as before or after, never between."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

import anyio
import pyarrow as pa
import pytest

from adelta.commit.filesystem import FilesystemCoordinator
from adelta.errors import CommitOutcomeUnknownError
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from adelta.write.transaction_core import TransactionCore
from adelta.write.transaction_request import TransactionRequest
from tests.support.logs import metadata, protocol, put_commit
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from adelta.commit.coordinator import CommitOutcome, HasBase

R = TypeVar("R")
ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})


class PausingStore(WrappedStore):
    """A store that stops before or after the put of a commit until it is told to go on."""

    def __init__(self, *, after: bool) -> None:
        super().__init__(MemoryStore())
        self.after = after
        self.armed = False
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if not (self.armed and request.kind == "put" and request.path.endswith(".json")):
            return await run()
        result = await run() if self.after else None
        self.reached.set()
        await self.go_on.wait()
        return result if result is not None else await run()


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("by", ["task", "scope"])
async def test_a_commit_that_is_cancelled_half_way_keeps_its_files(after: bool, by: str) -> None:
    store = PausingStore(after=after)
    table = Table("memory://cancelled", store=store)
    await put_commit(store, 0, protocol(), metadata())
    store.armed = True
    scope = anyio.CancelScope()

    async def append() -> None:
        with scope:
            async with table.transaction() as tx:
                await tx.append(ROWS)

    task = asyncio.ensure_future(append())
    await store.reached.wait()
    if by == "task":
        task.cancel()
    else:
        scope.cancel()
    await asyncio.sleep(0.02)
    store.go_on.set()
    await asyncio.wait((task,))
    store.armed = False
    count = await (await table.snapshot()).scan().count()
    rows = await (await table.snapshot()).scan().to_arrow()
    assert count == rows.num_rows
    assert count == 3, "the put was sent, so it is let through"


async def test_what_breaks_after_the_put_leaves_an_unknown_outcome_and_the_files() -> None:
    store = MemoryStore()
    table = Table("memory://broken", store=store)
    await put_commit(store, 0, protocol(), metadata())

    class Breaks(FilesystemCoordinator):
        async def commit(
            self, version: int, data: bytes, transaction_id: str, has_base: HasBase | None = None
        ) -> CommitOutcome:
            await super().commit(version, data, transaction_id, has_base)
            raise RuntimeError("out of order")

    tx = TransactionCore(
        table._source, TransactionRequest(operation="WRITE"), coordinator=Breaks(store)
    )
    with pytest.raises(CommitOutcomeUnknownError, match="out of order") as caught:
        async with tx:
            await tx.write(ROWS)
    assert caught.value.version == 1
    assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 3


async def test_a_transaction_that_is_cancelled_before_its_commit_leaves_nothing() -> None:
    store = MemoryStore()
    table = Table("memory://cancelled", store=store)
    await put_commit(store, 0, protocol(), metadata())
    began = asyncio.Event()

    async def append() -> None:
        async with table.transaction() as tx:
            await tx.append(ROWS)
            began.set()
            await asyncio.sleep(60)

    task = asyncio.ensure_future(append())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await (await table.snapshot()).scan().count() == 0
    pages = [page async for page in store.list("")]
    assert not [m.path for page in pages for m in page if m.path.endswith(".parquet")]


async def test_connections_are_given_back_where_the_scope_of_a_block_is_cancelled() -> None:
    class Connections(WrappedStore):
        given_back = False

        async def aclose(self) -> None:
            await asyncio.sleep(0)
            self.given_back = True

    store = Connections(MemoryStore())
    with anyio.CancelScope() as scope:
        async with Table("memory://cancelled", store=store):
            scope.cancel()
            await asyncio.sleep(0)
    assert scope.cancelled_caught
    assert store.given_back
