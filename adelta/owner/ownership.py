"""How the owner comes to own a table, and ceases to: the two phases of the RFC, and the way back.

Whoever wants a table to be owned proposes the commit that says so. The owner keeps that promise in
its ledger, and the commit point is the put-if-absent of that commit into the log, by the client.
Telling the owner afterwards is no more than tidying up: whenever a promised table is asked for, and
from time to time, the log is looked at, where the commit's transaction id says whose it is. So the
owner never refuses a table whose log names it.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from adelta.commit.filesystem import is_by
from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    InvalidOptionError,
    InvalidTableError,
    TableNotFoundError,
)
from adelta.owner.ledger import UnsettledError
from adelta.owner.owned_table import COMMITS_FOLDER, State

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.commit.owner import CommitResponse, ProposedCommit
    from adelta.owner.backfiller import Backfiller
    from adelta.owner.ledger import Ledger
    from adelta.owner.owned_table import OwnedTable
    from adelta.owner.table_key import TableKey
    from adelta.owner.table_logs import TableLog, TableLogs

__all__ = ["Ownership"]

T = TypeVar("T")

_log = logging.getLogger("adelta.owner.ownership")

_REMEMBERED = 100_000  # tables
_NO_COMMIT = b"{}\n"  # nobody ratifies it, and a clean-up of the log deletes it
_WAIT = 10.0  # seconds for what is to be backfilled before the ledger goes beyond it


class Ownership:
    """Promises, and what becomes of them."""

    def __init__(self, ledger: Ledger, logs: TableLogs, backfiller: Backfiller) -> None:
        self._ledger = ledger
        self._logs = logs
        self._backfiller = backfiller
        self._current: dict[TableKey, str] = {}  # with the folders of un-backfilled commits

    async def check_current(self, table: TableKey, folder: str) -> None:
        """Refuse to go on with a table whose log is ahead of the ledger; looked at once.

        So a ledger that has been restored from a backup ratifies no version for a second time. A
        table whose un-backfilled commits are in another folder than `folder` is refused, too:
        what the catalog says of its tables changes with their commits, which have a way of their
        own.

        Raises:
            InvalidOptionError: the table's commits come by the other API.
            InvalidTableError: the log has the version after the latest one of the ledger.
            StorageError: ledger or store failed.
        """
        latest: int | None = None
        while table not in self._current:
            found = await self._ledger.find(table)
            if found is None or found.state != State.OWNED:
                return
            if found.latest == latest:  # no other instance has ratified it meanwhile
                raise InvalidTableError(
                    f"{table.uri}: its log has version {latest + 1}, and the commit owner has "
                    f"ratified no more than version {latest}: its database has been restored from "
                    "a backup, or somebody writes to the table without asking its owner. Nothing "
                    "was committed; restore a later backup, have the owner go on with what the log "
                    "shows by adelta owner recover, or move that file and those after it away"
                )
            latest = found.latest
            if not await self._logs.of(table.uri).exists(latest + 1):
                if len(self._current) >= _REMEMBERED:
                    self._current.clear()
                self._current[table] = found.folder
        if self._current[table] != folder:
            raise _of_another_api(table)

    async def propose(self, table: TableKey, proposed: ProposedCommit) -> None:
        """Promise to own the table, if `proposed` gets into its log.

        Of a table that is owned it is taken where the log has it already, beyond the ledger: this
        one has been restored from a backup, and goes on with what the log shows when it is told so.
        A copy of a table elsewhere is another table; the same one by another root is not.

        Raises:
            PermissionDeniedError: this owner takes no tables at that place.
            CommitConflictError: it has the table already, by this root or another one.
            StorageError: ledger or store failed; nothing was promised.
        """
        log = self._logs.of(table.uri)
        found = await self._ledger.find(table)
        if found is not None and found.folder != COMMITS_FOLDER:
            raise _of_another_api(table)
        if found is not None and found.state == State.RELEASING:
            await self._backfiller.backfill(table, None, _WAIT)  # then it has released it
        if found is not None and found.state in (State.PROMISED, State.RELEASED):
            await self.settle(table)
        again = found is not None and await self._is_behind(found, log, proposed)
        if again:
            await self._backfiller.backfill(table, None, _WAIT)  # or it has other commits
        if proposed.version > 0 and not await log.is_there():
            raise InvalidOptionError(
                f"{table.uri}: version {proposed.version} is proposed, and the owner sees no log "
                "there; start it with the storage options of that place, and name the table by a "
                "root that it sees too"
            )
        for other in await self._ledger.namesakes(table):
            if await self._is_the_same(log, other, proposed.version):
                raise CommitConflictError(
                    f"{table.uri} is the table that the commit owner has as {other.uri}; open it "
                    "by that root"
                )
        await self._ledger.promise(table, COMMITS_FOLDER, proposed, again=again)

    async def _is_the_same(self, log: TableLog, other: OwnedTable, version: int) -> bool:
        """Whether a log is that of a table with another root: what is put into it is there, too.

        Raises: StorageError.
        """
        name, _ = await log.stage(COMMITS_FOLDER, version, _NO_COMMIT)
        return await self._logs.of(other.uri).staged(COMMITS_FOLDER, name) is not None

    @staticmethod
    async def _is_behind(found: OwnedTable, log: TableLog, proposed: ProposedCommit) -> bool:
        """Whether the log has a commit beyond those of the ledger. Raises: StorageError."""
        if found.state != State.OWNED or proposed.version <= found.latest:
            return False
        content = await log.commit(proposed.version)
        return content is not None and is_by(content, proposed.transaction_id)

    async def accept(self, table: TableKey, version: int) -> None:
        """Own a table whose log has the commit that it was promised for; again does nothing.

        Raises:
            TableNotFoundError: nothing of the kind was promised, or the log has it not.
            StorageError: ledger or store failed.
        """
        await self.settle(table)
        found = await self._ledger.find(table)
        if found is None or found.state != State.OWNED or found.latest < version:
            raise TableNotFoundError(
                f"{table.uri}: its log has no commit of version {version} that the owner has "
                "promised to own the table by"
            )

    async def settle(self, table: TableKey) -> None:
        """Keep or forget the promises of a table, by what its log says.

        Raises:
            StorageError: ledger or store failed.
        """
        log = self._logs.of(table.uri)
        for transaction_id, version in await self._ledger.promises(table):
            content = await log.commit(version)
            if content is None:
                continue  # it may still come
            if is_by(content, transaction_id):
                await self._ledger.keep_promise(table, version)
                return
            await self._ledger.forget_promise(table, transaction_id, version)

    async def settled(self, tables: Sequence[TableKey], work: Callable[[], Awaitable[T]]) -> T:
        """What `work` says of tables, whose promises are kept or forgotten first, if need be.

        Raises:
            UnsettledError: there is a promise that is neither to be kept nor forgotten yet.
            AdeltaError: whatever `work` raises; or ledger or store failed.
        """
        try:
            return await work()
        except UnsettledError:
            for table in tables:
                await self.settle(table)
        return await work()

    async def settle_all(self) -> None:
        """Keep or forget all promises, as far as their stores can be read."""
        from adelta.owner.table_key import TableKey

        after = -1
        while found := await self._ledger.promised(after):
            for table in found:
                try:
                    await self.settle(TableKey(table.uri, table.table_id))
                except AdeltaError as error:
                    _log.warning("%s: a promise to own it cannot be settled: %s", table.uri, error)
            after = found[-1].table_key

    async def release(
        self, table: TableKey, proposed: ProposedCommit, wait_seconds: float
    ) -> CommitResponse:
        """Ratify the last commit of a table. All before it is backfilled first, then itself.

        It waits for the last for some time. The ledger has it from the moment of its ratification,
        so that it is backfilled whatever happens to this process.

        Raises:
            TableNotFoundError: the table is not owned.
            StorageError: what was to be backfilled before could not be; nothing was ratified.
            CommitOutcomeUnknownError: it may have been ratified.
        """
        await self.settle(table)  # it may be owned since a moment ago
        await self._backfiller.backfill(table, None, wait_seconds)
        response = await self._ledger.release(table, proposed)
        if response.ratified:
            with suppress(AdeltaError):  # it is reliable without us
                await self._backfiller.backfill(table, None, wait_seconds)
        return response


def _of_another_api(table: TableKey) -> InvalidOptionError:
    return InvalidOptionError(
        f"{table.uri} is a table of the catalog, and commits to it come by Unity Catalog's paths; "
        "open it with catalog=UnityCatalogClient(...)"
    )
