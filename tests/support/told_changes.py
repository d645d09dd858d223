"""What `changes` tells of versions: rows that come and go, which together are what has changed."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from itertools import pairwise
from typing import TYPE_CHECKING

from adelta.changes import changes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from adelta.table import Table
    from tests.support.live_rows import Row

__all__ = ["net_change", "wrongly_told"]

_COLUMNS = ("p", "id", "value")
_COMES = ("insert", "update_postimage")


def net_change(
    before: Mapping[str, Mapping[int, int]], after: Mapping[str, Mapping[int, int]]
) -> dict[Row, int]:
    """How often each row has come, of partitions that are dictionaries; less where it has gone."""
    found: Counter[Row] = Counter()
    for p in before.keys() | after.keys():
        was, now = before.get(p, {}), after.get(p, {})
        if was is not now:
            found.update((p, *row) for row in now.items() - was.items())
            found.subtract((p, *row) for row in was.items() - now.items())
    return {row: times for row, times in found.items() if times}


async def wrongly_told(table: Table, expected: Mapping[int, Mapping[Row, int]]) -> list[str]:
    """What the feed tells otherwise than `expected`, which has the versions that it is on for."""
    found = []
    for first, last in _runs(sorted(expected)):
        told: dict[int, Counter[Row]] = {version: Counter() for version in range(first, last + 1)}
        async with aclosing(changes(table, first, last, columns=_COLUMNS)) as batches:
            async for batch in batches:
                rows = zip(*(batch[name].to_pylist() for name in _COLUMNS), strict=True)
                kinds = batch["_change_type"].to_pylist()
                versions = batch["_commit_version"].to_pylist()
                for version, kind, row in zip(versions, kinds, rows, strict=True):
                    told[version][row] += 1 if kind in _COMES else -1
        for version, rows in told.items():
            changed = {row: times for row, times in rows.items() if times}
            if changed != expected[version]:
                found.append(f"the feed tells of version {version} something else than changed")
    return found


def _runs(versions: Iterable[int]) -> list[tuple[int, int]]:
    """The first and the last of versions that follow each other."""
    ordered = [*versions]
    starts = ordered[:1] + [b for a, b in pairwise(ordered) if b != a + 1]
    ends = [a for a, b in pairwise(ordered) if b != a + 1] + ordered[-1:]
    return [*zip(starts, ends, strict=True)]
