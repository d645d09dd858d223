"""A query of Spark's SQL as DuckDB writes it: names, constants and operators.

What functions mean is for DuckDB to say.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta.errors import InvalidStatementError
from adelta.kernel.expressions.lexer import tokenize, unescape

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from adelta.kernel.expressions.lexer import Token
    from adelta.sql.statements import Query

__all__ = ["to_duckdb"]

_NUMBER = re.compile(r"(.*?)(BD|[LSYDF])?", re.IGNORECASE | re.DOTALL)
_SUFFIXES = {"L": "BIGINT", "S": "SMALLINT", "Y": "TINYINT", "D": "DOUBLE", "F": "FLOAT"}
_OPERATORS = {
    "<=>": " IS NOT DISTINCT FROM ", "!<": ">=", "!>": "<=", "!": " NOT ", "==": "=",
}  # fmt: skip
_TIMES = {"TIMESTAMP": "TIMESTAMPTZ", "TIMESTAMP_LTZ": "TIMESTAMPTZ", "TIMESTAMP_NTZ": "TIMESTAMP"}

_RESERVED_THERE = frozenset(
    (
        "ANALYSE", "ANALYZE", "ASYMMETRIC", "AT", "AUTHORIZATION", "BINARY", "CHECK", "COLLATION",
        "COLUMN", "CONCURRENTLY", "CONSTRAINT", "CREATE", "DEFAULT", "DEFERRABLE", "DESCRIBE", "DO",
        "FOREIGN", "FREEZE", "INITIALLY", "INTO", "OVERLAPS", "PLACING", "PRIMARY", "REFERENCES",
        "RETURNING", "SHOW", "SUMMARIZE", "SYMMETRIC", "UNIQUE", "UNPACK", "VARIADIC", "VERBOSE",
    )
)  # fmt: skip
"""Words that can be names in Spark, and cannot in DuckDB."""

_NO_ALIASES_THERE = frozenset(
    (
        "ACTION", "CLASS", "COMMENT", "CONTENT", "DATA", "DAY", "DOMAIN", "ERROR", "EVENT",
        "FAMILY", "FIRST", "HOUR", "INDEX", "INPUT", "KEY", "LABEL", "LANGUAGE", "LAST", "LEVEL",
        "LOCATION", "METHOD", "MINUTE", "MODE", "MONTH", "NAME", "NAMES", "NEW", "NEXT", "OBJECT",
        "OLD", "OPTION", "OWNER", "PERCENT", "POSITION", "QUARTER", "RANGE", "ROLE", "RULE",
        "SCOPE", "SECOND", "SEQUENCE", "SERVER", "SESSION", "SOURCE", "SQL", "START", "STATEMENT",
        "STORAGE", "SYSTEM", "TARGET", "TEXT", "TIME", "TYPE", "TYPES", "USER", "VALID", "VALUE",
        "VERSION", "VIEW", "VIEWS", "WEEK", "YEAR", "ZONE",
    )
)  # fmt: skip
"""Words that can be aliases without AS in Spark, and cannot in DuckDB."""

_STRINGS = ("string", "raw")
_VALUES = ("number", *_STRINGS, "quoted", "word")


def to_duckdb(query: Query, relations: Sequence[str]) -> str:
    """The text of `query`, whose references are to `relations`, one for each in order."""
    text = query.text
    tokens = tokenize(text)
    parts: list[str] = []
    at = place = 0
    references = list(zip(query.references, relations, strict=True))
    names = (reference.name.parts for reference in query.references)
    qualified = {tuple(map(str.lower, parts)) for parts in names if len(parts) > 1}
    while (token := tokens[place]).kind != "end":
        between = text[at : token.at]
        parts.append(between if not between.strip() else " ")  # comments are Spark's, not DuckDB's
        if references and token.at >= references[0][0].start:
            reference, relation = references.pop(0)
            at = reference.end
            while tokens[place].at < at:
                place += 1
            parts.append(quoted(relation))
            if reference.name.parts and not reference.has_alias:
                parts.append(f" AS {quoted(reference.name.parts[-1])}")
            continue
        if token.kind in ("word", "quoted") and (dots := _qualifier(tokens, place, qualified)):
            at, place = tokens[place + dots].at, place + dots  # DuckDB knows the last name alone
            continue
        last = place
        while tokens[place].kind in _STRINGS and tokens[last + 1].kind in _STRINGS:
            last += 1  # strings one after the other are one
        parts.append(_text(tokens, place, last))
        at = tokens[last].at + len(tokens[last].text)
        place = last + 1
    return "".join(parts)


def _qualifier(tokens: Sequence[Token], place: int, qualified: Collection[tuple[str, ...]]) -> int:
    """How many tokens stand in front of the last part of a table's name, before a column's."""
    for parts in qualified:
        ahead = tokens[place : place + 2 * len(parts)]
        names = tuple(_plain(token).lower() for token in ahead[::2])
        if names == parts and all(token.operator == "." for token in ahead[1::2]):
            return 2 * len(parts) - 2
    return 0


def _plain(token: Token) -> str:
    return token.text[1:-1].replace("``", "`") if token.kind == "quoted" else token.text


def quoted(name: str) -> str:
    """A name in DuckDB's quotes."""
    return '"' + name.replace('"', '""') + '"'


