"""A store, or something in its place, that answers what no store should: every request ends, in
memory for what came, with one error of adelta's."""

from __future__ import annotations

import asyncio
import contextlib
import random
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest

from adelta.errors import (
    AdeltaError,
    CommitOutcomeUnknownError,
    ObjectNotFoundError,
    StorageError,
)
from adelta.storage import object_client
from adelta.storage.azure import AzureStore
from adelta.storage.gcs import GcsStore
from adelta.storage.listing_progress import ListingProgress
from adelta.storage.object_answers import Page
from adelta.storage.object_store import ObjectMeta
from adelta.storage.s3_options import parse_options
from tests.storage.scripted_server import Server, told

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

    from adelta.storage.http_store import HttpObjectStore
    from adelta.storage.s3 import S3Store

STATED = 4 << 30
ONCE_MORE = {"max_retries": "1", "init_backoff": "1ms", "allow_http": "true"}
PAGE = (
    '<?xml version="1.0"?><ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">'
    "<IsTruncated>{more}</IsTruncated>{token}{contents}</ListBucketResult>"
)
CONTENTS = (
    "<Contents><Key>{key}</Key><LastModified>{time}</LastModified><Size>{size}</Size></Contents>"
)
TIME = "2026-01-01T00:00:00.000Z"


def page(*keys: str, token: str | None = None, size: str = "1", time: str = TIME) -> str:
    return PAGE.format(
        more="false" if token is None else "true",
        token="" if token is None else f"<NextContinuationToken>{token}</NextContinuationToken>",
        contents="".join(CONTENTS.format(key=key, time=time, size=size) for key in keys),
    )


def _s3(server: Server) -> HttpObjectStore:
    return server.store(max_retries="1", init_backoff="1ms")


def _gcs(server: Server) -> HttpObjectStore:
    options = {"google_base_url": server.endpoint, "google_skip_signature": "true"}
    return GcsStore.from_options("bucket", "t", {**options, **ONCE_MORE})


def _azure(server: Server) -> HttpObjectStore:
    options = {"azure_storage_account_name": "acct", "azure_storage_endpoint": server.endpoint}
    options["azure_skip_signature"] = "true"
    return AzureStore.from_options("lake", "t", {**options, **ONCE_MORE})


PEAK = """
    import asyncio
    from tests.storage.scripted_server import Server
    from tests.storage.test_hostile_server import STATED
    from tests.support.memory import peak_bytes

    def answer(number, head):
        ranged = "range:" in head.lower()
        yield (
            f"HTTP/1.1 {'206 P' if ranged else '200 OK'}\\r\\n"
            f"content-range: bytes 0-9/{STATED}\\r\\ncontent-length: {STATED}\\r\\n\\r\\n"
        ).encode() + b"0123456789" * (1 if number % 2 else 100_000)

    async def main():
        async with Server(answer) as server:
            store = server.store(read_timeout="500ms")
            before = peak_bytes()
            for read in (
                lambda: store.get("x"),
                lambda: store.get_range("x", 0, 10),
                lambda: store.get_suffix("x", 10),
                lambda: store.get_ranges("x", [(0, 10)]),
            ):
                for _ in range(2):
                    try:
                        await read()
                    except OSError as error:
                        print(type(error).__name__)
            print((peak_bytes() - before) >> 20)

    asyncio.run(main())
"""


def test_memory_follows_the_bytes_that_come_not_a_stated_length() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PEAK)],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    *errors, grown = ran.stdout.split()
    assert errors == ["StorageError"] * 8
    assert int(grown) < 50


