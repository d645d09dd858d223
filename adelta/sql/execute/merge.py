"""MERGE INTO: the clauses as written, over rows of a table, of a query, or at hand."""

from __future__ import annotations

import os
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.expressions.sql import to_sql
from adelta.kernel.schema.alteration import shown
from adelta.operations.merge.builder import merge
from adelta.sql.execute.full_names import merge_by_aliases
from adelta.sql.execute.query import query_rows
from adelta.sql.records import MERGED, table_of
from adelta.sql.session import plain_path
from adelta.sql.statements import Query
from adelta.table import Table

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    import pyarrow as pa

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.operations.merge.builder import Merge as MergeBuilder
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.operations.merge.source import MergeSource
    from adelta.sql.session import Session
    from adelta.sql.statements import Merge, MergeClause, TableName

__all__ = ["merge_answer", "run_merge", "with_schema"]

_DEFAULT = Column(("DEFAULT",))  # as the operation has it


async def run_merge(statement: Merge, session: Session) -> pa.Table:
    """Merge rows into the table."""
    named = None if isinstance(statement.source, Query) else statement.source
    target_alias = statement.target_alias or _last(statement.table, "target")
    source_alias = statement.source_alias or _last(named, "source")
    statement = merge_by_aliases(statement, target_alias, source_alias)
    async with (
        session.opened(statement.table) as table,
        _source(statement, session) as (source, versions),
    ):
        builder = merge(
            table,
            source,
            statement.on.node,
            source_alias=source_alias,
            target_alias=target_alias,
            schema_mode="merge" if statement.evolves_schema else None,
            user_metadata=session.user_metadata,
            zone=session.zone,
        )
        version = versions.get(table.uri, session.made_of)
        if version is not None:
            options = replace(builder._options, at_version=version, made_of_it=True)
            builder = replace(builder, _options=options)
        if session.pads_chars:
            builder = replace(builder, _request=replace(builder._request, pads=True))
        schema = (await table.snapshot()).delta_schema
        for clause in statement.clauses:
            builder = _with(builder, clause, schema, target_alias)
        done = await builder.execute()
    return merge_answer(done)


def merge_answer(done: MergeMetrics) -> pa.Table:
    """What MERGE answers."""
    updated, deleted = done.num_target_rows_updated, done.num_target_rows_deleted
    inserted = done.num_target_rows_inserted
    return table_of(MERGED, [(updated + deleted + inserted, updated, deleted, inserted)])


@asynccontextmanager
async def _source(
    statement: Merge, session: Session
) -> AsyncIterator[tuple[MergeSource, Mapping[str, int]]]:
    """The rows to merge, and the versions of tables that they are made of, by address."""
    source = statement.source
    if isinstance(source, Query):
        async with query_rows(source, session) as running, aclosing(running.batches()) as batches:
            yield await with_schema(running.schema, batches), running.versions
        return
    meant = session.meant(source)
    if isinstance(meant, Table | str | os.PathLike):
        async with session.opened(source) as table:
            snapshot = await session.version(table, statement.source_as_of)
            latest = statement.source_as_of is None
            yield snapshot, {table.uri: snapshot.version} if latest else {}
        return
    if statement.source_as_of is not None:
        raise InvalidUseError(f"{source} means rows at hand, which have no versions")
    yield meant, {}


async def with_schema(
    schema: pa.Schema, batches: AsyncGenerator[pa.RecordBatch, None]
) -> MergeSource:
    """The batches; where there are none, what has their schema."""
    first = await anext(batches, None)
    if first is None:
        return schema.empty_table()

    async def all_of_them() -> AsyncGenerator[pa.RecordBatch, None]:
        yield first
        async for batch in batches:
            yield batch

    return all_of_them()


def _name(path: tuple[str, ...]) -> str:
    """A column as a clause names it, or a field of a struct, whose parts may be any texts."""
    return to_sql(Column(path)) if len(path) > 1 else shown(path)


def _with(
    builder: MergeBuilder, clause: MergeClause, schema: StructType, alias: str
) -> MergeBuilder:
    """The merge with one clause more; columns that it sets may be named as those of `alias`."""
    condition = None if clause.condition is None else clause.condition.node
    values: dict[str, Node] = {
        _name(plain_path(each.column, schema, alias)): (
            _DEFAULT if each.value is None else each.value.node
        )
        for each in clause.assignments
    }
    if len(values) < len(clause.assignments):
        raise InvalidOptionError("a column is set twice in one clause; set it once")
    match clause.when, clause.action:
        case "matched", "delete":
            return builder.when_matched_delete(condition)
        case "matched", "update":
            return builder.when_matched_update(values, condition)
        case "matched", _:
            return builder.when_matched_update_all(condition)
        case "not matched", "insert":
            return builder.when_not_matched_insert(values, condition)
        case "not matched", _:
            return builder.when_not_matched_insert_all(condition)
        case _, "delete":
            return builder.when_not_matched_by_source_delete(condition)
    return builder.when_not_matched_by_source_update(values, condition)


def _last(name: TableName | None, otherwise: str) -> str:
    return name.parts[-1] if name is not None and name.parts else otherwise
