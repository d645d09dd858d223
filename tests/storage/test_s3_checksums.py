"""Bytes of S3 that are not those that were put, told by checksums, entity tags and lengths."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import subprocess
import sys
import zlib
from typing import TYPE_CHECKING

import pytest

from adelta.errors import InvalidOptionError, StorageError
from adelta.storage.s3 import S3Store
from tests.storage.faulty_proxy import Fate
from tests.storage.object_store_suite import pieces
from tests.storage.tampering_proxy import (
    TamperingProxy,
    flip,
    header,
    with_header,
    without_header,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.support.s3_server import S3Location, S3Server

DATA = b"some bytes that somebody relies on"
SUM = base64.b64encode(zlib.crc32(DATA).to_bytes(4, "big")).decode()


@pytest.fixture
async def proxy(s3_location: S3Location) -> AsyncIterator[TamperingProxy]:
    async with TamperingProxy(s3_location.server.endpoint) as proxy:
        yield proxy


def store_at(location: S3Location, proxy: TamperingProxy, **options: str) -> S3Store:
    quick = {"max_retries": "3", "init_backoff": "1ms", "max_backoff": "2ms"}
    chosen = {"aws_endpoint_url": proxy.endpoint, **quick, **options}
    return S3Store.from_options(location.bucket, location.prefix, location.storage_options | chosen)


@pytest.fixture
async def store(s3_location: S3Location, proxy: TamperingProxy) -> AsyncIterator[S3Store]:
    store = store_at(s3_location, proxy)
    await store.put("x", DATA)
    yield store
    await store.aclose()


def keep_checksums(proxy: TamperingProxy, tag: str | None = None) -> None:
    """Let the store give the checksums that it got, and with `tag` another entity tag."""
    kept: dict[bytes, str] = {}
    for request in proxy.heads:
        if request.startswith(b"PUT"):
            kept[request.split(b" ")[1]] = header(request, "x-amz-checksum-crc32")

    def answer(request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        if request.startswith(b"GET") and header(request, "x-amz-checksum-mode") == "ENABLED":
            head = with_header(head, "x-amz-checksum-crc32", kept[request.split(b" ")[1]])
            head = head if tag is None else with_header(head, "etag", tag)
        return head, body

    proxy.answering = answer


def damage(proxy: TamperingProxy, times: int, at: int | None = 0) -> None:
    """Flip a bit in the next bodies that are got: the one at `at`, or another one every time."""
    before, left = proxy.answering, [*range(times)]

    def answer(request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        head, body = before(request, head, body)
        if request.startswith(b"GET") and left:
            place = left.pop()
            body = flip(body, place if at is None else at)
        return head, body

    proxy.answering = answer


async def test_a_body_that_is_damaged_on_its_way_is_asked_for_again(
    store: S3Store, proxy: TamperingProxy
) -> None:
    keep_checksums(proxy)
    damage(proxy, 2, at=None)
    assert await store.get("x") == DATA
    assert len(proxy.heads) == 1 + 3


async def test_a_body_that_is_damaged_where_it_is_stored_is_an_error(
    store: S3Store, proxy: TamperingProxy
) -> None:
    keep_checksums(proxy)
    damage(proxy, 100)
    with pytest.raises(StorageError, match=f"CRC32 is not {SUM}.*it is damaged"):
        await store.get_with_meta("x")
    assert len(proxy.heads) == 1 + 2  # the same bytes twice say that trying again is no use


@pytest.mark.parametrize(
    ("name", "said"), [("crc32c", "4oLiDQ=="), ("crc64nvme", "Q9aDPQwzD9o="), ("sha1", None)]
)
async def test_checksums_of_other_algorithms_are_held_to_as_well(
    store: S3Store, proxy: TamperingProxy, name: str, said: str | None
) -> None:
    if said is None:
        said = base64.b64encode(hashlib.sha1(DATA, usedforsecurity=False).digest()).decode()
    else:
        pytest.importorskip("awscrt.checksums")

    def answer(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        head = with_header(head, "etag", '"an odd one"')
        return with_header(head, f"x-amz-checksum-{name}", said), body

    proxy.answering = answer
    assert await store.get("x") == DATA
    damage(proxy, 100)
    with pytest.raises(StorageError, match=f"{name.upper()} is not"):
        await store.get("x")


async def test_the_checksum_counts_where_the_entity_tag_is_no_digest(
    store: S3Store, proxy: TamperingProxy
) -> None:
    keep_checksums(proxy, tag='"0123456789abcdef0123456789abcdef"')
    assert await store.get("x") == DATA
    assert len(proxy.heads) == 1 + 1


async def test_without_a_checksum_the_entity_tag_tells_of_damage(
    store: S3Store, proxy: TamperingProxy
) -> None:
    damage(proxy, 1)
    assert await store.get("x") == DATA  # the tag is the digest of what came then
    damage(proxy, 100)
    with pytest.raises(StorageError, match="entity tag: it is damaged"):
        await store.get("x")


async def test_an_entity_tag_that_is_no_digest_costs_one_request(
    store: S3Store, proxy: TamperingProxy
) -> None:
    proxy.answering = lambda _request, head, body: (
        with_header(head, "etag", '"0123456789abcdef0123456789abcdef"'),
        body,
    )
    assert await store.get("x") == DATA
    assert len(proxy.heads) == 1 + 2


@pytest.mark.parametrize(
    "sealed",
    [
        ("x-amz-server-side-encryption", "aws:kms"),
        ("x-amz-server-side-encryption-customer-algorithm", "AES256"),
        ("etag", '"0123456789abcdef0123456789abcdef-3"'),
        ("x-amz-checksum-crc32", "AAAAAA==-3"),
    ],
)
async def test_what_is_no_digest_of_the_whole_by_its_kind_costs_nothing(
    store: S3Store, proxy: TamperingProxy, sealed: tuple[str, str]
) -> None:
    def answer(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        head = with_header(head, "etag", '"0123456789abcdef0123456789abcdef-2"')
        return with_header(head, *sealed), body

    assert await store.get("x") == DATA
    proxy.answering = answer
    assert await store.get("x") == DATA
    assert len(proxy.heads) == 1 + 2


async def test_the_end_of_an_object_is_held_to_its_tag_where_that_is_all_of_it(
    store: S3Store, proxy: TamperingProxy
) -> None:
    assert (await store.get_suffix("x", 1000)).data == DATA
    damage(proxy, 1)
    assert (await store.get_suffix("x", 1000)).data == DATA


PARTS: dict[str, Callable[[S3Store], Awaitable[object]]] = {
    "get_range": lambda store: store.get_range("x", 5, 20),
    "get_ranges": lambda store: store.get_ranges("x", [(5, 20)]),
    "get_suffix": lambda store: store.get_suffix("x", 10),
}


@pytest.mark.parametrize("verb", PARTS)
async def test_an_answer_has_the_bytes_that_were_asked_for(
    store: S3Store, proxy: TamperingProxy, verb: str
) -> None:
    read = PARTS[verb]
    expected = await read(store)

    def other_bytes(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        changed = with_header(head, "content-range", "bytes 4-18/34")
        return changed, body

    def fewer_bytes(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        return with_header(head, "content-length", str(len(body) - 1)), body[:-1]

    def nothing_said(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        return without_header(head, "content-range"), body

    sound = proxy.answering
    for tampered in (other_bytes, fewer_bytes, nothing_said):
        proxy.answering = tampered
        with pytest.raises(StorageError, match=r"bytes came as|says .* of which bytes"):
            await read(store)
        proxy.answering = sound
        assert await read(store) == expected


async def test_a_body_without_a_length_could_be_cut_and_is_not_taken(
    store: S3Store, proxy: TamperingProxy
) -> None:
    def unbounded(_request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        return with_header(without_header(head, "content-length"), "connection", "close"), body

    proxy.answering = unbounded
    with pytest.raises(StorageError, match="does not say how long"):
        await store.get("x")
    await asyncio.sleep(0.01)  # the loop closes what was left in the middle


async def test_what_is_put_bears_its_checksum(store: S3Store, proxy: TamperingProxy) -> None:
    await store.put_if_absent("y", DATA)
    await store.put_stream("z", pieces(DATA[:4], DATA[4:]))
    sums = [header(head, "x-amz-checksum-crc32") for head in proxy.heads]
    assert sums == [SUM] * 3


async def test_what_is_damaged_on_its_way_to_the_store_is_sent_again(
    store: S3Store, proxy: TamperingProxy, s3_server: S3Server
) -> None:
    s3_server.skip_moto("holds nothing to its checksum")
    left = [1, 1]

    def sending(_head: bytes, body: bytes) -> bytes:
        return flip(body) if body and left and left.pop() else body

    proxy.sending = sending
    await store.put_if_absent("y", DATA)
    proxy.sending = lambda _head, body: body
    assert await store.get("y") == DATA


@pytest.mark.parametrize("knows", [False, True])
async def test_parts_bear_checksums_where_the_store_says_that_it_keeps_them(
    store: S3Store, proxy: TamperingProxy, knows: bool
) -> None:
    said = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}

    def answer(request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        if b"?uploads" in request:
            for name, value in said.items():
                head = with_header(head, name, value) if knows else without_header(head, name)
        return head, body

    proxy.answering = answer
    data = bytes(range(256)) * (9 << 12)
    await store.put_stream("large", pieces(data))
    parts = [head for head in proxy.heads if b"partNumber" in head]
    assert len(parts) == 2
    assert all(bool(header(head, "x-amz-checksum-crc32")) == knows for head in parts)
    assert b"".join(await store.get_ranges("large", [(0, len(data))])) == data


REFUSALS = [
    (501, "NotImplemented", "Header 'x-amz-checksum-crc32' not implemented"),
    (400, "InvalidArgument", "Unsupported header 'x-amz-checksum-crc32' received"),
    (501, "NotImplemented", "A header you provided implies functionality that is not implemented"),
]


def refusal(
    status: int, code: str, message: str
) -> Callable[[bytes, bytes, bytes], tuple[bytes, bytes]]:
    def answer(request: bytes, head: bytes, body: bytes) -> tuple[bytes, bytes]:
        if b"x-amz-checksum" not in request:
            return head, body
        body = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>".encode()
        return b"HTTP/1.1 %d No\r\ncontent-length: %d" % (status, len(body)), body

    return answer


@pytest.mark.parametrize(("status", "code", "message"), REFUSALS)
async def test_a_store_that_refuses_checksums_is_asked_without_them_from_then_on(
    store: S3Store, proxy: TamperingProxy, status: int, code: str, message: str
) -> None:
    proxy.answering = refusal(status, code, message)
    proxy.heads.clear()
    await store.put("y", DATA)
    await store.put("z", DATA)
    assert await store.get("y") == DATA
    assert [bool(header(head, "x-amz-checksum-crc32")) for head in proxy.heads] == [
        True,
        False,
        False,
        False,
    ]


async def test_an_unsigned_body_bears_its_md5_where_checksums_are_refused(
    s3_location: S3Location, proxy: TamperingProxy
) -> None:
    proxy.answering = refusal(*REFUSALS[0])
    store = store_at(s3_location, proxy, aws_unsigned_payload="true")
    await store.put("y", DATA)
    digest = base64.b64encode(hashlib.md5(DATA, usedforsecurity=False).digest()).decode()
    assert [header(head, "content-md5") for head in proxy.heads] == ["", digest]
    await store.aclose()


async def test_another_refusal_is_no_sign_that_checksums_are_unknown(
    store: S3Store, proxy: TamperingProxy
) -> None:
    proxy.fates = [Fate.answer(400, "InvalidArgument")]
    with pytest.raises(StorageError, match="InvalidArgument"):
        await store.put("y", DATA)
    await store.put("y", DATA)
    assert header(proxy.heads[-1], "x-amz-checksum-crc32") == SUM


async def test_checksums_can_be_turned_off(s3_location: S3Location, proxy: TamperingProxy) -> None:
    store = store_at(
        s3_location,
        proxy,
        aws_request_checksum_calculation="when_required",
        aws_response_checksum_validation="WHEN_REQUIRED",
    )
    await store.put("x", DATA)
    damage(proxy, 1)
    assert await store.get("x") == flip(DATA)
    assert not any(b"x-amz-checksum" in head for head in proxy.heads)
    await store.aclose()
    with pytest.raises(InvalidOptionError, match="when_supported, or when_required"):
        store_at(s3_location, proxy, aws_request_checksum_calculation="never")


def test_what_computes_rare_checksums_is_loaded_once_an_object_has_one() -> None:
    """To load it takes longer than to open a table, and would hold up the event loop."""
    pytest.importorskip("awscrt.checksums")
    program = f"""
import sys
from adelta.storage.object_answers import Answer
from adelta.storage.s3_checksums import body_fault, is_digested_inline

def looked_at(**sums):
    headers = {{"x-amz-checksum-" + name: said for name, said in sums.items()}}
    answer = Answer(200, headers, {DATA!r})
    inline = is_digested_inline(answer)
    fault, _ = body_fault(answer, tags_are_digests=False)
    assert fault is None, fault
    return inline

assert looked_at()
assert looked_at(crc32={SUM!r})
assert "awscrt" not in sys.modules
assert not looked_at(crc32c="4oLiDQ==")
assert "awscrt" in sys.modules
assert looked_at(crc32c="4oLiDQ==")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
