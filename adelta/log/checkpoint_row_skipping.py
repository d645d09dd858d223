"""Data skipping in one row group of a checkpoint: which of its files a predicate may keep.

It is asked in steps, each for the rows that the one before has left: partition values first, then
the statistics that the predicate names, typed ones before JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta.kernel.data_skipping.statistic import PARTITION_VALUES
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.names import physical_name
from adelta.log.action_columns import fields_of
from adelta.log.row_group_reader import PARTITION_VALUES_PARSED, STATS_PARSED, type_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.data_skipping.statistic import Columns
    from adelta.log.row_group_reader import RowGroupReader
    from adelta.parquet.column_slices import ColumnSlices

__all__ = ["CheckpointRowSkipping"]

arrow: Any = pa  # likewise of types that are known at run time only

Values: TypeAlias = Any  # an array, or a chunked one, of a type that the stubs cannot follow

_TYPED_PARTITIONS = (  # of others the typed value may say less
    t.BYTE,
    t.SHORT,
    t.INTEGER,
    t.LONG,
    t.DATE,
    t.BOOLEAN,
)


class CheckpointRowSkipping:
    """Which rows of a row group a predicate may keep.

    Attributes:
        by_predicate: the mask that partition values have left, and these values of its rows, where
            they were read as the log has them.
    """

    def __init__(self, reader: RowGroupReader) -> None:
        self._reader = reader
        self.by_predicate: tuple[Values, list[Values]] | None = None

    async def mask(self, skipping: Skipping) -> Values | None:
        """Which rows the predicate may keep, by partition values first; None says nothing."""
        mask: Values | None = None
        values: Columns = {}
        if skipping.partition_fields:
            typed = self._typed_partitions(skipping)
            fetched = await self._reader.fetch(list(typed.values()) or [("partitionValues",)])
            if fetched is not None:
                mask, values = await in_thread(
                    self._reader.sliced, self._by_partition, fetched, skipping, typed
                )
        if skipping.by_statistics is None or (mask is not None and not mask.true_count):
            return mask
        parsed = [(STATS_PARSED[1], *statistic.source) for statistic in skipping.statistics]
        found = None
        for fields in (parsed, [*parsed, ("stats",)]):
            fetched = await self._reader.fetch(fields) if found is None else None
            if fetched is not None:
                found = await in_thread(
                    self._reader.sliced,
                    self._by_statistics,
                    fetched,
                    fields,
                    skipping,
                    values,
                    mask,
                )
        return mask if found is None else found

    def _typed_partitions(self, skipping: Skipping) -> Mapping[str, tuple[str, ...]]:
        """Where the partition values that the predicate names are typed; empty if not all are."""
        typed = {}
        for field in skipping.partition_fields:
            leaf = (*PARTITION_VALUES_PARSED, physical_name(field, skipping.mode))
            kind = type_of(self._reader.file.layout.schema, leaf)
            if field.type not in _TYPED_PARTITIONS or kind != to_arrow_type(field.type):
                return {}
            typed[field.name] = leaf[1:]
        return typed

    def _by_partition(
        self, slices: ColumnSlices, skipping: Skipping, typed: Mapping[str, tuple[str, ...]]
    ) -> tuple[Values, Columns]:
        """Which rows may match by partition values, and the values of these rows."""
        masks, kept, whole = [], [], []
        fields = list(typed.values()) or [("partitionValues",)]
        for _, actions in self._reader.slices(slices, fields, self._reader.rows):
            (column,) = fields_of(actions).values()
            if typed:
                values: Columns = {
                    (PARTITION_VALUES, name): pc.struct_field(column, leaf[1])
                    for name, leaf in typed.items()
                }
            else:
                values = skipping.partition_values(column)
            mask = pc.and_(skipping.partition_mask(values, len(actions)), pc.is_valid(actions))
            masks.append(mask)
            kept.append({path: pc.filter(values[path], mask) for path in values})
            whole.append(pc.filter(actions, mask))
        if not typed:
            self.by_predicate = arrow.concat_arrays(masks), whole
        stacked = {path: arrow.concat_arrays([part[path] for part in kept]) for path in kept[0]}
        return arrow.concat_arrays(masks), stacked

    def _by_statistics(
        self,
        slices: ColumnSlices,
        fields: Sequence[tuple[str, ...]],
        skipping: Skipping,
        values: Columns,
        mask: Values | None,
    ) -> Values | None:
        """Which rows of `mask` may match by statistics; `values` are the partition's of `mask`.

        None where some of them have their statistics as JSON, and that is not among `fields`.
        """
        more = ("stats",) not in fields and self._reader.file.layout.has_column(("add", "stats"))
        masks, used = [], 0
        for start, actions in self._reader.slices(slices, fields, self._reader.end(mask)):
            rows = pc.is_valid(actions)
            if mask is not None:
                rows = pc.and_(rows, mask.slice(start, len(actions)))
            count = rows.true_count
            if not count:
                masks.append(rows)
                continue
            here = fields_of(actions if count == len(actions) else pc.filter(actions, rows))
            parsed = here.get(STATS_PARSED[1])
            if more and parsed is not None and parsed.null_count:
                return None
            of_these = {path: column.slice(used, count) for path, column in values.items()}
            used += count
            found = skipping.logged_statistics_mask(here.get("stats"), parsed, of_these, count)
            masks.append(pc.replace_with_mask(rows, rows, found))
        return self._reader.padded(masks)
