"""The ledger: which commits of which tables have been ratified, in a database.

All of what an owner promises stands here, and nothing in the memory of a process: of all commits
proposed for one version at most one is ever ratified, after the one before it, and each change is
one transaction. The row of a table is what excludes others: a commit takes the next version by
changing it under the condition that it still has the version before.

Commits are kept until some time after they have been backfilled, so that whoever loses a race is
told of the winners without a look into the store.
"""

from __future__ import annotations

from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

from adelta._clock import SYSTEM_CLOCK
from adelta._dataclasses import dataclass
from adelta.commit.owner import CommitResponse, RatifiedCommit, RatifiedCommits
from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidTableError,
    StorageError,
    TableNotFoundError,
    ThrottledError,
)
from adelta.owner.catalog_names import DESCRIBE, StaleDescriptionError
from adelta.owner.database import Statement
from adelta.owner.owned_table import OwnedTable, State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta._clock import Clock
    from adelta.commit.owner import ProposedCommit
    from adelta.owner.database import Database, Program, Rows
    from adelta.owner.table_key import TableKey

__all__ = [
    "Ledger",
    "LedgerLimits",
    "UnsettledError",
    "Waiting",
    "not_owned",
]


@dataclass(frozen=True, slots=True)
class LedgerLimits:
    """How much of one table may wait to be backfilled, and what is kept of what has been.

    `waiting_bytes` are those of commits that were given inline. The last `kept_commits` stay after
    they have been backfilled, and a few more.
    """

    waiting_commits: int = 4096
    waiting_bytes: int = 64 << 20
    kept_commits: int = 100


@dataclass(frozen=True, slots=True)
class Waiting:
    """A ratified commit that is to be backfilled, of `size` bytes by what its writer says."""

    version: int
    staged_file: str | None
    content: bytes | None
    size: int


class UnsettledError(Exception):
    """The table has been promised to be owned, and the log may say that it is."""


_TABLE = "table_key, uri, table_id, folder, state, latest, backfilled, name"
_TAKE = (
    "UPDATE owner_tables SET latest = $3, waiting_bytes = waiting_bytes + $4 "
    "WHERE uri = $1 AND table_id = $2 AND state = 'owned' AND latest = $5 "
    "AND latest - backfilled < $6 AND waiting_bytes <= $7 RETURNING table_key"
)
_TAKE_LAST = (
    "UPDATE owner_tables SET latest = $3, waiting_bytes = waiting_bytes + $4, state = 'releasing' "
    "WHERE uri = $1 AND table_id = $2 AND state = 'owned' AND latest = $5 RETURNING table_key"
)
_COLUMNS = (
    "table_key, version, transaction_id, staged_file, content, size, modified_ms, timestamp_ms"
)
_KEEP = f"INSERT INTO owner_commits ({_COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)"
_TAKE_AND_KEEP = (
    f"WITH taken AS ({_TAKE}) INSERT INTO owner_commits ({_COLUMNS}) "
    "SELECT table_key, $3, $8, $9, $10, $11, $12, $13 FROM taken RETURNING table_key"
)
_READ = (
    "SELECT t.table_key, t.state, t.latest, t.backfilled, t.state <> 'owned' AND EXISTS "
    "(SELECT 1 FROM owner_promises p WHERE p.table_key = t.table_key AND p.version > t.latest), "
    "c.version, c.transaction_id, c.staged_file, c.content, c.size, c.modified_ms "
    "FROM owner_tables t LEFT JOIN owner_commits c ON c.table_key = t.table_key "
    "AND c.version >= {first} AND c.version <= $4 AND c.version <= t.latest "
    "WHERE t.uri = $1 AND t.table_id = $2 ORDER BY c.version"
)
_READ_FROM = _READ.format(first="$3")
_READ_WAITING = _READ.format(
    first="(CASE WHEN t.backfilled >= $3 THEN t.backfilled + 1 ELSE $3 END)"
)
_BACKLOG = (
    "SELECT t.table_key, t.uri, t.table_id, t.folder, t.state, t.latest, t.backfilled, t.name, "
    "c.version, c.staged_file, c.content, c.size "
    "FROM owner_tables t LEFT JOIN owner_commits c ON c.table_key = t.table_key "
    "AND c.version > t.backfilled AND c.version <= t.latest "
    "WHERE t.uri = $1 AND t.table_id = $2 ORDER BY c.version LIMIT $3"
)
_MOVE = (
    "UPDATE owner_tables SET backfilled = $3, waiting_bytes = waiting_bytes - $4, "
    "state = CASE WHEN state = 'releasing' AND latest = $3 THEN 'released' ELSE state END "
    "WHERE table_key = $1 AND backfilled = $2 RETURNING table_key"
)
_SWEPT = 32  # commits that are deleted together
_LAST = 2**63 - 1
_ATTEMPTS = 3


