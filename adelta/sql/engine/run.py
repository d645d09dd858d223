"""One query in DuckDB: its tables are scans of adelta's, which read what the query needs of them.

DuckDB asks a table for the columns and the filters of its plan; files, row groups and columns that
these leave out are not read. It sees nothing but these tables: no files, no variables, no network.
"""

from __future__ import annotations

import tempfile
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._chance import new_uuid
from adelta._concurrency import in_engine_thread, to_the_end
from adelta._memory import default_memory_limit
from adelta.errors import InvalidStatementError, InvalidUseError, OutOfMemoryError
from adelta.sql.engine.feed import Feeds

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping

    from adelta.snapshot import Snapshot

__all__ = ["RunningQuery", "running_query"]

_BATCH_ROWS = 64 * 1024
_TOO_DEEP = ("Max expression depth limit", "memory exhausted at or near")
"""What DuckDB says of a query that nests too deeply: its binder, and its parser."""


class RunningQuery:
    """A query under way: the schema of its rows, and the rows.

    `versions` are those of tables, by their addresses, that it reads because they are the latest.
    """

    def __init__(self, connection: Any, reader: pa.RecordBatchReader, feeds: Feeds) -> None:
        self.versions: dict[str, int] = {}
        self._connection = connection
        self._reader = reader
        self._feeds = feeds

    @property
    def schema(self) -> pa.Schema:
        """The schema of the rows."""
        return self._reader.schema

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows, each once.

        Raises:
            AdeltaError: as scans do.
            InvalidStatementError: the query fails.
        """
        while (batch := await _in_engine(self._connection, self._feeds, self._next)) is not None:
            if batch.num_rows:
                yield batch

    def _next(self) -> pa.RecordBatch | None:
        try:
            return self._reader.read_next_batch()
        except StopIteration:
            return None


@asynccontextmanager
async def running_query(
    text: str, tables: Mapping[str, Snapshot | pa.Table], *, zone: str
) -> AsyncIterator[RunningQuery]:
    """The query `text`, in DuckDB's SQL, over `tables`; times are of `zone`.

    Raises:
        InvalidUseError: DuckDB is not installed.
        InvalidStatementError: DuckDB refuses the query; the message says why.
        AdeltaError: as scans do.
    """
    feeds = Feeds()
    connection: Any = None
    try:
        connection = await in_engine_thread(lambda: _connect(zone), lambda: None)
        for name, table in tables.items():
            source = table if isinstance(table, pa.Table) else _relation(table, feeds)
            connection.register(f"{name}_rows", source)
        reader = await _in_engine(connection, feeds, lambda: _begin(connection, tables, text))
        yield RunningQuery(connection, reader, feeds)
    finally:
        feeds.interrupt()
        if connection is not None:
            connection.interrupt()
            await to_the_end(in_engine_thread(connection.close, lambda: None))
        await to_the_end(feeds.aclose())


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise InvalidUseError(
            "queries in SQL need DuckDB, which is not installed: pip install 'adelta[sql]'"
        ) from error
    return duckdb


def _connect(zone: str) -> Any:
    duckdb = _duckdb()
    spill = Path(tempfile.gettempdir(), f"adelta-sql-{new_uuid().hex}")  # made if it is needed
    connection = duckdb.connect(
        ":memory:",
        config={
            "python_enable_replacements": "false",
            "temp_directory": str(spill),
            "memory_limit": f"{default_memory_limit()}B",
            "enable_external_access": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    quoted = zone.replace("'", "''")
    connection.execute(f"SET TimeZone = '{quoted}'")
    connection.execute("SET lock_configuration = true")
    return connection


def _view(name: str) -> str:
    """A table as queries see it.

    Of rows that come from Arrow, DuckDB makes no hash table for a query within a query that asks
    something computed of each row outside: it compares every row with every row. What is a union,
    if only with nothing, it joins; columns and filters are asked of the rows as before.
    """
    rows = f"SELECT * FROM {name}_rows"
    return f"CREATE TEMP VIEW {name} AS {rows} UNION ALL {rows} WHERE false"


def _begin(connection: Any, tables: Iterable[str], text: str) -> pa.RecordBatchReader:
    for name in tables:
        connection.execute(_view(name))
    reader: pa.RecordBatchReader = connection.sql(text).to_arrow_reader(_BATCH_ROWS)
    return reader


async def _in_engine(connection: Any, feeds: Feeds, work: Any) -> Any:
    """What a call of DuckDB's gives, in a thread, with errors as adelta has them."""

    def interrupt() -> None:
        feeds.interrupt()
        connection.interrupt()

    duckdb = _duckdb()
    try:
        return await in_engine_thread(work, interrupt)
    except (duckdb.Error, pa.ArrowException, OSError) as error:
        if feeds.failure is not None:
            raise feeds.failure from None
        if isinstance(error, duckdb.OutOfMemoryException):
            raise OutOfMemoryError(f"the query takes too much memory: {error}") from error
        if any(said in str(error) for said in _TOO_DEEP):
            raise InvalidStatementError(
                "the query nests deeper than DuckDB, which runs it, allows (about 1,000 levels, of "
                "queries in queries less): write IN for many comparisons of one column and a OR b "
                "OR c without parentheses, or give many values as a table of their own (tables=) "
                "and join that"
            ) from error
        raise InvalidStatementError(f"the query cannot be run: {error}") from error


def _relation(snapshot: Snapshot, feeds: Feeds) -> Any:
    from adelta.sql.engine.relation import ScannedTable  # which loads pyarrow.dataset

    return ScannedTable(snapshot, feeds)
