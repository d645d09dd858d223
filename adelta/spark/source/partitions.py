"""How the files of a scan become Spark tasks."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["OPEN_COST_BYTES", "pack_files"]

OPEN_COST_BYTES = 4 << 20
"""What opening a file costs, in bytes read meanwhile; Spark's own estimate."""


def pack_files(sizes: Sequence[int], *, max_bytes: int, min_partitions: int = 1) -> list[list[int]]:
    """Positions of the files that each task reads, every file once, tasks about equal in work.

    A task gets at most `max_bytes`, opening costs included, but always one file; there are at
    least `min_partitions` tasks where there are as many files.

    >>> pack_files([10, 10, 10], max_bytes=1 << 30, min_partitions=2)
    [[0, 2], [1]]
    """
    if not sizes:
        return []
    work = [size + OPEN_COST_BYTES for size in sizes]
    full = -(-sum(min(w, max_bytes) for w in work) // max_bytes)
    count = min(len(sizes), max(min_partitions, full))
    # Largest first, always to the task that has least: none exceeds the mean by more than a file.
    tasks: list[list[int]] = [[] for _ in range(count)]
    least = [(0, task) for task in range(count)]
    for position in sorted(range(len(sizes)), key=lambda i: -sizes[i]):
        load, task = least[0]
        if tasks[task] and load + work[position] > max_bytes:  # it is full, so all others are
            heapq.heappush(least, (work[position], len(tasks)))
            tasks.append([position])
        else:
            heapq.heapreplace(least, (load + work[position], task))
            tasks[task].append(position)
    return [sorted(task) for task in tasks]
