"""The files of the disk cache: extents of objects, with checksums of what is in them (pure).

A file begins with a header: which object it is of, by digests of its address and its entity tag,
which bytes it has, and a checksum of every 64 KiB of them; then come the bytes. Whatever does not
fit together is as if it were not there.
"""

from __future__ import annotations

import re
import struct

import xxhash

from adelta._dataclasses import dataclass

__all__ = [
    "CHUNK",
    "Extent",
    "chunk_sums",
    "content_of",
    "header_length",
    "parsed_name",
    "sums_of",
    "tag_of",
]

CHUNK = 64 << 10
"""Bytes that have one checksum."""

_MAGIC = b"ADELTA\x00\x01"
_FIXED = struct.Struct("<8s16s8sQQq")
_SUM = struct.Struct("<Q")
_UNKNOWN = -1
_NUMBER = r"0|[1-9a-f][0-9a-f]{0,14}"
_NAME = re.compile(rf"({_NUMBER})-({_NUMBER})-(n|{_NUMBER})-([0-9a-f]{{16}})\.([sm])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes ``[start, end)`` of a version of an object, which has `size` bytes where that is known.

    `tag` is a digest of the version's entity tag, `kept` whether they have come a second time.
    """

    start: int
    end: int
    size: int | None
    tag: str
    kept: bool

    @property
    def name(self) -> str:
        """What its file is called."""
        size = "n" if self.size is None else f"{self.size:x}"
        return f"{self.start:x}-{self.end:x}-{size}-{self.tag}.{'m' if self.kept else 's'}"


def tag_of(etag: str) -> str:
    """The digest that names of files have of an entity tag."""
    return xxhash.xxh3_64_hexdigest(etag.encode())


def parsed_name(name: str) -> Extent | None:
    """The extent that a file of that name has; None of other files."""
    named = _NAME.fullmatch(name)
    if named is None:
        return None
    start, end, size, tag, queue = named.groups()
    told = None if size == "n" else int(size, 16)
    extent = Extent(int(start, 16), int(end, 16), told, tag, queue == "m")
    return extent if extent.start < extent.end else None


def header_length(extent: Extent) -> int:
    """How many bytes of its file come before those of the object."""
    chunks = -(-(extent.end - extent.start) // CHUNK)
    return _FIXED.size + _SUM.size * (chunks + 1)


def content_of(entry: str, extent: Extent, data: bytes | memoryview) -> bytes:
    """The header of the file of an extent of the object `entry`. CPU-heavy where it is long."""
    view = memoryview(data)
    sums = b"".join(
        _SUM.pack(xxhash.xxh3_64_intdigest(view[at : at + CHUNK]))
        for at in range(0, len(view), CHUNK)
    )
    head = _fixed(entry, extent) + sums
    return head + _SUM.pack(xxhash.xxh3_64_intdigest(head))


def sums_of(entry: str, extent: Extent, header: bytes) -> list[int] | None:
    """The checksums of its chunks; None where that is no header of this extent of `entry`."""
    if len(header) != header_length(extent) or not header.startswith(_fixed(entry, extent)):
        return None
    head, last = header[: -_SUM.size], header[-_SUM.size :]
    if _SUM.pack(xxhash.xxh3_64_intdigest(head)) != last:
        return None
    return [each for (each,) in _SUM.iter_unpack(head[_FIXED.size :])]


def chunk_sums(before: bytearray, data: memoryview, after: bytearray) -> list[int]:
    """The checksums of the chunks of what begins with a chunk's begin, and is in three places."""
    found = []
    for start in range(-len(before), len(data), CHUNK):
        end = start + CHUNK
        if start >= 0 and (end <= len(data) or not after):
            found.append(xxhash.xxh3_64_intdigest(data[start:end]))
            continue
        made = xxhash.xxh3_64(before if start < 0 else b"")
        made.update(data[max(start, 0) : end])
        if end > len(data):
            made.update(after)
        found.append(made.intdigest())
    return found


def _fixed(entry: str, extent: Extent) -> bytes:
    size = _UNKNOWN if extent.size is None else extent.size
    return _FIXED.pack(
        _MAGIC,
        bytes.fromhex(entry),
        bytes.fromhex(extent.tag),
        extent.start,
        extent.end,
        size,
    )
