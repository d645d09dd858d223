"""A load balancer: one address for several servers, of which any may be dead for a while."""

from __future__ import annotations

import asyncio
import random
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

__all__ = ["balanced"]

_PATIENCE = 60.0  # seconds for which a new connection waits for a server that lives
_PAUSE = 0.05


@asynccontextmanager
async def balanced(ports: Sequence[int]) -> AsyncIterator[int]:
    """The port that passes each new connection on to one of `ports` on which something listens.

    A connection ends with that of the server behind it.
    """
    under_way: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        under_way.add(task)
        with suppress(OSError):
            try:
                behind = await _connected(ports)
                if behind is not None:
                    await _joined((reader, writer), behind)
            finally:
                writer.close()
        under_way.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


_Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _connected(ports: Sequence[int]) -> _Streams | None:
    """A connection to one of the servers; None where none comes to life."""
    end = asyncio.get_running_loop().time() + _PATIENCE
    while asyncio.get_running_loop().time() < end:
        for port in random.sample(ports, len(ports)):
            with suppress(OSError):
                return await asyncio.open_connection("127.0.0.1", port)
        await asyncio.sleep(_PAUSE)
    return None


async def _joined(one: _Streams, other: _Streams) -> None:
    """Pass on what comes from each side to the other, until one of them ends."""
    both = [
        asyncio.ensure_future(_passed(one[0], other[1])),
        asyncio.ensure_future(_passed(other[0], one[1])),
    ]
    try:
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
    finally:
        other[1].close()
        for task in both:
            task.cancel()
        await asyncio.gather(*both, return_exceptions=True)


async def _passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
