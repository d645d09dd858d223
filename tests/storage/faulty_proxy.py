"""A proxy before a real S3 server that lets chosen requests meet a chosen fate."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Fate", "FaultyProxy"]


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


class FaultyProxy:
    """Forwards requests one by one; `fates` are met in order, then `choose` is asked.

    Attributes:
        seen: method and target of every request.
        most_at_once: the most requests that were under way together.
    """

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream.removeprefix("http://").partition(":")
        self.fates: list[Fate] = []
        self.choose: Callable[[str, str], Fate | None] = lambda _method, _target: None
        self.seen: list[tuple[str, str]] = []
        self.most_at_once = 0
        self._now = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> FaultyProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
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
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ", 2)
        self.seen.append((method, target))
        fate = self.fates.pop(0) if self.fates else self.choose(method, target)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            answer = b""
            if fate is None or fate.applied:
                answer = await self._forward(head, body, method)
        finally:
            self._now -= 1
        if fate is None:
            writer.write(answer)
        elif fate.inside:
            writer.write(answer[: max(20, len(answer) - 5)])
        elif fate.status:
            region = f"<Region>{fate.region}</Region>" if fate.region else ""
            error = f"<Error><Code>{fate.code}</Code>{region}</Error>" if fate.code else ""
            error = "" if method == "HEAD" else error
            start = f"HTTP/1.1 {fate.status} Fate\r\ncontent-length: {len(error)}\r\n\r\n"
            writer.write(f"{start}{error}".encode())
        await writer.drain()
        return fate is None or fate.status != 0

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
