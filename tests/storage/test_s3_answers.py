"""Answers of S3 that are right and out of the ordinary, and what every request to it bears."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from adelta.errors import PermissionDeniedError, StorageError
from adelta.storage.s3_errors import failure_of, is_error
from tests.storage.scripted_server import Server, told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from adelta.storage.object_store import ObjectMeta
    from adelta.storage.s3 import S3Store

DELETED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n<DeleteResult '
    'xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{errors}</DeleteResult>'
)
TIME = "Wed, 01 Jan 2020 00:00:00 GMT"
PAGE = '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'
ERROR = "<Error><Key>table/{key}</Key><Code>InternalError</Code></Error>"


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("<Error><Code>InternalError</Code></Error>", True),
        ('<?xml version="1.0" encoding="UTF-8"?>\n\n<Error><Code>x</Code></Error>', True),
        ("\n   \n<Error/>", True),
        ("\ufeff<?xml version='1.0'?><Error>", True),
        ('<Error xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Code>x</Code>', True),
        (DELETED.format(errors=ERROR), False),
        ("<ListBucketResult><Prefix>&lt;Error&gt;</Prefix></ListBucketResult>", False),
        ("<Errors/>", False),
        ("", False),
    ],
)
def test_an_answer_is_an_error_where_its_root_is_one(body: str, error: bool) -> None:
    assert is_error(body.encode()) is error


def test_an_archived_object_is_not_denied_and_a_wrong_session_token_is() -> None:
    body = "<Error><Code>{}</Code></Error>".format
    archived = failure_of(403, {}, body("InvalidObjectState").encode())
    assert type(archived.error("GET", credentials="")) is StorageError
    assert "restore it" in str(archived.error("GET", credentials=""))
    token = failure_of(400, {}, body("InvalidToken").encode())
    assert type(token.error("GET", credentials="")) is PermissionDeniedError


@pytest.mark.parametrize(
    ("status", "code", "advice"),
    [(403, "QuotaExceeded", "raise the quota"), (507, "XMinioStorageFull", "disks are full")],
    ids=["ceph", "minio"],
)
async def test_a_store_that_is_full_has_certainly_made_nothing_and_is_asked_once(
    status: int, code: str, advice: str
) -> None:
    async with Server(
        lambda *_: told(f"<Error><Code>{code}</Code></Error>", f"{status} Full")
    ) as server:
        store = server.store()
        with pytest.raises(StorageError, match=advice) as raised:
            await store.put_if_absent("a", b"1")
        assert type(raised.value) is StorageError
        assert server.requests == 1
        await store.aclose()


async def test_keys_that_a_request_did_not_delete_are_deleted_again_one_by_one() -> None:
    seen: list[str] = []

    def answer(number: int, head: str) -> Iterator[bytes]:
        seen.append(head.partition(" HTTP")[0])
        if number == 0:
            return told(DELETED.format(errors=ERROR.format(key="b") + ERROR.format(key="d")))
        return told("", "204 No Content")

    async with Server(answer) as server:
        store = server.store()
        await store.delete(["a", "b", "c", "d"])
        await store.aclose()
    assert seen[0] == "POST /bucket/?delete="
    assert sorted(seen[1:]) == ["DELETE /bucket/table/b", "DELETE /bucket/table/d"]


UPLOAD = (
    "<CompleteMultipartUploadResult><UploadId>u</UploadId><ETag>1</ETag>"
    "</CompleteMultipartUploadResult>"
)
"""What begins an upload, and what ends it."""


async def parts() -> AsyncIterator[bytes]:
    for _ in range(3):
        yield bytes(8 << 20)


@pytest.mark.parametrize("headers", ["", "date: \r\n", "date: soon\r\n"])
@pytest.mark.parametrize(
    "put",
    [
        lambda store: store.put("x", b"1"),
        lambda store: store.put_if_absent("x", b"1"),
        lambda store: store.put_stream("x", parts()),
    ],
    ids=["put", "put_if_absent", "put_stream"],
)
async def test_a_put_that_succeeded_needs_no_time_in_its_answer(
    put: Callable[[S3Store], Awaitable[ObjectMeta]], headers: str
) -> None:
    began = time.time_ns() // 1_000_000

    def answer(number: int, head: str) -> Iterator[bytes]:
        upload = UPLOAD if head.startswith("POST") else ""
        return told(upload, headers=f'etag: "1"\r\n{headers}')

    async with Server(answer) as server:
        store = server.store()
        made = await put(store)
        await store.aclose()
    assert made.etag == '"1"'
    assert began <= made.last_modified_ms <= time.time_ns() // 1_000_000


async def test_the_time_of_a_put_is_the_servers_where_an_earlier_answer_told_it() -> None:
    def answer(number: int, head: str) -> Iterator[bytes]:
        return told("", headers="" if number else f"date: {TIME}\r\n")

    async with Server(answer) as server:
        store = server.store()
        first = await store.put("x", b"1")
        second = await store.put("x", b"1")
        await store.aclose()
    assert 0 <= second.last_modified_ms - first.last_modified_ms < 60_000


async def test_every_request_says_that_the_requester_pays() -> None:
    heads: list[str] = []

    def answer(number: int, head: str) -> Iterator[bytes]:
        heads.append(head)
        line = head.partition("\r\n")[0]
        if "list-type" in line:
            return told(PAGE)
        if "uploads=" in line:
            return told("<Result><UploadId>u</UploadId></Result>")
        if "partNumber=2" in line:
            return told("<Error><Code>AccessDenied</Code></Error>", "403 Forbidden")
        body = "0123456789" if line.startswith("GET") else ""
        return told(body, headers=f'etag: "1"\r\nlast-modified: {TIME}\r\n')

    async with Server(answer) as server:
        store = server.store(aws_request_payer="true")
        await store.put("x", b"1")
        await store.put_if_absent("y", b"1")
        await store.get("x")
        await store.get_ranges("x", [(0, 10)])
        await store.head("x")
        await store.delete(["x"])
        await store.delete(["x", "y", "\x01"])
        async for _ in store.list():
            pass
        with pytest.raises(PermissionDeniedError):
            await store.put_stream("x", parts())
        await store.aclose()
    lines = [head.partition(" HTTP")[0] for head in heads if "x-amz-request-payer: req" not in head]
    assert lines == []
    assert any(head.startswith("DELETE /bucket/table/x?uploadId=u ") for head in heads)
