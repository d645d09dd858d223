"""The tables of the catalog: their names, their places and what the catalog is told of them.

Their commits are the ledger's, like those of every table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adelta._clock import SYSTEM_CLOCK
from adelta._dataclasses import dataclass
from adelta.errors import CommitConflictError
from adelta.owner.database import Statement
from adelta.owner.owned_table import OwnedTable, State

if TYPE_CHECKING:
    from adelta._clock import Clock
    from adelta.owner.database import Database, Program
    from adelta.owner.table_key import TableKey

__all__ = ["DESCRIBE", "CatalogNames", "NamedTable", "StagedCommit", "StaleDescriptionError"]


@dataclass(frozen=True, slots=True)
class StagedCommit:
    """A commit of a table of the catalog; times are in ms since the epoch, sizes in bytes."""

    version: int
    staged_file: str
    size: int
    modified_ms: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class NamedTable:
    """A table of the catalog: its description in JSON, and the commits that wait."""

    table: OwnedTable
    description: str
    created_ms: int
    commits: tuple[StagedCommit, ...] = ()


class StaleDescriptionError(Exception):
    """The description of a table is another one meanwhile."""


DESCRIBE = (
    "UPDATE owner_tables SET description = $3 WHERE table_key = $1 AND description = $2 "
    "RETURNING table_key"
)
"""Changes a description, if it is what it was: the table's key, before and after."""
_DESCRIBE_AT = DESCRIBE.replace(" RETURNING", " AND latest = $4 RETURNING")
_READ_NAMED = (
    "SELECT t.table_key, t.uri, t.table_id, t.folder, t.state, t.latest, t.backfilled, t.name, "
    "t.description, t.created_ms, "
    "c.version, c.staged_file, c.size, c.modified_ms, c.timestamp_ms "
    "FROM owner_tables t LEFT JOIN owner_commits c ON c.table_key = t.table_key "
    "AND c.version > t.backfilled AND c.version <= t.latest WHERE t.name = $1 ORDER BY c.version"
)


class CatalogNames:
    """The names of tables in a `database`."""

    def __init__(self, database: Database, clock: Clock = SYSTEM_CLOCK) -> None:
        self._database = database
        self._clock = clock

    async def find_named(self, name: str) -> NamedTable | None:
        """The table of a name in the catalog, with the commits that wait, all of one moment."""
        rows = await self._database.ask(Statement(_READ_NAMED, (name,)))
        if not rows:
            return None
        table, description, created_ms = rows[0][:8], rows[0][8], rows[0][9]
        commits = tuple(StagedCommit(*row[10:]) for row in rows if row[10] is not None)
        return NamedTable(OwnedTable(*table), description or "{}", created_ms, commits)

    async def stage_name(self, name: str, table: TableKey, folder: str) -> None:
        """Set a place aside for a table of the catalog that is to be created.

        Raises: CommitConflictError: there is a table of that name.
        """
        now = self._clock.now_ms()
        await self._database.run(partial(_stage_name, name, table, folder, now))

    async def own_named(self, table: TableKey, name: str, description: str) -> bool:
        """Own the table that has been created at the place that was set aside for it as `name`.

        False where the name has come to be another table's meanwhile.
        """
        text = (
            "UPDATE owner_tables SET state = 'owned', latest = 0, backfilled = 0, description = $4 "
            "WHERE uri = $1 AND table_id = $2 AND name = $3 AND state = 'promised' "
            "RETURNING table_key"
        )
        arguments = (table.uri, table.table_id, name, description)
        return bool(await self._database.ask(Statement(text, arguments)))

    async def drop(self, table: TableKey) -> bool:
        """Drop a table from the catalog, where nothing is owned by its name any more.

        False where that has been done already.
        """
        return await self._database.run(partial(_drop, table))

    async def describe(
        self, table_key: int, before: str, after: str, latest: int | None = None
    ) -> bool:
        """Change the description of a table; False where it is another one meanwhile.

        So it is where its latest version has to be `latest`, and is another one.
        """
        changed = Statement(DESCRIBE, (table_key, before, after))
        if latest is not None:
            changed = Statement(_DESCRIBE_AT, (*changed.arguments, latest))
        return bool(await self._database.ask(changed))


def _drop(table: TableKey) -> Program[bool]:
    rows = yield Statement(
        "UPDATE owner_tables SET state = 'dropped', name = NULL "
        "WHERE uri = $1 AND table_id = $2 AND name IS NOT NULL RETURNING table_key",
        (table.uri, table.table_id),
    )
    if rows:
        yield Statement("DELETE FROM owner_commits WHERE table_key = $1", (rows[0][0],))
    return bool(rows)


def _stage_name(name: str, table: TableKey, folder: str, now: int) -> Program[None]:
    text = "SELECT table_key, state FROM owner_tables WHERE name = $1 FOR UPDATE"
    rows = yield Statement(text, (name,))
    if rows and rows[0][1] != State.PROMISED:
        raise CommitConflictError(f"there is a table {name} already; choose another name")
    if rows:  # a place at which no table has been created
        yield Statement("DELETE FROM owner_tables WHERE table_key = $1", (rows[0][0],))
    yield Statement(
        "INSERT INTO owner_tables "
        "(uri, table_id, name, folder, state, latest, backfilled, created_ms) "
        "VALUES ($1, $2, $3, $4, 'promised', -1, -1, $5)",
        (table.uri, table.table_id, name, folder, now),
    )
