"""Positions of consumers in a table of PostgreSQL."""

from __future__ import annotations

import importlib
import importlib.util
import re
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from adelta._arguments import check_text
from adelta.consumers.positions import (
    PositionStore,
    StoredPosition,
    check_consumer_name,
    taken_over,
)
from adelta.errors import InvalidOptionError, StorageError
from adelta.kernel.position import Position

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

__all__ = ["PostgresqlPositions", "is_postgresql"]

_SCHEMES = ("postgresql://", "postgres://")
_TABLE = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")
_SECONDS = 30.0
# Without a cache of statements PgBouncer may stand in between, whatever its mode.
_CONNECTION = {"timeout": _SECONDS, "command_timeout": _SECONDS, "statement_cache_size": 0}

_CREATE = """
CREATE TABLE IF NOT EXISTS {table} (
    name text PRIMARY KEY, position text NOT NULL, revision bigint NOT NULL,
    saved_at timestamptz NOT NULL DEFAULT now()
)
"""
_LOAD = "SELECT position, revision FROM {table} WHERE name = $1"
_FIRST = """
INSERT INTO {table} (name, position, revision) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING
"""
_NEXT = """
UPDATE {table} SET position = $2, revision = $3, saved_at = now()
WHERE name = $1 AND revision = $3 - 1
"""


def is_postgresql(address: str) -> bool:
    """Whether an address is that of a PostgreSQL server."""
    return address.startswith(_SCHEMES)


class PostgresqlPositions(PositionStore):
    """Positions in a table of the PostgreSQL server at `address`, a row a consumer.

    The table, of that name, is made where it is not there. It needs ``adelta[postgres]``.

    Raises:
        InvalidOptionError: the address or the table's name is none, or asyncpg is not installed.
    """

    def __init__(self, address: str, *, table: str = "adelta_positions") -> None:
        if not is_postgresql(check_text("address", address)):
            raise InvalidOptionError(
                "positions in PostgreSQL need the address of a server, such as "
                "postgresql://user:password@host:5432/database"
            )
        if _TABLE.fullmatch(check_text("table", table)) is None:
            raise InvalidOptionError(
                f"{table!r:.100} is no plain name of a table; pass small letters, digits and "
                "underscores, with or without a schema"
            )
        if importlib.util.find_spec("asyncpg") is None:
            raise InvalidOptionError(
                "positions in PostgreSQL need asyncpg: pip install 'adelta[postgres]'"
            )
        self._address = address
        self._table = table
        self._is_there = False

    def __repr__(self) -> str:
        return f"PostgresqlPositions(table={self._table!r})"

    async def load(self, name: str) -> StoredPosition | None:
        """What was saved last; None where nothing was.

        Raises:
            StorageError: the server refused or failed.
        """
        check_consumer_name(name)
        async with self._connected() as connection:
            row = await connection.fetchrow(_LOAD.format(table=self._table), name)
        if row is None:
            return None
        return StoredPosition(Position.parse(row["position"]), row["revision"])

    async def save(self, name: str, stored: StoredPosition) -> None:
        """Keep `stored` instead of what was saved before it.

        Raises:
            ConsumerTakenOverError: another process has saved since.
            StorageError: the server refused or failed.
        """
        statement = (_FIRST if stored.revision == 1 else _NEXT).format(table=self._table)
        async with self._connected() as connection:
            done = await connection.execute(
                statement, check_consumer_name(name), str(stored.position), stored.revision
            )
        if not done.endswith(" 1"):
            raise taken_over(name, f"the table {self._table} of PostgreSQL")

    async def aclose(self) -> None:
        """Give back nothing: every call has its own connection."""

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        asyncpg: Any = importlib.import_module("asyncpg")
        try:
            connection = await asyncpg.connect(self._address, **_CONNECTION)
            try:
                if not self._is_there:
                    await connection.execute(_CREATE.format(table=self._table))
                    self._is_there = True
                yield connection
            finally:
                await connection.close(timeout=_SECONDS)
        except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
            raise StorageError(
                f"the positions in PostgreSQL cannot be reached or used: {error}"
            ) from error
