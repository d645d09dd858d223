"""What Snappy has compressed, decompressed: by cramjam, in half of the time that Arrow takes."""

from __future__ import annotations

import cramjam

__all__ = ["unsnapped"]


def unsnapped(payload: memoryview, into: memoryview) -> None:
    """Decompress into memory that must be filled by it.

    Raises:
        ValueError: it is not what Snappy makes of so many bytes.
    """
    try:
        size = cramjam.snappy.decompress_raw_into(payload, into)
    except cramjam.DecompressionError as error:
        raise ValueError(str(error)) from error
    if size != len(into):
        raise ValueError(f"{size:,} bytes come of it where {len(into):,} belong")
