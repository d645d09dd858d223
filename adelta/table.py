"""Table: a handle on the table at an address. It holds connections and the latest known state.

What only writers need is loaded when something is first written.
"""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio

from adelta._arguments import (
    check_long,
    checked,
)
from adelta._async_handle import AsyncHandle
from adelta._clock import SYSTEM_CLOCK, Clock
from adelta._concurrency import map_concurrent, together
from adelta._html import described
from adelta._telemetry import span
from adelta.commit.choose import (
    UNSAFE_SINGLE_WRITER,
    check_catalog_needed,
    check_client,
    open_log_store,
    owned_of,
    with_owner,
)
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.log.latest import LatestState
from adelta.log.refresh import later_state
from adelta.snapshot import Snapshot
from adelta.storage.allowed_roots import ALLOWED_ROOTS, given_roots
from adelta.storage.roots import StoreRoots
from adelta.write.commit_timeout import COMMIT_TIMEOUT
from adelta.write.queue_of_table import QueueOfTable

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractAsyncContextManager
    from datetime import datetime

    from adelta.commit.catalog import CatalogClient
    from adelta.kernel.transaction.creation import NewTable
    from adelta.log.state import LogState
    from adelta.storage.allowed_roots import AllowedRoots
    from adelta.storage.object_store import ObjectStore
    from adelta.storage.stats import StoreStats
    from adelta.transaction import Transaction
    from adelta.write.commit_options import CommitOptions
    from adelta.write.commit_queue import CommitQueue
    from adelta.write.spec import DataFileOptions
    from adelta.write.task_executor import TaskExecutor
    from adelta.write.transaction_core import TransactionCore
    from adelta.write.transaction_request import TransactionRequest

__all__ = ["Table", "TableOrAddress", "open_table"]

_LOOKS = 4  # at the logs, where owners change meanwhile

TableOrAddress: TypeAlias = "Table | str | os.PathLike[str]"
"""What every function that works on a table takes: a handle, or the table's path or URI."""


@checked
def open_table(
    uri: str | os.PathLike[str],
    storage_options: Mapping[str, str] | None = None,
    *,
    unsafe_single_writer: bool = False,
    catalog: CatalogClient | None = None,
    allowed_roots: AllowedRoots | None = None,
) -> Table:
    """A handle on the table at `uri`, a local path or a URI. No I/O until first awaited.

    Use it as an async context manager, or call `aclose`. `storage_options` bear delta-rs's names;
    some of them choose how writers exclude each other. `unsafe_single_writer` lets the table be
    written to in a store that cannot exclude writers: it is for tables that have one writer alone,
    and the commits of a second one may be lost. `catalog` is a catalog's client for this table,
    without which a table that a catalog manages cannot be written, and not be read in full.

    What a table's log names is read below the table's root alone, for anyone who may write to the
    table chose it. `allowed_roots` are the addresses of further roots that it may lead to, such as
    the origin of a shallow clone; a mapping gives each of them the storage options to open it with.
    Those of the table are for its own bucket. `allowed_roots` is a storage option too, as text.

    Raises:
        InvalidOptionError: the scheme or an option is unknown, or an option has a value that is not
            allowed.
    """
    check_client(catalog)
    options = with_single_writer(storage_options, allowed=unsafe_single_writer)
    if allowed_roots is not None:
        options = {**(options or {}), ALLOWED_ROOTS: given_roots(allowed_roots)}
    return Table(str(uri), options, catalog=catalog)


