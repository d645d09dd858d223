"""INSERT, DELETE, UPDATE and TRUNCATE."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.sql import to_sql
from adelta.operations.delete import delete
from adelta.operations.update import update
from adelta.operations.write_kind import WriteKind
from adelta.operations.write_transactions import WriteRequest, change_rows
from adelta.sql.execute.by_query import change_by_query, holds_query
from adelta.sql.execute.full_names import renamed as by_full_name
from adelta.sql.execute.full_names import set_columns
from adelta.sql.execute.query import query_rows
from adelta.sql.execute.values import default_of, values_table
from adelta.sql.records import AFFECTED, INSERTED, NOTHING, table_of
from adelta.sql.statements import Values

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.snapshot import Snapshot
    from adelta.sql.engine.run import RunningQuery
    from adelta.sql.session import Session
    from adelta.sql.statements import Delete, Insert, TruncateTable, Update
    from adelta.write.batches import Data

__all__ = [
    "in_order",
    "overwrites_dynamically",
    "renamed",
    "replaced_rows",
    "run_delete",
    "run_insert",
    "run_truncate",
    "run_update",
    "target_columns",
]

_COMPUTED = ("delta.generationExpression", "delta.identity.start")


async def run_delete(statement: Delete, session: Session) -> pa.Table:
    """Delete rows."""
    if holds_query(statement):
        return _affected((await change_by_query(statement, session)).num_target_rows_deleted)
    async with session.opened(statement.table) as table:
        where = None
        if statement.where is not None:
            schema = (await table.snapshot()).delta_schema
            alias = statement.alias or _last(statement)
            node = _by_column(statement.where.node, statement)
            where = await in_thread(session.condition, node, schema, alias)
        done = await delete(table, where, user_metadata=session.user_metadata)
    return _affected(done.num_deleted_rows)


async def run_update(statement: Update, session: Session) -> pa.Table:
    """Update rows."""
    if holds_query(statement):
        return _affected((await change_by_query(statement, session)).num_target_rows_updated)
    alias = statement.alias or _last(statement)
    async with session.opened(statement.table) as table:
        schema = (await table.snapshot()).delta_schema

        def fitted() -> tuple[dict[str, Node], Node | None]:
            values: dict[str, Node] = {}
            for name, value in set_columns(statement, schema):
                if value is None:
                    values[name] = default_of(schema, name, session)
                else:
                    node = _by_column(value.node, statement)
                    values[name] = session.value(node, schema, alias)
            where = statement.where
            if where is None:
                return values, None
            return values, session.condition(_by_column(where.node, statement), schema, alias)

        values, where = await in_thread(fitted)
        done = await update(
            table, values, where, zone=session.zone, user_metadata=session.user_metadata
        )
    return _affected(done.num_updated_rows)


async def run_truncate(statement: TruncateTable, session: Session) -> pa.Table:
    """Delete all rows."""
    async with session.opened(statement.table) as table:
        await delete(table, user_metadata=session.user_metadata)
    return table_of(NOTHING)


async def run_insert(statement: Insert, session: Session) -> pa.Table:
    """Write rows."""
    async with session.opened(statement.table) as table:
        snapshot = await table.snapshot()
        schema = snapshot.delta_schema
        kept = await in_thread(replaced_rows, statement, schema, session)
        async with _source(statement, snapshot, session) as (rows, versions):
            dynamic = overwrites_dynamically(statement, session) and kept is None
            kind = WriteKind(
                "overwrite" if statement.overwrite else "append",
                replace_where=kept,
                partition_overwrite="dynamic" if dynamic else "static",
                schema_mode="merge" if statement.evolves_schema else None,
            )
            request = WriteRequest(
                kind,
                partition_by=None,
                cluster_by=None,
                properties={},
                txn=None,
                user_metadata=session.user_metadata,
                made_of=versions.get(table.uri),
                assignment_zone=session.zone,
            )
            written = (await change_rows(table, rows, request)).metrics.get("numOutputRows", 0)
    return table_of(INSERTED, [(written, written)])


@asynccontextmanager
async def _source(
    statement: Insert, snapshot: Snapshot, session: Session
) -> AsyncIterator[tuple[Data, Mapping[str, int]]]:
    """The rows that the statement brings, under the names of the table's columns.

    With them come the versions of tables that they are made of, by address.
    """
    schema, source = snapshot.delta_schema, statement.source
    fixed = await in_thread(_constants, statement, session)
    if isinstance(source, Values):
        width = max(map(len, source.rows))
        names = target_columns(statement, schema, [f"col{place + 1}" for place in range(width)])
        table = await in_thread(values_table, source, names, schema, session)
        yield _with_constants(table, fixed), {}
        return
    async with query_rows(source, session) as running:
        names = target_columns(statement, schema, running.schema.names)
        async with aclosing(renamed(running, names, fixed)) as rows:
            yield rows, running.versions


async def renamed(
    running: RunningQuery, names: Sequence[str], fixed: dict[str, Any]
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of a query under other names, with constants beside them."""
    async with aclosing(running.batches()) as batches:
        async for batch in batches:
            yield _with_constants(batch.rename_columns(list(names)), fixed)


