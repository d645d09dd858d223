"""Directory buckets of S3 Express, on a server that is held to their documentation."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from adelta import _clock
from adelta.errors import InvalidOptionError, PermissionDeniedError, StorageError
from adelta.storage import s3_express, s3_multipart
from adelta.storage.credentials import Access
from adelta.storage.parallel_list import list_in_parallel
from adelta.storage.s3 import S3Store
from adelta.storage.s3_client import S3Client
from adelta.storage.s3_express import Session, Sessions
from adelta.storage.s3_options import parse_options
from adelta.storage.sigv4 import Credentials
from tests.storage.faulty_proxy import FaultyProxy
from tests.storage.http_store_suite import SHAKY, HttpStoreSuite
from tests.storage.object_store_suite import ObjectStoreSuite, folder_of, paths_of, pieces
from tests.storage.request_counts import RequestCounts
from tests.support.depth import DEEP

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.express_server import ExpressLocation, FakeExpress


def store_at(location: ExpressLocation, **options: str) -> S3Store:
    given = {**location.storage_options, **options}
    return S3Store.from_options(location.bucket, location.prefix, given)


@pytest.fixture
async def store(express_location: ExpressLocation) -> AsyncIterator[S3Store]:
    store = store_at(express_location)
    yield store
    await store.aclose()


@pytest.fixture
async def proxy(express_location: ExpressLocation) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(express_location.endpoint) as proxy:
        yield proxy


@pytest.fixture
async def shaky(express_location: ExpressLocation, proxy: FaultyProxy) -> AsyncIterator[S3Store]:
    store = store_at(express_location, proxy_url=proxy.endpoint, **SHAKY)
    await store.delete(["begin/a/session"])
    proxy.seen.clear()
    yield store
    await store.aclose()


class TestDirectoryBucket(ObjectStoreSuite):
    @pytest.fixture
    async def store(
        self, express_location: ExpressLocation, fake_express: FakeExpress
    ) -> AsyncIterator[S3Store]:
        fake_express.page = 7  # so that most listings have several pages, in no order
        place = replace(express_location, prefix=express_location.prefix + "/odd %20é root")
        store = store_at(place)
        await paths_of(store)  # which begins the session
        yield store
        await store.aclose()

    if not DEEP:  # shorter ones are below, and large objects go the way of S3's
        test_a_long_list_comes_in_pages_each_path_once = None  # type: ignore[assignment]
        test_a_large_object_goes_in_and_comes_out = None  # type: ignore[assignment]


class TestFailuresOfDirectoryBucket(HttpStoreSuite):
    pass


# -------------------------------------------------------------------------------------- requests


class TestRequestCountsOfS3Express(RequestCounts):
    """As the suite has them."""


async def test_an_object_without_a_checksum_is_fetched_once_though_its_tag_is_no_digest(
    store: S3Store, express_location: ExpressLocation
) -> None:
    unchecked = store_at(express_location, aws_response_checksum_validation="when_required")
    await unchecked.put("x", b"bytes")
    for each in (unchecked, store):
        await each.get("x")
        before = each.request_count
        assert await each.get("x") == b"bytes"
        assert each.request_count == before + 1
    await unchecked.aclose()


# -------------------------------------------------------------------------------------- sessions


async def test_many_requests_at_once_begin_one_session(
    store: S3Store, fake_express: FakeExpress
) -> None:
    await asyncio.gather(*(store.put(f"{number}", b"") for number in range(40)))
    assert fake_express.asked == {"begin_session": 1, "put": 40}
    assert len(await paths_of(store)) == 40
    assert fake_express.asked["begin_session"] == 1


async def test_a_session_is_renewed_by_one_request_before_its_end(
    store: S3Store, fake_express: FakeExpress, monkeypatch: pytest.MonkeyPatch
) -> None:
    await store.put("x", b"1")
    now = _clock.monotonic()

    async def begun_after(seconds: float) -> int:
        monkeypatch.setattr(s3_express, "monotonic", lambda: now + seconds)
        before = fake_express.asked["begin_session"]
        await asyncio.gather(*(store.get("x") for _ in range(20)))
        return fake_express.asked["begin_session"] - before

    assert await begun_after(200) == 0
    assert await begun_after(215) == 1  # it would end after 300
    assert await begun_after(400) == 0
    assert await begun_after(510) == 1  # which ended after 515


async def test_a_session_that_cannot_be_renewed_ahead_of_its_end_goes_on_until_then(
    express_location: ExpressLocation, fake_express: FakeExpress, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_at(express_location, max_retries="0")
    await store.put("x", b"1")
    now = _clock.monotonic()
    fake_express.refuses_sessions = 503, "SlowDown"
    monkeypatch.setattr(s3_express, "monotonic", lambda: now + 250)
    assert await store.get("x") == b"1"
    monkeypatch.setattr(s3_express, "monotonic", lambda: now + 295)
    with pytest.raises(StorageError, match="SlowDown"):
        await store.get("x")
    fake_express.refuses_sessions = None
    assert await store.get("x") == b"1"
    await store.aclose()


async def test_a_session_that_the_store_calls_expired_is_begun_anew(
    store: S3Store, fake_express: FakeExpress
) -> None:
    await store.put("x", b"1")
    for token in fake_express.sessions:
        fake_express.sessions[token] = 0
    assert await asyncio.gather(*(store.get("x") for _ in range(9))) == [b"1"] * 9
    assert fake_express.asked["begin_session"] == 2


async def test_who_may_begin_no_session_is_told_so_once_for_all(
    store: S3Store, fake_express: FakeExpress
) -> None:
    fake_express.refuses_sessions = 403, "AccessDenied"
    asked = [store.get(f"{number}") for number in range(20)]
    failed = await asyncio.gather(*asked, return_exceptions=True)
    assert {type(error) for error in failed} == {PermissionDeniedError}
    assert fake_express.asked == {"begin_session": 1}


async def test_keys_that_are_temporary_themselves_begin_sessions(
    express_location: ExpressLocation,
) -> None:
    """Their token goes with that request alone, under its own name."""
    options = {**express_location.storage_options, "aws_session_token": "temporary"}
    client = S3Client(express_location.bucket, parse_options(options, {}))
    target = await client.aim_by_keys()
    assert target.signer is not None
    sent = target.signer.sign("GET", "/", "session=", payload_sha256="", now=0.0)
    assert sent["x-amz-security-token"] == "temporary"
    assert "x-amz-s3session-token" not in sent
    await client.aclose()


async def test_how_objects_are_encrypted_is_said_where_the_session_begins(
    express_location: ExpressLocation, fake_express: FakeExpress
) -> None:
    store = store_at(
        express_location, aws_server_side_encryption="aws:kms", aws_sse_kms_key_id="key"
    )
    await store.put("x", b"1")
    await store.put_stream("s", pieces(bytes(20 << 20)))
    name = "x-amz-server-side-encryption"
    said = {operation for operation, headers in fake_express.sent if headers.get(name) == "aws:kms"}
    assert said == {"begin_session"}
    await store.aclose()


async def test_who_asks_while_a_session_begins_waits_for_it_and_while_it_is_renewed_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    access = Access(None, "us-west-2", None)
    begun: asyncio.Queue[asyncio.Event] = asyncio.Queue()

    async def begin(access: Access) -> Session:
        may_end = asyncio.Event()
        begun.put_nowait(may_end)
        await may_end.wait()
        return Session.lasting(300, Credentials("key", "secret"), access)

    sessions = Sessions(begin)
    first = asyncio.ensure_future(sessions.current(access))
    may_end = await begun.get()
    later = [asyncio.ensure_future(sessions.current(access)) for _ in range(5)]
    await asyncio.sleep(0)
    may_end.set()
    session = await first
    assert await asyncio.gather(*later) == [session] * 5
    assert begun.empty()
    now = _clock.monotonic()
    monkeypatch.setattr(s3_express, "monotonic", lambda: now + 250)
    renewed = asyncio.ensure_future(sessions.current(access))
    may_end = await begun.get()
    assert await asyncio.wait_for(sessions.current(access), 60) is session
    may_end.set()
    assert await renewed is not session
    other = Access(None, "us-west-2", None)
    assert sessions.peek(other) is None  # whose keys are others


# --------------------------------------------------------------------------------------- listing


async def test_a_long_listing_in_no_order_is_given_in_order(
    store: S3Store, fake_express: FakeExpress
) -> None:
    fake_express.page = 50
    paths = sorted(f"many/{number % 7}/{number:05}" for number in range(300))
    await asyncio.gather(*(store.put(path, b"") for path in paths))
    assert await paths_of(store, "many/") == paths
    assert await paths_of(store, "many/", start_after=paths[100]) == paths[101:]
    assert await paths_of(store, "many/3/000", recursive=False) == [
        path for path in paths if path.startswith("many/3/000")
    ]
    fake_express.asked.clear()
    found = [meta.path async for page in list_in_parallel(store, "many/") for meta in page]
    assert found == paths
    assert fake_express.asked == {"list": 6}
    unordered = [[meta.path for meta in page] async for page in store.list_unordered("many/")]
    assert [len(page) for page in unordered] == [50] * 6
    assert unordered[0] != sorted(unordered[0])
    assert sorted(path for page in unordered for path in page) == paths


async def test_a_folder_of_an_unfinished_upload_is_one_like_others(
    store: S3Store, fake_express: FakeExpress
) -> None:
    await store.put("a/x", b"")
    fake_express.begin(f"{store._root}b/y")
    assert await folder_of(store) == ([], ["a/", "b/"])
    assert await paths_of(store) == ["a/x"]


async def test_a_folder_that_several_pages_name_comes_once(
    store: S3Store, fake_express: FakeExpress
) -> None:
    fake_express.page, fake_express.repeats_folders = 2, True
    for number in range(5):
        await store.put(f"{number}/x", b"")
    assert await folder_of(store) == ([], [f"{number}/" for number in range(5)])


# ------------------------------------------------------------------------------------------ rest


async def test_objects_are_copied_by_the_user_s_own_keys(
    store: S3Store,
    express_location: ExpressLocation,
    fake_express: FakeExpress,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = store_at(replace(express_location, prefix="other"))
    await other.put("x", b"1234")
    assert await store.copy_from("y", other, "x") is not None
    assert await store.get("y") == b"1234"
    monkeypatch.setattr(s3_multipart, "_COPIED_AT_ONCE", 6 << 20)
    await other.put("large", bytes(13 << 20))
    assert await store.copy_from("z", other, "large") is not None
    assert (await store.head("z")).size == 13 << 20
    assert fake_express.asked["copy"] == 1
    assert fake_express.asked["copy_part"] == 3
    await other.aclose()


async def test_a_bucket_s_name_says_where_it_is() -> None:
    async def origin(bucket: str, **options: str) -> str:
        keys = {"aws_access_key_id": "k", "aws_secret_access_key": "s", "aws_region": "cn-north-1"}
        client = S3Client(bucket, parse_options({**keys, **options}, {}))
        target = await client.aim_by_keys()
        await client.aclose()
        assert target.prefix == "/" or not client.is_express
        return target.origin

    name = "lake--cnn1-az1--x-s3"
    expected = f"https://{name}.s3express-cnn1-az1.cn-north-1.amazonaws.com.cn"
    assert await origin(name) == expected
    assert await origin(name, aws_s3_express="true") == expected
    plain = f"https://{name}.s3.cn-north-1.amazonaws.com.cn"
    assert await origin(name, aws_s3_express="false") == plain
    own = {"aws_endpoint_url": "https://gateway.example"}
    assert await origin(name, **own) == f"https://{name}.gateway.example"
    assert await origin("lake", aws_s3_express="true", **own) == "https://lake.gateway.example"
    with pytest.raises(InvalidOptionError, match="does not name its zone"):
        await origin("lake", aws_s3_express="true")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"aws_request_payer": "true"}, "aws_request_payer"),
        ({"aws_server_side_encryption": "aws:kms:dsse"}, "aws:kms:dsse"),
        (
            {
                "aws_server_side_encryption": "sse-c",
                "aws_sse_customer_key_base64": "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=",
            },
            "sse-c",
        ),
        ({"aws_virtual_hosted_style_request": "false"}, "virtual_hosted_style_request=false"),
    ],
)
def test_what_a_directory_bucket_does_not_have_is_refused(
    options: dict[str, str], says: str
) -> None:
    with pytest.raises(InvalidOptionError, match=says):
        S3Client("lake--usw2-az1--x-s3", parse_options(options, {}))
