"""SQL: the statement that a text spells, run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, TypeAlias

from adelta._arguments import check_text, checked
from adelta._arrow_values import empty_batch
from adelta._concurrency import in_thread
from adelta._streams import stream
from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.text_values import time_zone
from adelta.sql.execute.alter import run_alter
from adelta.sql.execute.clone import run_clone
from adelta.sql.execute.convert import run_analyze, run_convert, run_generate
from adelta.sql.execute.definition import run_create
from adelta.sql.execute.describe import (
    run_describe,
    run_detail,
    run_history,
    run_show_columns,
    run_show_properties,
)
from adelta.sql.execute.merge import run_merge
from adelta.sql.execute.optimize import run_optimize, run_reorg
from adelta.sql.execute.query import query_rows, run_query
from adelta.sql.execute.replacing import run_replacing
from adelta.sql.execute.rows import run_delete, run_insert, run_truncate, run_update
from adelta.sql.execute.show import run_show_definition, run_show_partitions
from adelta.sql.execute.vacuum import run_restore, run_vacuum
from adelta.sql.parse import parse_statement
from adelta.sql.session import Session
from adelta.sql.statements import (
    AlterTable,
    Analyze,
    ConvertToDelta,
    CreateClone,
    CreateTable,
    Delete,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    Generate,
    Insert,
    InsertReplacing,
    Merge,
    Optimize,
    Query,
    Reorg,
    Restore,
    ShowColumns,
    ShowDefinition,
    ShowPartitions,
    ShowProperties,
    TruncateTable,
    Update,
    Vacuum,
)
from adelta.table import Table
from adelta.write.batches import ArrowStream

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable

    import pyarrow as pa

    from adelta.sql.session import NamedTables
    from adelta.sql.statements import Statement

__all__ = ["run_statement", "sql", "sql_batches"]

_Run: TypeAlias = "Callable[[Any, Session], Awaitable[pa.Table]]"

_RUNS: dict[type[Any], _Run] = {
    AlterTable: run_alter,
    Analyze: run_analyze,
    ConvertToDelta: run_convert,
    CreateClone: run_clone,
    CreateTable: run_create,
    Delete: run_delete,
    DescribeDetail: run_detail,
    DescribeHistory: run_history,
    DescribeTable: run_describe,
    Generate: run_generate,
    Insert: run_insert,
    InsertReplacing: run_replacing,
    Optimize: run_optimize,
    Reorg: run_reorg,
    Merge: run_merge,
    Query: run_query,
    Restore: run_restore,
    ShowColumns: run_show_columns,
    ShowDefinition: run_show_definition,
    ShowPartitions: run_show_partitions,
    ShowProperties: run_show_properties,
    TruncateTable: run_truncate,
    Update: run_update,
    Vacuum: run_vacuum,
}


@checked
async def sql(
    text: str,
    *,
    tables: NamedTables | None = None,
    zone: str = "UTC",
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> pa.Table:
    """Run a statement of Delta Spark's SQL, and give what it answers as a table.

    A table is named by its address, ``delta.`/lake/sales` `` or ``'s3://bucket/sales'``, or by a
    name that `tables` has: for handles, addresses and, where it is only read, anything that exports
    an Arrow stream. Times that name no zone are of `zone`.

    ``SELECT`` is run by DuckDB (``pip install 'adelta[sql]'``) with its functions, over adelta's
    scans: columns and files that it does not need are not read. Each table is read at one version,
    which ``VERSION AS OF 3`` and ``TIMESTAMP AS OF '2024-06-01'`` choose. Conditions and values of
    ``DELETE`` and ``UPDATE`` that have queries in them are DuckDB's, too. What changes rows answers
    ``num_affected_rows`` and the like, under the names that Delta Spark has for them; what has
    nothing to say answers a table without columns. A statement is one commit, or none.

    Raises:
        InvalidStatementError: it is no statement that adelta knows, or it is not written as it is
            to be; the error says where.
        InvalidExpressionError: an expression uses what adelta does not evaluate, or does not fit;
            or there is no such time zone.
        TableNotFoundError: there is no such table.
        InvalidUseError: it is a query, and DuckDB is not installed.
        As the operation does that the statement stands for (`adelta.delete` for ``DELETE``).
    """
    session = _session(tables, zone, user_metadata, storage_options)
    statement = await in_thread(parse_statement, text, zone=zone, now=session.now, queries=True)
    return await run_statement(statement, session)


@checked
@stream
async def sql_batches(
    text: str,
    *,
    tables: NamedTables | None = None,
    zone: str = "UTC",
    user_metadata: str | None = None,
    storage_options: Mapping[str, str] | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """What `sql` does, with the answer in batches and in bounded memory; otherwise as `sql`.

    The statement is run when the first batch is asked for. There is one at least, which may have no
    rows.

    Raises: as `sql` does.
    """
    session = _session(tables, zone, user_metadata, storage_options)
    statement = await in_thread(parse_statement, text, zone=zone, now=session.now, queries=True)
    if not isinstance(statement, Query):
        answer = await run_statement(statement, session)
        for batch in answer.to_batches() or [empty_batch(answer.schema)]:
            yield batch
        return
    async with (
        query_rows(statement, session) as running,
        aclosing(running.batches()) as batches,
    ):
        none = True
        async for batch in batches:
            none = False
            yield batch
        if none:
            yield empty_batch(running.schema)


async def run_statement(statement: Statement, session: Session) -> pa.Table:
    """What `sql` does with a statement that has been read."""
    return await _RUNS[type(statement)](statement, session)


def _session(
    tables: NamedTables | None,
    zone: str,
    user_metadata: str | None,
    storage_options: Mapping[str, str] | None,
) -> Session:
    time_zone(zone)
    if tables is not None and not isinstance(tables, Mapping):
        raise InvalidOptionError(
            f"tables is a {type(tables).__name__}; pass a dict of names and the tables they mean"
        )
    for name, table in (tables or {}).items():
        check_text("a name of tables", name)
        if not isinstance(table, (Table, str, os.PathLike, ArrowStream)):
            raise InvalidOptionError(
                f"the name {name!r} means a {type(table).__name__}; pass a table, its address, or "
                "rows that export an Arrow stream"
            )
    return Session(tables or {}, storage_options, zone, user_metadata)
