"""Staged changes → one version of the table: attempt; on a lost race judge, rebase, attempt again.

The first attempt is made at once, without a look at the log: right after the last commit that this
process knows of. A first loss costs one read, of the commit that won; after further losses there is
a pause with full jitter before the winners are read. All of it ends with a deadline.

A step is an attempt with all that follows from it, and it leaves no doubt: when it has ended, each
change is committed, or refused, or certainly not written. `CommitQueue` runs the steps.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import in_thread
from adelta.commit.coordinator import Committed, Lost, Unknown
from adelta.errors import AdeltaError, CommitConflictError
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.conflict_checker import rebase
from adelta.kernel.transaction.isolation import IsolationLevel, effective_level
from adelta.kernel.transaction.row_tracking import adopt_row_ids
from adelta.log.commit_reader import decode_commit
from adelta.write.attempt import encode_attempt, unknown_outcome
from adelta.write.group_commit import combined
from adelta.write.row_tracking import tracked
from adelta.write.winners import read_winners

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.conflict_checker import Rebase
    from adelta.kernel.transaction.read_set import ReadSet
    from adelta.log.commit_reader import DecodedCommit
    from adelta.log.state import LogState
    from adelta.write.recent_commits import RecentCommit, RecentCommits

__all__ = ["CommitResult", "Submission", "commit_step"]

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.1
_JUDGED_INLINE = 1000  # files whose paths are compared in less time than the loop may be held
_INLINE_FILES = 32  # encoding fewer costs less than a thread's hop


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of staged changes.

    `version` is theirs, or None where a winner had applied them already. `state` is the newest
    state known, `attempts` how many puts it took. `leads` is false where the upkeep that follows
    the commit is another transaction's, of the same group.
    """

    state: LogState
    version: int | None
    attempts: int
    leads: bool = True


class Submission:
    """Changes on their way into the log.

    Attributes:
        staged: the changes; ids of rows that they remove are brought up to date.
        state: the version that they are good for: what came before has been judged.
        outcome: what became of them, as soon as that is settled.
        in_doubt: whether an attempt has been sent off of which no answer has come.
    """

    def __init__(
        self,
        coordinator: CommitCoordinator,
        state: LogState,
        staged: StagedChanges,
        read: ReadSet,
        *,
        level: IsolationLevel,
        engine: str,
        clock: Clock,
        timeout: float,
        group: bool = False,
    ) -> None:
        self.coordinator = coordinator
        self.state = state
        self.staged = staged
        self.read = read
        self.level = effective_level(staged, level)
        self.engine = engine
        self.clock = clock
        self.timeout = timeout
        self.group = group
        self.deadline = anyio.current_time() + timeout
        self.attempts = 0
        self.outcome: CommitResult | Exception | None = None
        self.in_doubt = False
        self._attempt = (0, "")
        self._prepared_for = TableConfiguration(state.protocol, state.metadata)

    @property
    def prepared_for(self) -> TableConfiguration:
        """What the table was when the changes were made."""
        return self._prepared_for

    @property
    def num_actions(self) -> int:
        """How many file actions there are."""
        return len(self.staged.adds) + self.staged.removes.num_rows + len(self.staged.cdc)

    def result(self) -> CommitResult:
        """What became of the changes, where that is settled.

        Raises:
            AdeltaError: they were not committed, or nobody knows.
        """
        if isinstance(self.outcome, CommitResult):
            return self.outcome
        assert self.outcome is not None
        raise self.outcome

    def begin_attempt(self, version: int, transaction_id: str) -> None:
        """Take note that a put is sent off, in which the changes bear `transaction_id`."""
        self.attempts += 1
        self.in_doubt = True
        self._attempt = (version, transaction_id)

    def settle(self, outcome: CommitResult | Exception) -> None:
        """Take note of what became of the changes."""
        self.outcome = outcome
        self.in_doubt = False

    def settle_doubt(self, cause: Exception | None = None) -> None:
        """Settle as unknown, where an attempt was torn before its answer came."""
        if self.in_doubt and self.outcome is None:
            version, transaction_id = self._attempt
            self.settle(unknown_outcome(self.state.root, version, transaction_id, cause))

    async def follow(self, commits: Sequence[RecentCommit]) -> None:
        """Judge commits that came first, and go behind them; or settle, where that cannot be.

        Many files are looked at in a worker thread.
        """
        if not commits:
            return
        files = self.num_actions + sum(commit.decoded.batch.num_files for commit in commits)
        try:
            if files > _JUDGED_INLINE:
                judged, self.staged = await in_thread(self._judged, commits)
            else:
                judged, self.staged = self._judged(commits)
        except AdeltaError as error:
            self.settle(error)
            return
        self.state = self.state.advance([commit.decoded for commit in commits])
        if judged.own_version is not None or judged.applied_at is not None:
            self.settle(CommitResult(self.state, judged.own_version, self.attempts))

    def _judged(self, commits: Sequence[RecentCommit]) -> tuple[Rebase, StagedChanges]:
        winners = [commit.winning for commit in commits]
        judged = rebase(
            self.staged,
            self.read,
            winners,
            protocol=self.state.protocol,
            metadata=self.state.metadata,
            level=self.level,
            root=self.state.root,
        )
        return judged, adopt_row_ids(self.staged, winners, self.state.root)

    def check_deadline(self) -> None:
        """Settle with an error where there is no time for another attempt."""
        if self.outcome is None and anyio.current_time() >= self.deadline:
            self.settle(
                CommitConflictError(
                    f"{self.state.root}: {self.attempts} attempts within {self.timeout:g} s lost "
                    f"to other writers, the last one to version {self.state.version}; nothing was "
                    "committed, try again when there are fewer of them",
                    winning_version=self.state.version,
                )
            )


