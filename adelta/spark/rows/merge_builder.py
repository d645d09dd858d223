"""MERGE as delta-spark's users write it: a builder of clauses over `adelta.merge`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

from adelta._dataclasses import dataclass
from adelta.errors import (
    InvalidExpressionError,
    SchemaMismatchError,
    UnresolvedColumnError,
)
from adelta.kernel.expressions.parse import parse_expression
from adelta.operations.merge.builder import merge
from adelta.spark.cluster.staged_rows import staged_rows
from adelta.spark.cluster.task_executor import on_cluster
from adelta.spark.exceptions import raises_as_spark
from adelta.spark.options.session_settings import merges_schemas, pads_chars
from adelta.spark.rows.expressions import assignments, sql_text
from adelta.spark.rows.merge_by_spark import Computed, joined_by_spark
from adelta.spark.rows.merging import merge_rows
from adelta.spark.rows.own_reads import made_of
from adelta.spark.rows.row_keys import text_of
from adelta.spark.rows.rows_by_spark import NOT_ADELTAS, asks_others, version_of
from adelta.spark.rows.side_names import Side, in_names_of
from adelta.spark.rows.unresolved_merges import known_as_of_merge
from adelta.spark.side import side_of
from adelta.spark.tables.answers import frame
from adelta.spark.translate.identifiers import quoted
from adelta.spark.translate.not_of_java import NotOfJava
from adelta.sql.execute.merge import merge_answer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import Column, DataFrame

    from adelta.operations.merge.builder import Merge
    from adelta.spark.rows.target import Target
    from adelta.table import Table

__all__ = ["DeltaMergeBuilder"]

_TARGET, _SOURCE = "target", "source"
_Over: TypeAlias = 'Literal["source", "target", "pairs"]'


@dataclass(frozen=True, slots=True)
class _BySpark:
    """An expression that Spark computes of rows of one side, or of pairs, and its text."""

    name: str
    column: Column
    of: _Over
    text: str


class DeltaMergeBuilder(NotOfJava):
    """A merge and its clauses; each method gives a new one with a clause more, behind the others.

    Through Spark Connect each method adds the clause to this builder, as in delta-spark.

    Conditions and values are Spark SQL text or columns, in which both sides are named as they are
    by `DeltaTable.alias` and `DataFrame.alias`; times are of the session's zone.
    """

    def __init__(
        self,
        target: Target,
        source: DataFrame,
        condition: Column | str,
        clauses: tuple[Callable[[Merge], Merge], ...] = (),
        *,
        evolves: bool = False,
        on: str | None = None,
        computed: tuple[_BySpark, ...] = (),
        source_side: Side | None = None,
        target_side: Side | None = None,
    ) -> None:
        self._target = target
        self._source = source
        self._condition = condition
        self._clauses = clauses
        self._evolves = evolves
        self._on = on
        self._computed = list(computed)
        self._known_source = source_side
        self._known_target = target_side

    def whenMatchedUpdate(
        self,
        condition: Column | str | None = None,
        set: Mapping[str, Column | str] | None = None,  # delta-spark's word
    ) -> DeltaMergeBuilder:
        """Set columns of rows that match; where `set` is empty, they are written as they are.

        Raises:
            InvalidOptionError: `set` is None.
            WrongTypeError: an expression is neither text nor a column.
        """
        values = self._values("'set' in whenMatchedUpdate", set, "pairs")
        where = self._where(condition, "pairs")
        if not values and where is None:
            return self._with()
        values = values or self._unchanged()
        return self._with(lambda merge: merge.when_matched_update(values, where))

    def whenMatchedUpdateAll(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Set every column of rows that match to that of the source which is so called."""
        self._check_all()
        where = self._where(condition, "pairs")
        return self._with(lambda merge: merge.when_matched_update_all(where))

    def whenMatchedDelete(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Delete rows that match."""
        where = self._where(condition, "pairs")
        return self._with(lambda merge: merge.when_matched_delete(where))

    def whenNotMatchedInsert(
        self,
        condition: Column | str | None = None,
        values: Mapping[str, Column | str] | None = None,
    ) -> DeltaMergeBuilder:
        """Insert source rows that match none; columns without a value get their default, or null.

        Raises:
            InvalidOptionError: `values` is None.
            WrongTypeError: an expression is neither text nor a column.
        """
        given = self._values("'values' in whenNotMatchedInsert", values, "source")
        given = given or {quoted((self._target.settable(),)): "DEFAULT"}
        where = self._where(condition, "source")
        return self._with(lambda merge: merge.when_not_matched_insert(given, where))

    def whenNotMatchedInsertAll(self, condition: Column | str | None = None) -> DeltaMergeBuilder:
        """Insert source rows that match none, every column from that of the source so called."""
        self._check_all()
        where = self._where(condition, "source")
        return self._with(lambda merge: merge.when_not_matched_insert_all(where))

    def whenNotMatchedBySourceUpdate(
        self,
        condition: Column | str | None = None,
        set: Mapping[str, Column | str] | None = None,  # delta-spark's word
    ) -> DeltaMergeBuilder:
        """Set columns of rows of the table that no source row matches.

        Where `set` is empty, they are written as they are.

        Raises:
            InvalidOptionError: `set` is None.
            WrongTypeError: an expression is neither text nor a column.
        """
        values = self._values("'set' in whenNotMatchedBySourceUpdate", set, "target")
        where = self._where(condition, "target")
        if not values and where is None:
            return self._with()
        values = values or self._unchanged()
        return self._with(lambda merge: merge.when_not_matched_by_source_update(values, where))

    def whenNotMatchedBySourceDelete(
        self, condition: Column | str | None = None
    ) -> DeltaMergeBuilder:
        """Delete rows of the table that no source row matches."""
        where = self._where(condition, "target")
        return self._with(lambda merge: merge.when_not_matched_by_source_delete(where))

    def withSchemaEvolution(self) -> DeltaMergeBuilder:
        """Let the table take in columns and fields of the source that it lacks."""
        return self._with(evolves=True)

    @raises_as_spark
    @known_as_of_merge()
    def execute(self) -> DataFrame:
        """Do it, in one commit, as `adelta.merge`: planned and committed in the driver.

        The source is computed once, by tasks that lay its rows into the table's store where they
        are many; the driver reads them from there, and keeps what exceeds its share of memory on
        the local disk. Tasks of Spark's do the work where there is much.

        The result is one row: ``num_affected_rows``, ``num_updated_rows``, ``num_deleted_rows``,
        ``num_inserted_rows``.

        Raises: as `adelta.Merge.execute` does.
        """
        access, spark = self._target.access, self._target.spark
        to, source = access.to_change(), self._named_source()
        own = made_of(source, to)
        if of_source := [each.column for each in self._computed if each.of == "source"]:
            source = source.select("*", *of_source)
        if any(each.of != "source" for each in self._computed):
            version, schema = access.learn(partial(version_of, version=own))
            asks = any(asks_others(each.text) for each in self._computed)
            asked = replace(self._merge(to.uri, None)._read(), pads=False)  # nor are such rows
            found, rows = joined_by_spark(
                access.rows(version), source, asked, self._by_spark(), schema
            )
            done = merge_rows(
                spark,
                to.uri,
                version,
                found,
                rows,
                to.storage_options,
                to.catalog,
                made_of_it=asks or own is not None,
            )
            return frame(spark, merge_answer(done))
        staged = staged_rows(spark, source, to.uri, to.storage_options)
        done = on_cluster(
            spark,
            to.uri,
            lambda handle: self._merge(handle, staged, own).execute(),
            to.storage_options,
            to.catalog,
        )
        return frame(spark, merge_answer(done))

    # --------------------------------------------------------------------------------- inside

    def _checked(self) -> DeltaMergeBuilder:
        """This builder, when it has been seen what its condition is."""
        if self._on is None:
            self._on = self._text(self._condition, "pairs")
        return self

    def _merge(self, to: Table | str, rows: Any, own: int | None = None) -> Merge:
        """The merge of rows, which may be made of the table's `own` version."""
        mode: Any = "merge" if self._evolves or merges_schemas(self._target.spark) else None
        made = merge(
            to,
            rows,
            self._checked()._on or "",
            source_alias=self._source_alias,
            target_alias=self._target_alias,
            schema_mode=mode,
            zone=self._target.zone,
        )
        for clause in self._clauses:
            made = clause(made)
        beside = frozenset(each.name for each in self._computed if each.of == "source")
        pads = pads_chars(self._target.spark)
        options = replace(made._options, at_version=own, made_of_it=own is not None)
        request = replace(made._request, beside=beside, pads=pads)
        return replace(made, _request=request, _options=options)

    def _with(self, *clauses: Callable[[Merge], Merge], evolves: bool = False) -> DeltaMergeBuilder:
        if side_of(self._target.spark).builders_accumulate:
            self._clauses = (*self._clauses, *clauses)
            self._evolves = self._evolves or evolves
            return self
        return DeltaMergeBuilder(
            self._target,
            self._source,
            self._condition,
            (*self._clauses, *clauses),
            evolves=self._evolves or evolves,
            on=self._on,
            computed=tuple(self._computed),
            source_side=self._known_source,
            target_side=self._known_target,
        )

    @raises_as_spark
    def _check_all(self) -> None:
        """See that the source has one column of each name, where all are meant."""
        given = self._source.columns
        for name, apart in zip(given, self._source_side().columns, strict=True):
            if name != apart:
                raise SchemaMismatchError(
                    f"the source of a merge of all columns has two columns {name}: give one of "
                    "them another name"
                )

    @raises_as_spark
    def _where(self, condition: Column | str | None, over: _Over) -> str | None:
        return None if condition is None else self._text(condition, over)

    @raises_as_spark
    def _values(self, argument: str, given: Any, over: _Over) -> dict[str, str]:
        values = assignments(argument, given)
        return {
            self._target.column(name): self._text(value, over) for name, value in values.items()
        }

    def _unchanged(self) -> dict[str, str]:
        """A column of the table's, as it is."""
        name = self._target.settable()
        return {quoted((name,)): quoted((self._target_alias, name))}

    def _text(self, value: object, over: _Over) -> str:
        """The expression as text, in which a column stands for what only Spark computes.

        It is `over` the rows of one side, or over pairs of rows.
        """
        with known_as_of_merge():
            return self._text_of(value, over)

    def _text_of(self, value: object, over: _Over) -> str:
        value = in_names_of(self._sides, value)
        try:
            text = sql_text(self._target.spark, "'condition'", value, lambda: self._rows("pairs"))
            parse_expression(text, zone=self._target.zone)
        except NOT_ADELTAS as error:
            return self._left_to_spark(value, over, error)
        return text

    def _left_to_spark(self, value: Any, over: _Over, reason: Exception) -> str:
        """The text of a column that Spark computes.

        Raises:
            InvalidExpressionError: Spark does not understand the expression, either.
        """
        name = f"computed {len(self._computed)}"
        column = f.expr(value) if isinstance(value, str) else value
        try:
            rows = self._rows(over)
            _ = rows.select(column).schema
        except AnalysisException as error:
            unknown = (error.getCondition() or "").startswith("UNRESOLVED_COLUMN")
            kind = UnresolvedColumnError if unknown else InvalidExpressionError
            raise kind(f"{reason}. Spark says of it: {error}") from error
        if over == "pairs":
            with suppress(AnalysisException):
                _ = self._named_source().select(column).schema
                over = "source"
        text = value if isinstance(value, str) else text_of(rows, column)
        self._computed.append(_BySpark(name, column.alias(name), over, text))
        return quoted((self._source_alias, name))

    def _rows(self, over: _Over) -> DataFrame:
        if over == "source":
            return self._named_source()
        target = self._target.access.rows().alias(self._target_alias)
        return target.crossJoin(self._named_source()) if over == "pairs" else target

    def _by_spark(self) -> Computed:
        condition: Any = in_names_of(self._sides, self._condition)
        given = f.expr(condition) if isinstance(condition, str) else condition
        clauses = [
            each for each in self._computed if quoted((self._source_alias, each.name)) != self._on
        ]
        return Computed(
            given,
            {each.name: each.column for each in clauses if each.of == "pairs"},
            {each.name: each.column for each in clauses if each.of == "target"},
            {each.name: each.text for each in self._computed},
        )

    def _sides(self) -> tuple[Side, Side]:
        """The table and the source, as they are named in expressions."""
        if self._known_target is None:
            self._known_target = self._target.side(self._target_alias)
        return self._known_target, self._source_side()

    def _source_side(self) -> Side:
        if self._known_source is None:
            self._known_source = Side(self._source_alias, self._source)
        return self._known_source

    def _named_source(self) -> DataFrame:
        """The source, the columns of which have names that differ."""
        columns = self._source_side().columns
        named = self._source if columns == self._source.columns else self._source.toDF(*columns)
        return named.alias(self._source_alias)

    @property
    def _target_alias(self) -> str:
        return self._target.full_name[-1] if self._target.full_name else _TARGET

    @cached_property
    def _source_alias(self) -> str:
        """What the source is called where its columns have one name before theirs, or another."""
        found = side_of(self._target.spark).sole_qualifier(self._source)
        if found is None or found.lower() == self._target_alias.lower():
            return _SOURCE
        return found
