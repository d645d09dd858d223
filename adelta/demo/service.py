"""An async service over the lake: it awaits snapshots of every table while Spark writes them.

It shares the process, and the event loop, with whatever else the program does. How late the loop
gets to a task that is due is measured beside it, and reported.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import together
from adelta.console.render import counted
from adelta.errors import TableNotFoundError

if TYPE_CHECKING:
    from adelta import Table
    from adelta.demo.lake import Lake
    from adelta.demo.report import Report

__all__ = ["Service"]

_POLL = 0.25  # seconds between two looks at a table
_BEAT = 0.01  # seconds between two beats of the pulse


class Service:
    """Watches every table of a lake.

    Attributes:
        snapshots: how many snapshots were awaited.
        delays: seconds that the event loop was late for each beat of a pulse. A machine whose
            cores are all busy with Spark lets it wait, too.
        busiest: seconds of processor time that the loop's thread spent between two beats, at most.
    """

    def __init__(self, lake: Lake, report: Report) -> None:
        self._lake = lake
        self._report = report
        self._stop = anyio.Event()
        self.snapshots = 0
        self.delays: list[float] = []
        self.busiest = 0.0

    def stop(self) -> None:
        """Let `run` come to its end."""
        self._stop.set()

    async def run(self) -> None:
        """Watch until stopped."""
        watches = [lambda name=name: self._watch(name) for name in self._lake]
        await together(*watches, self._pulse)

    async def _watch(self, name: str) -> None:
        seen: int | None = None
        async with self._lake.open(name) as table:
            while not self._stop.is_set():
                seen = await self._look(name, table, seen)
                with anyio.move_on_after(_POLL):
                    await self._stop.wait()

    async def _look(self, name: str, table: Table, seen: int | None) -> int | None:
        """One snapshot; says so where it is newer than `seen`, and returns its version."""
        before = time.perf_counter()
        try:
            snapshot = await table.snapshot()
        except TableNotFoundError:
            return None  # Spark has not made it yet
        self.snapshots += 1
        if snapshot.version == seen:
            return seen
        took = time.perf_counter() - before
        files = (await snapshot.files()).num_rows
        rows = await snapshot.scan().count()
        self._report.say(
            "service",
            f"{name} is at version {snapshot.version}: {counted(files, 'file')}, "
            f"{counted(rows, 'row')} "
            f"(snapshot in {took * 1000:.0f} ms)",
        )
        return snapshot.version

    async def _pulse(self) -> None:
        while not self._stop.is_set():
            due, spent = time.perf_counter() + _BEAT, time.thread_time()
            await anyio.sleep(_BEAT)
            self.delays.append(time.perf_counter() - due)
            self.busiest = max(self.busiest, time.thread_time() - spent)
