from __future__ import annotations

from dataclasses import dataclass

from lake.table import COMMITS, Table

__all__ = ["Metrics", "history"]


@dataclass(frozen=True, slots=True)
class Metrics:
    """How many rows a commit added."""

    rows: int


async def history(table: Table | str, limit: int | None = None) -> list[Metrics]:
    """What happened to `table`: a handle, or a name."""
    name = table if isinstance(table, str) else table.name
    return [Metrics(len(commit)) for commit in COMMITS[name]][:limit]
