from __future__ import annotations

from typing import TYPE_CHECKING

from lake.changes.tail import tail

if TYPE_CHECKING:
    from lake.table import Table

__all__ = ["Consumer"]


class Consumer:
    """A consumer that remembers how far it came."""

    def __init__(self, table: Table, *, name: str) -> None:
        """Consume `table` under `name`."""
        self._table = table
        self._name = name
        self._position = 0
        self._steps = tail(table)

    async def acknowledge(self) -> int:
        """The position, kept."""
        return self._position

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> list[int]:
        self._position, rows = await anext(self._steps)
        return rows

    async def __aenter__(self) -> Consumer:
        return self

    async def __aexit__(self, *_: object) -> bool | None:
        return None
