"""HDFS by WebHDFS, on a cluster that is held to Hadoop's documentation and sources."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)
from adelta.storage.hdfs import HdfsStore
from adelta.storage.hdfs_auth import token_path
from adelta.storage.pin import Pin, pinned
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.storage.http_store_suite import LOST, PASSES, SHAKY, HttpStoreSuite
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of, pieces
from tests.storage.request_counts import RequestCounts
from tests.support.depth import DEEP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from adelta.storage.object_store import ObjectStore
    from tests.storage.faulty_proxy import Act, Exchange
    from tests.support.hdfs_server import FakeHdfs, HdfsLocation


def store_at(location: HdfsLocation, **options: str) -> HdfsStore:
    return HdfsStore.from_options(
        "nameservice1", location.prefix, {**location.storage_options, **options}
    )


@pytest.fixture
async def store(hdfs_location: HdfsLocation) -> AsyncIterator[HdfsStore]:
    store = store_at(hdfs_location)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(fake_hdfs: FakeHdfs) -> AsyncIterator[FaultyProxy]:
    """A proxy before the active namenode."""
    async with FaultyProxy(f"http://{fake_hdfs.namenodes[0]}") as proxy:
        yield proxy


@pytest.fixture
async def shaky(hdfs_location: HdfsLocation, proxy: FaultyProxy) -> AsyncIterator[HdfsStore]:
    address = proxy.endpoint.removeprefix("http://")
    options = {"dfs.namenode.http-address": address, "hadoop_user_name": "tester", **SHAKY}
    store = HdfsStore.from_options("namenode", hdfs_location.prefix, options)
    yield store
    await store.aclose()


class TestHdfsStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, fake_hdfs: FakeHdfs) -> AsyncIterator[HdfsStore]:
        place = fake_hdfs.location()
        store = store_at(replace(place, prefix=place.prefix + "/odd %20é root"))
        yield store
        await store.aclose()
        assert fake_hdfs.hidden() == []

    async def test_it_counts_requests_by_kind_and_bytes(self, store: ObjectStore) -> None:
        await store.put("a", bytes(3000))
        await store.put_stream("b", pieces(bytes(500), bytes(500)))
        assert len(await store.get("a")) == 3000
        assert (await store.head("a")).size == 3000
        assert await paths_of(store) == ["a", "b"]
        await store.delete(["a"])
        counted = store.stats
        # A put is told to the namenode, sent to a datanode, looked at and renamed.
        assert counted.requests == {"delete": 1, "get": 2, "head": 3, "list": 1, "put": 6}
        assert counted.bytes_written == 4000
        assert counted.retries == 0

    if not DEEP:  # a shorter one is below
        test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]


def renames(*fates: Act) -> Callable[[str, str], Act | None]:
    """Fates that renames meet, in order."""
    left = list(fates)
    return lambda _, target: left.pop(0) if left and "op=RENAME" in target else None


class TestFailuresOfHdfs(HttpStoreSuite):
    makes_objects_by = "op=RENAME"

    @pytest.mark.parametrize("fate", PASSES, ids=str)
    async def test_what_may_pass_is_tried_again(
        self, shaky: HdfsStore, proxy: FaultyProxy, fate: Fate
    ) -> None:
        proxy.fates = [fate]
        await shaky.put("x", b"0123456789")
        proxy.fates = [fate, fate]
        assert await shaky.get("x") == b"0123456789"
        assert len(proxy.seen) == 4 + 3
        proxy.fates = [fate]
        assert await paths_of(shaky) == ["x"]
        proxy.fates = [fate]
        await shaky.delete(["x"])
        assert await paths_of(shaky) == []

    @pytest.mark.parametrize("fate", LOST, ids=str)
    async def test_a_put_whose_answer_was_lost_is_found_to_be_ours(
        self, shaky: HdfsStore, proxy: FaultyProxy, fate: Fate
    ) -> None:
        proxy.choose = renames(fate)
        made = await shaky.put_if_absent("log/0.json", b"ours")
        assert (made.size, made.repeated) == (4, True)
        assert made.etag == (await shaky.head("log/0.json")).etag
        assert await shaky.get("log/0.json") == b"ours"

    @pytest.mark.parametrize("fate", [*LOST, Fate.cut_before(), Fate.answer(500)], ids=str)
    async def test_a_put_in_doubt_that_another_won_is_found_to_be_lost(
        self,
        shaky: HdfsStore,
        store: HdfsStore,
        proxy: FaultyProxy,
        fake_hdfs: FakeHdfs,
        fate: Fate,
    ) -> None:
        await store.put_if_absent("log/0.json", b"ours")  # even with the same bytes
        proxy.choose = renames(fate)
        with pytest.raises(ObjectExistsError):
            await shaky.put_if_absent("log/0.json", b"ours")
        assert fake_hdfs.hidden() == []

    async def test_a_lost_race_without_doubt_costs_one_request(
        self, shaky: HdfsStore, store: HdfsStore, proxy: FaultyProxy, fake_hdfs: FakeHdfs
    ) -> None:
        """Beside those that bring the bytes, and the one that takes them away again."""
        await store.put_if_absent("log/0.json", b"theirs")
        fake_hdfs.seen.clear()
        with pytest.raises(ObjectExistsError):
            await shaky.put_if_absent("log/0.json", b"theirs")
        assert fake_hdfs.seen == ["CREATE", "GETFILESTATUS", "RENAME", "DELETE"]

    async def test_a_put_in_doubt_that_cannot_be_decided_says_so(
        self, shaky: HdfsStore, proxy: FaultyProxy
    ) -> None:
        begun = []

        def choose(_: str, target: str) -> Fate | None:
            begun.extend(["op=RENAME"] if "op=RENAME" in target else [])
            return Fate.answer(500, applied="op=RENAME" in target) if begun else None

        proxy.choose = choose
        with pytest.raises(CommitOutcomeUnknownError, match=r"log/0\.json may or may not"):
            await shaky.put_if_absent("log/0.json", b"ours")
        proxy.choose = lambda *_: None
        assert await shaky.get("log/0.json") == b"ours"

    @pytest.mark.parametrize("answer", ["of another time", "of a proxy"])
    async def test_a_put_whose_rename_is_told_of_wrongly_is_found_to_be_ours(
        self, shaky: HdfsStore, proxy: FaultyProxy, answer: str
    ) -> None:
        async def wrongly(exchange: Exchange) -> bool:
            await exchange.forward()
            if answer == "of a proxy":
                exchange.send_answer(200, b"<html>", "content-type: text/html")
            else:  # what is between has sent it twice
                exchange.send(await exchange.forward())
            return True

        proxy.choose = renames(wrongly)
        made = await shaky.put_if_absent("log/0.json", b"ours")
        assert made.repeated
        assert await shaky.get("log/0.json") == b"ours"

    async def test_a_put_whose_rename_never_came_is_certainly_none(
        self, shaky: HdfsStore, proxy: FaultyProxy, fake_hdfs: FakeHdfs
    ) -> None:
        """The hidden file is taken back, so that a rename that comes late moves nothing."""
        proxy.choose = renames(*[Fate.cut_before()] * 9)
        with pytest.raises(StorageError, match="after 4 attempts") as raised:
            await shaky.put_if_absent("log/0.json", b"ours")
        assert not isinstance(raised.value, CommitOutcomeUnknownError)
        assert fake_hdfs.hidden() == []
        assert await paths_of(shaky) == []


# ----------------------------------------------------------------------- namenodes, datanodes


class TestRequestCountsOfHdfs(RequestCounts):
    """All bytes are asked for at the namenode, and go from or to a datanode."""

    costs: ClassVar = {
        "a get": 2,
        "a range": 2,
        "three objects": 6,
        "near ranges": 2,
        # With a look at the file before, and one after: bytes come without a tag.
        "the end": 4,
        "far ranges": 6,
        "a long range": 10,
        # With a look at what was written, and a rename.
        **dict.fromkeys(("a put", "a commit", "a short stream"), 4),
        **dict.fromkeys(("a stream of 8 MiB", "a stream of 20 MiB"), 4),
        "three deletes": 3,
    }


async def test_the_namenode_that_stands_by_is_left_for_the_active_one(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    await store.put("x", b"1")
    fake_hdfs.active = 1
    fake_hdfs.trace = 100  # such an answer is longer than most stores' are
    fake_hdfs.seen.clear()
    assert await store.get("x") == b"1"
    assert fake_hdfs.seen == ["OPEN", "OPEN"]
    await store.put_if_absent("y", b"2")  # the active one is asked at once from then on
    assert fake_hdfs.seen[2:] == ["CREATE", "GETFILESTATUS", "RENAME"]


async def test_a_namenode_that_is_gone_is_left_for_the_other(
    hdfs_location: HdfsLocation, fake_hdfs: FakeHdfs, proxy: FaultyProxy
) -> None:
    address = proxy.endpoint.removeprefix("http://")
    name = "dfs.namenode.http-address.nameservice1.nn1"
    store = store_at(hdfs_location, **{name: address, **SHAKY})
    await store.put("x", b"1")
    fake_hdfs.active = 1
    both, before = asyncio.Barrier(2), len(proxy.seen)

    async def cut(_: Exchange) -> bool:
        async with asyncio.timeout(10), both:
            return False

    proxy.choose = lambda *_: cut  # requests that fail at one moment leave it once
    assert await asyncio.gather(store.get("x"), store.get("x")) == [b"1", b"1"]
    assert len(proxy.seen) == before + 2
    assert (await store.put_if_absent("y", b"2")).size == 1
    await store.aclose()


async def test_a_datanode_that_is_gone_is_left_for_another(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    fake_hdfs.datanodes = ["127.0.0.1:1", fake_hdfs.datanodes[1]]
    await store.put("x", b"some bytes")
    assert fake_hdfs.hidden() == []
    fake_hdfs.seen.clear()
    assert await store.get("x") == b"some bytes"
    assert fake_hdfs.seen == ["OPEN"]  # it is known to be gone


async def test_a_datanode_that_breaks_off_is_left_for_another(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    data = bytes(range(256)) * 4000
    fake_hdfs.goes_on = False  # which the proxy does not pass on
    async with FaultyProxy(f"http://{fake_hdfs.datanodes[0]}") as broken:
        fake_hdfs.datanodes = [broken.endpoint.removeprefix("http://"), fake_hdfs.datanodes[1]]
        broken.fates = [Fate.cut_after()]
        await store.put("x", data)
        assert fake_hdfs.hidden() == []
        store._client._avoided.clear()
        broken.fates = [Fate.cut_inside()]
        assert await store.get("x") == data


async def test_what_a_datanode_writes_after_it_was_given_up_is_deleted(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    named, written = asyncio.Event(), asyncio.Event()

    async def late(exchange: Exchange) -> bool:
        async def write() -> None:
            await named.wait()
            await exchange.forward()
            written.set()

        exchange.later(write, 0)
        return False

    fake_hdfs.goes_on = False  # which the proxy does not pass on
    async with FaultyProxy(f"http://{fake_hdfs.datanodes[0]}") as slow:
        fake_hdfs.datanodes = [slow.endpoint.removeprefix("http://"), fake_hdfs.datanodes[1]]
        slow.fates = [late]
        await store.put("x", b"some bytes")
        named.set()
        await written.wait()
        await store.aclose()
    assert fake_hdfs.hidden() == []


async def test_a_stream_that_breaks_off_leaves_the_object_as_it_was(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    await store.put("x", b"old")
    fake_hdfs.goes_on = False  # which the proxy does not pass on
    async with FaultyProxy(f"http://{fake_hdfs.datanodes[0]}") as broken:
        fake_hdfs.datanodes = [broken.endpoint.removeprefix("http://")]
        broken.fates = [Fate.cut_after()]
        with pytest.raises(StorageError, match="PUT"):
            await store.put_stream("x", pieces(*[bytes(1 << 20)] * 20))
        assert len(broken.seen) == 1  # nobody has the bytes any more
    fake_hdfs.reset()
    assert await store.get("x") == b"old"
    assert fake_hdfs.hidden() == []


async def test_bytes_that_the_cluster_does_not_have_whole_get_no_name(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    async def cut(exchange: Exchange) -> bool:
        head = exchange.head.replace(b"content-length: 10", b"content-length: 4")
        head = head.replace(b"Content-Length: 10", b"Content-Length: 4")
        exchange.send(await exchange.proxy.forward(head, exchange.body[:4], "PUT"))
        return True

    fake_hdfs.goes_on = False  # which the proxy does not pass on
    async with FaultyProxy(f"http://{fake_hdfs.datanodes[0]}") as broken:
        fake_hdfs.datanodes = [broken.endpoint.removeprefix("http://")]
        broken.fates = [cut]
        with pytest.raises(StorageError, match="4 bytes of the 10 that were sent"):
            await store.put_if_absent("x", b"0123456789")
    assert fake_hdfs.hidden() == await paths_of(store) == []


# ---------------------------------------------------------------------------------- listings


async def test_a_directory_is_listed_in_batches_and_sorted(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    fake_hdfs.batch = 10
    paths = [f"n/{number:03}" for number in range(35)] + ["n/é", "n/0é", "n/d/x", "n/d-", "n/d0"]
    for path in paths:
        await store.put(path, b"")
    paths.sort(key=str.encode)
    fake_hdfs.seen.clear()
    assert await paths_of(store, "n/") == paths
    assert fake_hdfs.seen == ["LISTSTATUS_BATCH"] * 5  # four of n, and one of n/d
    assert await paths_of(store, "n/", start_after="n/0é") == paths[paths.index("n/0é") + 1 :]


async def test_a_cluster_without_batches_lists_a_directory_at_once(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    fake_hdfs.in_batches, fake_hdfs.batch = False, 1
    for path in ("a", "b/c"):
        await store.put(path, b"")
    fake_hdfs.seen.clear()
    assert await paths_of(store) == ["a", "b/c"]
    assert fake_hdfs.seen == ["LISTSTATUS_BATCH", "LISTSTATUS", "LISTSTATUS"]


async def test_many_directories_are_listed_beside_each_other(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    paths = sorted(f"p={number % 40:02}/q/{number:03}" for number in range(80))
    for path in paths:
        await store.put(path, b"")
    fake_hdfs.seen.clear()
    assert await paths_of(store) == paths
    assert len(fake_hdfs.seen) == 1 + 2 * 40
    assert await paths_of(store, start_after=paths[60]) == paths[61:]


# --------------------------------------------------------------------------------------- versions


async def test_ranges_cost_a_look_before_and_after_where_they_are_several(
    store: HdfsStore, fake_hdfs: FakeHdfs
) -> None:
    await store.put("x", bytes(20 << 20))
    fake_hdfs.seen.clear()
    await store.get_ranges("x", [(0, 10)])
    assert fake_hdfs.seen == ["OPEN"]
    fake_hdfs.seen.clear()
    with pinned(Pin()):
        await store.get_suffix("x", 10)
        assert fake_hdfs.seen == ["GETFILESTATUS", "OPEN", "GETFILESTATUS"]
        fake_hdfs.seen.clear()
        await store.get_ranges("x", [(0, 10), (10 << 20, 11 << 20)])
    assert sorted(fake_hdfs.seen) == ["GETFILESTATUS", "OPEN", "OPEN"]


# --------------------------------------------------------------------------------------- who asks


async def test_a_token_goes_to_the_namenode_and_by_its_words_to_a_datanode(
    hdfs_location: HdfsLocation, fake_hdfs: FakeHdfs
) -> None:
    fake_hdfs.tokens = {"the-token"}
    store = store_at(hdfs_location, hdfs_delegation_token="the-token")
    await store.put("x", b"1")
    assert await store.get("x") == b"1"
    fake_hdfs.tokens = {"another"}
    with pytest.raises(PermissionDeniedError, match="hdfs_delegation_token") as refused:
        await store.get("x")
    assert "the-token" not in str(refused.value) + repr(store) + repr(vars(store))
    await store.aclose()


async def test_the_user_of_the_options_asks(
    hdfs_location: HdfsLocation, fake_hdfs: FakeHdfs
) -> None:
    fake_hdfs.users.clear()
    store = store_at(hdfs_location, hadoop_user_name="ada")
    await store.put("x", b"1")
    assert fake_hdfs.users == {"ada"}
    await store.aclose()


@pytest.mark.parametrize(
    ("address", "options", "message"),
    [
        ("hdfs://user@host/t", {}, "no namenode: give an address such as hdfs://host/path"),
        ("hdfs:///t", {}, "names no namenode"),
        ("hdfs://host/t", {"hadoop_user_name": "a b"}, "no name of a user"),
        ("hdfs://host/t", {"hdfs_delegation_token": "a&b"}, "urlString"),
        (
            "hdfs://host/t",
            {"hdfs_delegation_token": "x", "hadoop_proxy_user": "ada"},
            "leave hadoop_proxy_user out",
        ),
        ("hdfs://host/t", {"hdfs_delegaton_token": "x"}, "did you mean hdfs_delegation_token"),
        ("webhdfs://host/t", {"certificate_path": "x"}, "not supported: give that file as ca"),
    ],
)
def test_what_cannot_be_done_is_said(address: str, options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        adelta.open_table(address, options)


def test_by_kerberos_a_token_is_asked_for_in_the_name_of_whom_is_proxied() -> None:
    assert token_path(None) == "/webhdfs/v1/?op=GETDELEGATIONTOKEN"
    assert token_path("ada") == "/webhdfs/v1/?doas=ada&op=GETDELEGATIONTOKEN"


# ----------------------------------------------------------------------------------------- gateways


async def test_a_gateway_is_read_and_committed_to_but_replaces_nothing(
    fake_hdfs: FakeHdfs, hdfs_location: HdfsLocation
) -> None:
    fake_hdfs.gateway = True
    store = HdfsStore.from_options(
        fake_hdfs.namenodes[0], hdfs_location.prefix, {}, scheme="webhdfs"
    )
    made = await store.put_if_absent("log/0", b"first")
    assert made == await store.head("log/0")
    with pytest.raises(ObjectExistsError):
        await store.put_if_absent("log/0", b"second")
    assert await store.get("log/0") == b"first"
    assert await store.get_range("log/0", 1, 3) == b"ir"
    assert await paths_of(store) == ["log/0"]
    with pytest.raises(StorageError, match="cannot replace a file"):
        await store.put("log/0", b"other")
    assert await store.get("log/0") == b"first"
    fake_hdfs.directories.add(f"/{hdfs_location.prefix}/folder")
    with pytest.raises(StorageError, match="was not carried out"):
        await store.put_if_absent("folder", b"1")
    await store.aclose()


# ------------------------------------------------------------------------------------------- tables


async def test_a_directory_that_is_not_there_is_no_empty_lake(hdfs_location: HdfsLocation) -> None:
    options = hdfs_location.storage_options
    async with adelta.Lake(f"{hdfs_location.uri}/misspelt", options) as lake:
        with pytest.raises(ObjectNotFoundError, match="misspelt: there is no such folder"):
            await lake.refresh()
        rows = pa.table({"n": [1]})
        await adelta.write_table(f"{hdfs_location.uri}/misspelt/t", rows, storage_options=options)
        assert [each.name for each in await lake.refresh()] == ["t"]


async def test_a_table_is_written_and_read_by_hadoops_options(hdfs_location: HdfsLocation) -> None:
    rows = pa.table({"id": [1, 2, 3], "day": ["a", "b c", "é%"]})
    for _ in range(2):
        await adelta.write_table(
            hdfs_location.uri,
            rows,
            partition_by=["day"],
            storage_options=hdfs_location.storage_options,
            mode="append",
        )
    table = adelta.open_table(hdfs_location.uri, storage_options=hdfs_location.storage_options)
    snapshot = await table.snapshot()
    assert snapshot.version == 1
    assert (await snapshot.scan().to_arrow()).num_rows == 6
    await table.aclose()
    for _ in range(2):  # the second one replaces the hint
        made = await adelta.checkpoint(
            hdfs_location.uri, storage_options=hdfs_location.storage_options
        )
        assert made.version == 1
