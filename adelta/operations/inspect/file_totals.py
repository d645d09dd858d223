"""FileTotals: the live files of a version, counted: sizes, ages, deletion vectors, partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.data_skipping.statistic import Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.partition import lookup_partition_values
from adelta.kernel.schema import types as t
from adelta.kernel.table_configuration import TableConfiguration

if TYPE_CHECKING:
    from adelta.snapshot import Snapshot

__all__ = [
    "FileTotals",
    "PartitionTotals",
    "RowTotals",
    "file_totals",
    "partition_totals",
    "row_totals",
]


_KIB = 1 << 10
SIZE_BOUNDS = (0, *(_KIB << 2 * step for step in range(12)))  # 0, 1 KiB, 4 KiB, ... 4 GiB
_ROWS = Statistic(("numRecords",), ("numRecords",), t.LONG)


@dataclass(frozen=True, slots=True)
class FileTotals:
    """The live files of a version.

    Attributes:
        num_files: how many there are.
        num_bytes: of all of them.
        median_bytes: of a file in the middle; None where there is none.
        num_vectors: the files that have a deletion vector.
        num_deleted: the rows that these delete.
        sizes: how many files are of at least so many bytes, and of less than the next.
    """

    num_files: int
    num_bytes: int
    median_bytes: int | None
    num_vectors: int
    num_deleted: int
    sizes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RowTotals:
    """The rows of a version, as the statistics of its files say.

    `num_rows` are those of files that say how many they have, deleted ones not counted, and
    `num_unknown` the files that do not.
    """

    num_rows: int
    num_deleted: int
    num_unknown: int


@dataclass(frozen=True, slots=True)
class PartitionTotals:
    """The files of one partition; `values` are the log's texts, in the order of the columns."""

    values: tuple[str | None, ...]
    num_files: int
    num_bytes: int
    num_vectors: int


async def file_totals(snapshot: Snapshot) -> FileTotals:
    """The files of a version, counted; their statistics are not read.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    files = await snapshot.files(columns=["size", "deletion_vector"])
    return await in_thread(_totals, files)


def _totals(files: pa.Table) -> FileTotals:
    sizes = files.column("size")
    deleted = _deleted(files)
    counts = []
    for index, least in enumerate(SIZE_BOUNDS):
        mask = pc.greater_equal(sizes, least)
        if index + 1 < len(SIZE_BOUNDS):
            mask = pc.and_(mask, pc.less(sizes, SIZE_BOUNDS[index + 1]))
        counts.append((least, int(pc.sum(mask).as_py() or 0)))
    median = pc.quantile(sizes, 0.5, interpolation="nearest")[0].as_py() if files.num_rows else None
    return FileTotals(
        files.num_rows,
        int(pc.sum(sizes).as_py() or 0),
        None if median is None else int(median),
        files.num_rows - files.column("deletion_vector").null_count,
        int(pc.sum(deleted).as_py() or 0),
        tuple(counts),
    )


def _deleted(files: pa.Table) -> Any:
    vectors: Any = files.column("deletion_vector").combine_chunks()
    return pc.fill_null(pc.struct_field(vectors, "cardinality"), 0)


async def row_totals(snapshot: Snapshot) -> RowTotals:
    """The rows of a version, by the statistics of all of its files, and by nothing else.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    files = await snapshot.files(columns=["stats", "deletion_vector"])

    def count() -> RowTotals:
        rows = parse_stats(files.column("stats"), [_ROWS])[_ROWS.path]
        deleted = _deleted(files)
        left = pc.sum(pc.max_element_wise(pc.subtract(rows, deleted), 0, skip_nulls=False)).as_py()
        return RowTotals(int(left or 0), int(pc.sum(deleted).as_py() or 0), rows.null_count)

    return await in_thread(count)


async def partition_totals(
    snapshot: Snapshot, limit: int = 200
) -> tuple[int, list[PartitionTotals]]:
    """How many partitions a version has, and the largest of them; at most `limit`.

    Raises:
        InvalidTableError: a checkpoint is damaged.
    """
    configuration = TableConfiguration(snapshot.protocol, snapshot.metadata)
    names = configuration.physical_partition_columns
    files = await snapshot.files(columns=["partition_values", "size", "deletion_vector"])

    def group() -> tuple[int, list[PartitionTotals]]:
        if not files.num_rows:
            return 0, []
        maps = files.column("partition_values")
        columns = {f"p{i}": lookup_partition_values(maps, n) for i, n in enumerate(names)}
        vectors = files.column("deletion_vector").is_valid().cast(pa.int64())
        table = pa.table({**columns, "size": files.column("size"), "vectors": vectors})
        grouped = table.group_by(list(columns)).aggregate(
            [("size", "sum"), ("size", "count"), ("vectors", "sum")]
        )
        order = pc.select_k_unstable(grouped, limit, [("size_sum", "descending")])
        found = [
            PartitionTotals(
                tuple(row[name] for name in columns),
                row["size_count"],
                row["size_sum"] or 0,
                row["vectors_sum"] or 0,
            )
            for row in grouped.take(order).to_pylist()
        ]
        return grouped.num_rows, found

    return await in_thread(group)
