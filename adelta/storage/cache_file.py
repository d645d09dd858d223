"""The files of the disk cache: extents of objects, with checksums of what is in them (pure).

A file begins with a header: which object it is of, by digests of its address and its entity tag,
which bytes it has, and a checksum of every 64 KiB of them; then come the bytes. Whatever does not
fit together is as if it were not there. A file may have a few small extents, one behind the other:
to open another takes longer than to read so little from it.
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
    "parts_of",
    "sums_of",
    "tag_of",
    "together",
]

CHUNK = 64 << 10
"""Bytes that have one checksum."""

_MAGIC = b"ADELTA\x00\x01"
_MAGIC_OF_PARTS = b"ADELTA\x00\x02"
_MOST_PARTS = 4
_MOST_TOGETHER = 128 << 10  # bytes of a file of several extents
_FIXED = struct.Struct("<8s16s8sQQq")
_SUM = struct.Struct("<Q")
_UNKNOWN = -1
_NUMBER = r"0|[1-9a-f][0-9a-f]{0,14}"
_RANGE = rf"(?:{_NUMBER})-(?:{_NUMBER})"
_NAME = re.compile(
    rf"({_RANGE})((?:\+{_RANGE}){{,{_MOST_PARTS - 1}}})-(n|{_NUMBER})-([0-9a-f]{{16}})\.([sm])",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes ``[start, end)`` of a version of an object, which has `size` bytes where that is known.

    `tag` is a digest of the version's entity tag, `kept` whether they have come a second time.
    `parts` are the ranges of all extents that its file has, in their order, if it has others, too.
    """

    start: int
    end: int
    size: int | None
    tag: str
    kept: bool
    parts: tuple[tuple[int, int], ...] = ()

    @property
    def name(self) -> str:
        """What its file is called."""
        size = "n" if self.size is None else f"{self.size:x}"
        return f"{self._ranges}-{size}-{self.tag}.{'m' if self.kept else 's'}"

    @property
    def content_length(self) -> int:
        """How many of the object's bytes its file has."""
        if not self.parts:
            return self.end - self.start
        return sum(end - start for start, end in self.parts)

    @property
    def place(self) -> int:
        """Where among these bytes its own begin."""
        place = 0
        for start, end in self.parts:
            if (start, end) == (self.start, self.end):
                break
            place += end - start
        return place

    @property
    def _ranges(self) -> str:
        parts = self.parts or ((self.start, self.end),)
        return "+".join(f"{start:x}-{end:x}" for start, end in parts)


def tag_of(etag: str) -> str:
    """The digest that names of files have of an entity tag."""
    return xxhash.xxh3_64_hexdigest(etag.encode())


def parsed_name(name: str) -> Extent | None:
    """The first extent that a file of that name has; None of other files."""
    named = _NAME.fullmatch(name)
    if named is None:
        return None
    first, others, size, tag, queue = named.groups()
    told = None if size == "n" else int(size, 16)
    start, end = _range_of(first)
    parts = ((start, end), *map(_range_of, others[1:].split("+"))) if others else ()
    if start >= end or any(start >= end for start, end in parts):
        return None
    return Extent(start, end, told, tag, queue == "m", parts)


def _range_of(text: str) -> tuple[int, int]:
    start, _, end = text.partition("-")
    return int(start, 16), int(end, 16)


def parts_of(first: Extent) -> list[Extent]:
    """All extents that the file of the first one has."""
    if not first.parts:
        return [first]
    rest = first.size, first.tag, first.kept, first.parts
    return [Extent(start, end, *rest) for start, end in first.parts]


def together(first: Extent, other: Extent) -> Extent | None:
    """The first extent as that of a file which has the `other` one, too, behind its own.

    None where they are not to be in one file.
    """
    parts = (*(first.parts or ((first.start, first.end),)), (other.start, other.end))
    if first.tag != other.tag or len({*parts}) < len(parts) or len(parts) > _MOST_PARTS:
        return None
    if None not in (first.size, other.size) and first.size != other.size:
        return None
    if first.content_length + other.content_length > _MOST_TOGETHER:
        return None
    size = other.size if first.size is None else first.size
    return Extent(first.start, first.end, size, first.tag, first.kept, parts)


def header_length(extent: Extent) -> int:
    """How many bytes of its file come before those of the object."""
    chunks = -(-extent.content_length // CHUNK)
    return _FIXED.size + _SUM.size * (chunks + 1)


def content_of(entry: str, extent: Extent, data: bytes | memoryview) -> bytes:
    """The header of the file of an extent of the object `entry`. CPU-heavy where it is long.

    `data` are all bytes of the object that the file is to have.
    """
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
    magic, start, end = _MAGIC, extent.start, extent.end
    if extent.parts:
        ranges = xxhash.xxh3_64_intdigest(extent._ranges.encode())
        magic, start, end = _MAGIC_OF_PARTS, ranges, extent.content_length
    return _FIXED.pack(magic, bytes.fromhex(entry), bytes.fromhex(extent.tag), start, end, size)
