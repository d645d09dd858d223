"""A put whose caller was cancelled, and which the server carries out later all the same."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import anyio
import pyarrow as pa
import pytest

import adelta
from adelta.storage import abandoned_writes
from adelta.storage.object_client import ObjectRequest
from adelta.storage.s3 import S3Store
from tests.storage.faulty_proxy import FaultyProxy
from tests.storage.object_store_suite import paths_of, pieces

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tests.support.s3_server import S3Location

MEGABYTE = bytes(1 << 20)


class HoldingProxy(FaultyProxy):
    """A proxy that has got a request, and lets it through when the gate is open.

    Whether the client is still there then does not matter to it, as it does not to a server that
    has the whole request.
    """

    def __init__(self, upstream: str) -> None:
        super().__init__(upstream)
        self.holds: Callable[[str, str], bool] = lambda _method, _target: False
        self.held = asyncio.Event()
        self.gate = asyncio.Event()
        self.let_through = 0

    async def _forward(self, head: bytes, body: bytes, method: str) -> bytes:
        target = head.split(b" ", 2)[1].decode()
        if not self.holds(method, target):
            return await super()._forward(head, body, method)
        self.held.set()
        await self.gate.wait()
        answer = await super()._forward(head, body, method)
        self.let_through += 1
        return answer

    async def open_later(self, seconds: float = 0.1) -> None:
        await asyncio.sleep(seconds)
        self.gate.set()


@pytest.fixture
async def proxy(s3_location: S3Location) -> AsyncIterator[HoldingProxy]:
    async with HoldingProxy(s3_location.server.endpoint) as proxy:
        yield proxy


@pytest.fixture
async def near(s3_location: S3Location) -> AsyncIterator[S3Store]:
    """The same place, without the proxy."""
    options = s3_location.storage_options
    store = S3Store.from_options(s3_location.bucket, s3_location.prefix, options)
    yield store
    await store.aclose()


@pytest.fixture
def store(s3_location: S3Location, proxy: HoldingProxy) -> S3Store:
    options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
    return S3Store.from_options(s3_location.bucket, s3_location.prefix, options)


def is_data(method: str, target: str) -> bool:
    return method == "PUT" and ".parquet" in target


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def cancelled(
    task: asyncio.Task[object], scope: anyio.CancelScope | None = None
) -> asyncio.Task[None]:
    """Cancel the task; its end."""
    if scope is None:
        task.cancel()
    else:
        scope.cancel()

    async def end() -> None:
        await asyncio.wait({task})

    return asyncio.ensure_future(end())


@pytest.mark.parametrize("by", ["task", "scope"])
@pytest.mark.parametrize("wait", [600.0, 0.01], ids=["soon", "later than anybody waits"])
async def test_an_append_that_is_cancelled_leaves_nothing_when_its_handle_is_closed(
    s3_location: S3Location,
    proxy: HoldingProxy,
    near: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    wait: float,
    by: str,
) -> None:
    monkeypatch.setattr(abandoned_writes, "_WAIT", wait)
    await adelta.write_table(s3_location.uri, rows(1), storage_options=s3_location.storage_options)
    before = await paths_of(near)
    options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
    table = adelta.open_table(s3_location.uri, options)
    proxy.holds = is_data
    scope = anyio.CancelScope() if by == "scope" else None

    async def append() -> None:
        with scope or anyio.CancelScope():
            await adelta.write_table(table, rows(2))

    task = asyncio.ensure_future(append())
    await proxy.held.wait()
    ended = await cancelled(task, scope)
    if wait < 1:
        await asyncio.wait_for(ended, 60)
        assert not proxy.let_through, "it waits for no request that takes long"
    opening = asyncio.ensure_future(proxy.open_later())
    await ended
    await table.aclose()
    await opening
    assert proxy.let_through == 1
    assert await paths_of(near) == before


STEPS = {
    "the beginning": ("POST", "uploads"),
    "a part": ("PUT", "partNumber"),
    "the end": ("POST", "uploadId"),
}


@pytest.mark.parametrize("wait", [600.0, 0.01], ids=["soon", "later than anybody waits"])
@pytest.mark.parametrize("step", STEPS)
async def test_a_stream_that_is_cancelled_leaves_neither_object_nor_parts(
    proxy: HoldingProxy,
    store: S3Store,
    near: S3Store,
    monkeypatch: pytest.MonkeyPatch,
    step: str,
    wait: float,
) -> None:
    monkeypatch.setattr(abandoned_writes, "_WAIT", wait)
    held, what = STEPS[step]
    proxy.holds = lambda method, target: method == held and what in target
    task = asyncio.ensure_future(store.put_stream("s", pieces(*[MEGABYTE] * 20)))
    await proxy.held.wait()
    ended = await cancelled(task)
    opening = asyncio.ensure_future(proxy.open_later())
    await ended
    await store.delete(["s"])
    await store.aclose()
    await opening
    assert proxy.let_through, "what is left is deleted after it"
    assert await paths_of(near) == []
    methods = [method for method, target in proxy.seen if "uploadId" in target]
    assert methods[-1] == "DELETE"
    again = step != "the beginning" and wait < 1
    assert methods.count("DELETE") == 1 + again, "what comes late would stay"
    asked = f"prefix={near._root}&uploads="
    listed = await near._client.send(ObjectRequest("GET", query=asked.replace("/", "%2F")))
    assert b"<UploadId>" not in listed.body


async def test_only_who_deletes_the_same_object_waits(
    proxy: HoldingProxy, store: S3Store, near: S3Store
) -> None:
    await near.put("other", b"1")
    proxy.holds = lambda method, target: method == "PUT" and target.endswith("/slow")
    task = asyncio.ensure_future(store.put("slow", b"1"))
    await proxy.held.wait()
    task.cancel()
    await asyncio.wait({task})
    assert task.cancelled()
    await store.delete(["other"])
    assert not proxy.let_through
    proxy.gate.set()
    await store.delete(["slow"])
    assert await paths_of(near) == []
    await store.aclose()


async def test_closing_gives_up_a_request_that_never_ends(
    proxy: HoldingProxy, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(abandoned_writes, "_WAIT", 0.01)
    monkeypatch.setattr(abandoned_writes, "_LONGEST", 0.3)
    proxy.holds = is_data
    before = asyncio.all_tasks()
    task = asyncio.ensure_future(store.put("x.parquet", b"1"))
    await proxy.held.wait()
    task.cancel()
    await asyncio.wait({task})
    await store.delete(["x.parquet"])
    await store.aclose()
    left = {each for each in asyncio.all_tasks() - before if "FaultyProxy" not in repr(each)}
    assert not left
    assert not store._client.abandoned._requests


async def test_a_put_that_fails_after_its_caller_is_gone_is_not_reported(
    proxy: HoldingProxy, store: S3Store
) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    proxy.holds = is_data
    task = asyncio.ensure_future(store.put("x.parquet", b"1"))
    await proxy.held.wait()
    task.cancel()
    await asyncio.wait({task})
    for each in proxy._tasks:
        each.cancel()
    await store.delete(["x.parquet"])
    await store.aclose()
    del task
    gc.collect()
    assert not reported
