from __future__ import annotations

from lake.table import COMMITS, Table

__all__ = ["create_table"]


async def create_table(name: str, *rows: int, **options: str) -> Table:
    """A new table with `rows` as its first version."""
    COMMITS[name] = [list(rows)] if rows else []
    return Table(name, options)
