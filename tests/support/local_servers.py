"""What tests need for servers: a free port, a loop in a thread, a place to install a program."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web

from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

__all__ = ["ThreadedServer", "free_port", "installed_once", "wait_for_port"]


class ThreadedServer:
    """A server of HTTP on a loop in a thread of its own, inside a `with` block.

    A subclass answers requests by `serve`; `endpoint` is where it is reached.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _start(self) -> None:
        self._runner = web.ServerRunner(web.Server(self.serve), shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.endpoint = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """The answer to a request."""
        raise NotImplementedError


def free_port() -> int:
    """A port of the loopback interface on which nothing listens.

    It is below those that systems give to connections by themselves, so that none takes it before
    the server does that it is for.
    """
    while True:
        port = random.SystemRandom().randrange(11_000, 32_000)
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port


def wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    """Wait until the process listens on the port."""
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            if process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"{process.args} did not come up") from None
            time.sleep(0.05)


def installed_once(name: str, command: Callable[[str], Sequence[str]], marker: str) -> Path:
    """A folder below the system's temporary one, into which `command` has installed something.

    `marker` is a path in it that is there if it has. Where the command fails, it is
    unavailable.
    """
    folder = Path(tempfile.gettempdir()) / f"adelta-{name}-{os.getuid()}"
    if (folder / marker).exists():
        return folder
    with tempfile.TemporaryDirectory(prefix="adelta-install-") as fresh:
        done = subprocess.run(
            command(fresh), cwd=fresh, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            unavailable(f"{name} cannot be installed here: {done.stderr[-300:]}")
        with contextlib.suppress(OSError):  # another session was faster
            shutil.move(fresh, folder)
            Path(fresh).mkdir()
    return folder