def _with_constants(rows: Any, fixed: dict[str, Any]) -> Any:
    for name, value in fixed.items():
        rows = rows.append_column(name, pa.repeat(value, rows.num_rows))
    return rows


def _constants(statement: Insert, session: Session) -> dict[str, Any]:
    """The values of ``PARTITION (name = value)``."""
    given = [(name, node) for name, node in statement.partition if node is not None]
    if not given:
        return {}
    names = [name for name, _ in given]
    row = Values((tuple(node for _, node in given),))
    table = values_table(row, names, None, session)
    return {name: table.column(name)[0] for name in names}


def target_columns(statement: Insert, schema: StructType, have: Sequence[str]) -> list[str]:
    """Which column of the table each column of the rows is for.

    Raises:
        SchemaMismatchError: there are more or fewer values than columns.
    """
    if statement.by_name:
        return list(have)
    if statement.columns is not None:
        wanted = list(statement.columns)
        if len({name.lower() for name in wanted}) < len(wanted):
            raise InvalidOptionError("a column is named twice in the list of columns")
        return _as_many(wanted, have)
    fixed = [name for name, node in statement.partition if node is not None]
    if statement.evolves_schema:
        known = {name.lower() for name in fixed}
        names = [field.name for field in schema if field.name.lower() not in known]
        if len(have) > len(names):  # the table comes to have the others
            return [*names, *have[len(names) :]]
    return in_order(schema, have, fixed)


def in_order(schema: StructType, have: Sequence[str], fixed: Sequence[str] = ()) -> list[str]:
    """Which column of the table each column of rows is for by its place, but for those `fixed`.

    Raises:
        SchemaMismatchError: there are more or fewer values than columns.
    """
    known = {name.lower() for name in fixed}
    wanted = [field for field in schema if field.name.lower() not in known]
    given = [each for each in wanted if not any(key in each.metadata for key in _COMPUTED)]
    if len(have) == len(given) < len(wanted):
        wanted = given  # what the table computes is left out
    return _as_many([field.name for field in wanted], have)


def _as_many(wanted: list[str], have: Sequence[str]) -> list[str]:
    if len(wanted) != len(have):
        raise SchemaMismatchError(
            f"{len(have)} columns of rows are to go into {len(wanted)} columns of the table "
            f"({', '.join(wanted)}): name the columns that they are for, INSERT INTO table (a, b)"
        )
    return wanted


def overwrites_dynamically(statement: Insert, session: Session) -> bool:
    """Whether those partitions alone are overwritten that there are rows of."""
    if not statement.overwrite or statement.replace_where is not None:
        return False
    chosen = session.dynamic_overwrite
    return bool(statement.partition) if chosen is None else chosen


def replaced_rows(statement: Insert, schema: StructType, session: Session) -> Node | None:
    """Which rows an INSERT takes the place of: of REPLACE WHERE, and of partitions it names."""
    if statement.replace_where is not None:
        return session.condition(statement.replace_where.node, schema, _last(statement))
    given = [(Column((name,)), node) for name, node in statement.partition if node is not None]
    if not statement.overwrite or not given or session.dynamic_overwrite:
        return None
    text = " AND ".join(f"{to_sql(column)} <=> {to_sql(node)}" for column, node in given)
    return session.condition(parse_expression(text, zone=session.zone), schema, None)


def _by_column(node: Node, statement: Delete | Update) -> Node:
    """The expression, without the full name of a table that has no alias before its columns."""
    return node if statement.alias is not None else by_full_name(node, statement.table, ())


def _last(statement: Insert | Delete | Update) -> str | None:
    """What columns may be said to be those of, without an alias."""
    return statement.table.parts[-1] if statement.table.parts else None


def _affected(rows: int | None) -> pa.Table:
    return table_of(AFFECTED, [(-1 if rows is None else rows,)])
