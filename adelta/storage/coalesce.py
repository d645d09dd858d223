"""Merging near byte ranges into few requests of moderate size (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["GAP", "LARGEST_FETCH", "FetchPlan", "plan_fetches"]

GAP = 1 << 20
"""Bytes that cost less to fetch in vain than another request would."""

LARGEST_FETCH = 4 << 20
"""Bytes beyond which two requests at once are faster than one."""


@dataclass(frozen=True, slots=True)
class FetchPlan:
    """The ranges to fetch, ascending and disjoint, that together cover the ranges asked for."""

    wanted: tuple[tuple[int, int], ...]
    fetches: tuple[tuple[int, int], ...]

    def cut(self, fetched: Sequence[bytes]) -> list[bytes]:
        """The bytes of every range asked for, out of the bytes of every fetch.

        Where the object ended inside a fetch, a range beyond the end comes out short.
        """
        order = sorted(range(len(self.wanted)), key=self.wanted.__getitem__)
        cut = [b""] * len(self.wanted)
        first = 0
        for index in order:
            start, end = self.wanted[index]
            if start == end:
                continue
            while self.fetches[first][1] <= start:
                first += 1
            pieces, at = [], first
            while at < len(self.fetches) and self.fetches[at][0] < end:
                origin = self.fetches[at][0]
                pieces.append(fetched[at][max(0, start - origin) : end - origin])
                at += 1
            cut[index] = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        return cut


def plan_fetches(ranges: Sequence[tuple[int, int]], *, gap: int, largest: int) -> FetchPlan:
    """How to fetch `ranges`: those no more than `gap` bytes apart as one, none above `largest`.

    A range is cut in pieces only where it alone is larger: putting pieces together costs a copy.

    >>> plan_fetches([(0, 10), (12, 20), (90, 100)], gap=5, largest=50).fetches
    ((0, 20), (90, 100))
    >>> plan_fetches([(0, 30), (30, 60)], gap=5, largest=50).fetches
    ((0, 30), (30, 60))
    >>> plan_fetches([(0, 100)], gap=5, largest=50).fetches
    ((0, 50), (50, 100))
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
    fetches: list[tuple[int, int]] = []
    for start, end in spans:
        count = -(-(end - start) // largest)
        step = -(-(end - start) // count)
        fetches.extend((at, min(at + step, end)) for at in range(start, end, step))
    return FetchPlan(tuple(ranges), tuple(fetches))
