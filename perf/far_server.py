"""A real S3 server that is some milliseconds away."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DelayingProxy", "far_server"]


class DelayingProxy:
    """A TCP proxy in a thread of its own that passes every byte on a fixed time later."""

    def __init__(self, target: int, seconds: float) -> None:
        self._target = target
        self._seconds = seconds
        self._loop = asyncio.new_event_loop()
        self.port = 0
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), daemon=True)
        self._thread.start()
        started.wait()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        )
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        self._loop.run_forever()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
        with contextlib.suppress(OSError, asyncio.CancelledError):  # the end of the benchmark
            await asyncio.gather(self._pass(reader, far_writer), self._pass(far_reader, writer))

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        while data := await reader.read(1 << 18):
            loop.call_later(self._seconds, writer.write, data)
        loop.call_later(self._seconds, writer.close)

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
def far_server(one_way: float) -> Iterator[tuple[dict[str, str], dict[str, str]]]:
    """Storage options for an S3 server itself, and for it behind `one_way` seconds each way.

    The bucket ``far`` is there.
    """
    from tests.support.s3_server import running_server

    with running_server() as server:
        proxy = DelayingProxy(int(server.endpoint.rpartition(":")[2]), one_way)
        near = {**server.storage_options, "aws_s3_allow_unsafe_rename": "true"}
        far = {**near, "aws_endpoint_url": f"http://127.0.0.1:{proxy.port}"}
        try:
            server.make_bucket("far")
            yield near, far
        finally:
            proxy.stop()
