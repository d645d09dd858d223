"""Calls of a file system of fsspec: awaited where it is asynchronous, in worker threads where not.

A file system that blocks keeps one connection, which one thread may use at a time: there are as
many instances as calls under way, made when they are needed. One that is asynchronous belongs to
the event loop that it was made in. Neither keeps listings, which others may have changed since.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from threading import Lock
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import anyio

from adelta._concurrency import in_io_thread
from adelta.storage.fsspec_answers import is_answer

__all__ = ["AsyncCalls", "BlockingCalls", "Calls", "Make"]

Make = Callable[..., Any]
"""Makes a file system with further arguments; it may connect, and so block."""

_AT_ONCE = 8


class Calls(Protocol):
    """How a file system is called."""

    async def call(self, name: str, *args: Any, **how: Any) -> Any:
        """What its method `name` returns, for the loop that asks. Raises: whatever that raises."""
        ...

    async def aclose(self) -> None:
        """Give connections back; later calls make new ones."""
        ...


class BlockingCalls:
    """Calls of a file system that blocks, each in a worker thread and by an instance of its own."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._idle: list[Any] = []
        self._lock = Lock()

    async def call(self, name: str, *args: Any, **how: Any) -> Any:
        """What the method `name` returns. Raises: whatever it raises."""
        return await in_io_thread(self._call, name, *args, **how)

    def _call(self, name: str, *args: Any, **how: Any) -> Any:
        with self._lock:
            fs = self._idle.pop() if self._idle else None
        if fs is None:
            fs = _prepared(self._make(skip_instance_cache=True))
        try:
            found = getattr(fs, name)(*args, **how)
        except Exception as error:
            if is_answer(error):
                self._give_back(fs)
            else:  # it may have lost its connection, and so may the others
                with self._lock:
                    self._idle.clear()
            raise
        self._give_back(fs)
        return found

    def _give_back(self, fs: Any) -> None:
        with self._lock:
            if len(self._idle) < _AT_ONCE:
                self._idle.append(fs)

    async def aclose(self) -> None:
        """Let the instances go, which close their connections then."""
        with self._lock:
            idle, self._idle = self._idle, []
        await in_io_thread(idle.clear)


class AsyncCalls:
    """Calls of an asynchronous file system, which has one instance a loop."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, Any] = WeakKeyDictionary()

    async def call(self, name: str, *args: Any, **how: Any) -> Any:
        """What the coroutine ``_name`` returns. Raises: whatever it raises."""
        loop = asyncio.get_running_loop()
        fs = self._by_loop.get(loop)
        if fs is None:
            made = await in_io_thread(
                self._make, asynchronous=True, loop=loop, skip_instance_cache=True
            )
            fs = self._by_loop.setdefault(loop, _prepared(made))
        return await getattr(fs, f"_{name}")(*args, **how)

    async def aclose(self) -> None:
        """Close this loop's session, where it is one that can be closed by itself."""
        fs = self._by_loop.pop(asyncio.get_running_loop(), None)
        session = getattr(fs, "_session", None) or getattr(fs, "session", None)
        close = getattr(session, "close", None)
        if close is not None:
            with anyio.CancelScope(shield=True):
                closing = close()
                if hasattr(closing, "__await__"):
                    await closing


def _prepared(fs: Any) -> Any:
    """The file system, which keeps no listings from now on, and sends at once what it sends."""
    cache = getattr(fs, "dircache", None)
    if cache is not None and hasattr(cache, "use_listings_cache"):
        cache.use_listings_cache = False
    transport = getattr(getattr(fs, "client", None), "get_transport", None)
    if transport is not None and (sock := getattr(transport(), "sock", None)) is not None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # SFTP asks in turns
    return fs
