"""What an answer of S3 means to us: one table of its error codes, and one of HTTP statuses.

A request ends in an `Answer` or in a `Failure`. `outcome_of` says what may help after a failure.
"""

from __future__ import annotations

import enum
import re
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
    ThrottledError,
)
from adelta.storage.retry import Outcome, retry_after

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "Answer",
    "Failure",
    "Kind",
    "connection_failure",
    "failure_of",
    "is_error",
    "is_region",
    "outcome_of",
]


class Kind(enum.Enum):
    """What a caller can do about a failure."""

    NOT_FOUND = enum.auto()
    EXISTS = enum.auto()
    DENIED = enum.auto()
    EXPIRED = enum.auto()
    WRONG_REGION = enum.auto()
    THROTTLED = enum.auto()
    BUSY = enum.auto()
    BROKEN = enum.auto()
    UNSENT = enum.auto()
    LOST = enum.auto()
    UNSUPPORTED = enum.auto()
    OUT_OF_RANGE = enum.auto()
    DAMAGED = enum.auto()
    REFUSED = enum.auto()


_CODES: Mapping[str, Kind] = {
    "NoSuchKey": Kind.NOT_FOUND,
    "NoSuchBucket": Kind.NOT_FOUND,
    "NoSuchVersion": Kind.NOT_FOUND,
    "NoSuchUpload": Kind.NOT_FOUND,
    "PreconditionFailed": Kind.EXISTS,
    "AccessDenied": Kind.DENIED,
    "AllAccessDisabled": Kind.DENIED,
    "InvalidAccessKeyId": Kind.DENIED,
    "SignatureDoesNotMatch": Kind.DENIED,
    "RequestTimeTooSkewed": Kind.DENIED,
    "ExpiredToken": Kind.EXPIRED,
    "ExpiredTokenException": Kind.EXPIRED,
    "TokenRefreshRequired": Kind.EXPIRED,
    "PermanentRedirect": Kind.WRONG_REGION,
    "TemporaryRedirect": Kind.WRONG_REGION,
    "AuthorizationHeaderMalformed": Kind.WRONG_REGION,
    "IllegalLocationConstraintException": Kind.WRONG_REGION,
    "SlowDown": Kind.THROTTLED,
    "ServiceUnavailable": Kind.THROTTLED,
    "Throttling": Kind.THROTTLED,
    "ThrottlingException": Kind.THROTTLED,
    "RequestThrottled": Kind.THROTTLED,
    "RequestLimitExceeded": Kind.THROTTLED,
    "TooManyRequests": Kind.THROTTLED,
    "ConditionalRequestConflict": Kind.BUSY,
    "OperationAborted": Kind.BUSY,
    "RequestTimeout": Kind.BUSY,
    "InternalError": Kind.BROKEN,
    "NotImplemented": Kind.UNSUPPORTED,
    "MethodNotAllowed": Kind.UNSUPPORTED,
    "InvalidRange": Kind.OUT_OF_RANGE,
    "BadDigest": Kind.DAMAGED,
    "IncompleteBody": Kind.DAMAGED,
    "XAmzContentChecksumMismatch": Kind.DAMAGED,
    "XAmzContentSHA256Mismatch": Kind.DAMAGED,
}

_STATUSES: Mapping[int, Kind] = {
    301: Kind.WRONG_REGION,
    307: Kind.WRONG_REGION,
    401: Kind.DENIED,
    403: Kind.DENIED,
    404: Kind.NOT_FOUND,
    405: Kind.UNSUPPORTED,
    408: Kind.BUSY,
    412: Kind.EXISTS,
    416: Kind.OUT_OF_RANGE,
    429: Kind.THROTTLED,
    500: Kind.BROKEN,
    501: Kind.UNSUPPORTED,
    502: Kind.BROKEN,
    503: Kind.THROTTLED,
    504: Kind.BROKEN,
}

