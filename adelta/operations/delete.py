"""DELETE: rows out of a table, by a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from adelta._arguments import checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.data_skipping.exact import exact_row_counts
from adelta.kernel.table_features import DELETION_VECTORS
from adelta.operations.matching import decided_by_partition, find_matches
from adelta.operations.rearrange.auto_compaction import auto_compact
from adelta.operations.removal import concerned, remove_rows
from adelta.operations.row_metrics import RowMetrics, Stopwatch, measured, report
from adelta.table import begin, opened, roots_of
from adelta.write.conditions import condition_of, said_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.expressions.dnf import Where
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.file_set import FileSet
    from adelta.progress import OnProgress
    from adelta.table import Table, TableOrAddress
    from adelta.write.transaction_core import TransactionCore

__all__ = ["DeleteMetrics", "IsolationName", "delete"]

IsolationName = Literal["Serializable", "WriteSerializable"]
"""Whether rows that others append meanwhile, and that the condition may be true for, conflict."""


@dataclass(frozen=True, slots=True)
class DeleteMetrics(RowMetrics):
    """What a delete did.

    `num_deleted_rows` is None where whole files went and did not say how many rows they had.
    """

    num_deleted_rows: int | None = 0


@checked
async def delete(
    table: TableOrAddress,
    where: Where | None = None,
    *,
    isolation: IsolationName | None = None,
    dry_run: bool = False,
    user_metadata: str | None = None,
    on_progress: OnProgress | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> DeleteMetrics:
    """Delete the rows for which `where` is true; all rows where there is no condition.

    Files without such rows are not touched, and only those whose partition and statistics leave it
    open are read. Where the partition decides, nothing is read at all. A file that keeps some rows
    gets a deletion vector, where `delta.enableDeletionVectors` is set, or is written anew.

    Rows that others add meanwhile and that `where` may be true for are a conflict; with the
    isolation ``WriteSerializable`` they are not where they were appended blindly. None is the
    table's isolation level. With `dry_run` nothing is written, and the metrics tell which rows and
    files it would be about. `on_progress` is told of the files that are looked through, and then of
    those that are written.

    Raises:
        TableNotFoundError: there is no table.
        InvalidExpressionError: the condition cannot be parsed or computed, or does not fit.
        InvariantViolationError: the table only takes appends.
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    condition = await condition_of(where, now=moment())
    async with opened(table, storage_options) as handle:
        request = TransactionRequest(
            operation="DELETE",
            parameters={"predicate": await said_of(condition) or ["true"]},
            user_metadata=user_metadata,
            isolation=isolation,
        )
        tx = begin(handle, request)
        async with tx:
            done = await _stage(handle, tx, condition, on_progress, dry_run=dry_run)
        await auto_compact(handle, tx)
        if tx.version is None and not dry_run:
            return DeleteMetrics()
        rows = done.get("numDeletedRows") if done else 0  # of a delete that is done already
        return DeleteMetrics(**measured(tx.version, done), num_deleted_rows=rows)


async def _stage(
    table: Table,
    tx: TransactionCore,
    where: Node | None,
    on_progress: OnProgress | None = None,
    *,
    dry_run: bool = False,
) -> dict[str, int]:
    watch, roots = Stopwatch(), roots_of(table)
    files = await tx.read_set(where)
    if await tx.is_applied():
        return {}
    configuration = tx.configuration
    configuration.check_removable(table.uri)
    copied, planned = 0, {}
    num_vectors_removed: int | None = None  # None: the count of the staged files
    if where is None or await in_thread(decided_by_partition, where, configuration):
        deleted = await in_thread(_live_rows, files)
        scanned = watch.lap_ms()
        num_vectors_removed = files.num_files - files.table["deletion_vector"].null_count
        if dry_run:
            planned = {"numRemovedFiles": files.num_files}
        elif files.num_files:
            tx.remove(files)
    else:
        candidates = await in_thread(lambda: list(files.rows()))
        matched = await find_matches(
            tx.executor, roots, configuration, candidates, where, on_progress=on_progress
        )
        deleted = sum(len(each.rows) for each in matched)
        scanned = watch.lap_ms()
        if not configuration.uses(DELETION_VECTORS):
            num_vectors_removed = sum(each.file.deletion_vector is not None for each in matched)
        if dry_run:
            planned = concerned(matched, configuration)
        elif matched:
            copied = await remove_rows(tx, roots, configuration, matched, on_progress=on_progress)
    rewriting = watch.lap_ms()
    return (
        report(
            tx,
            numDeletedRows=deleted,
            numCopiedRows=copied,
            numDeletionVectorsRemoved=num_vectors_removed,
            executionTimeMs=watch.total_ms(),
            scanTimeMs=scanned,
            rewriteTimeMs=rewriting,
        )
        | planned
    )


def _live_rows(files: FileSet) -> int | None:
    """How many rows files have together, if all of them say so."""
    counts = exact_row_counts(files.table, None, ())
    return None if counts is None or len(counts[1]) else counts[0]
