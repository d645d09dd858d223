"""HDFS where answers lie, hosts are others' and callers go away."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import TYPE_CHECKING

import pytest

from adelta.errors import PermissionDeniedError, StorageError
from adelta.storage.hdfs import HdfsStore
from tests.storage.faulty_proxy import FaultyProxy
from tests.storage.http_store_suite import SHAKY
from tests.storage.object_store_suite import paths_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.storage.faulty_proxy import Act, Exchange
    from tests.support.hdfs_server import FakeHdfs, HdfsLocation

TOKEN = "a-secret-token"


@pytest.fixture
async def proxy(fake_hdfs: FakeHdfs) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(f"http://{fake_hdfs.namenodes[0]}") as proxy:
        yield proxy


@pytest.fixture
async def store(
    fake_hdfs: FakeHdfs, hdfs_location: HdfsLocation, proxy: FaultyProxy
) -> AsyncIterator[HdfsStore]:
    fake_hdfs.tokens = {TOKEN}
    options = {
        "dfs.namenode.http-address": proxy.endpoint.removeprefix("http://"),
        "hdfs_delegation_token": TOKEN,
        "hdfs_datanode_hosts": "127.0.0.1, *.data.example.org",
        **SHAKY,
    }
    store = HdfsStore.from_options("namenode", hdfs_location.prefix, options)
    yield store
    await store.aclose()


def answers(operation: str, *bodies: object) -> object:
    """What the proxy answers to an operation by itself: the bodies in turn, the last for ever."""
    left = [json.dumps(body).encode() for body in bodies]

    async def answer(exchange: Exchange) -> bool:
        body = left.pop(0) if len(left) > 1 else left[0]
        exchange.send_answer(200, body, "content-type: application/json")
        return True

    return lambda _, target: answer if f"op={operation}" in target else None


def listing(*names: str, left: int = 0) -> object:
    statuses = [
        {"pathSuffix": name, "type": "FILE", "length": 1, "modificationTime": 1, "fileId": 9}
        for name in names
    ]
    said = {"FileStatuses": {"FileStatus": statuses}}
    return {"DirectoryListing": {"partialListing": said, "remainingEntries": left}}


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("http://127.0.0.1", "http://evil.example.org", "hdfs_datanode_hosts does not name"),
        ("http://127.0.0.1", "http://data.example.org", "hdfs_datanode_hosts does not name"),
        ("http://127.0.0.1", "ftp://127.0.0.1", "no HTTP"),
        ("http://127.0.0.1", "file:///etc", "no address of a datanode"),
        ("http://127.0.0.1", "http://user:word@127.0.0.1", "no address of a datanode"),
        ("http://127.0.0.1", "//127.0.0.1", "no address of a datanode"),
        ("/webhdfs/v1/", "/jmx/", "is not for OPEN"),
        ("op=OPEN", "op=GETFILECHECKSUM", "is not for OPEN"),
    ],
)
async def test_a_redirect_is_followed_to_where_it_may_lead_alone(
    store: HdfsStore, fake_hdfs: FakeHdfs, before: str, after: str, message: str
) -> None:
    await store.put("x", b"1")
    fake_hdfs.headers_at_datanodes.clear()
    fake_hdfs.redirect = lambda location: location.replace(before, after, 1)
    with pytest.raises(StorageError, match=message) as refused:
        await store.get("x")
    assert fake_hdfs.headers_at_datanodes == []
    assert TOKEN not in str(refused.value)


async def test_a_datanode_gets_no_token_that_the_redirect_does_not_bear(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    await store.put("x", b"1")
    fake_hdfs.redirect = lambda location: location.replace(f"&delegation={TOKEN}", "")
    with pytest.raises(PermissionDeniedError, match="token is expired"):
        await store.get("x")
    assert all(TOKEN not in str(headers) for headers in fake_hdfs.headers_at_datanodes)


@pytest.mark.parametrize("name", ["..", ".", "a/b", "../../etc/passwd", "\0"])
async def test_a_name_that_leads_elsewhere_is_refused(
    store: HdfsStore, proxy: FaultyProxy, name: str
) -> None:
    proxy.choose = answers("LISTSTATUS_BATCH", listing("a", name))  # type: ignore[assignment]
    with pytest.raises(StorageError, match="which no file can have"):
        await paths_of(store)


@pytest.mark.parametrize(
    "pages",
    [[listing("a", "b", left=1)], [listing(left=5)], [listing("a", left=2), listing("a", left=1)]],
)
async def test_a_listing_without_an_end_is_an_error(
    store: HdfsStore, proxy: FaultyProxy, pages: list[object]
) -> None:
    proxy.choose = answers("LISTSTATUS_BATCH", *pages)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="does not go on"):
        await paths_of(store)
    assert len(proxy.seen) <= 2


@pytest.mark.parametrize(
    "said",
    [
        {},
        [],
        {"FileStatus": {"type": "FILE", "length": -1, "modificationTime": 1}},
        {"FileStatus": {"type": "FILE", "length": True, "modificationTime": 1}},
        {"FileStatus": {"type": "FILE", "length": "1", "modificationTime": 1}},
        {"FileStatus": {"type": "FILE", "length": 1 << 63, "modificationTime": 1}},
    ],
)
async def test_a_status_that_is_none_is_an_error(
    store: HdfsStore, proxy: FaultyProxy, said: object
) -> None:
    proxy.choose = answers("GETFILESTATUS", said)  # type: ignore[assignment]
    with pytest.raises(StorageError, match="GETFILESTATUS"):
        await store.head("x")


async def test_a_page_of_a_proxy_is_no_file(store: HdfsStore, proxy: FaultyProxy) -> None:
    async def page(exchange: Exchange) -> bool:
        exchange.send_answer(200, b"<html>welcome</html>", "content-type: text/html")
        return True

    proxy.choose = lambda *_: page
    for ask in (store.get("x"), store.head("x"), store.put("x", b"1")):
        with pytest.raises(StorageError, match=r"not the cluster's|no datanode|no JSON"):
            await ask


async def test_more_bytes_than_were_asked_for_are_refused(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    await store.put("x", bytes(1000))
    fake_hdfs.redirect = lambda location: location.replace("length=10", "length=900")
    with pytest.raises(StorageError, match="900 bytes, of 10 that it may have"):
        await store.get_range("x", 0, 10)


@pytest.mark.parametrize("operation", ["CREATE", "RENAME"])
async def test_a_put_that_was_cancelled_is_over_before_its_object_is_deleted(
    store: HdfsStore, fake_hdfs: FakeHdfs, proxy: FaultyProxy, operation: str
) -> None:
    held = asyncio.Event()

    async def late(exchange: Exchange) -> bool:
        held.set()
        await asyncio.sleep(0.3)
        exchange.send(await exchange.forward())
        return True

    left: list[Act] = [late]
    proxy.choose = lambda _, target: left.pop() if left and f"op={operation}" in target else None
    task = asyncio.ensure_future(store.put("x", b"1"))
    await held.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await store.delete(["x"])
    assert fake_hdfs.seen[-1] == "DELETE"
    await store.aclose()
    assert not [path for path in fake_hdfs.files if path.startswith(f"/{store._root}")]


async def test_tokens_are_in_no_log_and_no_error(
    store: HdfsStore, fake_hdfs: FakeHdfs, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        await store.put("x", b"1")
        await store.get("x")
        fake_hdfs.tokens = {"another"}
        with pytest.raises(PermissionDeniedError) as refused:
            await store.get("x")
    ours = [each.getMessage() for each in caplog.records if each.name != "aiohttp.access"]
    assert len(ours) > 5
    assert TOKEN not in "".join(ours) + str(refused.value) + repr(refused.value.__context__)
