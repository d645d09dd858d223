"""What an answer of S3 means to us: a table of its error codes, and what may help after them."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

from adelta.storage.object_answers import Failure, Kind, kind_of, outcome_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.storage.retry import Outcome

__all__ = ["error_fields", "failure_of", "is_error", "is_region", "outcome_of_s3"]

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
    "InvalidToken": Kind.DENIED,
    "InvalidObjectState": Kind.REFUSED,
    "QuotaExceeded": Kind.REFUSED,  # of Ceph's, by a status of denial
    "XMinioStorageFull": Kind.REFUSED,
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

_REGION = re.compile(r"[A-Za-z0-9_-]{1,63}")
_ERROR_ROOT = re.compile(rb"(?:\xef\xbb\xbf)?\s*(?:<\?[^>]{0,200}\?>\s*)?<Error[\s/>]")
_ADVICE: Mapping[str, str] = {
    "RequestTimeTooSkewed": "set this machine's clock",
    "SignatureDoesNotMatch": "check the secret key",
    "InvalidAccessKeyId": "check the access key, and that it is of this endpoint",
    "NotImplemented": (
        "if the store lacks checksums, set aws_request_checksum_calculation=when_required"
    ),
    "InvalidToken": "check the session token, and that it belongs to the keys",
    "InvalidObjectState": "the object is archived: restore it first",
    "QuotaExceeded": "delete objects, or raise the quota of the user or the bucket",
    "XMinioStorageFull": "the server's disks are full: delete objects, or add disks",
    "NoSuchBucket": "check the bucket's name and the endpoint",
}


def failure_of(status: int, headers: Mapping[str, str], body: bytes) -> Failure:
    """What an answer that is no success means."""
    said = error_fields(body)
    code = said.get("Code", "")
    kind = _CODES.get(code) or kind_of(status)
    reason = " ".join(filter(None, (f"HTTP {status}", code, said.get("Message"))))
    if request_id := said.get("RequestId") or headers.get("x-amz-request-id"):
        reason += f" [request {request_id}]"
    region = headers.get("x-amz-bucket-region") or said.get("Region")
    return Failure(kind, code, reason, headers, region=region, advice=_ADVICE.get(code))


def outcome_of_s3(failure: Failure, *, method: str, region: str) -> Outcome:
    """What may help after `failure` of a request of `method` that was signed for `region`."""
    unclear = failure.kind is Kind.REFUSED and method == "HEAD"  # whose answers bear no code
    named = failure.region or ""
    elsewhere = (unclear or failure.kind is Kind.WRONG_REGION) and named != region
    return outcome_of(
        failure,
        expired=unclear or failure.kind is Kind.EXPIRED,
        region=named if elsewhere and is_region(named) else None,
    )


def is_region(name: str) -> bool:
    """Whether a region can have that name, which becomes part of a host."""
    return _REGION.fullmatch(name) is not None


def is_error(body: bytes) -> bool:
    """Whether the document's root is an error: S3 sends some of them with status 200.

    Errors inside another document are of single things, such as of one key among many.
    """
    return _ERROR_ROOT.match(body) is not None


def error_fields(body: bytes) -> dict[str, str]:
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
