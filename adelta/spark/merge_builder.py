"""MERGE as delta-spark's users write it: a builder of clauses over `adelta.merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.operations.merge.builder import merge
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.expressions import assignments, plan_ids
from adelta.spark.session_settings import merges_schemas
from adelta.spark.sql_names import frame
from adelta.spark.staged_rows import staged_rows
from adelta.spark.task_executor import on_cluster
from adelta.sql.execute.merge import merge_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from adelta.operations.merge.builder import Merge
    from adelta.spark.delta_table import DeltaTable

__all__ = ["DeltaMergeBuilder"]

_TARGET, _SOURCE = "target", "source"


class DeltaMergeBuilder:
    """A merge and its clauses; each method gives a new one with a clause more, behind the others.

    Conditions and values are Spark SQL text or columns, in which both sides are named as they are
    by `DeltaTable.alias` and `DataFrame.alias`; times are of the session's zone.
    """

    def __init__(
        self,
        table: DeltaTable,
        source: DataFrame,
        condition: Column | str,
        clauses: tuple[Callable[[Merge], Merge], ...] = (),
        *,
        evolves: bool = False,
    ) -> None:
        self._table = table
        self._source = source
        self._condition = condition
        self._clauses = clauses
        self._evolves = evolves

    def whenMatchedUpdate(
        self,
        condition: Column | str | None = None,
        set: Mapping[str, Column | str] | None = None,  # delta-spark's word
    ) -> DeltaMergeBuilder:
        """Set columns of rows that match.

        Raises:
            InvalidOptionError: nothing is to be set.
            WrongTypeError: an expression is neither text nor a column.
        """
        values = self._values("'set' in whenMatchedUpdate", set)
        where = self._where(condition)
        return self._with(lambda merge: merge.when_matched_update(values, where))

    def whenMatchedUpdateAll(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Set every column of rows that match to that of the source which is so called."""
        where = self._where(condition)
        return self._with(lambda merge: merge.when_matched_update_all(where))

    def whenMatchedDelete(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Delete rows that match."""
        where = self._where(condition)
        return self._with(lambda merge: merge.when_matched_delete(where))

    def whenNotMatchedInsert(
        self,
        condition: Column | str | None = None,
        values: Mapping[str, Column | str] | None = None,
    ) -> DeltaMergeBuilder:
        """Insert source rows that match none.

        Raises:
            InvalidOptionError: no column gets a value.
            WrongTypeError: an expression is neither text nor a column.
        """
        given = self._values("'values' in whenNotMatchedInsert", values)
        where = self._where(condition)
        return self._with(lambda merge: merge.when_not_matched_insert(given, where))

    def whenNotMatchedInsertAll(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Insert source rows that match none, every column from that of the source so called."""
        where = self._where(condition)
        return self._with(lambda merge: merge.when_not_matched_insert_all(where))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Column | str | None = None,
        set: Mapping[str, Column | str] | None = None,  # delta-spark's word
    ) -> DeltaMergeBuilder:
        """Set columns of rows of the table that no source row matches.

        Raises:
            InvalidOptionError: nothing is to be set.
            WrongTypeError: an expression is neither text nor a column.
        """
        values = self._values("'set' in whenNotMatchedBySourceUpdate", set)
        where = self._where(condition)
        return self._with(lambda merge: merge.when_not_matched_by_source_update(values, where))

    def whenNotMatchedBySourceDelete(
        self, condition: Column | str | None = None
    ) -> DeltaMergeBuilder:
        """Delete rows of the table that no source row matches."""
        where = self._where(condition)
        return self._with(lambda merge: merge.when_not_matched_by_source_delete(where))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the table take in columns and fields of the source that it lacks."""
        return type(self)(self._table, self._source, self._condition, self._clauses, evolves=True)

    @raises_as_spark
    def execute(self) -> DataFrame:
        """Do it, in one commit, as `adelta.merge`: planned and committed in the driver.

        The source is computed once, by tasks that lay its rows into the table's store where they
        are many; the driver reads them from there, and keeps what exceeds its share of memory on
        the local disk. Tasks of Spark's do the work where there is much.

        The result is one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``,
        ``num_inserted_rows``.

        Raises: as `adelta.Merge.execute` does.
        """
        table, spark = self._table, self._table._spark
        condition = self._text(self._condition)
        to = table._access.to_change()
        rows: Any = staged_rows(spark, self._source, to.uri, to.storage_options)
        mode: Any = "merge" if self._evolves or merges_schemas(spark) else None

        async def run(handle: Any) -> Any:
            builder = merge(
                handle,
                rows,
                condition,
                source_alias=self._source_alias,
                target_alias=self._target_alias,
                schema_mode=mode,
                zone=table._zone,
            )
            for clause in self._clauses:
                builder = clause(builder)
            return await builder.execute()

        done = on_cluster(spark, to.uri, run, to.storage_options, to.catalog)
        return frame(spark, merge_answer(done))

    # --------------------------------------------------------------------------------- inside

    def _with(self, clause: Callable[[Merge], Merge]) -> DeltaMergeBuilder:
        clauses = (*self._clauses, clause)
        return type(self)(
            self._table, self._source, self._condition, clauses, evolves=self._evolves
        )

    @raises_as_spark
    def _where(self, condition: Column | str | None) -> str | None:
        return None if condition is None else self._text(condition)

    @raises_as_spark
    def _values(self, argument: str, given: Any) -> dict[str, str]:
        values = assignments(argument, given)
        return {self._table._column(name): self._text(value) for name, value in values.items()}

    def _text(self, value: object) -> str:
        return self._table._sql_text(value, self._pairs, self._plans())

    def _pairs(self, target: DataFrame) -> DataFrame:
        """Pairs of rows of both sides, over which columns are looked up."""
        named = target.alias(self._target_alias)
        return named.crossJoin(self._source.alias(self._source_alias))

    def _plans(self) -> dict[int, str]:
        """Which side columns of Spark Connect are of, by the numbers of plans."""
        return {
            **plan_ids(self._source, self._source_alias),
            **self._table._plan_ids(self._target_alias),
        }

    @property
    def _target_alias(self) -> str:
        return self._table._names[-1] if self._table._names else _TARGET

    @property
    def _source_alias(self) -> str:
        """The name that the source bears by `DataFrame.alias`, or by its table's name."""
        remote: Any = getattr(self._source, "_plan", None)
        if remote is not None:
            return getattr(remote, "_alias", None) or _SOURCE
        plan: Any = self._source._jdf.queryExecution().analyzed()
        if plan.nodeName() == "SubqueryAlias":
            name: str = plan.identifier().name()
            return name
        return _SOURCE
