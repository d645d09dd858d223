"""The backfiller: copies ratified commits to where readers of the filesystem look for them.

A table's commits are copied one after the other, in the order of their versions; tables do not wait
for each other. A ratification wakes it at once. What nobody woke it for, since a process died in
between, it finds in the ledger from time to time. Two instances may do the same work at once: each
commit is put where there is none, and where there is one its bytes have to be the same.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from adelta._chance import uniform
from adelta._concurrency import map_concurrent
from adelta._dataclasses import dataclass
from adelta.commit.filesystem import is_by
from adelta.errors import AdeltaError, InvalidTableError, StorageError
from adelta.owner.ledger import not_owned
from adelta.owner.owned_table import COMMITS_FOLDER, State

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from adelta.owner.ledger import Ledger, Waiting
    from adelta.owner.metrics import Metrics
    from adelta.owner.owned_table import OwnedTable
    from adelta.owner.table_key import TableKey
    from adelta.owner.table_logs import TableLog, TableLogs

__all__ = ["Backfiller"]

_log = logging.getLogger("adelta.owner.backfiller")

_TABLES = 64  # at once
_AT_ONCE = 32  # commits of one table that are read from the ledger together
_AHEAD = 8  # staged commits that are read together
_BYTES = 32 << 20  # of commits of one table that are in memory, unless one alone has more
_SWEEP = 5.0  # seconds between two looks for what nobody has told of
_SWEPT = 1000  # tables that are taken up by one look; the next one goes on with those after them
_GATHER = 0.02  # seconds for which further commits of a table may come
_PAUSE, _LONGEST_PAUSE = 0.2, 30.0  # seconds after a failure, before a table is taken up again
_NOTED = 0.5  # seconds that the ledger may be behind the log


@dataclass(frozen=True, slots=True)
class _Failure:
    """Why a table cannot be backfilled, when it is tried again, and how long after that.

    `is_astray` is whether the log is not the one that has been backfilled so far.
    """

    reason: str
    again_at: float
    pause: float
    is_astray: bool


class _AstrayError(StorageError):
    """The log is not the one that has been backfilled so far."""


class Backfiller:
    """Backfills the tables of a ledger, as long as `run` runs."""

    def __init__(self, ledger: Ledger, logs: TableLogs, metrics: Metrics) -> None:
        self._ledger = ledger
        self._logs = logs
        self._metrics = metrics
        self._group: TaskGroup | None = None
        self._room = anyio.CapacityLimiter(_TABLES)
        self._busy: dict[TableKey, anyio.Event] = {}
        self._again: set[TableKey] = set()
        self._failures: dict[TableKey, _Failure] = {}
        self._swept = -1  # the key of the last table of a sweep that has not come to the end

    async def run(self, *, sweep: float = _SWEEP) -> None:
        """Backfill what is to be backfilled, until this is cancelled."""
        async with anyio.create_task_group() as group:
            self._group = group
            try:
                while True:
                    await self._sweep()
                    await anyio.sleep(sweep * uniform(0.5, 1.5))
            finally:
                self._group = None

    async def _sweep(self) -> None:
        from adelta.owner.table_key import TableKey

        try:
            backlog = await self._ledger.backlog(self._swept, _SWEPT)
        except AdeltaError as error:
            _log.warning("the backlog cannot be read: %s", error)
            return
        self._swept = backlog[-1].table_key if len(backlog) == _SWEPT else -1
        self._metrics.waiting.set(sum(table.waiting for table in backlog))
        for table in backlog:
            self.wake(TableKey(table.uri, table.table_id))

    def wake(self, table: TableKey, *, at_once: bool = False) -> None:
        """Backfill a table, of which a commit has been ratified; soon, or `at_once`."""
        if table in self._busy:
            self._again.add(table)
            return
        failure = self._failures.get(table)
        waits = failure is not None and anyio.current_time() < failure.again_at
        if self._group is not None and (at_once or not waits):
            self._busy[table] = anyio.Event()
            self._group.start_soon(self._work, table, at_once)

    def check_log(self, table: TableKey) -> None:
        """Refuse to go on with a table whose log was not, when it was last backfilled, its own.

        What is ratified for such a table would never be seen. It is looked at again, by and by.

        Raises:
            InvalidTableError: it was another table's, or earlier, or gone.
        """
        failure = self._failures.get(table)
        if failure is not None and failure.is_astray:
            self.wake(table)
            raise InvalidTableError(
                f"{failure.reason}; nothing was committed. Open the table again, or restore its "
                "log and have it backfilled (adelta owner backfill)"
            )

    async def backfill(self, table: TableKey, version: int | None, wait_seconds: float) -> None:
        """Wait until the commits up to `version` are in the log, all by default.

        Raises:
            TableNotFoundError: the table is not owned.
            StorageError: they are not, after so many seconds, or cannot be.
        """
        with anyio.move_on_after(wait_seconds):
            while True:
                found = await self._ledger.find(table)
                if found is None or found.is_gone or found.state == State.PROMISED:
                    raise not_owned(table, None if found is None else found.state)
                version = found.latest if version is None else version
                if found.backfilled >= min(version, found.latest):
                    return
                self.wake(table, at_once=True)
                event = self._busy.get(table)
                if event is None:
                    raise StorageError("the commit owner is stopping; ask another one")
                await event.wait()
                if failure := self._failures.get(table):
                    await anyio.sleep_until(failure.again_at)
        failure = self._failures.get(table)
        reason = "" if failure is None else f": {failure.reason}"
        raise StorageError(
            f"{table.uri}: the commits up to version {version} are not backfilled after "
            f"{wait_seconds:g} s{reason}; the owner goes on with it, ask again"
        )

    # ---------------------------------------------------------------------------------- one table

    async def _work(self, table: TableKey, at_once: bool) -> None:
        """Backfill one table until nothing of it waits, or it fails."""
        try:
            async with self._room:
                while True:
                    if not at_once:
                        await anyio.sleep(_GATHER)
                    self._again.discard(table)
                    is_done = await self._batch(table)
                    self._failures.pop(table, None)
                    if is_done and table not in self._again:
                        return
        except Exception as error:  # whatever it is, other tables go on
            self._note_failure(table, error)
        finally:
            self._again.discard(table)
            self._busy.pop(table).set()

    def _note_failure(self, table: TableKey, error: Exception) -> None:
        """Put a table off for a while, twice as long each time."""
        before = self._failures.get(table)
        pause = _PAUSE if before is None else min(2 * before.pause, _LONGEST_PAUSE)
        again_at, is_astray = anyio.current_time() + pause, isinstance(error, _AstrayError)
        self._failures[table] = _Failure(f"{error}", again_at, pause, is_astray)
        self._metrics.backfill_failures.inc()
        _log.warning(
            "a table cannot be backfilled: %s",
            error,
            exc_info=not isinstance(error, AdeltaError),
            extra={"fields": {"table": table.uri, "again_in_seconds": pause}},
        )

    async def _batch(self, table: TableKey) -> bool:
        """Backfill some commits; whether there are none any more.

        Raises: StorageError, CommitOutcomeUnknownError.
        """
        found, commits = await self._ledger.backlog_of(table, _AT_ONCE)
        if found is None or found.waiting <= 0 or found.is_gone:
            return True
        if not commits or commits[0].version != found.backfilled + 1:
            raise StorageError(
                f"{table.uri}: the ledger lacks the commit of version {found.backfilled + 1}"
            )
        log = self._logs.of(found.uri)
        await self._check_base(log, found)
        done = noted = found.backfilled
        since, inline = anyio.current_time(), 0
        try:
            for data, commit in await self._contents(log, found, _first(commits)):
                if not await log.backfill(commit.version, data):
                    raise StorageError(
                        f"{table.uri}: the log has another commit of version {commit.version} than "
                        "the owner has ratified: somebody writes to the table without asking its "
                        "owner. Nothing of it is backfilled until that file has been moved away"
                    )
                done = commit.version
                inline += 0 if commit.content is None else len(data)
                self._metrics.backfilled.inc()
                if anyio.current_time() - since > _NOTED:
                    if not await self._ledger.note_backfilled(found.table_key, noted, done, inline):
                        return False
                    noted, since, inline = done, anyio.current_time(), 0
        finally:
            if done > noted:
                with anyio.CancelScope(shield=True):
                    await self._ledger.note_backfilled(found.table_key, noted, done, inline)
        return found.latest == done

    async def _check_base(self, log: TableLog, table: OwnedTable) -> None:
        """Refuse a log that is not the one that has been backfilled so far.

        Raises:
            StorageError: it is another table's, or earlier, or the store failed.
        """
        base = await log.commit(table.backfilled)
        if base is None:
            raise _AstrayError(
                f"{table.uri}: version {table.backfilled} was in the log, and is not any more: the "
                "table has been deleted, or restored to an earlier state from a backup"
            )
        if table.folder != COMMITS_FOLDER:  # a catalog's, at a place of its own
            return
        makers = await self._ledger.made_by(table.table_key, table.backfilled)
        if makers and not any(is_by(base, maker) for maker in makers):
            raise _AstrayError(
                f"{table.uri}: version {table.backfilled} in the log is not the one that was "
                "ratified: another table has been made in the place of this one"
            )

    @staticmethod
    async def _contents(
        log: TableLog, table: OwnedTable, commits: list[Waiting]
    ) -> list[tuple[bytes, Waiting]]:
        """The bytes of commits; staged ones are read. Raises: StorageError."""

        async def content(commit: Waiting) -> tuple[bytes, Waiting]:
            if commit.content is not None:
                return bytes(commit.content), commit
            assert commit.staged_file is not None
            data = await log.staged(table.folder, commit.staged_file)
            if data is None:  # backfilled by a client, and cleaned up
                data = await log.commit(commit.version)
            if data is None:
                raise StorageError(
                    f"{table.uri}: the file {commit.staged_file} of version {commit.version} is "
                    "gone, before it was backfilled; put it back"
                )
            return data, commit

        return await map_concurrent(content, commits, limit=_AHEAD)


def _first(commits: list[Waiting]) -> list[Waiting]:
    """The first of some commits, at least one, as many as there may be in memory."""
    left = _BYTES
    for at, commit in enumerate(commits):
        left -= commit.size
        if left < 0:
            return commits[: max(1, at)]
    return commits
