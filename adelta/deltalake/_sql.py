"""SQL as deltalake takes it, put into Spark's words, which adelta reads.

What differs between the two is how names and texts are quoted, and how arrays are written, and
values with their type in front (``int'10'``), and regular expressions. In deltalake,
and here, double quotes are around names, and a backslash in a text is a backslash.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.deltalake._patterns import PATTERN_FUNCTIONS, java_pattern, with_flags
from adelta.deltalake.exceptions import DeltaError
from adelta.kernel.expressions.sql import quote_name, quote_text
from adelta.kernel.schema.type_text import type_text
from adelta.kernel.schema.types import VARIANT, ArrayType, MapType, StructType

if TYPE_CHECKING:
    from adelta.kernel.schema.types import DataType

__all__ = ["cast_to", "plain_name", "spark_sql", "unaliased", "with_spark_quotes"]

_PARTS = re.compile(
    r"""
    (?P<comment>--[^\r\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^']|'')*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<space>\s+)
  | (?P<pattern>!?~~?\*?)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPES = {
    "bigint": "bigint",
    "boolean": "boolean",
    "double": "double",
    "float": "float",
    "int": "int",
    "integer": "int",
    "smallint": "smallint",
    "tinyint": "tinyint",
    "varchar": "string",
}
"""Types whose name deltalake takes before a text, as in ``int'10'``, by what Spark calls them."""
_CAST_TYPES = {"text": "string", "varchar": "string"}
"""Types of casts by deltalake's names, and what Spark calls them."""

_FUNCTIONS = {
    "array_has": "array_contains",
    "ends_with": "endswith",
    "make_array": "array",
    "starts_with": "startswith",
    "strpos": "instr",
}
"""Functions by deltalake's names, and what Spark calls them."""

_PATTERNS = {"~": "RLIKE", "~*": "RLIKE", "~~": "LIKE", "~~*": "ILIKE"}
"""Operators of patterns, and what Spark calls them; ``!`` in front is NOT."""

_ARROW_TYPES = {
    "binary": "binary",
    "boolean": "boolean",
    "date32": "date",
    "float32": "float",
    "float64": "double",
    "int16": "smallint",
    "int32": "int",
    "int64": "bigint",
    "int8": "tinyint",
    "largeutf8": "string",
    "utf8": "string",
    "utf8view": "string",
}
"""Types of ``arrow_cast`` by Arrow's names, and what Spark calls them."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a function of regular expressions: where its arguments begin, and texts are."""

    name: str
    depth: int
    begins: list[int]
    texts: dict[int, str]

    def rewrite(self, found: list[str]) -> None:
        """Put the arguments, which are the last that was found, into Spark's words."""
        ends = [*(begin - 1 for begin in self.begins[1:]), len(found)]
        spans = list(zip(self.begins, ends, strict=True))
        texts = [
            next((self.texts[at] for at in range(*span) if at in self.texts), None)
            if sum(bool(part.strip()) for part in found[slice(*span)]) == 1
            else None
            for span in spans
        ]
        said = with_flags(self.name, ["".join(found[slice(*span)]) for span in spans], texts)
        found[self.begins[0] :] = [", ".join(said)]


def with_spark_quotes(text: str) -> str:
    """A statement whose names and texts are quoted as Spark has them, and nothing else changed."""
    found: list[str] = []
    for part in _PARTS.finditer(text):
        said = part[0]
        if part.lastgroup == "name":
            said = quote_name(said[1:-1].replace('""', '"'))
        elif part.lastgroup == "text":
            said = quote_text(said[1:-1].replace("''", "'"))
        found.append(said)
    return "".join(found)


def spark_sql(text: str) -> str:
    """The expression in Spark's words."""
    found: list[str] = []
    opened: list[str] = []  # how each bracket closes; "AS" is of a cast, whose comma is an AS
    follows_value = False  # whether a bracket would ask for an element
    to_type = False  # whether a word would be the type of a cast
    takes_type = False  # whether a text is the type of a cast
    calls: list[_Call] = []  # functions of regular expressions whose brackets are open
    flags: str | None = None  # those of the regular expression that comes next
    last = ""  # the word or sign right before
    word = -1  # where the word is that comes right before, if it names a type
    for part in _PARTS.finditer(text):
        kind, said = part.lastgroup, part[0]
        if takes_type and kind not in ("comment", "space", "text"):
            raise DeltaError("arrow_cast needs its type as a text, such as 'Int64'")
        if flags is not None and kind not in ("comment", "space", "text"):
            raise DeltaError("~ and ~* need their regular expression as a text")
        if kind == "text":
            value = said[1:-1].replace("''", "'")
            if takes_type:
                found.append(_arrow_type(value))
            elif flags is not None:
                found.append(quote_text(java_pattern(value, flags)))
            elif word >= 0:
                found[word:] = [f"CAST({quote_text(value)} AS {_TYPES[found[word].lower()]})"]
            else:
                found.append(quote_text(value))
            if calls and calls[-1].depth == len(opened):
                calls[-1].texts[len(found) - 1] = value
            takes_type, flags = False, None
        elif kind == "name":
            found.append(quote_name(said[1:-1].replace('""', '"')))
        elif kind == "pattern":
            plain = said.lstrip("!")
            found.append(f" {'NOT ' if said != plain else ''}{_PATTERNS[plain]} ")
            flags = {"~": "", "~*": "i"}.get(plain)
        elif said == "[":
            opened.append("]" if follows_value else ")")
            found.append("[" if follows_value else "(" if last == "array" else "array(")
        elif said == "(":
            opened.append("AS" if last == "arrow_cast" else "")
            found.append(said)
            if last in PATTERN_FUNCTIONS:
                calls.append(_Call(last, len(opened), [len(found)], {}))
        elif said in "])" and opened:
            if calls and calls[-1].depth == len(opened):
                calls.pop().rewrite(found)
            closing = opened.pop()
            found.append(closing if said == "]" else said)
        elif said == "," and opened and opened[-1] == "AS":
            found.append(" AS ")
            takes_type = True
        elif said == "," and calls and calls[-1].depth == len(opened):
            found.append(said)
            calls[-1].begins.append(len(found))
        elif kind == "word":
            found.append(_word(said, text[part.end() :], last, to_type=to_type))
        else:
            found.append(said)
        if kind not in ("comment", "space"):
            last = said.lower()
            word = len(found) - 1 if kind == "word" and last in _TYPES else -1
            to_type = last in ("as", ":")
            follows_value = kind in ("name", "quoted", "word") or said in ")]"
            follows_value &= last != "array"
    return "".join(found)


def _word(said: str, after: str, before: str, *, to_type: bool) -> str:
    """A word, given what comes after it and right before it."""
    low, rest = said.lower(), after.lstrip()
    if low == "arrow_cast" and rest.startswith("("):
        return "CAST"
    if low == "similar" and re.match(r"to\b", rest, re.IGNORECASE):
        return "RLIKE"
    if low == "to" and before == "similar":
        return ""
    words = _FUNCTIONS if rest.startswith("(") else _CAST_TYPES if to_type else {}
    return words.get(low, said)


def _arrow_type(name: str) -> str:
    """What Spark calls a type of Arrow's.

    Raises:
        DeltaError: it has no name for it.
    """
    plain = name.strip().lower()
    if decimal := re.fullmatch(r"decimal128\((\d+), *(\d+)\)", plain):
        return f"decimal({decimal[1]},{decimal[2]})"
    if moment := re.fullmatch(r"timestamp\((?:microsecond|µs), *(.*)\)", plain):
        return "timestamp_ntz" if moment[1] == "none" else "timestamp"
    if plain not in _ARROW_TYPES:
        raise DeltaError(
            f"arrow_cast knows no type {name!r}; name one that a table can have, such as 'Int64'"
        )
    return _ARROW_TYPES[plain]


def plain_name(name: str) -> str:
    """The name of a column, whose quotes are taken off."""
    if len(name) > 1 and name[0] == name[-1] and name[0] in '`"':
        return name[1:-1].replace(name[0] * 2, name[0])
    return name


def unaliased(name: str, alias: str | None) -> str:
    """The name of a column of a side of a merge, without that side's alias in front of it."""
    if alias is not None:
        for prefix in (f"{alias}.", f"`{alias}`.", f'"{alias}".'):
            if name.startswith(prefix):
                return name.removeprefix(prefix)
    return name


def cast_to(text: str, kind: DataType, *, fails: bool) -> str:
    """The expression in Spark's words, cast to a column's type as deltalake casts what it sets.

    What cannot be cast is an error where it `fails`, and null otherwise. Structs, arrays and maps
    are cast with the latter alone.
    """
    if not fails:
        return f"try_cast({text} AS {type_text(kind)})"
    if isinstance(kind, StructType | ArrayType | MapType) or kind == VARIANT:
        return text
    return f"CAST({text} AS {type_text(kind)})"
