"""Arithmetic on byte ranges ``[start, end)``: pure, no I/O."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sized

__all__ = ["ByteRange", "extents", "join_adjacent", "subtract"]

ByteRange = tuple[int, int]


def join_adjacent(ranges: Iterable[ByteRange], *, limit: int) -> list[ByteRange]:
    """The ranges in order, those that touch joined up to `limit` bytes, overlaps joined always.

    >>> join_adjacent([(10, 20), (0, 10), (30, 40)], limit=100)
    [(0, 20), (30, 40)]
    """
    joined: list[ByteRange] = []
    for start, end in sorted(ranges):
        if start >= end:
            continue
        if joined:
            last_start, last_end = joined[-1]
            touches = start == last_end and end - last_start <= limit
            if start < last_end or touches:
                joined[-1] = (last_start, max(last_end, end))
                continue
        joined.append((start, end))
    return joined


def subtract(ranges: Iterable[ByteRange], held: Iterable[ByteRange]) -> list[ByteRange]:
    """What of `ranges` lies in none of `held`.

    >>> subtract([(0, 10)], [(2, 4), (8, 20)])
    [(0, 2), (4, 8)]
    """
    holes = sorted(held)
    left: list[ByteRange] = []
    for start, end in ranges:
        at = start
        for hole_start, hole_end in holes:
            if hole_end <= at:
                continue
            if hole_start >= end:
                break
            if hole_start > at:
                left.append((at, hole_start))
            at = hole_end
        if at < end:
            left.append((at, end))
    return left


def extents(pieces: Iterable[tuple[int, Sized]]) -> list[ByteRange]:
    """The ranges of pieces, each given by its start and its bytes.

    >>> extents([(4, b"abc")])
    [(4, 7)]
    """
    return [(start, start + len(data)) for start, data in pieces]
