"""A commit owner in a process of its own, which can be killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.local_servers import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["OwnerProcess", "running_owner_process"]

_ROOT = Path(__file__).resolve().parents[2]


@dataclass
class OwnerProcess:
    """`adelta serve` on a port that stays the same, with a ledger at `database`.

    `token` allows everything, where the ledger was new.
    """

    database: str
    port: int
    arguments: tuple[str, ...] = ()
    token: str | None = None
    process: subprocess.Popen[str] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [sys.executable, "-m", "adelta", "serve", "--port", str(self.port), "--json"]
        self.process = subprocess.Popen(
            [*command, "--log-level", "error", *self.arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=_ROOT,
            env={
                **os.environ,
                "PYTHONPATH": str(_ROOT),
                "ADELTA_OWNER_DATABASE": self.database,
            },
        )
        assert self.process.stdout is not None
        said = json.loads(self.process.stdout.readline())
        self.token = said["token"] or self.token

    def kill(self) -> None:
        """End it at once, wherever it is."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self._wait()

    def stop(self) -> None:
        """End it when it has answered what it was asked."""
        assert self.process is not None
        self.process.terminate()
        self._wait()

    def _wait(self) -> None:
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.wait(60)
        self.process.stdout.close()

    def cpu_seconds(self) -> float:
        """The processor time that it has taken."""
        assert self.process is not None
        stat = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def running_owner_process(database: str, *arguments: str) -> Iterator[OwnerProcess]:
    """An owner that runs, on a free port."""
    owner = OwnerProcess(database, free_port(), arguments)
    owner.start()
    try:
        yield owner
    finally:
        if owner.process is not None and owner.process.poll() is None:
            owner.stop()
