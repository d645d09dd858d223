"""Copy a table's changes into PostgreSQL by key, each once, and say over HTTP how far behind it is.

    pip install 'adelta[postgres]'
    python examples/to_postgresql.py s3://lake/customers postgresql://user@host/db customers id

The table needs a change data feed (`delta.enableChangeDataFeed`). Rows and position are one
transaction of PostgreSQL's: killed at any moment, it goes on where it was, and nothing is lost or
there twice. The target is made by the columns of the first batch. ``GET /lag`` on port 8080 answers
with the commits and the seconds that it is behind.
"""

from __future__ import annotations

import argparse
import asyncio

import asyncpg
import pyarrow as pa
from aiohttp import web

from adelta import Consumer, Position, StoredPosition
from adelta.errors import ConsumerTakenOverError

TYPES = (
    (pa.types.is_boolean, "boolean"),
    (pa.types.is_integer, "bigint"),
    (pa.types.is_floating, "double precision"),
    (pa.types.is_decimal, "numeric"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "timestamptz"),
    (pa.types.is_binary, "bytea"),
    (pa.types.is_string, "text"),
)
FEED = {"_change_type", "_commit_version", "_commit_timestamp"}
POSITIONS = """
CREATE TABLE IF NOT EXISTS consumer_positions (
    name text PRIMARY KEY, position text NOT NULL, revision bigint NOT NULL
)
"""
KEEP = """
INSERT INTO consumer_positions VALUES ($1, $2, $3)
ON CONFLICT (name) DO UPDATE SET position = $2, revision = $3
    WHERE consumer_positions.revision = $3 - 1
"""


class Target:
    """A table of PostgreSQL's that changes are put into by key, and the position beside it.

    It is a `PositionStore`: `save` puts what `changes` holds, and keeps the position, in one
    transaction. So a consumer's `acknowledge` does both or neither.
    """

    def __init__(self, connection: asyncpg.Connection, table: str, key: str) -> None:
        self._connection, self._table, self._key = connection, quoted(table), key
        self.changes: pa.Table | None = None

    async def load(self, name: str) -> StoredPosition | None:
        await self._connection.execute(POSITIONS)
        kept = await self._connection.fetchrow(
            "SELECT position, revision FROM consumer_positions WHERE name = $1", name
        )
        return None if kept is None else StoredPosition(Position.parse(kept[0]), kept[1])

    async def save(self, name: str, stored: StoredPosition) -> None:
        async with self._connection.transaction():
            if self.changes is not None:
                await self._put(self.changes)
            done = await self._connection.execute(KEEP, name, str(stored.position), stored.revision)
            if done != "INSERT 0 1":  # and the rows are not put either
                raise ConsumerTakenOverError(f"another process consumes as {name!r}; stop one")
        self.changes = None

    async def aclose(self) -> None:
        """Do nothing: the connection is its maker's."""

    async def _put(self, changes: pa.Table) -> None:
        columns = [field for field in changes.schema if field.name not in FEED]
        names = [quoted(field.name) for field in columns]
        key = quoted(self._key)
        definitions = (
            f"{quoted(field.name)} {sql_type(field.type)}"
            f"{' PRIMARY KEY' if field.name == self._key else ''}"
            for field in columns
        )
        await self._connection.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} ({', '.join(definitions)})"
        )
        values = ", ".join(f"${number}" for number in range(1, len(names) + 1))
        others = [name for name in names if name != key]
        sets = ", ".join(f"{name} = excluded.{name}" for name in others)
        upsert = (
            f"INSERT INTO {self._table} ({', '.join(names)}) VALUES ({values}) "
            f"ON CONFLICT ({key}) DO " + (f"UPDATE SET {sets}" if others else "NOTHING")
        )
        for row in changes.to_pylist():  # in the order in which they happened
            if row["_change_type"] == "delete":
                delete = f"DELETE FROM {self._table} WHERE {key} = $1"
                await self._connection.execute(delete, row[self._key])
            elif row["_change_type"] != "update_preimage":
                await self._connection.execute(upsert, *(row[field.name] for field in columns))


def quoted(name: str) -> str:
    """A name, as SQL text has it."""
    return '"' + name.replace('"', '""') + '"'


def sql_type(type: pa.DataType) -> str:
    """The type of PostgreSQL's that holds what a column of Arrow's does."""
    for holds, name in TYPES:
        if holds(type):
            return name
    raise SystemExit(f"there is no column for {type} here; leave it out, or add it to TYPES")


async def copy(
    source: str,
    database: str,
    table: str,
    key: str,
    *,
    follow: bool = True,
    port: int | None = None,
) -> None:
    """Put what was and is changed in `source` into `table`, and go on where it was left."""
    connection = await asyncpg.connect(database)
    target = Target(connection, table, key)
    name = f"to-postgresql-{table}"
    try:
        async with Consumer(
            source, name, target, of="changes", max_rows=10_000, follow=follow
        ) as consumer:
            server = None if port is None else await serve(consumer, port)
            try:
                async for batch in consumer:
                    target.changes = batch.data if batch.num_rows else None
                    await consumer.acknowledge(batch)
            finally:
                if server is not None:
                    await server.cleanup()
    finally:
        await connection.close()


async def serve(consumer: Consumer, port: int) -> web.AppRunner:
    """Answer on `port` how far behind the consumer is."""

    async def lag(_: web.Request) -> web.Response:
        behind = await consumer.lag()
        return web.json_response(
            {"versions": behind.versions, "seconds": behind.seconds, "at": str(behind.position)}
        )

    app = web.Application()
    app.router.add_get("/lag", lag)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return runner


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    for argument in ("source", "database", "table", "key"):
        parser.add_argument(argument)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--no-follow", dest="follow", action="store_false")
    asyncio.run(copy(**vars(parser.parse_args())))
