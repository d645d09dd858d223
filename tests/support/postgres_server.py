"""A PostgreSQL server for tests, on a free port of the loopback interface, gone with the session.

It is the machine's own (Debian's package ``postgresql``), with a cluster in a temporary folder. As
the server refuses to run as root, root starts it as the user ``postgres``. Where there is none, it
is unavailable.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.local_servers import free_port, wait_for_port
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import asyncpg

__all__ = ["PostgresServer", "postgres_server", "running_postgres"]

_USER = "postgres"
_PASSWORD = "pässword %/@"
_CLUSTER = ("--auth=scram-sha-256", "--no-sync", "--locale=C.UTF-8", "--pwfile")
_SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "fsync": "off",
    "shared_buffers": "16MB",
    "max_connections": "50",
    "log_min_messages": "fatal",
}


@dataclass(frozen=True, slots=True)
class PostgresServer:
    """Where the server answers, and as whom."""

    port: int
    address: str = field(repr=False)

    @property
    def storage_options(self) -> dict[str, str]:
        """The options for commits under a lock of this server."""
        return {"adelta_commit_lock": self.address}

    async def connect(self) -> asyncpg.Connection:
        """A connection of the superuser."""
        import asyncpg

        return await asyncpg.connect(self.address)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """The session's PostgreSQL server."""
    with running_postgres() as server:
        yield server


@contextlib.contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A PostgreSQL server that stops when the block is left."""
    if find_spec("asyncpg") is None:
        unavailable("a commit lock in PostgreSQL needs adelta[postgres]")
    programs = _programs()
    folder = Path(tempfile.mkdtemp(prefix="adelta-postgres-"))
    data, secret = folder / "data", folder / "password"
    secret.write_text(_PASSWORD, encoding="utf-8")
    port = free_port()
    as_user: list[str] = []
    if os.getuid() == 0:
        as_user = ["setpriv", "--reuid", _USER, "--regid", _USER, "--init-groups"]
        for path in (folder, secret):
            shutil.chown(path, _USER, _USER)
    settings = {**_SETTINGS, "port": str(port), "unix_socket_directories": str(folder)}
    arguments = [part for key, value in settings.items() for part in ("-c", f"{key}={value}")]
    try:
        made = subprocess.run(
            [
                *as_user,
                str(programs / "initdb"),
                "-D",
                str(data),
                "-U",
                _USER,
                *_CLUSTER,
                str(secret),
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if made.returncode:
            raise RuntimeError(f"initdb failed:\n{made.stdout}{made.stderr}")
        process = subprocess.Popen(
            [*as_user, str(programs / "postgres"), "-D", str(data), *arguments],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for_port(port, process)
            ready = [str(programs / "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port)]
            while subprocess.run(ready, timeout=60).returncode:
                time.sleep(0.05)
            quoted = "p%C3%A4ssword%20%25%2F%40"
            yield PostgresServer(port, f"postgresql://{_USER}:{quoted}@127.0.0.1:{port}/postgres")
        finally:
            process.send_signal(signal.SIGINT)  # its fast shutdown: setpriv has become the server
            process.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _programs() -> Path:
    """The folder of the server's programs."""
    found = shutil.which("initdb")
    folders = [Path(found).resolve().parent] if found else []
    folders += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    programs = ("initdb", "postgres")
    for folder in folders:
        if all((folder / program).exists() for program in programs):
            return folder
    return unavailable("there is no PostgreSQL server here: apt-get install postgresql")
