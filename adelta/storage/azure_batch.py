"""Deletes of many blobs by one request: the documents of Azure's Blob Batch (pure).

The rules are those of "Blob Batch" in the REST reference, from version 2020-04-08 on: a batch is of
one container and of up to 256 deletes, each of which is authorized by itself and answered by
itself. What is not answered has to be deleted otherwise.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.object_client import Signed

__all__ = ["BATCH_QUERY", "CONTENT_TYPE", "LARGEST_BATCH", "batch_document", "deleted_in"]

LARGEST_BATCH = 256
"""Deletes that one request takes."""

BATCH_QUERY = "comp=batch&restype=container"
_BOUNDARY = "batch_adelta"
CONTENT_TYPE = f"multipart/mixed; boundary={_BOUNDARY}"
"""The type of what `batch_document` makes."""

_BEGINS = re.compile(r"--[^\r\n]+\r?\n")
_NUMBER = re.compile(r"(?im)^content-id:[ \t]*(\d{1,6})[ \t]*\r?$")
_STATUS = re.compile(r"(?m)^HTTP/1\.\d (\d{3})\b")
_GONE = frozenset({"200", "202", "204", "404"})


def batch_document(deletes: Sequence[Signed]) -> bytes:
    """The body of a batch that makes these requests, numbered from 0 on."""
    parts = []
    for number, signed in enumerate(deletes):
        target = f"{signed.path}?{signed.query}" if signed.query else signed.path
        headers = "".join(f"{name}: {value}\r\n" for name, value in signed.headers.items())
        parts.append(
            f"--{_BOUNDARY}\r\nContent-Type: application/http\r\n"
            f"Content-Transfer-Encoding: binary\r\nContent-ID: {number}\r\n\r\n"
            f"DELETE {target} HTTP/1.1\r\n{headers}Content-Length: 0\r\n\r\n"
        )
    return "".join([*parts, f"--{_BOUNDARY}--\r\n"]).encode()


def deleted_in(body: bytes) -> set[int]:
    """The numbers of the deletes after which, as the answer to a batch says, no blob is there.

    >>> part = chr(10).join(("--x", "Content-ID: {}", "", "HTTP/1.1 {}", ""))
    >>> sorted(deleted_in("".join(map(part.format, (0, 1, 2), (202, 403, 404))).encode()))
    [0, 2]
    """
    found: set[int] = set()
    for part in _BEGINS.split(body.decode("utf-8", "replace")):
        number, status = _NUMBER.search(part), _STATUS.search(part)
        if number is not None and status is not None and status[1] in _GONE:
            found.add(int(number[1]))
    return found
