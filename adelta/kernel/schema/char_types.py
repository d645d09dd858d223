"""Spark's ``char(n)`` and ``varchar(n)``, which are strings in a Delta table.

What a column was declared as stands in its metadata, as Spark's own text of the whole type, such as
``array<varchar(3)>``. Here such types are primitive ones of that name.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from adelta.kernel.schema import types as t

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["CHAR_TYPE", "declared_type", "longest", "with_plain_texts"]

CHAR_TYPE = "__CHAR_VARCHAR_TYPE_STRING"
"""The entry of a column's metadata that says as what it was declared."""
_LIMITED = re.compile(r"(?:var)?char\(\s*(\d+)\s*\)", re.ASCII)
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_TOKEN = re.compile(r"\s*(?:`((?:[^`]|``)*)`|((?:\w+\([\d\s,]*\))|[^\s<>,:`]+|[<>,:]))")
_MOST_TEXT = 100_000


def longest(data_type: t.DataType) -> int | None:
    """How many characters a text of the type may have; None where the type has no such limit."""
    found = _LIMITED.fullmatch(str(data_type)) if isinstance(data_type, t.PrimitiveType) else None
    return None if found is None else int(found[1])


def with_plain_texts(field: t.StructField) -> t.StructField:
    """A column that was declared with such types, at any depth, as a table has it."""
    plain = _rebuilt(field.type, lambda each: each if longest(each) is None else t.STRING)
    if plain == field.type:
        return field
    return replace(field, type=plain, metadata={**field.metadata, CHAR_TYPE: _text(field.type)})


def declared_type(field: t.StructField) -> t.DataType | None:
    """What a table's column was declared as; None where that is not known, or is no such type."""
    text = field.metadata.get(CHAR_TYPE)
    if not isinstance(text, str) or len(text) > _MOST_TEXT:
        return None
    tokens = [
        match[2] if match[1] is None else match[1].replace("``", "`")
        for match in _TOKEN.finditer(text)
    ]
    try:
        return _parsed(iter(tokens))
    except (StopIteration, RecursionError):
        return None


def _rebuilt(data_type: t.DataType, change: Callable[[t.DataType], t.DataType]) -> t.DataType:
    match data_type:
        case t.StructType(fields):
            return t.StructType(tuple(replace(f, type=_rebuilt(f.type, change)) for f in fields))
        case t.ArrayType(element):
            return replace(data_type, element_type=_rebuilt(element, change))
        case t.MapType(key, value):
            return replace(
                data_type, key_type=_rebuilt(key, change), value_type=_rebuilt(value, change)
            )
    return change(data_type)


def _text(data_type: t.DataType) -> str:
    match data_type:
        case t.StructType(fields):
            return "struct<" + ",".join(f"{_name(f.name)}:{_text(f.type)}" for f in fields) + ">"
        case t.ArrayType(element):
            return f"array<{_text(element)}>"
        case t.MapType(key, value):
            return f"map<{_text(key)},{_text(value)}>"
    return str(data_type)


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else "`" + name.replace("`", "``") + "`"


def _parsed(tokens: Iterator[str]) -> t.DataType | None:
    """The type that the next tokens spell; None where they spell none that is known here."""
    word = next(tokens)
    if word == "array":
        inner = _arguments(tokens, 1)
        return None if inner is None else t.ArrayType(inner[0])
    if word == "map":
        inner = _arguments(tokens, 2)
        return None if inner is None else t.MapType(inner[0], inner[1])
    if word != "struct":
        return t.PrimitiveType(word)
    fields: list[t.StructField] = []
    mark = next(tokens)
    while mark != ">":
        name, colon, inside = next(tokens), next(tokens), _parsed(tokens)
        if colon != ":" or inside is None:
            return None
        fields.append(t.StructField(name, inside))
        mark = next(tokens)
    return t.StructType(tuple(fields))


def _arguments(tokens: Iterator[str], count: int) -> list[t.DataType] | None:
    found: list[t.DataType] = []
    for expected in ("<", ",")[:count]:
        inside = _parsed(tokens) if next(tokens) == expected else None
        if inside is None:
            return None
        found.append(inside)
    return found if next(tokens) == ">" else None
