"""Google Cloud Storage, on a server that is held to its documentation and on another's."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pytest
from anyio import run_process

import adelta
from adelta.errors import (
    InvalidOptionError,
    ObjectExistsError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage import gcs_checksums
from adelta.storage.gcs import GcsStore
from adelta.storage.gcs_client import GcsClient
from adelta.storage.gcs_options import parse_gcs_options
from adelta.storage.gcs_upload import PIECE, _Session
from adelta.storage.memory import MemoryStore
from adelta.storage.parallel_list import list_in_parallel
from adelta.storage.token_client import TokenTarget
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.storage.http_store_suite import SHAKY, HttpStoreSuite
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of, pieces
from tests.storage.request_counts import RequestCounts
from tests.support.depth import DEEP
from tests.support.gcs_server import GcsLocation

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from adelta.storage.object_store import ObjectStore
    from tests.support.gcs_server import FakeGcs


def store_at(location: GcsLocation, **options: str) -> GcsStore:
    return GcsStore.from_options(
        location.bucket, location.prefix, {**location.storage_options, **options}
    )


@pytest.fixture
async def store(gcs_location: GcsLocation) -> AsyncIterator[GcsStore]:
    store = store_at(gcs_location)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(fake_gcs: FakeGcs) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(fake_gcs.endpoint) as proxy:
        yield proxy


@pytest.fixture
async def shaky(gcs_location: GcsLocation, proxy: FaultyProxy) -> AsyncIterator[GcsStore]:
    store = store_at(gcs_location, google_base_url=proxy.endpoint, **SHAKY)
    yield store
    await store.aclose()


class TestGcsStore(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, fake_gcs: FakeGcs) -> AsyncIterator[GcsStore]:
        place = fake_gcs.location()
        store = store_at(replace(place, prefix=place.prefix + "/odd %20é root"))
        yield store
        await store.aclose()

    if not DEEP:  # shorter ones are below
        test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]
        test_a_large_object_goes_in_and_comes_out = None  # type: ignore[assignment]


class TestFailuresOfGcs(HttpStoreSuite):
    pass


class TestAnothersGcs(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, fake_gcs_server: str) -> AsyncIterator[GcsStore]:
        store = store_at(GcsLocation(fake_gcs_server))
        yield store
        await store.aclose()

    async def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        """It says ``bytes 0--1/0`` of the end of one, which is no range."""
        await store.put("empty", b"")
        assert await store.get("empty") == b""
        assert await store.get_range("empty", 0, 10) == b""
        assert (await store.head("empty")).size == 0

    if not DEEP:  # it takes its time
        test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]
        test_a_large_object_goes_in_and_comes_out = None  # type: ignore[assignment]


# -------------------------------------------------------------------------------------- requests


class TestRequestCountsOfGcs(RequestCounts):
    costs: ClassVar = {"a stream of 20 MiB": 4}  # its begin, and three pieces


async def test_a_listing_comes_in_pages_and_in_many_at_once(
    store: GcsStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adelta.storage.gcs._PAGE", 10)
    paths = [f"n/{number:03}" for number in range(95)]
    for path in paths:
        await store.put(path, b"")
    before = store.request_count
    assert await paths_of(store, "n/", start_after="n/014") == paths[15:]
    assert store.request_count - before == 9  # the start is one of 81
    assert [meta.path async for page in list_in_parallel(store, "n/") for meta in page] == paths


async def test_a_server_without_many_deletes_gets_single_ones(
    shaky: GcsStore, proxy: FaultyProxy
) -> None:
    for path in "abc":
        await shaky.put(path, b"")
    proxy.seen.clear()
    proxy.fates = [Fate.answer(405)]
    await shaky.delete("abc")
    assert await paths_of(shaky) == []
    assert [method for method, _ in proxy.seen] == ["POST", *["DELETE"] * 3, "GET"]


async def test_an_object_is_copied_by_the_store(store: GcsStore, gcs_location: GcsLocation) -> None:
    other = store_at(replace(gcs_location, prefix=gcs_location.prefix + "/other"))
    for path, data, requests in (("a b/é", b"some bytes", 1), ("large", bytes(1 << 20), 2)):
        await store.put(path, data)
        before = other.request_count
        made = await other.copy_from("copy=1/x", store, path)
        assert made is not None
        assert other.request_count - before == requests
        assert await other.get("copy=1/x") == data
        assert (await other.head("copy=1/x")).etag == made.etag
    assert await other.copy_from("y", MemoryStore(), "x") is None
    await other.aclose()


# --------------------------------------------------------------------------------------- uploads


async def test_what_the_store_did_not_keep_of_a_piece_is_sent_again(
    store: GcsStore, fake_gcs: FakeGcs
) -> None:
    data = bytes(range(256)) * (20 << 12)
    for kept in (256 << 10, 3 << 20):
        fake_gcs.takes = kept
        before = store.request_count
        await store.put_stream("x", pieces(data))
        assert store.request_count - before == 1 + 4
        assert await store.get("x") == data


async def test_a_piece_of_which_nothing_was_kept_is_sent_again_for_a_while(
    gcs_location: GcsLocation, fake_gcs: FakeGcs
) -> None:
    store = store_at(gcs_location, max_retries="3", init_backoff="1ms")
    data, kept = bytes(range(256)) * (20 << 12), list[bool]()

    def keep(method: str, key: str, query: str) -> None:
        if method == "PUT":
            fake_gcs.takes = None if kept.pop(0) else 0

    store.observe_requests(keep)
    kept[:] = [False, False, True, True, False, True]  # of the first piece, and of the last
    await store.put_stream("x", pieces(data))
    assert await store.get("x") == data
    kept[:] = [True, *[False] * 4]
    with pytest.raises(StorageError, match="does not go on: the store has 8,388,608 bytes"):
        await store.put_stream("y", pieces(data))
    assert kept == []
    await store.aclose()


async def test_a_store_that_has_all_and_goes_on_is_asked_for_the_status(
    gcs_location: GcsLocation, fake_gcs: FakeGcs
) -> None:
    """It may have all bytes of an upload, and not have made the object yet."""
    store = store_at(gcs_location, max_retries="2", init_backoff="1ms")
    data = bytes(range(256)) * (20 << 12)
    fake_gcs.lags = 2
    before, written = store.request_count, store.stats.bytes_written
    await store.put_stream("x", pieces(data))
    assert store.request_count - before == 1 + 3 + 2
    assert store.stats.bytes_written - written < len(data) + 1000  # none of them once more
    assert await store.get("x") == data
    fake_gcs.lags = 99
    with pytest.raises(StorageError, match="does not go on: the store has 20,971,520 bytes"):
        await store.put_stream("y", pieces(data))
    fake_gcs.lags = 0
    assert await paths_of(store) == ["x"]
    await store.aclose()


def test_pieces_go_to_the_session_below_the_path_of_a_server() -> None:
    options = parse_gcs_options(
        {"google_base_url": "https://host/gcs", "google_skip_signature": "1"}, {}
    )
    client = GcsClient("lake", options)
    request = _Session(client, "x", "https://host/gcs/upload/o?upload_id=u")._request("*/1", b"")
    target = TokenTarget(origin="", proxy=None, token=None)
    signed = client.signed(target, request, "")
    assert (signed.path, signed.query) == ("/gcs/upload/o", "upload_id=u")


@pytest.mark.parametrize(
    ("status", "reason", "error", "advice"),
    [
        (412, "conditionNotMet", ObjectExistsError, ""),
        (403, "retentionPolicyNotMet", StorageError, "wait until that is over"),
        (403, "rateLimitExceeded", ThrottledError, ""),
        (403, "forbidden", PermissionDeniedError, "use the project"),
        (401, "authError", PermissionDeniedError, "this machine's clock"),
    ],
)
def test_what_google_refuses_is_told_by_its_reason(
    status: int, reason: str, error: type[StorageError], advice: str
) -> None:
    client = GcsClient("lake", parse_gcs_options({"google_skip_signature": "1"}, {}))
    message = "it lacks serviceusage.services.use" if reason == "forbidden" else "no"
    said = {"error": {"message": message, "errors": [{"reason": reason}]}}
    raised = client.failure_of(status, {}, json.dumps(said).encode()).error("x", credentials="")
    assert type(raised) is error
    assert advice in str(raised)


async def test_an_upload_that_fails_is_cancelled(store: GcsStore, fake_gcs: FakeGcs) -> None:
    async def broken() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(PIECE)
        raise ZeroDivisionError("the source broke")

    fake_gcs.sessions.clear()
    with pytest.raises(ZeroDivisionError):
        await store.put_stream("x", broken())
    assert fake_gcs.sessions == {}
    assert await paths_of(store) == []


async def test_an_upload_of_other_bytes_is_found_out(
    gcs_location: GcsLocation, proxy: FaultyProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(gcs_location, google_base_url=proxy.endpoint)

    async def damaged(exchange) -> bool:
        exchange.send(await exchange.forward(b"x" + exchange.body[1:]))
        return True

    proxy.choose = lambda method, _: damaged if method == "PUT" else None
    with pytest.raises(StorageError, match="other bytes than were sent"):
        await store.put_stream("x", pieces(bytes(2 * PIECE)))
    await store.aclose()


# ------------------------------------------------------------------------------------- checksums


@pytest.fixture(params=["crc32c", "md5"])
def algorithm(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """What bodies are held to: without adelta[checksums] that is their MD5."""
    if request.param == "md5":
        monkeypatch.setattr(gcs_checksums, "native_checksums", lambda: None)
        monkeypatch.setattr(gcs_checksums, "native_is_loaded", lambda: False)
    elif gcs_checksums.crc32c() is None:
        pytest.skip("awscrt is not installed")
    return str(request.param)


async def test_damage_on_the_way_is_mended_either_way(
    shaky: GcsStore, proxy: FaultyProxy, algorithm: str
) -> None:
    async def damaged_put(exchange) -> bool:
        exchange.send(await exchange.forward(exchange.body.replace(b"some bytes", b"some bytez")))
        return True

    async def damaged_get(exchange) -> bool:
        exchange.send((await exchange.forward()).replace(b"some bytes", b"some bytez"))
        return True

    proxy.fates = [damaged_put]
    await shaky.put("x", b"some bytes")
    proxy.fates = [damaged_get]
    assert await shaky.get("x") == b"some bytes"
    assert len(proxy.seen) == 4
    proxy.fates = [damaged_get] * 9
    with pytest.raises(StorageError, match="damaged"):
        await shaky.get("x")


async def test_what_computes_checksums_is_loaded_by_a_thread_for_a_large_object_alone(
    gcs_location: GcsLocation,
) -> None:
    """To load it takes longer than to open a table, and would hold up the event loop."""
    pytest.importorskip("awscrt.checksums")
    program = f"""
