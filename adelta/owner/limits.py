"""What one client may take of the service: bytes, seconds, requests a second, connections.

Whoever goes beyond is refused before it costs anything: the length of a body is looked at before
its first byte is read, and a head that does not come to its end has its connection closed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adelta._clock import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

    from adelta.owner.metrics import Metrics

__all__ = ["Bodies", "Guards", "Rates", "RefusedError", "ServiceLimits", "read_body"]


@dataclass(frozen=True, slots=True)
class ServiceLimits:
    """The limits, in bytes and seconds.

    Attributes:
        body_bytes: of one request's body.
        all_bodies_bytes: of the bodies of all requests that are under way.
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


class Rates:
    """How often somebody did something: a bucket that fills with time, for each of the last many.

    `per_second` is the average that is allowed, and `burst` what is at once.
    """

    def __init__(self, per_second: float, burst: float, most: int = 10_000) -> None:
        self._per_second = per_second
        self._burst = burst
        self._most = most
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str) -> bool:
        """Whether it is allowed once more, which counts."""
        left = self.left(who)
        if left < 1:
            return False
        self._left[who] = (left - 1, monotonic())
        self._left.move_to_end(who)
        if len(self._left) > self._most:
            self._left.popitem(last=False)
        return True

    def left(self, who: str) -> float:
        """How often it is allowed now."""
        left, since = self._left.get(who, (self._burst, 0.0))
        return min(self._burst, left + (monotonic() - since) * self._per_second)


class Bodies:
    """The bytes of all bodies that are being read or worked on."""

    def __init__(self) -> None:
        self.taken = 0


async def read_body(request: web.Request, limits: ServiceLimits, bodies: Bodies) -> bytes:
    """The body of a request.

    Raises:
        RefusedError: it is too long, comes too slowly, or is compressed.
    """
    length = request.content_length
    if length is not None and length > limits.body_bytes:
        raise _too_long(limits)
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise RefusedError(415, "InvalidRequest", "bodies are not taken compressed")
    if bodies.taken > limits.all_bodies_bytes:
        raise RefusedError(503, "Unavailable", "too much is under way; try again", wait=1)
    body = bytearray()
    try:
        async with asyncio.timeout(limits.body_seconds):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limits.body_bytes:
                    raise _too_long(limits)
    except TimeoutError:
        raise RefusedError(
            408, "InvalidRequest", f"the body did not come within {limits.body_seconds:g} s"
        ) from None
    return bytes(body)


def _too_long(limits: ServiceLimits) -> RefusedError:
    return RefusedError(
        413, "InvalidRequest", f"a request may have {limits.body_bytes:,} bytes at most"
    )


class Guards:
    """Guards the connections of a server: one whose request has no end is closed."""

    def __init__(self, limits: ServiceLimits, metrics: Metrics) -> None:
        self.limits = limits
        self.metrics = metrics
        self.open: dict[object, Guard] = {}

    def protocol(self, inner: Callable[[], asyncio.Protocol]) -> Guard:
        """A protocol for a new connection, before the server's own."""
        return Guard(self, inner())

    def begun(self, request: web.Request) -> None:
        """The head of a request has come."""
        if guard := self.open.get(request.transport):
            guard.begun()

    def ended(self, request: web.Request) -> None:
        """A request has been answered."""
        if guard := self.open.get(request.transport):
            guard.ended()


class Guard(asyncio.Protocol):
    """Hands everything on to the server's protocol, and closes connections that are too slow."""

    def __init__(self, guards: Guards, inner: asyncio.Protocol) -> None:
        self._guards = guards
        self._inner = inner
        self._transport: Any = None  # uvloop's are of no class of asyncio
        self._timer: asyncio.TimerHandle | None = None
        self._blocked: asyncio.TimerHandle | None = None
        self._under_way = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a request."""
        self._transport = transport
        guards = self._guards
        self._inner.connection_made(transport)
        if len(guards.open) >= guards.limits.connections:
            guards.metrics.refused.labels("connections").inc()
            self._close()
            return
        guards.open[transport] = self
        guards.metrics.connections.set(len(guards.open))
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        for timer in (self._timer, self._blocked):
            if timer is not None:
                timer.cancel()
        self._guards.open.pop(self._transport, None)
        self._guards.metrics.connections.set(len(self._guards.open))
        self._inner.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Hand on what has come; the first bytes after a request begin the next."""
        if self._timer is None and not self._under_way:
            self._expect_head()
        self._inner.data_received(data)

    def eof_received(self) -> bool | None:
        """Hand on that nothing more comes."""
        return self._inner.eof_received()

    def pause_writing(self) -> None:
        """Hand on that the client reads too slowly, which it may for some time."""
        self._inner.pause_writing()
        loop = asyncio.get_running_loop()
        self._blocked = loop.call_later(self._guards.limits.body_seconds, self._too_slow)

    def resume_writing(self) -> None:
        """Hand on that it reads again."""
        if self._blocked is not None:
            self._blocked.cancel()
            self._blocked = None
        self._inner.resume_writing()

    def begun(self) -> None:
        """The head of a request has come."""
        self._stop_timer()
        self._under_way += 1

    def ended(self) -> None:
        """A request has been answered."""
        self._under_way -= 1

    def _expect_head(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(self._guards.limits.head_seconds, self._too_slow)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _too_slow(self) -> None:
        self._timer = None
        self._guards.metrics.refused.labels("slow").inc()
        self._close()

    def _close(self) -> None:
        self._transport.abort()
