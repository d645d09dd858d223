"""Long bodies of HTTP answers, received where they are wanted.

aiohttp hands a body on in chunks: from the socket to a first copy, through its parser to a second,
and joined to a third, all on the event loop. A `BodyConnection` is aiohttp's connection that, once
the head of an answer with a long body is parsed, lets the system write the rest of the body to the
memory that the caller gives. The connection waits for that memory; a body that nobody claims goes
aiohttp's way. A body whose length only its sender states gets memory as it comes: no more than as
much again as has come of it, and `LONGEST_AHEAD` at first.

What comes when no answer is waited for ends the connection: aiohttp would take it for the answer to
the next request, as a server's that answers twice.

A server that sends only a few bytes now and then times out like one that sends nothing. Pauses of
the receiver, and time in which the event loop was busy, do not count.

However many connections have bytes at once, the loop takes no more than a bounded number of them
between two turns: those that come after it are asked again at the next turn.
"""

from __future__ import annotations

import asyncio
import ctypes
from typing import TYPE_CHECKING, Any, cast

import pyarrow as pa
from aiohttp import ClientPayloadError, SocketTimeoutError

from adelta._clock import monotonic
from adelta._concurrency import in_io_thread
from adelta._memory import lasting_pool
from adelta.storage._aiohttp import Connection

if TYPE_CHECKING:
    from collections.abc import Sequence

    import aiohttp
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

__all__ = [
    "LEAST_BYTES",
    "LONGEST_AHEAD",
    "LONG_BODY",
    "BodyConnection",
    "LoopTurn",
    "hold_to_rate",
    "memory_for",
    "place_body",
    "receive_body",
    "unclaim",
    "waiting_body",
]

LEAST_BYTES = 1 << 10
"""Bytes that have to arrive within each read timeout, unless the response ends earlier."""

LONG_BODY = 128 << 10
"""Bytes from which on a body waits to be claimed."""

LONGEST_AHEAD = 4 << 20
"""Bytes of memory that a body gets before any of it has come."""

_HEAD = 64 << 10  # bytes that are read at once until the head is there, and of short bodies
_ONE_READ = 1 << 20
_LITTLE = 16 << 10
_ONE_TURN = 4 << 20
_FEWEST_ARRIVALS = 4


