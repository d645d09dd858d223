"""Consumer: batches of what a table's commits bring, from a position that outlives the process.

What a batch brings is read again until it is acknowledged: so everything comes at least once. Where
the position is kept in the table that is written to, rows and position are one commit, and
everything comes exactly once, whenever the process dies.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import anyio

from adelta._arguments import address
from adelta._async_handle import AsyncHandle
from adelta.changes.same_table import check_position
from adelta.consumers.batch import Lag
from adelta.consumers.batches import Batches
from adelta.consumers.positions import FilePositions, StoredPosition, check_consumer_name
from adelta.consumers.postgresql import PostgresqlPositions, is_postgresql
from adelta.consumers.request import ConsumerRequest, check_start
from adelta.consumers.shares import check_same_share, share_text
from adelta.consumers.table_positions import TablePositions
from adelta.errors import (
    InvalidOptionError,
    InvalidUseError,
    ObjectNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.history import parse_timestamp
from adelta.kernel.position import Position
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.log.commit_provenance import read_commit_info
from adelta.log.consumer_holds import drop_hold, put_hold
from adelta.log.listing import find_commit
from adelta.log.time_travel import first_version_after
from adelta.operations.evolve import merge_schema
from adelta.table import Table, clock_of, latest_state, open_table
from adelta.write.commit_timeout import COMMIT_TIMEOUT

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence
    from datetime import datetime
    from typing import Literal, Self

    from adelta.consumers.batch import Batch
    from adelta.consumers.positions import PositionStore
    from adelta.log.state import LogState
    from adelta.table import TableOrAddress
    from adelta.transaction import Transaction
    from adelta.write.spec import DataFileOptions

__all__ = ["Consumer"]

_IDLE_SAVE = 3600.0  # seconds between commits of a position alone, to the table that is written to


class Consumer(AsyncHandle):
    """Batches of a table, under a `name` by which `positions` keeps how far they have come.

    Used as an asynchronous context manager and iterator: each step gives the next `Batch`, and
    waits for it where there is nothing new. `acknowledge` keeps its position; a consumer of the
    same name that is opened later goes on from there.

    `positions` is the table that is written to, whose commits keep them (`transaction`, `append`);
    the address of a folder, or of a PostgreSQL server; or any `PositionStore`.

    `of` is what the batches have: ``rows`` that are appended, ``changes`` of the change data feed,
    with what each change is as in `changes`, or ``commits``. `start` counts where no position is
    kept yet: ``snapshot`` begins with the rows that are there, without a gap or an overlap to what
    comes after them, ``latest`` with the next commit; else it is a version, a time or a `Position`.
    By default it is ``snapshot``, and 0 for commits.

    A batch has at most `max_rows` rows (or commits) of at most `max_files` files, and is closed
    when these take `max_bytes` bytes. With `max_delay` it is filled up for so many seconds where
    there is less. `columns` are those wanted. With ``share=(column, number, count)`` the rows are
    those of which the column's hash falls to this one of `count` consumers; give each a name. The
    share is kept with the position, from which no other one goes on.

    Commits that delete or change rows are an error for a consumer of rows (`on_rewrite`), or with
    ``skip`` passed over, or with ``read`` the files that they wrote are read. Where commits have
    been cleaned up before they were read, or their files vacuumed, that is an error (`on_lost`), or
    with ``skip`` the batch says which, or with ``resnapshot`` the rows come anew. With `hold` the
    log is not cleaned up before the position, for so long after it was last kept; the table's
    property `adelta.consumerHolds` has to be set for that.

    `poll` is the longest pause between two looks, in seconds. Without `follow` the iteration ends
    when everything that is there has been given. `storage_options` open a table given by its
    address.

    Raises:
        InvalidOptionError: an argument has a value that is not allowed.
    """

    def __init__(
        self,
        table: TableOrAddress,
        name: str,
        positions: PositionStore | Table | str | os.PathLike[str],
        *,
        of: Literal["rows", "changes", "commits"] = "rows",
        start: int | datetime | str | Position | None = None,
        columns: Sequence[str] | None = None,
        share: tuple[str, int, int] | None = None,
        max_rows: int = 1_000_000,
        max_files: int = 1_000,
        max_bytes: int = 256 * 1024 * 1024,
        max_delay: float = 0.0,
        on_rewrite: Literal["fail", "skip", "read"] = "fail",
        on_lost: Literal["fail", "skip", "resnapshot"] = "fail",
        hold: timedelta | None = None,
        poll: float = 1.0,
        follow: bool = True,
        storage_options: Mapping[str, str] | None = None,
    ) -> None:
        self._name = check_consumer_name(name)
        self._request = ConsumerRequest.checked(
            of=of,
            start=start,
            columns=columns,
            share=share,
            max_rows=max_rows,
            max_files=max_files,
            max_bytes=max_bytes,
            max_delay=max_delay,
            on_rewrite=on_rewrite,
            on_lost=on_lost,
            hold=hold,
            poll=poll,
            follow=follow,
        )
        self._is_ours = not isinstance(table, Table)
        self._table = table if isinstance(table, Table) else open_table(table, storage_options)
        self._positions = _store_of(positions)
        if isinstance(self._positions, TablePositions) and (
            self._positions.table.uri == self._table.uri
        ):
            raise InvalidOptionError(
                f"{self._table.uri} is the table that is read, and cannot be written to as well: "
                "what is appended would be read again, without an end; pass another table"
            )
        self._batches: Batches | None = None
        self._stored: StoredPosition | None = None
        self._acknowledged: Position | None = None
        self._given: Position | None = None
        self._saved_at = 0.0
        self._in_doubt: StoredPosition | None = None  # a save that may or may not have happened
        self._saving = anyio.Lock()
        self._is_read = False
        self._closed = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} of {self._table.uri}>"

    @property
    def name(self) -> str:
        """The name under which the position is kept."""
        return self._name

    @property
    def position(self) -> Position:
        """How far has been acknowledged.

        Raises:
            InvalidUseError: the consumer is not open.
        """
        self._opened()
        assert self._acknowledged is not None
        return self._acknowledged

    # ---------------------------------------------------------------------------------- the block

    async def __aenter__(self) -> Self:
        """Load the position, or find out where to start; the consumer itself.

        Raises:
            TableNotFoundError: there is no table.
            ChangesNotAvailableError: the position is of another table.
            VersionNotFoundError: the start lies beyond the next version.
            InvalidOptionError: the log is to be held, and the table says no folder for that; or
                the position is of another share of the rows.
            StorageError: a store refused or failed.
        """
        if self._batches is not None or self._closed:
            raise InvalidUseError(f"{self!r} has been opened before; make another one")
        try:
            latest = await latest_state(self._table)
            latest.configuration.check_readable(self._table.uri)
            self._hold_folder(latest)
            self._stored = await self._positions.load(self._name)
            is_new = self._stored is None
            if self._stored is None:
                start = await self._start(self._request.start, latest)
            else:
                start = self._stored.position
                await check_position(latest, start)
                check_same_share(self._name, start, self._request.share)
                if start.table_id is None:
                    start = replace(start, table_id=latest.metadata.id)
            self._begin(start, is_new=is_new)
            if is_new and (self._request.start == "latest" or self._request.hold is not None):
                await self._save(start)
            elif not is_new:
                await self._renew_hold(start)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await self.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the consumer. What was not acknowledged comes again."""
        await self.aclose()

    async def aclose(self) -> None:
        """Give back connections. Calling it again does nothing."""
        if self._closed:
            return
        self._closed = True
        with anyio.CancelScope(shield=True):
            if self._batches is not None:
                await self._batches.aclose()
            await self._positions.aclose()
            if self._is_ours:
                await self._table.aclose()

    def _begin(self, start: Position, *, is_new: bool) -> None:
        self._batches = Batches(self._table, self._request, start, is_new=is_new)
        self._acknowledged = self._given = start

    def _opened(self) -> Batches:
        if self._batches is None or self._closed:
            raise InvalidUseError(f"{self!r} is not open: use it in an `async with` block")
        return self._batches

    def _read_by_one(self) -> Batches:
        batches = self._opened()
        if self._is_read:
            raise InvalidUseError(
                f"{self!r} is read by another task, and has one position; open a consumer for each "
                "task, with a name of its own and the rows shared between them (share)"
            )
        return batches

    # ----------------------------------------------------------------------------------- batches

    def __aiter__(self) -> Self:
        """The consumer itself."""
        return self

    async def __anext__(self) -> Batch:
        """The next batch.

        Raises:
            StopAsyncIteration: everything has been given, and `follow` is False.
            InvalidUseError: a commit deletes or changes rows; or another task waits for a batch of
                this very consumer.
            ChangesNotAvailableError: commits have been cleaned up; or the table was dropped, or
                made anew; or its change data feed was off.
            SchemaMismatchError: the table does not have the columns any more.
            MissingDataFileError: a file has been vacuumed.
            InvalidTableError: the table is damaged.
            StorageError: a store refused or failed.
        """
        batches = self._read_by_one()
        self._is_read = True
        try:
            return await self._next(batches)
        finally:
            self._is_read = False

    async def _next(self, batches: Batches) -> Batch:
        poll = self._request.poll
        pause = poll / 10
        while True:
            batch = await batches.next()
            if batch is not None:
                self._given = batch.position
                return batch
            await self._save_idle(batches.position)
            if not self._request.follow:
                raise StopAsyncIteration
            await batches.wait(pause)
            pause = min(poll, pause * 2)

    async def acknowledge(self, batch: Batch | None = None) -> None:
        """Keep the position after `batch`, by default after the last one given.

        Where positions are kept in the table that is written to, that is a commit without rows.

        Raises:
            ConsumerTakenOverError: another process consumes under this name.
            StorageError: the store of the positions refused or failed.
        """
        self._opened()
        position = self._given if batch is None else batch.position
        assert position is not None
        if position != self._acknowledged:
            await self._save(position)

    def transaction(
        self,
        batch: Batch,
        *,
        operation: str = "STREAMING UPDATE",
        parameters: Mapping[str, object] | None = None,
        user_metadata: str | None = None,
        timeout: float = COMMIT_TIMEOUT,
        data_files: DataFileOptions | None = None,
    ) -> Transaction:
        """A transaction of the table that keeps the positions, which acknowledges `batch` too.

        Rows and position are one commit: what comes of a batch is there once, whenever the process
        dies. After a transaction that was cancelled, or did not know how it ended, make another one
        of the same batch: where that one has committed, this one is skipped.

        `parameters`, `user_metadata`, `timeout` and `data_files` are as in `Table.transaction`.

        Raises:
            InvalidUseError: the positions are not kept in a table; or the batch is acknowledged.
            InvalidOptionError: an argument is of the wrong type.
        """
        self._opened()
        if batch.position == self._acknowledged:
            raise InvalidUseError(
                f"{self!r}: the batch up to {batch.position} is acknowledged, and what was "
                "committed with that is there: go on with the next batch"
            )
        stored = self._in_doubt = self._next_stored(batch.position)
        return self._into().transaction(
            self._name,
            stored,
            lambda: self._note(stored),
            operation=operation,
            parameters=parameters,
            user_metadata=user_metadata,
            timeout=timeout,
            data_files=data_files,
        )

    async def append(self, batch: Batch) -> int:
        """Append the rows to the table that keeps the positions, exactly once; the version.

        Columns that only the batch has become the table's. Where the rows come anew they take the
        place of all rows that are there (`Batch.restarted`). After a call that was cancelled, or
        did not know how it ended, call it again with the same batch: where that call has committed,
        nothing more is, and the version is the table's latest.

        Raises:
            InvalidUseError: the positions are not kept in a table.
            ConsumerTakenOverError: another process consumes under this name.
            SchemaMismatchError: the columns do not fit the table's.
            InvariantViolationError: rows violate a constraint of the table.
            CommitConflictError: another commit changed what the table is.
            StorageError: a store refused or failed.
        """
        table = self._into().table
        async with self._saving:
            await self._settle()
        if self._acknowledged == batch.position:
            await self._renew_hold(batch.position)
            return (await latest_state(table)).version
        tx = self.transaction(batch, parameters={"consumer": self._name})
        async with tx:
            if batch.data.num_columns:
                merge_schema(tx, from_arrow_schema(batch.data.schema))
            if batch.restarted:
                await tx.overwrite(batch.data)
            elif batch.num_rows:
                await tx.append(batch.data)
        await self._renew_hold(batch.position)
        assert tx.version is not None
        return tx.version

    # ------------------------------------------------------------------------------ looking around

    async def seek(self, start: int | datetime | str | Position) -> None:
        """Go on from another place, as `Consumer` takes it, and keep that: rows come once more.

        Raises:
            VersionNotFoundError: it lies beyond the next version, or in no history that is kept.
            ChangesNotAvailableError: it is a position of another table.
            InvalidOptionError: it is no place to start from.
            ConsumerTakenOverError: another process consumes under this name.
            StorageError: a store refused or failed.
        """
        before = self._read_by_one()
        check_start(start)
        position = await self._start(start, await latest_state(self._table))
        await self._save(position)
        await before.aclose()
        self._begin(position, is_new=True)

    async def lag(self) -> Lag:
        """How far the consumer is behind the table, by what is acknowledged.

        Raises:
            TableNotFoundError: the table is gone.
            StorageError: a store refused or failed.
        """
        self._opened()
        at = self._acknowledged
        assert at is not None
        latest = (await latest_state(self._table)).version
        behind = max(0, latest - at.version + 1)
        seconds = 0.0
        if behind:
            now_ms = clock_of(self._table).now_ms()
            seconds = max(0, now_ms - await self._time_of(min(at.version, latest))) / 1000
        return Lag(behind, seconds, at, latest)

    async def forget(self) -> None:
        """Let go of the log, which is not held for this consumer any more.

        Raises:
            StorageError: a store refused or failed.
        """
        self._opened()
        state = await latest_state(self._table)
        folder = state.configuration.properties.consumer_holds
        if folder is not None:
            await drop_hold(self._table.store, folder, self._name)

    async def _time_of(self, version: int) -> int:
        """When a version was committed, in milliseconds; of one that is gone, the oldest known."""
        store = self._table.store
        with suppress(ObjectNotFoundError):
            stamp = (await read_commit_info(store, version)).in_commit_timestamp
            if stamp is not None:
                return stamp
            file = await find_commit(store, version)
            if file is not None:
                return file.last_modified_ms
        return (await latest_state(self._table)).timestamp_ms

    # ---------------------------------------------------------------------------------- positions

    async def _start(self, start: int | datetime | str | Position, latest: LogState) -> Position:
        id = latest.metadata.id
        if isinstance(start, Position):
            await check_position(latest, start)
            if self._request.of == "commits":
                _ = start.first_version
            position = start if start.table_id is not None else replace(start, table_id=id)
        elif start == "snapshot" and self._request.of != "commits":
            return Position(latest.version, in_snapshot=True, table_id=id)
        elif start == "latest":
            return Position(latest.version + 1, table_id=id)
        elif isinstance(start, int):
            position = Position(start, table_id=id)
        else:
            when_ms = parse_timestamp(start)
            if when_ms > latest.timestamp_ms:
                return Position(latest.version + 1, table_id=id)
            position = Position(await first_version_after(self._table.store, when_ms), table_id=id)
        if position.version > latest.version + 1:
            raise VersionNotFoundError(
                f"{self._table.uri}: a consumer cannot start from version {position.version}; the "
                f"latest is {latest.version}: start from 'latest' for what comes from now on"
            )
        return position

    def _next_stored(self, position: Position) -> StoredPosition:
        kept = replace(position, share=share_text(self._request.share))
        return StoredPosition(kept, 1 if self._stored is None else self._stored.revision + 1)

    async def _save(self, position: Position) -> None:
        async with self._saving:
            await self._settle()
            if self._stored is None or position != self._stored.position:
                stored = self._in_doubt = self._next_stored(position)
                await self._positions.save(self._name, stored)
                self._note(stored)
        await self._renew_hold(position)

    async def _settle(self) -> None:
        """Find out whether a save that was cancelled, or failed, has happened after all."""
        if self._in_doubt is not None:
            if await self._positions.load(self._name) == self._in_doubt:
                self._note(self._in_doubt)
            self._in_doubt = None

    def _note(self, stored: StoredPosition) -> None:
        self._stored = stored
        self._in_doubt = None
        self._acknowledged = stored.position
        self._saved_at = anyio.current_time()

    async def _save_idle(self, position: Position) -> None:
        """Keep how far there was nothing to give, so that the log may be cleaned up behind it."""
        if self._given != self._acknowledged or position == self._acknowledged:
            return  # something is not acknowledged yet
        waited = anyio.current_time() - self._saved_at
        if not isinstance(self._positions, TablePositions) or waited >= _IDLE_SAVE:
            await self._save(position)
        self._given = self._acknowledged

    def _into(self) -> TablePositions:
        if not isinstance(self._positions, TablePositions):
            raise InvalidUseError(
                f"the positions of the consumer {self._name!r} are not kept in the table that is "
                "written to; pass that table as positions, or acknowledge batches"
            )
        return self._positions

    # --------------------------------------------------------------------------------------- holds

    def _hold_folder(self, state: LogState) -> str | None:
        if self._request.hold is None:
            return None
        folder = state.configuration.properties.consumer_holds
        if folder is None:
            raise InvalidOptionError(
                f"{self._table.uri} has no folder for what consumers hold: set the table property "
                "adelta.consumerHolds to the name of one, such as _consumers, which whoever cleans "
                "up the log then looks into"
            )
        return folder

    async def _renew_hold(self, position: Position) -> None:
        if self._request.hold is None:
            return
        state = await latest_state(self._table)
        folder = self._hold_folder(state)
        assert folder is not None
        until_ms = clock_of(self._table).now_ms() + self._request.hold // timedelta(milliseconds=1)
        await put_hold(self._table.store, folder, self._name, position.version, until_ms)


def _store_of(positions: object) -> PositionStore:
    if isinstance(positions, Table):
        return TablePositions(positions)
    if isinstance(positions, str) and is_postgresql(positions):
        return PostgresqlPositions(positions)
    if all(callable(getattr(positions, name, None)) for name in ("load", "save", "aclose")):
        return positions  # type: ignore[return-value]  # it has the methods of one
    return FilePositions(address(positions))
