"""One attempt at a version: what it says, and its bytes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, InvalidTableError
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.commit import decode_commit
from adelta.kernel.commit_attempt import CommitAttempt
from adelta.kernel.table_features import maintained_domains, prepared
from adelta.kernel.transaction.assemble import assemble, make_commit_info
from adelta.kernel.transaction.precommit import check_staged

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.write.submission import Submission

__all__ = ["check_changes", "prepare_attempt"]

_INLINE_FILES = 32  # checking or encoding fewer costs less than a thread's hop


async def check_changes(
    staged: StagedChanges, configuration: TableConfiguration, root: str
) -> None:
    """Refuse changes of the table at `root` that would damage its log.

    Raises: as `check_staged`.
    """
    columns, counted = configuration.physical_partition_columns, configuration.counts_rows
    check = partial(check_staged, staged, columns, root=root, counted=counted)
    if staged.num_files < _INLINE_FILES:
        check()
    else:
        await in_thread(check)


async def prepare_attempt(leader: Submission, staged: StagedChanges) -> tuple[bytes, Commit]:
    """The commit file of `staged` as the version that `leader` is good for, and what it says.

    Raises:
        InvalidOptionError: a file does not say how many rows it has, or a value is of a kind that
            the log cannot hold.
        InvalidTableError: the table's high-water mark, or the checkpoint that holds it, is damaged.
    """
    attempt = _attempt(leader, staged)
    if leader.state is not None and maintained_domains(attempt.protocol):
        attempt = replace(attempt, domains=await leader.state.domain_metadata())
    encode = partial(_encoded, attempt)
    return encode() if staged.num_files < _INLINE_FILES else await in_thread(encode)


def _attempt(leader: Submission, staged: StagedChanges) -> CommitAttempt:
    state = leader.state
    protocol = staged.protocol or (None if state is None else state.protocol)
    metadata = staged.metadata or (None if state is None else state.metadata)
    assert protocol is not None
    assert metadata is not None
    info = make_commit_info(
        staged,
        read_version=None if state is None else state.version,
        level=leader.level,
        is_blind_append=state is None or leader.read.makes_blind(staged),
        timestamp_ms=leader.clock.now_ms(),
        engine=leader.engine,
    )
    return CommitAttempt(
        version=leader.next_version,
        staged=staged,
        info=info,
        protocol=protocol,
        metadata=metadata,
        before=None if state is None else state.metadata,
        written_for=leader.prepared_for.metadata,
        previous_ms=None if state is None else state.timestamp_ms,
    )


def _encoded(attempt: CommitAttempt) -> tuple[bytes, Commit]:
    attempt = prepared(attempt)
    data = encode_commit(assemble(attempt.staged, attempt.info))
    return data, _read_again(attempt.staged, attempt.version, data)


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