@pytest.mark.parametrize("chunked", [False, True])
async def test_a_range_of_more_bytes_than_were_asked_for_is_given_up_at_once(chunked: bool) -> None:
    def answer(number: int, head: str) -> Iterator[bytes]:
        if chunked:
            yield b"HTTP/1.1 206 P\r\ntransfer-encoding: chunked\r\n\r\n"
            for _ in range(1000):
                yield b"10000\r\n" + bytes(65536) + b"\r\n"
        else:
            yield b"HTTP/1.1 206 P\r\ncontent-length: 65536000\r\n\r\n"
            for _ in range(1000):
                yield bytes(65536)

    async with Server(answer) as server:
        store = server.store()
        for read in (
            store.get_range("x", 0, 10),
            store.get_suffix("x", 10),
            store.get_ranges("x", [(0, 10), (20, 30)]),
        ):
            with pytest.raises(StorageError, match="that it may have"):
                await read
        await store.aclose()
        assert server.sent < 24 << 20  # what the system takes without being asked


async def test_a_range_whose_answer_states_too_many_bytes_is_asked_for_again() -> None:
    """The head is as wrong as one that states too few, by the same faults on the way."""

    def answer(number: int, head: str) -> Iterator[bytes]:
        most = 1010 if number == 0 else 10
        which = "content-range: bytes 90-99/100"
        yield f'HTTP/1.1 206 P\r\netag: "1"\r\n{which}\r\ncontent-length: {most}\r\n\r\n'.encode()
        yield b"0123456789"

    async with Server(answer) as server:
        store = server.store(max_retries="1", init_backoff="1ms")
        assert (await store.get_suffix("x", 10)).data == b"0123456789"
        await store.aclose()


async def test_whole_objects_of_every_length_come_in_pieces_and_are_whole() -> None:
    data = random.Random(3).randbytes(23 << 20)

    def answer(number: int, head: str) -> Iterator[bytes]:
        return told(data[: lengths[number]])

    lengths = [0, 1, 131_071, 131_072, 4 << 20, (4 << 20) + 1, 8 << 20, 16 << 20, 23 << 20]
    async with Server(answer) as server:
        store = server.store()
        for length in lengths:
            assert await store.get("x") == data[:length]
        await store.aclose()


async def test_a_long_error_is_kept_to_its_first_bytes_and_still_understood() -> None:
    error = "<Error><Code>NoSuchKey</Code><Message>none</Message><Junk>" + "x" * (8 << 20)

    async with Server(lambda *_: told(error, "404 Not Found")) as server:
        store = server.store()
        with pytest.raises(ObjectNotFoundError, match="NoSuchKey none") as raised:
            await store.get("x")
        assert len(str(raised.value)) < object_client.LONGEST_ERROR
        with pytest.raises(ObjectNotFoundError):
            await store.get_range("x", 0, 3)
        await store.aclose()
        assert server.sent < 2 * len(error)