class Ledger:
    """The tables and commits in a `database`."""

    def __init__(
        self,
        database: Database,
        limits: LedgerLimits | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.database = database
        self.limits = limits or LedgerLimits()
        self.clock = clock

    # ---------------------------------------------------------------------------------- reading

    async def get_commits(
        self, table: TableKey, start: int | None = None, end: int | None = None
    ) -> RatifiedCommits:
        """The commits of a range that are kept, those that wait by default, and the latest version.

        Raises:
            TableNotFoundError: the table is not owned.
            UnsettledError: it may be; the log says so.
            StorageError: the database failed.
        """
        rows = await self.database.ask(_reading(table, start, end))
        return _told(table, rows)

    async def get_commits_together(
        self, tables: Sequence[tuple[TableKey, int | None]]
    ) -> tuple[RatifiedCommits, ...]:
        """What `get_commits` says of each table from a version on, all of one moment.

        Raises: as `get_commits`.
        """
        answers = await self.database.run(partial(_all_read, tables), reads=True)
        told = zip(tables, answers, strict=True)
        return tuple(_told(table, rows) for (table, _), rows in told)

    async def find(self, table: TableKey) -> OwnedTable | None:
        """What is known of a table, whoever owns it now."""
        text = f"SELECT {_TABLE} FROM owner_tables WHERE uri = $1 AND table_id = $2"
        rows = await self.database.ask(Statement(text, (table.uri, table.table_id)))
        return OwnedTable(*rows[0]) if rows else None

    async def namesakes(self, table: TableKey) -> list[OwnedTable]:
        """Tables that are owned, have the id of a table, and another root."""
        text = (
            f"SELECT {_TABLE} FROM owner_tables WHERE uri <> $1 AND table_id = $2 "
            "AND state IN ('owned', 'releasing')"
        )
        rows = await self.database.ask(Statement(text, (table.uri, table.table_id)))
        return [OwnedTable(*row) for row in rows]

    async def tables(self, after: int = -1, limit: int = 1000) -> list[OwnedTable]:
        """Tables that are owned or were, in the order in which they came; the next ones `after`."""
        text = f"SELECT {_TABLE} FROM owner_tables WHERE table_key > $1 ORDER BY table_key LIMIT $2"
        return [
            OwnedTable(*row) for row in await self.database.ask(Statement(text, (after, limit)))
        ]

    async def latest_of(self, tables: Sequence[TableKey]) -> dict[TableKey, int]:
        """The latest versions of tables, without those that are not owned."""
        answers = await self.database.run(partial(_latest, tables), reads=True)
        told = zip(tables, answers, strict=True)
        return {table: int(rows[0][0]) for table, rows in told if rows}

    # ---------------------------------------------------------------------------------- commits

    async def commit(
        self,
        table: TableKey,
        proposed: ProposedCommit,
        describe: tuple[str, str] | None = None,
    ) -> CommitResponse:
        """Ratify a commit, if its version is the next one; the same again is ratified already.

        With it, the description of the table is changed: what it is before, and after.

        Raises:
            StaleDescriptionError: the description is another one; nothing was ratified.
            ThrottledError: too much of the table waits to be backfilled.
            TableNotFoundError: the table is not owned.
            UnsettledError: it may be; the log says so.
            InvalidTableError: the version is later than the next one.
            StorageError: the database failed.
            CommitOutcomeUnknownError: it may have been ratified.
        """
        for _ in range(_ATTEMPTS):
            if await self._taken(table, proposed, describe):
                return CommitResponse(ratified=True)
            refused = await self._why_not(table, proposed)
            if refused is not None:
                return refused
        raise self._throttled(table)

    async def _taken(
        self, table: TableKey, proposed: ProposedCommit, describe: tuple[str, str] | None
    ) -> bool:
        if describe is not None or not self.database.joins_writes:
            return await self.database.run(partial(self._take, table, proposed, describe))
        arguments = (*self._asked(table, proposed), *_kept(proposed))
        return bool(await self.database.ask(Statement(_TAKE_AND_KEEP, arguments)))

    def _asked(self, table: TableKey, proposed: ProposedCommit) -> tuple[object, ...]:
        limits, version = self.limits, proposed.version
        size = 0 if proposed.staged_file else len(proposed.content)
        waiting = (limits.waiting_commits, limits.waiting_bytes - size)
        return (table.uri, table.table_id, version, size, version - 1, *waiting)

    def _take(
        self, table: TableKey, proposed: ProposedCommit, describe: tuple[str, str] | None = None
    ) -> Program[bool]:
        taken = yield Statement(_TAKE, self._asked(table, proposed))
        if not taken:
            return False
        if describe is not None and not (yield Statement(DESCRIBE, (taken[0][0], *describe))):
            raise StaleDescriptionError
        yield Statement(_KEEP, (taken[0][0], proposed.version, *_kept(proposed)))
        return True

    async def _why_not(self, table: TableKey, proposed: ProposedCommit) -> CommitResponse | None:
        """Why a version was not to be taken; None where that has changed, or too much waits."""
        with _in_doubt():
            rows = await self.database.ask(_reading(table, proposed.version))
        return _answered(table, proposed, rows)

    async def commit_together(
        self, proposals: Sequence[tuple[TableKey, ProposedCommit]]
    ) -> tuple[CommitResponse, ...]:
        """Ratify all commits in one transaction, or none of them; the answers in that order.

        Raises: as `commit`; and InvalidOptionError where a table is named twice.
        """
        if len({table for table, _ in proposals}) < len(proposals):
            raise InvalidOptionError("commits of several tables name one table twice")
        for _ in range(_ATTEMPTS):
            try:
                await self.database.run(partial(self._take_all, proposals))
            except _NotTakenError:
                pass
            else:
                return tuple(CommitResponse(ratified=True) for _ in proposals)
            asked = [(table, proposed.version) for table, proposed in proposals]
            with _in_doubt():
                read = await self.database.run(partial(_all_read, asked), reads=True)
            told = zip(proposals, read, strict=True)
            answers = [(table, p, rows, _answered(table, p, rows)) for (table, p), rows in told]
            if all(answer is not None and answer.ratified for *_, answer in answers):
                return tuple(CommitResponse(ratified=True, again=True) for _ in proposals)
            if any(answer is not None for *_, answer in answers):
                return tuple(_lost(table, rows) for table, _, rows, _ in answers)
        raise self._throttled(*(table for table, _ in proposals))

    def _take_all(self, proposals: Sequence[tuple[TableKey, ProposedCommit]]) -> Program[None]:
        for table, proposed in sorted(proposals, key=lambda each: each[0]):  # else two deadlock
            if not (yield from self._take(table, proposed)):
                raise _NotTakenError

    def _throttled(self, *tables: TableKey) -> ThrottledError:
        names = ", ".join(table.uri for table in tables)
        return ThrottledError(
            f"{names}: {self.limits.waiting_commits:,} commits or {self.limits.waiting_bytes:,} "
            "bytes of them wait to be backfilled; nothing was committed, try again in a moment"
        )

    # -------------------------------------------------------------------------------- ownership

    async def promise(
        self, table: TableKey, folder: str, proposed: ProposedCommit, *, again: bool = False
    ) -> None:
        """Keep the promise to own a table, if `proposed` gets into its log.

        `folder` of the log is that of its un-backfilled commits. A table that is owned is promised
        `again` where its log goes beyond the ledger.

        Raises:
            CommitConflictError: the table is owned already.
            StorageError: the database failed.
        """
        now = self.clock.now_ms()
        await self.database.run(partial(_promise, table, folder, proposed, now, again=again))

    async def promises(self, table: TableKey) -> list[tuple[str, int]]:
        """The promises of a table that are not settled: transaction ids and versions."""
        text = (
            "SELECT p.transaction_id, p.version FROM owner_promises p JOIN owner_tables t "
            "ON p.table_key = t.table_key AND p.version > t.latest "
            "WHERE t.uri = $1 AND t.table_id = $2 ORDER BY p.version"
        )
        rows = await self.database.ask(Statement(text, (table.uri, table.table_id)))
        return [(str(row[0]), int(row[1])) for row in rows]

    async def promised(self, after: int = -1, limit: int = 1000) -> list[OwnedTable]:
        """Tables of which some promise is to be kept or forgotten, in order, as `backlog` does."""
        text = (
            f"SELECT {_TABLE} FROM owner_tables t WHERE EXISTS (SELECT 1 FROM owner_promises p "
            "WHERE p.table_key = t.table_key AND p.version > t.latest) "
            "AND table_key > $1 ORDER BY table_key LIMIT $2"
        )
        rows = await self.database.ask(Statement(text, (after, limit)))
        return [OwnedTable(*row) for row in rows]

    async def keep_promise(self, table: TableKey, version: int) -> None:
        """Own a table, whose log has the commit of `version` that was promised for."""
        await self.database.run(partial(_keep_promise, table, version))

    async def forget_promise(self, table: TableKey, transaction_id: str, version: int) -> None:
        """Forget a promise: another commit is in the log where the one of `version` was to be.

        One that has been made for a later version meanwhile is another promise, and stands.
        """
        text = (
            "DELETE FROM owner_promises WHERE transaction_id = $3 AND version = $4 AND table_key = "
            "(SELECT table_key FROM owner_tables WHERE uri = $1 AND table_id = $2)"
        )
        asked = (table.uri, table.table_id, transaction_id, version)
        await self.database.ask(Statement(text, asked))

    async def release(self, table: TableKey, proposed: ProposedCommit) -> CommitResponse:
        """Ratify the last commit of a table; no other is ratified after it.

        Raises: as `commit`.
        """
        arguments = self._asked(table, proposed)[:5]
        if await self.database.run(partial(_take_last, arguments, proposed)):
            return CommitResponse(ratified=True)
        refused = await self._why_not(table, proposed)
        if refused is None:
            raise StorageError(
                f"{table.uri}: others commit to it; nothing was committed, try again"
            )
        return refused

    # --------------------------------------------------------------------------------- backfill

    async def backlog(self, after: int = -1, limit: int = 1000) -> list[OwnedTable]:
        """Tables of which commits wait to be backfilled, in order; the next ones `after` a key."""
        text = (
            f"SELECT {_TABLE} FROM owner_tables WHERE latest > backfilled "
            "AND state NOT IN ('replaced', 'dropped') AND table_key > $1 "
            "ORDER BY table_key LIMIT $2"
        )
        rows = await self.database.ask(Statement(text, (after, limit)))
        return [OwnedTable(*row) for row in rows]

    async def backlog_of(
        self, table: TableKey, limit: int
    ) -> tuple[OwnedTable | None, list[Waiting]]:
        """What is known of a table, and its first commits that wait, in order."""
        rows = await self.database.ask(Statement(_BACKLOG, (table.uri, table.table_id, limit)))
        found = OwnedTable(*rows[0][:8]) if rows else None
        return found, [Waiting(*row[8:]) for row in rows if row[8] is not None]

    async def made_by(self, table_key: int, version: int) -> frozenset[str]:
        """Ids of transactions, one of which made a version; none where that is not known."""
        text = (
            "SELECT transaction_id FROM owner_commits WHERE table_key = $1 AND version = $2 UNION "
            "SELECT transaction_id FROM owner_promises WHERE table_key = $1 AND version = $2"
        )
        rows = await self.database.ask(Statement(text, (table_key, version)))
        return frozenset(str(row[0]) for row in rows)

    async def note_backfilled(
        self, table_key: int, before: int, version: int, inline_bytes: int
    ) -> bool:
        """Take in that the commits after `before` up to `version` are in the log's folder.

        `inline_bytes` are those of them that were given inline. False where another instance has
        been faster.
        """
        moved = Statement(_MOVE, (table_key, before, version, inline_bytes))
        last = version - self.limits.kept_commits
        if last < 0 or before // _SWEPT == version // _SWEPT:
            return bool(await self.database.ask(moved))
        return await self.database.run(partial(_move_and_sweep, moved, table_key, last))


class _NotTakenError(Exception):
    """A version was not to be had, so that the transaction is rolled back."""


def _kept(proposed: ProposedCommit) -> tuple[object, ...]:
    """What is kept of a commit, from the transaction's id on."""
    content = None if proposed.staged_file else proposed.content
    return (
        proposed.transaction_id,
        proposed.staged_file,
        content,
        proposed.size,
        proposed.modified_ms,
        proposed.in_commit_timestamp,
    )


def _reading(table: TableKey, start: int | None = None, end: int | None = None) -> Statement:
    text = _READ_WAITING if start is None else _READ_FROM
    return Statement(text, (table.uri, table.table_id, start or 0, _LAST if end is None else end))


def _all_read(tables: Sequence[tuple[TableKey, int | None]]) -> Program[list[Rows]]:
    answers = []
    for table, start in tables:
        rows = yield _reading(table, start)
        answers.append(rows)
    return answers


def _latest(tables: Sequence[TableKey]) -> Program[list[Rows]]:
    text = "SELECT latest FROM owner_tables WHERE uri = $1 AND table_id = $2 AND latest >= 0"
    answers = []
    for table in tables:
        rows = yield Statement(text, (table.uri, table.table_id))
        answers.append(rows)
    return answers


def _told(table: TableKey, rows: Rows) -> RatifiedCommits:
    """What is said of a table that is owned. Raises: TableNotFoundError, UnsettledError."""
    state = rows[0][1] if rows else None
    if rows and rows[0][4]:
        raise UnsettledError
    if state not in (State.OWNED, State.RELEASING):
        raise not_owned(table, None if state is None else str(state))
    return _ratified(rows)


def _ratified(rows: Rows) -> RatifiedCommits:
    commits = tuple(
        RatifiedCommit(version, staged, None if staged else content, size, modified)
        for *_, version, _, staged, content, size, modified in rows
        if version is not None
    )
    return RatifiedCommits(rows[0][2], commits)


def not_owned(table: TableKey, state: str | None) -> TableNotFoundError:
    """The error that says that a table is not owned, which is in a `state`, or not known."""
    reasons: dict[str, str] = {
        State.RELEASED: "it owned it once, and has released it",
        State.REPLACED: "another table lies in its place",
        State.DROPPED: "it has been dropped from the catalog",
        State.PROMISED: "it would own it, if the commit that says so were in its log",
    }
    reason = reasons.get(state or "", "it does not know it")
    return TableNotFoundError(
        f"the commit owner does not own the table {table.uri} of the id {table.table_id}: "
        f"{reason}. Open the table again, by the root by which it was adopted"
    )


def _lost(table: TableKey, rows: Rows) -> CommitResponse:
    return CommitResponse(ratified=False, latest=_told(table, rows))


@contextmanager
def _in_doubt() -> Iterator[None]:
    """Look inside why a version was not to be taken: where that fails, nobody knows whose it is.

    It may be that of the same proposal, which something on the way has brought twice.
    """
    try:
        yield
    except StorageError as error:
        raise CommitOutcomeUnknownError(
            f"whether the commit was ratified before is not known: {error}"
        ) from error


def _answered(table: TableKey, proposed: ProposedCommit, rows: Rows) -> CommitResponse | None:
    """What a commit that was not taken is answered; None where it may be taken now.

    Raises: TableNotFoundError, UnsettledError, InvalidTableError.
    """
    if not rows or rows[0][4]:
        _told(table, rows)
    latest = int(rows[0][2])
    if proposed.version <= latest:
        found = [row for row in rows if row[5] == proposed.version]
        if found and found[0][6] == proposed.transaction_id:
            return CommitResponse(ratified=True, again=True)
        return _lost(table, rows)
    _told(table, rows)
    if rows[0][1] != State.OWNED:
        raise not_owned(table, State.RELEASED)
    if proposed.version > latest + 1:
        raise InvalidTableError(
            f"{table.uri}: version {latest + 1} comes next, not {proposed.version}; open the table "
            "again, and look at its log where that does not help: an owner whose database was "
            "restored from a backup is told of later commits by adelta owner recover"
        )
    return None


def _promise(
    table: TableKey, folder: str, proposed: ProposedCommit, now: int, *, again: bool
) -> Program[None]:
    yield Statement(
        "INSERT INTO owner_tables (uri, table_id, folder, state, latest, backfilled, created_ms) "
        "VALUES ($1, $2, $3, 'promised', -1, -1, $4) ON CONFLICT (uri, table_id) DO NOTHING",
        (table.uri, table.table_id, folder, now),
    )
    rows = yield Statement(
        "SELECT table_key, state, latest FROM owner_tables WHERE uri = $1 AND table_id = $2 "
        "FOR UPDATE",
        (table.uri, table.table_id),
    )
    table_key, state, latest = rows[0]
    owned = state == State.RELEASING or (state == State.OWNED and not again)
    if owned or proposed.version <= latest:
        raise CommitConflictError(
            f"{table.uri}: the commit owner has it already, up to version {latest}; open the table "
            "again, and release it first where the owner's address is to change"
        )
    yield Statement(  # a request that took long may come after one for a later version
        "INSERT INTO owner_promises VALUES ($1, $2, $3, $4) "
        "ON CONFLICT (table_key, transaction_id) DO UPDATE SET version = $3 "
        "WHERE owner_promises.version < $3",
        (table_key, proposed.transaction_id, proposed.version, now),
    )


def _keep_promise(table: TableKey, version: int) -> Program[None]:
    rows: Any = yield Statement(
        "UPDATE owner_tables SET state = 'owned', latest = $3, backfilled = $3, waiting_bytes = 0 "
        "WHERE uri = $1 AND table_id = $2 AND latest < $3 AND (state IN "
        "('promised', 'released', 'replaced') OR state = 'owned' AND backfilled = latest) "
        "RETURNING table_key",
        (table.uri, table.table_id, version),
    )
    if not rows:  # another instance has done so
        return
    yield Statement(  # the one that is kept says by whom the version was made
        "DELETE FROM owner_promises WHERE table_key = $1 AND version <> $2", (rows[0][0], version)
    )
    yield Statement("DELETE FROM owner_commits WHERE table_key = $1", (rows[0][0],))
    yield Statement(
        "UPDATE owner_tables SET state = 'replaced', name = NULL "
        "WHERE uri = $1 AND table_id <> $2 AND state NOT IN ('promised', 'replaced')",
        (table.uri, table.table_id),
    )
    yield Statement(  # what nobody else has is kept, for whoever put the other there by mistake
        "DELETE FROM owner_commits WHERE table_key IN "
        "(SELECT table_key FROM owner_tables WHERE uri = $1 AND state = 'replaced') AND version <= "
        "(SELECT backfilled FROM owner_tables t WHERE t.table_key = owner_commits.table_key)",
        (table.uri,),
    )


def _take_last(arguments: tuple[object, ...], proposed: ProposedCommit) -> Program[bool]:
    taken = yield Statement(_TAKE_LAST, arguments)
    if not taken:
        return False
    yield Statement(_KEEP, (taken[0][0], proposed.version, *_kept(proposed)))
    return True


def _move_and_sweep(moved: Statement, table_key: int, last: int) -> Program[bool]:
    rows = yield moved
    if rows:
        yield Statement(
            "DELETE FROM owner_commits WHERE table_key = $1 AND version <= $2", (table_key, last)
        )
    return bool(rows)
