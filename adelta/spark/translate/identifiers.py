"""Names of tables and columns as Spark SQL writes them: parts with dots between, in backticks."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from adelta.errors import InvalidOptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = ["FORMAT", "FORMATS", "identifier_parts", "path_named", "quoted", "string_literal"]

FORMAT = "adelta"
FORMATS = (FORMAT, "delta")
"""What Spark calls Delta tables: as adelta does, and as delta-spark does."""

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")


def identifier_parts(text: str) -> tuple[str, ...]:
    """The parts of a name.

    Example: ``db.`a.b` `` has the parts ``db`` and ``a.b``.

    Raises:
        InvalidOptionError: it is no name.
    """
    parts: list[str] = []
    at, stripped = 0, text.strip()
    while (found := _PART.match(stripped, at)) is not None:
        inside, plain = found.groups()
        parts.append(plain if inside is None else inside.replace("``", "`"))
        at = found.end()
        if at == len(stripped):
            return tuple(parts)
        if stripped[at] != ".":
            break
        at += 1
    raise InvalidOptionError(
        f"{text!r:.200} is no name: its parts have dots between them, and one that holds a dot is "
        "in backticks"
    )


def quoted(parts: Iterable[str]) -> str:
    """The name of these parts, which can stand in Spark SQL."""
    return ".".join(f"`{part.replace('`', '``')}`" for part in parts)


def path_named(text: str, formats: Collection[str] = FORMATS) -> str | None:
    """The path of a table that is named by it, as ``delta.`/path` ``; None of other names."""
    try:
        parts = identifier_parts(text)
    except InvalidOptionError:
        return None
    if len(parts) == 2 and parts[0].lower() in formats and "/" in parts[1]:
        return parts[1]
    return None


def string_literal(text: str) -> str:
    """The text as a constant of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{escaped}'"
