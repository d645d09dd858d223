"""Row tracking for a table that exists: ids for the rows that are there, in several commits.

First the table comes to support the feature, so that from then on every commit gives ids to the
rows that it adds. Then the files that are without are added again, with ids, a batch a commit, as
the transaction that does so finds them. Only a table all of whose files have ids may be set to
`delta.enableRowTracking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta.errors import ConcurrentAppendError, ConcurrentDeleteReadError, InvalidPropertyError
from adelta.kernel.file_set import FileSet
from adelta.kernel.table_features import ROW_TRACKING, ROW_TRACKING_BACKFILL
from adelta.kernel.table_properties import FEATURE_PREFIX
from adelta.operations.evolve import stage_metadata
from adelta.operations.row_counts import counted
from adelta.table import begin, latest_state, opened, roots_of
from adelta.write.transaction_request import TransactionRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.table import Table, TableOrAddress

__all__ = ["backfill_row_ids"]

_FILES_A_COMMIT = 100_000


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
        most, batch = files_a_commit, 0
        while (found := await _backfill_some(handle, most, batch)) != 0:
            if found is None:  # others have come first: fewer files take less time
                most = max(1, most // 2)
            else:
                batch += 1


def _check_not_suspended(configuration: TableConfiguration, uri: str) -> None:
    if configuration.supports(ROW_TRACKING) and not configuration.uses(ROW_TRACKING):
        raise InvalidPropertyError(
            f"{uri} has suspended row tracking (delta.rowTrackingSuspended), so that no row gets "
            "an id; unset that property first"
        )


async def _backfill_some(table: Table, most: int, batch: int) -> int | None:
    """Give ids to the rows of so many files at the most; of how many, None where others were first.

    `batch` counts the commits of a backfill, as Delta Spark does in the history.
    """
    request = TransactionRequest(
        operation=ROW_TRACKING_BACKFILL, parameters={"batchId": str(batch)}, from_latest=True
    )
    try:
        async with begin(table, request) as tx:
            _check_not_suspended(tx.configuration, table.uri)
            live = await tx.live_files()
            bare = await in_thread(_without_ids, live, most)
            tx.staging.add_again(await counted(roots_of(table), bare))
    except (ConcurrentAppendError, ConcurrentDeleteReadError):
        return None  # a file of the batch is gone, or has its ids: see what is left
    return len(bare)


def _without_ids(live: FileSet, most: int) -> list[AddFile]:
    bare = pc.is_null(live.table.column("base_row_id"))
    return list(FileSet(live.table.filter(bare).slice(0, most)).rows())
