"""Long bodies, received where they are wanted, on both event loops, with and without TLS."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import random
import re
import ssl
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
import uvloop

from adelta._concurrency import MOST_THREADS, in_io_thread
from adelta._memory import lasting_pool
from adelta.errors import StorageError
from adelta.storage import long_body
from adelta.storage.long_body import LONG_BODY, LoopTurn
from adelta.storage.s3 import S3Store
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

DATA = random.Random(1).randbytes(9 << 20)
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


class RangeServer:
    """Serves DATA, whole or by range, under any name.

    Attributes:
        connections: how many there have been.
        stall_at: the number of the request that stops in the middle of its answer, from 0.
        stall_after: the part of its body that it has sent by then.
        chunked: whether answers do not tell their length.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.connections = self.requests = 0
        self.stall_at = -1
        self.stall_after = 0.5
        self.chunked = False
        self._tls = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)

    async def __aenter__(self) -> RangeServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def endpoint(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def store(self, **options: str) -> S3Store:
        return S3Store.from_options(
            "bucket",
            "",
            {
                "aws_endpoint_url": self.endpoint,
                "aws_allow_http": "true",
                "allow_invalid_certificates": "true",
                "aws_skip_signature": "true",
                "aws_region": "us-east-1",
                "init_backoff": "1ms",
                "max_backoff": "2ms",
                **options,
            },
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                await self._answer(head.decode(), writer)
        writer.transport.abort()

    async def _answer(self, head: str, writer: asyncio.StreamWriter) -> None:
        number, self.requests = self.requests, self.requests + 1
        asked = re.search(r"(?im)^range: bytes=(\d+)-(\d+)", head)
        start, end = (int(asked[1]), int(asked[2]) + 1) if asked else (0, len(DATA))
        body = DATA[start:end]
        if asked:
            which = f"content-range: bytes {start}-{start + len(body) - 1}/{len(DATA)}"
            writer.write(f'HTTP/1.1 206 P\r\netag: "1"\r\n{which}\r\n'.encode())
        else:
            writer.write(b'HTTP/1.1 200 OK\r\netag: "1"\r\n')
        if self.chunked:
            half = len(body) // 2
            writer.write(b"transfer-encoding: chunked\r\n\r\n")
            for part in (body[:half], body[half:]):
                writer.write(f"{len(part):x}\r\n".encode() + part + b"\r\n")
            writer.write(b"0\r\n\r\n")
        elif number == self.stall_at:
            begin = body[: int(len(body) * self.stall_after)]
            writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + begin)
            await writer.drain()
            await asyncio.sleep(60)
        else:
            writer.write(f"content-length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()


def on_loop(loop: str, work: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work())  # type: ignore[arg-type]  # a coroutine function's result


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_bodies_of_any_length_follow_each_other_on_one_connection(
    loop: str, tls: bool, certificate: Path
) -> None:
    ranges = [(5, 9), (100, 100 + LONG_BODY), (1 << 20, 8 << 20), (9, 8 + LONG_BODY), (0, 1)]

    async def work() -> None:
        async with RangeServer(certificate if tls else None) as server:
            store = server.store(concurrency_limit="1")
            for start, end in ranges:
                assert await store.get_range("x", start, end) == DATA[start:end]
                (found,) = await store.get_ranges("x", [(start, end)])
                assert found == DATA[start:end]
            assert await store.get("x") == DATA
            assert server.connections == 1
            await store.aclose()

    on_loop(loop, work)


@pytest.mark.parametrize("loop", LOOPS)
def test_a_long_range_lies_in_one_piece_of_arrows_memory_however_it_was_fetched(loop: str) -> None:
    async def work() -> None:
        async with RangeServer() as server:
            store = server.store()
            pool = lasting_pool() or pa.default_memory_pool()
            gc.collect()  # what other tests left
            before = pool.bytes_allocated()
            (found,) = await store.get_ranges("x", [(7, 8 << 20)])
            assert server.requests == 2
            assert isinstance(found, memoryview)
            assert found == DATA[7 : 8 << 20]
            assert len(found) <= pool.bytes_allocated() - before < len(found) + 1024
            del found
            assert pool.bytes_allocated() == before
            await store.aclose()

    on_loop(loop, work)


async def test_a_body_whose_length_nobody_tells_is_received_all_the_same() -> None:
    async with RangeServer() as server:
        server.chunked = True
        store = server.store()
        (found,) = await store.get_ranges("x", [(7, 3 << 20)])
        assert found == DATA[7 : 3 << 20]
        assert await store.get("x") == DATA
        await store.aclose()


@pytest.mark.parametrize("loop", LOOPS)
def test_a_body_that_waits_for_memory_longer_than_the_read_timeout_is_whole(loop: str) -> None:
    async def work() -> None:
        async with RangeServer() as server:
            store = server.store(read_timeout="1s", max_retries="0")
            assert await store.get_range("x", 0, 1) == DATA[:1]
            free = threading.Event()
            most = MOST_THREADS["adelta-io"]
            busy = [asyncio.ensure_future(in_io_thread(free.wait)) for _ in range(most)]
            getting = asyncio.ensure_future(store.get("x"))
            await until(lambda: server.requests == 2)
            await asyncio.sleep(1.2)
            assert server.requests == 2
            free.set()
            assert await getting == DATA
            await asyncio.gather(*busy)
            await store.aclose()

    on_loop(loop, work)


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("after", [0, 0.5])
def test_a_body_that_stops_half_way_is_asked_for_again(loop: str, after: float) -> None:
    async def work() -> None:
        async with RangeServer() as server:
            server.stall_after = after
            store = server.store(read_timeout="200ms")
            for _ in range(2):
                server.stall_at = server.requests
                (found,) = await store.get_ranges("x", [(7, 3 << 20)])
                assert found == DATA[7 : 3 << 20]
            assert server.requests >= 4
            await store.aclose()
            store = server.store(read_timeout="200ms", max_retries="0")
            server.stall_at = server.requests
            with pytest.raises(StorageError, match="x"):
                await store.get_ranges("x", [(7, 3 << 20)])
            await store.aclose()

    on_loop(loop, work)


@pytest.mark.parametrize("loop", LOOPS)
def test_leaving_a_body_half_way_leaves_the_store_fit_for_use(loop: str) -> None:
    async def work() -> None:
        async with RangeServer() as server:
            store = server.store()
            server.stall_at = 0
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(store.get_ranges("x", [(7, 3 << 20)]), 0.2)
            (found,) = await store.get_ranges("x", [(7, 3 << 20)])
            assert found == DATA[7 : 3 << 20]
            assert server.connections == 2
            await store.aclose()

    on_loop(loop, work)


@pytest.mark.parametrize("loop", LOOPS)
def test_many_connections_together_take_a_bounded_share_of_each_turn_of_the_loop(
    loop: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = [0]
    took, renew = LoopTurn.took, LoopTurn._renew

    def counted(self: LoopTurn, connection: Any, count: int) -> None:
        turns[-1] += count
        took(self, connection, count)

    def renewed(self: LoopTurn) -> None:
        turns.append(0)
        renew(self)

    monkeypatch.setattr(LoopTurn, "took", counted)
    monkeypatch.setattr(LoopTurn, "_renew", renewed)

    async def work() -> None:
        async with RangeServer() as server:
            store = server.store()
            found = await asyncio.gather(
                *(store.get_ranges("x", [(n, (4 << 20) + n)]) for n in range(24))
            )
            assert all(one[0] == DATA[n : (4 << 20) + n] for n, one in enumerate(found))
            await store.aclose()

    on_loop(loop, work)
    assert sum(turns) > 48 << 20
    assert max(turns) <= long_body._ONE_TURN + 24 * long_body._LITTLE
