"""A cluster of HDFS for tests: two namenodes and two datanodes, on ports of their own.

Nothing of Hadoop's runs where the tests run, so this is a server of our own, held to what the
documentation of WebHDFS and Hadoop's sources say of the requests that adelta makes: redirects to a
datanode for bytes, exceptions with their traces and the statuses that they come with, renames with
and without options, directories in the order of signed bytes, files that a broken connection leaves
with what had come, and a namenode that stands by.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import threading
import time
import uuid
from dataclasses import dataclass, field
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pytest
from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["FakeHdfs", "HdfsLocation", "fake_hdfs", "hdfs_location"]

_API = "/webhdfs/v1"
_PACKAGES = {
    "StandbyException": "org.apache.hadoop.ipc",
    "FileNotFoundException": "java.io",
    "IOException": "java.io",
    "EOFException": "java.io",
    "FileAlreadyExistsException": "org.apache.hadoop.fs",
    "IllegalArgumentException": "java.lang",
    "SecurityException": "java.lang",
}
_TRACE = "\n\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.check(FSNamesystem.java:2093)"


@dataclass(frozen=True, slots=True)
class HdfsLocation:
    """A directory of its own in a cluster."""

    cluster: FakeHdfs
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    @property
    def uri(self) -> str:
        return f"hdfs://nameservice1/{self.prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The names are Hadoop's."""
        first, second = self.cluster.namenodes
        return {
            "dfs.nameservices": "nameservice1",
            "dfs.ha.namenodes.nameservice1": "nn1,nn2",
            "dfs.namenode.http-address.nameservice1.nn1": first,
            "dfs.namenode.http-address.nameservice1.nn2": second,
            "hadoop_user_name": "tester",
        }


@dataclass(slots=True)
class _File:
    number: int
    data: bytes
    modified: int


class _JavaError(Exception):
    def __init__(self, status: int, name: str, message: str) -> None:
        super().__init__(message)
        self.status, self.name = status, name


