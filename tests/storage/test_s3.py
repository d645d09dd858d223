from __future__ import annotations

import asyncio
import gc
import random
import warnings
from typing import TYPE_CHECKING

import pytest

from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidUseError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage import s3_multipart
from adelta.storage.forwarding_store import ForwardingStore
from adelta.storage.memory import MemoryStore
from adelta.storage.s3 import S3Store
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.storage.object_store_suite import ObjectStoreSuite, paths_of, pieces
from tests.storage.request_counts import RequestCounts

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.s3_server import S3Location, S3Server


def store_at(location: S3Location, **options: str) -> S3Store:
    return S3Store.from_options(
        location.bucket, location.prefix, {**location.storage_options, **options}
    )


@pytest.fixture
async def store(s3_location: S3Location) -> AsyncIterator[S3Store]:
    store = store_at(s3_location)
    yield store
    await store.aclose()


class TestS3Store(ObjectStoreSuite):
    @pytest.fixture
    async def store(self, s3_location: S3Location) -> AsyncIterator[S3Store]:
        store = S3Store.from_options(
            s3_location.bucket, s3_location.prefix + "/odd %20é root", s3_location.storage_options
        )
        yield store
        await store.aclose()


# ------------------------------------------------------------------------------- request counts


class TestRequestCountsOfS3(RequestCounts):
    """As the suite has them."""


async def test_requests_can_be_observed(store: S3Store) -> None:
    seen: list[tuple[str, str]] = []
    store.observe_requests(lambda method, key, _query: seen.append((method, key[-2:])))
    await store.put("x", b"")
    await store.get("x")
    assert seen == [("PUT", "/x"), ("GET", "/x")]


async def test_no_more_requests_are_under_way_than_the_budget_allows(
    s3_location: S3Location,
) -> None:
    async with FaultyProxy(s3_location.server.endpoint) as proxy:
        store = store_at(s3_location, aws_endpoint_url=proxy.endpoint, concurrency_limit="3")
        await asyncio.gather(*(store.put(f"{number}", b"x") for number in range(12)))
        await store.get_many([f"{number}" for number in range(12)])
        await store.aclose()
    assert store.concurrency == 3
    assert proxy.most_at_once == 3


async def test_requests_that_queue_when_the_store_is_closed_get_connections_of_their_own(
    s3_location: S3Location,
) -> None:
    store = store_at(s3_location, concurrency_limit="1")
    await asyncio.gather(*(store.put(f"{number}", b"x") for number in range(3)))
    gets = [asyncio.ensure_future(store.get(f"{number}")) for number in range(3)]
    await asyncio.sleep(0)
    await store.aclose()
    assert await asyncio.gather(*gets) == [b"x"] * 3
    puts = [asyncio.ensure_future(store.put(f"{number}", b"y")) for number in range(3)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*puts)
    await store.aclose()


# --------------------------------------------------------------------------- faults and retries


@pytest.fixture
async def proxy(s3_location: S3Location) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy(s3_location.server.endpoint) as proxy:
        yield proxy


@pytest.fixture
async def shaky(s3_location: S3Location, proxy: FaultyProxy) -> AsyncIterator[S3Store]:
    store = store_at(
        s3_location,
        aws_endpoint_url=proxy.endpoint,
        max_retries="3",
        init_backoff="1ms",
        max_backoff="2ms",
        read_timeout="60s",
    )
    yield store
    await store.aclose()


TRANSIENT = [
    Fate.answer(503, "SlowDown"),
    Fate.answer(429, "TooManyRequests"),
    Fate.answer(500, "InternalError"),
    Fate.answer(502),
    Fate.answer(504),
    Fate.answer(409, "ConditionalRequestConflict"),
    Fate.cut_before(),
    Fate.cut_after(),
    Fate.cut_inside(),
]


@pytest.mark.parametrize("fate", TRANSIENT, ids=str)
async def test_what_may_pass_is_tried_again(shaky: S3Store, proxy: FaultyProxy, fate: Fate) -> None:
    await shaky.put("x", b"0123456789")
    proxy.fates = [fate, fate]
    assert await shaky.get("x") == b"0123456789"
    assert len(proxy.seen) == 4
    proxy.fates = [fate]
    assert [meta.path async for page in shaky.list() for meta in page] == ["x"]
    proxy.fates = [fate]
    await shaky.put("x", b"new")
    assert await shaky.get("x") == b"new"


