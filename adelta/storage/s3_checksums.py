"""What vouches for the bytes of S3's answers and of what is put there.

A body that is sent bears its CRC-32, one of S3's own algorithms, which the standard library
computes at some GB a second; S3 keeps it with the object. Of a whole object that is got there may
be a checksum of the store's: it must be the body's. CRC-32, SHA-1 and SHA-256 are always looked at,
CRC-32C and CRC-64/NVME where `awscrt` is installed. Where there is none, the entity tag is mostly
the MD5 of an object that was put by one request, but no store has to make it so: a body that
differs from it is only doubted until some tag of that store has been seen to be one. Of parts of an
object there is no checksum; the answer has to say that it has the bytes asked for.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from adelta._concurrency import in_thread
from adelta.storage.s3_errors import Answer, Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "MODE",
    "MULTIPART",
    "Fault",
    "body_fault",
    "checksums_of",
    "range_fault",
    "refuses_checksums",
]

MODE = {"x-amz-checksum-mode": "ENABLED"}
"""Asks for the checksum of an object with its bytes."""

MULTIPART = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
"""Begins an upload whose parts bear the checksums of `checksums_of`."""

_HEADER = "x-amz-checksum-crc32"
_LARGE = 1 << 20
_SMALL = 128 << 10  # bytes of a body that take less time to digest than to hand over
_KEEPS_INTERPRETER = 2047  # bytes at a time for which hashlib does
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_OF_OTHER_KEYS = "x-amz-server-side-encryption-customer-algorithm"


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


@cache
def _algorithms() -> Mapping[str, Callable[[bytes], bytes]]:
    """The algorithms that there is something to compute with, by their names in S3's headers."""
    found = {"crc32": _crc32, "sha256": _sha256, "sha1": _sha1}
    try:
        native: Any = import_module("awscrt.checksums")
    except ImportError:  # it comes with adelta[checksums]
        return found
    return {
        **found,
        "crc32c": lambda data: native.crc32c(data).to_bytes(4, "big"),
        "crc64nvme": lambda data: native.crc64nvme(data).to_bytes(8, "big"),
    }


class Fault(NamedTuple):
    """Why a body is not what was asked for; not `certain` where only an entity tag says so."""

    reason: str
    certain: bool


async def checksums_of(body: bytes) -> dict[str, str]:
    """The header with the checksum of a body."""
    digest = _crc32(body) if len(body) < _LARGE else await in_thread(_crc32, body)
    return {_HEADER: base64.b64encode(digest).decode()}


def body_fault(answer: Answer, *, tags_are_digests: bool) -> tuple[Fault | None, bool]:
    """What is wrong with the body of an object, and whether its entity tag is its MD5.

    Nothing is said of a body that is not the whole object. CPU-heavy where it is long.
    """
    if answer.placed is not None or not _is_whole(answer):
        return None, tags_are_digests
    for name, digest in _algorithms().items():
        said = answer.headers.get(f"x-amz-checksum-{name}", "")
        if said and "-" not in said:  # else it is one of the checksums of parts
            if said == base64.b64encode(digest(answer.body)).decode():
                return None, tags_are_digests
            return Fault(f"the body's {name.upper()} is not {said}, the object's", True), (
                tags_are_digests
            )
    found = _MD5.fullmatch(answer.headers.get("etag", ""))
    if found is None or _is_sealed(answer.headers):
        return None, tags_are_digests
    if _md5(answer.body) == found[1]:
        return None, True
    reason = f"the body's MD5 is not {found[1]}, the object's entity tag"
    return Fault(reason, tags_are_digests), tags_are_digests


def _md5(body: bytes | memoryview) -> str:
    """The digest in hexadecimal digits.

    A small body goes in piece by piece, as hashlib keeps the interpreter for these: its other
    threads may take longer to give it back than the whole digest takes.
    """
    digest = hashlib.md5(usedforsecurity=False)
    step = _KEEPS_INTERPRETER if len(body) <= _SMALL else len(body)
    for start in range(0, len(body), step or 1):
        digest.update(memoryview(body)[start : start + step])
    return digest.hexdigest()


def range_fault(asked: str, answer: Answer) -> Fault | None:
    """What is wrong with an answer of a part of an object; `asked` is the header of the request."""
    if answer.status != 206:
        return None
    said = answer.headers.get("content-range", "")
    found = _RANGE.fullmatch(said)
    if found is None:
        return Fault(f"the answer says {said!r} of which bytes it has", True)
    first, last = int(found[1]), int(found[2])
    count = len(answer.body) if answer.placed is None else answer.placed
    size = None if found[3] == "*" else int(found[3])
    start, _, end = asked.removeprefix("bytes=").partition("-")
    if start:
        wanted_first, wanted_last = int(start), int(end)
    elif size is None:
        wanted_first, wanted_last = first, last
    else:
        wanted_first, wanted_last = max(0, size - int(end)), size - 1
    if size is not None:
        wanted_last = min(wanted_last, size - 1)
    elif last < wanted_last:
        wanted_last = last  # the object may end there
    if (first, last, count) == (wanted_first, wanted_last, last - first + 1):
        return None
    return Fault(f"{count} bytes came as {said!r} where {asked!r} was asked for", True)


def refuses_checksums(failure: Failure) -> bool:
    """Whether a store may have refused a request for the headers of its checksum."""
    said = failure.reason.lower()
    named = "checksum" in said or "a header you provided implies functionality" in said
    return named and failure.kind in (Kind.UNSUPPORTED, Kind.REFUSED) and not failure.maybe_applied


def _is_whole(answer: Answer) -> bool:
    if answer.status == 200:
        return True
    found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    return found is not None and found[1] == "0" and found[3] == str(int(found[2]) + 1)


def _is_sealed(headers: Mapping[str, str]) -> bool:
    """Whether the object is encrypted in a way that makes its entity tag no MD5."""
    kind = headers.get("x-amz-server-side-encryption", "")
    return kind.startswith("aws:") or _OF_OTHER_KEYS in headers
