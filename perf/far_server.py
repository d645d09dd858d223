"""A real S3 server that is some milliseconds away."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["DelayingProxy", "far_server"]

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # for the tests' server


class _Link:
    """What all connections share: so many bytes a second, one after the other."""

    def __init__(self, bytes_per_second: float) -> None:
        self._rate = bytes_per_second
        self._free = 0.0

    def wait(self, now: float, count: int) -> float:
        """Seconds until so many bytes are through that come now."""
        self._free = max(self._free, now) + count / self._rate
        return self._free - now


class _Side(asyncio.Protocol):
    """One side of a connection, whose bytes go to the other side later."""

    def __init__(self, seconds: float, link: _Link | None = None) -> None:
        self._seconds = seconds
        self._link = link
        self._loop = asyncio.get_running_loop()
        self._under_way: deque[Callable[[_Side], None]] = deque()
        self.transport: Any = None
        self.other: asyncio.Future[_Side] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        later = self._seconds
        if self._link is not None:
            later += self._link.wait(self._loop.time(), len(data))
        self._pass_in(later, lambda side: side.send(data))

    def connection_lost(self, error: Exception | None) -> None:
        self._pass_in(self._seconds, lambda side: side.transport.close())

    def send(self, data: bytes) -> None:
        """Send what has come from the other side, if there is still somebody."""
        if not self.transport.is_closing():
            self.transport.write(data)

    def _pass_in(self, seconds: float, what: Callable[[_Side], None]) -> None:
        """Do it with the other side so much later.

        Timers of a busy loop may come in another order: each does what is next.
        """
        self._under_way.append(what)
        self._loop.call_later(seconds, self._pass)

    def _pass(self) -> None:
        """Do what is next with the other side, once that is connected."""
        what = self._under_way.popleft()
        self.other.add_done_callback(lambda found: what(found.result()))


class _Near(_Side):
    """The side that the client connects to."""

    def __init__(self, target: int, seconds: float, link: _Link | None) -> None:
        super().__init__(seconds)
        self._target = target
        self._down = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._task = self._loop.create_task(self._connect())

    async def _connect(self) -> None:
        far = _Side(self._seconds, self._down)
        far.other.set_result(self)
        try:
            await self._loop.create_connection(lambda: far, "127.0.0.1", self._target)
        except OSError:
            self.transport.close()
        else:
            self.other.set_result(far)


class DelayingProxy:
    """A TCP proxy in a thread of its own that passes every byte on a fixed time later.

    Where `bytes_per_second` is given, all that comes from the server comes at most so fast.
    """

    def __init__(self, target: int, seconds: float, bytes_per_second: float | None = None) -> None:
        self._target = target
        self._seconds = seconds
        self._link = None if bytes_per_second is None else _Link(bytes_per_second)
        self._loop = uvloop.new_event_loop()
        self.port = 0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            self._loop.create_server(
                lambda: _Near(self._target, self._seconds, self._link), "127.0.0.1", 0
            )
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()

    def stop(self) -> None:
        """End every connection, and the thread."""
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


@contextlib.contextmanager
def far_server(
    one_way: float, bytes_per_second: float | None = None
) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Storage options for an S3 server itself, and for it behind `one_way` seconds each way.

    Where `bytes_per_second` is given, the line from there carries so much. The bucket ``far`` is
    there.
    """
    from tests.support.s3_server import running_server

    with running_server() as server:
        proxy = DelayingProxy(int(server.endpoint.rpartition(":")[2]), one_way, bytes_per_second)
        near = {**server.storage_options, "aws_s3_allow_unsafe_rename": "true"}
        far = {**near, "aws_endpoint_url": f"http://127.0.0.1:{proxy.port}"}
        try:
            server.make_bucket("far")
            yield near, far
        finally:
            proxy.stop()
