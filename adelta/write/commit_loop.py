"""Staged changes → one version of the table: attempt; on a lost race judge, rebase, attempt again.

The first attempt is made at once, without a look at the log. A first loss costs one read, of the
commit that won; after further losses there is a pause with full jitter before the winners are read.
All of it ends with a deadline.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread, to_the_end
from adelta.commit.coordinator import Committed, Unknown
from adelta.errors import CommitConflictError
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.conflict_checker import rebase
from adelta.kernel.transaction.isolation import IsolationLevel, effective_level
from adelta.kernel.transaction.row_tracking import adopt_row_ids
from adelta.log.commit_reader import decode_commit
from adelta.write.attempt import encode_attempt, unknown_outcome
from adelta.write.row_tracking import tracked
from adelta.write.winners import read_winners, winning_commit

if TYPE_CHECKING:
    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.read_set import ReadSet
    from adelta.log.state import LogState

__all__ = ["CommitResult", "commit_staged"]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.1
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
    prepared_for = TableConfiguration(state.protocol, state.metadata)
    attempts = 0
    while True:
        attempts += 1
        version = state.version + 1
        placed = await tracked(state, staged, prepared_for=prepared_for)
        encode = partial(encode_attempt, state, placed, read, level, engine, clock.now_ms())
        small = len(staged.adds) + staged.removes.num_rows + len(staged.cdc) < _INLINE_FILES
        data = encode() if small else await in_thread(encode)
        # A put that is cancelled half-way has an outcome that nobody knows.
        outcome = await to_the_end(coordinator.commit(version, data, staged.transaction_id))
        if isinstance(outcome, Committed):
            decode = partial(decode_commit, version, data, outcome.timestamp_ms)
            mine = decode() if small else await in_thread(decode)
            return CommitResult(state.advance([mine]), version, attempts)
        if isinstance(outcome, Unknown):
            raise unknown_outcome(state.root, outcome, staged)
        if attempts > 1:  # before the winners are read, not after: what was read grows stale
            longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts, 16))
            await anyio.sleep(random.uniform(0, longest))
        winners = await read_winners(state, lost=attempts)
        summaries = [winning_commit(commit) for commit in winners]
        judged = rebase(
            staged,
            read,
            summaries,
            protocol=state.protocol,
            metadata=state.metadata,
            level=level,
            root=state.root,
        )
        staged = adopt_row_ids(staged, summaries, state.root)
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
