"""Submission: staged changes on their way into the log, and what has become of them.

A submission is based on a version of the table, and means to be the one after it. One without a
base means to be version 0. Whoever has lost a race judges the winners, and is based on the last of
them from then on.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import anyio

from adelta._clock import monotonic
from adelta._concurrency import in_thread, map_concurrent
from adelta._dataclasses import dataclass
from adelta.commit.choose import coordinator_of
from adelta.commit.coordinator import LOOK_HOLDS
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    CommitNotDurableError,
    CommitOutcomeUnknownError,
    ConcurrentTransactionError,
    ObjectNotFoundError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.conflict_checker import already_applied, rebase
from adelta.kernel.transaction.creation import rebase_creation
from adelta.kernel.transaction.isolation import effective_level
from adelta.log.commit_reader import read_commit
from adelta.log.created import created_state
from adelta.log.load import load_state
from adelta.log.refresh import is_in_log
from adelta.write.base_age import BaseAge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.commit import Commit
    from adelta.kernel.staged import StagedChanges
    from adelta.kernel.transaction.conflict_checker import Rebase
    from adelta.kernel.transaction.isolation import IsolationLevel
    from adelta.kernel.transaction.read_set import ReadSet
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

__all__ = ["CommitResult", "Submission", "settle_rest"]

_LOOKED_AT = 100  # objects, one by one; of more a listing has a thousand in each page
_JUDGED_INLINE = 1000  # files whose paths are compared in less time than the loop may be held


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What became of staged changes that were not refused.

    `version` is theirs, or None where a winner had applied them already. `state` is the newest
    state known. `does_upkeep` is false where the upkeep that follows the commit is that of another
    transaction of the same group.
    """

    state: LogState
    version: int | None
    does_upkeep: bool = True


