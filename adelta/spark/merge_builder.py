"""MERGE as delta-spark's users write it: a builder of clauses over `adelta.merge`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from adelta.errors import InvalidExpressionError, InvalidUseError
from adelta.kernel.expressions.parse import parse_expression
from adelta.operations.merge.builder import merge
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.expressions import assignments, plan_ids
from adelta.spark.identifiers import quoted
from adelta.spark.not_of_java import NotOfJava
from adelta.spark.rows_by_spark import NOT_ADELTAS
from adelta.spark.session_settings import merges_schemas
from adelta.spark.sql_names import frame
from adelta.spark.staged_rows import staged_rows
from adelta.spark.task_executor import on_cluster
from adelta.sql.execute.merge import merge_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from adelta.operations.merge.builder import Merge
    from adelta.spark.delta_table import DeltaTable

__all__ = ["DeltaMergeBuilder"]

_TARGET, _SOURCE = "target", "source"


class DeltaMergeBuilder(NotOfJava):
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
        computed: Sequence[Column] = (),
    ) -> None:
        self._table = table
        self._source = source
        self._condition = condition
        self._clauses = clauses
        self._evolves = evolves
        self._computed = list(computed)  # columns of the source that Spark adds

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
        return self._with(evolves=True)

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
        mode: Any = "merge" if self._evolves or merges_schemas(spark) else None
        if self._computed and mode is not None:
            raise InvalidUseError(
                "a merge that may take in columns of the source computes nothing by functions that "
                "only Spark has: compute it in a column of the source first, by withColumn"
            )
        source = self._source
        if self._computed:
            source = self._named_source().select("*", *self._computed)
        rows: Any = staged_rows(spark, source, to.uri, to.storage_options)

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

    def _with(self, *clauses: Callable[[Merge], Merge], evolves: bool = False) -> DeltaMergeBuilder:
        return type(self)(
            self._table,
            self._source,
            self._condition,
            (*self._clauses, *clauses),
            evolves=self._evolves or evolves,
            computed=self._computed,
        )

    @raises_as_spark
    def _where(self, condition: Column | str | None) -> str | None:
        return None if condition is None else self._text(condition)

    @raises_as_spark
    def _values(self, argument: str, given: Any) -> dict[str, str]:
        values = assignments(argument, given)
        return {self._table._column(name): self._text(value) for name, value in values.items()}

    def _text(self, value: object) -> str:
        """The expression as text, in which a column stands for what only Spark computes."""
        try:
            text = self._table._sql_text(value, self._pairs, self._plans())
            parse_expression(text, zone=self._table._zone)
        except NOT_ADELTAS as error:
            return self._by_spark(value, error)
        return text

    def _by_spark(self, value: Any, reason: Exception) -> str:
        """The text of a column of the source that Spark computes.

        Raises:
            InvalidExpressionError: it is not about the source alone, so that it cannot be one.
        """
        name = f"computed {len(self._computed)}"
        column = (f.expr(value) if isinstance(value, str) else value).alias(name)
        try:
            _ = self._named_source().select(column).schema
        except AnalysisException as error:
            raise InvalidExpressionError(
                f"{reason}. In a merge Spark computes what is about columns of the source alone: "
                "join those of the table to the source, where it has to know them"
            ) from error
        self._computed.append(column)
        return quoted((self._source_alias, name))

    def _named_source(self) -> DataFrame:
        return self._source.alias(self._source_alias)

    def _pairs(self, target: DataFrame) -> DataFrame:
        """Pairs of rows of both sides, over which columns are looked up."""
        named = target.alias(self._target_alias)
        return named.crossJoin(self._named_source())

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
