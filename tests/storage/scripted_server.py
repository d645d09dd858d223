"""A server that answers every request as a test says, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import re
import ssl
from typing import TYPE_CHECKING

from adelta.storage.s3 import S3Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

__all__ = ["TAGGED", "Server", "told"]


class Server:
    """Answers request n with what `answer` says of it, and counts the bytes that were taken."""

    def __init__(
        self, answer: Callable[[int, str], Iterator[bytes]], certificate: Path | None = None
    ) -> None:
        self._answer = answer
        self.requests = self.sent = 0
        self._open: set[asyncio.StreamWriter] = set()
        self._tls = None
        if certificate is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(certificate)

    async def __aenter__(self) -> Server:
        self._server = await asyncio.start_server(self._met, "127.0.0.1", 0, ssl=self._tls)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for writer in self._open:
            writer.transport.abort()
        await asyncio.sleep(0.05)

    @property
    def endpoint(self) -> str:
        scheme = "http" if self._tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def store(self, **options: str) -> S3Store:
        given = {
            "aws_endpoint_url": self.endpoint,
            "aws_allow_http": "true",
            "aws_skip_signature": "true",
            "aws_region": "us-east-1",
            "max_retries": "0",
            "read_timeout": "60s",
        }
        return S3Store.from_options("bucket", "table", given | options)

    async def _met(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection, which ends with that, or with the server."""
        self._open.add(writer)
        try:
            await self._serve(reader, writer)
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                if length := re.search(r"(?i)\r\ncontent-length: (\d+)", head):
                    await reader.readexactly(int(length[1]))
                number, self.requests = self.requests, self.requests + 1
                for part in self._answer(number, head):
                    writer.write(part)
                    await writer.drain()
                    self.sent += len(part)
                    await asyncio.sleep(0)


TAGGED = 'etag: "1"\r\n'
"""The header by which an answer is one of an object."""


def told(body: bytes | str, status: str = "200 OK", headers: str = "") -> Iterator[bytes]:
    """An answer, of an object unless its headers leave out what one has."""
    data = body.encode() if isinstance(body, str) else body
    if "etag" not in headers.lower():
        headers = TAGGED + headers
    yield f"HTTP/1.1 {status}\r\n{headers}content-length: {len(data)}\r\n\r\n".encode() + data
