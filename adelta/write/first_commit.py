"""Version 0: the commit that makes a table, and never comes after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._concurrency import in_thread, to_the_end
from adelta.commit.choose import coordinator_of
from adelta.commit.coordinator import Lost, Unknown
from adelta.errors import InvalidUseError, TableAlreadyExistsError
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path
from adelta.kernel.log_segment import LogSegment
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.assemble import assemble, make_commit_info
from adelta.kernel.transaction.isolation import IsolationLevel
from adelta.kernel.transaction.row_tracking import track_rows
from adelta.log.commit_reader import decode_commit
from adelta.log.state import LogState
from adelta.write.attempt import unknown_outcome
from adelta.write.commit_loop import CommitResult

if TYPE_CHECKING:
    from adelta._clock import Clock
    from adelta.kernel.staged import StagedChanges
    from adelta.storage.object_store import ObjectStore

__all__ = ["commit_new_table"]


async def commit_new_table(
    store: ObjectStore, staged: StagedChanges, *, engine: str, clock: Clock
) -> CommitResult:
    """Commit `staged`, which holds a protocol and metadata, as version 0 of a new table.

    Raises:
        TableAlreadyExistsError: another writer has created the table.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        InvalidOptionError: the store cannot exclude other writers, or a catalog is to manage the
            table and the store has no client for it, or the reverse.
        StorageError: the store refused; certainly nothing was committed.
    """
    if staged.protocol is None or staged.metadata is None:
        raise InvalidUseError(f"{store.uri}: a table begins with a protocol and metadata")
    now = clock.now_ms()
    configuration = TableConfiguration(staged.protocol, staged.metadata)
    placed = await in_thread(track_rows, staged, configuration, {}, 0)
    info = make_commit_info(
        placed,
        read_version=None,
        level=IsolationLevel.SERIALIZABLE,
        is_blind_append=True,
        timestamp_ms=now,
        engine=engine,
        in_commit_timestamp_ms=now if configuration.in_commit_timestamps_enabled else None,
    )
    data = await in_thread(lambda: encode_commit(assemble(placed, info)))
    claim = coordinator_of(store, configuration).commit(0, data, staged.transaction_id)
    outcome = await to_the_end(claim)  # torn, it would have an unknown outcome
    if isinstance(outcome, Unknown):
        raise unknown_outcome(store.uri, outcome.version, staged.transaction_id, outcome.cause)
    if isinstance(outcome, Lost):
        raise TableAlreadyExistsError(
            f"{store.uri}: another writer has created the table meanwhile; open it instead"
        )
    mine = await in_thread(decode_commit, 0, data, outcome.timestamp_ms)
    segment = LogSegment(0, None, (LogPath(commit_path(0), LogFileKind.COMMIT, 0, len(data)),))
    state = LogState(
        store,
        segment,
        staged.protocol,
        staged.metadata,
        timestamp_ms=outcome.timestamp_ms if info.in_commit_timestamp is None else now,
        batches=(mine.batch,),
    )
    return CommitResult(state, 0, 1)
