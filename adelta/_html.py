"""What a notebook shows of a handle: short HTML, in which every text is escaped, and cut.

It is made without I/O, of what is at hand, and has no style of its own: a notebook's is light or
dark as its user has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._secrets import without_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from adelta.kernel.schema.types import StructType

__all__ = ["described", "listed", "of_columns"]

_LONGEST = 500  # characters of a text
_MOST = 50  # rows


def described(title: str, facts: Mapping[str, object], *more: str) -> str:
    """A title and facts, without those that are None or empty, and what comes below them."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{_text(name)}</th>"
        f"<td style='text-align:left'>{_text(fact)}</td></tr>"
        for name, fact in facts.items()
        if fact not in (None, "")
    )
    below = "".join(more)
    return f"<div><strong>{_text(title)}</strong><table>{rows}</table>{below}</div>"


def listed(heads: Sequence[str], rows: Iterable[Sequence[object]], number: int) -> str:
    """A table of `number` rows, of which the first fifty are shown."""
    some = [row for row, _ in zip(rows, range(_MOST), strict=False)]
    head = "".join(f"<th style='text-align:left'>{_text(name)}</th>" for name in heads)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:left'>{_text(c)}</td>" for c in row) + "</tr>"
        for row in some
    )
    left = f"<p>{number - len(some):,} more</p>" if number > len(some) else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{left}"


def of_columns(schema: StructType, partition_columns: Sequence[str]) -> str:
    """The columns of a schema as a table."""
    rows = (
        (
            field.name,
            field.type,
            "" if field.nullable else "not null",
            "partition" if field.name in partition_columns else "",
            field.metadata.get("comment", ""),
        )
        for field in schema
    )
    return listed(("column", "type", "null", "role", "comment"), rows, len(schema))


def _text(value: object) -> str:
    text = without_secrets(value if isinstance(value, str) else str(value))
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    from html import escape

    return f"<bdi>{escape(text)}</bdi>"
