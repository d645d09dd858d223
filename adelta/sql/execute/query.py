"""SELECT, and whatever else gives rows: by DuckDB, over versions of tables."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.errors import InvalidUseError
from adelta.sql.engine.run import running_query
from adelta.sql.engine.translate import to_duckdb
from adelta.table import Table, open_table

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.snapshot import Snapshot
    from adelta.sql.engine.run import RunningQuery
    from adelta.sql.session import Session
    from adelta.sql.statements import Query, TableReference
    from adelta.write.batches import ArrowStream

__all__ = ["query_rows", "run_query"]


async def run_query(query: Query, session: Session) -> pa.Table:
    """The rows of a query."""
    async with query_rows(query, session) as running, aclosing(running.batches()) as batches:
        found = [batch async for batch in batches]
        return pa.Table.from_batches(found, schema=running.schema)


@asynccontextmanager
async def query_rows(query: Query, session: Session) -> AsyncIterator[RunningQuery]:
    """The query under way; every table is read at one version, however often it is named.

    Raises:
        TableNotFoundError: there is no such table.
        AdeltaError: as `running_query` does.
    """
    async with AsyncExitStack() as stack:
        names: list[str] = []
        tables: dict[str, Snapshot | pa.Table] = {}
        opened: dict[object, Table] = {}
        known: dict[object, str] = {}
        versions: dict[str, int] = {}
        for reference in query.references:
            meant = session.meant(reference.name)
            key = (meant if isinstance(meant, str) else id(meant), reference.as_of)
            if key not in known:
                known[key] = f"adelta_{len(known)}"
                table, uri = await _relation(reference, session, stack, opened)
                tables[known[key]] = table
                if not isinstance(table, pa.Table) and reference.as_of is None:
                    versions[uri] = min(table.version, versions.get(uri, table.version))
            names.append(known[key])
        text = await in_thread(to_duckdb, query, names)
        running = await stack.enter_async_context(running_query(text, tables, zone=session.zone))
        running.versions.update(versions)
        yield running


async def _relation(
    reference: TableReference,
    session: Session,
    stack: AsyncExitStack,
    opened: dict[object, Table],
) -> tuple[Snapshot | pa.Table, str]:
    """What a reference is to, and the address of that."""
    meant = session.meant(reference.name)
    if isinstance(meant, Table):
        return await session.version(meant, reference.as_of), meant.uri
    if not isinstance(meant, str | os.PathLike):
        if reference.as_of is not None:
            raise InvalidUseError(f"{reference.name} means rows at hand, which have no versions")
        return meant if isinstance(meant, pa.Table) else await in_thread(_rows_of, meant), ""
    key = str(meant)
    if key not in opened:
        opened[key] = await stack.enter_async_context(open_table(key, session.storage_options))
    return await session.version(opened[key], reference.as_of), opened[key].uri


def _rows_of(stream: ArrowStream) -> pa.Table:
    return pa.RecordBatchReader.from_stream(stream).read_all()