_REGION = re.compile(r"[A-Za-z0-9_-]{1,63}")
_ERROR_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?[^>]{0,200}\?>\s*)?<Error[\s/>]")
_TRANSIENT = frozenset(
    {Kind.THROTTLED, Kind.BUSY, Kind.BROKEN, Kind.UNSENT, Kind.LOST, Kind.DAMAGED}
)
_MAYBE_APPLIED = frozenset({Kind.THROTTLED, Kind.BROKEN, Kind.LOST})
_ERRORS: Mapping[Kind, type[StorageError]] = {
    Kind.NOT_FOUND: ObjectNotFoundError,
    Kind.EXISTS: ObjectExistsError,
    Kind.DENIED: PermissionDeniedError,
    Kind.EXPIRED: PermissionDeniedError,
    Kind.THROTTLED: ThrottledError,
}
_ADVICE: Mapping[str, str] = {
    "RequestTimeTooSkewed": "set this machine's clock",
    "SignatureDoesNotMatch": "check the secret key",
    "InvalidAccessKeyId": "check the access key, and that it is of this endpoint",
    "NotImplemented": (
        "if the store lacks checksums, set aws_request_checksum_calculation=when_required"
    ),
    "NoSuchBucket": "check the bucket's name and the endpoint",
}


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer; `repeated` says that an earlier attempt may have taken effect too.

    `placed` is how many bytes of the body were put where the request wanted them, and then there
    is no `body`; None where they were not.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    repeated: bool = False
    placed: int | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A failed request: what it means, and in words why.

    `repeated` says that an earlier attempt than the one described may have taken effect; there were
    so many `attempts`. `region` is the bucket's where the store named it.
    """

    kind: Kind
    code: str
    reason: str
    headers: Mapping[str, str]
    repeated: bool = False
    region: str | None = None
    attempts: int = 1

    @property
    def maybe_applied(self) -> bool:
        """Whether this attempt or an earlier one may have taken effect."""
        return self.repeated or self.kind in _MAYBE_APPLIED

    def error(self, what: str, *, credentials: str) -> StorageError:
        """The error to raise; `what` names the request, `credentials` their source."""
        text = f"{what} failed: {self.reason}"
        if self.kind in (Kind.DENIED, Kind.EXPIRED):
            text += f" (credentials: {credentials})"
        if self.attempts > 1:
            text += f", after {self.attempts} attempts"
        if advice := _ADVICE.get(self.code):
            text += f"; {advice}"
        return _ERRORS.get(self.kind, StorageError)(text)


def failure_of(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer that is no success means."""
    said = _parse(body)
    code = said.get("Code", "")
    kind = _CODES.get(code) or _STATUSES.get(status)
    if kind is None:
        kind = Kind.BROKEN if status >= 500 else Kind.REFUSED
    reason = " ".join(filter(None, (f"HTTP {status}", code, said.get("Message"))))
    if request_id := said.get("RequestId") or headers.get("x-amz-request-id"):
        reason += f" [request {request_id}]"
    region = headers.get("x-amz-bucket-region") or said.get("Region")
    return Failure(kind, code, reason, headers, region=region)


def outcome_of(failure: Failure, *, method: str, region: str) -> Outcome:
    """What may help after `failure` of a request of `method` that was signed for `region`."""
    unclear = failure.kind is Kind.REFUSED and method == "HEAD"  # whose answers bear no code
    named = failure.region or ""
    elsewhere = (unclear or failure.kind is Kind.WRONG_REGION) and named != region
    return Outcome(
        f"it was {failure.kind.name.lower().replace('_', ' ')}",
        transient=failure.kind in _TRANSIENT,
        maybe_applied=failure.kind in _MAYBE_APPLIED,
        expired=unclear or failure.kind is Kind.EXPIRED,
        region=named if elsewhere and is_region(named) else None,
        wait=retry_after(failure.headers),
    )


def is_region(name: str) -> bool:
    """Whether a region can have that name, which becomes part of a host."""
    return _REGION.fullmatch(name) is not None


def is_error(body: bytes) -> bool:
    """Whether the document's root is an error: S3 sends some of them with status 200.

    Errors inside another document are of single things, such as of one key among many.
    """
    return _ERROR_ROOT.match(body) is not None


def connection_failure(error: Exception, *, sent: bool) -> Failure:
    """What a broken connection means, before (`sent` false) or after the request left."""
    kind = Kind.LOST if sent else Kind.UNSENT
    return Failure(kind, "", f"{type(error).__name__}: {error}".rstrip(": "), {})


def _parse(body: bytes) -> dict[str, str]:
    """The fields of an error document, which may be cut short; none if it is not one."""
    if not is_error(body) or b"<!DOCTYPE" in body:
        return {}
    parser: Any = ET.XMLPullParser(("start", "end"))  # the stubs know no kinds of events
    fields: dict[str, str] = {}
    depth = 0
    try:
        parser.feed(body.strip())
        for event, element in parser.read_events():
            depth += 1 if event == "start" else -1
            if event == "end" and depth == 1:
                fields[element.tag.rpartition("}")[2]] = element.text or ""
    except (ET.ParseError, ValueError, LookupError):
        return {}
    return fields
