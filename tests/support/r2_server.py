"""Cloudflare R2 for tests: a server of our own, held to the documentation.

`FakeR2` is reached as a proxy is, so that requests name the account's host. Its region is ``auto``.
Parts of an upload but the last have one length; CRC-32 is of parts alone, so that their checksums
are named again where the upload ends; and of one object there is a write at a time, which another
one is refused beside.
"""

from __future__ import annotations

import uuid
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.support.fake_s3 import FakeS3, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.fake_s3 import Asked

__all__ = ["FakeR2", "R2Location", "fake_r2", "r2_location"]

_ACCOUNT = "0123456789abcdef.r2.cloudflarestorage.com"
_FULL_OBJECT = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
_TAG = "{http://s3.amazonaws.com/doc/2006-03-01/}"


@dataclass(frozen=True, slots=True)
class R2Location:
    """A prefix of its own in a bucket of the account."""

    proxy: str
    bucket: str = "lake"
    prefix: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:12]}")

    @property
    def storage_options(self) -> dict[str, str]:
        """Those of the guide, but for the endpoint's scheme, since the fake has no certificate."""
        return {
            "aws_access_key_id": "AKIDUSER",
            "aws_secret_access_key": "user secret",
            "aws_region": "auto",
            "aws_endpoint_url": f"http://{_ACCOUNT}",
            "aws_allow_http": "true",
            "proxy_url": self.proxy,
        }


class FakeR2(FakeS3):
    """The server. `too_many` is how many of the next puts are refused for coming too fast."""

    region = "auto"

    def reset(self) -> None:
        """Be empty, and as at first."""
        super().reset()
        self.too_many = 0

    def check(self, asked: Asked) -> None:
        if asked.host != _ACCOUNT:
            raise RefusedError(403, "AccessDenied", f"{asked.host} is no account's endpoint")
        if asked.operation == "put" and self.too_many > 0:
            self.too_many -= 1
            raise RefusedError(429, "TooManyRequests", "Reduce your rate of requests.")
        if asked.operation == "begin_upload" and _FULL_OBJECT.items() <= asked.headers.items():
            message = "CRC32 has no checksum type FULL_OBJECT"
            raise RefusedError(501, "NotImplemented", message)
        if asked.operation == "complete":
            self._check_parts(asked)

    def _check_parts(self, asked: Asked) -> None:
        upload = self.uploads[asked.query["uploadId"]]
        lengths = [len(upload.parts[number].data) for number in sorted(upload.parts)]
        if len({*lengths[:-1]}) > 1 or lengths[-1] > lengths[0]:
            message = "All non-trailing parts must have the same length."
            raise RefusedError(400, "InvalidPart", message)
        named = [
            part.findtext(f"{_TAG}ChecksumCRC32")
            for part in ET.fromstring(asked.body).iter(f"{_TAG}Part")
        ]
        wanted = [upload.parts[number].crc32 for number in sorted(upload.parts)]
        if upload.checksum == "COMPOSITE" and named != wanted:
            raise RefusedError(400, "InvalidRequest", "the checksum of each part is to be named")


@pytest.fixture(scope="session")
def _running_r2() -> Iterator[FakeR2]:
    with FakeR2() as server:
        yield server


@pytest.fixture
def fake_r2(_running_r2: FakeR2) -> FakeR2:
    """The session's account of R2, as it is at first and empty."""
    _running_r2.reset()
    return _running_r2


@pytest.fixture
def r2_location(fake_r2: FakeR2) -> R2Location:
    """A fresh prefix in a bucket of R2."""
    return R2Location(fake_r2.endpoint)