class LoopTurn:
    """How many bytes the connections of one event loop may still take before its next turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._left = _ONE_TURN
        self._renewing = False
        self._waiting: list[BodyConnection] = []

    @property
    def one_read(self) -> int:
        """How many bytes the next read may bring."""
        return max(_LITTLE, min(_ONE_READ, self._left))

    def took(self, connection: BodyConnection, count: int) -> None:
        """Note what `connection` took; it takes no more for now where that was too much."""
        self._left -= count
        if not self._renewing:
            self._renewing = True
            self._loop.call_soon(self._renew)
        if self._left <= 0:
            connection.let_read(False)
            self._waiting.append(connection)

    def _renew(self) -> None:
        self._renewing = False
        self._left = _ONE_TURN
        waiting, self._waiting = self._waiting, []
        for connection in waiting:
            connection.let_read(True)


class BodyConnection(Connection):
    """One connection of aiohttp's, with memory for what comes next.

    A body may take `timeout` seconds: aiohttp sees to that for what it receives itself, alone.

    The head of a response, and its body after `hold_to_rate`, has to end or to bring `LEAST_BYTES`
    within `read_timeout` seconds. aiohttp itself only limits how long nothing arrives.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        turn: LoopTurn,
        timeout: float | None = None,
        read_timeout: float | None = None,
    ) -> None:
        super().__init__(loop)
        self.timeout = timeout
        self._patience = read_timeout
        self._held_to_rate = False
        self._arrived_at: float | None = None  # when the last bytes arrived
        self._waited_s = 0.0  # how long `_arrived_bytes` took
        self._arrived_bytes = 0
        self._turn = turn
        self._head = memoryview(bytearray(_HEAD))
        self._unclaimed: StreamReader | None = None
        self._claimed: StreamReader | None = None
        self._left = 0  # bytes of the claimed body that no memory is there for yet
        self._rest: memoryview | None = None
        self._filled: asyncio.Future[None] | None = None
        self._more_to_come = False
        self._asked = False
        self._answer: StreamReader | None = None  # the body of the last one

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there."""
        super().connection_made(transport)
        cast("asyncio.Transport", transport).set_protocol(_Receiver(self))

    def let_read(self, allowed: bool) -> None:
        """Go on reading from the socket, or pause.

        The read timeout is for a sender that sends nothing: it does not run during a pause.
        """
        if self.transport is None or self.transport.is_closing():
            return
        if allowed:
            self.transport.resume_reading()
            self._reschedule_timeout()
        else:
            self.transport.pause_reading()
            self._drop_timeout()

    def next_memory(self) -> memoryview:
        """Where the next bytes are to be written."""
        return self._head if self._rest is None else self._rest[: self._turn.one_read]

    def came(self, count: int) -> None:
        """So many bytes were written there."""
        if self._rest is None:
            self.data_received(bytes(self._head[:count]))
            if self._more_to_come:  # for which aiohttp would wait as long as the request may take
                self._reschedule_timeout()
            if not self._waits_for_nothing():
                self._check_rate(count)
            return
        self._reschedule_timeout()
        rest = self._rest[count:]
        if rest:
            self._rest = rest
            self._turn.took(self, count)
            self._check_rate(count)
            return
        self._rest = None
        if self._left:
            self.let_read(False)
        else:
            self._parser = None  # it has not seen the body; each request gets a new one
            if self._payload is not None:
                self._payload.feed_eof()
        self._wake()

    def hold_to_rate(self) -> None:
        """Apply the least rate to the body of the response as well."""
        self._held_to_rate = True

    def _check_rate(self, count: int) -> None:
        """Fail the response if too few bytes have arrived during the last read timeout.

        A gap between two arrivals counts as a quarter of the read timeout at most. A longer gap may
        be a pause of the receiver or a busy event loop; a server that really sends nothing for the
        read timeout runs into aiohttp's own timeout.
        """
        if not self._held_to_rate or self._patience is None:
            return
        now = monotonic()
        if self._arrived_at is not None:
            self._waited_s += min(now - self._arrived_at, self._patience / _FEWEST_ARRIVALS)
        self._arrived_at = now
        self._arrived_bytes += count
        if self._waited_s < self._patience:
            return
        if self._arrived_bytes < LEAST_BYTES:
            error = SocketTimeoutError(
                f"{self._arrived_bytes} bytes of the answer came within the read timeout, "
                f"{self._patience:g} s, and {LEAST_BYTES} have to"
            )
            if self._payload is not None:
                self._payload.set_exception(error)
            self.set_exception(error)
        self._waited_s, self._arrived_bytes = 0.0, 0

    def set_response_params(self, **params: Any) -> None:
        """A request is about to be sent."""
        self._asked, self._answer = True, None
        self._held_to_rate, self._arrived_at = True, None
        self._waited_s, self._arrived_bytes = 0.0, 0
        super().set_response_params(**params)

    def data_received(self, data: bytes) -> None:
        """Bytes have come, aiohttp's way."""
        if data and self._waits_for_nothing():
            self.force_close()
            self.close()
        else:
            super().data_received(data)

    def _waits_for_nothing(self) -> bool:
        return not self._asked or (self._answer is not None and self._answer.is_eof())

    def _wake(self) -> None:
        if self._filled is not None and not self._filled.done():
            self._filled.set_result(None)

    def set_exception(self, *error: Any) -> None:
        """Nothing more will come."""
        super().set_exception(*error)
        self._wake()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The connection is gone."""
        super().connection_lost(exc)
        self._wake()

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], *size: Any) -> None:
        """The head of an answer is there."""
        message, payload = data
        self._more_to_come = 100 <= message.code < 200 and message.code != 101
        if not self._more_to_come:
            self._answer = payload
            self._held_to_rate = False
        length = message.headers.get("content-length", "")
        if length.isdecimal() and int(length) >= LONG_BODY and not payload.is_eof():
            self._unclaimed = payload
            self.let_read(False)
        super().feed_data(data, *size)

    def waits(self, payload: StreamReader) -> bool:
        """Whether the body is one that waits to be claimed."""
        return self._unclaimed is payload

    def unclaim(self) -> None:
        """Receive the body that waits aiohttp's way."""
        self._unclaimed = None
        self.let_read(True)

    async def fill(self, memory: memoryview, left: int) -> None:
        """Receive the next bytes of the body that waits, or of the one claimed so, to `memory`.

        `left` is how many bytes of the body come after them.
        """
        if self._unclaimed is not None:
            self._claimed, self._unclaimed = self._unclaimed, None
        payload = self._claimed
        assert payload is not None
        came = payload.read_nowait(len(memory))
        memory[: len(came)] = came
        self._left = left
        if len(came) < len(memory):
            self._rest = memory[len(came) :]
            self._filled = asyncio.get_running_loop().create_future()
            self.let_read(True)
            await self._filled
            if (error := payload.exception()) is not None:
                raise error
            if self._rest is not None:
                raise ClientPayloadError("the connection ended inside the body")


