"""The schema over time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from adelta.operations.inspect.schema_history import schema_history
from adelta.ui.answers import shortened, text_of, time_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from adelta.table import Table
    from adelta.ui.answers import Asked
    from adelta.ui.kept import Kept

__all__ = ["schema"]

_MOST_CHANGES = 200
_LONGEST = 300
_MOST_ENTRIES = 100


async def schema(table: Table, asked: Asked, _: Kept) -> Mapping[str, Any]:
    """What some commits changed of schema, properties and protocol, newest first."""
    found = await schema_history(table, before=asked.number("before"))
    entries = found.entries[:_MOST_ENTRIES]
    first = found.first if len(entries) == len(found.entries) else entries[-1].version
    return {
        "first": first,
        "last": found.last,
        "num_unread": found.num_unread,
        "next": first or None,
        "entries": [
            {
                "version": entry.version,
                "timestamp": time_of(entry.timestamp),
                "operation": text_of(entry.operation),
                "changes": _told(entry.changes),
            }
            for entry in entries
        ],
    }


def _told(changes: tuple[str, ...]) -> list[str]:
    told = [shortened(text, _LONGEST) for text in changes[:_MOST_CHANGES]]
    if len(changes) > _MOST_CHANGES:
        told.append(f"… {len(changes) - _MOST_CHANGES:,} more")
    return told
