"""SQL as deltalake takes it, put into Spark's words, which adelta reads.

What differs between the two is how names and texts are quoted, and how arrays are written, and
values with their type in front (``int'10'``). In deltalake, and here, double quotes are around
names, and a backslash in a text is a backslash.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta.kernel.expressions.sql import quote_name
from adelta.kernel.schema.type_text import type_text
from adelta.kernel.schema.types import VARIANT, ArrayType, MapType, StructType

if TYPE_CHECKING:
    from adelta.kernel.schema.types import DataType

__all__ = ["cast_to", "plain_name", "spark_sql", "unaliased"]

_PARTS = re.compile(
    r"""
    (?P<comment>--[^\r\n]*|/\*.*?\*/)
  | (?P<text>'(?:[^']|'')*')
  | (?P<name>"(?:[^"]|"")*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<word>\w+)
  | (?P<space>\s+)
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

_FUNCTIONS = {"ends_with": "endswith", "make_array": "array", "starts_with": "startswith"}
"""Functions by deltalake's names, and what Spark calls them."""


def spark_sql(text: str) -> str:
    """The expression in Spark's words."""
    found: list[str] = []
    opened: list[str] = []
    follows_value = False  # whether a bracket would ask for an element
    to_type = False  # whether a word would be the type of a cast
    word = -1  # where the word is that comes right before, if it names a type
    for part in _PARTS.finditer(text):
        kind, said = part.lastgroup, part[0]
        if kind == "text":
            value = _spark_text(said[1:-1].replace("''", "'"))
            if word >= 0:
                found[word:] = [f"CAST({value} AS {_TYPES[found[word].lower()]})"]
            else:
                found.append(value)
        elif kind == "name":
            found.append(quote_name(said[1:-1].replace('""', '"')))
        elif said == "[":
            opened.append("]" if follows_value else ")")
            found.append("[" if follows_value else "array(")
        elif said == "]" and opened:
            found.append(opened.pop())
        elif kind == "word":
            called = text[part.end() :].lstrip().startswith("(")
            words = _FUNCTIONS if called else _CAST_TYPES if to_type else {}
            found.append(words.get(said.lower(), said))
        else:
            found.append(said)
        if kind not in ("comment", "space"):
            word = len(found) - 1 if kind == "word" and said.lower() in _TYPES else -1
            to_type = said.lower() in ("as", ":")
            follows_value = kind in ("name", "quoted", "word") or said in ")]"
    return "".join(found)


def _spark_text(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


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
