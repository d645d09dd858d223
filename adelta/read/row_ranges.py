"""Ranges of rows of a row group: in order, none empty, none overlapping. Pure, no I/O."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyroaring import BitMap64

__all__ = ["common_rows", "joined_ranges", "named_ranges"]

_BLOCK = 1024  # rows: pages have more


def joined_ranges(ranges: Iterable[range], gap: int) -> list[range]:
    """The ranges, those with fewer than `gap` rows between them as one.

    >>> joined_ranges([range(0, 5), range(5, 7), range(9, 12)], 1)
    [range(0, 7), range(9, 12)]
    """
    joined: list[range] = []
    for rows in ranges:
        if joined and rows.start - joined[-1].stop < gap:
            rows = range(joined.pop().start, rows.stop)
        joined.append(rows)
    return joined


def common_rows(rows: Iterable[range], others: Sequence[range]) -> list[range]:
    """The rows that are in both.

    >>> common_rows([range(0, 5), range(8, 12)], [range(3, 10)])
    [range(3, 5), range(8, 10)]
    """
    found, at = [], 0
    for one in rows:
        while at < len(others) and others[at].stop <= one.start:
            at += 1
        for other in islice(others, at, None):
            if other.start >= one.stop:
                break
            found.append(range(max(one.start, other.start), min(one.stop, other.stop)))
    return found


def named_ranges(named: BitMap64, first: int, count: int) -> list[range]:
    """Blocks of the `count` rows from `first` on that have all rows which are named among them.

    They are counted from the first of these rows.
    """
    blocks = (range(at, min(count, at + _BLOCK)) for at in range(0, count, _BLOCK))
    some = (b for b in blocks if named.range_cardinality(first + b.start, first + b.stop))
    return joined_ranges(some, 1)
