"""A directory bucket of S3 Express for tests: a server of our own, held to the documentation.

`FakeExpress` is reached as a proxy is, so that requests name the zonal host that they are for. It
refuses what the reference of S3's API says that directory buckets do not have: listings from some
key on or of half a name, delimiters but ``/``, MD5s of parts, tags, and requests without a session,
or with one where the user's own keys are wanted. Listings come in an order by hash, and folders of
uploads that are under way are among them.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from botocore.credentials import Credentials

from tests.support.fake_s3 import FakeS3, RefusedError, Stored, document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from aiohttp import web

    from tests.support.fake_s3 import Asked

__all__ = ["ExpressLocation", "FakeExpress", "express_location", "fake_express"]

_ZONE = "usw2-az1"
_HOST = f"s3express-{_ZONE}.us-west-2.amazonaws.com"
_UNKNOWN = ("x-amz-tagging", "x-amz-request-payer", "content-md5", "x-amz-security-token")


@dataclass(frozen=True, slots=True)
class ExpressLocation:
    """A prefix of its own in a directory bucket of the server."""

    endpoint: str
    bucket: str = f"lake--{_ZONE}--x-s3"
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}"

    @property
    def storage_options(self) -> dict[str, str]:
        """The endpoint is Amazon's but for its scheme, since the fake has no certificate."""
        return {
            "aws_access_key_id": "AKIDUSER",
            "aws_secret_access_key": "user secret",
            "aws_region": FakeExpress.region,
            "aws_endpoint_url": f"http://{_HOST}",
            "aws_allow_http": "true",
            "proxy_url": self.endpoint,
        }


class FakeExpress(FakeS3):
    """The server. What a test may change or look at, beside what every `FakeS3` has:

    `lasts`, for how many seconds sessions do; `refuses_sessions`, what beginning one is answered
    by; `sessions`, when each ends, by its token; `repeats_folders`, whether a listing may name a
    folder on several pages, of which the documentation says nothing.
    """

    region = "us-west-2"
    service = "s3express"

    def reset(self) -> None:
        """Be empty, and as at first."""
        super().reset()
        self.sessions: dict[str, float] = {}
        self.lasts = 300.0
        self.repeats_folders = False
        self.refuses_sessions: tuple[int, str] | None = None

    def location(self) -> ExpressLocation:
        return ExpressLocation(self.endpoint)

    def place(self, host: str, path: str) -> tuple[str, str]:
        bucket, _, zonal = host.partition(".")
        if zonal != _HOST or not bucket.endswith(f"--{_ZONE}--x-s3"):
            raise RefusedError(400, "InvalidRequest", f"{host} is no zonal endpoint")
        return bucket, path.removeprefix("/")

    def keys(self, asked: Asked) -> Credentials:
        token = asked.headers.get("x-amz-s3session-token")
        by_keys = asked.operation in ("begin_session", "copy", "copy_part")
        if by_keys == (token is not None):
            raise RefusedError(403, "AccessDenied", "by a session, or by the user's own keys")
        if token is None:
            return super().keys(asked)
        if self.sessions.get(token, 0) < time.time():
            raise RefusedError(400, "ExpiredToken", "The provided token has expired.")
        return Credentials(f"AKID{token}", f"secret of {token}")

    def check(self, asked: Asked) -> None:
        if any(name in asked.headers for name in _UNKNOWN):
            raise RefusedError(501, "NotImplemented", "directory buckets have no such header")
        if asked.operation != "list":
            return
        if "start-after" in asked.query:
            raise RefusedError(501, "NotImplemented", "directory buckets have no start-after")
        if asked.query.get("prefix", "/")[-1:] not in ("", "/"):
            message = "This bucket does not support a prefix that does not end in a delimiter."
            raise RefusedError(400, "InvalidRequest", message)
        if asked.query.get("delimiter", "/") != "/":
            raise RefusedError(400, "InvalidRequest", "the delimiter is /")

    def stored(self, data: bytes, parts: Sequence[Stored] = ()) -> Stored:
        """An object whose tag looks like an MD5, and is none."""
        return replace(super().stored(data), tag=f'"{uuid.uuid4().hex}"')

    def entries(self, asked: Asked) -> Iterable[str]:
        found = set(super().entries(asked))
        prefix = asked.query.get("prefix", "")
        for upload in self.uploads.values():
            name, slash, _ = upload.key[len(prefix) :].partition("/")
            if "delimiter" in asked.query and slash and upload.key.startswith(prefix):
                found.add(f"{prefix}{name}/")
        order = sorted(found, key=lambda entry: hashlib.sha256(entry.encode()).digest())
        again = [entry for entry in order if entry.endswith("/")] if self.repeats_folders else []
        return [*order, *again]

    def _begin_session(self, _: Asked) -> web.Response:
        if self.refuses_sessions is not None:
            raise RefusedError(*self.refuses_sessions)
        token = uuid.uuid4().hex
        self.sessions[token] = ends = time.time() + self.lasts
        end = datetime.fromtimestamp(ends, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        return document(
            "CreateSessionResult",
            f"<Credentials><AccessKeyId>AKID{token}</AccessKeyId><SecretAccessKey>secret of {token}"
            f"</SecretAccessKey><SessionToken>{token}</SessionToken><Expiration>{end}</Expiration>"
            "</Credentials>",
        )


@pytest.fixture(scope="session")
def _running_express() -> Iterator[FakeExpress]:
    with FakeExpress() as server:
        yield server


@pytest.fixture
def fake_express(_running_express: FakeExpress) -> FakeExpress:
    """The session's directory buckets, as they are at first and empty."""
    _running_express.reset()
    return _running_express


@pytest.fixture
def express_location(fake_express: FakeExpress) -> ExpressLocation:
    """A fresh prefix in a directory bucket."""
    return fake_express.location()
