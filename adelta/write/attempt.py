"""One attempt at a version: its bytes, and the error where nobody knows what became of it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import CommitOutcomeUnknownError, InvalidOptionError, InvalidTableError
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.commit import decode_commit
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import ROW_TRACKING, with_enablement
from adelta.kernel.transaction.assemble import assemble, in_commit_timestamp, make_commit_info
from adelta.kernel.transaction.row_tracking import track_rows

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.log.state import LogState
    from adelta.write.submission import Submission

__all__ = ["prepare_attempt", "unknown_outcome"]

_INLINE_FILES = 32  # encoding fewer costs less than a thread's hop


async def prepare_attempt(leader: Submission, staged: StagedChanges) -> tuple[bytes, Commit]:
    """The commit file of `staged` as the version that `leader` is good for, and what it says.

    Raises:
        InvalidOptionError: a file does not say how many rows it has, or a value is of a kind that
            the log cannot hold.
        InvalidTableError: the table's high-water mark, or the checkpoint that holds it, is damaged.
    """
    domains: Mapping[str, DomainMetadata] = {}
    if leader.state is not None and _after(leader.state, staged).supports(ROW_TRACKING):
        domains = await leader.state.domain_metadata()
    encode = partial(_encoded, leader, staged, domains)
    return encode() if staged.num_files < _INLINE_FILES else await in_thread(encode)


def _after(state: LogState | None, staged: StagedChanges) -> TableConfiguration:
    """The table as it is when `staged` has been committed."""
    protocol, metadata = staged.protocol, staged.metadata
    if state is not None:
        protocol, metadata = protocol or state.protocol, metadata or state.metadata
    assert protocol is not None
    assert metadata is not None
    return TableConfiguration(protocol, metadata)


def _encoded(
    leader: Submission, staged: StagedChanges, domains: Mapping[str, DomainMetadata]
) -> tuple[bytes, Commit]:
    state, version, now_ms = leader.state, leader.next_version, leader.clock.now_ms()
    configuration = _after(state, staged)
    preserves = not staged.removes.num_rows or leader.prepared_for.row_id_columns is not None
    staged = track_rows(staged, configuration, domains, version, preserves=preserves)
    stamp = None
    if configuration.in_commit_timestamps_enabled:
        stamp = in_commit_timestamp(now_ms, state.timestamp_ms if state is not None else None)
    if state is not None and staged.metadata is not None and stamp is not None:
        before, after = state.metadata.configuration, staged.metadata.configuration
        enabled = with_enablement(before, after, version, stamp)
        staged = replace(staged, metadata=staged.metadata.with_configuration(enabled))
    info = make_commit_info(
        staged,
        read_version=state.version if state is not None else None,
        level=leader.level,
        is_blind_append=state is None or leader.read.makes_blind(staged),
        timestamp_ms=now_ms,
        engine=leader.engine,
        in_commit_timestamp_ms=stamp,
    )
    data = encode_commit(assemble(staged, info))
    return data, _read_again(staged, version, data)


def _read_again(staged: StagedChanges, version: int, data: bytes) -> Commit:
    """The commit as everybody will read it.

    Raises:
        InvalidOptionError: that is not what was to be written.
    """
    try:
        read = decode_commit(version, data)
    except InvalidTableError as error:
        raise InvalidOptionError(
            f"this commit could not be read again, so it is not written: {error}; pass values of "
            "the types that the documentation names"
        ) from error
    wrong = next(
        (
            name
            for name, wanted, found in (
                ("operation", staged.operation, read.info.operation),
                ("user_metadata", staged.user_metadata, read.info.user_metadata),
                ("protocol", staged.protocol, read.protocol),
                ("metadata", staged.metadata, read.metadata),
                ("application transactions", staged.set_transactions, read.set_transactions),
                ("domain metadata", staged.domains, read.domain_metadata),
            )
            if wanted != found
        ),
        None,
    )
    if wrong is not None:
        raise InvalidOptionError(
            f"the {wrong} of this commit would be read as something else than was passed, so it "
            "is not written; pass values of the types that the documentation names"
        )
    return read


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
