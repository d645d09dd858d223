"""`df.mergeInto` through Spark Connect: Spark's names of clauses, over `DeltaTable.merge`."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

from adelta._dataclasses import dataclass
from adelta.spark.connect.formats import place_of
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.rows.merge_builder import DeltaMergeBuilder
from adelta.spark.rows.target import Target

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

__all__ = ["hook_merges"]


def hook_merges() -> None:
    """Let `mergeInto` of Connect's DataFrames merge into tables of a session's formats."""
    from pyspark.sql.connect import dataframe  # which needs more packages

    frame: Any = dataframe.DataFrame
    plain = frame.mergeInto

    @wraps(plain)
    @raises_as_spark
    def merge_into(self: DataFrame, table: str, condition: Column) -> Any:
        if place_of(self.sparkSession, table) is None:
            return plain(self, table, condition)
        target = Target.named(self.sparkSession, table)
        return _Merge(DeltaMergeBuilder(target, self, condition)._checked())

    frame.mergeInto = merge_into


class _Merge:
    """What Spark calls a MergeIntoWriter: clauses, in their order, and `merge`."""

    def __init__(self, builder: DeltaMergeBuilder) -> None:
        self._builder = builder

    def whenMatched(self, condition: Column | None = None) -> _WhenMatched:
        """A clause for rows that match."""
        return _WhenMatched(self, condition)

    def whenNotMatched(self, condition: Column | None = None) -> _WhenNotMatched:
        """A clause for source rows that match none."""
        return _WhenNotMatched(self, condition)

    def whenNotMatchedBySource(self, condition: Column | None = None) -> _WhenNotMatchedBySource:
        """A clause for rows of the table that no source row matches."""
        return _WhenNotMatchedBySource(self, condition)

    def withSchemaEvolution(self) -> _Merge:
        """Let the table take in columns of the source that it lacks."""
        return self._with(self._builder.withSchemaEvolution())

    def merge(self) -> None:
        """Do it, in one commit."""
        self._builder.execute()

    def _with(self, builder: DeltaMergeBuilder) -> _Merge:
        self._builder = builder
        return self


@dataclass(frozen=True)
class _When:
    _merge: _Merge
    _condition: Column | None

    def _then(self, clause: Callable[..., DeltaMergeBuilder], *values: Any) -> _Merge:
        return self._merge._with(clause(self._merge._builder, self._condition, *values))


class _WhenMatched(_When):
    def updateAll(self) -> _Merge:
        return self._then(DeltaMergeBuilder.whenMatchedUpdateAll)

    def update(self, assignments: Mapping[str, Column]) -> _Merge:
        return self._then(DeltaMergeBuilder.whenMatchedUpdate, assignments)

    def delete(self) -> _Merge:
        return self._then(DeltaMergeBuilder.whenMatchedDelete)


class _WhenNotMatched(_When):
    def insertAll(self) -> _Merge:
        return self._then(DeltaMergeBuilder.whenNotMatchedInsertAll)

    def insert(self, assignments: Mapping[str, Column]) -> _Merge:
        return self._then(DeltaMergeBuilder.whenNotMatchedInsert, assignments)


class _WhenNotMatchedBySource(_When):
    def update(self, assignments: Mapping[str, Column]) -> _Merge:
        return self._then(DeltaMergeBuilder.whenNotMatchedBySourceUpdate, assignments)

    def delete(self) -> _Merge:
        return self._then(DeltaMergeBuilder.whenNotMatchedBySourceDelete)
