"""Rewritten bins become a version; what others have taken files from meanwhile is left out.

The transaction is based on the version that the bins were planned on, so that every commit since
is judged. Where one of them conflicts, the bins whose files are still live, under the deletion
vectors that they had, are tried again without the others.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import CommitConflictError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.file_id import FileIds
from adelta.operations.rearrange.metrics import commit_metrics
from adelta.table import begin, latest_state
from adelta.write.discarding import discard_data_files
from adelta.write.transaction_life import Stage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.log.state import LogState
    from adelta.operations.rearrange.bins import Bin
    from adelta.storage.object_store import ObjectStore
    from adelta.table import Table
    from adelta.write.transaction_core import TransactionCore
    from adelta.write.transaction_request import TransactionRequest

__all__ = ["RewrittenBin", "commit_bins", "discard_bins"]


@dataclass(frozen=True, slots=True)
class RewrittenBin:
    """A bin, and the files that are to take its place."""

    bin: Bin
    adds: tuple[AddFile, ...]


async def discard_bins(store: ObjectStore, bins: Sequence[RewrittenBin]) -> None:
    """Delete the files of bins that no commit has added."""
    await discard_data_files(store, [decode_path(add.path) for one in bins for add in one.adds])


async def commit_bins(
    table: Table, base: LogState, request: TransactionRequest, bins: Sequence[RewrittenBin]
) -> tuple[int | None, list[RewrittenBin]]:
    """The version that the bins have become, and those of them that are in it.

    `base` is the version that they were planned on. None of them is in the log where there is no
    version, and the files of those that are not are deleted.

    Raises:
        CommitConflictError: another commit came first and the work has to be done again.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        StorageError: the store refused; nothing was committed.
    """
    left = list(bins)
    tx = None
    try:
        while left:
            tx = begin(table, request)
            try:
                async with tx:
                    tx.take_base(base)
                    await in_thread(_stage, tx, left)
                return tx.version, left
            except CommitConflictError:
                live, lost = await _sorted_out(table, left)
                if not lost:
                    raise
                left = live
                await discard_bins(table.store, lost)
    except BaseException:
        if tx is None or tx.stage not in (Stage.COMMITTED, Stage.UNKNOWN):
            await discard_bins(table.store, left)
        raise
    return None, []


def _stage(tx: TransactionCore, bins: Sequence[RewrittenBin]) -> None:
    """Stage files that stay this operation's, not the transaction's, where there is a conflict."""
    staging = tx.staging
    adds = [replace(add, data_change=False) for one in bins for add in one.adds]
    removed = [file for one in bins for file in one.bin.files]
    staging.add(adds)
    staging.remove(removed, tx.now_ms, data_change=False)
    staging.read_live |= FileIds.of(removed, tx.root)  # they were live at the base
    staging.metrics.clear()
    staging.metrics.update(commit_metrics(adds, (one.bin for one in bins)))


async def _sorted_out(
    table: Table, bins: Sequence[RewrittenBin]
) -> tuple[list[RewrittenBin], list[RewrittenBin]]:
    """The bins all of whose files are live, and the others."""
    state = await latest_state(table)
    files = (await state.files_matching(columns=("path", "deletion_vector"))).table
    ids = await in_thread(FileIds.of_table, files, table.store.uri)

    def sort_out() -> tuple[list[RewrittenBin], list[RewrittenBin]]:
        live: list[RewrittenBin] = []
        lost: list[RewrittenBin] = []
        for one in bins:
            gone = FileIds.of(one.bin.files, table.store.uri).without(ids)
            (lost if len(gone) else live).append(one)
        return live, lost

    return await in_thread(sort_out)
