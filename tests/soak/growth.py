"""Does what a process holds grow with the time that it runs?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["MEASURES", "Sample", "growth"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What a process holds between two rounds of work, when nothing is under way.

    `resident` is memory as the system counts it, `arrow` what Arrow's pool has given out, both in
    bytes; `blocks` are blocks of memory of Python's objects. `workers` are threads of pools, which
    grow by rare bursts up to their bounds; `threads` are all others, and those beyond such a bound.
    """

    seconds: float
    resident: int
    arrow: int
    blocks: int
    descriptors: int
    threads: int
    tasks: int
    workers: int = 0


MEASURES = {  # how much more than before may be there: a share, and a number
    "resident": (0.03, 6 << 20),
    "arrow": (0.0, 2 << 20),
    "blocks": (0.01, 2000),
    "descriptors": (0.0, 6),
    "threads": (0.0, 0),
    "tasks": (0.0, 2),
}


def growth(samples: Sequence[Sample]) -> list[str]:
    """What has grown between the second quarter of the samples and the last one: their least.

    In the first quarter connections are made, modules loaded and caches filled. What a handle knows
    of a log grows by each commit, up to 1000 of them, and then begins anew.
    """
    quarter = len(samples) // 4
    if not quarter:
        raise ValueError(f"{len(samples)} samples are too few to tell growth from chance")
    before, after = samples[quarter : 2 * quarter], samples[-quarter:]
    found = []
    for name, (share, number) in MEASURES.items():
        was = min(getattr(each, name) for each in before)
        now = min(getattr(each, name) for each in after)
        if now > was * (1 + share) + number:
            found.append(f"{name}: {was:,.0f} in the second quarter, {now:,.0f} in the last one")
    return found
