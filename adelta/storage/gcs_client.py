"""Requests to one bucket of Google Cloud Storage: their tokens, and what answers of errors mean.

An object's bytes are asked for by the XML API, whose answers tell its time, its generation and its
checksums. All else goes by the JSON API. A request whose `path` is given goes there.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import orjson

from adelta.errors import InvalidOptionError
from adelta.storage.gcs_auth import google_tokens
from adelta.storage.gcs_checksums import body_fault
from adelta.storage.object_answers import Answer, Failure, Kind, kind_of
from adelta.storage.object_client import ObjectRequest, Signed
from adelta.storage.s3_errors import error_fields
from adelta.storage.sigv4 import encode_path
from adelta.storage.token_client import TokenClient, TokenTarget

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.body_checks import Fault
    from adelta.storage.gcs_options import GcsOptions

__all__ = ["RESUME_INCOMPLETE", "GcsClient", "document_of"]

RESUME_INCOMPLETE = 308
"""The status of a resumable upload that goes on."""

_BUCKET = re.compile(r"(?=.{3,222}$)[a-z0-9](?:[a-z0-9._-]*[a-z0-9])?")
_THROTTLES = frozenset({"rateLimitExceeded", "userRateLimitExceeded", "SlowDown"})
_KINDS = {
    "conditionNotMet": Kind.EXISTS,
    "PreconditionFailed": Kind.EXISTS,
    "retentionPolicyNotMet": Kind.REFUSED,
    "objectUnderActiveHold": Kind.REFUSED,
}
_ADVICE = {
    "retentionPolicyNotMet": "the bucket keeps objects for a time: wait until that is over",
    "objectUnderActiveHold": "somebody holds the object: have the hold released",
    "NoSuchBucket": "check the bucket's name",
}
_WRONG_SUM = re.compile(r"(?i)(?:hash|checksum|crc32c|md5).*(?:match|invalid)")
_MAY_NOT_USE = "serviceusage.services.use"
_PAYS = re.compile(r"(?i)requester.?pays|user project|UserProjectMissing")


class GcsClient(TokenClient):
    """Sends requests to one bucket of Google Cloud Storage."""

    service = "GCS"
    named_by = "google_base_url"

    def __init__(self, bucket: str, options: GcsOptions) -> None:
        """A client of `bucket`.

        Raises:
            InvalidOptionError: no bucket can have that name.
        """
        if not _BUCKET.fullmatch(bucket):
            raise InvalidOptionError(
                f"{bucket!r:.300} is no name of a bucket: it is made of lower-case letters, digits,"
                " '-', '_' and '.'"
            )
        name, tokens = f"gs://{bucket}", google_tokens(options)
        super().__init__(name, options.http, options.retry, options.concurrency, tokens)
        self.bucket = bucket
        scheme, _, rest = options.endpoint.partition("://")
        host, slash, base = rest.partition("/")
        self._origin = f"{scheme}://{host}"
        self.base_path = f"{slash}{base}"
        self._headers: dict[str, str] = {}
        if options.user_project is not None:
            self._headers["x-goog-user-project"] = options.user_project

    async def aim(self) -> TokenTarget:
        """Where a request goes now. Raises: StorageError."""
        return await self._aim_at(self._origin)

    def signed(self, target: TokenTarget, request: ObjectRequest, payload: str) -> Signed:
        """The request as it is sent to `target`."""
        path = request.path
        if path is None:
            path = f"/{self.bucket}/{encode_path(request.key)}"
        headers = {**self._headers, **request.headers}
        if target.token is not None:
            headers["authorization"] = f"Bearer {target.token.text}"
        return Signed(self.base_path + path, request.query, headers)

    def credentials_source(self) -> str:
        """In words, where the token is from that was used last."""
        if self._tokens is None:
            return "none, requests are not signed"
        return self._tokens.source

    def succeeded(self, request: ObjectRequest, answer: Answer) -> bool:
        """Whether the answer is one of success: an upload that goes on is one."""
        resumes = answer.status == RESUME_INCOMPLETE and "upload_id=" in request.query
        return resumes or 200 <= answer.status < 300

    def tells_of_object(self, answer: Answer) -> bool:
        """Whether an answer to what makes an object tells of the object."""
        return "generation" in document_of(answer.body)

    def failure_of(self, status: int, headers: Mapping[str, str], body: bytes) -> Failure:
        """What an answer that is no success means."""
        code, message = _told(body)
        kind = _KINDS.get(code) or kind_of(status)
        advice = _ADVICE.get(code)
        if status == 401 and code != "Forbidden":
            kind = Kind.EXPIRED
            advice = "check the credentials, and this machine's clock"
        elif status == 403 and code in _THROTTLES:
            kind = Kind.THROTTLED
        elif status == 400 and _WRONG_SUM.search(message):
            kind = Kind.DAMAGED
        if kind in (Kind.REFUSED, Kind.DENIED) and _PAYS.search(f"{code} {message}"):
            advice = "set google_user_project to the project that pays for requests"
        elif _MAY_NOT_USE in message:
            advice = f"let the identity use the project of google_user_project ({_MAY_NOT_USE})"
        reason = " ".join(filter(None, (f"HTTP {status}", code, message)))
        return Failure(kind, code, reason, headers, advice=advice)

    async def body_fault(self, request: ObjectRequest, answer: Answer) -> Fault | None:
        """What is wrong with the body of an object: it must have the checksum that is told."""
        return await body_fault(answer)


def document_of(body: bytes) -> dict[str, Any]:
    """The object that an answer is; an empty one where it is none."""
    try:
        said = orjson.loads(body)
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}


def _told(body: bytes) -> tuple[str, str]:
    """The code and the message of an error, in JSON or in XML."""
    fields = error_fields(body)
    if fields:
        return fields.get("Code", ""), fields.get("Message", "")
    try:
        error = orjson.loads(body)["error"]
        reasons = error.get("errors") or [{}]
        return str(reasons[0].get("reason", "")), str(error.get("message", ""))
    except (ValueError, LookupError, TypeError, AttributeError):
        return "", ""
