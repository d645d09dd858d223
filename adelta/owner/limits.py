"""What one client may take of the service: bytes, seconds, requests a second, connections.

Whoever goes beyond is refused before it costs anything: the length of a body is looked at before
its first byte is read. Slow connections are closed by `adelta.serving.connections`.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from aiohttp import ClientError
from aiohttp.http_exceptions import HttpProcessingError

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from aiohttp import web

__all__ = ["Answers", "Bodies", "RefusedError", "ServiceLimits"]

_SHORT = 256 << 10  # bytes of an answer; of as many there may be as there are connections


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The limits, in bytes and seconds.

    Attributes:
        body_bytes: of one request's body.
        all_bodies_bytes: of the bodies of all requests that are under way.
        all_answers_bytes: of all long answers that are being sent, unless it is one alone.
        inline_bytes: of a commit that is kept in the ledger; a longer one is put beside the log.
        head_seconds: from the first byte of a request, or the connection, to the end of its head.
        body_seconds: for the body.
        wait_seconds: that a long poll may take, and a wait for a backfill.
        idle_seconds: that a connection may be without a request.
        requests_per_second: of one token, on average; twice as many at once.
        failures_per_minute: requests without a token that counts, of one address.
        connections: at once.
        stop_seconds: that requests have to end when the service stops.
    """

    body_bytes: int = 64 << 20
    all_bodies_bytes: int = 512 << 20
    all_answers_bytes: int = 512 << 20
    inline_bytes: int = 256 << 10
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    wait_seconds: float = 30.0
    idle_seconds: float = 75.0
    requests_per_second: float = 5000.0
    failures_per_minute: float = 60.0
    connections: int = 4096
    stop_seconds: float = 20.0


class RefusedError(Exception):
    """A request that is refused for how it came: the status of HTTP, the kind, and why."""

    def __init__(self, status: int, kind: str, message: str, *, wait: int = 0) -> None:
        super().__init__(message)
        self.status, self.kind, self.message, self.wait = status, kind, message, wait


class Bodies:
    """The bodies of all requests that are under way, by the bytes that have come of them.

    What is only said to come takes nothing from others, and what comes unsaid counts like the rest.
    """

    def __init__(self, limits: ServiceLimits) -> None:
        self._limits = limits
        self._taken = 0

    @asynccontextmanager
    async def body_of(self, request: web.Request) -> AsyncIterator[bytes]:
        """The body of a request, which counts until the block is left; empty where it has none.

        Raises:
            RefusedError: it is too long, comes too slowly or not to its end, or is compressed.
        """
        body = bytearray()
        try:
            if request.can_read_body:
                await self._read(request, body)
            yield bytes(body)
        finally:
            self._taken -= len(body)

    async def _read(self, request: web.Request, body: bytearray) -> None:
        limits, length = self._limits, request.content_length
        if length is not None and length > limits.body_bytes:
            raise self._too_long()
        if request.headers.get("Content-Encoding", "identity") != "identity":
            raise RefusedError(415, "InvalidRequest", "bodies are not taken compressed")
        try:
            async with asyncio.timeout(limits.body_seconds):
                async for chunk in request.content.iter_any():
                    body += chunk
                    self._taken += len(chunk)
                    if len(body) > limits.body_bytes:
                        raise self._too_long()
                    if self._taken > limits.all_bodies_bytes:
                        raise _too_much()
        except TimeoutError:
            raise RefusedError(
                408, "InvalidRequest", f"the body did not come within {limits.body_seconds:g} s"
            ) from None
        except (ConnectionError, HttpProcessingError):
            raise RefusedError(400, "InvalidRequest", "the body did not come to its end") from None

    def _too_long(self) -> RefusedError:
        most = self._limits.body_bytes
        return RefusedError(413, "InvalidRequest", f"a request may have {most:,} bytes at most")


class Answers:
    """The long answers that are being sent, by their bytes: whoever reads slowly has them kept."""

    def __init__(self, limits: ServiceLimits) -> None:
        self._most = limits.all_answers_bytes
        self._taken = 0

    async def send(self, request: web.Request, response: web.Response) -> None:
        """Send an answer, which counts until it has been sent; a short one is left to be sent.

        What says that something was ratified is short, and is never refused.

        Raises:
            RefusedError: too many are under way.
        """
        length = len(response.body) if isinstance(response.body, bytes) else 0
        if length <= _SHORT:
            return
        if self._taken and self._taken + length > self._most:
            raise _too_much()
        self._taken += length
        try:
            await response.prepare(request)
            await response.write_eof()
        except (ConnectionError, ClientError):
            pass  # nobody is there any more to be told
        finally:
            self._taken -= length


def _too_much() -> RefusedError:
    return RefusedError(503, "Unavailable", "too much is under way; try again", wait=1)