class Submission:
    """Changes on their way into the log.

    Attributes:
        store: the store of the table's root.
        staged: the changes; ids of rows that they remove are brought up to date.
        read: what they rest on.
        state: the version that they are good for: what came before has been judged. None where
            they are to make the table.
        age: since when `state` may not have been the latest one.
        written: objects that were written for them where they were to make the table: a table that
            was made and dropped since then took them with it.
        joins: whether changes that were to make the table are good for one that another writer has
            made meanwhile, if it is the same.
        outcome: what became of them, as soon as that is settled.
        attempts: how many puts have been sent off.
        sent_at: when the last one was, by `monotonic`.
        in_doubt: whether a put has been sent off of which no answer has come.
        lost_base: whether the log has been found not to have the base.
    """

    def __init__(
        self,
        store: ObjectStore,
        state: LogState | None,
        staged: StagedChanges,
        read: ReadSet,
        *,
        coordinator: CommitCoordinator | None = None,
        level: IsolationLevel,
        engine: str,
        clock: Clock,
        timeout: float,
        age: BaseAge | None = None,
        max_retries: int | None = None,
        group: bool = False,
        written: Sequence[str] = (),
        joins: bool = False,
    ) -> None:
        self.store = store
        self.state = state
        self.staged = staged
        self.read = read
        self._given_coordinator = coordinator
        self.level = effective_level(staged, read, level)
        self.engine = engine
        self.clock = clock
        self.timeout = timeout
        self.age = age or BaseAge.new(clock)
        self.max_retries = max_retries
        self.group = group
        self.written = written
        self.joins = joins
        self.deadline = anyio.current_time() + timeout
        self.attempts = 0
        self.sent_at = -math.inf
        self.outcome: CommitResult | Exception | None = None
        self.in_doubt = False
        self.lost_base = False
        self._attempt = (0, "")
        self._prepared_for = _configuration(state, staged)

    @property
    def root(self) -> str:
        """The table's address."""
        return self.store.uri

    @property
    def coordinator(self) -> CommitCoordinator:
        """Who claims the version that the changes are good to become.

        Raises:
            InvalidOptionError: nobody does, who is known here.
        """
        if self._given_coordinator is not None:
            return self._given_coordinator
        staged = self.staged
        before = None if self.state is None else self.state.configuration
        after = None
        if staged.protocol is not None or staged.metadata is not None:
            after = _after(before, staged)
        return coordinator_of(self.store, before, after)

    @property
    def next_version(self) -> int:
        """The version that the changes are good to become."""
        return 0 if self.state is None else self.state.version + 1

    def is_of_same_table(self, other: Submission) -> bool:
        """Whether both are based on versions of one table, and not of one that came after it."""
        mine, theirs = self.state, other.state
        return mine is not None and theirs is not None and mine.metadata.id == theirs.metadata.id

    @property
    def prepared_for(self) -> TableConfiguration:
        """What the table was when the changes were made."""
        return self._prepared_for

    @property
    def may_stand(self) -> bool:
        """Whether a put of these changes stands in the log, or may: what it names must stay."""
        if isinstance(self.outcome, CommitResult):
            return self.outcome.version is not None
        return self.in_doubt or isinstance(self.outcome, CommitOutcomeUnknownError)

    def result(self) -> CommitResult:
        """What became of the changes, where that is settled.

        Raises:
            AdeltaError: they were not committed, or nobody knows.
        """
        if isinstance(self.outcome, CommitResult):
            return self.outcome
        assert self.outcome is not None
        raise self.outcome

    # ----------------------------------------------------------------------------------- attempts

    def begin_attempt(self, version: int, transaction_id: str) -> None:
        """Take note that a put is sent off, in which the changes bear `transaction_id`."""
        self.attempts += 1
        self.sent_at = monotonic()
        self.in_doubt = True
        self._attempt = (version, transaction_id)

    def end_attempt(self) -> None:
        """Take note that the put is certain not to have taken place."""
        self.in_doubt = False

    def settle(self, outcome: CommitResult | Exception) -> None:
        """Take note of what became of the changes."""
        self.outcome = outcome
        self.in_doubt = False
        if isinstance(outcome, CommitConflictError):
            outcome.table = self.root

    def settle_doubt(self, cause: Exception | None = None) -> None:
        """Settle as unknown, where an attempt was torn before its answer came."""
        if self.in_doubt and self.outcome is None:
            version, transaction_id = self._attempt
            self.settle(_unknown_outcome(self.root, version, transaction_id, cause))

    def settle_by(self, commit: Commit, num_bytes: int, *, does_upkeep: bool) -> None:
        """Settle: `commit`, whose file has so many bytes, holds the changes."""
        if self.state is None:
            state = created_state(self.store, commit, num_bytes)
        else:
            state = self.state.advance([commit])
        self.settle(CommitResult(state, commit.version, does_upkeep=does_upkeep))

    def check_deadline(self) -> None:
        """Settle with an error where there is no time, or no leave, for another attempt."""
        if self.outcome is not None:
            return
        allowed = self.max_retries is None or self.attempts <= self.max_retries
        if not allowed or anyio.current_time() >= self.deadline:
            limit = f"within {self.timeout:g} s" if allowed else f"({self.max_retries} retries)"
            self.settle(
                CommitConflictError(
                    f"{self.root}: {self.attempts} attempts {limit} lost to "
                    f"other writers, the last one to version {self.next_version - 1}; nothing was "
                    "committed, try again when there are fewer of them",
                    winning_version=self.next_version - 1,
                )
            )

    # ------------------------------------------------------------------------------------ rebases

    async def has_base(self) -> bool:
        """Whether the version is in the log that the changes are based on.

        Of changes that were to make the table, also whether the objects that were written for them
        are there. A drop deletes those before the log, and all of it takes longer than
        `LOOK_HOLDS`.

        Raises:
            StorageError: the store refused or failed.
        """
        if self.state is not None and not await is_in_log(self.state, to_follow=True):
            return False
        if not self.written or self.age.then.passed_ms < 1000 * LOOK_HOLDS:
            return True
        there: set[str] = set()
        if len(self.written) > _LOOKED_AT:
            there = {meta.path async for page in self.store.list() for meta in page}
        unseen = [path for path in self.written if path not in there]
        found = await map_concurrent(self._is_there, unseen, limit=self.store.concurrency)
        return all(found)

    async def _is_there(self, path: str) -> bool:
        try:
            await self.store.head(path)
        except ObjectNotFoundError:
            return False
        return True

    def settle_without_base(self, *, table_is_gone: bool = False) -> None:
        """Settle: what the changes are based on is not there."""
        self.lost_base = True
        if self.written:
            self.settle(
                CommitConflictError(
                    f"{self.root}: objects that were written for this table are gone: another one "
                    "was made and dropped at its place meanwhile. Nothing was committed; repeat "
                    "the work"
                )
            )
            return
        if table_is_gone:
            self.settle(
                TableNotFoundError(
                    f"{self.root}: there is no table any more: it was dropped since this "
                    "transaction began; nothing was committed"
                )
            )
            return
        self.settle(
            CommitConflictError(
                f"{self.root}: the log no longer has version {self.next_version - 1}, on which "
                "this transaction is based: it has been cleaned up, or the table was dropped or "
                "made anew. Nothing was committed; read the table again and repeat the work"
            )
        )

    async def follow(self, commits: Sequence[Commit]) -> None:
        """Judge commits that came first, and go behind them; or settle, where that cannot be.

        Even where it settles, `state` is the newest one that is known. Many files are looked at in
        a worker thread.
        """
        if not commits or self.state is None:
            return
        files = self.staged.num_files + sum(commit.actions.num_files for commit in commits)
        try:
            if files > _JUDGED_INLINE:
                judged = await in_thread(self._judged, commits)
            else:
                judged = self._judged(commits)
        except AdeltaError as error:
            self.state = self.state.advance(commits)
            self.settle(error)
            return
        self.staged, self.read = judged.staged, judged.read
        self.state = self.state.advance(commits)
        if judged.own_version is not None or judged.applied_at is not None:
            self.settle(CommitResult(self.state, judged.own_version))

    def _judged(self, commits: Sequence[Commit]) -> Rebase:
        assert self.state is not None
        return rebase(
            self.staged,
            self.read,
            commits,
            protocol=self.state.protocol,
            metadata=self.state.metadata,
            level=self.level,
            root=self.root,
        )

    async def follow_creation(self) -> None:
        """Go behind the commits of whoever has created the table; or settle, where that cannot be.

        Raises:
            StorageError: the store refused or failed; while they are `in_doubt`, the first version
                has not been read.
        """
        exists = TableAlreadyExistsError(
            f"{self.root}: another writer has created the table meanwhile; open it instead"
        )
        try:
            if await self._is_first():
                made = await load_state(self.store, version=0)
                self.settle(CommitResult(made, 0))
                return
            self.end_attempt()
            state = await load_state(self.store)
        except TableNotFoundError:  # its catalog does not know it yet
            self.settle(exists)
            return
        try:
            if already_applied(self.staged.set_transactions, await state.set_transactions()):
                self.state = state
                self.settle(CommitResult(state, None))
                return
            if not self.joins or not self.read.is_empty:
                raise exists
            theirs = state.configuration
            domains = await state.domain_metadata()
            self.staged = rebase_creation(self.staged, theirs, domains, self.root)
            coordinator_of(self.store, _configuration(state, self.staged))
            self._prepared_for = _configuration(state, self.staged)
        except AdeltaError as error:
            self.settle(error)
        self.state = state

    async def _is_first(self) -> bool:
        """Whether version 0 is ours: a put whose answer was lost may well have won."""
        try:
            first = await read_commit(self.store, 0)
        except ObjectNotFoundError:  # cleaned up already
            return False
        return first.info.txn_id == self.staged.transaction_id


