from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from lake.table import Table

__all__ = ["tail"]


def tail(table: Table, since: int = 0) -> AsyncIterator[tuple[int, list[int]]]:
    """Each version of `table` after `since`, and its rows.

    Raises:
        ValueError: there can be no such version.
    """
    if since < 0:
        raise ValueError(since)
    return _tail(table, since)


async def _tail(table: Table, since: int) -> AsyncIterator[tuple[int, list[int]]]:
    for version in range(since + 1, (await table.snapshot()).version + 1):
        yield version, await (await table.snapshot(version=version)).scan().rows()
