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
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.storage.body_checks import (
    DIGESTED_INLINE,
    Fault,
    is_whole,
    md5_of,
    native_checksums,
    native_is_loaded,
)
from adelta.storage.object_answers import Answer, Failure, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = [
    "COMPOSITE",
    "MODE",
    "MULTIPART",
    "body_fault",
    "checksums_of",
    "is_digested_inline",
    "refuses_checksums",
]

MODE = {"x-amz-checksum-mode": "ENABLED"}
"""Asks for the checksum of an object with its bytes."""

MULTIPART = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "FULL_OBJECT"}
"""Begins an upload whose parts bear the checksums of `checksums_of`."""

COMPOSITE = {"x-amz-checksum-algorithm": "CRC32", "x-amz-checksum-type": "COMPOSITE"}
"""Begins one where the checksums of parts are named again at its end, for lack of the other."""

_HEADER = "x-amz-checksum-crc32"
_CRC32C, _CRC64NVME = f"{_HEADER}c", "x-amz-checksum-crc64nvme"
_LARGE = 1 << 20
_MD5 = re.compile(r'"?([0-9a-f]{32})"?')
_OF_OTHER_KEYS = "x-amz-server-side-encryption-customer-algorithm"


def _crc32(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(4, "big")


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def _sha256(data: bytes) -> bytes:
    return hashlib.sha256(data).digest()


def _digest(name: str, data: bytes) -> bytes | None:
    """The checksum by the algorithm that S3's headers call so; None where nothing computes it."""
    if (known := _ALGORITHMS[name]) is not None:
        return known(data)
    native = native_checksums()
    if native is None:
        return None
    if name == "crc32c":
        found: bytes = native.crc32c(data).to_bytes(4, "big")
    else:
        found = native.crc64nvme(data).to_bytes(8, "big")
    return found


_ALGORITHMS: Mapping[str, Callable[[bytes], bytes] | None] = {
    "crc32": _crc32,
    "sha256": _sha256,
    "sha1": _sha1,
    "crc32c": None,
    "crc64nvme": None,
}


async def checksums_of(body: bytes) -> dict[str, str]:
    """The header with the checksum of a body."""
    digest = _crc32(body) if len(body) < _LARGE else await in_thread(_crc32, body)
    return {_HEADER: base64.b64encode(digest).decode()}


def is_digested_inline(answer: Answer) -> bool:
    """Whether `body_fault` takes less time than a hop to a thread."""
    if len(answer.body) >= DIGESTED_INLINE:
        return False
    headers = answer.headers
    return native_is_loaded() or not (_CRC32C in headers or _CRC64NVME in headers)


def body_fault(
    answer: Answer, *, tags_are_digests: bool | None
) -> tuple[Fault | None, bool | None]:
    """What is wrong with the body of an object, and whether entity tags are known to be MD5s.

    None where they are known to be none. Nothing is said of a body that is not the whole object.
    CPU-heavy where it is long.
    """
    if answer.placed is not None or not is_whole(answer):
        return None, tags_are_digests
    for name in _ALGORITHMS:
        said = answer.headers.get(f"x-amz-checksum-{name}", "")
        if not said or "-" in said:  # that is one of the checksums of parts
            continue
        if (digest := _digest(name, answer.body)) is not None:
            if said == base64.b64encode(digest).decode():
                return None, tags_are_digests
            return Fault(f"the body's {name.upper()} is not {said}, the object's", True), (
                tags_are_digests
            )
    if tags_are_digests is None:
        return None, None
    found = _MD5.fullmatch(answer.headers.get("etag", ""))
    if found is None or _is_sealed(answer.headers):
        return None, tags_are_digests
    if md5_of(answer.body).hex() == found[1]:
        return None, True
    reason = f"the body's MD5 is not {found[1]}, the object's entity tag"
    return Fault(reason, tags_are_digests), tags_are_digests


def refuses_checksums(failure: Failure) -> bool:
    """Whether a store may have refused a request for the headers of its checksum."""
    said = failure.reason.lower()
    named = "checksum" in said or "a header you provided implies functionality" in said
    return named and failure.kind in (Kind.UNSUPPORTED, Kind.REFUSED) and not failure.maybe_applied


def _is_sealed(headers: Mapping[str, str]) -> bool:
    """Whether the object is encrypted in a way that makes its entity tag no MD5."""
    kind = headers.get("x-amz-server-side-encryption", "")
    return kind.startswith("aws:") or _OF_OTHER_KEYS in headers
