"""INSERT, also in the place of what matches, DELETE, UPDATE, TRUNCATE and MERGE."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from adelta.errors import InvalidExpressionError
from adelta.sql.grammar.query import BEGINNINGS, begins_query, read_query
from adelta.sql.statements import (
    Assignment,
    Delete,
    Insert,
    InsertReplacing,
    Merge,
    MergeClause,
    TruncateTable,
    Update,
    Values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from adelta.kernel.expressions.nodes import Node
    from adelta.sql.grammar.reader import Reader
    from adelta.sql.statements import AsOf, Expression, Path, Query, TableName

__all__ = ["read_delete", "read_insert", "read_merge", "read_truncate", "read_update"]

_ENDS_OF_VALUES = (",", ";", ")", "")
_BEFORE_SUBQUERIES = ("ALL", "AND", "ANY", "EXISTS", "IN", "NOT", "OR", "SOME")


def read_insert(reader: Reader) -> Insert | InsertReplacing:
    """``INSERT [WITH SCHEMA EVOLUTION] INTO | OVERWRITE …``."""
    reader.expect("INSERT")
    evolves = reader.accept("WITH", "SCHEMA", "EVOLUTION")
    overwrite = reader.accept("OVERWRITE")
    if not overwrite:
        reader.expect("INTO")
    reader.accept("TABLE")
    table = reader.table()
    if not overwrite and (replacing := _replacing(reader, table, evolves=evolves)) is not None:
        return replacing
    partition = _partition(reader) if reader.accept("PARTITION") else ()
    by_name, columns = reader.accept("BY", "NAME"), None
    if not by_name and reader.follows("(") and not begins_query(reader):
        columns = reader.listed(reader.name)
    return Insert(
        table,
        _source(reader),
        overwrite=overwrite,
        columns=columns,
        by_name=by_name,
        partition=partition,
        evolves_schema=evolves,
    )


def _replacing(
    reader: Reader, table: TableName, *, evolves: bool
) -> Insert | InsertReplacing | None:
    """``[[AS] alias] [BY NAME] REPLACE WHERE | USING | ON …``, if it is next."""
    begin = reader.at
    alias = reader.alias("REPLACE", "BY", "PARTITION")
    by_name = reader.accept("BY", "NAME")
    if alias is None and reader.accept("REPLACE", "WHERE"):
        condition = reader.node(_end_of_condition(reader))
        return Insert(
            table,
            _source(reader),
            overwrite=True,
            by_name=by_name,
            replace_where=condition,
            evolves_schema=evolves,
        )
    if reader.accept("REPLACE", "USING"):
        using = reader.listed(reader.name)
        return InsertReplacing(
            table, _source(reader), using=using, by_name=by_name, evolves_schema=evolves
        )
    if reader.accept("REPLACE", "ON"):
        condition = reader.node(_end_of_condition(reader))
        source, source_alias = _aliased_source(reader)
        return InsertReplacing(
            table,
            source,
            on=condition,
            by_name=by_name,
            target_alias=alias,
            source_alias=source_alias,
            evolves_schema=evolves,
        )
    reader.back(begin)
    return None


def _end_of_condition(reader: Reader) -> int | None:
    """The token at which a query begins behind a condition; None where there is none."""
    depth, place = 0, int(not reader.follows("("))
    while (token := reader.ahead(place)).kind != "end":
        if not depth and place and token.operator == "(" and _begins_source(reader, place):
            return reader.at + place
        if not depth and token.upper in BEGINNINGS and reader.ahead(place - 1).upper != "DISTINCT":
            return reader.at + place
        depth += {"(": 1, ")": -1}.get(token.operator, 0)
        place += 1
    return None


def _begins_source(reader: Reader, place: int) -> bool:
    """Whether a parenthesis opens a query that is no part of what is before it."""
    before = reader.ahead(place - 1)
    if before.upper in _BEFORE_SUBQUERIES or before.operator not in ("", ")", "]"):
        return False
    while reader.ahead(place).operator == "(":
        place += 1
    return reader.ahead(place).upper in BEGINNINGS


def _aliased_source(reader: Reader) -> tuple[Values | Query, str | None]:
    """A query, or one in parentheses with an alias behind."""
    begin = reader.at
    if reader.accept("("):
        source = _source(reader)
        if reader.accept(")"):
            alias = reader.alias()
            if alias is not None and reader.token.upper in ("", ";"):
                return source, alias
        reader.back(begin)
    return _source(reader), None


def _partition(reader: Reader) -> tuple[tuple[str, Node | None], ...]:
    def one() -> tuple[str, Node | None]:
        name = reader.name("the name of a partition column")
        return name, reader.node().node if reader.accept("=") or reader.accept("==") else None

    return reader.listed(one)


def _source(reader: Reader) -> Values | Query:
    if not begins_query(reader):
        reader.fail("expected VALUES or a query")
    begin = reader.at
    if not reader.is_unread and reader.accept("VALUES"):
        with suppress(InvalidExpressionError):  # which another engine may compute
            rows = reader.listed(lambda: _row(reader), parentheses=False)
            end = reader.token
            if end.operator in _ENDS_OF_VALUES and end.kind in ("end", "operator"):
                return Values(rows)
        reader.back(begin)  # VALUES with an alias, or a part of a larger query
    return read_query(reader)


def _row(reader: Reader) -> tuple[Node | None, ...]:
    if reader.follows("("):
        return reader.listed(lambda: _value(reader))
    return (_value(reader),)


def _value(reader: Reader) -> Node | None:
    return None if _is_default(reader) else reader.node().node


def _is_default(reader: Reader) -> bool:
    """Read the word DEFAULT where it stands alone."""
    behind = reader.ahead()
    if reader.follows("DEFAULT") and (
        behind.kind == "end"
        or behind.operator in (",", ")", ";")
        or behind.upper in ("WHERE", "WHEN")
    ):
        reader.take()
        return True
    return False


def read_delete(reader: Reader) -> Delete:
    """``DELETE FROM … [WHERE …]``."""
    reader.expect("DELETE", "FROM")
    table = reader.table()
    return Delete(table, reader.alias("WHERE"), _where(reader))


def read_update(reader: Reader) -> Update:
    """``UPDATE … SET … [WHERE …]``."""
    reader.expect("UPDATE")
    table = reader.table()
    alias = reader.alias("SET")
    reader.expect("SET")
    return Update(table, _assignments(reader, reader.node_or_query), alias, _where(reader))


def read_truncate(reader: Reader) -> TruncateTable:
    """``TRUNCATE TABLE …``."""
    reader.expect("TRUNCATE", "TABLE")
    return TruncateTable(reader.table())


def _where(reader: Reader) -> Expression | None:
    return reader.node_or_query() if reader.accept("WHERE") else None


def _assignments(reader: Reader, value: Callable[[], Expression]) -> tuple[Assignment, ...]:
    def one() -> Assignment:
        column = reader.path()
        reader.expect_one("==", "=")
        return Assignment(column, None if _is_default(reader) else value())

    return reader.listed(one, parentheses=False)


# ------------------------------------------------------------------------------------------ MERGE


def read_merge(reader: Reader) -> Merge:
    """``MERGE [WITH SCHEMA EVOLUTION] INTO … USING … ON … WHEN …``."""
    reader.expect("MERGE")
    evolves = reader.accept("WITH", "SCHEMA", "EVOLUTION")
    reader.expect("INTO")
    target = reader.table()
    target_alias = reader.alias("USING")
    reader.expect("USING")
    source, as_of = _merge_source(reader)
    source_alias = reader.alias("ON")
    reader.expect("ON")
    on = reader.node()
    clauses: list[MergeClause] = []
    while reader.accept("WHEN"):
        clauses.append(_clause(reader))
    if not clauses:
        reader.fail("expected WHEN MATCHED or WHEN NOT MATCHED")
    return Merge(target, source, on, tuple(clauses), target_alias, source_alias, evolves, as_of)


def _merge_source(reader: Reader) -> tuple[TableName | Query, AsOf | None]:
    if reader.accept("("):
        query = read_query(reader)
        reader.expect(")")
        return query, None
    return reader.table(), reader.as_of()


def _clause(reader: Reader) -> MergeClause:
    matched = not (reader.accept("NOT") or reader.accept("!"))
    reader.expect("MATCHED")
    by_source = False
    if not matched and reader.accept("BY"):
        by_source = reader.accept("SOURCE")
        if not by_source:
            reader.expect("TARGET")
    condition = reader.node() if reader.accept("AND") else None
    reader.expect("THEN")
    if matched or by_source:
        when = "matched" if matched else "not matched by source"
        if reader.accept("DELETE"):
            return MergeClause(when, "delete", condition)  # type: ignore[arg-type]  # one of two
        reader.expect("UPDATE", "SET")
        if matched and reader.accept("*"):
            return MergeClause("matched", "update all", condition)
        assigned = _assignments(reader, reader.node)
        return MergeClause(when, "update", condition, assigned)  # type: ignore[arg-type]  # as above
    reader.expect("INSERT")
    if reader.accept("*"):
        return MergeClause("not matched", "insert all", condition)
    return MergeClause("not matched", "insert", condition, _inserted(reader))


def _inserted(reader: Reader) -> tuple[Assignment, ...]:
    columns: tuple[Path, ...] = reader.listed(reader.path)
    reader.expect("VALUES")
    begin = reader.token

    def one() -> Expression | None:
        return None if _is_default(reader) else reader.node()

    values = reader.listed(one)
    if len(values) != len(columns):
        reader.fail(f"{len(columns)} columns are named, and there are {len(values)} values", begin)
    return tuple(map(Assignment, columns, values))