class Table(AsyncHandle):
    """A Delta table. Handles are cheap, belong to one event loop, and may be shared by its tasks.

    A pickled handle is its address, options and catalog's client: it opens anew where it is
    unpickled.
    """

    def __init__(
        self,
        uri: str,
        storage_options: Mapping[str, str] | None = None,
        *,
        catalog: CatalogClient | None = None,
        store: ObjectStore | None = None,
        clock: Clock = SYSTEM_CLOCK,
        executor: TaskExecutor | None = None,
        commits: CommitOptions | None = None,
    ) -> None:
        self._given_uri = uri
        self._options = dict(storage_options or {})
        self._catalog = catalog
        self._roots = StoreRoots(_home(uri, self._options, catalog, store), self._options)
        self._clock = clock
        self._executor = executor
        self._commits = commits
        self._source = LatestState(self._roots.store, clock)
        self._queue = QueueOfTable(
            self._roots.store if store is None or catalog is not None else store,
            self._options if store is None else None,
            catalog,
        )
        self._closed = False
        self._lender: Table | None = None  # whose connections these are, if they are another's

    def __repr__(self) -> str:
        return f"<Table {self.uri}>"

    def _repr_html_(self) -> str:
        """What a notebook shows: the address, and the newest version that has been seen."""
        seen = self._source.at_hand
        return described(
            "Delta table",
            {
                "location": self.uri,
                "newest version seen": "none yet" if seen is None else seen.version,
                "name": None if seen is None else seen.metadata.name,
                "description": None if seen is None else seen.metadata.description,
            },
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """The recipe that opens the same table elsewhere."""
        opened: Callable[..., Table] = Table
        if self._catalog is not None:
            opened = partial(opened, catalog=self._catalog)
        if self._commits is not None:
            opened = partial(opened, commits=self._commits)
        return (opened, (self._given_uri, self._options))

    @property
    def uri(self) -> str:
        """The table's root, as an absolute URI."""
        return self._roots.store.uri

    @property
    def storage_options(self) -> Mapping[str, str]:
        """The options that the table was opened with."""
        return self._options

    @property
    def store(self) -> ObjectStore:
        """The store of the table's root; `store.stats` counts its requests, bytes and retries."""
        return self._roots.store

    @property
    def store_stats(self) -> StoreStats:
        """What has been asked of the table's store so far: requests by kind, bytes, retries."""
        return self._roots.store.stats

    async def snapshot(
        self, *, version: int | None = None, timestamp: datetime | str | None = None
    ) -> Snapshot:
        """The latest snapshot, or the one at `version`, or the latest one at `timestamp`.

        The latest snapshot is made from the one before it by reading only what is new, by a look at
        the log that begins after this was called. Calls at one moment share one look.
        `timestamp` is a datetime or an ISO 8601 text; without a zone it is taken as UTC.

        Raises:
            TableNotFoundError: there is no table.
            VersionNotFoundError: the version does not exist, or is no longer kept.
            TimestampOutOfRangeError: the time is outside the history that is kept.
            InvalidOptionError: the handle has a catalog's client, and no catalog manages the table.
            UnsupportedFeatureError: reading the table needs a feature that adelta lacks.
            InvalidTableError: the log is damaged.
            StorageError: the store, or the table's catalog, refused or failed.
        """
        if version is not None and timestamp is not None:
            raise InvalidOptionError("give a version or a timestamp, not both")
        self._check_open()
        with span("adelta.snapshot", table=self._given_uri) as told:
            found = await self._snapshot(version, timestamp)
            told.tell(version=found.version)
            return found

    async def _snapshot(self, version: int | None, timestamp: datetime | str | None) -> Snapshot:
        if timestamp is not None:
            from adelta.kernel.history import parse_timestamp
            from adelta.log.time_travel import version_at_timestamp

            when_ms = parse_timestamp(timestamp)
            version = await version_at_timestamp(await self._source.latest_state(), when_ms)
        if version is None:
            state = await self._source.latest_state()
        elif check_long("version", version) < 0:
            raise VersionNotFoundError(f"{self.uri}: versions count from 0; {version} is none")
        else:
            state = await self._source.state_at(version)
        if version is None:
            check_catalog_needed(self.store, state.configuration)
        return snapshot_of(self, state)

    def transaction(
        self,
        operation: str = "WRITE",
        *,
        parameters: Mapping[str, object] | None = None,
        user_metadata: str | None = None,
        isolation: str | None = None,
        timeout: float = COMMIT_TIMEOUT,
        data_files: DataFileOptions | None = None,
        group_commit: bool = False,
        rebase: bool = True,
        commit_empty: bool = False,
    ) -> Transaction:
        """Changes to be committed as one version: an asynchronous context manager.

        `operation` is what the table's history will call it, and `parameters` are what it will say
        of how that was done. `isolation` is ``Serializable`` or ``WriteSerializable``; None is what
        the table's `delta.isolationLevel` says, and a weaker one than that is refused. Lost races
        are run again for `timeout` seconds. `data_files` says how the files of `append` and
        `overwrite` are to be; without it that follows the table's properties.

        Without `rebase` any commit that comes first is a conflict, even a harmless one. With
        `commit_empty` the transaction becomes a version even if it changes nothing: one entry of
        the history.

        The transactions of one event loop on one table commit one after the other, without racing.
        With `group_commit` blind appends that wait for their turn together become one version: one
        entry of the log, whose provenance names them all.

        Raises:
            InvalidOptionError: there is no such isolation level, or an argument is of the wrong
                type.
        """
        from adelta.transaction import Transaction
        from adelta.write.transaction_request import asked_of_transaction

        request = asked_of_transaction(
            operation,
            parameters=parameters,
            user_metadata=user_metadata,
            isolation=isolation,
            timeout=timeout,
            data_files=data_files,
            group_commit=group_commit,
            rebase=rebase,
            commit_empty=commit_empty,
        )
        return Transaction(begin(self, request))

    def committing(self, options: CommitOptions) -> Table:
        """The same table by another handle, whose commits are made as `options` say.

        Whatever operation is done with that handle says in the history what they say, and so on. It
        uses the connections of this one, and nothing more than they are; it is of use as long as
        this one is open, and need not be closed.

        Raises:
            InvalidOptionError: `options` are none.
            InvalidUseError: the handle is closed.
        """
        from adelta.write.commit_options import CommitOptions

        if not isinstance(options, CommitOptions):
            raise InvalidOptionError(f"options is {options!r:.100}; pass adelta.CommitOptions(...)")
        made = lent(self)
        made._commits = options
        return made

    def _check_open(self) -> None:
        if self._lender is not None:
            self._lender._check_open()
        if self._closed:
            raise InvalidUseError(f"{self.uri}: this handle is closed; open the table again")

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            if self._lender is not None:
                return
            with anyio.CancelScope(shield=True):  # else a cancelled task would leave connections
                for _ in range(2):  # A stream that was left in the middle begins to close by then:
                    await asyncio.sleep(0)  # a loop that ends before would break its closing off.
                await self._source.aclose()
                await self._roots.aclose()

    async def __aenter__(self) -> Table:
        """The handle itself."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the handle."""
        await self.aclose()


def _home(
    uri: str,
    options: Mapping[str, str],
    catalog: CatalogClient | None,
    store: ObjectStore | None,
) -> ObjectStore:
    """The store of a table, which may be open already."""
    if store is not None:
        return with_owner(store, catalog)
    return open_log_store(uri, options, catalog)


# What adelta's own operations need of a handle, beyond what it shows its users.


def with_single_writer(
    storage_options: Mapping[str, str] | None, *, allowed: bool
) -> Mapping[str, str] | None:
    """The options, in which it is said that the table has one writer where that is `allowed`."""
    return {**(storage_options or {}), UNSAFE_SINGLE_WRITER: "true"} if allowed else storage_options


def begin(
    table: Table,
    request: TransactionRequest,
    *,
    creates: NewTable | None = None,
    joins: bool = False,
    state: LogState | None = None,
) -> TransactionCore:
    """A transaction of adelta's own on a table; with `creates`, on one that is to be made.

    With `state` it is made against that, and looks for no later one.

    Raises:
        InvalidUseError: the handle is closed.
        InvalidOptionError: there is no such isolation level.
    """
    table._check_open()
    from adelta.write.transaction_core import TransactionCore
    from adelta.write.transaction_request import StateOfMoment

    return TransactionCore(
        table._source if state is None else StateOfMoment(table._source, state),
        request.with_commits(table._commits),
        creates=creates,
        joins=joins,
        queue=table._queue,
        clock=table._clock,
        executor=table._executor,
    )


def data_files_of(table: Table) -> DataFileOptions:
    """How operations on the table write data files where they are not told."""
    from adelta.write.spec import AS_THE_TABLE_SAYS

    return AS_THE_TABLE_SAYS if table._commits is None else table._commits.data_files


def opened(
    table: TableOrAddress, storage_options: Mapping[str, str] | None = None
) -> AbstractAsyncContextManager[Table]:
    """A handle on the table, which is closed at the end of the block if it was opened here."""
    return nullcontext(table) if isinstance(table, Table) else open_table(table, storage_options)


async def known_state(table: Table) -> LogState:
    """A recent state of the table, without I/O where one is known.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    table._check_open()
    return await table._source.known_state()


async def latest_state(table: Table) -> LogState:
    """The latest state of the table.

    Raises:
        TableNotFoundError: there is no table.
        InvalidTableError: the log is damaged.
    """
    table._check_open()
    return await table._source.latest_state()


async def state_at(table: Table, version: int) -> LogState:
    """The state of the table at a version, which can be read.

    Raises:
        VersionNotFoundError: the version does not exist, or is no longer kept.
        UnsupportedFeatureError: reading it needs a feature that adelta lacks.
        InvalidTableError: the log is damaged.
    """
    table._check_open()
    if version < 0:
        raise VersionNotFoundError(f"{table.uri}: versions count from 0; {version} is none")
    state = await table._source.state_at(version)
    state.configuration.check_readable(table.uri)
    return state


def check_tables(tables: Sequence[object]) -> None:
    """Refuse what are no handles on different tables.

    Raises:
        InvalidOptionError: they are not, or there is none.
    """
    if not tables:
        raise InvalidOptionError("no table was passed; pass those that are to be taken together")
    roots = set()
    for table in tables:
        if not isinstance(table, Table):
            raise InvalidOptionError(
                f"{table!r:.100} is no handle on a table; pass handles, as open_table makes them"
            )
        if table.uri in roots:
            raise InvalidOptionError(f"{table.uri} is passed twice; pass each table once")
        roots.add(table.uri)


async def states_of_one_moment(tables: Sequence[Table]) -> list[LogState]:
    """The states of tables of one commit owner that were their latest at one and the same moment.

    Raises:
        InvalidOptionError: they have no owner in common that can be asked.
        TableNotFoundError: there is no table, or its owner does not know it.
        InvalidTableError: a log is damaged.
        StorageError: a store or the owner refused or failed.
    """
    from adelta.commit.together import ask_together

    for look in range(_LOOKS):
        states = await map_concurrent(known_state, tables, limit=len(tables))
        stores = [(table.uri, owned_of(table.store)) for table in tables]
        try:
            versions = await ask_together(stores)
        except (TableNotFoundError, InvalidOptionError) as error:
            refused = error
            if look and isinstance(error, InvalidOptionError):
                raise
            for table in tables:  # the log tells who the owner is by now
                table._source.doubt_state()
            continue
        pairs = zip(states, versions, strict=True)
        works = [partial(later_state, state, version) for state, version in pairs]
        found = [*await together(*works, limit=len(works))]
        for table, state in zip(tables, found, strict=True):
            table._source.publish_state(state)
        return found
    raise refused


def snapshot_of(table: Table, state: LogState) -> Snapshot:
    """A state of the table, to be read.

    Raises:
        UnsupportedFeatureError: reading it needs a feature that adelta lacks.
    """
    configuration = state.configuration
    configuration.check_readable(table.uri)
    return Snapshot(state, table._roots, configuration)


def table_in(
    store: ObjectStore,
    options: Mapping[str, str],
    catalog: CatalogClient | None,
    *,
    used: Callable[[LatestState], None],
    opens: Callable[[str, Mapping[str, str]], ObjectStore],
) -> Table:
    """A handle on the table in a store that is open, and that its caller closes.

    `used` and `opens` are as for `LatestState` and `StoreRoots`.

    Raises:
        InvalidOptionError: an option has a value that is not allowed.
    """
    home = open_log_store(store.uri, options, catalog, store=store)
    made = Table(store.uri, options, store=home)
    made._catalog = catalog
    made._roots = StoreRoots(home, options, opens=opens)
    made._source = LatestState(home, made._clock, used)
    made._queue = QueueOfTable(home, options, catalog)
    return made


def lent(table: Table) -> Table:
    """Another handle on the same table, of use as long as this one is open; closing it is free.

    Raises:
        InvalidUseError: the handle is closed.
    """
    table._check_open()
    made = object.__new__(Table)
    vars(made).update(vars(table), _lender=table)
    return made


def roots_of(table: Table) -> StoreRoots:
    """The stores that the table's log may lead to. Raises: InvalidUseError."""
    table._check_open()
    return table._roots


def clock_of(table: Table) -> Clock:
    """The clock that the table's operations go by. Raises: InvalidUseError."""
    table._check_open()
    return table._clock


def executor_of(table: Table) -> TaskExecutor:
    """What carries out the tasks of the table's operations. Raises: InvalidUseError."""
    from adelta.write.task_executor import IN_PROCESS  # loaded by what writes alone

    table._check_open()
    return table._executor or IN_PROCESS


def queue_of(table: Table) -> CommitQueue:
    """The queue in which the transactions of this event loop on the table commit."""
    return table._queue.get()


async def give_back_connections(table: Table) -> None:
    """Let the handle hold none until it is used again."""
    table._check_open()
    await table._roots.aclose()
