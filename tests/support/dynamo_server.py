"""A DynamoDB server for tests, dynalite from npm, on a free port and gone with the session.

It is installed into a folder below the system's temporary one, once. Without Node.js of a version
that it runs on, or without npm's registry, the tests that need it are skipped and say so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["DynamoServer", "dynamo_server", "running_dynamo"]

_VERSION = "4.0.0"
_NODE = 20


@dataclass(frozen=True, slots=True)
class DynamoServer:
    """Where the server answers."""

    endpoint: str

    def storage_options(self, table: str | None = None) -> dict[str, str]:
        """delta-rs's options for commits by a lock table of their own, beside those of S3."""
        return {
            "aws_s3_locking_provider": "dynamodb",
            "aws_endpoint_url_dynamodb": self.endpoint,
            "delta_dynamo_table_name": table or f"lock-{uuid.uuid4().hex[:12]}",
        }


@pytest.fixture(scope="session")
def dynamo_server() -> Iterator[DynamoServer]:
    """The session's DynamoDB server."""
    with running_dynamo() as server:
        yield server


@contextlib.contextmanager
def running_dynamo() -> Iterator[DynamoServer]:
    """A DynamoDB server that stops when the block is left; skips the test where there is none."""
    program = _installed()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    times = [f"--{what}TableMs=20" for what in ("create", "delete", "update")]
    process = subprocess.Popen(
        ["node", str(program), "--host", "127.0.0.1", "--port", str(port), *times],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield DynamoServer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(10)


def _installed() -> Path:
    """dynalite's program, installed where it is not."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("DynamoDB is tested on dynalite, which needs Node.js and npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.lstrip("v").partition(".")[0]) < _NODE:
        pytest.skip(f"dynalite needs Node.js {_NODE} or newer, and here is {said.strip()}")
    folder = Path(tempfile.gettempdir()) / f"adelta-dynalite-{_VERSION}-{os.getuid()}"
    program = folder / "node_modules" / "dynalite" / "cli.js"
    if not program.exists():
        with tempfile.TemporaryDirectory(prefix="adelta-npm-") as fresh:
            done = subprocess.run(
                [npm, "install", "--no-audit", "--no-fund", f"dynalite@{_VERSION}"],
                cwd=fresh,
                env={**os.environ, "npm_config_prefix": fresh},
                capture_output=True,
                text=True,
                timeout=300,
            )
            if done.returncode:
                pytest.skip(f"npm cannot install dynalite: {done.stderr[-300:]}")
            with contextlib.suppress(OSError):  # another session was faster
                shutil.move(fresh, folder)
                Path(fresh).mkdir()
    return program


def _wait_for(port: int) -> None:
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=5).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise TimeoutError("dynalite did not come up") from None
            time.sleep(0.05)