class _Receiver(asyncio.BufferedProtocol):
    """What the event loop sees of a connection: aiohttp's own kind takes no memory, only bytes."""

    def __init__(self, connection: BodyConnection) -> None:
        self._connection = connection

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._connection.next_memory()

    def buffer_updated(self, nbytes: int) -> None:
        self._connection.came(nbytes)

    def eof_received(self) -> None:
        self._connection.eof_received()

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)


async def memory_for(lengths: Sequence[int]) -> list[memoryview]:
    """Writable memory of Arrow's of each length; Arrow takes it again when nobody sees it.

    The system gives memory when it is first written to, and clears it then. That is long work, so
    it is done in a thread.
    """
    if sum(lengths) < LONG_BODY:
        return [
            memoryview(pa.allocate_buffer(length, memory_pool=lasting_pool())).cast("B")
            for length in lengths
        ]
    return await in_io_thread(lambda: [_written(length) for length in lengths])


def _new(length: int) -> pa.Buffer:
    return pa.allocate_buffer(length, memory_pool=lasting_pool())


def _written(length: int) -> memoryview:
    memory = _new(length)
    ctypes.memset(memory.address, 0, length)  # while other threads run
    return memoryview(memory).cast("B")


def waiting_body(response: aiohttp.ClientResponse) -> int | None:
    """The length of the body where it is a long one that waits to be claimed."""
    connection = None if response.connection is None else response.connection.protocol
    if isinstance(connection, BodyConnection) and connection.waits(response.content):
        return response.content_length
    return None


def unclaim(response: aiohttp.ClientResponse) -> None:
    """Let the body of the answer come aiohttp's way, where it is a long one that waits."""
    if waiting_body(response) is not None:
        _connection(response).unclaim()


def hold_to_rate(response: aiohttp.ClientResponse) -> None:
    """Fail the response if the rest of its body arrives at less than the least rate."""
    connection = None if response.connection is None else response.connection.protocol
    if isinstance(connection, BodyConnection):
        connection.hold_to_rate()


async def place_body(response: aiohttp.ClientResponse, into: memoryview) -> None:
    """Receive the waiting body to `into`, which has its length.

    Raises:
        TimeoutError: it takes longer than a request may.
        ClientError: the connection is broken.
    """
    connection = _connection(response)
    async with asyncio.timeout(connection.timeout):
        await connection.fill(into, 0)


async def receive_body(response: aiohttp.ClientResponse, length: int) -> list[memoryview]:
    """Receive the waiting body, of which its sender says that it is so long, in pieces.

    Raises:
        TimeoutError: it takes longer than a request may.
        ClientError: the connection is broken.
    """
    connection = _connection(response)
    pieces: list[memoryview] = []
    received = 0
    async with asyncio.timeout(connection.timeout):
        while received < length:
            size = min(length - received, max(LONGEST_AHEAD, received))
            (piece,) = await memory_for([size])
            received += size
            await connection.fill(piece, length - received)
            pieces.append(piece)
    return pieces


def _connection(response: aiohttp.ClientResponse) -> BodyConnection:
    assert response.connection is not None
    connection = response.connection.protocol
    assert isinstance(connection, BodyConnection)
    return connection
