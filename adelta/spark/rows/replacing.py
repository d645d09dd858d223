"""Rows of a DataFrame in the place of the table's rows that match them: REPLACE USING and ON.

It is planned and committed where the Python of the user runs, as a merge is, and Spark runs tasks.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from adelta._clock import moment
from adelta._dataclasses import dataclass
from adelta.errors import AmbiguousColumnError, InvalidExpressionError
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.expressions.parse import parse_expression
from adelta.operations.clustering import check_clustered_as
from adelta.operations.merge.run import MergeOptions, run_merge
from adelta.operations.merge.source import GivenSource
from adelta.operations.replace_matching import ReplaceRequest, run_replacing
from adelta.operations.write_transactions import check_partitioned_as
from adelta.spark.cluster.staged_rows import staged_rows
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.options.hadoop_conf import prefixed
from adelta.spark.rows.by_position import by_position
from adelta.spark.rows.merge_by_spark import Computed, joined_by_spark
from adelta.spark.rows.own_reads import made_of
from adelta.spark.rows.rows_by_spark import NOT_ADELTAS
from adelta.spark.rows.side_names import Side, in_names_of
from adelta.spark.side import side_of
from adelta.spark.tables.access import load
from adelta.spark.translate.types import to_spark_schema
from adelta.sql.execute.replacing import check_aligned
from adelta.sql.execute.rows import in_order
from adelta.sync._portal import call
from adelta.table import begin, latest_state, open_table
from adelta.write.transaction_request import ONLY_READS, TransactionRequest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.spark.options.read_write import WriteOptions
    from adelta.spark.options.replacing import ReplaceOptions

__all__ = ["replace_rows"]

_TARGETS = ("target", "table")
_SOURCES = ("source", "query")


@dataclass(frozen=True, slots=True)
class _Target:
    """The table: its columns, and the version that has them."""

    schema: StructType
    version: int


def replace_rows(
    df: DataFrame,
    options: WriteOptions,
    wanted: ReplaceOptions,
    *,
    by_order: bool = False,
    source_alias: str | None = None,
) -> MergeMetrics:
    """Delete the rows of a table that match rows of `df`, and insert these, in one commit.

    Columns are for those of the table that are so called, or `by_order`. `source_alias` is what
    the condition calls the rows, by default what the DataFrame does.

    Raises:
        TableNotFoundError: there is no table.
        AdeltaError: as `adelta.replace_matching` does.
    """
    options = replace(options, made_of=made_of(df, options))
    target = call(_target, options)
    return _Replacement(df, options, wanted, target, source_alias, by_order=by_order).run()


async def _target(options: WriteOptions) -> _Target:
    async with open_table(options.uri, options.storage_options, catalog=options.catalog) as table:
        state = await latest_state(table)
        if options.made_of is not None:
            state = (await table.snapshot(version=options.made_of))._state
        check_partitioned_as(table.uri, state.metadata.partition_columns, options.partition_by)
        if options.cluster_by is not None:
            async with begin(table, TransactionRequest(operation=ONLY_READS)) as tx:
                await check_clustered_as(tx, options.cluster_by)
        return _Target(state.configuration.schema, state.version)


class _Replacement:
    def __init__(
        self,
        df: DataFrame,
        options: WriteOptions,
        wanted: ReplaceOptions,
        target: _Target,
        source_alias: str | None,
        *,
        by_order: bool,
    ) -> None:
        self._df = df
        self._options = options
        self._wanted = wanted
        self._target = target
        self._by_order = by_order
        found = source_alias or side_of(df.sparkSession).sole_qualifier(df)
        self._target_alias = wanted.target_alias or _other(_TARGETS, found)
        if found is None or found.lower() == self._target_alias.lower():
            found = _other(_SOURCES, self._target_alias)
        self._source_alias = found
        self._side = Side(found, df)
        self._now = moment()

    def run(self) -> MergeMetrics:
        """Do it."""
        condition = self._condition()
        source = self._source()
        if condition is None:
            return self._run(source, None)
        try:
            parse_expression(condition, zone=self._options.time_zone, now=self._now)
        except NOT_ADELTAS as error:
            return self._by_spark(source, condition, error)
        return self._run(source, condition)

    def _condition(self) -> str | None:
        """The condition, in which the source's columns bear its one name.

        Raises:
            AmbiguousColumnError: both sides have one name.
        """
        wanted = self._wanted
        if wanted.on is None:
            return None
        alias = (wanted.target_alias or "").lower()
        if alias and alias in map(str.lower, side_of(self._df.sparkSession).qualifiers(self._df)):
            raise AmbiguousColumnError(
                f"the table is called {wanted.target_alias}, and so are the rows: give one of "
                "them another alias"
            )
        found: str = in_names_of(lambda: (self._side,), wanted.on)
        return found

    def _source(self) -> DataFrame:
        """The rows, under names of columns that differ."""
        names = self._side.columns
        if not self._by_order:
            return self._df if names == self._df.columns else self._df.toDF(*names)
        table = to_spark_schema(self._target.schema)
        check_aligned(self._wanted.using or (), self._target.schema.names, names)
        fitted = by_position(self._df, in_order(self._target.schema, names), table)
        return fitted.toDF(*names)

    def _run(self, source: DataFrame, condition: str | None) -> MergeMetrics:
        options, asked = self._options, self._asked(condition)
        rows = GivenSource(
            staged_rows(source.sparkSession, source, options.uri, options.storage_options)
        )
        how = self._how(None)
        return self._on_cluster(lambda table: run_replacing(table, rows, asked, how))

    def _by_spark(self, source: DataFrame, condition: str, reason: Exception) -> MergeMetrics:
        """The same by a condition that only Spark computes: it joins the rows.

        Raises:
            InvalidExpressionError: Spark does not understand the condition, either.
        """
        options, spark = self._options, source.sparkSession
        if options.catalog is not None:
            raise reason
        said = {"versionAsOf": str(self._target.version), "path": options.uri}
        rows = load(spark, {**prefixed(options.storage_options), **said})
        own = staged_rows(spark, source, options.uri, options.storage_options)
        request = self._asked("true").request(self._target.schema, own.schema)
        computed = Computed(f.expr(condition), {}, {}, {})
        try:
            merge, joined = joined_by_spark(rows, source, request, computed, self._target.schema)
        except AnalysisException as error:
            raise InvalidExpressionError(f"{reason}. Spark says of it: {error}") from error
        found = GivenSource(staged_rows(spark, joined, options.uri, options.storage_options))
        how = self._how(self._target.version, merge.found)
        return self._on_cluster(lambda table: run_merge(table, found, merge.request, how))

    def _asked(self, condition: str | None) -> ReplaceRequest:
        zone, wanted = self._options.time_zone, self._wanted
        node = None if condition is None else parse_expression(condition, zone=zone, now=self._now)
        values = None
        if self._by_order:
            names = self._side.columns
            values = tuple(
                (name, Column((self._source_alias, own)))
                for name, own in zip(in_order(self._target.schema, names), names, strict=True)
            )
        return ReplaceRequest(
            wanted.using,
            node,
            self._source_alias,
            self._target_alias,
            values,
            self._options.schema_mode == "merge",
            zone,
            self._now,
            wanted.text,
        )

    def _how(self, version: int | None, found: Any = None) -> MergeOptions:
        options = self._options
        return MergeOptions(
            options.txn,
            user_metadata=options.user_metadata,
            data_files=options.data_files,
            at_version=options.made_of if version is None else version,
            made_of_it=options.made_of is not None,
            found=found,
        )

    def _on_cluster(self, operation: Any) -> MergeMetrics:
        options = self._options
        found: MergeMetrics = on_cluster(
            self._df.sparkSession,
            options.uri,
            operation,
            options.storage_options,
            options.catalog,
        )
        return found


def _other(names: tuple[str, ...], taken: str | None) -> str:
    return next(name for name in names if name != (taken or "").lower())
