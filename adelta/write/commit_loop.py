"""Staged changes → one version of the table: attempt; on a lost race judge, rebase, attempt again.

The first attempt is made at once, without a look at the log. A first loss costs one read, of the
commit that won. After further losses there is a pause with full jitter, and then several commits
are asked for at once, since a writer that takes two steps to find the end of the log is always
overtaken by one that takes one; only where these do not reach the end is the log listed. All of it
ends with a deadline.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread, map_concurrent, to_the_end
from adelta.commit.coordinator import Committed, Lost, Unknown
from adelta.commit.filesystem import FilesystemCoordinator
from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidUseError,
    MissingCommitError,
    ObjectNotFoundError,
    TableAlreadyExistsError,
)
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path
from adelta.kernel.log_segment import LogSegment
from adelta.kernel.staged import WinningCommit
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.assemble import assemble, in_commit_timestamp, make_commit_info
from adelta.kernel.transaction.conflict_checker import rebase
from adelta.kernel.transaction.isolation import IsolationLevel, effective_level
from adelta.log.commit_reader import decode_commit, read_commit, read_commits
from adelta.log.listing import list_log
from adelta.log.state import LogState

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.read_set import ReadSet
    from adelta.log.commit_reader import DecodedCommit
    from adelta.storage.object_store import ObjectStore

__all__ = ["CommitResult", "commit_new_table", "commit_staged"]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.1
_AHEAD = 4  # commits that are read at once, whether they are there or not
_INLINE_FILES = 32  # encoding fewer costs less than a thread's hop


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of staged changes.

    `version` is theirs, or None where a winner had applied them already. `state` is the newest
    state known, `attempts` how many puts it took.
    """

    state: LogState
    version: int | None
    attempts: int


async def commit_staged(
    coordinator: CommitCoordinator,
    state: LogState,
    staged: StagedChanges,
    read: ReadSet,
    *,
    level: IsolationLevel,
    engine: str,
    clock: Clock,
    timeout: float,
) -> CommitResult:
    """Commit `staged`, which was made against `state`, and read what `read` says.

    Raises:
        CommitConflictError: another commit came first and the work has to be done again, or every
            attempt within `timeout` seconds lost.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        StorageError: the store refused; certainly nothing was committed.
    """
    deadline = anyio.current_time() + timeout
    level = effective_level(staged, level)
    attempts = 0
    while True:
        attempts += 1
        version = state.version + 1
        encode = partial(_encode, state, staged, read, level, engine, clock.now_ms())
        small = len(staged.adds) + staged.removes.num_rows + len(staged.cdc) < _INLINE_FILES
        data = encode() if small else await in_thread(encode)
        # A put that is cancelled half-way has an outcome that nobody knows.
        outcome = await to_the_end(coordinator.commit(version, data, staged.transaction_id))
        if isinstance(outcome, Committed):
            decode = partial(decode_commit, version, data, outcome.timestamp_ms)
            mine = decode() if small else await in_thread(decode)
            return CommitResult(state.advance([mine]), version, attempts)
        if isinstance(outcome, Unknown):
            raise _unknown(state.root, outcome, staged)
        if attempts > 1:  # before the winners are read, not after: what was read grows stale
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 16))
            await anyio.sleep(random.uniform(0, longest))
        winners = await _read_winners(state, lost=attempts)
        judged = rebase(
            staged,
            read,
            [_winning(commit) for commit in winners],
            protocol=state.protocol,
            metadata=state.metadata,
            level=level,
            root=state.root,
        )
        state = state.advance(winners)
        if judged.own_version is not None or judged.applied_at is not None:
            return CommitResult(state, judged.own_version, attempts)
        if anyio.current_time() >= deadline:
            raise CommitConflictError(
                f"{state.root}: {attempts} attempts within {timeout:g} s lost to other writers, "
                f"the last one to version {state.version}; nothing was committed, try again when "
                "there are fewer of them",
                winning_version=state.version,
            )


