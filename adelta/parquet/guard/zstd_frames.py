"""Whether pages are each one whole frame of Zstandard, so that many can be decompressed in one go.

Frames that lie one behind the other are decompressed by one call, which sets itself up once: for
small pages that is what takes the time. Each frame has to end where its page does, and to say what
it comes to, which the decompressor holds it to: then none can reach into the next.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

__all__ = ["are_whole_frames"]

Numbers: TypeAlias = Any
"""An array of NumPy, of a type that is known at run time only."""

_MAGIC: Final = 0xFD2FB528
_MOST_BLOCKS: Final = 16  # of a page that is small
_RUN, _RESERVED = 1, 3  # kinds of blocks
_HEAD = 3  # bytes in front of a block


def are_whole_frames(words: Numbers, start: Numbers, end: Numbers, unfolded: Numbers) -> Numbers:
    """Which payloads, given by where they start and end, are a frame of so many bytes `unfolded`.

    `words` has the eight bytes from each byte on, as a number.
    """
    last = len(words) - 1
    first = words[start]
    descriptor = first >> np.uint64(32) & np.uint64(0xFF)
    size_flag = (descriptor >> np.uint64(6)).astype(np.int64)
    is_single = (descriptor >> np.uint64(5) & np.uint64(1)).astype(np.int64)
    has_checksum = (descriptor >> np.uint64(2) & np.uint64(1)).astype(np.int64)
    good = (first & np.uint64(0xFFFFFFFF)) == _MAGIC
    good &= (descriptor & np.uint64(0b1011)) == 0  # no dictionary, and nothing that is reserved
    width = np.where(size_flag == 0, is_single, 1 << size_flag)
    good &= width > 0
    at = np.minimum(start + 6 - is_single, last)  # behind a byte for the window, if there is one
    bits = (8 * np.minimum(width, 7)).astype(np.uint64)  # of sizes that these pages may have
    said = words[at] & ((np.uint64(1) << bits) - np.uint64(1))
    good &= said + np.where(width == 2, 256, 0).astype(np.uint64) == unfolded.astype(np.uint64)
    good &= (width < 8) | (words[at] >> np.uint64(56) == 0)
    at = at + width
    open_, done = good.copy(), np.zeros(len(at), np.bool_)
    for _ in range(_MOST_BLOCKS):
        if not open_.any():
            break
        head = words[np.minimum(at, last)].astype(np.int64) & 0xFFFFFF
        kind = head >> 1 & 3
        size = np.where(kind == _RUN, 1, head >> 3)
        good &= ~open_ | (kind != _RESERVED)
        at = np.where(open_, at + _HEAD + size, at)
        done |= open_ & (head & 1 == 1)
        open_ &= ~done & (at < end) & good
    return good & done & (at + 4 * has_checksum == end)