@pytest.mark.parametrize(
    ("fate", "error"),
    [
        (Fate.answer(400, "InvalidArgument"), StorageError),
        (Fate.answer(403, "AccessDenied"), PermissionDeniedError),
        (Fate.answer(404, "NoSuchKey"), ObjectNotFoundError),
        (Fate.answer(404, "NoSuchBucket"), ObjectNotFoundError),
        (Fate.answer(501, "NotImplemented"), StorageError),
    ],
    ids=str,
)
async def test_what_cannot_pass_is_not_tried_again(
    shaky: S3Store, proxy: FaultyProxy, fate: Fate, error: type[StorageError]
) -> None:
    proxy.fates = [fate]
    with pytest.raises(error):
        await shaky.get("x")
    assert len(proxy.seen) == 1


async def test_throttling_that_lasts_is_raised_as_such(shaky: S3Store, proxy: FaultyProxy) -> None:
    proxy.fates = [Fate.answer(503, "SlowDown")] * 9
    with pytest.raises(ThrottledError, match="after 4 attempts"):
        await shaky.get("x")
    assert len(proxy.seen) == 4


async def test_a_refusal_names_the_object_and_where_the_keys_are_from(
    s3_location: S3Location, proxy: FaultyProxy
) -> None:
    store = store_at(
        s3_location, aws_endpoint_url=proxy.endpoint, aws_secret_access_key="wrong-secret"
    )
    proxy.fates = [Fate.answer(403, "SignatureDoesNotMatch")]
    with pytest.raises(PermissionDeniedError) as caught:
        await store.get("the/key")
    message = str(caught.value)
    assert f"{s3_location.uri}/the/key" in message
    assert "credentials: storage options" in message
    assert "wrong-secret" not in message + repr(store) + repr(vars(store))
    await store.aclose()


async def test_a_wrong_secret_is_refused_by_the_server(s3_location: S3Location) -> None:
    s3_location.server.skip_moto("takes any secret")
    store = store_at(s3_location, aws_secret_access_key="wrong-secret")
    with pytest.raises(PermissionDeniedError, match="check the secret key"):
        await store.get("x")
    await store.aclose()


# ------------------------------------------------------------------------- conditional puts


LOST = [
    Fate.cut_after(),
    Fate.cut_inside(),
    Fate.answer(500, "InternalError", applied=True),
    Fate.answer(503, "ServiceUnavailable", applied=True),
]


@pytest.mark.parametrize("fate", LOST, ids=str)
async def test_a_put_whose_answer_was_lost_is_found_to_be_ours(
    shaky: S3Store, proxy: FaultyProxy, fate: Fate
) -> None:
    proxy.fates = [fate]
    made = await shaky.put_if_absent("log/0.json", b"ours")
    assert made.size == 4
    assert [method for method, _ in proxy.seen] == ["PUT", "PUT", "GET"]
    assert await shaky.get("log/0.json") == b"ours"


@pytest.mark.parametrize(
    "fate", [*LOST, Fate.cut_before(), Fate.answer(500, "InternalError")], ids=str
)
async def test_a_put_in_doubt_that_another_won_is_found_to_be_lost(
    shaky: S3Store, store: S3Store, proxy: FaultyProxy, fate: Fate
) -> None:
    await store.put_if_absent("log/0.json", b"theirs")
    proxy.fates = [fate]
    with pytest.raises(ObjectExistsError):
        await shaky.put_if_absent("log/0.json", b"ours")
    assert await store.get("log/0.json") == b"theirs"


async def test_a_store_that_has_no_conditional_puts_says_so_and_what_to_do(
    shaky: S3Store, proxy: FaultyProxy, s3_location: S3Location
) -> None:
    proxy.fates = [Fate.answer(501, "NotImplemented")]
    with pytest.raises(StorageError, match="aws_conditional_put=disabled"):
        await shaky.put_if_absent("log/0.json", b"ours")
    without = store_at(s3_location, aws_conditional_put="disabled")
    with pytest.raises(InvalidOptionError, match="aws_conditional_put=disabled"):
        await without.put_if_absent("log/0.json", b"ours")
    await without.put("log/0.json", b"ours")
    await without.aclose()


@pytest.mark.parametrize("fate", [Fate.cut_before(), Fate.answer(500, "InternalError")], ids=str)
async def test_a_put_in_doubt_that_did_not_happen_is_made_again(
    shaky: S3Store, proxy: FaultyProxy, fate: Fate
) -> None:
    proxy.fates = [fate]
    await shaky.put_if_absent("log/0.json", b"ours")
    assert [method for method, _ in proxy.seen] == ["PUT", "PUT"]


