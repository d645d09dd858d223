"""Staged changes → one version of the table: attempt; on a lost race judge, rebase, attempt again.

The first attempt is made at once, without a look at the log: right after the last commit that this
process knows of. A first loss costs one read, of the commit that won; after further losses there is
a pause with full jitter before the winners are read. All of it ends with a deadline.

A step is an attempt with all that follows from it, and it leaves no doubt: when it has ended, each
change is committed, or refused, or certainly not written. `CommitQueue` runs the steps. The changes
of several tables take a step together: all are committed by it, or none.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio

from adelta._chance import uniform
from adelta._concurrency import together
from adelta._secrets import without_secrets
from adelta._telemetry import add, span
from adelta.commit.choose import owned_of
from adelta.commit.coordinator import Committed, Lost, Unknown, WithoutBase
from adelta.commit.together import Attempt, claim_together
from adelta.errors import AdeltaError, OutOfMemoryError, RootNotAllowedError, StorageError
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.log.ownership import FollowsOwner
from adelta.write.attempt import prepare_attempt
from adelta.write.group_commit import combined
from adelta.write.winners import read_winners

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.commit.coordinator import CommitOutcome
    from adelta.commit.ratification import Withheld
    from adelta.kernel.commit import Commit
    from adelta.write.recent_commits import RecentCommits
    from adelta.write.submission import Submission

__all__ = ["commit_step", "commit_step_over"]

_log = logging.getLogger("adelta.transaction")

_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.1


class _Part:
    """What one table gets by a step: changes of a group, all good for the same version, as one."""

    def __init__(self, group: Sequence[Submission], recent: RecentCommits) -> None:
        self.group = group
        self.leader = group[0]
        self._recent = recent
        self._staged = combined([each.staged for each in group])
        self.version = self.leader.next_version

    @property
    def transaction_id(self) -> str:
        """The `txnId` of the commit."""
        return self._staged.transaction_id

    async def prepare(self) -> None:
        """Make the commit, for whoever decides after the commits that it goes behind.

        Raises:
            InvalidOptionError: it holds what the log cannot.
            InvalidTableError: what it builds on is damaged.
            StorageError: what an owner before has ratified could not be published.
        """
        state = self.leader.state
        if state is not None and isinstance(self.leader.store, FollowsOwner):
            await self.leader.store.keep_to(state.configuration, state.version)
        self.data, self._prepared = await prepare_attempt(self.leader, self._staged)

    async def has_base(self) -> bool:
        """Whether what all of it stands on is there.

        Raises:
            StorageError: the store refused or failed.
        """
        if self.version:
            return await self.leader.has_base()
        return all([await each.has_base() for each in self.group])

    def begin(self) -> None:
        """Take note that the commit is sent off."""
        for each in self.group:
            each.begin_attempt(self.version, self.transaction_id)

    def end(self) -> None:
        """Take note that the commit is certainly not written."""
        for each in self.group:
            each.end_attempt()

    async def settle(self, outcome: CommitOutcome | Withheld) -> None:
        """Give every member its outcome, or have it go behind those who came first.

        Raises:
            CommitConflictError: the winners have been cleaned up.
            StorageError: the store refused or failed.
        """
        if isinstance(outcome, Unknown):
            for each in self.group:
                each.settle_doubt(outcome.cause)
        elif isinstance(outcome, WithoutBase):
            gone = await _is_gone(self.leader)
            self.end()
            for each in self.group:
                each.settle_without_base(table_is_gone=gone)
        elif isinstance(outcome, Lost):
            await _rebase_on_winners(self.group, self.transaction_id, self._recent)
        elif isinstance(outcome, Committed):
            mine = replace(self._prepared, modified_ms=outcome.timestamp_ms)
            for each in self.group:
                each.settle_by(mine, len(self.data), does_upkeep=each is self.leader)
            self._recent.note(self.leader.result().state.metadata.id, [mine])
        else:
            for each in self.group:
                each.check_deadline()


async def commit_step(group: Sequence[Submission], recent: RecentCommits) -> None:
    """Attempt to commit a group, all of which are good for the same version, as one.

    Afterwards each has its outcome, or has certainly not been committed and is good for a later
    version. Where it raises, a member that is `in_doubt` may have been committed, no other one.

    Raises:
        CommitConflictError: the winners have been cleaned up.
        StorageError: the store refused or failed.
    """
    part = _Part(group, recent)
    await part.prepare()
    leader = part.leader

    async def claim() -> Sequence[CommitOutcome]:
        attempt = part.version, part.data, part.transaction_id, part.has_base
        return [await leader.coordinator.commit(*attempt)]

    await _take_step([part], claim)


async def commit_step_over(
    members: Sequence[tuple[Submission, RecentCommits]],
) -> None:
    """Attempt to commit changes of several tables of one owner: all of them, or none.

    Afterwards each has its outcome, or is good for the version that is next by what is known. Where
    it raises, a member that is `in_doubt` may have been committed, no other one.

    Raises:
        CommitConflictError: the winners of one have been cleaned up.
        InvalidOptionError: they cannot be committed together.
        StorageError: a store or the owner refused or failed.
    """
    parts = [_Part([submission], recent) for submission, recent in members]
    for part in parts:
        await part.prepare()

    async def claim() -> Sequence[CommitOutcome | Withheld]:
        return await claim_together(
            [
                Attempt(
                    part.leader.root,
                    part.leader.coordinator,
                    part.version,
                    part.data,
                    part.transaction_id,
                )
                for part in parts
            ]
        )

    await _take_step(parts, claim)


async def _take_step(
    parts: Sequence[_Part],
    claim: Callable[[], Awaitable[Sequence[CommitOutcome | Withheld]]],
) -> None:
    for part in parts:
        part.begin()
    leader = parts[0].leader
    try:
        with span(
            "adelta.commit_attempt",
            table=leader.store.uri,
            version=parts[0].version,
            transactions=sum(len(part.group) for part in parts),
        ) as told:
            outcomes = await claim()
            said = type(outcomes[0]).__name__
            told.tell(outcome=said)
        add("adelta.commit.attempts", 1, outcome=said)
        _log_attempt(parts, outcomes)
    except (OutOfMemoryError, RootNotAllowedError):  # at whatever moment: it stays in doubt
        raise
    except AdeltaError:  # a coordinator that raises has not committed
        for part in parts:
            part.end()
        raise
    if len(parts) == 1:
        await parts[0].settle(outcomes[0])
        return
    if not any(isinstance(outcome, Unknown | Committed) for outcome in outcomes):
        for part in parts:
            part.end()  # none is written, whatever the winners of one bring
    await together(*map(partial, (part.settle for part in parts), outcomes))


async def _is_gone(leader: Submission) -> bool:
    """Whether there is no table any more."""
    with suppress(StorageError):
        async for page in leader.store.list(LOG_DIR):
            if page:
                return False
        return True
    return False


async def _bears(leader: Submission, transaction_id: str) -> bool:
    """Whether the commit in the place of the leader's, which cannot be read, may be the leader's.

    Raises:
        StorageError: the store refused or failed.
    """
    return transaction_id.encode() in await leader.store.get(commit_path(leader.next_version))


def _log_attempt(parts: Sequence[_Part], outcomes: Sequence[CommitOutcome | Withheld]) -> None:
    if _log.isEnabledFor(logging.DEBUG):
        for part, outcome in zip(parts, outcomes, strict=True):
            _log.debug(
                "%s: version %d is %s in attempt %d, of %d transactions and %d bytes",
                without_secrets(part.leader.store.uri),
                part.version,
                type(outcome).__name__,
                part.leader.attempts,
                len(part.group),
                len(part.data),
            )


def _log_winners(leader: Submission, winners: Sequence[Commit]) -> None:
    if _log.isEnabledFor(logging.DEBUG):
        for winner in winners:
            _log.debug(
                "%s: version %d is another commit's, of operation %.100r; lost in attempt %d",
                without_secrets(leader.store.uri),
                winner.version,
                winner.info.operation,
                leader.attempts,
            )


async def _rebase_on_winners(
    group: Sequence[Submission], transaction_id: str, recent: RecentCommits
) -> None:
    leader = group[0]
    owned = owned_of(leader.store)
    in_turn = owned is not None and owned.client.queues_losers
    if leader.attempts > 1 and not in_turn:  # before the winners are read, which grow stale
        longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(leader.attempts, 16))
        await anyio.sleep(uniform(0, longest))
    if leader.state is None:
        await leader.follow_creation()
        leader.check_deadline()
        return
    winners = await read_winners(leader.state, lost=leader.attempts)
    # Not before the commit that is in the place of ours is seen to be another's: it may be ours.
    if winners.commits or not await _bears(leader, transaction_id):
        for each in group:
            each.end_attempt()
    commits = winners.commits
    own = next((at for at, c in enumerate(commits) if c.info.txn_id == transaction_id), None)
    if own is None and commits and not winners.follow_base:
        for each in group:
            each.settle_without_base()
        return
    if own is None and winners.damage is not None:
        raise winners.damage
    recent.note(leader.state.metadata.id, commits)
    _log_winners(leader, commits[:own])
    add("adelta.commit.lost_races", len(commits[:own]))
    if len(group) > 1 and own is not None:
        for each in group:
            await each.follow(commits[:own])
        for each in group:
            if each.outcome is None:
                each.settle_by(commits[own], 0, does_upkeep=each is leader)
        return
    for each in group:
        await each.follow(commits)
        each.check_deadline()
