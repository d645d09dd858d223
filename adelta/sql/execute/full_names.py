"""Columns that are named by the full name of their table: ``main.sales.id``, ``delta.`/t`.id``."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError
from adelta.kernel.expressions.nodes import Column, children_of, with_children
from adelta.kernel.expressions.sql import to_sql
from adelta.sql.grammar.reader import FORMATS
from adelta.sql.session import plain_path
from adelta.sql.statements import Assignment, Expression, MergeClause, TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.schema.types import StructType
    from adelta.sql.statements import Merge, Path, Update

__all__ = ["merge_by_aliases", "renamed", "set_columns"]


def merge_by_aliases(statement: Merge, target: str, source: str) -> Merge:
    """The merge, in which columns of sides without an alias are called those of these names.

    Whoever gives a table an alias names it by that alone.
    """
    to: dict[TableName, Path] = {}
    if isinstance(statement.source, TableName) and statement.source_alias is None:
        to[statement.source] = (source,)
    if statement.target_alias is None:
        to[statement.table] = (target,)
    if not to:
        return statement

    def clause(each: MergeClause) -> MergeClause:
        assignments = tuple(
            Assignment(_path(one.column, to), _expression(one.value, to))
            for one in each.assignments
        )
        condition = _expression(each.condition, to)
        return replace(each, condition=condition, assignments=assignments)

    on = Expression(_node(statement.on.node, to), statement.on.text)
    return replace(statement, on=on, clauses=tuple(map(clause, statement.clauses)))


def renamed(node: Node, table: TableName, to: Path) -> Node:
    """The expression, in which columns with the full name of `table` before theirs have `to`.

    Example: ``db.t.id`` is ``id`` where `to` is nothing, and the table ``db.t`` or ``main.db.t``.
    """
    return _node(node, {table: to})


def set_columns(statement: Update, schema: StructType) -> Iterator[tuple[str, Expression | None]]:
    """The columns that UPDATE sets, and to what: None is the default.

    Raises:
        InvalidOptionError: one is set twice.
    """
    alias, seen = statement.alias, set[str]()
    if alias is None and statement.table.parts:
        alias = statement.table.parts[-1]
    for each in statement.assignments:
        column = each.column
        if statement.alias is None:
            column = _path(column, {statement.table: ()})
        path = plain_path(column, schema, alias)
        name = to_sql(Column(path)) if len(path) > 1 else path[0]
        if name.lower() in seen:
            raise InvalidOptionError(f"column {name!r} is set twice; set it once")
        seen.add(name.lower())
        yield name, each.value


def _expression(expression: Expression | None, to: Mapping[TableName, Path]) -> Expression | None:
    return expression and Expression(_node(expression.node, to), expression.text)


def _node(node: Node, to: Mapping[TableName, Path]) -> Node:
    if isinstance(node, Column):
        return Column(_path(node.path, to))
    children = children_of(node)
    return with_children(node, tuple(_node(each, to) for each in children)) if children else node


def _path(path: Path, to: Mapping[TableName, Path]) -> Path:
    for table, name in to.items():
        length = _length(path, table)
        if length:
            return (*name, *path[length:])
    return path


def _length(path: Path, table: TableName) -> int:
    """How many parts of a column's name are the table's, which are more than one."""
    if table.path is not None and len(path) > 2 and path[0].lower() in FORMATS:
        places = table.path, os.path.abspath(table.path)
        if path[1] in places or os.path.abspath(path[1]) in places:
            return 2
    asked, full = (tuple(map(str.lower, each)) for each in (path, table.parts))
    for length in range(min(len(full), len(path) - 1), 1, -1):
        if asked[:length] == full[-length:]:
            return length
    return 0