async def test_an_error_that_never_ends_does_not_hold_anybody() -> None:
    def answer(number: int, head: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 403 Forbidden\r\ntransfer-encoding: chunked\r\n\r\n"
        while True:
            yield b"1000\r\n" + b"<" * 4096 + b"\r\n"

    async with Server(answer) as server:
        store = server.store()
        with pytest.raises(StorageError, match="HTTP 403"):
            await asyncio.wait_for(store.get("x"), 60)
        await store.aclose()


def _same_page_again(number: int, head: str) -> Iterator[bytes]:
    return told(page("table/a", "table/b", token="t"))


def _same_page_under_new_tokens(number: int, head: str) -> Iterator[bytes]:
    return told(page("table/a", "table/b", token=f"t{number}"))


def _pages_that_go_back(number: int, head: str) -> Iterator[bytes]:
    return told(page(f"table/{9 - number}", token=f"t{number}"))


def _nothing_under_one_token(number: int, head: str) -> Iterator[bytes]:
    return told(page(token="t"))


def _nothing_under_new_tokens(number: int, head: str) -> Iterator[bytes]:
    return told(page(token=f"t{number}"))


@pytest.mark.parametrize(
    "answer",
    [
        _same_page_again,
        _same_page_under_new_tokens,
        _pages_that_go_back,
        _nothing_under_one_token,
        _nothing_under_new_tokens,
    ],
)
async def test_a_listing_that_does_not_go_on_ends(
    answer: Callable[[int, str], Iterator[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("adelta.storage.listing_progress._EMPTY_PAGES", 40)
    async with Server(answer) as server:
        store = server.store()
        with pytest.raises(StorageError, match="listing of s3://bucket/table/ does not go on"):
            async for _ in store.list():
                pass
        assert server.requests <= 42
        await store.aclose()


async def test_a_listing_in_no_order_that_does_not_go_on_ends() -> None:
    """As of a hierarchical namespace of Azure's, where all of it is held to be put in order."""

    def answer(number: int, head: str) -> Iterator[bytes]:
        properties = "<ResourceType>file</ResourceType><Content-Length>1</Content-Length>"
        properties += "<Last-Modified>Fri, 31 Dec 1999 23:59:59 GMT</Last-Modified>"
        blobs = "".join(
            f"<Blob><Name>t/{name}</Name><Properties>{properties}</Properties></Blob>"
            for name in ((f"{number % 3}/a", f"{number % 3}/b") if number % 2 else "cd")
        )
        marker = f"<NextMarker>{number}</NextMarker>"
        return told(f"<EnumerationResults><Blobs>{blobs}</Blobs>{marker}</EnumerationResults>")

    async with Server(answer) as server:
        store = _azure(server)
        with pytest.raises(StorageError, match="listing of az://lake/t/ does not go on"):
            async for _ in store.list():
                pass
        assert server.requests == 3
        await store.aclose()


def test_folders_may_be_named_again_where_a_listing_is_in_no_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adelta.storage.listing_progress._EMPTY_PAGES", 9)
    progress = ListingProgress()
    for number in range(30):
        found = [] if number % 8 else [ObjectMeta(f"{number}", 1, 0, None)]
        assert progress.goes_on(Page(found, f"{number}", ["a/", "b/"]), in_order=False)
    assert not progress.goes_on(Page([], "29", ["c/"]), in_order=False)


@pytest.mark.parametrize(
    "body",
    [
        "",
        "{}",
        "<a>" * 100_000,
        page("elsewhere/a"),
        page("table"),
        page("table/a", size="many"),
        page("table/a", size="9" * 5000),
        page("table/a", time="now"),
        page("table/a", time="9999-12-31T23:59:59+99:00"),
        page("table/a").replace("Key", "Name"),
        page("table/a").replace("Size", "Length"),
        page("table/a").replace('version="1.0"', 'version="1.0" encoding="none"'),
        "<!DOCTYPE x [<!ENTITY a 'aaaaaaaaaa'><!ENTITY b '&a;&a;&a;&a;'>]><x>&b;</x>",
        "x" * (20 << 20),
    ],
    ids=lambda body: body[-40:],
)
async def test_a_page_that_is_none_is_one_error(body: str) -> None:
    async with Server(lambda *_: told(body)) as server:
        store = server.store()
        with pytest.raises(StorageError) as raised:
            async for _ in store.list():
                pass
        assert len(str(raised.value)) < 1000
        await store.aclose()


@pytest.mark.parametrize(
    ("headers", "read"),
    [
        ("content-range: bytes 0-9/" + "9" * 5000 + "\r\n", lambda s: s.get_suffix("x", 10)),
        ("content-range: bytes 0-9/*\r\n", lambda s: s.get_suffix("x", 10)),
        ("last-modified: Thu, 01 Jan 99999 00:00:00 GMT\r\n", lambda s: s.get_with_meta("x")),
        ("last-modified: Mon, 01 Jan 0001 00:00:00 -9999\r\n", lambda s: s.get_with_meta("x")),
        ("last-modified: " + "x" * 8000 + "\r\n", lambda s: s.get_with_meta("x")),
    ],
)
async def test_headers_that_make_no_sense_are_one_error(
    headers: str, read: Callable[[S3Store], Awaitable[object]]
) -> None:
    async with Server(lambda *_: told("0123456789", "206 P", headers)) as server:
        store = server.store()
        with pytest.raises(AdeltaError):
            await read(store)
        await store.aclose()


async def test_an_empty_page_of_success_makes_no_object_of_one_that_is_not_there() -> None:
    """A proxy's, say: taken for a commit, it would leave a gap behind in the log."""
    nothing = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\ndate: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n"
    async with Server(lambda *_: iter([nothing])) as server:
        store = server.store()
        for read in (
            lambda: store.get("x"),
            lambda: store.get_with_meta("x"),
            lambda: store.get_range("x", 0, 10),
            lambda: store.get_suffix("x", 10),
            lambda: store.head("x"),
        ):
            with pytest.raises(StorageError, match="neither an entity tag nor a time"):
                await read()
        await store.aclose()


@pytest.mark.parametrize("opens", [_s3, _gcs, _azure])
async def test_a_page_of_success_makes_no_object_of_one_that_was_put(
    opens: Callable[[Server], HttpObjectStore],
) -> None:
    """It is a proxy's, as of one whose backend is away: a commit would be lost."""
    heads: list[str] = []

    def answer(number: int, head: str) -> Iterator[bytes]:
        heads.append(head.partition(" ")[0])
        page = "<html>Welcome</html>"
        lines = f"content-type: text/html\r\ncontent-length: {len(page)}\r\n"
        yield f"HTTP/1.1 200 OK\r\n{lines}\r\n{page}".encode()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(8 << 20)

    async with Server(answer) as server:
        store = opens(server)
        with pytest.raises(CommitOutcomeUnknownError, match="tells of no object"):
            await store.put_if_absent("x", b"{}")
        assert heads == [heads[0], heads[0], "GET"]  # made twice, and looked for
        with pytest.raises(StorageError, match="tells of no object"):
            await store.put("x", b"{}")
        with pytest.raises(StorageError):
            await store.put_stream("x", pieces())
        await store.aclose()


async def test_the_end_of_an_upload_that_nothing_vouches_for_is_looked_for() -> None:
    tags = ["1", "0f-3"]

    def answer(number: int, head: str) -> Iterator[bytes]:
        if head.startswith("HEAD"):
            size = f"content-length: {24 << 20}\r\n"
            yield f'HTTP/1.1 200 OK\r\netag: "{tags.pop(0)}"\r\n{size}\r\n'.encode()
            return
        begins = head.startswith("POST") and "uploads" in head
        begun = "<Result><UploadId>u</UploadId></Result>"
        yield from told(begun if begins else "<html>Welcome</html>")

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(8 << 20)

    async with Server(answer) as server:
        store = server.store()
        with pytest.raises(StorageError, match="perhaps a proxy's"):
            await store.put_stream("x", pieces())
        assert (await store.put_stream("x", pieces())).etag == '"0f-3"'
        await store.aclose()


async def test_bytes_are_an_object_though_nothing_says_which_version_it_is() -> None:
    """As behind a proxy, or in front of a plain server of files, which leaves such headers out."""
    page = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello"
    async with Server(lambda *_: iter([page])) as server:
        store = server.store()
        assert await store.get("x") == b"hello"
        await store.aclose()


async def test_a_head_without_a_size_is_one_error() -> None:
    async with Server(lambda *_: iter([b'HTTP/1.1 200 OK\r\netag: "1"\r\n\r\n'])) as server:
        store = server.store()
        with pytest.raises(StorageError, match="did not say the size"):
            await store.head("x")
        await store.aclose()


async def test_a_request_whose_bytes_come_one_by_one_ends() -> None:
    class Dripping(Server):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n")
                while not writer.transport.is_closing():
                    writer.write(b"x")
                    await asyncio.sleep(0.02)

    async with Dripping(lambda *_: told("")) as server:
        store = server.store(timeout="300ms")
        with pytest.raises(StorageError):
            await asyncio.wait_for(store.get("x"), 60)
        await store.aclose()


async def test_an_answer_that_says_to_wait_and_never_comes_ends() -> None:
    async with Server(lambda *_: iter([b"HTTP/1.1 100 Continue\r\n\r\n"])) as server:
        store = server.store(read_timeout="500ms")
        with pytest.raises(StorageError, match="Timeout"):
            await asyncio.wait_for(store.get("x"), 60)
        await store.aclose()


async def test_an_answer_that_says_to_wait_is_waited_for() -> None:
    def answer(number: int, head: str) -> Iterator[bytes]:
        yield b"HTTP/1.1 100 Continue\r\n\r\n"
        yield from told("0123456789")

    async with Server(answer) as server:
        store = server.store()
        assert await store.get("x") == await store.get("x") == b"0123456789"
        await store.aclose()


def test_every_request_has_an_end_of_time() -> None:
    assert 0 < parse_options({}, {}).http.timeout < 1e4


STATUSES = (
    *("200 OK", "206 P", "204 N", "301 M", "304 N", "307 T", "400 B", "403 F", "404 N", "409 C"),
    *("412 P", "416 R", "429 T", "500 I", "503 S", "100 C", "101 S", "999 X", "0 X", "abc", "200"),
)
HEADERS = (
    *("content-length: 5", "content-length: -1", "content-length: " + "9" * 20, "x: " + "y" * 9000),
    *("transfer-encoding: chunked", "transfer-encoding: gzip, chunked", "content-encoding: gzip"),
    *("content-range: bytes 0-9/10", "content-range: bytes */0", "content-range: x", "etag: \xff"),
    *("last-modified: x", f"last-modified: {TIME}", "date: x", "location: http://127.0.0.1:1/"),
    *("retry-after: 0", "retry-after: x", "x-amz-bucket-region: \xff\x00", "a b: c", "\x00: 1"),
    *("x-amz-bucket-region: eu-west-1", "connection: close", "connection: upgrade"),
)
BODIES = (
    *("", "x", "{}", '{"version":0}', "\x1f\x8b\x08xxxx", "a" * 200_000, "5\r\nhello\r\n0\r\n\r\n"),
    *("zz\r\n", "f" * 18 + "\r\n", page(), page(token="a"), page("table/_delta_log/0.json")),
    "<Error><Code>NoSuchKey</Code></Error>",
    "<Error><Code>PermanentRedirect</Code><Region>x\ny</Region></Error>",
    "<Error><Code>AuthorizationHeaderMalformed</Code><Region>\xff</Region></Error>",
    "<InitiateMultipartUploadResult><UploadId>x</UploadId></InitiateMultipartUploadResult>",
)


async def every_page(store: S3Store) -> None:
    async for _ in store.list("_delta_log/", start_after="a"):
        pass


async def large(store: S3Store) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(3):
            yield bytes(5 << 20)

    await store.put_stream("x", chunks())


VERBS: tuple[Callable[[S3Store], Awaitable[object]], ...] = (
    lambda store: store.get("x"),
    lambda store: store.get_with_meta("x"),
    lambda store: store.get_range("x", 3, 9),
    lambda store: store.get_ranges("x", [(0, 10), (5 << 20, (5 << 20) + 200_000)]),
    lambda store: store.get_suffix("x", 7),
    lambda store: store.head("x"),
    lambda store: store.put("x", b"1"),
    lambda store: store.put_if_absent("x", b"1"),
    lambda store: store.delete(["a", "b"]),
    every_page,
    large,
)


@pytest.mark.parametrize("seed", range(6))
async def test_whatever_the_answer_is_it_ends_in_one_error_or_is_taken(seed: int) -> None:
    chance = random.Random(seed)

    def answer(number: int, head: str) -> Iterator[bytes]:
        body = chance.choice(BODIES).encode("latin-1")
        headers = chance.sample(HEADERS, chance.randint(0, 3))
        if chance.random() < 0.6:
            headers.append(f"content-length: {len(body) + chance.choice((0, 0, 0, 1, -1))}")
        lines = (f"HTTP/1.1 {chance.choice(STATUSES)}", *headers, "", "")
        yield "\r\n".join(lines).encode("latin-1") + body

    options = {"max_retries": "1", "init_backoff": "1ms", "max_backoff": "2ms"}
    async with Server(answer) as server:
        store = server.store(read_timeout="50ms", **options)
        for verb in VERBS:
            with contextlib.suppress(AdeltaError):
                await asyncio.wait_for(verb(store), 60)
        await store.aclose()
