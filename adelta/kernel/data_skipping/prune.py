"""Skipping files: partition values first, statistics second.

`Skipping` is a predicate made ready to be asked of files, in two steps, so that statistics are
loaded only for files that their partition values do not exclude, and only those that it names.

Other writers may round or truncate statistics. `widen` moves bounds outward by as much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of, scalar_of
from adelta._dataclasses import dataclass
from adelta.errors import InvalidExpressionError
from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.excluding_texts import Limit, limits_of, may_match_by_text
from adelta.kernel.data_skipping.rewrite import rewrite
from adelta.kernel.data_skipping.statistic import PARTITION_VALUES, Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.data_skipping.stats_schema import nest, partition_fields_of, statistics_of
from adelta.kernel.expressions.compute import evaluate
from adelta.kernel.expressions.nodes import Node, columns_of
from adelta.kernel.expressions.resolve import bind_predicate
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import physical_name

if TYPE_CHECKING:
    from collections.abc import Collection

    from adelta.kernel.data_skipping.known_statistics import KnownStatistics
    from adelta.kernel.data_skipping.statistic import Columns
    from adelta.kernel.schema import types as t

__all__ = ["Skipping", "prune_files"]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

_STATS_PARSED = "stats_parsed"


class _Plan(Protocol):
    """What skipping needs to know of a scan."""

    @property
    def schema(self) -> t.StructType: ...
    @property
    def partition_columns(self) -> tuple[str, ...]: ...
    @property
    def mapping_mode(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Skipping:
    """A predicate, ready to be asked which files may hold rows for which it is true.

    `by_partition` and `by_statistics` are what a file must not make false; None says nothing.
    `by_bounds` is the same for several files at once, of which only bounds are known, `bounds`, and
    no partition values. `limits` are of single statistics, by which texts of them are told before
    they are parsed. `text` is the predicate as SQL.
    """

    by_partition: Node | None
    by_statistics: Node | None
    partition_fields: tuple[t.StructField, ...]
    statistics: tuple[Statistic, ...]
    mode: str
    text: str
    by_bounds: Node | None = None
    bounds: tuple[Statistic, ...] = ()
    limits: tuple[Limit, ...] = ()

    @classmethod
    def of(
        cls,
        predicate: Node,
        schema: t.StructType,
        partition_columns: Collection[str],
        *,
        mode: str = "none",
    ) -> Skipping:
        """The skipping by `predicate` over a table; `mode` is its column mapping.

        Raises:
            InvalidExpressionError: the predicate does not fit the schema.
        """
        bound = bind_predicate(predicate, schema)
        coarse = rewrite(bound, schema, partition_columns, statistics=False)
        fine = rewrite(bound, schema, partition_columns)
        statistics = statistics_of(fine, schema, mode) if fine is not None else ()
        # A partition value that is not known is not a partition value that is null.
        rough = rewrite(bound, schema, ()) if statistics else None
        fields = {
            f.name: f
            for node in (coarse, fine)
            if node is not None
            for f in partition_fields_of(node, schema)
        }
        return cls(
            by_partition=coarse,
            by_statistics=fine if statistics else None,
            partition_fields=tuple(fields.values()),
            statistics=statistics,
            mode=mode,
            text=to_sql(bound),
            by_bounds=rough,
            bounds=statistics_of(rough, schema, mode) if rough is not None else (),
            limits=limits_of(fine, statistics) if fine is not None else (),
        )

    @classmethod
    def for_plan(cls, predicate: Node, plan: _Plan) -> Skipping:
        """The skipping by `predicate` of a scan's files.

        Raises:
            InvalidExpressionError: the predicate does not fit the schema.
        """
        return cls.of(predicate, plan.schema, plan.partition_columns, mode=plan.mapping_mode)

    def candidates(self, files: pa.Table, known: KnownStatistics | None = None) -> pa.Table:
        """The rows of `files`, which has the columns of `ADD_SCHEMA`, that may hold matching rows.

        `known` is what is known of their statistics in JSON.

        Raises:
            InvalidTableError: a partition value is not of its column's type.
        """
        kept: pa.Table = pc.filter(files, self.may_match(files, known))
        return kept

    def may_match(self, files: pa.Table, known: KnownStatistics | None = None) -> pa.BooleanArray:
        """For each of `files`, which has the columns of `ADD_SCHEMA`, whether it may match.

        Statistics are read only for files that partition values keep, out of the column
        `stats_parsed` where `files` has one. Where they are needed of all, `known` may have them.

        Raises:
            InvalidTableError: a partition value is not of its column's type.
        """
        values: Columns = {}
        if self.partition_fields:
            values = self.partition_values(files.column("partition_values"))
        coarse = self.partition_mask(values, files.num_rows)
        if self.by_statistics is None or not coarse.true_count:
            return coarse
        if coarse.false_count:
            files = pc.filter(files, coarse)
            values = {path: pc.filter(column, coarse) for path, column in values.items()}
        parsed = files.column(_STATS_PARSED) if _STATS_PARSED in files.column_names else None
        if known is not None and not coarse.false_count:
            statistics = self._widened(known.columns(self.statistics))
            fine = self.statistics_mask(statistics, values, files.num_rows)
        else:
            fine = self.logged_statistics_mask(
                files.column("stats"), parsed, values, files.num_rows
            )
        return cast("pa.BooleanArray", pc.replace_with_mask(coarse, coarse, fine))

    def known_bounds(self, files: pa.Table) -> Columns:
        """The statistics that the predicate names, of each of `files`, as for `may_match`."""
        parsed = files.column(_STATS_PARSED) if _STATS_PARSED in files.column_names else None
        return self._read_statistics(files.column("stats"), parsed)

    def partition_values(self, values: pa.Array[Any] | pa.ChunkedArray[Any]) -> Columns:
        """The typed partition values that the predicate names, out of the log's maps of texts.

        Raises:
            InvalidTableError: a text is not a value of its column's type.
        """
        found: dict[tuple[str, ...], pa.Array[Any]] = {}
        for field in self.partition_fields:
            key = physical_name(field, self.mode)
            texts = lookup_partition_values(values, key)
            typed = parse_partition_values(texts, field.type, column=field.name)
            found[(PARTITION_VALUES, field.name)] = typed
        return found

    def partition_mask(self, partition_values: Columns, rows: int) -> pa.BooleanArray:
        """Which files may match by their partition values; exact where these decide alone."""
        return _may_match(self.by_partition, partition_values, rows)

    def statistics_mask(
        self, statistics: Columns, partition_values: Columns, rows: int
    ) -> pa.BooleanArray:
        """Which files, or row groups, may match by statistics, given under their logical paths."""
        return _may_match(self.by_statistics, {**partition_values, **statistics}, rows)

    def bounds_mask(self, bounds: Columns, rows: int) -> pa.BooleanArray:
        """Which of several sets of files may have one that matches, by what bounds all of a set."""
        return _may_match(self.by_bounds, bounds, rows)

    def logged_statistics_mask(
        self,
        stats: pa.Array[Any] | pa.ChunkedArray[Any] | None,
        stats_parsed: pa.Array[Any] | pa.ChunkedArray[Any] | None,
        partition_values: Columns,
        rows: int,
    ) -> pa.BooleanArray:
        """Which files may match by the statistics that the log has: `stats_parsed`, else JSON.

        `stats_parsed` is a struct as checkpoints have it; JSON is parsed for files without one.
        """
        keep = None
        if stats is not None and stats_parsed is None:
            keep = may_match_by_text(stats, self.limits)
        if keep is not None:
            rows = keep.true_count
            if not rows:
                return cast("pa.BooleanArray", keep)
            stats = pc.filter(stats, keep)
            partition_values = {p: pc.filter(v, keep) for p, v in partition_values.items()}
        statistics = self._read_statistics(stats, stats_parsed)
        found = self.statistics_mask(statistics, partition_values, rows)
        if keep is not None:
            found = cast("pa.BooleanArray", pc.replace_with_mask(keep, keep, found))
        return found

    def _read_statistics(
        self,
        stats: pa.Array[Any] | pa.ChunkedArray[Any] | None,
        stats_parsed: pa.Array[Any] | pa.ChunkedArray[Any] | None,
    ) -> Columns:
        if stats_parsed is None:
            columns = parse_stats(stats, self.statistics) if stats is not None else {}
        else:
            columns = self._parsed(stats_parsed, stats)
        return self._widened(columns)

    def _widened(self, columns: Columns) -> Columns:
        kinds = {s.path: s for s in self.statistics}
        return {path: widen(values, kinds[path]) for path, values in columns.items()}

    def _parsed(
        self,
        stats_parsed: pa.Array[Any] | pa.ChunkedArray[Any],
        stats: pa.Array[Any] | pa.ChunkedArray[Any] | None,
    ) -> dict[tuple[str, ...], pa.Array[Any]]:
        if isinstance(stats_parsed, pa.ChunkedArray):
            stats_parsed = stats_parsed.combine_chunks()
        columns = {s.path: _leaf(stats_parsed, s) for s in self.statistics}
        if stats is None or not stats_parsed.null_count:
            return columns
        without = pc.if_else(pc.is_null(stats_parsed), stats, null_of(pa.string()))
        for path, values in parse_stats(without, self.statistics).items():
            columns[path] = pc.coalesce(columns[path], values)
        return columns


def _leaf(parsed: Values, statistic: Statistic) -> Values:
    target = to_arrow_type(statistic.type)
    found = parsed
    for name in statistic.source:
        if not pa.types.is_struct(found.type) or found.type.get_field_index(name) < 0:
            return arrow.nulls(len(parsed), target)
        found = pc.struct_field(found, name)
    if _may_be_rounded(found.type, target):
        return arrow.nulls(len(parsed), target)
    try:
        return pc.cast(found, target)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return arrow.nulls(len(parsed), target)  # of another type than the column: as if missing


def _may_be_rounded(source: Any, target: Any) -> bool:
    """Whether bounds stored as `source` may be inexact for a column of the type `target`."""
    if pa.types.is_floating(source):
        return not pa.types.is_floating(target)
    return pa.types.is_timestamp(source) and pa.types.is_date(target)


def _may_match(node: Node | None, columns: Columns, rows: int) -> pa.BooleanArray:
    keep: pa.BooleanArray = arrow.repeat(scalar_of(True, pa.bool_()), rows)
    if node is None or not rows:
        return keep
    needed = {path: columns.get(path) for path in columns_of(node)}
    arrays = {path: arrow.nulls(rows) if found is None else found for path, found in needed.items()}
    if not arrays:
        arrays = {("rows",): keep}
    try:
        found = evaluate(node, nest(arrays))
    except InvalidExpressionError:
        return keep  # a bound that overflows says nothing
    return cast("pa.BooleanArray", pc.coalesce(found, scalar_of(True, pa.bool_())))


# ------------------------------------------------------------------------------------- the files


def prune_files(files: pa.Table, where: Node, plan: _Plan) -> pa.Table:
    """The rows of `files`, which has the columns of `ADD_SCHEMA`, that may hold rows to keep.

    Raises:
        InvalidExpressionError: the predicate does not fit the schema.
        InvalidTableError: a partition value is not of its column's type.
    """
    return Skipping.for_plan(where, plan).candidates(files)
