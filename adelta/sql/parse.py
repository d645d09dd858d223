"""Statement text → statement values, by the words that it begins with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from adelta.errors import InvalidStatementError
from adelta.sql.grammar.alter import read_alter, read_comment
from adelta.sql.grammar.definition import read_create
from adelta.sql.grammar.describe import read_describe, read_show
from adelta.sql.grammar.query import begins_query, read_query
from adelta.sql.grammar.reader import Reader
from adelta.sql.grammar.rows import (
    read_delete,
    read_insert,
    read_merge,
    read_truncate,
    read_update,
)
from adelta.sql.grammar.upkeep import (
    read_analyze,
    read_convert,
    read_generate,
    read_optimize,
    read_purge,
    read_restore,
    read_vacuum,
)
from adelta.sql.statements import Insert, Query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from adelta.sql.statements import Delete, InsertReplacing, Merge, Statement, Update

    Read: TypeAlias = Callable[[Reader], Statement]

__all__ = ["begins_as", "parse_change", "parse_statement", "with_in_query"]

_STATEMENTS: tuple[tuple[tuple[str, ...], Read], ...] = (
    (("ALTER", "TABLE"), read_alter),
    (("ANALYZE", "TABLE"), read_analyze),
    (("COMMENT", "ON", "COLUMN"), read_comment),
    (("COMMENT", "ON", "TABLE"), read_comment),
    (("CONVERT", "TO", "DELTA"), read_convert),
    (("CREATE", "EXTERNAL", "TABLE"), read_create),
    (("CREATE", "OR", "REPLACE", "TABLE"), read_create),
    (("CREATE", "TABLE"), read_create),
    (("DELETE", "FROM"), read_delete),
    (("DESC",), read_describe),
    (("DESCRIBE",), read_describe),
    (("GENERATE",), read_generate),
    (("INSERT",), read_insert),
    (("OPTIMIZE",), read_optimize),
    (("REORG", "TABLE"), read_purge),
    (("MERGE",), read_merge),
    (("REPLACE", "TABLE"), read_create),
    (("RESTORE",), read_restore),
    (("SHOW", "COLUMNS"), read_show),
    (("SHOW", "CREATE", "TABLE"), read_show),
    (("SHOW", "PARTITIONS"), read_show),
    (("SHOW", "TBLPROPERTIES"), read_show),
    (("TRUNCATE", "TABLE"), read_truncate),
    (("UPDATE",), read_update),
    (("VACUUM",), read_vacuum),
)


def parse_statement(
    text: str, *, zone: str = "UTC", now: datetime | None = None, queries: bool = False
) -> Statement:
    """The statement that `text` spells; `zone` is that of times which name none.

    `now` is what `current_timestamp` means in it; without it that is refused. With `queries` the
    condition and the values of DELETE and UPDATE may have queries in them.

    Raises:
        InvalidStatementError: it is no statement that adelta knows, or is not written as it is to
            be; the error says where.
        InvalidExpressionError: an expression in it uses what adelta does not evaluate.
    """
    reader = Reader(with_in_query(text), zone, now, queries=queries)
    read = _reading(reader)
    if read is None:
        known = sorted({" ".join(words) for words, _ in _STATEMENTS} | {"SELECT", "WITH"})
        reader.fail(f"expected a statement that adelta knows, one of {', '.join(known)}")
    statement = read(reader)
    reader.end()
    return statement


def parse_change(text: str) -> Delete | Update | Merge | InsertReplacing | None:
    """The statement that `text` spells, of whose expressions there is only the text.

    That is DELETE, UPDATE, MERGE or ``INSERT … REPLACE ON``; None of another one.

    Raises:
        InvalidStatementError: it is not written as one is to be.
    """
    reader = Reader(with_in_query(text), unread=True)
    read = _reading(reader)
    if read not in (read_delete, read_insert, read_update, read_merge):
        return None
    statement: Any = read(reader)
    if isinstance(statement, Insert):
        return None
    reader.end()
    return statement  # type: ignore[no-any-return]  # by what has read it


def with_in_query(text: str) -> str:
    """``WITH … INSERT INTO t … SELECT …``, with its WITH in the query; else the text as it is.

    So Spark writes it, too; adelta reads WITH where a query begins.
    """
    try:
        reader = Reader(text, unread=True)
        if not reader.accept("WITH") or (begin := _behind_names(reader)) is None:
            return text
        insert = text[begin:]
        source = read_insert(Reader(insert, unread=True)).source
    except InvalidStatementError:
        return text  # which says why where it is read
    if not isinstance(source, Query):
        return insert
    at = insert.rindex(source.text)
    given, asked = text[:begin].strip(), insert[at:]
    if begins_as(asked, (("WITH",),)):
        return f"{insert[:at]}{given}, {asked[len('WITH') :]}"
    return f"{insert[:at]}{given} {asked}"


def _behind_names(reader: Reader) -> int | None:
    """Where INSERT begins behind the queries that WITH names; None where another statement does."""
    depth = 0
    while (token := reader.take()).kind != "end":
        depth += {"(": 1, ")": -1}.get(token.operator, 0)
        if token.operator == ")" and not depth and reader.follows("INSERT"):
            return reader.token.at
    return None


def begins_as(text: str, beginnings: Iterable[tuple[str, ...]]) -> bool:
    """Whether the first words of `text` are one of `beginnings`, and there is more."""
    try:
        reader = Reader(text)
    except InvalidStatementError:
        return False
    return any(
        reader.follows(*words) and reader.ahead(len(words)).kind in ("word", "quoted", "string")
        for words in beginnings
    )


def _reading(reader: Reader) -> Read | None:
    for words, read in _STATEMENTS:
        if reader.follows(*words):
            return read
    return read_query if begins_query(reader) else None
