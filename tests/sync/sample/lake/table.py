"""A table whose rows live in this process, by name."""

from __future__ import annotations

import asyncio
import os
from typing import Any

from lake.snapshot import Snapshot
from lake.transaction import Transaction
from lake.values import Closed

__all__ = ["COMMITS", "OPENED", "Table", "open_table"]

COMMITS: dict[str, list[list[int]]] = {}
OPENED: list[str] = []
"""What happened to handles in this process: ``open NAME``, ``close NAME``."""


def open_table(name: str, options: dict[str, str] | None = None) -> Table:
    """A handle on the table. Use it as an async context manager, or `aclose` it.

    ``async with lake.open_table(name) as table: await table.snapshot()``
    """
    return Table(name, options)


class Table:
    """A table."""

    def __init__(self, name: str, options: dict[str, str] | None = None) -> None:
        self._name = name
        self._options = options
        self._process = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closed: bool = False
        """Whether the handle is closed."""
        OPENED.append(f"open {name}")

    def __repr__(self) -> str:
        return f"Table({self._name!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Table, (self._name, self._options))

    @property
    def name(self) -> str:
        """The table's name."""
        return self._name

    @property
    def process(self) -> int:
        """The process that the handle was made in."""
        return self._process

    @property
    def loop(self) -> int:
        """The loop that last worked for the table."""
        return id(self._loop)

    def _check(self) -> None:
        if self.closed:
            raise Closed(self._name)
        loop = asyncio.get_running_loop()
        assert self._loop in (None, loop), "a handle is used on two loops"
        self._loop = loop

    async def snapshot(self, *, version: int | None = None) -> Snapshot:
        """The latest snapshot, or the one at `version`.

        Raises:
            LookupError: there is none.
        """
        self._check()
        await asyncio.sleep(0)
        commits = COMMITS[self._name]
        if version is None:
            version = len(commits)
        elif version > len(commits):
            raise LookupError(version)
        return Snapshot(version, [row for commit in commits[:version] for row in commit])

    async def snapshots(self) -> list[Snapshot]:
        """Every snapshot."""
        return [await self.snapshot(version=v) for v in range(len(COMMITS[self._name]) + 1)]

    async def snapshot_or_none(self, version: int) -> Snapshot | None:
        """The snapshot at `version`, if there is one."""
        return await self.snapshot(version=version) if version <= len(COMMITS[self._name]) else None

    def transaction(self, operation: str = "WRITE", *, fail: bool = False) -> Transaction:
        """A transaction."""
        return Transaction(COMMITS[self._name], operation, fail=fail)

    async def aclose(self) -> None:
        """Close the handle."""
        if not self.closed:
            self.closed = True
            OPENED.append(f"close {self._name}")

    async def __aenter__(self) -> Table:
        self._check()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