def settle_rest(submissions: Sequence[Submission]) -> None:
    """Settle what goes together, of several tables, by those of it that are settled.

    Where winners have done the work of some, that of all is done. Where one has failed, nothing of
    the others was committed, and they are left as they are.
    """
    done = [one for one in submissions if isinstance(one.outcome, CommitResult)]
    rest = [one for one in submissions if one not in done]
    if not done or not rest:
        return
    for one in rest:
        if any(each.may_stand for each in done):  # what no owner may say
            version, transaction_id = one.next_version, one.staged.transaction_id
            one.settle(_unknown_outcome(one.root, version, transaction_id))
        elif one.staged.set_transactions:
            one.settle(
                ConcurrentTransactionError(
                    f"{one.root}: the application transactions of {done[0].root} have been "
                    "recorded by another writer, and not those of this table, which go together "
                    "with them; nothing was committed: commit the work table by table",
                    retryable=False,
                )
            )
        elif one.state is not None:
            one.settle(CommitResult(one.state, None))


def _after(before: TableConfiguration | None, staged: StagedChanges) -> TableConfiguration:
    """The table as it is by changes of its protocol or metadata."""
    protocol = staged.protocol or (None if before is None else before.protocol)
    metadata = staged.metadata or (None if before is None else before.metadata)
    assert protocol is not None
    assert metadata is not None
    return TableConfiguration(protocol, metadata)


def _configuration(state: LogState | None, staged: StagedChanges) -> TableConfiguration:
    """The table that changes are made for, before it is any other by them."""
    if state is not None:
        return state.configuration
    assert staged.protocol is not None
    assert staged.metadata is not None
    return TableConfiguration(staged.protocol, staged.metadata)


def _unknown_outcome(
    uri: str, version: int, transaction_id: str, cause: Exception | None = None
) -> CommitOutcomeUnknownError:
    """The error that says that nobody knows what became of an attempt."""
    if isinstance(cause, CommitNotDurableError):
        durable = CommitNotDurableError(
            f"{uri}: version {version} is in the log, and the store failed to make it outlive a "
            f"crash ({cause}); see to the disk, and look for txnId {transaction_id} in its "
            "commitInfo before you write the same again",
            version=version,
            transaction_id=transaction_id,
        )
        durable.__cause__ = cause
        return durable
    why = f" ({cause})" if cause is not None else ""
    error = CommitOutcomeUnknownError(
        f"{uri}: nobody can say whether version {version} was committed{why}; look in its "
        f"commitInfo for txnId {transaction_id} before you write the same again",
        version=version,
        transaction_id=transaction_id,
    )
    error.__cause__ = cause
    return error
