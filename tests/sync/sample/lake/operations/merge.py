from __future__ import annotations

from typing import Self

from lake.table import COMMITS, Table

__all__ = ["Merge", "merge"]


def merge(table: Table, row: int) -> Merge:
    """A merge of `row` into `table`."""
    return Merge(table, row)


class Merge:
    """A merge, clause by clause."""

    def __init__(self, table: Table, row: int) -> None:
        self._table = table
        self._row = row
        self._clauses: list[str] = []

    def when_matched(self, clause: str) -> Self:
        """Do `clause` where a row matches."""
        self._clauses.append(clause)
        return self

    async def execute(self) -> list[str]:
        """Do it."""
        COMMITS[self._table.name].append([self._row])
        return self._clauses
