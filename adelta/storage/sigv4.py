"""AWS Signature Version 4 in request headers (pure; the time is an argument).

The rules are those of "Authenticating Requests (AWS Signature Version 4)" in the S3 API reference:
the path is percent-encoded once and not normalised. What stays the same from one request to the
next, such as the signing key of a day, is computed once.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from dataclasses import field
from typing import TYPE_CHECKING
from urllib.parse import quote

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EMPTY_SHA256", "UNSIGNED", "Credentials", "Signer", "encode_path", "encode_query"]

EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
UNSIGNED = "UNSIGNED-PAYLOAD"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Keys to sign with, and in words where they come from. The secrets are not shown."""

    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    source: str = "storage options"


def encode_path(key: str) -> str:
    """The key of an object as it stands in a URL: everything but ``A-Za-z0-9-._~/`` encoded."""
    return quote(key, safe="/~")


def encode_query(parameters: Mapping[str, str]) -> str:
    """A query string in the canonical order, which is the one to be signed and to be sent."""
    return "&".join(
        f"{quote(name, safe='~')}={quote(parameters[name], safe='~')}"
        for name in sorted(parameters)
    )


class Signer:
    """Signs requests to one host in one region with one set of keys.

    `service` is the name that signatures have for it, `token_header` bears the keys' token.
    """

    __slots__ = (
        "_authorization",
        "_day",
        "_fixed",
        "_keyed",
        "_scope",
        "_second",
        "_stamp",
        "credentials",
        "host",
        "region",
        "service",
    )

    def __init__(
        self,
        credentials: Credentials,
        *,
        host: str,
        region: str,
        service: str = "s3",
        token_header: str = "x-amz-security-token",
    ) -> None:
        self.credentials = credentials
        self.host = host
        self.region = region
        self.service = service
        self._second = -1
        self._stamp = self._day = self._scope = self._authorization = ""
        self._keyed = hmac.new(b"", digestmod="sha256")
        self._fixed: dict[str, str] = {"host": host}
        if credentials.session_token is not None:
            self._fixed[token_header] = credentials.session_token

    def _at(self, second: int) -> None:
        """Fix the moment of signing."""
        self._stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(second))
        self._second = second
        if (day := self._stamp[:8]) == self._day:
            return
        key = b"AWS4" + self.credentials.secret_access_key.encode()
        for part in (day, self.region, self.service, "aws4_request"):
            key = hmac.digest(key, part.encode(), "sha256")
        self._day, self._keyed = day, hmac.new(key, digestmod="sha256")
        self._scope = f"{day}/{self.region}/{self.service}/aws4_request"
        self._authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.credentials.access_key_id}/{self._scope},"
        )

    def sign(
        self,
        method: str,
        path: str,
        query: str,
        *,
        payload_sha256: str,
        now: float,
        headers: Mapping[str, str] | None = None,
    ) -> dict[str, str]:
        """The headers to send: `headers`, all of them signed, and those of the signature.

        `path` and `query` are encoded already; names in `headers` are in lower case.
        """
        if (second := int(now)) != self._second:
            self._at(second)
        sent = {
            **self._fixed,
            "x-amz-content-sha256": payload_sha256,
            "x-amz-date": self._stamp,
        }
        if headers:
            sent.update(headers)
        names = sorted(sent)
        signed = ";".join(names)
        canonical = "\n".join([f"{name}:{sent[name]}" for name in names])
        digest = hashlib.sha256(
            f"{method}\n{path}\n{query}\n{canonical}\n\n{signed}\n{payload_sha256}".encode()
        ).hexdigest()
        keyed = self._keyed.copy()  # unlike `hmac.digest` it keeps the interpreter meanwhile
        keyed.update(f"AWS4-HMAC-SHA256\n{self._stamp}\n{self._scope}\n{digest}".encode())
        signature = keyed.hexdigest()
        sent["authorization"] = f"{self._authorization}SignedHeaders={signed},Signature={signature}"
        return sent