def _encode(
    state: LogState,
    staged: StagedChanges,
    read: ReadSet,
    level: IsolationLevel,
    engine: str,
    now_ms: int,
) -> bytes:
    metadata = staged.metadata or state.metadata
    configuration = TableConfiguration(staged.protocol or state.protocol, metadata)
    stamp = (
        in_commit_timestamp(now_ms, state.timestamp_ms)
        if configuration.in_commit_timestamps_enabled
        else None
    )
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


async def _read_winners(state: LogState, *, lost: int) -> list[DecodedCommit]:
    """Commits after `state`: the next one after a first loss, all of them after more."""
    store, first = state.store, state.version + 1

    async def read(version: int) -> DecodedCommit | None:
        try:
            return await read_commit(store, version)
        except ObjectNotFoundError:
            return None

    ahead = 1 if lost == 1 else _AHEAD
    read_ahead = await map_concurrent(read, range(first, first + ahead), limit=ahead)
    winners = list(_until_missing(read_ahead))
    try:
        if not winners:
            raise MissingCommitError(f"the commit of version {first} is not there")
        if len(winners) == _AHEAD:  # there may be many more
            files = await list_log(store, first + _AHEAD)
            versions = [file.version for file in files if file.kind is LogFileKind.COMMIT]
            following = [v for at, v in enumerate(versions, first + _AHEAD) if v == at]
            winners += await read_commits(store, following)
    except MissingCommitError as error:
        raise CommitConflictError(
            f"{state.root}: commits after version {state.version}, on which this transaction is "
            "based, have been cleaned up, so nobody can tell whether they conflict with it; read "
            "the table again and repeat the work"
        ) from error
    return winners


def _until_missing(commits: Iterable[DecodedCommit | None]) -> Iterator[DecodedCommit]:
    for commit in commits:
        if commit is None:
            return
        yield commit


def _winning(commit: DecodedCommit) -> WinningCommit:
    return WinningCommit(
        version=commit.version,
        commit_info=commit.commit_info,
        protocol=commit.protocol,
        metadata=commit.metadata,
        set_transactions=commit.set_transactions,
        domains=commit.domain_metadata,
        adds=commit.adds,
        removes=commit.removes,
    )


async def commit_new_table(
    store: ObjectStore, staged: StagedChanges, *, engine: str, clock: Clock
) -> CommitResult:
    """Commit `staged`, which holds a protocol and metadata, as version 0 of a new table.

    Raises:
        TableAlreadyExistsError: another writer has created the table.
        CommitOutcomeUnknownError: the commit may or may not have happened.
        StorageError: the store refused; certainly nothing was committed.
    """
    if staged.protocol is None or staged.metadata is None:
        raise InvalidUseError(f"{store.uri}: a table begins with a protocol and metadata")
    now = clock.now_ms()
    configuration = TableConfiguration(staged.protocol, staged.metadata)
    info = make_commit_info(
        staged,
        read_version=None,
        level=IsolationLevel.SERIALIZABLE,
        is_blind_append=True,
        timestamp_ms=now,
        engine=engine,
        in_commit_timestamp_ms=now if configuration.in_commit_timestamps_enabled else None,
    )
    data = await in_thread(lambda: encode_commit(assemble(staged, info)))
    claim = FilesystemCoordinator(store).commit(0, data, staged.transaction_id)
    outcome = await to_the_end(claim)  # as above
    if isinstance(outcome, Unknown):
        raise _unknown(store.uri, outcome, staged)
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


def _unknown(uri: str, outcome: Unknown, staged: StagedChanges) -> CommitOutcomeUnknownError:
    error = CommitOutcomeUnknownError(
        f"{uri}: nobody can say whether version {outcome.version} was committed "
        f"({outcome.cause}); look in its commitInfo for txnId {staged.transaction_id} before you "
        "write the same again",
        version=outcome.version,
        transaction_id=staged.transaction_id,
    )
    error.__cause__ = outcome.cause
    return error
