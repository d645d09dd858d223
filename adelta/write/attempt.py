"""One attempt at a version: its bytes, and the error where nobody knows what became of it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import CommitOutcomeUnknownError
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import with_enablement
from adelta.kernel.transaction.assemble import assemble, in_commit_timestamp, make_commit_info

if TYPE_CHECKING:
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.isolation import IsolationLevel
    from adelta.kernel.transaction.read_set import ReadSet
    from adelta.log.state import LogState

__all__ = ["encode_attempt", "unknown_outcome"]


def encode_attempt(
    state: LogState,
    staged: StagedChanges,
    read: ReadSet,
    level: IsolationLevel,
    engine: str,
    now_ms: int,
) -> bytes:
    """The commit file of `staged` as the version after `state`."""
    metadata = staged.metadata or state.metadata
    configuration = TableConfiguration(staged.protocol or state.protocol, metadata)
    stamp = (
        in_commit_timestamp(now_ms, state.timestamp_ms)
        if configuration.in_commit_timestamps_enabled
        else None
    )
    if staged.metadata is not None and stamp is not None:
        before, after = state.metadata.configuration, staged.metadata.configuration
        enabled = with_enablement(before, after, state.version + 1, stamp)
        staged = replace(staged, metadata=staged.metadata.with_configuration(enabled))
    info = make_commit_info(
        staged,
        read_version=state.version,
        level=level,
        is_blind_append=read.makes_blind(staged),
        timestamp_ms=now_ms,
        engine=engine,
        in_commit_timestamp_ms=stamp,
    )
    return encode_commit(assemble(staged, info))


def unknown_outcome(
    uri: str, version: int, transaction_id: str, cause: Exception | None = None
) -> CommitOutcomeUnknownError:
    """The error that says that nobody knows what became of an attempt."""
    why = f" ({cause})" if cause is not None else ""
    error = CommitOutcomeUnknownError(
        f"{uri}: nobody can say whether version {version} was committed{why}; look in its "
        f"commitInfo for txnId {transaction_id} before you write the same again",
        version=version,
        transaction_id=transaction_id,
    )
    error.__cause__ = cause
    return error
