"""Rows taken out of files: by whole files, by deletion vectors, or by files that are written anew.

The table decides: with `delta.enableDeletionVectors` files stay and get a vector, else what is left
of them is copied. A file all of whose rows go is removed in either case.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.table_features import DELETION_VECTORS
from adelta.operations.rewrite import RewriteTask, rewrite
from adelta.write.deletion_vectors import RowRemoval, write_deletion_vectors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.matching import MatchedFile
    from adelta.progress import OnProgress
    from adelta.storage.roots import StoreRoots
    from adelta.write.transaction_core import TransactionCore

__all__ = ["concerned", "removals_of", "remove_rows"]


async def remove_rows(
    tx: TransactionCore,
    roots: StoreRoots,
    configuration: TableConfiguration,
    matched: Sequence[MatchedFile],
    *,
    on_progress: OnProgress | None = None,
) -> int:
    """Stage the removal of the rows in `matched`; how many other rows were copied for that.

    Where that takes files written anew, the change data feed is told of every row that goes.

    Raises:
        InvariantViolationError: the table only takes appends.
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
        StorageError: the store refused or failed.
    """
    if configuration.uses(DELETION_VECTORS):
        await tx.stage_rewrite(vectors=await write_deletion_vectors(roots, removals_of(matched)))
        return 0
    anew = any(not each.is_whole for each in matched)
    tells = configuration.change_data_feed_enabled and anew
    task = RewriteTask(configuration, tuple(matched), tells=tells, options=tx.data_files)
    done = await rewrite(tx.executor, roots, task, on_progress=on_progress)
    await tx.stage_rewrite(adds=done.adds, cdc=done.cdc, removed=[each.file for each in matched])
    return done.num_copied_rows


def concerned(matched: Sequence[MatchedFile], configuration: TableConfiguration) -> dict[str, int]:
    """What a change of these rows would do to files, as the history would say it."""
    whole = sum(each.is_whole for each in matched)
    if configuration.uses(DELETION_VECTORS):
        had = sum(each.file.deletion_vector is not None for each in matched)
        return {
            "numRemovedFiles": whole,
            "numDeletionVectorsAdded": len(matched) - whole,
            "numDeletionVectorsRemoved": had,
        }
    copied = sum(each.num_live - len(each.rows) for each in matched)
    return {"numRemovedFiles": len(matched), "numCopiedRows": copied}


def removals_of(matched: Sequence[MatchedFile]) -> Iterator[RowRemoval]:
    """What takes the matched rows out of their files."""
    return (RowRemoval(each.file, each.rows, each.num_rows) for each in matched)
