"""Paths of objects inside a store: one rule for all adapters, checked at the edge.

A path is relative to the store's root, its segments are separated by ``/``, and none of them is
empty, ``.`` or ``..``: such a path means the same object in a bucket and on a disk, and can never
leave the root.
"""

from __future__ import annotations

import re

from adelta.errors import InvalidOptionError

__all__ = ["check_path", "check_prefix", "check_range"]

_ODD_SEGMENT = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|\0")


def check_path(path: str) -> str:
    """The path itself, if it names an object below the root.

    Raises:
        InvalidOptionError: it is empty, absolute, or has an empty, ``.`` or ``..`` segment.
    """
    if not path or _ODD_SEGMENT.search(path):
        raise InvalidOptionError(
            f"{path!r} is not a path of an object: it must be relative to the store's root, without"
            " empty segments, '.' or '..'"
        )
    return path


def check_prefix(prefix: str) -> str:
    """The prefix itself, if objects below the root can start with it.

    Raises:
        InvalidOptionError: no path of an object starts so.
    """
    if prefix and _ODD_SEGMENT.search(prefix + "x"):
        raise InvalidOptionError(
            f"{prefix!r} is not a prefix of paths: it must be relative to the store's root, without"
            " empty segments, '.' or '..'"
        )
    return prefix


def check_range(path: str, start: int, end: int) -> None:
    """Check that ``[start, end)`` is a range of bytes.

    Raises:
        InvalidOptionError: it starts below zero or ends before its start.
    """
    if start < 0 or end < start:
        raise InvalidOptionError(f"[{start}, {end}) is not a range of bytes of {path!r}")
