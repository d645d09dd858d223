"""Transaction: stage changes, commit them as one version, on a lost race rebase and try again.

A commit is optimistic. It is put straight onto the version after the one that the transaction was
made against; where another writer has that version, the commits that came between are read and
judged, and the same changes are put after them. Data files are written once, whatever happens. An
append to an open table costs one request beside its data files, and one for upkeep after it. The
transactions of one process on one table commit in turn, without racing each other.

An error inside the ``async with`` block, or a conflict, leaves the table as it was, and the data
files that the transaction wrote are deleted again. Only where nobody can say whether the commit
happened, `CommitOutcomeUnknownError`, is everything left as it is.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import arrow_ready, in_thread
from adelta.commit.choose import coordinator_of
from adelta.errors import (
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidUseError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.data_skipping.prune import Skipping
from adelta.kernel.expressions.dnf import Where, to_predicate
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.table_features import DOMAIN_METADATA, check_change
from adelta.kernel.table_state import TableState
from adelta.kernel.transaction.conflict_checker import already_applied
from adelta.kernel.transaction.isolation import isolation_level
from adelta.kernel.transaction.precommit import check_staged
from adelta.write.batches import record_batches
from adelta.write.commit_loop import CommitResult, Submission
from adelta.write.commit_queue import CommitQueue
from adelta.write.data_files import discard_data_files
from adelta.write.spec import AS_THE_TABLE_SAYS, ENGINE, WriteSpec
from adelta.write.staging import Staging
from adelta.write.upkeep import after_commit
from adelta.write.write_data_files import write_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from adelta._clock import Clock
    from adelta.commit.coordinator import CommitCoordinator
    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol as TableProtocol
    from adelta.kernel.file_set import FileSet
    from adelta.log.state import LogState
    from adelta.write.batches import Data
    from adelta.write.change_data import ChangeDataWriter
    from adelta.write.commit_queue import QueueOfTable
    from adelta.write.spec import DataFileOptions, FileContent

__all__ = ["StateSource", "Transaction", "describe"]

COMMIT_TIMEOUT = 300.0
"""Seconds for which lost races are run again."""


class StateSource(Protocol):
    """Where a transaction finds the state that it is made against, and leaves the one it makes."""

    async def known_state(self) -> LogState:
        """A recent state, without I/O where there is one at hand."""
        ...

    async def latest_state(self) -> LogState:
        """The latest state."""
        ...

    def publish_state(self, state: LogState) -> None:
        """Take note of a newer state."""
        ...


class _Stage(Enum):
    NEW = "has not begun: use it in an `async with` block"
    OPEN = "is open"
    COMMITTING = "is being committed"
    COMMITTED = "has been committed: begin another one"
    SKIPPED = "was skipped, since its work had been done before: begin another one"
    ABORTED = "was given up: begin another one"
    UNKNOWN = "ended with an unknown outcome: read the table to learn what became of it"


class Transaction:
    """Changes that become one version of a table, all or nothing.

    Used as an asynchronous context manager: the end of the block commits, an error inside gives up.

    Example::

        async with table.transaction() as tx:
            await tx.append(data)
            tx.set_transaction("nightly-load", 7)
        print(tx.version)
    """

    def __init__(
        self,
        source: StateSource,
        *,
        operation: str = "WRITE",
        parameters: Mapping[str, object] | None = None,
        user_metadata: str | None = None,
        isolation: str = "Serializable",
        timeout: float = COMMIT_TIMEOUT,
        data_files: DataFileOptions | None = None,
        group_commit: bool = False,
        coordinator: CommitCoordinator | None = None,
        queue: QueueOfTable | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._source = source
        self._staging = Staging(operation, parameters, user_metadata)
        self._level = isolation_level(isolation)
        self._timeout = timeout
        self._data_files = data_files or AS_THE_TABLE_SAYS
        self._group_commit = group_commit
        self._coordinator = coordinator
        self._queue = queue
        self._submission: Submission | None = None
        self._clock = clock
        self._stage = _Stage.NEW
        self._state: LogState | None = None
        self._written: list[str] = []  # data files of our own, deleted if we give up
        self._replaces_by_hand = False
        self._version: int | None = None

    def __repr__(self) -> str:
        where = f" at version {self._version}" if self._version is not None else ""
        of, stage = self._staging, self._stage.name.lower()
        return f"<Transaction {of.transaction_id} ({of.operation}) {stage}{where}>"

    # ------------------------------------------------------------------------------- what it is

    @property
    def version(self) -> int | None:
        """The version that it became; None before the commit, or where nothing was committed."""
        return self._version

    @property
    def skipped(self) -> bool:
        """Whether nothing was committed because `set_transaction` showed the work as done."""
        return self._stage is _Stage.SKIPPED

    @property
    def metrics(self) -> Mapping[str, int]:
        """`operationMetrics` of the commit: files, rows and bytes that it added and removed.

        Empty where nothing was committed.
        """
        return MappingProxyType(self._staging.metrics)

    @property
    def read_version(self) -> int:
        """The version that the changes are made against.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._based_on().version

    @property
    def metadata(self) -> Metadata:
        """The table's metadata that the changes are made for: as it was read, or as staged.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._configuration().metadata

    @property
    def protocol(self) -> TableProtocol:
        """The table's protocol that the changes are made for: as it was read, or as staged.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return self._configuration().protocol

    async def is_applied(self) -> bool:
        """Whether the table shows that the work named by `set_transaction` has been done.

        Raises:
            InvalidUseError: the transaction has not begun.
        """
        return await self._is_applied()

    # ------------------------------------------------------------------------------- staging

    async def read(self, where: Where | None = None) -> list[AddFile]:
        """The live files that may hold rows for which `where` is true, which count as read.

        Another commit that adds such files before this one is a conflict, and so is one that takes
        rows out of the files found. Files that others only rearrange hold the same rows as before,
        and conflict where this transaction removes them too. The first read looks at the latest
        version, as long as nothing has been staged.

        Raises:
            InvalidUseError: the transaction is not open.
            InvalidExpressionError: the predicate cannot be parsed, or does not fit the schema.
            InvalidTableError: a checkpoint is damaged.
        """
        self._check_open("read")
        return list((await self._read(where)).rows())

    async def _read(self, where: Where | None) -> FileSet:
        await self._refresh()
        predicate = to_predicate(where)
        if predicate is None:
            self._staging.read = self._staging.read.with_whole_table()
            return await self._based_on().files()
        now = self._configuration()
        skipping = await in_thread(
            Skipping.of,
            predicate,
            now.schema,
            now.partition_columns,
            mode=now.column_mapping_mode,
        )
        found = await self._based_on().files_matching(skipping)
        paths = frozenset(decode_path(str(p)) for p in found.table.column("path").to_pylist())
        self._staging.read = self._staging.read.with_predicate(skipping).with_files(paths)
        return found

    def mark_read(self, files: Iterable[AddFile]) -> None:
        """Declare that the rows of `files` were read, beside those that `read` has found.

        Another commit that takes rows out of them before this one is a conflict.

        Raises:
            InvalidUseError: the transaction is not open.
        """
        self._check_open("mark_read")
        paths = frozenset(decode_path(file.path) for file in files)
        self._staging.read = self._staging.read.with_files(paths)

    async def append(
        self, data: Data, where: Where | None = None, *, data_change: bool = True
    ) -> list[AddFile]:
        """Write the rows of `data` into new files, and stage these; the files.

        Every row has to satisfy `where`. `data_change` is False where the rows are in the table
        already, in files that this transaction removes, also with `data_change` False. Where
        `set_transaction` has been called and shows the work as done, nothing is written.

        Raises:
            InvalidOptionError: `data` holds no rows.
            SchemaMismatchError: its columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null, or a row violates
                a constraint of the table or `where`.
            InvalidExpressionError: a constraint, or `where`, cannot be evaluated.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        """
        self._check_open("append")
        self._staging.parameters.setdefault("mode", "Append")
        self._staging.added_by_hand = True
        return await self._write(data, where, data_change=data_change)

    async def overwrite(self, data: Data) -> None:
        """Stage the removal of every live file, and the rows of `data` in their place.

        The files are those of the latest version at this moment. A commit that adds or removes
        files after that is a conflict.

        Raises:
            InvalidUseError: something else has been staged before.
            InvalidOptionError: `data` holds no rows.
            SchemaMismatchError: its columns do not fit the table's.
            InvariantViolationError: a column that must not be null holds a null, a row violates a
                constraint of the table, or the table only takes appends.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
        """
        self._check_open("overwrite")
        if self._staging.touched:
            raise InvalidUseError("overwrite() comes first: other files have been staged before it")
        await self._refresh()
        self._configuration().check_removable(self._based_on().root)
        self._staging.parameters.setdefault("mode", "Overwrite")
        if await self._is_applied():
            self._staging.touched = True
            return
        self._staging.remove_all(await self._based_on().files(), self._clock.now_ms())
        await self._write(data)

    def add_files(self, files: Iterable[AddFile]) -> None:
        """Stage data files that are in place already, such as those of `write_data_files`.

        Their statistics and partition values are taken as they are, and the files stay where they
        are if the transaction is given up.

        Raises:
            InvalidUseError: the transaction is not open.
        """
        self._check_open("add_files")
        self._staging.parameters.setdefault("mode", "Append")
        self._staging.added_by_hand = True
        self._staging.place(files)

    def remove_files(self, files: Iterable[AddFile], *, data_change: bool = True) -> None:
        """Stage the removal of live files, which count as read.

        `data_change` is False where the same rows are added again in other files. A table with a
        change data feed takes rows out with the whole file only: removing files and adding others
        in one transaction would need change data files, and is refused.

        Raises:
            InvalidUseError: the transaction is not open.
            InvariantViolationError: the table only takes appends.
        """
        self._check_open("remove_files")
        if data_change:
            self._configuration().check_removable(self._based_on().root)
            self._replaces_by_hand = True
        self._staging.removed_by_hand = True
        self._staging.remove(files, self._clock.now_ms(), data_change=data_change)

    def set_transaction(self, app_id: str, version: int) -> None:
        """Record with the commit that the application `app_id` has got to `version`.

        Where the table shows that it has got there before, or another writer records it first, the
        whole transaction is skipped. So a batch that is written again after a crash is written
        once. Call it before `append`, and a skipped batch is not even written to files.

        Raises:
            InvalidUseError: the transaction is not open, or the application is set already.
        """
        self._check_open("set_transaction")
        if app_id in self._staging.set_transactions:
            raise InvalidUseError(f"the application {app_id!r} is set by this transaction already")
        stamp = SetTransaction(app_id, version, self._clock.now_ms())
        self._staging.set_transactions[app_id] = stamp

    def set_domain_metadata(self, domain: str, configuration: str | None) -> None:
        """Stage the configuration of a domain of the user's own; None removes it.

        Another commit that changes the domain before this one is a conflict.

        Raises:
            InvalidUseError: the transaction is not open.
            InvalidOptionError: the domain's name is empty, or Delta's own.
            UnsupportedFeatureError: the table does not support domain metadata.
        """
        self._check_open("set_domain_metadata")
        if not domain or domain.lower().startswith("delta."):
            raise InvalidOptionError(
                f"the domain {domain!r} cannot be set: names that begin with 'delta.' are Delta's "
                "own; choose another one"
            )
        if not self._configuration().supports(DOMAIN_METADATA):
            raise UnsupportedFeatureError(
                f"{self._based_on().root} does not support domain metadata; add the feature "
                f"{DOMAIN_METADATA.name} first (add_feature)"
            )
        removed = configuration is None
        self._staging.domains[domain] = DomainMetadata(domain, configuration or "", removed)

    def update_metadata(self, metadata: Metadata, protocol: TableProtocol | None = None) -> None:
        """Stage new metadata, and a new protocol where the metadata need one.

        Files that are staged afterwards are written for the new metadata.

        Raises:
            InvalidUseError: the transaction is not open, or files have been staged before.
            UnsupportedFeatureError: the table would need a feature that adelta does not have.
            InvalidPropertyError: a feature of the table does not allow such properties.
            SchemaMismatchError: a feature of the table does not allow such a schema.
            InvalidTableError: ids or physical names of columns are wrong.
        """
        self._check_open("update_metadata")
        if self._staging.touched:
            raise InvalidUseError("update_metadata() comes before the files that it is for")
        before = self._based_on()
        changed = TableConfiguration(protocol or before.protocol, metadata)
        changed.check_writable(before.root)
        check_change(
            TableState(before.protocol, before.metadata), TableState(changed.protocol, metadata)
        )
        self._staging.metadata = metadata
        self._staging.protocol = protocol

    # ------------------------------------------------------------------------------- the block

    async def __aenter__(self) -> Self:
        """Begin: take the state that the table has at hand.

        Raises:
            InvalidUseError: it has begun before.
            TableNotFoundError: there is no table.
            UnsupportedFeatureError: writing needs a table feature that adelta does not have.
            InvalidOptionError: the store cannot exclude other writers.
        """
        if self._stage is not _Stage.NEW:
            raise InvalidUseError(f"this transaction {self._stage.value}")
        self._state = await self._source.known_state()
        await arrow_ready()
        self._configuration().check_writable(self._state.root)
        self._coordinator = self._coordinator or coordinator_of(
            self._state.store, self._configuration()
        )
        self._stage = _Stage.OPEN
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Commit, or give up where the block failed.

        Raises:
            CommitConflictError: another commit came first and the work has to be done again.
            CommitOutcomeUnknownError: the commit may or may not have happened.
            StorageError: the store refused; nothing was committed.
        """
        if exc_type is not None:
            await self._give_up(_Stage.ABORTED)
            return
        try:
            await self._commit()
        except CommitOutcomeUnknownError:
            self._stage = _Stage.UNKNOWN
            raise
        except Exception:
            if self._stage is _Stage.COMMITTING:
                await self._give_up(_Stage.ABORTED)
            raise
        except BaseException:
            if self._stage is _Stage.COMMITTING:
                await self._interrupted()
            raise

    # ------------------------------------------------------------------------------- inside

    def _check_open(self, verb: str) -> None:
        if self._stage is not _Stage.OPEN:
            raise InvalidUseError(f"{verb}() is not possible: this transaction {self._stage.value}")

    def _based_on(self) -> LogState:
        if self._state is None:
            raise InvalidUseError(f"this transaction {self._stage.value}")
        return self._state

    def _configuration(self) -> TableConfiguration:
        state = self._based_on()
        return TableConfiguration(
            self._staging.protocol or state.protocol, self._staging.metadata or state.metadata
        )

    async def _refresh(self) -> None:
        """Take the latest version as the base, unless something hangs on the one at hand."""
        staging = self._staging
        if not staging.touched and staging.metadata is None and staging.read.is_empty:
            self._state = await self._source.latest_state()

    async def _is_applied(self) -> bool:
        wanted = tuple(self._staging.set_transactions.values())
        return bool(wanted) and already_applied(wanted, await self._based_on().set_transactions())

    async def _write(
        self,
        data: Data,
        where: Where | None = None,
        content: FileContent = "rows",
        *,
        data_change: bool = True,
        changes: ChangeDataWriter | None = None,
    ) -> list[AddFile]:
        self._staging.touched = True
        if await self._is_applied():
            return []
        spec = WriteSpec.of(
            self._configuration(),
            files=self._data_files,
            where=to_predicate(where),
            content=content,
        )
        self._staging.parameters.setdefault("partitionBy", list(spec.partition_columns))
        async with aclosing(record_batches(data)) as batches:
            written = await write_rows(self._based_on().store, spec, batches, changes=changes)
        files = list(written.files)
        self._written.extend(decode_path(file.path) for file in files)
        if not data_change:
            files = [replace(file, data_change=False) for file in files]
        self._staging.add(files)
        self._staging.advance_identities(self._configuration().metadata, written.high_water_marks)
        return files

    async def _commit(self) -> None:
        self._stage = _Stage.COMMITTING
        staged = self._staging.frozen()
        if staged.is_empty and not self._staging.touched:
            self._stage = _Stage.COMMITTED  # an empty block: nothing to do, nothing done
            return
        if await self._is_applied():
            await self._give_up(_Stage.SKIPPED)
            return
        self._check_change_data()
        columns = self._configuration().physical_partition_columns
        counted = self._configuration().counts_rows
        await in_thread(check_staged, staged, columns, counted=counted)
        state = self._based_on()
        self._submission = Submission(
            self._coordinator or coordinator_of(state.store, self._configuration()),
            state,
            staged,
            self._staging.read,
            level=self._level,
            engine=ENGINE,
            clock=self._clock,
            timeout=self._timeout,
            group=self._group_commit,
        )
        queue = self._queue.get() if self._queue is not None else CommitQueue()
        result = await queue.commit(self._submission)
        await self._conclude(result)
        if result.version is not None and result.leads:
            await after_commit(result.state, self._clock)

    async def _conclude(self, result: CommitResult) -> None:
        self._source.publish_state(result.state)
        if result.version is None:
            await self._give_up(_Stage.SKIPPED)
            return
        self._version = result.version
        self._stage = _Stage.COMMITTED

    async def _interrupted(self) -> None:
        """Cancelled, or worse: if the commit stands, or may stand, it needs its files."""
        outcome = self._submission.outcome if self._submission is not None else None
        if isinstance(outcome, CommitResult):
            await self._conclude(outcome)
        elif isinstance(outcome, CommitOutcomeUnknownError) or (
            self._submission is not None and self._submission.in_doubt
        ):
            self._stage = _Stage.UNKNOWN
        else:
            await self._give_up(_Stage.ABORTED)

    def _check_change_data(self) -> None:
        if not self._replaces_by_hand or not self._configuration().change_data_feed_enabled:
            return
        if any(add.data_change for add in self._staging.adds):
            raise UnsupportedFeatureError(
                f"{self._based_on().root} keeps a change data feed, and replacing some of its "
                "files by others needs change data files, which this adelta does not write; "
                "overwrite the whole table, or set delta.enableChangeDataFeed to false first"
            )

    async def _give_up(self, stage: _Stage) -> None:
        self._stage = stage
        self._staging.metrics.clear()
        if self._written:
            await discard_data_files(self._based_on().store, self._written)
            self._written = []


def describe(transaction: Transaction, **parameters: object) -> None:
    """Add to what the history will say of how the operation was done."""
    transaction._staging.parameters.update(parameters)
