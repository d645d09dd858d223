"""Compaction: small files, and files with many deleted rows, into files of the target size."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import AdeltaError, CommitOutcomeUnknownError
from adelta.operations.rearrange.bins import (
    INSERTION_TIME,
    Bin,
    FileSizes,
    by_partition,
    has_too_many_deleted,
    insertion_time,
    is_small,
    pack,
    small_files,
)
from adelta.operations.rearrange.copying import bare
from adelta.operations.rearrange.joining import may_be_joined
from adelta.operations.rearrange.run import Plan, PlannedBin, Rearrangement, look
from adelta.operations.rearrange.tasks import CompactTask

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.log.state import LogState
    from adelta.operations.rearrange.metrics import OptimizeMetrics
    from adelta.table import Table

    FileChoice = Callable[[LogState], Awaitable[FileSet]]

_log = logging.getLogger("adelta.operations")

__all__ = ["compact", "plan_compaction", "planned"]


async def compact(
    table: Table,
    run: Rearrangement,
    base: LogState,
    choice: FileChoice,
    sizes: FileSizes,
    *,
    dry_run: bool,
) -> OptimizeMetrics:
    """Compact the files of a version that are chosen, until there is nothing left to compact.

    Rows take less room the more of them share a file. Where what was written has become so small
    that it would be written anew again, that is done at once; if it fails, it is left for the next
    time, as what was asked for is done.

    Raises: as `Rearrangement.carry_out` does.
    """
    files = await choice(base)
    plan, left = await in_thread(_plan, base.configuration, files, sizes)
    if plan.bins and not dry_run:
        await run.carry_out(base, plan)
        try:
            await _compact_again(table, run, choice, sizes, base.configuration, left)
        except CommitOutcomeUnknownError:
            raise
        except AdeltaError as error:
            _log.warning(
                "%s: files that are small again are left as they are: %s", table.uri, error
            )
    return run.metrics(plan, dry_run=dry_run)


async def _compact_again(
    table: Table,
    run: Rearrangement,
    choice: FileChoice,
    sizes: FileSizes,
    configuration: TableConfiguration,
    left: list[AddFile],
) -> None:
    """Compact what was written together with the files that were `left`, as long as it is small.

    Nothing is asked of the store where there is nothing to do.
    """
    while True:
        taken = {file.path for one in run.done for file in one.bin.files}
        written = [add for one in run.done for add in one.adds if add.path not in taken]
        known = [file for file in (*left, *written) if is_small(file, sizes)]
        plan = await in_thread(plan_compaction, configuration, known, sizes, considered=0)
        if not plan.bins:
            return
        base = await look(table)
        files = await choice(base)
        paths = {file.path for file in known}
        plan, left = await in_thread(_plan, base.configuration, files, sizes, paths)
        if not plan.bins:
            return
        await run.carry_out(base, plan, "rewriting again")


def _plan(
    configuration: TableConfiguration,
    files: FileSet,
    sizes: FileSizes,
    only: set[str] | None = None,
) -> tuple[Plan, list[AddFile]]:
    """A plan for the small files, or `only` those at some paths, and those in no bin of it."""
    chosen = [f for f in small_files(files, sizes) if only is None or f.path in only]
    plan = plan_compaction(configuration, chosen, sizes, considered=files.num_files)
    taken = {file.path for one in plan.bins for file in one.bin.files}
    return plan, [file for file in chosen if file.path not in taken]


def plan_compaction(
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    sizes: FileSizes,
    *,
    considered: int,
    alone: Callable[[AddFile], bool] | None = None,
) -> Plan:
    """Bins of `files`, which are those worth it of so many `considered` ones. CPU-heavy.

    A file is written anew by itself where that is worth it; `alone` says so where it is not for its
    deleted rows.

    Raises:
        InvalidTableError: a partition value is not of its column's type.
    """
    worth_it = alone or (lambda file: has_too_many_deleted(file, sizes))
    partitions = [
        pack(group, configuration, sizes, alone=worth_it)
        for group in by_partition(files, configuration)
    ]
    bins = (planned(configuration, each) for group in partitions for each in group)
    return Plan(tuple(bins), considered, sum(bool(group) for group in partitions))


def planned(
    configuration: TableConfiguration,
    files: Bin,
    tags: Mapping[str, str] | None = None,
    clustering_provider: str | None = None,
) -> PlannedBin:
    """The bin, to become one file that keeps its place, and bears these `tags` beside."""
    newest = max(insertion_time(file) for file in files.files)
    task = CompactTask(configuration, bare(files.files, stats=may_be_joined(files.files)))
    said = {**(tags or {}), INSERTION_TIME: str(newest)}
    return PlannedBin(files, task, said, clustering_provider)
