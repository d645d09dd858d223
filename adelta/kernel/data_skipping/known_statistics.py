"""KnownStatistics: what has been parsed of the statistics of a list of files, kept for next time.

Many predicates ask for the same few statistics, and most versions of a table are the one before
with a few files more: what is known of the files that were there is known of them in the next.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.kernel.schema.arrow import to_arrow_type

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.data_skipping.statistic import Statistic

__all__ = ["KnownStatistics"]

_MOST_BYTES = 32 << 20  # are kept of one list


class KnownStatistics:
    """The statistics of files, of which `texts` are the JSON; each is parsed when first asked for.

    Threads may ask at the same time.
    """

    def __init__(self, texts: pa.ChunkedArray[Any]) -> None:
        self._texts = texts
        self._columns: dict[Statistic, pa.Array[Any]] = {}  # of the first files, or of all

    def continued(self, texts: pa.ChunkedArray[Any]) -> KnownStatistics:
        """Those of a longer list, which begins with the same files."""
        longer = KnownStatistics(texts)
        longer._columns = dict(self._columns)
        return longer

    @property
    def nbytes(self) -> int:
        """The memory of what has been parsed, in bytes."""
        return sum(column.nbytes for column in self._columns.values())

    def columns(self, statistics: Sequence[Statistic]) -> dict[tuple[str, ...], pa.Array[Any]]:
        """For each statistic, by its path, its value in each file; NULL where there is none."""
        from adelta.kernel.data_skipping.stats_parse import parse_stats

        found: dict[Statistic, pa.Array[Any]] = {}
        for statistic in statistics:
            known = self._columns.get(statistic)
            found[statistic] = (
                array_of([], to_arrow_type(statistic.type)) if known is None else known
            )
        lacking = [each for each in found if len(found[each]) < len(self._texts)]
        lacking.sort(key=lambda each: len(found[each]))
        for length, group in groupby(lacking, key=lambda each: len(found[each])):
            some = tuple(group)
            rest = parse_stats(self._texts.slice(length), some)
            for each in some:
                found[each] = pa.concat_arrays([found[each], rest[each.path]])
        self._keep(found)
        return {statistic.path: found[statistic] for statistic in statistics}

    def _keep(self, found: dict[Statistic, pa.Array[Any]]) -> None:
        held = {**self._columns, **found}
        if sum(column.nbytes for column in held.values()) <= _MOST_BYTES:
            self._columns = held
