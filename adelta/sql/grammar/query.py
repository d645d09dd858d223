"""Queries: which tables they read. What they compute is for the engine that runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.sql.statements import Query, TableReference

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.kernel.expressions.lexer import Token
    from adelta.sql.grammar.reader import Reader

__all__ = ["BEGINNINGS", "begins_query", "query_within", "read_query"]

BEGINNINGS = ("SELECT", "WITH", "VALUES", "FROM", "TABLE")
"""The words that queries begin with."""

# Functions in whose parentheses FROM stands between arguments.
_WITH_FROM = ("EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "OVERLAY", "POSITION")
_SET_OPERATIONS = ("UNION", "INTERSECT", "EXCEPT", "MINUS")
_BEHIND_TABLES = (
    "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "SELECT",
    *_SET_OPERATIONS,
)  # fmt: skip

_PLANS = ("EXTENDED", "CODEGEN", "COST", "FORMATTED", "LOGICAL")
_UP_TO = {"CREATE": ("AS",), "REPLACE": ("AS",), "INSERT": ("INTO", "OVERWRITE"), "SET": ("=",)}
"""Words up to which statements with a query behind them are passed over, by their first one."""

_NO_ALIASES = frozenset(
    (
        "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "WINDOW", "QUALIFY", "UNION",
        "INTERSECT", "EXCEPT", "MINUS", "JOIN", "INNER", "LEFT", "RIGHT", "FULL", "CROSS",
        "NATURAL", "SEMI", "ANTI", "ASOF", "POSITIONAL", "ON", "USING", "LATERAL", "PIVOT",
        "UNPIVOT", "TABLESAMPLE", "SAMPLE", "SELECT", "FETCH", "SET", "WHEN",
    )
)  # fmt: skip


def begins_query(reader: Reader) -> bool:
    """Whether what is next is a query, perhaps in parentheses."""
    place = 0
    while reader.ahead(place).operator == "(":
        place += 1
    return reader.ahead(place).upper in BEGINNINGS


def read_query(reader: Reader) -> Query:
    """The query that is next: up to the end, or to a parenthesis that closes what is around it."""
    begin = reader.at
    start = reader.token.at
    found = _References(reader, start)
    found.read()
    if reader.at == begin:
        reader.fail("expected a query")
    return Query(reader.slice(begin), tuple(found.of_tables()))


def query_within(reader: Reader) -> tuple[int, Query] | None:
    """The query that a statement of the engine's ends with, and where it begins; None of others.

    Such statements are EXPLAIN, DESCRIBE QUERY, SET VARIABLE, INSERT and CREATE TABLE ... AS.

    Raises:
        InvalidStatementError: there is more behind the query.
    """
    word = reader.take().upper
    if word == "EXPLAIN":
        _ = any(reader.accept(each) for each in _PLANS)
    elif word in ("DESC", "DESCRIBE"):
        reader.accept("QUERY")
    elif word in _UP_TO:
        while reader.token.kind != "end" and reader.token.upper not in _UP_TO[word]:
            reader.take()
        reader.take()
        if word == "INSERT":
            _ = reader.accept("TABLE") or reader.accept("DIRECTORY")
            while reader.token.kind != "end" and not begins_query(reader):
                reader.take()
    else:
        return None
    if not begins_query(reader):
        return None
    begin = reader.token.at
    query = read_query(reader)
    reader.end()
    return begin, query


class _Frame:
    """What is between two parentheses, or the whole query."""

    __slots__ = ("defines", "in_tables", "is_call", "wants_table")

    def __init__(
        self, *, wants_table: bool = False, is_call: bool = False, defines: str | None = None
    ) -> None:
        self.wants_table = wants_table  # the next thing is a table
        self.in_tables = wants_table  # a comma is followed by a table
        self.is_call = is_call  # of a function in which FROM means something else
        self.defines = defines  # the name that WITH gives it


class _References:
    def __init__(self, reader: Reader, start: int) -> None:
        self._reader = reader
        self._start = start
        self._frames = [_Frame()]
        self._before: Token | None = None
        self._recursive = False
        self._defined: dict[str, int] = {}  # names of WITH, and where they begin to mean that
        self.references: list[TableReference] = []

    def of_tables(self) -> Iterator[TableReference]:
        """The references, but for those to names that WITH has given before."""
        for reference in self.references:
            parts = reference.name.parts
            known = self._defined.get(parts[0].lower()) if len(parts) == 1 else None
            if known is None or reference.start < known or reference.as_of is not None:
                yield reference

    def read(self) -> None:
        reader = self._reader
        while (token := reader.token).kind != "end" and token.operator != ";":
            frame = self._frames[-1]
            if frame.wants_table and self._read_table(frame):
                continue
            if token.operator == "(":
                self._open(frame)
            elif token.operator == ")":
                if len(self._frames) == 1:
                    return
                closed = self._frames.pop()
                if closed.defines is not None:
                    self._defined.setdefault(closed.defines, token.at - self._start)
            else:
                self._follow(token, frame)
            self._before = reader.take()
        if len(self._frames) > 1:
            reader.fail("expected )")

    def _open(self, frame: _Frame) -> None:
        before = self._before.upper if self._before is not None else ""
        inside = _Frame(
            wants_table=frame.wants_table,
            is_call=before in _WITH_FROM,
            defines=self._name_before() if before in ("AS", "MATERIALIZED") else None,
        )
        if self._recursive and inside.defines is not None:
            self._defined.setdefault(inside.defines, self._reader.token.at - self._start)
        frame.wants_table = False
        self._frames.append(inside)

    def _name_before(self) -> str | None:
        """The name in ``name [(columns)] AS [[NOT] MATERIALIZED] (``."""
        reader, place = self._reader, -1
        while reader.ahead(place).upper in ("MATERIALIZED", "NOT"):
            place -= 1
        place -= 1
        if reader.ahead(place).operator == ")":
            while reader.at + place > 0 and reader.ahead(place).operator != "(":
                place -= 1
            place -= 1
        token = reader.ahead(place)
        if token.kind == "quoted":
            return token.text[1:-1].replace("``", "`").lower()
        return token.text.lower() if token.kind == "word" else None

    def _follow(self, token: Token, frame: _Frame) -> None:
        word = token.upper
        if word == ",":
            frame.wants_table = frame.in_tables
        elif word == "FROM":
            distinct = self._before is not None and self._before.upper == "DISTINCT"
            if not frame.is_call and not distinct:
                frame.wants_table = frame.in_tables = True
        elif word == "RECURSIVE":
            self._recursive = True
        elif word == "JOIN":
            frame.wants_table = frame.in_tables = True
        elif word == "TABLE" and self._is_whole(token):
            frame.wants_table = True
        elif word in _BEHIND_TABLES:
            frame.wants_table = frame.in_tables = False

    def _is_whole(self, token: Token) -> bool:
        """Whether ``TABLE t`` stands where a query does."""
        before = self._before
        if before is None or token.at == self._start:
            return True
        return before.operator == "(" or before.upper in (*_SET_OPERATIONS, "ALL")

    def _read_table(self, frame: _Frame) -> bool:
        """Read the table that is next, unless something else stands in its place."""
        reader, token = self._reader, self._reader.token
        if token.upper in ("LATERAL", "ONLY"):
            self._before = reader.take()
            return True
        if token.operator == "(":
            return False
        frame.wants_table = False
        stands_alone = self._before is not None and self._before.upper == "TABLE"
        if token.kind not in ("word", "quoted", "string", "raw"):
            return False
        if token.upper in (*BEGINNINGS, "UNNEST", "GENERATE_SERIES"):
            frame.in_tables = token.upper not in BEGINNINGS and frame.in_tables
            return False
        name = reader.table()
        if reader.follows("("):  # a function that gives a table
            self._before = None
            return True
        as_of = reader.as_of()
        end = reader.ahead(-1)
        self.references.append(
            TableReference(
                name,
                as_of,
                token.at - self._start,
                end.at + len(end.text) - self._start,
                stands_alone or _is_alias(reader.token),
            )
        )
        self._before = None
        return True


def _is_alias(token: Token) -> bool:
    return token.kind == "quoted" or (token.kind == "word" and token.upper not in _NO_ALIASES)
