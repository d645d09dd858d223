"""A socket that listens: who asked it for what, and with which keys."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Heard", "Listener"]


@dataclass(frozen=True, slots=True)
class Heard:
    """The head of one request; `host` is that of a tunnel, if it came through one."""

    host: str
    head: str

    @property
    def target(self) -> str:
        return self.head.split(" ")[1]

    def bears(self, *secrets: str) -> bool:
        return any(secret in self.head for secret in secrets)


class Listener:
    """Answers for `objects`, by their target, and else with `status` and `headers`.

    With a certificate it is a proxy, too, that is itself whichever server is asked for.

    Attributes:
        heard: every request.
        connections: how many there have been.
        tunnels: the servers that were asked for.
    """

    def __init__(self, certificate: Path | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.status = "404 Not Found"
        self.headers = ""
        self.heard: list[Heard] = []
        self.connections = 0
        self.tunnels: list[str] = []
        self._certificate = certificate

    async def __aenter__(self) -> Listener:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def asked(self, text: str) -> list[Heard]:
        """The requests whose target has `text` in it."""
        return [request for request in self.heard if text in request.target]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        host = ""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, ssl.SSLError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                method, target, _ = head.split(" ", 2)
                if method == "CONNECT":
                    host = target
                    self.tunnels.append(host)
                    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
                    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                    assert self._certificate is not None
                    context.load_cert_chain(self._certificate)
                    await writer.start_tls(context)
                    continue
                self.heard.append(Heard(host, head))
                body = self.objects.get(target.partition("?")[0], b"")
                status = "200 OK" if body else self.status
                writer.write(
                    f"HTTP/1.1 {status}\r\n{self.headers}content-length: {len(body)}\r\n"
                    "last-modified: Thu, 01 Jan 2026 00:00:00 GMT\r\n\r\n".encode()
                    + (b"" if method == "HEAD" else body)
                )
                await writer.drain()
        writer.close()
