"""The bytes of deletion vectors: the 64-bit Roaring bitmap, its magic, and the framing in files.

PROTOCOL.md, "Deletion Vector Format": a bitmap is a little-endian magic number and the portable
serialisation; in a file, big-endian, stand a version byte, and for each vector its size, its bytes
and their CRC-32. CRoaring, through pyroaring, reads and writes the bitmaps.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from pyroaring import BitMap, BitMap64

from adelta.errors import ChecksumMismatchError, InvalidTableError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = [
    "FILE_HEADER",
    "decode_bitmap",
    "encode_bitmap",
    "encode_file",
    "framed_range",
    "unframe",
]

FILE_HEADER = b"\x01"
"""What a deletion vector file starts with: the version of its format."""

_PORTABLE_MAGIC = 1681511377
_NATIVE_MAGIC = 1681511376
_FRAME = 8  # the size before the bytes, the CRC behind


def framed_range(offset: int | None, size: int) -> tuple[int, int]:
    """Which bytes of a file hold the vector of `size` bytes whose frame starts at `offset`."""
    start = len(FILE_HEADER) if offset is None else offset
    return start, start + size + _FRAME


def unframe(frame: bytes, size: int, source: str) -> bytes:
    """The bitmap's bytes in a frame read from a file; `source` names the file in messages.

    Raises:
        InvalidTableError: the frame is cut short or of another size.
        ChecksumMismatchError: the bytes do not agree with their CRC-32.
    """
    if len(frame) != size + _FRAME:
        raise InvalidTableError(
            f"{source}: the deletion vector is cut short ({len(frame)} of {size + _FRAME} bytes); "
            "restore the file, or the table to an earlier version"
        )
    (stored,) = struct.unpack_from(">i", frame)
    if stored != size:
        raise InvalidTableError(
            f"{source}: the deletion vector has {stored} bytes where the log says {size}; restore "
            "the file, or the table to an earlier version"
        )
    data = frame[4:-4]
    (crc,) = struct.unpack_from(">I", frame, size + 4)
    if zlib.crc32(data) != crc:
        raise ChecksumMismatchError(
            f"{source}: the deletion vector does not agree with its CRC-32; restore the file, or "
            "the table to an earlier version"
        )
    return data


def decode_bitmap(data: bytes, source: str) -> BitMap64:
    """The rows that a bitmap names; `source` names it in messages.

    Raises:
        InvalidTableError: the bytes are no bitmap.
    """
    if len(data) < 4:
        raise InvalidTableError(f"{source}: {len(data)} bytes are no deletion vector")
    (magic,) = struct.unpack_from("<i", data)
    try:
        if magic == _PORTABLE_MAGIC:
            return BitMap64.deserialize(data[4:])
        if magic == _NATIVE_MAGIC:
            return _native(data[4:])
    except (ValueError, IndexError, struct.error, MemoryError, AssertionError) as error:
        raise InvalidTableError(
            f"{source}: the deletion vector is damaged ({error}); restore the file, or the table "
            "to an earlier version"
        ) from error
    raise InvalidTableError(
        f"{source}: the deletion vector has the unknown magic number {magic}; it is damaged, or "
        "a newer format that a newer adelta may know"
    )


def _native(data: bytes) -> BitMap64:
    """The older layout, which Spark still reads: bitmaps one after the other, each with its size.

    Their bytes are those of the portable layout, so they are put together anew and never unfolded.
    """
    (count,) = struct.unpack_from("<i", data)
    parts, at = [], 4
    for high in range(count):
        (size,) = struct.unpack_from("<i", data, at)
        at += 4
        if size < 0 or at + size > len(data):
            raise ValueError("a bitmap is cut short")
        if BitMap.deserialize(data[at : at + size]):
            parts.append(struct.pack("<i", high) + data[at : at + size])
        at += size
    return BitMap64.deserialize(struct.pack("<q", len(parts)) + b"".join(parts))


def encode_bitmap(rows: Iterable[int]) -> bytes:
    """The bytes of the bitmap of `rows`."""
    if isinstance(rows, BitMap64):
        return struct.pack("<i", _PORTABLE_MAGIC) + rows.serialize()
    return struct.pack("<i", _PORTABLE_MAGIC) + BitMap64(rows).serialize()


def encode_file(bitmaps: Sequence[bytes]) -> tuple[bytes, list[int]]:
    """A file of several encoded bitmaps, and the offset of each."""
    content, offsets = bytearray(FILE_HEADER), []
    for data in bitmaps:
        offsets.append(len(content))
        content += struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return bytes(content), offsets
