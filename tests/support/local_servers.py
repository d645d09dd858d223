"""What tests need for a server of their own: a free port, and a place to install a program."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["free_port", "installed_once", "wait_for_port"]


def free_port() -> int:
    """A port of the loopback interface on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


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
