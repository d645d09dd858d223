"""Whether the bytes of an answer are those that were asked for, whatever store it is of."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from adelta.storage.object_answers import Answer

__all__ = [
    "DIGESTED_INLINE",
    "Fault",
    "is_whole",
    "md5_of",
    "native_checksums",
    "native_is_loaded",
    "object_fault",
    "range_fault",
]

DIGESTED_INLINE = 128 << 10
"""Bytes of a body up to which it takes less time to digest than to hand over to a thread."""

_KEEPS_INTERPRETER = 2047  # bytes at a time for which hashlib does
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18}|\*)")


class Fault(NamedTuple):
    """Why a body is not what was asked for; not `certain` where only an entity tag says so."""

    reason: str
    certain: bool


def md5_of(body: bytes | memoryview) -> bytes:
    """The digest of a body.

    A small body goes in piece by piece, as hashlib keeps the interpreter for these: its other
    threads may take longer to give it back than the whole digest takes.
    """
    digest = hashlib.md5(usedforsecurity=False)
    step = _KEEPS_INTERPRETER if len(body) <= DIGESTED_INLINE else len(body)
    for start in range(0, len(body), step or 1):
        digest.update(memoryview(body)[start : start + step])
    return digest.digest()


@cache
def native_checksums() -> Any:
    """What computes CRC-32C and CRC-64/NVME; None where adelta[checksums] is not installed.

    To load it takes as long as to open a table: that is done in a thread, and once something has
    such a checksum.
    """
    try:
        return import_module("awscrt.checksums")
    except ImportError:
        return None


def native_is_loaded() -> bool:
    """Whether `native_checksums` has been loaded, and answers at once."""
    return native_checksums.cache_info().currsize > 0 and native_checksums() is not None


def object_fault(answer: Answer) -> Fault | None:
    """What is wrong with an answer of an object that has no bytes: stores say which version it is.

    A proxy's empty page of success says nothing of the kind. Taken for the store's answer, it would
    make an object of one that is not there. Bytes speak for themselves: who reads them as a commit
    finds out what they are.
    """
    if answer.placed or answer.body:
        return None
    if answer.headers.get("etag") or answer.headers.get("last-modified"):
        return None
    return Fault("the answer has neither an entity tag nor a time: it is not the store's", True)


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


def is_whole(answer: Answer) -> bool:
    """Whether the answer has the whole object."""
    if answer.status == 200:
        return True
    found = _RANGE.fullmatch(answer.headers.get("content-range", ""))
    return found is not None and found[1] == "0" and found[3] == str(int(found[2]) + 1)
