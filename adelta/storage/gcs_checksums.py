"""What vouches for the bytes of Google's answers and of what is put there.

That is a CRC-32C, which all objects have, where there is something to compute it with. The MD5,
which objects have that were put by one request, serves where there is not, and for small bodies
until it is loaded.
"""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from adelta._concurrency import in_thread
from adelta.storage.body_checks import (
    DIGESTED_INLINE,
    Fault,
    is_whole,
    md5_of,
    native_checksums,
    native_is_loaded,
)
from adelta.storage.object_client import LARGE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from adelta.storage.object_answers import Answer

__all__ = ["StreamSum", "body_fault", "crc32c", "is_summed_inline", "sum_of"]


def crc32c() -> Callable[[bytes, int], int] | None:
    """What goes on with a CRC-32C by more bytes; None where adelta[checksums] is not installed."""
    native = native_checksums()
    digest: Callable[[bytes, int], int] | None = getattr(native, "crc32c", None)
    return digest


def is_summed_inline(data: bytes) -> bool:
    """Whether `sum_of` these bytes takes less time than a hop to a thread."""
    return len(data) < (LARGE if native_is_loaded() else DIGESTED_INLINE)


def sum_of(data: bytes) -> dict[str, str]:
    """The checksum of an object that is put, by its name in the JSON API."""
    by_md5 = len(data) < DIGESTED_INLINE and not native_is_loaded()
    digest = None if by_md5 else crc32c()
    if digest is None:
        return {"md5Hash": _text(md5_of(data))}
    return {"crc32c": _crc_text(digest(data, 0))}


async def body_fault(answer: Answer) -> Fault | None:
    """What is wrong with the body of an object: it must have the checksum that is told."""
    if answer.placed is not None or not is_whole(answer):
        return None
    if answer.headers.get("x-goog-stored-content-encoding", "identity") != "identity":
        return None  # it was unpacked on its way, and the checksum is of what is stored
    said = ",".join(getattr(answer.headers, "getall", _all)("x-goog-hash", []))
    sums = dict(each.strip().split("=", 1) for each in said.split(",") if "=" in each)
    small, loaded = len(answer.body) < DIGESTED_INLINE, native_is_loaded()
    if small and (loaded or "md5" in sums):
        return _fault(sums, answer.body, by_md5=not loaded)
    return await in_thread(_fault, sums, answer.body, by_md5=False)


def _all(name: str, default: list[str]) -> list[str]:
    return default


def _fault(sums: Mapping[str, str], body: bytes, *, by_md5: bool) -> Fault | None:
    digest = None if by_md5 else crc32c()
    if digest is not None and (said := sums.get("crc32c")):
        right = _crc_text(digest(body, 0)) == said
        return None if right else Fault(f"the body's CRC-32C is not {said}", certain=True)
    if said := sums.get("md5"):
        right = _text(md5_of(body)) == said
        return None if right else Fault(f"the body's MD5 is not {said}", certain=True)
    return None


class StreamSum:
    """The checksum of what has been sent so far of an object."""

    def __init__(self) -> None:
        self._crc = 0
        self._md5: Any = hashlib.md5(usedforsecurity=False)

    def add(self, piece: bytes) -> None:
        """Go on by a piece. CPU-heavy."""
        digest = crc32c()
        if digest is not None:
            self._crc = digest(piece, self._crc)
        else:
            self._md5.update(piece)

    def differs(self, said: Mapping[str, Any]) -> bool:
        """Whether what the store says of the object is that it has another one."""
        if native_checksums() is not None:
            name, made = "crc32c", _crc_text(self._crc)
        else:
            name, made = "md5Hash", _text(self._md5.digest())
        return said.get(name, "") not in ("", made)


def _crc_text(crc: int) -> str:
    return _text(crc.to_bytes(4, "big"))


def _text(digest: bytes) -> str:
    return base64.b64encode(digest).decode()