async def test_a_lost_race_without_doubt_costs_one_request(
    shaky: S3Store, store: S3Store, proxy: FaultyProxy
) -> None:
    await store.put_if_absent("log/0.json", b"theirs")
    with pytest.raises(ObjectExistsError):
        await shaky.put_if_absent("log/0.json", b"theirs")  # even with the same bytes
    assert len(proxy.seen) == 1


async def test_a_put_in_doubt_is_decided_by_reading_when_trying_again_is_over(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    proxy.fates = [Fate.answer(500, "InternalError", applied=True)] * 4
    await shaky.put_if_absent("log/0.json", b"ours")
    assert [method for method, _ in proxy.seen] == ["PUT"] * 4 + ["GET"]


async def test_a_put_in_doubt_that_cannot_be_decided_says_so(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    proxy.fates = [Fate.answer(500, "InternalError", applied=True)] * 20
    with pytest.raises(CommitOutcomeUnknownError, match=r"log/0\.json may or may not"):
        await shaky.put_if_absent("log/0.json", b"ours")


async def test_a_put_that_never_left_is_no_doubt(s3_location: S3Location) -> None:
    store = store_at(
        s3_location, aws_endpoint_url="http://127.0.0.1:1", max_retries="1", init_backoff="1ms"
    )
    with pytest.raises(StorageError, match="ClientConnectorError"):
        await store.put_if_absent("x", b"")
    await store.aclose()


async def test_a_broken_pooled_connection_is_not_used_twice_behind_our_back(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    await shaky.put("warm", b"")
    proxy.fates = [Fate.cut_after()]
    before = shaky.request_count
    await shaky.put_if_absent("x", b"ours")
    assert shaky.request_count - before == len(proxy.seen) - 1 == 3


# ------------------------------------------------------------------------------------- copies


@pytest.mark.parametrize("at_once", [128 << 20, 5 << 20])
async def test_an_object_is_copied_by_the_store(
    store: S3Store, s3_location: S3Location, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one request, or in parts of so many bytes."""
    monkeypatch.setattr(s3_multipart, "_COPIED_AT_ONCE", at_once)
    other = S3Store.from_options(
        s3_location.bucket, f"{s3_location.prefix}/other", s3_location.storage_options
    )
    data = random.Random(1).randbytes(12 << 20)
    await store.put("a b/é.parquet", data)
    before = other.request_count
    made = await other.copy_from("copy=1/x", ForwardingStore(store), "a b/é.parquet")
    assert made is not None
    assert other.request_count - before == (1 if at_once > len(data) else 2 + 3)
    assert made.size == len(data)
    assert await other.get("copy=1/x") == data
    assert (await other.head("copy=1/x")).etag == made.etag or at_once < len(data)
    with pytest.raises(ObjectNotFoundError):
        await other.copy_from("y", store, "nothing")
    assert await other.copy_from("y", MemoryStore(), "x") is None
    assert await paths_of(other) == ["copy=1/x"]
    for path in ("a%2520b", "a+b"):
        await store.put(path, path.encode())
        assert await other.copy_from("z", store, path) is not None
        assert await other.get("z") == path.encode()
    await other.aclose()


@pytest.mark.parametrize(
    "fate",
    [
        Fate.answer(200, "InternalError"),
        Fate.answer(500, "InternalError", applied=True),
        Fate.cut_after(),
    ],
    ids=str,
)
async def test_a_copy_that_fails_is_made_again(
    shaky: S3Store, proxy: FaultyProxy, fate: Fate
) -> None:
    await shaky.put("x", b"some bytes")
    fates = iter([fate])
    proxy.choose = lambda method, _: next(fates, None) if method == "PUT" else None
    assert await shaky.copy_from("y", shaky, "x") is not None
    assert await shaky.get("y") == b"some bytes"


async def test_an_object_that_the_store_does_not_find_is_left_to_the_caller(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    await shaky.put("x", b"")
    for code, status in (("NoSuchKey", 404), ("PreconditionFailed", 412)):
        fates = iter([Fate.answer(status, code)])
        proxy.choose = lambda m, _, fates=fates: next(fates, None) if m == "PUT" else None
        assert await shaky.copy_from("y", shaky, "x") is None
    assert await shaky.copy_from("y", shaky, "x") is not None


async def test_a_store_that_copies_nothing_is_asked_once(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    await shaky.put("x", b"")
    proxy.choose = lambda method, _: Fate.answer(501, "NotImplemented") if method == "PUT" else None
    assert await shaky.copy_from("y", shaky, "x") is None
    seen = len(proxy.seen)
    assert await shaky.copy_from("y", shaky, "x") is None
    assert len(proxy.seen) == seen


# --------------------------------------------------------------------------------- multi-part


async def test_a_failed_part_aborts_the_upload(shaky: S3Store, proxy: FaultyProxy) -> None:
    def refuse(method: str, target: str) -> Fate | None:
        return Fate.answer(403, "AccessDenied") if "partNumber=2" in target else None

    proxy.choose = refuse
    with pytest.raises(PermissionDeniedError):
        await shaky.put_stream("x", pieces(*[bytes(1 << 20)] * 24))
    assert [target for method, target in proxy.seen if method == "DELETE" and "uploadId=" in target]
    assert await paths_of(shaky) == []


@pytest.mark.parametrize(
    "fate",
    [
        Fate.answer(200, "InternalError"),
        Fate.answer(500, "InternalError", applied=True),
        Fate.cut_after(),
    ],
    ids=str,
)
async def test_an_upload_whose_completion_failed_is_completed(
    shaky: S3Store, proxy: FaultyProxy, fate: Fate
) -> None:
    left = [fate]

    def fail_once(method: str, target: str) -> Fate | None:
        completes = method == "POST" and "uploadId=" in target
        return left.pop() if completes and left else None

    proxy.choose = fail_once
    made = await shaky.put_stream("x", pieces(*[bytes(1 << 20)] * 20))
    assert made.size == 20 << 20
    assert (await shaky.head("x")).size == 20 << 20


async def test_parts_in_memory_are_few(store: S3Store) -> None:
    made = sent = most = 0

    def observe(method: str, _key: str, query: str) -> None:
        nonlocal sent
        sent += 8 if method == "PUT" and "partNumber" in query else 0

    async def source() -> AsyncIterator[bytes]:
        nonlocal made, most
        for _ in range(100):
            made += 1
            most = max(most, made - sent)
            yield bytes(1 << 20)

    store.observe_requests(observe)
    await store.put_stream("x", source())
    assert most <= 33


# ------------------------------------------------------------------------------------- deletes


async def test_a_store_without_many_deletes_gets_single_ones(
    shaky: S3Store, proxy: FaultyProxy
) -> None:
    for path in "abc":
        await shaky.put(path, b"")
    proxy.seen.clear()
    proxy.fates = [Fate.answer(501, "NotImplemented")]
    await shaky.delete("abc")
    assert await paths_of(shaky) == []
    await shaky.delete("ab")
    assert [method for method, _ in proxy.seen] == ["POST", *["DELETE"] * 3, "GET", *["DELETE"] * 2]


# -------------------------------------------------------------------------------- event loops


def test_a_store_goes_on_on_the_next_loop(s3_location: S3Location) -> None:
    store = store_at(s3_location)

    async def use(close: bool) -> bytes:
        await store.put("x", b"1")
        try:
            return await store.get("x")
        finally:
            if close:
                await store.aclose()

    assert asyncio.run(use(close=True)) == b"1"
    assert asyncio.run(use(close=True)) == b"1"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # the sockets of a loop that was dropped
        asyncio.run(use(close=False))
        assert asyncio.run(use(close=True)) == b"1"
        gc.collect()


async def test_a_second_loop_beside_the_first_is_refused(store: S3Store) -> None:
    await store.put("x", b"1")
    with pytest.raises(InvalidUseError, match="open the table again"):
        await asyncio.to_thread(asyncio.run, store.get("x"))


async def test_a_bucket_of_a_tenant_is_addressed_as_ceph_has_it(s3_server: S3Server) -> None:
    s3_server.skip_moto("has no tenants")
    server = await asyncio.to_thread(s3_server.of_tenant, "acme")
    await asyncio.to_thread(server.make_bucket, "shared-name")
    named, own = (
        S3Store.from_options(bucket, "t", server.storage_options)
        for bucket in ("acme:shared-name", "shared-name")
    )
    await named.put_if_absent("é/1", b"of a tenant")
    assert await own.get("é/1") == b"of a tenant"
    assert await paths_of(named, "é/") == ["é/1"]
    await asyncio.to_thread(s3_server.make_bucket, "shared-name")
    other = S3Store.from_options("shared-name", "t", s3_server.storage_options)
    with pytest.raises(ObjectNotFoundError):
        await other.get("é/1")
    for store in (named, own, other):
        await store.aclose()
