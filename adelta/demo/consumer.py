"""A consumer of one table's log: it meets every commit once, in order, soon after it happened."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import orjson

import adelta
from adelta.console.render import counted
from adelta.errors import TableNotFoundError

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta import Commit, Table
    from adelta.demo.lake import Lake
    from adelta.demo.report import Report

__all__ = ["Consumer"]

_POLL = 0.1  # seconds between two looks for a table, or a commit, that is not there yet


class Consumer:
    """Follows one table of a lake.

    Attributes:
        versions: versions of the commits that it met, in the order in which it met them.
        rows: rows that those commits added.
    """

    def __init__(self, lake: Lake, name: str, report: Report) -> None:
        self._lake = lake
        self._name = name
        self._report = report
        self._scope = anyio.CancelScope()
        self._met = anyio.Event()
        self.versions: list[int] = []
        self.rows = 0

    def stop(self) -> None:
        """Let `run` come to its end."""
        self._scope.cancel()

    async def caught_up(self, version: int) -> None:
        """Wait until the commit of `version` has been met."""
        while not self.versions or self.versions[-1] < version:
            await self._met.wait()

    async def run(self, *, since: int) -> None:
        """Follow the table from the commit of version `since` on, until stopped."""
        with self._scope:
            async with self._lake.open(self._name) as table:
                await self._wait_for(table)
                async for commit in adelta.tail(table, since=since, poll=_POLL):
                    self._meet(commit)

    async def _wait_for(self, table: Table) -> None:
        while True:
            try:
                await table.snapshot()
            except TableNotFoundError:
                await anyio.sleep(_POLL)
            else:
                return

    def _meet(self, commit: Commit) -> None:
        rows = _rows(commit.adds)
        self._report.say(
            "consumer",
            f"{self._name} version {commit.version}: {commit.info.operation} "
            f"added {counted(commit.adds.num_rows, 'file')} with {counted(rows, 'row')}, "
            f"removed {counted(commit.removes.num_rows, 'file')}",
        )
        self.rows += rows
        self.versions.append(commit.version)
        self._met.set()
        self._met = anyio.Event()


def _rows(adds: pa.Table) -> int:
    """Rows in the files that a commit added, by the statistics that adelta always writes."""
    return sum(
        orjson.loads(stats)["numRecords"] for stats in adds.column("stats").to_pylist() if stats
    )
