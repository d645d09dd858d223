"""Responses that arrive a few bytes at a time time out; slow connections and a busy loop do not.

The server moves adelta's clock instead of waiting, and sends each part when the one before has
arrived.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest

from adelta import _clock
from adelta.errors import StorageError
from adelta.storage.long_body import LEAST_BYTES, LONG_BODY, BodyConnection
from adelta.storage.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator

READ_TIMEOUT_S = 8.0
Part = tuple[float, bytes]
"""Seconds that pass by adelta's clock, and the bytes that are sent after them."""


class MovedClock:
    """The machine's clocks, set forward by a test."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def time_ns(self) -> int:
        return time.time_ns()

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead_s


class PartServer:
    """Sends the parts of each response one by one, each when the one before has been received."""

    store: S3Store

    def __init__(self, clock: MovedClock, monkeypatch: pytest.MonkeyPatch) -> None:
        self.parts: Callable[[str], Iterable[Part]] = lambda _: ()
        self.num_sent = self.num_requests = 0
        self._clock = clock
        self._arrived = asyncio.Event()
        came = BodyConnection.came

        def noted(connection: BodyConnection, count: int) -> None:
            came(connection, count)
            self._arrived.set()

        monkeypatch.setattr(BodyConnection, "came", noted)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode():
                lines = head.lower().split("\r\n")
                sizes = [int(line[15:]) for line in lines if line.startswith("content-length:")]
                await reader.readexactly(sum(sizes))
                self.num_requests += 1
                for seconds, data in self.parts(head):
                    self._clock.ahead_s += seconds
                    self._arrived.clear()
                    writer.write(data)
                    await writer.drain()
                    self.num_sent += 1
                    async with asyncio.timeout(5):
                        await self._arrived.wait()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            pass
        finally:
            writer.close()


@pytest.fixture
async def server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[PartServer]:
    clock = MovedClock()
    served = PartServer(clock, monkeypatch)
    listening = await asyncio.start_server(served.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    options = {
        "aws_endpoint_url": f"http://127.0.0.1:{port}", "aws_allow_http": "true",
        "aws_skip_signature": "true", "aws_region": "us-east-1", "max_retries": "0",
        "read_timeout": f"{READ_TIMEOUT_S:g}s",
    }  # fmt: skip
    served.store = S3Store.from_options("bucket", "t", options)
    with _clock.told_by(clock):
        yield served
        await served.store.aclose()
    listening.close()
    await listening.wait_closed()


def head(length: int, status: str = "200 OK") -> bytes:
    return f'HTTP/1.1 {status}\r\netag: "1"\r\ncontent-length: {length}\r\n\r\n'.encode()


def dripped(data: bytes, every_s: float = 0.3) -> Iterator[Part]:
    return ((every_s, bytes([byte])) for byte in data)


DRIPPED = {
    "a head": lambda: dripped(head(3) + b"abc"),
    "a body": lambda: [(0.0, head(500)), *dripped(bytes(500))],
    "a body in chunks": lambda: [
        (0.0, b'HTTP/1.1 200 OK\r\netag: "1"\r\ntransfer-encoding: chunked\r\n\r\n'),
        *dripped(b"1\r\nx\r\n" * 100),
    ],
    "a long body": lambda: [(0.0, head(LONG_BODY)), *dripped(bytes(500))],
    "an error": lambda: [(0.0, head(500, "404 Not Found")), *dripped(bytes(500))],
    "answers before the answer": lambda: (
        (0.3, b"HTTP/1.1 102 Processing\r\n\r\n") for _ in range(500)
    ),
    "a body just below the read timeout": lambda: [
        (0.0, head(500)),
        *dripped(bytes(500), 0.9 * READ_TIMEOUT_S),
    ],
}


@pytest.mark.parametrize("parts", DRIPPED.values(), ids=DRIPPED.keys())
async def test_a_read_that_gets_few_bytes_at_a_time_fails_after_the_read_timeout(
    parts: Callable[[], Iterable[Part]], server: PartServer
) -> None:
    server.parts = lambda _: parts()
    with pytest.raises(StorageError, match=r"SocketTimeoutError: .* came within the read timeout"):
        await server.store.get("x")
    assert server.num_requests == 1
    assert server.num_sent <= 5 + READ_TIMEOUT_S / 0.3


async def test_a_response_to_a_write_may_arrive_slowly(server: PartServer) -> None:
    """S3 sends blanks for as long as it copies an object or completes an upload."""
    server.parts = lambda _: [(0.0, head(200)), *dripped(b" " * 200, 1.0)]
    await server.store.put("x", b"1")
    assert server.num_sent == 201


async def test_a_long_body_may_arrive_over_a_slow_connection(server: PartServer) -> None:
    """At twice the least rate it takes 1,000 times the read timeout."""
    part = bytes(LEAST_BYTES // 2)
    length = 2_000 * len(part)
    server.parts = lambda _: [
        (0.0, head(length)),
        *((READ_TIMEOUT_S / 4, part) for _ in range(2_000)),
    ]
    assert len(await server.store.get("x")) == length


async def test_a_short_response_may_end_below_the_least_rate(server: PartServer) -> None:
    server.parts = lambda _: [(0.0, head(8)), *dripped(b"12345678", READ_TIMEOUT_S / 6.9)]
    assert await server.store.get("x") == b"12345678"


@pytest.mark.parametrize("length", [6, LONG_BODY])
async def test_a_busy_event_loop_does_not_make_reads_time_out(
    length: int, server: PartServer
) -> None:
    third = bytes(length // 3)
    rest = bytes(length - 2 * len(third))
    server.parts = lambda _: [
        (0.0, head(length)),
        *((3 * READ_TIMEOUT_S, part) for part in (third, third, rest)),
    ]
    for _ in range(3):
        assert len(await server.store.get("x")) == length


async def test_idle_time_between_requests_does_not_count_as_waiting(server: PartServer) -> None:
    server.parts = lambda _: [(READ_TIMEOUT_S, part) for part in (head(2), b"1", b"2")]
    for _ in range(10):
        assert await server.store.get("x") == b"12"
