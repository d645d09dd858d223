"""DELETE and UPDATE with queries in their conditions and values, which DuckDB computes.

A condition says the same of two rows that are alike in the columns which it names. So DuckDB finds
what these columns hold in the rows that are meant, and what is computed for them; rows of the table
that hold it are merged with that, on the version of the table that DuckDB has read.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Literal

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.errors import InvalidExpressionError
from adelta.kernel.expressions.lexer import tokenize
from adelta.kernel.expressions.nodes import Column
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.schema import types as t
from adelta.operations.merge.clauses import Clause
from adelta.operations.merge.plan import MergeRequest
from adelta.operations.merge.run import FoundRows, MergeOptions, run_merge
from adelta.operations.merge.source import GivenSource
from adelta.sql.execute.full_names import renamed, set_columns
from adelta.sql.execute.merge import with_schema
from adelta.sql.execute.query import query_rows
from adelta.sql.execute.values import default_of
from adelta.sql.parse import parse_statement
from adelta.sql.statements import Delete, Query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.expressions.lexer import Token
    from adelta.kernel.expressions.nodes import Node
    from adelta.operations.merge.metrics import MergeMetrics
    from adelta.sql.session import Session
    from adelta.sql.statements import Expression, TableName, Update

__all__ = ["change_by_query", "holds_query"]

_TARGET, _FOUND = "adelta_target", "adelta_found"
_KEY, _ZERO, _VALUE = "adelta_key_", "adelta_zero_", "adelta_value_"


def holds_query(statement: Delete | Update) -> bool:
    """Whether there is a query in the condition or a value."""
    return any(each.has_query for each in _expressions(statement))


async def change_by_query(statement: Delete | Update, session: Session) -> MergeMetrics:
    """Delete or update the rows that DuckDB finds, to what it computes, in one commit.

    Raises:
        InvalidExpressionError: rows are not found by a column that is named.
        InvalidStatementError: DuckDB refuses what is asked.
        AdeltaError: as `adelta.delete` and `adelta.update` do.
    """
    async with session.opened(statement.table) as table:
        schema = (await table.snapshot()).delta_schema
        change = await in_thread(_planned, statement, schema, session)
        async with (
            query_rows(change.query, session) as running,
            aclosing(running.batches()) as batches,
        ):
            options = MergeOptions(
                user_metadata=session.user_metadata,
                at_version=running.versions[table.uri],
                found=FoundRows(change.operation, {"predicate": change.said}),
            )
            source = GivenSource(await with_schema(running.schema, batches))
            return await run_merge(table, source, change.request, options)


@dataclass(frozen=True, slots=True)
class _Change:
    """The query of what is found, how that is merged, and what the history says of it."""

    query: Query
    request: MergeRequest
    operation: Literal["DELETE", "UPDATE"]
    said: list[str]


def _planned(statement: Delete | Update, schema: t.StructType, session: Session) -> _Change:
    alias = statement.alias or (statement.table.parts[-1] if statement.table.parts else None)
    where = statement.where
    keys = list(_keys(statement, schema))
    selected = [f"{_quoted(name)} AS {_KEY}{at}" for at, name in enumerate(keys)]
    pairs = [
        f"{_of(_TARGET, name)} <=> {_of(_FOUND, f'{_KEY}{at}')}" for at, name in enumerate(keys)
    ]
    for at, name in enumerate(keys):
        if _type(schema, name) in (t.FLOAT, t.DOUBLE):  # 0.0 and -0.0 are equal
            zero, text = "CASE WHEN {0} = 0 THEN CAST({0} AS {1}) END", f"{_ZERO}{at}"
            selected.append(f"{zero.format(_quoted(name), 'VARCHAR')} AS {text}")
            of_target = zero.format(_of(_TARGET, name), "STRING")
            pairs.append(f"{of_target} <=> {_of(_FOUND, text)}")
    values: dict[str, Node] = {}
    assigned = [] if isinstance(statement, Delete) else set_columns(statement, schema)
    for at, (column, value) in enumerate(assigned):
        if value is None:
            values[column] = default_of(schema, column, session)
        elif value.has_query:
            values[column] = Column((_FOUND, f"{_VALUE}{at}"))
            selected.append(f"{value.text} AS {_VALUE}{at}")
        else:
            values[column] = _of_target(value.node, statement, schema, alias, session)
    text = f"SELECT DISTINCT {', '.join(selected) or '1'} FROM {_table(statement.table)}"
    if statement.alias is not None:
        text += f" AS {_quoted(statement.alias)}"
    condition: Node | None = None
    if where is not None and where.has_query:
        text += f" WHERE {where.text}"
    elif where is not None:
        condition = _of_target(where.node, statement, schema, alias, session)
    query = parse_statement(text, zone=session.zone, now=session.now)
    assert isinstance(query, Query)
    deletes = isinstance(statement, Delete)
    clause = Clause("matched", "delete" if deletes else "update", condition, tuple(values.items()))
    on = parse_expression(" AND ".join(pairs) or "true")
    request = MergeRequest(
        on, (clause,), _FOUND, _TARGET, evolves=False, zone=session.zone, now=session.now
    )
    operation: Literal["DELETE", "UPDATE"] = "DELETE" if deletes else "UPDATE"
    return _Change(query, request, operation, [] if where is None else [where.text])


def _of_target(
    node: Node,
    statement: Delete | Update,
    schema: t.StructType,
    alias: str | None,
    session: Session,
) -> Node:
    """An expression that adelta computes, over rows of the table."""
    if statement.alias is None:
        node = renamed(node, statement.table, ())
    return session.value(node, schema, alias)


def _expressions(statement: Delete | Update) -> Iterator[Expression]:
    if statement.where is not None:
        yield statement.where
    for each in () if isinstance(statement, Delete) else statement.assignments:
        if each.value is not None:
            yield each.value


def _keys(statement: Delete | Update, schema: t.StructType) -> Iterator[str]:
    """The columns that are named where there are queries, as far as rows differ in them."""
    named = {
        _name(token)
        for each in _expressions(statement)
        if each.has_query
        for token in tokenize(each.text)
        if token.kind in ("word", "quoted")
    }
    for field in schema:
        if field.name.lower() not in named or field.type == t.VOID:
            continue
        if not _tells_rows_apart(field.type):
            raise InvalidExpressionError(
                f"the column {field.name!r} is a {field.type}, by which rows are not found for a "
                "condition or a value with a query in it: leave the column out of it, or merge "
                "what the query finds"
            )
        yield field.name


def _name(token: Token) -> str:
    plain = token.text if token.kind == "word" else token.text[1:-1].replace("``", "`")
    return plain.lower()


def _tells_rows_apart(data_type: t.DataType, *, within: bool = False) -> bool:
    match data_type:
        case t.ArrayType():
            return _tells_rows_apart(data_type.element_type, within=True)
        case t.StructType():
            return all(_tells_rows_apart(field.type, within=True) for field in data_type)
        case t.MapType() | t.VARIANT:
            return False
    return not (within and data_type in (t.FLOAT, t.DOUBLE))


def _type(schema: t.StructType, name: str) -> t.DataType:
    field = schema.field(name)
    assert field is not None
    return field.type


def _table(name: TableName) -> str:
    if name.path is not None:
        return f"delta.{_quoted(name.path)}"
    return ".".join(map(_quoted, name.parts))


def _of(side: str, column: str) -> str:
    return f"{side}.{_quoted(column)}"


def _quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"
