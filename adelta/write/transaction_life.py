"""The life of a transaction: begun on a version, filled, committed or given up.

Whatever writes data files deletes them itself where it fails; what it hands over, by `own`, is the
transaction's. That is deleted here alone, and only in states in which no put of the commit can have
taken place: before the first attempt, or after it is certain that all of them have failed. Where
nobody can say whether a commit happened, `CommitOutcomeUnknownError`, everything is left as it is.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK, Since
from adelta._concurrency import in_thread
from adelta.commit.choose import conf_for_owner, coordinator_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.file_id import FileIds
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import with_properties
from adelta.kernel.transaction.conflict_checker import already_applied, partly_applied
from adelta.kernel.transaction.isolation import isolation_level
from adelta.kernel.transaction.kept_files import check_kept_files
from adelta.write.attempt import check_changes
from adelta.write.base_age import BaseAge
from adelta.write.commit_queue import CommitQueue
from adelta.write.commit_time import as_committed
from adelta.write.discarding import discard_data_files
from adelta.write.spec import engine_info
from adelta.write.staging import Staging
from adelta.write.submission import Submission
from adelta.write.task_executor import IN_PROCESS
from adelta.write.upkeep import after_commit

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from types import TracebackType
    from typing import NoReturn, Self

    import pyarrow as pa

    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.transaction.creation import NewTable
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore
    from adelta.write.queue_of_table import QueueOfTable
    from adelta.write.submission import CommitResult
    from adelta.write.task_executor import TaskExecutor
    from adelta.write.transaction_request import StateSource, TransactionRequest

__all__ = ["Stage", "TransactionLife"]


class Stage(Enum):
    """How far a transaction has got, as a sentence about it goes on."""

    NEW = "has not begun: use it in a `with` block, in asynchronous code in `async with`"
    BEGINNING = "is beginning"
    OPEN = "is open"
    COMMITTING = "is being committed"
    COMMITTED = "has been committed: begin another one"
    SKIPPED = "was skipped, since its work had been done before: begin another one"
    ABORTED = "was given up: begin another one"
    UNKNOWN = "ended with an unknown outcome: read the table to learn what became of it"


class TransactionLife:
    """A transaction from its beginning to its end, whatever it gathers.

    Used as an asynchronous context manager: the end of the block commits, an error inside gives up.
    With `creates` the version is the first one of a new table; `joins` says whether the changes are
    then good for a table of the same kind that another writer makes meanwhile. `executor` carries
    out the tasks of the operation.
    """

    def __init__(
        self,
        source: StateSource,
        request: TransactionRequest,
        *,
        creates: NewTable | None = None,
        joins: bool = False,
        coordinator: CommitCoordinator | None = None,
        queue: QueueOfTable | None = None,
        clock: Clock = SYSTEM_CLOCK,
        executor: TaskExecutor | None = None,
    ) -> None:
        self._source = source
        self._request = request
        self._creates = creates
        self._joins = joins
        self._given_coordinator = coordinator
        self._queue_of_table = queue
        self._own_queue = CommitQueue()
        self._clock = clock
        self.executor = executor or IN_PROCESS
        self._stage = Stage.NEW
        self._verb: str | None = None
        self._failed: str | None = None  # a verb whose work is lacking
        self._base: LogState | None = None
        self._submission: Submission | None = None
        self._began = BaseAge(Since(clock, 0, float("inf")))
        self._written: dict[str, None] = {}  # data files of our own, deleted if we give up
        self._version: int | None = None
        isolation_level(request.isolation)
        self._staging = Staging(source.store.uri, request, clock.now_ms())
        if creates is not None:
            self._staging.protocol = creates.protocol
            self._staging.metadata = creates.metadata
            self._staging.domains = {domain.domain: domain for domain in creates.domains}

    def __repr__(self) -> str:
        where = f" at version {self._version}" if self._version is not None else ""
        of, stage = self._staging, self._stage.name.lower()
        return f"<Transaction {of.transaction_id} ({of.operation}) {stage}{where}>"

    # ---------------------------------------------------------------------------------- what it is

    @property
    def store(self) -> ObjectStore:
        """The store of the table's root."""
        return self._source.store

    @property
    def root(self) -> str:
        """The table's address."""
        return self._source.store.uri

    @property
    def now_ms(self) -> int:
        """The time, in milliseconds since the Unix epoch."""
        return self._clock.now_ms()

    @property
    def stage(self) -> Stage:
        """How far it has got."""
        return self._stage

    @property
    def version(self) -> int | None:
        """The version that it became; None before the commit, or where nothing was committed."""
        return self._version

    @property
    def skipped(self) -> bool:
        """Whether nothing was committed because the table shows the work as done."""
        return self._stage is Stage.SKIPPED

    @property
    def added_files(self) -> Sequence[AddFile]:
        """The files that it adds, or has added."""
        return self._staging.adds

    @property
    def metrics(self) -> dict[str, int]:
        """`operationMetrics` so far."""
        return self._staging.metrics

    @property
    def base(self) -> LogState:
        """The version that the changes are made against.

        Raises:
            InvalidUseError: the transaction has not begun, or makes the table.
        """
        if self._base is None:
            raise InvalidUseError(f"this transaction {self._stage.value}")
        return self._base

    @property
    def configuration(self) -> TableConfiguration:
        """The table that the changes are made for: as it was read, or as staged.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        protocol, metadata = self._staging.protocol, self._staging.metadata
        if protocol is None or metadata is None:
            protocol, metadata = protocol or self.base.protocol, metadata or self.base.metadata
        return TableConfiguration(protocol, metadata)

    @property
    def metadata(self) -> Metadata:
        """The table's metadata that the changes are made for.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self.configuration.metadata

    @property
    def protocol(self) -> Protocol:
        """The table's protocol that the changes are made for.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self.configuration.protocol

    @property
    def staging(self) -> Staging:
        """Where changes are gathered.

        Raises:
            InvalidUseError: the transaction is not open.
        """
        self.check_open("staging")
        return self._staging

    # ---------------------------------------------------------------------------- while it is open

    @contextmanager
    def verb(self, name: str, *, writes: bool = False) -> Iterator[Staging]:
        """One verb of the user's: no other one may begin before it has ended.

        Where one fails that `writes` rows, the work is not whole any more: the transaction commits
        nothing, whoever catches the error.

        Raises:
            InvalidUseError: the transaction is not open, or ends before the verb does; another verb
                is under way, or one that writes has failed.
        """
        self.check_open(name)
        if self._verb is not None:
            raise InvalidUseError(
                f"{name}() is not possible while {self._verb}() is under way: the verbs of one "
                "transaction are called one after the other"
            )
        self._check_whole(name)
        self._verb = name
        try:
            yield self._staging
        except BaseException:
            if writes:
                self._failed = name
            raise
        finally:
            self._verb = None
        self.check_open(name)

    def _check_whole(self, verb: str) -> None:
        if self._failed is not None:
            raise InvalidUseError(
                f"{verb}() is not possible: {self._failed}() has failed in this transaction, which "
                "commits nothing any more; begin another one"
            )

    def check_open(self, verb: str) -> None:
        """Refuse a verb of a transaction that is not open.

        Raises:
            InvalidUseError: it is not.
        """
        if self._stage is not Stage.OPEN:
            raise InvalidUseError(f"{verb}() is not possible: this transaction {self._stage.value}")

    async def is_applied(self) -> bool:
        """Whether the table shows that the work of the application transactions has been done.

        Raises:
            ConcurrentTransactionError: it shows that of some of them.
        """
        wanted = tuple(self._staging.set_transactions.values())
        if not wanted or self._base is None:
            return False
        recorded = await self._base.set_transactions()
        partly = partly_applied(wanted, recorded)
        if partly is not None:
            raise ConcurrentTransactionError(
                f"{self.root}: the application {partly.app_id!r} has got to version "
                f"{recorded[partly.app_id].version} before, and others of this transaction have "
                "not got to theirs; nothing was committed: commit their work one by one",
                retryable=False,
            )
        return already_applied(wanted, recorded)

    def own_paths(self, paths: Iterable[str]) -> None:
        """Take over objects that were written for this transaction, by their paths in the store."""
        self._written.update(dict.fromkeys(paths))

    def own(self, files: Iterable[AddFile | AddCDCFile]) -> None:
        """Take over files that were written for this transaction: they go if it is given up."""
        self.own_paths(decode_path(file.path) for file in files)

    @property
    def has_looked(self) -> bool:
        """Whether a look at the log that began since this operation did found the base."""
        base, since = self._base, self._began.then.seconds
        return base is not None and not self._request.by_hand and base.newest_since(since)

    async def refuse_late(self, files: Iterable[AddFile]) -> NoReturn:
        """Delete files that were not ready when the transaction ended: it does not hold them.

        Raises:
            InvalidUseError: always.
        """
        await discard_data_files(self.store, [decode_path(file.path) for file in files])
        raise InvalidUseError(
            f"rows were written too late, and deleted again: this transaction {self._stage.value}"
        )

    # ---------------------------------------------------------------------------------- the block

    async def __aenter__(self) -> Self:
        """Begin: take the newest state that is at hand, here or in the table's queue, or the asked.

        Raises:
            InvalidUseError: it has begun before.
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
            InvalidOptionError: the store excludes no other writers, or the isolation is too weak.
        """
        if self._stage is not Stage.NEW:
            raise InvalidUseError(f"this transaction {self._stage.value}")
        self._stage = Stage.BEGINNING
        self._began = BaseAge.new(self._clock)
        try:
            base = None
            if self._creates is None:
                if self._request.at_version is not None:
                    base = await self._source.state_at(self._request.at_version)
                    self._began = self._began.made_at(base.timestamp_ms)
                elif not self._request.from_latest:
                    base = self.queue.newest(await self._source.known_state())
                base = base or await self._source.latest_state()
            self.take_base(base)
        except BaseException:
            await self._give_up(Stage.ABORTED)
            raise
        self._stage = Stage.OPEN
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or give up where the block failed.

        Raises:
            InvalidUseError: a verb is still under way, or one that writes has failed; or the
                transaction ends by another call.
            SchemaMismatchError: files that stay live could not be read under new metadata.
            CommitConflictError: another commit came first and the work has to be done again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; nothing was committed.
        """
        if self._stage is not Stage.OPEN:  # it ends, or has ended, by another call
            if exc_type is None:
                self.check_open("__aexit__")
            return
        try:
            if exc_type is None:
                await self._commit()
        finally:
            await self.conclude()

    def take_base(self, base: LogState | None) -> None:
        """Make the changes against `base`, if it may be written to.

        Raises: as `__aenter__` does.
        """
        self._base = base
        self.configuration.check_writable(self.root)
        isolation_level(self._request.isolation, self.metadata.configuration)
        if base is None:
            coordinator_of(self.store, after=self.configuration)
        else:
            coordinator_of(self.store, self.configuration)

    @property
    def queue(self) -> CommitQueue:
        """Where the table's commits wait for their turn."""
        return self._own_queue if self._queue_of_table is None else self._queue_of_table.get()

    @property
    def is_empty(self) -> bool:
        """Whether nothing has been staged."""
        return not self._staging.touched and self._staging.frozen().is_empty

    @property
    def has_read(self) -> bool:
        """Whether anything was read that others must not change before the commit."""
        return not self._staging.read.is_empty or self._staging.read.has_domains

    @property
    def records_applications(self) -> bool:
        """Whether it records how far applications have got."""
        return bool(self._staging.set_transactions)

    async def _commit(self) -> None:
        self.check_ready()
        if self.is_empty and not self._request.commits_empty:
            self.leave_empty()
            return
        if await self.is_applied():
            self.skip()
            return
        result = await self.queue.commit(await self.submit())
        await self.conclude()
        await self.keep_up(result)

    def check_ready(self) -> None:
        """Refuse to commit work that is not whole.

        Raises:
            InvalidUseError: a verb is still under way, or one that writes has failed.
        """
        if self._verb is not None:
            raise InvalidUseError(
                f"{self._verb}() is still under way at the end of the transaction; nothing was "
                "committed: await it inside the block"
            )
        self._check_whole("commit")
        self._stage = Stage.COMMITTING

    def leave_empty(self) -> None:
        """Take note that there is nothing to do, and nothing done."""
        self._stage = Stage.COMMITTED

    def skip(self) -> None:
        """Take note that the work has been done before. `conclude` follows."""
        self._stage = Stage.SKIPPED

    async def submit(self) -> Submission:
        """The changes, checked, on their way to the queue. `conclude` follows, whatever happens.

        Raises: as `__aexit__` does.
        """
        self._check_change_data()
        await self._complete_owner()
        await self._hold_to_base()
        await self._hold_to_metadata()
        commits = self._request.commits
        staged = await as_committed(self._staging.frozen(), commits, self.store, self.now_ms)
        await check_changes(staged, self.configuration, self.root)
        read = self._staging.read
        if not engine_info.cache_info().currsize:
            await in_thread(engine_info)  # the first call reads files
        self._submission = Submission(
            self.store,
            self._base,
            staged,
            read if self._request.rebase else read.with_whole_log(),
            coordinator=self._given_coordinator,
            level=isolation_level(self._request.isolation, self.metadata.configuration),
            engine=engine_info(),
            clock=self._clock,
            timeout=self._request.timeout,
            age=self._began,
            max_retries=commits.max_retries,
            group=self._request.group_commit,
            written=tuple(self._written) if self._base is None else (),
            joins=self._joins,
        )
        return self._submission

    async def keep_up(self, result: CommitResult) -> None:
        """Do what follows a commit."""
        if result.version is not None and result.does_upkeep:
            sent_at = -math.inf if self._submission is None else self._submission.sent_at
            await after_commit(result.state, self._clock, self._request.commits, sent_at)

    async def _complete_owner(self) -> None:
        """Have a commit owner that comes say what the table is to keep for it."""
        if self._staging.metadata is None:
            return
        base = None if self._base is None else self._base.configuration
        wanted = await conf_for_owner(self.store, base, self.configuration)
        if wanted:
            self._staging.metadata = with_properties(self._staging.metadata, wanted)

    def _check_change_data(self) -> None:
        replaces = self._staging.replaces_by_hand
        if not replaces or not self.configuration.change_data_feed_enabled:
            return
        if any(add.data_change for add in self._staging.adds):
            raise UnsupportedFeatureError(
                f"{self.root} keeps a change data feed, and replacing some of its files by others "
                "needs change data files, which a transaction does not write; use update(), "
                "delete() or write_table(), overwrite the whole table, or set "
                "delta.enableChangeDataFeed to false first"
            )

    async def _hold_to_base(self) -> None:
        """Hold the files that are staged to those that are live at the base.

        Raises:
            ConcurrentDeleteReadError: a file that is removed, read or added again is not live.
            InvalidOptionError: a file that is added is live under another deletion vector.
        """
        staging = self._staging
        unproven = staging.must_be_live
        if len(unproven):
            unproven = await in_thread(unproven.without, staging.read_live)
        existing = staging.existing_new
        if self._base is None or not (len(unproven) or len(existing)):
            return
        live, ids = await self._live(self._base)
        unproven = await in_thread(unproven.without, ids)
        if len(unproven):
            path = unproven.first().path
            raise ConcurrentDeleteReadError(
                f"{self.root}: the file {path!r}, which this transaction removes, has read or adds "
                f"again, is not live at version {self._base.version}, on which it is based: "
                "another commit has removed it or put another deletion vector on it. Read the "
                "files in the transaction that changes them, and do the work again",
                path=path,
            )
        under_other = FileIds.of_table(existing.sharing_data(live, self.root), self.root)
        removed = FileIds.of_table(staging.removes, self.root)
        clash = under_other.without(existing).without(removed)
        if len(clash):
            raise InvalidOptionError(
                f"{self.root}: the file {clash.first().path!r} is live under another deletion "
                "vector, so adding it would bring deleted rows back; remove that one in the same "
                "transaction, or leave the file out"
            )
        staging.settle_existing(ids)

    async def _live(self, base: LogState) -> tuple[pa.Table, FileIds]:
        """The path and the deletion vector of every live file of `base`, and their ids."""
        live = (await base.files_matching(columns=("path", "deletion_vector"))).table
        return live, await in_thread(FileIds.of_table, live, self.root)

    async def _hold_to_metadata(self) -> None:
        """Hold new metadata to the files that stay live at the base.

        Where all of them go, another commit that adds one is a conflict.

        Raises:
            SchemaMismatchError: they could not be read under it.
        """
        staging = self._staging
        if self._base is None or staging.metadata is None or staging.fits_kept:
            return
        try:
            await in_thread(check_kept_files, self._base.configuration, self.configuration)
        except SchemaMismatchError as error:
            _, ids = await self._live(self._base)
            kept = ids.without(FileIds.of_table(self._staging.removes, self.root))
            if len(kept):
                raise SchemaMismatchError(
                    f"{self.root}: the new metadata do not fit files that stay live, such as "
                    f"{kept.first().path!r}: {error}. Replace every file in the same transaction "
                    "(overwrite, or read and remove_files), or leave the columns as they are"
                ) from error
            self._staging.read_whole_table()

    async def conclude(self) -> None:
        """Take note of how it has ended, and see to the data files. It may be called again."""
        submission = self._submission
        if self._stage in (Stage.COMMITTED, Stage.UNKNOWN):
            return
        if submission is None:
            await self._give_up(Stage.SKIPPED if self.skipped else Stage.ABORTED)
            return
        if submission.state is not None:
            self._source.publish_state(submission.state)
        if submission.lost_base:
            self._source.doubt_state()
        if not submission.may_stand:
            done = submission.outcome is not None and not isinstance(submission.outcome, Exception)
            await self._give_up(Stage.SKIPPED if done else Stage.ABORTED)
        elif submission.in_doubt or isinstance(submission.outcome, CommitOutcomeUnknownError):
            self._stage = Stage.UNKNOWN
        else:
            result = submission.result()
            self._source.publish_state(result.state)
            self._version = result.version
            self._stage = Stage.COMMITTED

    async def _give_up(self, stage: Stage) -> None:
        """End without a commit: of the data files nothing can be in the log."""
        assert self._submission is None or not self._submission.may_stand
        self._stage = stage
        self._staging.metrics.clear()
        written, self._written = list(self._written), {}
        if written:
            await discard_data_files(self.store, written)
