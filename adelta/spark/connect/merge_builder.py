"""MERGE through Spark Connect, where delta-spark's builder is one object that takes in clauses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.spark.rows.merge_builder import DeltaMergeBuilder

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.operations.merge.builder import Merge

__all__ = ["RemoteMergeBuilder"]


class RemoteMergeBuilder(DeltaMergeBuilder):
    """A merge and its clauses; each method adds one behind the others, and gives this builder.

    In classic sessions a method gives a new builder, and this one stays as it is: delta-spark does
    so in either.
    """

    def _with(self, *clauses: Callable[[Merge], Merge], evolves: bool = False) -> DeltaMergeBuilder:
        self._clauses = (*self._clauses, *clauses)
        self._evolves = self._evolves or evolves
        return self
