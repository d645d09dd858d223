"""A server of Azure Blob Storage for tests, Azurite from npm, on a free port.

It is installed into a folder below the system's temporary one, once: `.ci/run` begins with that, as
it takes minutes. Without Node.js of a version that it runs on, or without npm's registry, it is
unavailable.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

from adelta.storage.azure_auth import shared_key
from adelta.storage.azure_options import parse_azure_options
from tests.support.azure_installation import PROGRAM, is_under_way
from tests.support.local_servers import free_port, wait_for_port
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["AzureLocation", "AzureServer", "azure_location", "azure_server", "running_azure"]

_NODE = 20


@dataclass(frozen=True, slots=True)
class AzureServer:
    """Where the server answers, with the account and the key that all emulators have."""

    endpoint: str

    @property
    def storage_options(self) -> dict[str, str]:
        """delta-rs's options for this server."""
        return {"azure_storage_use_emulator": "true", "azure_storage_endpoint": self.endpoint}

    def make_container(self, name: str) -> None:
        """Make the container."""
        options = parse_azure_options(None, self.storage_options, {})
        assert options.key is not None
        path, query = f"/{options.account}/{name}", "restype=container"
        headers = {"x-ms-version": "2023-11-03", "x-ms-date": formatdate(usegmt=True)}
        headers["authorization"] = shared_key(
            options.account, options.key, "PUT", path, query, headers, 0
        )
        origin = self.endpoint.removesuffix(f"/{options.account}")
        request = urllib.request.Request(f"{origin}{path}?{query}", None, headers, method="PUT")
        urllib.request.urlopen(request, timeout=30).close()


@dataclass(frozen=True, slots=True)
class AzureLocation:
    """A prefix of its own in the container ``adelta-test`` of the server."""

    server: AzureServer
    container: str = "adelta-test"
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    @property
    def uri(self) -> str:
        return f"az://{self.container}/{self.prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        return self.server.storage_options


@pytest.fixture(scope="session")
def azure_server() -> Iterator[AzureServer]:
    """The session's Azure server, with the container ``adelta-test``."""
    with running_azure() as server:
        yield server


@pytest.fixture
def azure_location(azure_server: AzureServer) -> AzureLocation:
    """A fresh prefix on the session's Azure server."""
    return AzureLocation(azure_server)


@contextlib.contextmanager
def running_azure() -> Iterator[AzureServer]:
    """An Azure server that stops when the block is left."""
    program = _found()
    port = free_port()
    listens = ["--blobHost", "127.0.0.1", "--blobPort", str(port)]
    quiet = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--inMemoryPersistence"]
    process = subprocess.Popen(
        ["node", str(program), *listens, *quiet],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        server = AzureServer(f"http://127.0.0.1:{port}/devstoreaccount1")
        server.make_container("adelta-test")
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _found() -> Path:
    """Azurite's program, waited for where it is being installed."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        unavailable("Azure is tested on Azurite, which needs Node.js and npm")
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(said.lstrip("v").partition(".")[0]) < _NODE:
        unavailable(f"Azurite needs Node.js {_NODE} or newer, and here is {said.strip()}")
    end = time.monotonic() + 90
    while not PROGRAM.exists():
        if not is_under_way() or time.monotonic() > end:
            unavailable("Azurite is not installed: python -m tests.support.azure_installation")
        time.sleep(0.5)
    return PROGRAM
