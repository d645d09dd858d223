"""What the log tells a planner that weighs costs: of rows how many, of columns what they hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of
from adelta._dataclasses import dataclass
from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.exact import EXTREMES_COLUMNS, NUM_RECORDS_STATISTIC, row_counts
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, NULL_COUNT, Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adelta.kernel.data_skipping.statistic import Columns

__all__ = ["PLANNER_COLUMNS", "ColumnStatistics", "PlannerStatistics", "planner_statistics"]

PLANNER_COLUMNS = EXTREMES_COLUMNS
"""What `planner_statistics` needs of a snapshot's files."""

_NUMBERS = (t.BYTE, t.SHORT, t.INTEGER, t.LONG)
_TOLD = (*_NUMBERS, t.DATE, t.STRING)
"""Types of columns that are told of: of these a column has no more values than lie between two."""
_MOST, _MOST_DAYS = 100, 36_525
"""How many different values a column may have to be told of.

Where there may be many, and are few, a planner that takes all for equally frequent believes that a
filter leaves hardly a row, and sends what is left to every task. Of days most do occur.
"""


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """What the rows have in a column: estimates for a planner, not answers.

    `ends` are a value that none is less than, and one that none is greater than; None where all are
    NULL, and of texts.
    """

    most_distinct: int
    null_count: int
    ends: tuple[pa.Scalar[Any], pa.Scalar[Any]] | None


@dataclass(frozen=True, slots=True)
class PlannerStatistics:
    """How many rows there are, and what their columns have, by name."""

    num_rows: int
    columns: dict[str, ColumnStatistics]


def planner_statistics(
    files: pa.Table,
    fields: Sequence[t.StructField],
    mapping_mode: str,
    partition_columns: Collection[str],
) -> PlannerStatistics | None:
    """What the log tells of `files`, which have `PLANNER_COLUMNS`; None where it counts no rows.

    Told of are partition columns, whose values the log has; and columns that have at most a hundred
    different values, as there are no more rows, or no more whole numbers between the least and the
    greatest one, or at most as many days as a century. Each is where the statistics of every file
    that has rows say it. Rows behind deletion vectors still count for columns.

    Example: of 1,000 rows with the ids 1 to 20 it is that there are at most 20 different ones.
    """
    stored = {
        each.name: _asked(physical_name(each, mapping_mode), each.type)
        for each in fields
        if each.type in _TOLD and each.name not in partition_columns
    }
    asked = [one for each in stored.values() for one in each]
    found = parse_stats(files.column("stats"), [NUM_RECORDS_STATISTIC, *asked])
    counts = row_counts(found, files)
    if counts.null_count:
        return None
    has_rows = pc.greater(counts, 0)
    files, counts = files.filter(has_rows), counts.filter(has_rows)
    found = {path: each.filter(has_rows) for path, each in found.items()}
    num_rows = int(pc.sum(counts).as_py() or 0)
    columns = {}
    for field in fields:
        if field.name in stored:
            told = _of_values(found, stored[field.name], num_rows)
        elif field.name in partition_columns and field.type in _TOLD:
            told = _of_partitions(files, physical_name(field, mapping_mode), field, counts)
        else:
            continue
        if told is not None:
            columns[field.name] = told
    return PlannerStatistics(num_rows, columns)


def _asked(name: str, data_type: t.DataType) -> tuple[Statistic, ...]:
    nulls = Statistic((NULL_COUNT, name), (NULL_COUNT, name), t.LONG)
    if data_type == t.STRING:
        return (nulls,)
    bounds = (MIN_VALUES, MAX_VALUES)
    return (nulls, *(Statistic((bound, name), (bound, name), data_type) for bound in bounds))


def _of_values(
    found: Columns, asked: tuple[Statistic, ...], num_rows: int
) -> ColumnStatistics | None:
    nulls, *bounds = asked
    absent, records = found[nulls.path], found[NUM_RECORDS_STATISTIC.path]
    if absent.null_count or pc.any(pc.greater(absent, records)).as_py():
        return None
    num_nulls = min(int(pc.sum(absent).as_py() or 0), num_rows)
    has_values = pc.less(absent, records)
    if not pc.any(has_values).as_py():
        return ColumnStatistics(0, num_nulls, None)
    most, ends, limit = num_rows - num_nulls, None, _MOST
    if bounds:
        least, greatest = (widen(found[each.path], each).filter(has_values) for each in bounds)
        if least.null_count or greatest.null_count or pc.any(pc.greater(least, greatest)).as_py():
            return None
        ends = (pc.min(least), pc.max(greatest))
        first, last = (_whole(each) for each in ends)
        most = min(most, last - first + 1)
        limit = _MOST_DAYS if pa.types.is_date(ends[0].type) else _MOST
    # A value that there is counts, even if all rows of its file are behind deletion vectors.
    return ColumnStatistics(max(1, most), num_nulls, ends) if most <= limit else None


def _of_partitions(
    files: pa.Table, name: str, field: t.StructField, counts: pa.Array[Any]
) -> ColumnStatistics:
    texts = lookup_partition_values(files.column("partition_values"), name).combine_chunks()
    different = pc.unique(texts)
    values = parse_partition_values(different, field.type, column=field.name)
    nulls = pc.is_in(texts, value_set=different.filter(values.is_null()))
    num_nulls = int(pc.sum(pc.if_else(nulls, counts, null_of(pa.int64()))).as_py() or 0)
    values = values.drop_null()
    if not len(values):
        return ColumnStatistics(0, num_nulls, None)
    ends = None if field.type == t.STRING else (pc.min(values), pc.max(values))
    return ColumnStatistics(len(pc.unique(values)), num_nulls, ends)


def _whole(value: pa.Scalar[Any]) -> int:
    if pa.types.is_date(value.type):
        value = value.cast(pa.int32())
    return int(value.as_py())
