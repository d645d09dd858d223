"""A real S3 server for tests, on a free port of the loopback interface, gone with the session.

Where Ceph's RADOS gateway is installed it is that, in memory: it checks signatures, pages listings
and makes conditional puts atomic. Elsewhere it is moto behind one lock, for moto alone lets several
racing conditional puts win; not where `CI` is set, which shall have a real one.
`ADELTA_TEST_S3=ceph|moto` insists on one of them.

Test folders use it by the fixtures `s3_server` and `s3_location`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
import pytest

from adelta.storage.object_client import ObjectRequest
from adelta.storage.s3_client import S3Client
from adelta.storage.s3_options import parse_options
from tests.support.local_servers import free_port
from tests.support.unavailable import in_ci, unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["S3Location", "S3Server", "moto_server", "running_server", "s3_location", "s3_server"]

_CEPH_TOOLS = ("radosgw", "radosgw-admin", "ceph", "ceph-mon", "ceph-osd", "monmaptool")
_CEPH_CONF = """
[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{mon_port}/0
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms bind ipv6 = false
ms mon client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
mon allow pool size one = true
mon max pg per osd = 2000
mon data avail crit = 1
mon data avail warn = 1
mon initial members = a
mon data = {folder}/mon
paxos propose interval = 0.05
paxos min wait = 0.01
osd data = {folder}/osd
osd objectstore = memstore
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 8
osd pool default pgp num = 8
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
osd class load list = *
osd class default list = *
memstore device bytes = 4294967296
run dir = {folder}/run
admin socket = {folder}/run/$name.asok
pid file = {folder}/run/$name.pid
log file = {folder}/log/$name.log
log to stderr = false
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name = localhost
rgw thread pool size = 64
rgw enable usage log = false
"""
_MOTO = """
import sys, threading
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

application = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()

def one_at_a_time(environ, start_response):
    with lock:
        return list(application(environ, start_response))

make_server("127.0.0.1", int(sys.argv[1]), one_at_a_time, threaded=True).serve_forever()
"""


@dataclass(frozen=True, slots=True)
class S3Server:
    """Where the server answers, and the keys that it takes."""

    kind: str
    endpoint: str
    access_key: str = "test"
    secret_key: str = field(default="testtest", repr=False)
    region: str = "us-east-1"
    conf: Path | None = None  # of Ceph

    @property
    def storage_options(self) -> dict[str, str]:
        """delta-rs's options for this server; `deltalake` takes them too."""
        return {
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
            "aws_endpoint_url": self.endpoint,
            "aws_region": self.region,
            "aws_allow_http": "true",
        }

    def of_tenant(self, name: str) -> S3Server:
        """The server, which is Ceph, as a user of that tenant has it, which is made."""
        keys = f"--access-key={name}", f"--secret-key={self.secret_key}"
        command = ["radosgw-admin", "user", "create", f"--tenant={name}", f"--uid={name}", *keys]
        subprocess.run(
            [*command, f"--display-name={name}"],
            env={**os.environ, "CEPH_CONF": str(self.conf)},
            check=True,
            capture_output=True,
            timeout=300,
        )
        return replace(self, access_key=name)

    def make_bucket(self, name: str) -> None:
        """Make the bucket, unless it is there already."""

        async def make() -> None:
            client = S3Client(name, parse_options(self.storage_options, {}))
            try:
                await client.send(ObjectRequest("PUT"))
            finally:
                await client.aclose()

        asyncio.run(make())

    def skip_moto(self, fault: str) -> None:
        """Skip the test where the server is moto, of which this has to be said."""
        if self.kind == "moto":
            pytest.skip(f"moto {fault}")

    async def until_a_later_time(self) -> None:
        """Wait until what is put from now on bears a later time than what was put before.

        Ceph tells when an object was put in milliseconds, moto in seconds, as AWS does.
        """
        if self.kind == "moto":
            await anyio.sleep(1.01 - time.time() % 1)


@dataclass(frozen=True, slots=True)
class S3Location:
    """A prefix of its own in a bucket of the server."""

    server: S3Server
    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        return self.server.storage_options


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """The session's S3 server, with the bucket ``adelta-test``."""
    with running_server() as server:
        server.make_bucket("adelta-test")
        yield server


@pytest.fixture
def s3_location(s3_server: S3Server) -> S3Location:
    """A fresh prefix in a bucket of the session's S3 server."""
    return S3Location(s3_server, "adelta-test", f"t-{uuid.uuid4().hex[:12]}")


@contextlib.contextmanager
def running_server() -> Iterator[S3Server]:
    """An S3 server that stops when the block is left."""
    with _ceph() if _kind() == "ceph" else moto_server() as server:
        yield server


def _kind() -> str:
    """Which server it is."""
    if chosen := os.environ.get("ADELTA_TEST_S3"):
        return chosen
    missing = [tool for tool in _CEPH_TOOLS if shutil.which(tool) is None]
    if missing and in_ci():
        unavailable(f"there is no S3 server here, for want of {', '.join(missing)}")
    return "moto" if missing else "ceph"


@contextlib.contextmanager
def _ceph() -> Iterator[S3Server]:
    folder = Path(tempfile.mkdtemp(prefix="adelta-s3-"))
    port, mon_port = free_port(), free_port()
    for name in ("mon", "osd", "run", "log"):
        (folder / name).mkdir()
    fsid, conf = str(uuid.uuid4()), folder / "ceph.conf"
    conf.write_text(_CEPH_CONF.format(fsid=fsid, mon_port=mon_port, port=port, folder=folder))
    environment = {**os.environ, "CEPH_CONF": str(conf)}

    def run(*command: str) -> str:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
        return done.stdout

    try:
        address = f"[v2:127.0.0.1:{mon_port}/0]"
        run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a", address, "monmap")
        run("ceph-mon", "--mkfs", "-i", "a", "--monmap", "monmap")
        run("ceph-mon", "-i", "a")  # these three leave a daemon behind, its pid in run/
        osd = str(uuid.uuid4())
        run("ceph", "--connect-timeout", "30", "osd", "new", osd)
        run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        run("ceph-osd", "-i", "0")
        _wait_until(lambda: json.loads(run("ceph", "osd", "stat", "-f", "json"))["num_up_osds"])
        server = S3Server("ceph", f"http://127.0.0.1:{port}", conf=conf)
        keys = (f"--access-key={server.access_key}", f"--secret-key={server.secret_key}")
        run("radosgw-admin", "user", "create", "--uid=test", "--display-name=test", *keys)
        run(
            "radosgw", "-n", "client.rgw", "--auth_client_required=none", "--ms_mon_client_mode=crc"
        )
        _wait_until(lambda: _answers(server.endpoint))
        yield server
    finally:
        _stop([int(file.read_text()) for file in (folder / "run").glob("*.pid")])
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def moto_server() -> Iterator[S3Server]:
    """A moto server, which has the other services of AWS too."""
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "-c", _MOTO, str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        server = S3Server("moto", f"http://127.0.0.1:{port}")
        _wait_until(lambda: _answers(server.endpoint))
        yield server
    finally:
        process.terminate()
        process.wait(60)


def _answers(endpoint: str) -> bool:
    try:
        with urllib.request.urlopen(endpoint, timeout=5):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False


def _wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the S3 server did not come up")
        time.sleep(0.05)


def _stop(pids: list[int]) -> None:
    """End the daemons, by force those that do not go by themselves."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        end = time.monotonic() + 3
        while time.monotonic() < end and any(Path(f"/proc/{pid}").exists() for pid in pids):
            time.sleep(0.05)
