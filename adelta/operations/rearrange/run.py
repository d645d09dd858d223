"""A plan of bins, carried out: tasks, then as many commits as are asked for."""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

import anyio

from adelta._dataclasses import dataclass
from adelta.commit.choose import check_maintenance
from adelta.operations.rearrange.commit import RewrittenBin, commit_bins, discard_bins
from adelta.operations.rearrange.metrics import (
    DeletionVectorStats,
    FileSizeMetrics,
    OptimizeMetrics,
)
from adelta.progress import Meter
from adelta.table import begin, clock_of, data_files_of, executor_of, roots_of
from adelta.write.task_executor import InProcess
from adelta.write.transaction_request import ONLY_READS, TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.log.state import LogState
    from adelta.operations.rearrange.bins import Bin
    from adelta.operations.rearrange.metrics import ClusteringStats, ZOrderStats
    from adelta.operations.rearrange.tasks import ClusterTask, CompactTask
    from adelta.progress import OnProgress
    from adelta.table import Table
    from adelta.write.task_executor import TaskExecutor

__all__ = ["Plan", "PlannedBin", "Rearrangement", "look"]


@dataclass(frozen=True, slots=True)
class PlannedBin:
    """A bin with the task that writes it anew, and the tags of the files that come of it."""

    bin: Bin
    task: CompactTask | ClusterTask
    tags: Mapping[str, str] = field(default_factory=dict)
    clustering_provider: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be written anew of `considered` files, and how many partitions that concerns."""

    bins: tuple[PlannedBin, ...]
    considered: int
    partitions: int
    z_order: ZOrderStats | None = None
    clustering: ClusteringStats | None = None


async def look(table: Table) -> LogState:
    """The latest version of the table, if it may be written to, and laid out anew.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidOptionError: the store cannot exclude other writers.
        InvalidUseError: the table's catalog does not permit it.
    """
    async with begin(table, TransactionRequest(operation=ONLY_READS, from_latest=True)) as tx:
        check_maintenance(table.store, tx.configuration)
        return tx.base


class Rearrangement:
    """Carries out plans, and counts what comes of them.

    Args:
        table: what is rearranged.
        request: what the commits are called.
        max_commit_interval: commit what is done whenever so much time has passed; None is one
            commit a plan.
        concurrency: tasks that run at once; None leaves it to the table's executor.
        on_progress: is told of the bytes that are written anew.
    """

    def __init__(
        self,
        table: Table,
        request: TransactionRequest,
        *,
        max_commit_interval: timedelta | None = None,
        concurrency: int | None = None,
        on_progress: OnProgress | None = None,
    ) -> None:
        self._table = table
        self._request = request
        self._interval = max_commit_interval
        self._concurrency = concurrency
        self._on_progress = on_progress
        self._began_ms = clock_of(table).now_ms()
        self._versions: list[int] = []
        self._done: list[RewrittenBin] = []
        self._lost = 0

    @property
    def done(self) -> Sequence[RewrittenBin]:
        """The bins that have been committed."""
        return self._done

    async def carry_out(self, base: LogState, plan: Plan, phase: str = "rewriting") -> None:
        """Write the bins of a plan for the version `base` anew, and commit them.

        Where it fails, or is cancelled, what was committed before stays, and files that no commit
        has added are deleted.

        Raises:
            CommitConflictError: another commit came first and the work has to be done again.
            CommitOutcomeUnknownError: a commit may or may not have happened.
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed.
        """
        executor, data_files = self._executor(), data_files_of(self._table)
        meter = Meter(
            self._on_progress,
            phase,
            total=sum(one.bin.num_bytes for one in plan.bins),
            unit="bytes",
        )
        at_once = len(plan.bins) if self._interval is None else executor.tasks_at_once
        waiting: list[RewrittenBin] = []
        since = anyio.current_time()
        for start in range(0, len(plan.bins), max(1, at_once)):
            wave = plan.bins[start : start + at_once]
            try:
                written = await executor.run(
                    roots_of(self._table),
                    [replace(one.task, options=data_files) for one in wave],
                    on_done=lambda result: meter.advance(result.num_bytes),
                )
            except BaseException:
                await discard_bins(self._table.store, waiting)
                raise
            waiting += [
                RewrittenBin(one.bin, _tagged(one, result.adds))
                for one, result in zip(wave, written, strict=True)
            ]
            is_last = start + at_once >= len(plan.bins)
            if is_last or self._is_due(since):
                ready, waiting = waiting, []
                await self._commit(base, ready)
                since = anyio.current_time()

    def metrics(self, plan: Plan, *, dry_run: bool = False) -> OptimizeMetrics:
        """What was done of `plan`, the first one; or what would be, in a dry run."""
        bins = [one.bin for one in plan.bins] if dry_run else [one.bin for one in self._done]
        removed = [file for each in bins for file in each.files]
        added = [] if dry_run else [add for one in self._done for add in one.adds]
        vectors = DeletionVectorStats.of(removed)
        return OptimizeMetrics(
            versions=tuple(self._versions),
            num_files_added=len(added),
            num_files_removed=len(removed),
            files_added=FileSizeMetrics.of(added),
            files_removed=FileSizeMetrics.of(removed),
            partitions_optimized=plan.partitions,
            z_order_stats=plan.z_order,
            clustering_stats=plan.clustering,
            preserve_insertion_order=plan.z_order is None and plan.clustering is None,
            num_bins=len(bins),
            num_bins_lost=self._lost,
            num_batches=len(self._versions),
            total_considered_files=plan.considered,
            total_files_skipped=max(0, plan.considered - len(removed)),
            start_time_ms=self._began_ms,
            end_time_ms=clock_of(self._table).now_ms(),
            deletion_vector_stats=vectors if vectors.num_deletion_vectors_removed else None,
            dry_run=dry_run,
        )

    def _executor(self) -> TaskExecutor:
        if self._concurrency is not None:
            return InProcess(self._concurrency)
        return executor_of(self._table)

    def _is_due(self, since: float) -> bool:
        passed = anyio.current_time() - since
        return self._interval is not None and passed >= self._interval.total_seconds()

    async def _commit(self, base: LogState, bins: Sequence[RewrittenBin]) -> None:
        version, kept = await commit_bins(self._table, base, self._request, bins)
        self._lost += len(bins) - len(kept)
        if version is not None:
            self._versions.append(version)
            self._done += kept


def _tagged(planned: PlannedBin, adds: Sequence[AddFile]) -> tuple[AddFile, ...]:
    return tuple(
        replace(
            add,
            tags={**(add.tags or {}), **planned.tags} or None,
            clustering_provider=planned.clustering_provider,
        )
        for add in adds
    )
