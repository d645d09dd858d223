"""Row tracking for a table that exists: ids for the rows that are there, in several commits.

First the table comes to support the feature, so that from then on every commit gives ids to the
rows that it adds. Then the files that are without are added again, with ids, a batch a commit, as
the transaction that does so finds them. Only a table all of whose files have ids may be set to
`delta.enableRowTracking`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._concurrency import in_thread, map_concurrent
from adelta.errors import ConcurrentAppendError, ConcurrentDeleteReadError, InvalidPropertyError
from adelta.kernel.file_set import FileSet
from adelta.kernel.statistics import num_records, with_num_records
from adelta.kernel.table_features import ROW_TRACKING, ROW_TRACKING_BACKFILL
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.operations.evolve import stage_metadata
from adelta.read.opener import open_data_file
from adelta.table import begin, latest_state, opened, roots_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table, TableOrAddress

__all__ = ["backfill_row_ids"]

_FILES_A_COMMIT = 100_000
_FOOTERS_AT_ONCE = 32


async def backfill_row_ids(
    table: TableOrAddress,
    *,
    storage_options: Mapping[str, str] | None = None,
    files_a_commit: int = _FILES_A_COMMIT,
) -> None:
    """Give ids to all rows of a table, which supports row tracking afterwards.

    Nothing is done where rows are tracked already.

    Raises:
        InvalidPropertyError: the table has suspended row tracking.
        InvalidTableError: a file does not say how many rows it has, and is damaged or not there.
        CommitConflictError: another commit changed the table's protocol or metadata meanwhile.
    """
    async with opened(table, storage_options) as handle:
        state = await latest_state(handle)
        configuration = state.configuration
        if configuration.row_id_columns is not None:
            return
        _check_not_suspended(configuration, handle.uri)
        if not configuration.supports(ROW_TRACKING):
            async with begin(handle, TransactionRequest(operation="UPGRADE PROTOCOL")) as tx:
                asked = {FEATURE_PREFIX + ROW_TRACKING.name: "supported"}
                await in_thread(stage_metadata, tx, tx.metadata, asked)
        most = files_a_commit
        while most:
            most = await _backfill_some(handle, most)


def _check_not_suspended(configuration: TableConfiguration, uri: str) -> None:
    if configuration.supports(ROW_TRACKING) and not configuration.uses(ROW_TRACKING):
        raise InvalidPropertyError(
            f"{uri} has suspended row tracking (delta.rowTrackingSuspended), so that no row gets "
            "an id; unset that property first"
        )


async def _backfill_some(table: Table, most: int) -> int:
    """Give ids to the rows of so many files at the most; how many to try next, 0 for none.

    Where others have come first, fewer files are tried, which takes less time.
    """
    request = TransactionRequest(operation=ROW_TRACKING_BACKFILL, from_latest=True)
    try:
        async with begin(table, request) as tx:
            _check_not_suspended(tx.configuration, table.uri)
            live = await tx.live_files()
            bare = await in_thread(_without_ids, live, most)
            count = partial(_counted, roots_of(table))
            tx.staging.add_again(await map_concurrent(count, bare, limit=_FOOTERS_AT_ONCE))
    except (ConcurrentAppendError, ConcurrentDeleteReadError):
        return max(1, most // 2)  # a file of the batch is gone, or has its ids: see what is left
    return most if bare else 0


async def _counted(roots: StoreRoots, file: AddFile) -> AddFile:
    """The file with the number of its rows in its statistics, from its footer where need be."""
    if num_records(file.stats) is not None:
        return file
    rows = (await open_data_file(roots, file)).layout.num_rows
    return replace(file, stats=with_num_records(file.stats, rows))


def _without_ids(live: FileSet, most: int) -> list[AddFile]:
    bare = pc.is_null(live.table.column("base_row_id"))
    return list(FileSet(live.table.filter(bare).slice(0, most)).rows())
