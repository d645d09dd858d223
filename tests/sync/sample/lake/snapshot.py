"""Snapshots and scans."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from decimal import Decimal

__all__ = ["Scan", "Snapshot"]

NONE: tuple[int, ...] = ()


class Snapshot:
    """A version of a table."""

    def __init__(self, version: int, rows: Sequence[int]) -> None:
        self._version = version
        self._rows = tuple(rows)

    @property
    def version(self) -> int:
        """The version."""
        return self._version

    @property
    def everything(self) -> Scan:
        """A scan of all rows."""
        return Scan(self._rows)

    def price(self, of: Decimal) -> Decimal:
        """What `of` rows cost."""
        return of * len(self._rows)

    def scan(self, leave_out: Sequence[int] = NONE, /, step: int = 1, *, limit: int = 99) -> Scan:
        """A scan."""
        return Scan([row for row in self._rows if row not in leave_out][::step][:limit])


class Scan:
    """Rows."""

    def __init__(self, rows: Sequence[int]) -> None:
        self._rows = rows

    async def rows(self) -> list[int]:
        """All rows."""
        await asyncio.sleep(0)
        return list(self._rows)

    async def each(self) -> AsyncIterator[int]:
        """Row by row."""
        async with asyncio.timeout(60):  # belongs to the task that entered it
            for row in self._rows:
                yield row
