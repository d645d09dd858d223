"""The ledger's tables, and how those of an earlier version become this version's.

A migration is a list of statements that is never changed once it has been released: what is to be
different is a further one. All of them that are missing are carried out in one transaction, also
where several instances start at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.owner.database import Statement

if TYPE_CHECKING:
    from adelta.owner.database import Database, Program

__all__ = ["MIGRATIONS", "migrate"]

_LOCK = 0x61646F776E  # of PostgreSQL, for the length of a migration

_FIRST = (
    """CREATE TABLE owner_tables (
        table_key {serial},
        uri TEXT NOT NULL,
        table_id TEXT NOT NULL,
        name TEXT UNIQUE,
        folder TEXT NOT NULL,
        state TEXT NOT NULL,
        latest BIGINT NOT NULL,
        backfilled BIGINT NOT NULL,
        waiting_bytes BIGINT NOT NULL DEFAULT 0,
        description TEXT,
        created_ms BIGINT NOT NULL,
        UNIQUE (uri, table_id)
    ) {updated}""",
    """CREATE TABLE owner_commits (
        table_key BIGINT NOT NULL REFERENCES owner_tables,
        version BIGINT NOT NULL,
        transaction_id TEXT NOT NULL,
        staged_file TEXT,
        content {bytes},
        size BIGINT NOT NULL,
        modified_ms BIGINT NOT NULL,
        timestamp_ms BIGINT NOT NULL,
        PRIMARY KEY (table_key, version)
    )""",
    """CREATE TABLE owner_promises (
        table_key BIGINT NOT NULL REFERENCES owner_tables,
        transaction_id TEXT NOT NULL,
        version BIGINT NOT NULL,
        created_ms BIGINT NOT NULL,
        PRIMARY KEY (table_key, transaction_id)
    )""",
    """CREATE TABLE owner_tokens (
        token_id TEXT PRIMARY KEY,
        hash TEXT NOT NULL,
        rights TEXT NOT NULL,
        prefix TEXT NOT NULL,
        label TEXT NOT NULL,
        created_ms BIGINT NOT NULL,
        expires_ms BIGINT,
        revoked_ms BIGINT
    )""",
)
_FIRST_OF_POSTGRES = (  # what JSON can be compressed by is not worth the time
    "ALTER TABLE owner_commits ALTER COLUMN content SET STORAGE EXTERNAL",
)
MIGRATIONS = ((_FIRST, _FIRST_OF_POSTGRES),)
"""For each version, from 1 on: statements for both databases, and further ones for PostgreSQL."""

_SQLITE = {"serial": "INTEGER PRIMARY KEY", "bytes": "BLOB", "updated": ""}
_POSTGRES = {
    "serial": "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
    "bytes": "BYTEA",
    "updated": "WITH (fillfactor = 50)",  # a row is updated by each commit
}


async def migrate(database: Database) -> None:
    """Bring the ledger's tables to this version.

    Raises:
        InvalidOptionError: they are of a later one.
        StorageError: the database refused or failed, and nothing was changed.
    """
    await database.run(partial(_migration, shared=database.is_shared))


def _migration(shared: bool) -> Program[None]:
    if shared:
        yield Statement(f"SELECT pg_advisory_xact_lock({_LOCK})")
    yield Statement("CREATE TABLE IF NOT EXISTS owner_schema (version BIGINT NOT NULL)")
    rows = yield Statement("SELECT version FROM owner_schema")
    found = int(rows[0][0]) if rows else 0
    if found > len(MIGRATIONS):
        raise InvalidOptionError(
            f"the ledger's tables are of version {found}, and this adelta knows those up to "
            f"{len(MIGRATIONS)}; install the later adelta that made them"
        )
    words = _POSTGRES if shared else _SQLITE
    for both, postgres in MIGRATIONS[found:]:
        for text in (*both, *(postgres if shared else ())):
            yield Statement(text.format(**words))
    if not rows:
        yield Statement("INSERT INTO owner_schema VALUES (0)")
    if found < len(MIGRATIONS):
        yield Statement("UPDATE owner_schema SET version = $1", (len(MIGRATIONS),))
