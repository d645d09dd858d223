"""A simulated run: writers, readers and keepers of one table, and what is wrong with its history.

The table is first used for a while and left alone for 40 days; then it is used while VACUUM and the
clean-up of the log delete what is old. All versions are checked against the model, on an archive of
everything that was ever in the store; the newest one is also read from what is left.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adelta.errors import (
    AdeltaError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    StorageError,
)
from adelta.operations import checkpoint, cleanup_log, optimize, vacuum, write_table
from adelta.table import Table
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.weather import Weather, WeatherStation
from tests.simulation.world import World
from tests.support.linearizability import History, violations
from tests.support.workload import NOTE, SCHEMA, Operation, Worker, digest, rows_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from tests.simulation.plan import Plan
    from tests.simulation.world import Process

__all__ = ["Ran", "run", "shrunk"]

_FAULTS = ("refused", "lost_before", "lost_after", "late", "repeated")
_DAY = 86_400.0
_IDLE = 40 * _DAY
_ARRIVED = 100.0  # by when all requests have, also those that nobody waits for


@dataclass
class Ran:
    """What came of a run: what is wrong, the trace, and what was done."""

    wrong: list[str]
    trace: list[str]
    digest: str
    commits: int
    outcomes: dict[str, int] = field(default_factory=dict)


class _Run:
    def __init__(self, plan: Plan, *, traced: bool) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.world.keeps_trace = traced
        self.bucket = Bucket(self.world, conditional=not plan.overwriting)
        self.archive = Bucket(self.world)
        self.bucket.on_change = self._keep
        self.weather = Weather(**dict.fromkeys(_FAULTS, plan.faults / 1000))
        self.said: list[dict[str, Any]] = []
        self.unexpected: list[str] = []
        self.generation = 0

    def _keep(self, path: str, data: bytes | None) -> None:
        if data is not None:
            self.archive.put(path, data)
        elif path.endswith(".json") and path == max(filter(_is_commit, self.archive.objects)):
            self.archive.delete(path)  # a commit that was taken back

    def store(self) -> SimulatedStore:
        return SimulatedStore(self.bucket, WeatherStation(self.world, self.weather))

    def process(self, kind: str) -> tuple[Process, Table]:
        """A new process with a handle of its own."""
        self.generation += 1
        skew = self.world.random.uniform(-self.plan.skew_s, self.plan.skew_s)
        process = self.world.process(f"{kind}{self.generation}", skew_s=skew)
        store = self.store()
        return process, Table(store.uri, store=store)

    # ------------------------------------------------------------------------------ what they do

    async def main(self) -> list[str]:
        """All of it; what is wrong."""
        plan = self.plan
        properties = {
            "delta.enableDeletionVectors": str(plan.vectors).lower(),
            "delta.checkpointInterval": str(plan.checkpoint_every),
        }
        direct = SimulatedStore(self.bucket, Direct())
        await write_table(
            Table(direct.uri, store=direct),
            SCHEMA.empty_table(),
            partition_by=["p"],
            properties=properties,
        )
        half = max(1, plan.commits // 2)
        await self._used(half)
        await asyncio.sleep(_IDLE)
        await self._used(plan.commits - half)
        await asyncio.sleep(_ARRIVED)
        self.world.note("the checker begins")
        return self.unexpected + await self._wrong(direct)

    async def _used(self, commits: int) -> None:
        """The table is used by everybody until the commits are made."""
        writers = [asyncio.ensure_future(self._writer(commits)) for _ in range(self.plan.writers)]
        killer = asyncio.ensure_future(self._kill())
        keepers = [asyncio.ensure_future(self._keeper(name)) for name in self.plan.keepers]
        await asyncio.gather(*writers)
        for task in (killer, *keepers):
            task.cancel()
        await asyncio.gather(killer, *keepers, return_exceptions=True)
        for process in self.world.processes:
            process.crash()

    async def _writer(self, commits: int) -> None:
        """One writer, which comes back after each crash."""
        left = commits
        while left > 0:
            process, table = self.process("writer")
            worker = Worker(table, process.name, self.generation, left, self._said)
            await self._until_over(process, worker.work(tell=_silent))
            left = worker.left

    async def _until_over(self, process: Process, work: Any) -> None:
        task = process.start(work)
        await asyncio.wait((task, process.crashed), return_when=asyncio.FIRST_COMPLETED)
        if task.done() and not task.cancelled() and task.exception() is not None:
            self.unexpected.append(f"{process.name} fails: {task.exception()!r}")

    def _said(self, what: dict[str, Any]) -> None:
        self.said.append(what)

    async def _kill(self) -> None:
        for _ in range(self.plan.crashes):
            await asyncio.sleep(self.world.random.uniform(0, 2.0))
            alive = [each for each in self.world.processes if each.alive]
            self.world.random.choice(alive).crash()

    async def _keeper(self, name: str) -> None:
        works: dict[str, Callable[[Table], Awaitable[object]]] = {
            "checkpoint": checkpoint,
            "cleanup": cleanup_log,
            "vacuum": vacuum,
            "optimize": lambda table: optimize(
                table, user_metadata=Operation(f"optimize-{self.world.loop.time()}", name).text()
            ),
        }

        async def keep(table: Table) -> None:
            while True:
                with suppress(CommitConflictError, CommitOutcomeUnknownError, StorageError):
                    await works[name](table)
                await asyncio.sleep(0.3)

        while True:
            process, table = self.process(name)
            await self._until_over(process, keep(table))
            await asyncio.sleep(0.5)

    # ------------------------------------------------------------------------------ what is wrong

    async def _wrong(self, direct: SimulatedStore) -> list[str]:
        archive = SimulatedStore(self.archive, Direct())
        found = await violations(Table(archive.uri, store=archive), History(self.said))
        latest: list[tuple[int, str]] = []
        for store in (archive, direct):
            try:
                snapshot = await Table(store.uri, store=store).snapshot()
                rows = rows_of(await snapshot.scan().to_arrow())
            except AdeltaError as error:
                return [*found, f"the table cannot be read any more: {error!r}"]
            latest.append((snapshot.version, digest(rows, snapshot.properties.get(NOTE))))
        if latest[0] != latest[1]:
            found.append(f"what is left is version {latest[1][0]}, or not what it was")
        return found


def _is_commit(path: str) -> bool:
    return path.startswith("_delta_log/0") and path.endswith(".json") and path.count(".") == 1


def _silent(error: AdeltaError) -> None:
    """What fails is in the trace."""


def run(plan: Plan, *, traced: bool = False) -> Ran:
    """Make the run."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    made = _Run(plan, traced=traced)
    wrong = made.world.run(made.main)
    outcomes: dict[str, int] = {}
    for each in made.said:
        key = each.get("outcome", "read")
        outcomes[key] = outcomes.get(key, 0) + 1
    return Ran(wrong, made.world.trace, made.world.digest(), outcomes.get("committed", 0), outcomes)


def shrunk(plan: Plan, *, seeds: int = 4) -> Plan:
    """A plan that fails as well, with as little in it as can be found; of a few seeds each."""
    while True:
        for smaller in plan.smaller():
            tries = [replace(smaller, seed=plan.seed + more) for more in range(seeds)]
            found = next((each for each in tries if run(each).wrong), None)
            if found is not None:
                plan = found
                break
        else:
            return plan
