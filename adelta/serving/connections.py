"""Connections of a server: one whose request has no end, or that reads no answer, is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp import web

__all__ = ["ConnectionCounts", "ConnectionLimits", "Guards"]


class ConnectionLimits(Protocol):
    """What clients may take."""

    @property
    def head_seconds(self) -> float:
        """From the first byte of a request, or the connection, to the end of its head."""
        ...

    @property
    def body_seconds(self) -> float:
        """For which a client may leave an answer unread."""
        ...

    @property
    def connections(self) -> int:
        """How many there may be at once."""
        ...


class ConnectionCounts(Protocol):
    """Who is told how many connections there are, and of those that are closed."""

    def connections_open(self, number: int) -> None:
        """Take note of how many connections are open."""
        ...

    def connection_refused(self, reason: str) -> None:
        """Count a connection that is closed for a reason."""
        ...


class Guards:
    """Guards the connections of a server: one whose request has no end is closed."""

    def __init__(self, limits: ConnectionLimits, counts: ConnectionCounts | None = None) -> None:
        self.limits = limits
        self._counts = counts
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

    def count_open(self) -> None:
        """Tell how many connections are open."""
        if self._counts is not None:
            self._counts.connections_open(len(self.open))

    def count_refused(self, reason: str) -> None:
        """Tell that a connection is closed for ``connections``, too many, or for being ``slow``."""
        if self._counts is not None:
            self._counts.connection_refused(reason)


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
            guards.count_refused("connections")
            self._close()
            return
        guards.open[transport] = self
        guards.count_open()
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        for timer in (self._timer, self._blocked):
            if timer is not None:
                timer.cancel()
        self._guards.open.pop(self._transport, None)
        self._guards.count_open()
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
        self._guards.count_refused("slow")
        self._close()

    def _close(self) -> None:
        self._transport.abort()
