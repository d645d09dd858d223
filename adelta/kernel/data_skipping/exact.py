"""What the log tells exactly of the rows of files: how many there are, and their extremes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias, cast

import pyarrow as pa

from adelta import _compute as pc
from adelta._arrow_values import null_of, scalar_of
from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.statistic import (
    MAX_VALUES,
    MIN_VALUES,
    NULL_COUNT,
    NUM_RECORDS,
    Statistic,
)
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.expressions.compute import can_fail
from adelta.kernel.expressions.nodes import columns_of
from adelta.kernel.partition import lookup_partition_values, parse_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.schema.names import physical_name

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adelta.kernel.data_skipping.statistic import Columns
    from adelta.kernel.expressions.nodes import Node

__all__ = [
    "EXTREMES_COLUMNS",
    "NUM_RECORDS_STATISTIC",
    "exact_extremes",
    "exact_row_counts",
    "may_tell_extremes",
    "row_counts",
]

arrow: Any = pa  # of types that are known at run time only

Values: TypeAlias = Any  # a pa.Array, of a type that the stubs cannot follow

EXTREMES_COLUMNS = ("stats", "deletion_vector", "partition_values")
"""What `exact_extremes` needs of a snapshot's files."""

NUM_RECORDS_STATISTIC = Statistic((NUM_RECORDS,), (NUM_RECORDS,), t.LONG)
_TIGHT_BOUNDS = Statistic(("tightBounds",), ("tightBounds",), t.BOOLEAN)
_EXACT = (t.BYTE, t.SHORT, t.INTEGER, t.LONG, t.DATE)
"""Types of which statistics have the values themselves."""
_UNORDERED = (t.FLOAT, t.DOUBLE, t.BINARY)


def exact_row_counts(
    files: pa.Table, where: Node | None, partition_columns: Collection[str]
) -> tuple[int, pa.Int64Array] | None:
    """How many rows `files`, already pruned by `where`, have: the known sum, and who is not in it.

    The second part are the indices of files whose statistics do not say. None where the predicate
    asks for more than partition values, so that only the rows themselves can tell.
    """
    if where is not None:
        folded = {name.lower() for name in partition_columns}
        paths = columns_of(where)
        if can_fail(where) or not all(len(p) == 1 and p[0].lower() in folded for p in paths):
            return None
    counts = row_counts(parse_stats(files.column("stats"), [NUM_RECORDS_STATISTIC]), files)
    unknown = pc.indices_nonzero(counts.is_null()).cast(pa.int64())
    return int(pc.sum(counts).as_py() or 0), cast("pa.Int64Array", unknown)


def exact_extremes(
    files: pa.Table, field: t.StructField, mapping_mode: str, *, is_partition: bool
) -> pa.Array[Any] | None:
    """The least and the greatest value of a column of `files`; None where rows alone tell.

    Both are NULL where there is no value. `files` has the columns `EXTREMES_COLUMNS`. Told are the
    values of partitions, unless they are floating-point numbers, and whole numbers and dates of
    files without a deletion vector: other bounds may lie outside of what the rows have.

    Example: of files with the ids 1 to 3 and 2 to 5 it is 1 and 5.
    """
    if not may_tell_extremes(field.type, is_partition=is_partition):
        return None
    name = physical_name(field, mapping_mode)
    asked = () if is_partition else _statistics_of(name, field.type)
    found = parse_stats(files.column("stats"), [NUM_RECORDS_STATISTIC, *asked])
    counts = row_counts(found, files)
    if counts.null_count:
        return None
    has_rows = pc.greater(counts, 0)
    files = files.filter(has_rows)
    if is_partition:
        return _of_partitions(files, name, field)
    if files.column("deletion_vector").null_count < files.num_rows:
        return None
    return _of_statistics({path: each.filter(has_rows) for path, each in found.items()}, asked)


def may_tell_extremes(data_type: t.DataType, *, is_partition: bool) -> bool:
    """Whether `exact_extremes` can tell those of a column of a type, whatever the files are."""
    return data_type not in _UNORDERED if is_partition else data_type in _EXACT


def _of_partitions(files: pa.Table, name: str, field: t.StructField) -> pa.Array[Any]:
    texts = pc.unique(lookup_partition_values(files.column("partition_values"), name))
    values = parse_partition_values(texts, field.type, column=field.name)
    return _ends(values, values)


def _statistics_of(name: str, data_type: t.DataType) -> tuple[Statistic, ...]:
    """The least value of a column, the greatest, how many are NULL, and whether that is exact."""
    low, high = (
        Statistic((bound, name), (bound, name), data_type) for bound in (MIN_VALUES, MAX_VALUES)
    )
    return low, high, Statistic((NULL_COUNT, name), (NULL_COUNT, name), t.LONG), _TIGHT_BOUNDS


def _of_statistics(found: Columns, asked: Sequence[Statistic]) -> pa.Array[Any] | None:
    low, high, nulls, tight = asked
    least, greatest = found[low.path], found[high.path]
    absent, rows = found[nulls.path], found[NUM_RECORDS_STATISTIC.path]
    is_empty = pc.fill_null(pc.equal(absent, rows), False)
    are_values = [
        pc.less(absent, rows),
        pc.less_equal(least, greatest),
        pc.equal(least, widen(least, low)),  # no date of a calendar that nobody knows
    ]
    is_told = pc.fill_null(found[tight.path], True)
    for each in are_values:
        is_told = pc.and_(is_told, pc.fill_null(each, False))
    if not pc.all(pc.or_(is_empty, is_told), min_count=0).as_py():
        return None
    has_values = pc.invert(is_empty)
    return _ends(least.filter(has_values), greatest.filter(has_values))


def _ends(least: Values, greatest: Values) -> pa.Array[Any]:
    ends: pa.Array[Any] = arrow.array([pc.min(least), pc.max(greatest)], least.type)
    return ends


def row_counts(found: Columns, files: pa.Table) -> pa.Array[Any]:
    """How many rows each of the files has that are not deleted; NULL where nothing says."""
    records = found[NUM_RECORDS_STATISTIC.path]
    vectors = files.column("deletion_vector").combine_chunks()
    removed = pc.fill_null(pc.struct_field(vectors, "cardinality"), scalar_of(0, pa.int64()))
    if isinstance(removed, pa.ChunkedArray):
        removed = removed.combine_chunks()
    counts = pc.subtract(records, removed)
    # A file cannot have fewer rows than none: its statistics are wrong.
    known: pa.Array[Any] = pc.if_else(pc.greater_equal(counts, 0), counts, null_of(pa.int64()))
    return known
