"""A proxy before a real S3 server that lets chosen requests meet a chosen fate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

__all__ = ["Act", "Exchange", "Fate", "FaultyProxy"]

Act: TypeAlias = "Callable[[Exchange], Awaitable[bool]]"
"""What becomes of a request, and whether its connection goes on."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of one request.

    `applied` says whether the server gets it. Then the client gets the answer `status` and `code`,
    or, with a status of 0, its connection is cut; `inside`: in the middle of the server's answer.
    """

    status: int
    code: str = ""
    applied: bool = False
    inside: bool = False
    region: str = ""

    @classmethod
    def answer(
        cls, status: int, code: str = "", *, applied: bool = False, region: str = ""
    ) -> Fate:
        return cls(status, code, applied, region=region)

    @classmethod
    def cut_before(cls) -> Fate:
        return cls(0)

    @classmethod
    def cut_after(cls) -> Fate:
        return cls(0, applied=True)

    @classmethod
    def cut_inside(cls) -> Fate:
        return cls(0, applied=True, inside=True)

    def __str__(self) -> str:
        where = "inside" if self.inside else "after" if self.applied else "before"
        return f"{self.status or 'cut'}-{self.code or 'plain'}-{where}"

    async def __call__(self, exchange: Exchange) -> bool:
        answer = await exchange.forward() if self.applied else b""
        if self.inside:
            exchange.send(answer[: max(20, len(answer) - 5)])
        elif self.status:
            region = f"<Region>{self.region}</Region>" if self.region else ""
            error = f"<Error><Code>{self.code}</Code>{region}</Error>" if self.code else ""
            exchange.send_answer(self.status, error.encode())
        return self.status != 0


@dataclass
class Exchange:
    """One request on its way through the proxy, and the connection that its answer goes to."""

    proxy: FaultyProxy
    head: bytes
    body: bytes
    writer: asyncio.StreamWriter

    @property
    def method(self) -> str:
        return self.head.partition(b" ")[0].decode()

    @property
    def target(self) -> str:
        return self.head.split(b" ", 2)[1].decode()

    async def forward(self, body: bytes | None = None) -> bytes:
        """Let the server carry out the request, with another body if one is given; its answer."""
        return await self.proxy.forward(self.head, self.body if body is None else body, self.method)

    def send(self, data: bytes) -> None:
        """Pass bytes to the client as they are."""
        self.writer.write(data)

    def send_answer(self, status: int, body: bytes = b"", *headers: str) -> None:
        """Pass an answer to the client."""
        body = b"" if self.method == "HEAD" else body
        lines = [f"HTTP/1.1 {status} Fate", f"content-length: {len(body)}", *headers]
        self.send("\r\n".join([*lines, "", ""]).encode() + body)

    def later(self, work: Callable[[], Awaitable[object]], seconds: float) -> None:
        """Do something after a while, whatever has become of the client by then."""

        async def run() -> None:
            await asyncio.sleep(seconds)
            await work()

        self.proxy.keep(asyncio.ensure_future(run()))


class FaultyProxy:
    """Forwards requests one by one; `fates` are met in order, then `choose` is asked.

    Attributes:
        seen: method and target of every request.
        most_at_once: the most requests that were under way together.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.removeprefix("http://").partition(":")
        self.fates: list[Act] = []
        self.choose: Callable[[str, str], Act | None] = lambda _method, _target: None
        self.seen: list[tuple[str, str]] = []
        self.most_at_once = 0
        self._now = 0
        self._tasks: set[asyncio.Future[Any]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def __aenter__(self) -> FaultyProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._accept_no_more()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self.keep(task)
        try:
            while request := await _message(reader):
                if not await self._meet(*request, writer):
                    break
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # the client or the test went away
        finally:
            writer.transport.abort()

    async def _meet(self, head: bytes, body: bytes, writer: asyncio.StreamWriter) -> bool:
        """Carry out one request, and say whether the connection goes on."""
        exchange = Exchange(self, head, body, writer)
        method, target = exchange.method, exchange.target
        self.seen.append((method, target))
        fate = self.fates.pop(0) if self.fates else self.choose(method, target)
        if fate is not None:
            goes_on = await fate(exchange)
        else:
            exchange.send(await exchange.forward())
            goes_on = True
        await writer.drain()
        return goes_on

    async def refuse(self, seconds: float) -> None:
        """Let no connection be made for a while."""
        if not self._server.is_serving():
            return
        try:
            await self._accept_no_more()
            await asyncio.sleep(seconds)
        finally:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)

    async def _accept_no_more(self) -> None:
        """Stop listening. asyncio would leave open what was accepted and has no transport yet."""
        loop, server = asyncio.get_running_loop(), self._server
        for listening in server.sockets:
            loop.remove_reader(listening.fileno())
        await asyncio.sleep(0)
        server.close()

    def keep(self, task: asyncio.Future[Any]) -> None:
        """End the task with the proxy."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def forward(self, head: bytes, body: bytes, method: str) -> bytes:
        """What the server answers to a request."""
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            return await self._forward(head, body, method)
        finally:
            self._now -= 1

    async def _forward(self, head: bytes, body: bytes, method: str) -> bytes:
        host, _, port = self._upstream
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            writer.write(head + b"\r\n\r\n" + body)
            answer = await _message(reader, bodiless=method == "HEAD")
            assert answer is not None
            return answer[0] + b"\r\n\r\n" + answer[1]
        finally:
            writer.close()
            await writer.wait_closed()


async def _message(
    reader: asyncio.StreamReader, *, bodiless: bool = False
) -> tuple[bytes, bytes] | None:
    """Head and body of one message as they stand, None where the connection ended."""
    try:
        head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
    except asyncio.IncompleteReadError:
        return None
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    if bodiless:
        return head, b""
    if headers.get(b"transfer-encoding", b"") != b"chunked":
        return head, await reader.readexactly(int(headers.get(b"content-length", b"0")))
    body = b""
    while True:
        line = await reader.readuntil(b"\r\n")
        chunk = await reader.readexactly(int(line, 16) + 2)
        body += line + chunk
        if len(chunk) == 2:
            return head, body