import asyncio, sys, threading
from importlib.abc import MetaPathFinder
from adelta.storage.gcs import GcsStore

class Watch(MetaPathFinder):
    by = None
    def find_spec(self, name, path=None, target=None):
        if name == "awscrt":
            self.by = threading.current_thread()

watch = Watch()
sys.meta_path.insert(0, watch)

async def pieces():
    for _ in range(3):
        yield bytes(8 << 20)

async def main():
    options = {gcs_location.storage_options!r}
    store = GcsStore.from_options({gcs_location.bucket!r}, {gcs_location.prefix!r}, options)
    await store.put_if_absent(sys.argv[1], b"1")
    assert await store.get(sys.argv[1]) == b"1"
    assert watch.by is None
    if sys.argv[1] == "stream":
        await store.put_stream("large", pieces())
    else:
        await store.put("large", bytes(200 << 10))
    assert watch.by not in (None, threading.main_thread())
    assert await store.get(sys.argv[1]) == b"1"
    await store.put("other", b"2")
    await store.aclose()

asyncio.run(main())
"""
    for large in ("stream", "put"):
        await run_process([sys.executable, "-c", program, large])


# ---------------------------------------------------------------------------------- who pays, who


@pytest.fixture
def guarded(fake_gcs: FakeGcs) -> Iterator[FakeGcs]:
    yield fake_gcs
    fake_gcs.tokens = fake_gcs.payer = None


async def test_the_project_that_pays_is_named(guarded: FakeGcs) -> None:
    place = guarded.location()
    guarded.payer = "a-project"
    store = store_at(place)
    for ask in (store.get("x"), store.put("x", b""), paths_of(store)):
        with pytest.raises(StorageError, match="set google_user_project"):
            await ask
    paid = store_at(place, google_user_project="a-project")
    await paid.put("x", b"1")
    assert await paid.get("x") == b"1"
    assert await paths_of(paid) == ["x"]
    await paid.put_stream("big", pieces(bytes(2 * PIECE)))
    await paid.delete(["x", "big"])
    for each in (store, paid):
        await each.aclose()


async def test_a_token_that_is_given_is_sent(guarded: FakeGcs) -> None:
    guarded.tokens = {"the-token"}
    options = {"google_skip_signature": "false", "google_bearer_token": "the-token"}
    place = guarded.location()
    store = store_at(place, **options)
    await store.put("x", b"1")
    assert await store.get("x") == b"1"
    guarded.tokens = {"another"}
    with pytest.raises(PermissionDeniedError, match="google_bearer_token") as refused:
        await store.get("x")
    assert "the-token" not in str(refused.value) + repr(store) + repr(vars(store))
    await store.aclose()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"google_base_url": "http://host"}, "not encrypted: set allow_http=true"),
        ({"google_base_url": "host"}, "google_base_url is a URL"),
        ({"service_account": "a", "google_bearer_token": "b"}, "more than one of"),
        ({"fs.gs.auth.access.token": "x"}, "give google_bearer_token"),
        ({"google_servce_account": "x"}, "did you mean google_service_account"),
        ({"certificate_path": "x"}, "not supported: give that file as ca_bundle"),
    ],
)
def test_what_cannot_be_done_is_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidOptionError, match=message):
        adelta.open_table("gs://bucket/t", options)
    with pytest.raises(InvalidOptionError, match="no name of a bucket"):
        adelta.open_table("gs://Bucket/t")


async def test_a_table_is_written_and_read_by_deltalakes_options(
    gcs_location: GcsLocation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOOGLE_BASE_URL", gcs_location.endpoint)
    options = {"allow_http": "true", "google_skip_signature": "true"}
    rows = pa.table({"id": [1, 2, 3]})
    for _ in range(2):
        await adelta.write_table(gcs_location.uri, rows, storage_options=options, mode="append")
    table = adelta.open_table(gcs_location.uri, storage_options=options)
    snapshot = await table.snapshot()
    assert snapshot.version == 1
    assert (await snapshot.scan().to_arrow()).num_rows == 6
    await table.aclose()