def _text(tokens: Sequence[Token], place: int, last: int) -> str:
    token, behind = tokens[place], tokens[last + 1]
    match token.kind:
        case "string" | "raw":
            value = "".join(map(unescape, tokens[place : last + 1]))
            if "\0" in value:
                raise InvalidStatementError(
                    f"the text at character {token.at + 1} holds a null character, which DuckDB "
                    "has no way to write: use chr(0)"
                )
            text = "'" + value.replace("'", "''") + "'"
            is_pattern = place > 0 and tokens[place - 1].upper in ("LIKE", "ILIKE")
            if is_pattern and "\\" in value and behind.upper != "ESCAPE":
                text += " ESCAPE '\\'"  # which is Spark's own, and DuckDB has none
            return text
        case "bytes":
            return f"from_hex('{token.text[2:-1]}')"
        case "quoted":
            return quoted(_plain(token))
        case "number":
            return _number(token.text)
        case "operator":
            return _OPERATORS.get(token.text, token.text)
    if token.upper == "DIV":
        return "//"
    if _is_name(tokens, place):
        return quoted(token.text)
    if token.upper in _TIMES:
        before = tokens[place - 1] if place else token
        is_literal = behind.kind in _STRINGS
        is_type = before.upper in ("AS", "::") and behind.text not in ("=", ".")
        if is_literal or is_type:
            return _TIMES[token.upper]
    return token.text


def _is_name(tokens: Sequence[Token], place: int) -> bool:
    """Whether a word is a name which DuckDB does not take for one."""
    token, behind = tokens[place], tokens[place + 1]
    before = tokens[place - 1] if place else None
    is_type = before is not None and before.upper in ("AS", "::")
    if token.upper in _RESERVED_THERE:
        is_zone = token.upper == "AT" and behind.upper == "TIME"
        return behind.operator != "(" and not is_zone and not is_type
    if token.upper not in _NO_ALIASES_THERE or before is None or is_type:
        return False
    if place > 1 and tokens[place - 2].upper == "INTERVAL":
        return False
    if before.upper == "NULLS" and token.upper in ("FIRST", "LAST"):
        return False
    if before.kind not in _VALUES and before.operator != ")":
        return False
    return behind.kind == "end" or behind.upper in (",", ")", "FROM")


def _number(text: str) -> str:
    match = _NUMBER.fullmatch(text)
    if match is None or match[2] is None:
        return text
    return f"CAST({match[1]} AS {_SUFFIXES[match[2].upper()]})" if len(match[2]) == 1 else match[1]
