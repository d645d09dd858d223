"""REORG TABLE ... APPLY (PURGE): what is gone from the table goes from its files, too."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._arguments import check_count, checked
from adelta._clock import moment
from adelta._concurrency import in_thread
from adelta.operations.rearrange.bins import file_sizes
from adelta.operations.rearrange.partitions import files_in_partitions
from adelta.operations.rearrange.purge import files_to_purge, plan_purge
from adelta.operations.rearrange.run import Rearrangement, look
from adelta.table import opened, roots_of
from adelta.write.conditions import condition_of, said_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta

    from adelta.kernel.expressions.dnf import Where
    from adelta.operations.rearrange.metrics import OptimizeMetrics
    from adelta.progress import OnProgress
    from adelta.table import TableOrAddress

__all__ = ["reorg_purge"]


@checked
async def reorg_purge(
    table: TableOrAddress,
    where: Where | None = None,
    *,
    target_size: int | None = None,
    max_commit_interval: timedelta | None = None,
    concurrency: int | None = None,
    dry_run: bool = False,
    on_progress: OnProgress | None = None,
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> OptimizeMetrics:
    """Write every file anew that holds deleted rows, or columns that were dropped.

    Afterwards no live file holds them; `vacuum` deletes the files that do, when older versions are
    not wanted any more. `where` is a predicate over partition columns that leaves the other
    partitions alone. The footer of every file without a deletion vector is read. All else is as
    `optimize` has it.

    Raises:
        TableNotFoundError: there is no table.
        InvalidOptionError: `where` is not about partitions alone, or a number is not positive.
        InvalidExpressionError: `where` cannot be parsed, or does not fit the schema.
        InvalidUseError: the table's catalog does not permit it.
        CommitConflictError: another commit changed the table's protocol, or how files are to be.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        InvalidTableError: a file is damaged, or not there.
        StorageError: the store refused or failed.
    """
    check_count("target_size", target_size, least=1)
    check_count("concurrency", concurrency, least=1)
    condition = await condition_of(where, now=moment())
    request = TransactionRequest(
        operation="REORG",
        parameters={
            "predicate": await said_of(condition),
            "applyPurge": True,
        },
        user_metadata=user_metadata,
    )
    async with opened(table, storage_options) as handle:
        base = await look(handle)
        configuration = base.configuration
        run = Rearrangement(
            handle,
            request,
            max_commit_interval=max_commit_interval,
            concurrency=concurrency,
            on_progress=on_progress,
        )
        files = await files_in_partitions(handle.uri, condition, base)
        chosen = await files_to_purge(roots_of(handle), configuration, files, on_progress)
        sizes = file_sizes(configuration, target_size)
        plan = await in_thread(plan_purge, configuration, chosen, sizes, considered=files.num_files)
        if not dry_run:
            await run.carry_out(base, plan)
        return run.metrics(plan, dry_run=dry_run)
