"""Pieces of an object on their way to the store while more of them are made.

Few bytes are held until they are complete, and put. More are streamed: the upload runs beside the
task that makes the pieces, and `send` holds that task up while too many bytes wait.
"""

from __future__ import annotations

import asyncio
import enum
from collections import deque
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

from adelta._concurrency import in_thread
from adelta._read_ahead import ReadAhead

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from adelta.storage.object_store import ObjectMeta, ObjectStore

__all__ = ["QUEUE_BYTES", "STREAM_FROM_BYTES", "Upload"]

STREAM_FROM_BYTES: Final = 8 * 1024 * 1024
"""An object is streamed from this size on."""

QUEUE_BYTES: Final = 16 * 1024 * 1024
"""How many bytes may wait for the store before `Upload.send` waits too."""


class _Stage(enum.Enum):
    STARTED = enum.auto()
    STORED = enum.auto()


class Upload:
    """The pieces of one object on their way to the store.

    Used by one task at a time. A call that fails leaves nothing to do but `cancel`.
    """

    def __init__(self, store: ObjectStore, path: str) -> None:
        self._store = store
        self._path = path
        self._pieces: deque[bytes] = deque()
        self._waiting = 0  # bytes in `_pieces`
        self._complete = False
        self._ended = False
        self._arrived = asyncio.Event()
        self._taken = asyncio.Event()
        self._stream: ReadAhead[_Stage, ObjectMeta | None] | None = None

    async def send(self, pieces: list[bytes]) -> None:
        """Hand over pieces; returns when few enough wait for the store."""
        self._add(pieces)
        if self._stream is None:
            if self._waiting < STREAM_FROM_BYTES:
                return
            # The first result says that the second, the upload, is under way.
            self._stream = ReadAhead(self._run, _Stage, limit=2)
            await anext(self._stream)
        while self._waiting > QUEUE_BYTES and not self._ended:
            self._taken.clear()
            await self._taken.wait()
        if self._ended:  # before all was sent: it failed, and says why
            await anext(self._stream)

    async def finish(self, pieces: list[bytes]) -> None:
        """Hand over the last pieces; returns when the object is there."""
        self._add(pieces)
        self._complete = True
        if self._stream is None:
            data = await in_thread(b"".join, list(self._pieces))
            self._pieces.clear()
            await self._store.put(self._path, data)
            return
        async with self._stream:
            await anext(self._stream)

    async def cancel(self) -> None:
        """Withdraw the upload."""
        self._pieces.clear()
        if self._stream is not None:
            await self._stream.aclose()

    def _add(self, pieces: list[bytes]) -> None:
        self._pieces.extend(pieces)
        self._waiting += sum(map(len, pieces))
        self._arrived.set()

    async def _run(self, stage: _Stage) -> ObjectMeta | None:
        if stage is _Stage.STARTED:
            return None
        try:
            async with aclosing(self._chunks()) as chunks:
                return await self._store.put_stream(self._path, chunks)
        finally:
            self._ended = True
            self._taken.set()

    async def _chunks(self) -> AsyncGenerator[bytes, None]:
        while True:
            while self._pieces:
                piece = self._pieces.popleft()
                self._waiting -= len(piece)
                self._taken.set()
                yield piece
            if self._complete:
                return
            self._arrived.clear()
            await self._arrived.wait()
