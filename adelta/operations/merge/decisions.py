"""What becomes of rows of the target: by the first clause of their kind whose condition is true."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from adelta._arrow_values import numpy_of
from adelta._dataclasses import dataclass
from adelta.errors import MultipleMatchesError
from adelta.kernel.expressions.compute import filter_mask
from adelta.kernel.expressions.sql import to_sql
from adelta.operations.merge.join import Joiner
from adelta.operations.merge.rows import concat, take

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from adelta.operations.merge.plan import BoundClause, MergePlan

__all__ = ["Decider", "Decisions", "first_clause"]

_ROWS = 128 * 1024
_SHOWN = 100
_NONE = -1


@dataclass(frozen=True, slots=True)
class Decisions:
    """Rows that change: their places among those that were looked at, ascending, and by what.

    `clauses` count the clauses of matched rows, and on from there those of rows that no source row
    matches; `sources` are the places of the matching source rows, -1 where there is none.
    """

    rows: NDArray[np.int64]
    clauses: NDArray[np.int16]
    sources: NDArray[np.int64]


class Decider:
    """Decides on rows of the target by the rows of a source, all that could match.

    `parts` gives these `num_rows` rows, as often as it is asked to; they are counted through.
    `matched` tells of every source row whether it has matched one, where that is asked for.
    """

    def __init__(
        self, plan: MergePlan, parts: Callable[[], Iterable[pa.RecordBatch]], num_rows: int
    ) -> None:
        self._plan = plan
        self._parts = parts
        self._only: Joiner | None = None
        self.matched = np.zeros(num_rows if plan.not_matched else 0, np.bool_)

    def decide(self, target: pa.RecordBatch) -> Decisions:
        """What becomes of `target`, rows with the columns by which that is decided.

        Raises:
            MultipleMatchesError: a row would be changed by several source rows.
            InvalidExpressionError: a condition cannot be computed for a row.
        """
        plan = self._plan
        met = np.zeros(target.num_rows if plan.not_matched_by_source else 0, np.bool_)
        taken = _Taken(target.num_rows if plan.matched else 0)
        for first, joiner in self._joiners():
            for left, right in joiner.pairs(target):
                if plan.not_matched:
                    self.matched[right + first] = True
                if plan.not_matched_by_source:
                    met[left] = True
                if plan.matched:
                    clauses = self._of_pairs(joiner, target, left, right)
                    again = taken.add(left, clauses, right + first)
                    if again is not None and not plan.deletes_all_matched:
                        raise MultipleMatchesError(self._told(target.slice(again, 1)))
        changed = taken.decisions()
        if plan.not_matched_by_source:
            changed = _ordered([changed, self._of_others(target, np.flatnonzero(~met))])
        return changed

    def source_rows(self, places: NDArray[np.int64]) -> pa.RecordBatch:
        """The source rows at some places, in this order."""
        found: list[pa.RecordBatch] = []
        order: list[NDArray[np.int64]] = []
        for first, joiner in self._joiners():
            within = (places >= first) & (places < first + joiner.source.num_rows)
            found.append(take(joiner.source, places[within] - first))
            order.append(np.flatnonzero(within))
        return take(concat(found, found[0].schema), np.argsort(np.concatenate(order)))

    def _joiners(self) -> Iterator[tuple[int, Joiner]]:
        """A joiner with each part of the source, and how many rows come before it."""
        if self._only is not None:
            yield 0, self._only
            return
        first = count = 0
        joiner = None
        for rows in self._parts():
            joiner = Joiner(self._plan, rows)
            yield first, joiner
            first += rows.num_rows
            count += 1
        if count == 1:
            self._only = joiner

    def _of_pairs(
        self,
        joiner: Joiner,
        target: pa.RecordBatch,
        left: NDArray[np.int64],
        right: NDArray[np.int64],
    ) -> NDArray[np.int16]:
        def rows(places: NDArray[np.int64]) -> pa.RecordBatch:
            return joiner.paired(target, left[places], right[places])

        return first_clause(self._plan.matched, len(left), rows)

    def _of_others(self, target: pa.RecordBatch, places: NDArray[np.int64]) -> Decisions:
        """The rows at `places`, which no source row matches."""

        def rows(some: NDArray[np.int64]) -> pa.RecordBatch:
            return self._plan.sides.paired(take(target, places[some]), None)

        clauses = first_clause(self._plan.not_matched_by_source, len(places), rows)
        taken = clauses != _NONE
        clauses = clauses[taken] + np.int16(len(self._plan.matched))
        places = places[taken]
        return Decisions(places, clauses, np.full(len(places), _NONE, np.int64))

    def _told(self, row: pa.RecordBatch) -> str:
        names = self._plan.sides.columns([self._plan.condition], "target")
        values = (f"{name} = {row.column(name)[0].as_py()!r}"[:_SHOWN] for name in sorted(names))
        shown = ", ".join(values) or "any values"
        return (
            f"several rows of the source match one row of the target, with {shown}, by "
            f"{to_sql(self._plan.condition)}, and each of them would change it, so that it cannot "
            "be said to what; leave one row of each such group in the source"
        )


class _Taken:
    """What takes which of so many rows; however many pairs there are, a row is kept once."""

    def __init__(self, num_rows: int) -> None:
        self._clauses = np.full(num_rows, _NONE, np.int16)
        self._sources = np.full(num_rows, _NONE, np.int64)

    def add(
        self,
        rows: NDArray[np.int64],
        clauses: NDArray[np.int16],
        sources: NDArray[np.int64],
    ) -> int | None:
        """Take in pairs of rows and sources, none of them twice; a row that was taken before."""
        acting = clauses != _NONE
        if not acting.all():
            rows, clauses, sources = rows[acting], clauses[acting], sources[acting]
        again = self._sources[rows] != _NONE
        self._clauses[rows], self._sources[rows] = clauses, sources
        again |= self._sources[rows] != sources
        return int(rows[int(np.argmax(again))]) if again.any() else None

    def decisions(self) -> Decisions:
        """All that has been taken in."""
        rows = np.flatnonzero(self._sources != _NONE)
        return Decisions(rows, self._clauses[rows], self._sources[rows])


def first_clause(
    clauses: Sequence[BoundClause],
    count: int,
    rows: Callable[[NDArray[np.int64]], pa.RecordBatch],
) -> NDArray[np.int16]:
    """For each of `count` rows the first clause that takes it, or -1; `rows` gives those at places.

    Raises:
        InvalidExpressionError: a condition cannot be computed for a row that comes to it.
    """
    taken = np.full(count, _NONE, np.int16)
    left = np.arange(count)
    for number, clause in enumerate(clauses):
        if clause.condition is None:
            taken[left] = number
            break
        kept = []
        for start in range(0, len(left), _ROWS):
            part = left[start : start + _ROWS]
            mask: Any = numpy_of(filter_mask(clause.condition, rows(part)))
            taken[part[mask]] = number
            kept.append(part[~mask])
        left = np.concatenate(kept) if kept else left
    return taken


def _ordered(parts: Sequence[Decisions]) -> Decisions:
    """All of them, by row."""
    rows = np.concatenate([part.rows for part in parts])
    order = np.argsort(rows, kind="stable")
    return Decisions(
        rows[order],
        np.concatenate([part.clauses for part in parts])[order],
        np.concatenate([part.sources for part in parts])[order],
    )
