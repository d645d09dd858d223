"""TableOptimizer: OPTIMIZE under deltalake's names."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from adelta import sync
from adelta.deltalake._actions import commit_options
from adelta.deltalake._filters import encoded, where_of
from adelta.deltalake._util import check_count, deprecate_positional_commit_args
from adelta.deltalake.exceptions import DeltaError, raises_as_deltalake
from adelta.deltalake.writer.options import with_data_files

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta import FileSizeMetrics, OptimizeMetrics
    from adelta.deltalake._actions import CommitProperties, PostCommitHookProperties
    from adelta.deltalake._definition import FilterConjunctionType
    from adelta.deltalake._provenance import DeltalakeCommit
    from adelta.deltalake.table import DeltaTable
    from adelta.deltalake.writer.properties import WriterProperties

__all__ = ["TableOptimizer"]

_TARGET_SIZE = 100 * 1024 * 1024
_LATER_FIRST = ("post_commithook_properties", "commit_properties")


class TableOptimizer:
    """What rewrites files of a table, `DeltaTable.optimize`.

    `max_spill_size` and `max_temp_directory_size` tune another engine, and are taken and not
    followed: memory is bounded, in any case.
    """

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def compact(
        self,
        partition_filters: FilterConjunctionType | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Join small files, partition by partition and in their order; what that did.

        `target_size` in bytes is ``delta.targetFileSize`` or 100 MiB, where it is not given.
        """
        commit, after = deprecate_positional_commit_args(
            "compact", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        return self._optimized(
            None,
            partition_filters,
            target_size,
            max_concurrent_tasks,
            min_commit_interval,
            with_data_files(commit_options(commit, after), writer_properties, self.table._table),
        )

    def z_order(
        self,
        columns: Iterable[str],
        partition_filters: FilterConjunctionType | None = None,
        target_size: int | None = None,
        max_concurrent_tasks: int | None = None,
        max_spill_size: int | None = None,
        max_temp_directory_size: int | None = None,
        min_commit_interval: int | timedelta | None = None,
        writer_properties: WriterProperties | None = None,
        *args: Any,
        commit_properties: CommitProperties | None = None,
        post_commithook_properties: PostCommitHookProperties | None = None,
    ) -> dict[str, Any]:
        """Sort the rows of each partition along a Z-order curve by `columns`; what that did."""
        commit, after = deprecate_positional_commit_args(
            "z_order", args, commit_properties, post_commithook_properties, _LATER_FIRST
        )
        return self._optimized(
            list(columns),
            partition_filters,
            target_size,
            max_concurrent_tasks,
            min_commit_interval,
            with_data_files(commit_options(commit, after), writer_properties, self.table._table),
        )

    @raises_as_deltalake
    def _optimized(
        self,
        columns: list[str] | None,
        filters: FilterConjunctionType | None,
        target_size: int | None,
        concurrency: int | None,
        interval: int | timedelta | None,
        options: DeltalakeCommit,
    ) -> dict[str, Any]:
        table = self.table._table
        snapshot = table.snapshot
        if columns is not None:
            _check_z_order(columns, snapshot.delta_schema.names, snapshot.partition_columns)
        for count in (target_size, concurrency, interval):
            check_count(count)
        if target_size is not None and not 0 < target_size < 1 << 63:
            raise ValueError(f"target_file_size must be between 1 and {(1 << 63) - 1}")
        if target_size is None and "delta.targetFileSize" not in snapshot.properties:
            target_size = _TARGET_SIZE
        if interval is not None and not isinstance(interval, timedelta):
            interval = timedelta(seconds=interval)
        where = where_of([encoded(filters)], snapshot.delta_schema) if filters else None
        considered = table.handle.snapshot().files(where, columns=["path"]).num_rows
        options = replace(_with_size(options, target_size), considered=considered)
        done = sync.optimize(
            table.committing(options),
            where=where,
            by_statistics=True,
            zorder_by=columns,
            target_size=target_size,
            max_commit_interval=interval,
            concurrency=concurrency,
        )
        table.update_incremental()
        return _metrics(done, options, z_order=columns is not None)


def _with_size(options: DeltalakeCommit, target_size: int | None) -> DeltalakeCommit:
    """The options, with the size of files that the history tells."""
    if target_size is None:
        return options
    return replace(options, parameters={"targetSize": str(target_size), **options.parameters})


def _check_z_order(columns: list[str], known: Iterable[str], partitions: Iterable[str]) -> None:
    if not columns:
        raise DeltaError("Generic DeltaTable error: Z-order requires at least one column")
    wrong = [name for name in columns if name in partitions]
    if wrong:
        raise DeltaError(
            "Generic DeltaTable error: Z-order columns cannot be partition columns. Found: "
            f"{json.dumps(wrong)}"
        )
    for name in columns:
        if name.split(".")[0] not in known:
            raise DeltaError(
                f'Generic DeltaTable error: Z-order column "{name}": field "{name}" not found in '
                "schema"
            )


def _metrics(done: OptimizeMetrics, options: DeltalakeCommit, *, z_order: bool) -> dict[str, Any]:
    told = list(options.optimized.values())[-len(done.versions) :] if done.versions else []
    return {
        "numFilesAdded": done.num_files_added,
        "numFilesRemoved": done.num_files_removed,
        "filesAdded": _sizes(done.files_added),
        "filesRemoved": _sizes(done.files_removed),
        "partitionsOptimized": done.partitions_optimized,
        "numBatches": sum(each["numBatches"] for each in told),
        "totalConsideredFiles": done.total_considered_files,
        "totalFilesSkipped": done.total_files_skipped,
        "preserveInsertionOrder": done.preserve_insertion_order,
        "plannerStrategy": "zOrder" if z_order else "preserveLocality",
        "preservedStableOrder": done.preserve_insertion_order,
        "maxBinSpanFiles": max((each["maxBinSpanFiles"] for each in told), default=0),
    }


def _sizes(sizes: FileSizeMetrics) -> str:
    return json.dumps(
        {
            "avg": float(sizes.avg),
            "max": sizes.max or 0,
            "min": sizes.min or 0,
            "totalFiles": sizes.total_files,
            "totalSize": sizes.total_size,
        },
        separators=(",", ":"),
    )