class FakeHdfs:
    """The cluster. What a test may change:

    `active`, which namenode is; `datanodes`, the addresses that a redirect names, in order;
    `tokens`, the delegation tokens that are good, unless it is None, and then no user's name is;
    `authenticate`, what says by the header of a request who asks, and with what to answer;
    `redirect`, what becomes of an address that bytes are redirected to; `gateway`, whether it
    answers as HttpFS does; `in_batches`, whether it knows LISTSTATUS_BATCH; `trace`, how many lines
    an exception has; `goes_on`, whether a datanode says that it wants the bytes; `batch`, how many
    entries a page has; `files` and `directories` by their paths; `seen`, the operations that were
    asked for, in order.
    """

    def __init__(self) -> None:
        self.files: dict[str, _File] = {}
        self.directories: set[str] = {"/"}
        self.lock = threading.RLock()
        self.seen: list[str] = []
        self.users: set[str] = set()
        self.headers_at_datanodes: list[dict[str, str]] = []
        self._number = 16385
        self.reset()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def reset(self) -> None:
        """Set all back to how a cluster is that has just begun."""
        self.active = 0
        self.tokens: set[str] | None = None
        self.authenticate: Callable[[str], tuple[bool, str]] | None = None
        self.redirect: Callable[[str], str] = lambda location: location
        self.gateway = False
        self.in_batches = True
        self.goes_on = True
        self.trace = 2
        self.batch = 1000
        self.datanodes = list(getattr(self, "_datanodes", []))

    def __enter__(self) -> FakeHdfs:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        for runner in self._runners:
            asyncio.run_coroutine_threadsafe(runner.cleanup(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(60)
        self._loop.close()

    async def _start(self) -> None:
        self._runners: list[web.ServerRunner] = []

        async def listen(serve: Any, host: str) -> str:
            runner = web.ServerRunner(web.Server(serve), shutdown_timeout=0.1)
            await runner.setup()
            self._runners.append(runner)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            return f"{host}:{runner.addresses[0][1]}"

        self.namenodes = (
            await listen(lambda request: self._namenode(0, request), "127.0.0.1"),
            await listen(lambda request: self._namenode(1, request), "127.0.0.1"),
        )
        self._datanodes = [
            await listen(self._datanode, "127.0.0.1"),
            await listen(self._datanode, "localhost"),
        ]
        self.datanodes = list(self._datanodes)

    def location(self) -> HdfsLocation:
        return HdfsLocation(self)

    def hidden(self) -> list[str]:
        """The files that are on their way to a name, or were left on it."""
        return [path for path in self.files if "/.adelta-tmp-" in path]

    # -------------------------------------------------------------------------------- namenodes

    async def _namenode(self, which: int, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        path, wanted = _asked(request)
        operation = wanted.get("op", "").upper()
        self.seen.append(operation)
        data = self.gateway and operation in ("OPEN", "CREATE") and "data" in wanted
        assert data or not body, "bytes were sent to a namenode"
        headers = {"date": formatdate(usegmt=True)}
        try:
            headers |= self._admit(request, wanted)
            if which != self.active and not self.gateway:
                category = "READ" if request.method == "GET" else "WRITE"
                message = f"Operation category {category} is not supported in state standby"
                raise _JavaError(403, "StandbyException", message)
            with self.lock:
                made = self._operate(request, which, operation, path, wanted, body)
        except _JavaError as error:
            made = self._told(error)
        for name, value in headers.items():
            made.headers[name] = value
        return made

    def _admit(self, request: web.BaseRequest, wanted: dict[str, str]) -> dict[str, str]:
        if self.tokens is None:
            self.users.add(wanted.get("user.name", "dr.who"))
            return {}
        token = wanted.get("delegation")
        if token in self.tokens:
            assert "user.name" not in wanted
            return {}
        if token is not None:
            message = (
                "Failed to obtain user group information: org.apache.hadoop.security.token."
                "SecretManager$InvalidToken: token (token for tester) can't be found in cache"
            )
            raise _JavaError(403, "SecurityException", message)
        words = request.headers.get("authorization", "").removeprefix("Negotiate ")
        if self.authenticate is not None and words:
            fine, answer = self.authenticate(words)
            if fine:
                return {"www-authenticate": f"Negotiate {answer}"}
            raise _JavaError(403, "AuthenticationException", answer)
        raise _JavaError(401, "", "Authentication required")

    def _told(self, error: _JavaError) -> web.Response:
        if not error.name:
            headers = {"www-authenticate": "Negotiate"}
            return web.Response(status=error.status, text=f"<h2>{error}</h2>", headers=headers)
        told = {
            "exception": error.name,
            "javaClassName": f"{_PACKAGES.get(error.name, 'org.apache.hadoop')}.{error.name}",
            "message": f"{error}{_TRACE * self.trace}",
        }
        if self.gateway:  # which has the message first
            told = dict(reversed(told.items()))
        return web.json_response({"RemoteException": told}, status=error.status)

    def _operate(
        self,
        request: web.BaseRequest,
        which: int,
        operation: str,
        path: str,
        wanted: dict[str, str],
        body: bytes,
    ) -> web.Response:
        key = (request.method, operation)
        if key == ("PUT", "CREATE"):
            if self.gateway and "data" in wanted:
                self._create(path, wanted, body)
                return web.Response(status=201)
            return self._redirected(which, path, wanted)
        if key == ("GET", "OPEN"):
            found = self._found(path)
            offset = int(wanted.get("offset", "0"))
            if self.gateway:
                end = offset + int(wanted.get("length", str(1 << 40)))
                kind = "application/octet-stream"
                return web.Response(body=found.data[offset:end], content_type=kind)
            if found.data and offset >= len(found.data):
                message = f"Offset={offset} out of the range [0, {len(found.data)}); OPEN, "
                raise _JavaError(403, "IOException", f"{message}path={path}")
            return self._redirected(which, path, wanted)
        if key == ("GET", "GETFILESTATUS"):
            return web.json_response({"FileStatus": self._status(path, "")})
        if key == ("GET", "LISTSTATUS") or (key == ("GET", "LISTSTATUS_BATCH") and self.in_batches):
            return self._list(operation, path, wanted)
        if key == ("PUT", "RENAME"):
            return self._rename(path, wanted)
        if key == ("DELETE", "DELETE"):
            return web.json_response({"boolean": self._delete(path)})
        if key == ("GET", "GETDELEGATIONTOKEN"):
            assert self.tokens is not None
            self.users.add(wanted.get("doas", ""))
            token = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
            self.tokens.add(token)
            return web.json_response({"Token": {"urlString": token}})
        message = f'Invalid value for webhdfs parameter "op": No enum constant {operation}'
        raise _JavaError(400, "IllegalArgumentException", message)

    def _redirected(self, which: int, path: str, wanted: dict[str, str]) -> web.Response:
        excluded = wanted.get("excludedatanodes", "").split(",")
        fit = [each for each in self.datanodes if each.rpartition(":")[0] not in excluded]
        if not fit:
            message = "Failed to find datanode, suggest to check cluster health."
            raise _JavaError(403, "IOException", f"{message} excludeDatanodes={excluded}")
        where = self.namenodes[which] if self.gateway else fit[0]
        query = {name: value for name, value in wanted.items() if name != "excludedatanodes"}
        query |= {"data": "true"} if self.gateway else {"namenoderpcaddress": "nameservice1"}
        asked = "&".join(f"{name}={quote(value)}" for name, value in query.items())
        location = self.redirect(f"http://{where}{_API}{quote(path)}?{asked}")
        kind = "application/octet-stream"
        return web.Response(status=307, headers={"location": location}, content_type=kind)

    def _found(self, path: str) -> _File:
        self._traverse(path)
        if path in self.directories:
            raise _JavaError(404, "FileNotFoundException", f"Path is not a file: {path}")
        if path not in self.files:
            raise _JavaError(404, "FileNotFoundException", f"File does not exist: {path}")
        return self.files[path]

    def _traverse(self, path: str) -> None:
        at = path.rfind("/")
        while at > 0:
            if path[:at] in self.files:
                message = f"{path[:at]} (is not a directory)"
                raise _JavaError(403, "AccessControlException", message)
            at = path.rfind("/", 0, at)

    def _status(self, path: str, suffix: str) -> dict[str, Any]:
        if path in self.directories:
            said = {"length": 0, "type": "DIRECTORY", "modificationTime": 0, "fileId": 16386}
        else:
            found = self._found(path)
            said = {
                "length": len(found.data),
                "type": "FILE",
                "modificationTime": found.modified,
                "fileId": found.number,
            }
        if self.gateway:
            said.pop("fileId")
        return {**said, "pathSuffix": suffix, "owner": "tester", "permission": "644"}

    def _list(self, operation: str, path: str, wanted: dict[str, str]) -> web.Response:
        self._traverse(path)
        if path in self.files:
            names = [""]
        else:
            if path not in self.directories:
                raise _JavaError(404, "FileNotFoundException", f"File {path} does not exist.")
            below = path if path == "/" else f"{path}/"
            names = [
                each[len(below) :]
                for each in (*self.files, *self.directories)
                if each != "/" and each.startswith(below) and "/" not in each[len(below) :]
            ]
            names.sort(key=_signed)
        left = 0
        if operation == "LISTSTATUS_BATCH":
            after = _signed(wanted.get("startAfter", ""))
            names = [name for name in names if _signed(name) > after or not name]
            left = max(0, len(names) - self.batch)
            names = names[: self.batch]
        statuses = [self._status(f"{path.rstrip('/')}/{n}" if n else path, n) for n in names]
        said: dict[str, Any] = {"FileStatuses": {"FileStatus": statuses}}
        if operation == "LISTSTATUS_BATCH":
            said = {"DirectoryListing": {"partialListing": said, "remainingEntries": left}}
        return web.json_response(said)

    def _rename(self, path: str, wanted: dict[str, str]) -> web.Response:
        there, options = wanted["destination"], wanted.get("renameoptions", "")
        assert there.startswith("/")
        if self.gateway or not options:
            if there in self.directories:
                there += path[path.rfind("/") :]
            if path not in self.files or there in self.files:
                return web.json_response({"boolean": False})
            self.files[there] = self.files.pop(path)
            return web.json_response({"boolean": True})
        self._traverse(there)
        if path not in self.files:
            message = f"rename source {path} is not found."
            raise _JavaError(404, "FileNotFoundException", message)
        if there in self.directories:
            message = f"Source {path} is a file and destination {there} is a directory"
            raise _JavaError(403, "IOException", message)
        if there in self.files and options == "NONE":
            message = f"rename destination {there} already exists"
            raise _JavaError(403, "FileAlreadyExistsException", message)
        self.files[there] = self.files.pop(path)
        return web.Response(content_type="application/octet-stream")

    def _delete(self, path: str) -> bool:
        self._traverse(path)
        if path in self.directories:
            if any(each.startswith(f"{path}/") for each in (*self.files, *self.directories)):
                message = f"`{path} is non empty': Directory is not empty"
                raise _JavaError(403, "PathIsNotEmptyDirectoryException", message)
            self.directories.discard(path)
            return True
        return self.files.pop(path, None) is not None

    # -------------------------------------------------------------------------------- datanodes

    async def _datanode(self, request: web.BaseRequest) -> web.StreamResponse:
        path, wanted = _asked(request)
        self.headers_at_datanodes.append(dict(request.headers))
        try:
            if self.tokens is not None and wanted.get("delegation") not in self.tokens:
                raise _JavaError(403, "InvalidToken", "token is expired")
            if request.method == "PUT":
                return await self._receive(request, path, wanted)
            offset, found = int(wanted.get("offset", "0")), self._found(path)
            if offset > len(found.data):
                raise _JavaError(403, "EOFException", "Cannot seek after EOF")
            length = int(wanted.get("length", str(len(found.data))))
            answer = web.Response(
                body=found.data[offset : offset + length],
                content_type="application/octet-stream",
            )
            answer.force_close()
            return answer
        except _JavaError as error:
            return self._told(error)

    async def _receive(
        self, request: web.BaseRequest, path: str, wanted: dict[str, str]
    ) -> web.Response:
        assert request.transport is not None
        if self.goes_on:  # whether it was asked for or not
            request.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        with self.lock:
            self._create(path, wanted, b"")
        body = bytearray()
        try:
            async for chunk in request.content.iter_any():
                body += chunk
        finally:  # the file is closed with what has come
            with self.lock:
                if path in self.files:
                    self.files[path].data = bytes(body)
                    self.files[path].modified = round(time.time() * 1000)
        return web.Response(status=201, headers={"location": f"hdfs://nameservice1{quote(path)}"})

    def _create(self, path: str, wanted: dict[str, str], body: bytes) -> None:
        self._traverse(path)
        if path in self.directories or (path in self.files and wanted["overwrite"] == "false"):
            message = f"{path} for client 127.0.0.1 already exists"
            raise _JavaError(403, "FileAlreadyExistsException", message)
        at = path.rfind("/")
        while at > 0:
            self.directories.add(path[:at])
            at = path.rfind("/", 0, at)
        self._number += 1
        self.files[path] = _File(self._number, body, round(time.time() * 1000))


def _asked(request: web.BaseRequest) -> tuple[str, dict[str, str]]:
    raw = request.raw_path.partition("?")[0]
    assert raw.startswith(f"{_API}/")
    path = unquote(raw[len(_API) :])
    return path.rstrip("/") or "/", dict(request.query)


def _signed(name: str) -> tuple[int, ...]:
    """What a name is sorted by: Java's bytes have a sign."""
    return tuple(byte - 256 if byte > 127 else byte for byte in name.encode())


@pytest.fixture(scope="session")
def running_hdfs() -> Iterator[FakeHdfs]:
    with FakeHdfs() as cluster:
        yield cluster


@pytest.fixture
def fake_hdfs(running_hdfs: FakeHdfs) -> Iterator[FakeHdfs]:
    """The session's cluster, as it is at first."""
    with contextlib.suppress(AttributeError):
        running_hdfs.reset()
    running_hdfs.seen.clear()
    running_hdfs.headers_at_datanodes.clear()
    yield running_hdfs
    running_hdfs.reset()


@pytest.fixture
def hdfs_location(fake_hdfs: FakeHdfs) -> HdfsLocation:
    """A fresh directory."""
    return fake_hdfs.location()
