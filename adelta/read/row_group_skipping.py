"""Skipping row groups by the statistics of a file's footer.

A predicate that kept a file is asked again of each of its row groups. INT96 has no order in
footers, a legacy calendar another one, and NaN as a bound says nothing: such are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._arrow_values import array_of
from adelta.errors import AdeltaError
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, NUM_RECORDS
from adelta.kernel.schema.calendar import legacy_calendar
from adelta.kernel.schema.conform import conform, find_field
from adelta.kernel.schema.types import DataType, StructType
from adelta.log.matching_files import skipping_by

if TYPE_CHECKING:
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.data_skipping.statistic import Columns
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.parquet.reader import ParquetFile
    from adelta.parquet.skip.chunk_statistics import ChunkStatistics

__all__ = ["RowGroupSkipping", "bounds_mean_nothing", "locate"]


class RowGroupSkipping:
    """The predicate of a plan, ready to be asked of row groups; `skipping` is of the same."""

    def __init__(self, plan: ScanPlan, skipping: Skipping | None = None) -> None:
        self._plan = plan
        self.skipping: Skipping | None = None
        """The predicate in terms of statistics; None where it says nothing of them."""
        if plan.where is not None:
            made = skipping or skipping_by(plan.where, plan)
            self.skipping = made if made.by_statistics is not None else None

    def kept(self, file: AddFile, parquet: ParquetFile) -> list[int]:
        """The row groups that may hold rows for which the predicate is true. CPU-heavy."""
        count = parquet.layout.num_row_groups
        if self.skipping is None or not count:
            return list(range(count))
        columns: dict[tuple[str, ...], pa.Array[Any]] = {}
        read: dict[tuple[str, ...], dict[str, list[Any]] | None] = {}
        for statistic in self.skipping.statistics:
            path = statistic.path[1:]
            if statistic.kind == NUM_RECORDS:
                rows = [parquet.layout.metadata.row_group(group).num_rows for group in range(count)]
                columns[statistic.path] = array_of(rows, pa.int64())
                continue
            found = locate(path, self._plan, parquet.layout.schema)
            if found is None:
                continue
            steps, kind = found
            if path not in read:
                read[path] = _statistics(parquet, steps, kind)
            values = read[path]
            if values is None:
                continue
            if statistic.kind in (MIN_VALUES, MAX_VALUES):
                bounds = _typed(values[statistic.kind], kind, statistic.type)
                if bounds is not None:
                    columns[statistic.path] = bounds
            else:
                columns[statistic.path] = array_of(values[statistic.kind], pa.int64())
        mask = self.skipping.statistics_mask(columns, self.partition(file, count), count)
        return [group for group in range(count) if mask[group].as_py()]

    def partition(self, file: AddFile, count: int) -> Columns:
        """The file's partition values that the predicate names, `count` times."""
        assert self.skipping is not None
        values = array_of([file.partition_values], pa.map_(pa.string(), pa.string()))
        one = self.skipping.partition_values(values)
        return {path: pa.repeat(value[0], count) for path, value in one.items()}


def locate(
    path: tuple[str, ...], plan: ScanPlan, schema: pa.Schema
) -> tuple[tuple[str, ...], pa.DataType] | None:
    """Where a file has a column of the table, below structs alone, and of which type."""
    fields, here = list(schema), plan.schema
    steps: list[str] = []
    for depth, name in enumerate(path):
        wanted = here.field(name)
        index = None if wanted is None else find_field(fields, wanted, plan.mapping_mode)
        if wanted is None or index is None:
            return None
        field = fields[index]
        steps.append(field.name)
        if depth == len(path) - 1:
            return None if pa.types.is_nested(field.type) else (tuple(steps), field.type)
        if not isinstance(wanted.type, StructType) or not isinstance(field.type, pa.StructType):
            return None
        here = wanted.type
        fields = [field.type.field(i) for i in range(field.type.num_fields)]
    return None


def _statistics(
    parquet: ParquetFile, steps: tuple[str, ...], kind: pa.DataType
) -> dict[str, list[Any]] | None:
    """The bounds and null counts of a column in every row group; None where they mean nothing."""
    found: dict[str, list[Any]] = {MIN_VALUES: [], MAX_VALUES: [], "nullCount": []}
    try:
        odd = bounds_mean_nothing(parquet, steps, kind)
        for group in range(parquet.layout.num_row_groups):
            chunk = parquet.layout.statistics(group, steps)
            usable = None if chunk is None or odd or not _is_bounded(chunk) else chunk
            found[MIN_VALUES].append(None if usable is None else usable.min)
            found[MAX_VALUES].append(None if usable is None else usable.max)
            found["nullCount"].append(None if chunk is None else chunk.null_count)
    except AdeltaError:
        return None  # a bound that Python has no value for; if the file is damaged, reading says so
    return found


def bounds_mean_nothing(parquet: ParquetFile, steps: tuple[str, ...], kind: pa.DataType) -> bool:
    """Whether values as they are stored are in another order than those that are read."""
    temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    return parquet.layout.physical_types(steps) == ("INT96",) or (
        temporal and legacy_calendar(parquet.layout.metadata.metadata) is not None
    )


def _is_bounded(chunk: ChunkStatistics) -> bool:
    """Whether there are a minimum and a maximum, and neither is NaN."""
    return chunk.min is not None and chunk.min == chunk.min and chunk.max == chunk.max


def _typed(values: list[Any], kind: pa.DataType, target: DataType) -> pa.Array[Any] | None:
    """The bounds in the type of the table's column."""
    try:
        bounds: pa.Array[Any] = conform(array_of(values, kind), target, "none", "statistics")
    except (AdeltaError, pa.ArrowException, OverflowError, TypeError, ValueError):
        return None
    return bounds
