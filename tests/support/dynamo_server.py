"""A DynamoDB server for tests, dynalite from npm, on a free port and gone with the session.

It is installed into a folder below the system's temporary one, once. Without Node.js of a version
that it runs on, or without npm's registry, it is unavailable.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.support.local_servers import free_port, installed_once, wait_for_port
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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
    """A DynamoDB server that stops when the block is left."""
    program = _installed()
    port = free_port()
    times = [f"--{what}TableMs=20" for what in ("create", "delete", "update")]
    process = subprocess.Popen(
        ["node", str(program), "--host", "127.0.0.1", "--port", str(port), *times],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        yield DynamoServer(f"http://127.0.0.1:{port}")
    finally:
        process.terminate()
        process.wait(60)


def _installed() -> Path:
    """dynalite's program, installed where it is not."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        unavailable("DynamoDB is tested on dynalite, which needs Node.js and npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.lstrip("v").partition(".")[0]) < _NODE:
        unavailable(f"dynalite needs Node.js {_NODE} or newer, and here is {said.strip()}")

    def install(folder: str) -> list[str]:
        options = ["--no-audit", "--no-fund", "--prefix", folder]
        return [npm, "install", *options, f"dynalite@{_VERSION}"]

    program = "node_modules/dynalite/cli.js"
    return installed_once(f"dynalite-{_VERSION}", install, program) / program