async def commit_step(group: Sequence[Submission], recent: RecentCommits) -> None:
    """Attempt to commit a group, all of which are good for the same version, as one.

    Afterwards each has its outcome, or has certainly not been committed and is good for a later
    version.

    Raises:
        CommitConflictError: the winners have been cleaned up.
        StorageError: the store refused; certainly nothing was committed.
    """
    leader = group[0]
    version = leader.state.version + 1
    staged = combined([each.staged for each in group])
    data = await _encoded(leader, staged)
    for each in group:
        each.begin_attempt(version, staged.transaction_id)
    try:
        outcome = await leader.coordinator.commit(version, data, staged.transaction_id)
    except AdeltaError:  # a coordinator that raises has not committed
        for each in group:
            each.in_doubt = False
        raise
    if isinstance(outcome, Committed):
        decode = partial(decode_commit, version, data, outcome.timestamp_ms)
        mine = decode() if _is_small(group) else await in_thread(decode)
        _settle(group, mine)
        recent.note(leader.state, [mine])
        return
    for each in group:
        if isinstance(outcome, Unknown):
            each.settle_doubt(outcome.cause)
        each.in_doubt = False
    if isinstance(outcome, Lost):
        await _meet_winners(group, staged.transaction_id, recent)


async def _encoded(leader: Submission, staged: StagedChanges) -> bytes:
    state = leader.state
    placed = await tracked(state, staged, prepared_for=leader.prepared_for)
    encode = partial(
        encode_attempt,
        state,
        placed,
        leader.read,
        leader.level,
        leader.engine,
        leader.clock.now_ms(),
    )
    small = len(staged.adds) + staged.removes.num_rows + len(staged.cdc) < _INLINE_FILES
    return encode() if small else await in_thread(encode)


def _is_small(group: Sequence[Submission]) -> bool:
    return sum(each.num_actions for each in group) < _INLINE_FILES


def _settle(group: Sequence[Submission], commit: DecodedCommit) -> None:
    for each in group:
        state = each.state.advance([commit])
        each.settle(CommitResult(state, commit.version, each.attempts, leads=each is group[0]))


async def _meet_winners(
    group: Sequence[Submission], transaction_id: str, recent: RecentCommits
) -> None:
    leader = group[0]
    if leader.attempts > 1:  # before the winners are read, not after: what was read grows stale
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(leader.attempts, 16))
        await anyio.sleep(random.uniform(0, longest))
    winners = recent.note(leader.state, await read_winners(leader.state, lost=leader.attempts))
    for at, winner in enumerate(winners):
        info = winner.decoded.commit_info
        if len(group) > 1 and info is not None and info.txn_id == transaction_id:
            for each in group:
                await each.follow(winners[:at])
            _settle([each for each in group if each.outcome is None], winner.decoded)
            return
    for each in group:
        await each.follow(winners)
        each.check_deadline()
