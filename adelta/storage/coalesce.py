"""Merging near byte ranges into few requests of moderate size (pure)."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, TypeVar

from adelta._dataclasses import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GAP", "LARGEST_FETCH", "FetchPlan", "plan_fetches"]

B = TypeVar("B", bytes, memoryview)

GAP = 1 << 20
"""Bytes that cost less to fetch in vain than another request would."""

LARGEST_FETCH = 4 << 20
"""Bytes beyond which two requests at once are faster than one."""


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """How to fetch `wanted` ranges.

    `spans` are the ranges, those that lie near each other as one, ascending and disjoint; `fetches`
    are the pieces that each span is fetched in.
    """

    wanted: tuple[tuple[int, int], ...]
    spans: tuple[tuple[int, int], ...]
    fetches: tuple[tuple[tuple[int, int], ...], ...]

    def cut(self, fetched: Sequence[B]) -> list[B | bytes]:
        """The bytes of every range asked for, out of the bytes of every span.

        Where the object ended inside a span, a range beyond the end comes out short.
        """
        starts = [start for start, _ in self.spans]
        cut: list[B | bytes] = []
        for start, end in self.wanted:
            index = bisect_right(starts, start) - 1
            if start == end or index < 0:
                cut.append(b"")
            else:
                cut.append(fetched[index][start - starts[index] : end - starts[index]])
        return cut


def plan_fetches(ranges: Sequence[tuple[int, int]], *, gap: int, largest: int) -> FetchPlan:
    """How to fetch `ranges`: those no more than `gap` bytes apart as one, none above `largest`.

    A range is cut in pieces where it alone is larger.

    >>> plan_fetches([(0, 10), (12, 20), (90, 100)], gap=5, largest=50).spans
    ((0, 20), (90, 100))
    >>> plan_fetches([(0, 30), (30, 60)], gap=5, largest=50).spans
    ((0, 30), (30, 60))
    >>> plan_fetches([(0, 100)], gap=5, largest=50).fetches
    (((0, 50), (50, 100)),)
    """
    spans: list[list[int]] = []
    for start, end in sorted({(start, end) for start, end in ranges if start < end}):
        if spans:
            last = spans[-1]
            near = start - last[1] <= gap and end - last[0] <= largest
            if near or start < last[1]:
                last[1] = max(last[1], end)
                continue
        spans.append([start, end])
    fetches = []
    for start, end in spans:
        count = -(-(end - start) // largest)
        step = -(-(end - start) // count)
        fetches.append(tuple((at, min(at + step, end)) for at in range(start, end, step)))
    return FetchPlan(tuple(ranges), tuple((start, end) for start, end in spans), tuple(fetches))
