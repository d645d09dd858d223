"""Histories of list-appends in the simulated world: isolation as claimed, whatever happens.

Sessions add to lists and read them, as `tests.support.list_appends` has it, each in a process of
its own; requests fail, and processes die and come back. What was begun by one that has died is in
doubt: it counts where somebody has seen it. The level of isolation is drawn from the seed, and what
excludes writers, too: where that is a catalog or the commit owner, their instances die as well.
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import TYPE_CHECKING, Any

from adelta.log.commit_reader import read_commit
from tests.simulation.exclusion import Exclusion, drawn_exclusion
from tests.simulation.store import Direct
from tests.simulation.transfers import FAULTS
from tests.simulation.weather import CALM, Weather, WeatherStation
from tests.simulation.world import World
from tests.support.anomalies import anomalies
from tests.support.created import create_in
from tests.support.list_appends import (
    SCHEMA,
    Client,
    history_of,
    overlooks_a_blind_append,
    read_all,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.table import Table
    from tests.simulation.store import Network
    from tests.simulation.world import Process
    from tests.support.anomalies import Txn

__all__ = ["LEVELS", "Sessions", "level_of"]

LEVELS = ("Serializable", "WriteSerializable")
_ARRIVED = 100.0  # seconds, by when all requests have
_SNAPSHOTS = {"G2", "G2-process", "G2-realtime"}  # what is shown where snapshots are read


def level_of(seed: int) -> str:
    """The isolation that a seed asks for."""
    return LEVELS[seed % 2]


class Sessions:
    """So many sessions on one table, and what is wrong with their history."""

    def __init__(
        self, seed: int, sessions: int = 3, transactions: int = 8, *, excludes: str | None = None
    ) -> None:
        draw = random.Random(f"appends {seed}")
        self.seed, self.level = seed, level_of(seed)
        self.sessions, self.transactions = sessions, transactions
        self.partitioned, self.vectors = draw.random() < 0.5, draw.random() < 0.5
        self.crashes = draw.choice([0, 2, 4])
        faults = dict.fromkeys(FAULTS, draw.choice([0, 10, 30]) / 1000)
        self.world = World(seed)
        self.world.keeps_trace = False
        others = random.Random(f"excludes {seed}")
        self.exclusion = Exclusion(self.world, excludes or drawn_exclusion(others, seed))
        self.weather = self.exclusion.bearable(Weather(**faults))
        self.said: list[dict[str, Any]] = []
        self.processes: list[Process] = []

    def table(self, network: Network) -> Table:
        """A handle over a network."""
        return self.exclusion.table(self.exclusion.bucket, network)

    def history(self) -> list[Txn]:
        """The transactions that are made in this world."""
        logging.getLogger("adelta").setLevel(logging.CRITICAL)
        return history_of(self.world.run(self._main))

    async def _main(self) -> list[dict[str, Any]]:
        properties = {"delta.enableDeletionVectors": str(self.vectors).lower()}
        properties |= self.exclusion.properties
        partition_by = ("key",) if self.partitioned else ()
        await self.exclusion.start()
        await create_in(self.table(Direct()), SCHEMA, properties, partition_by)
        self.exclusion.meet(self.weather)
        killers = [asyncio.ensure_future(self._kill())]
        if self.crashes and self.exclusion.is_served:
            killers.append(asyncio.ensure_future(self.exclusion.fail_now_and_then()))
        await asyncio.gather(*map(self._session, range(self.sessions)))
        for killer in killers:
            killer.cancel()
        self.exclusion.meet(CALM)
        await asyncio.sleep(_ARRIVED)
        direct = self.table(Direct())
        self.said.append(await read_all(direct))
        await self._find_versions(direct)
        return self.said

    async def _session(self, number: int) -> None:
        client: Client | None = None
        left = self.transactions
        for life in range(self.transactions):
            name = f"s{number}.{life}"
            process = self.world.process(name)
            self.processes.append(process)
            table = self.table(WeatherStation(self.world, self.weather))
            if client is None:
                client = Client(table, name, number, self.level, self.said.append)
            else:
                client = client.begun_anew(table, name)
            task = process.start(client.work(left))
            await asyncio.wait((task, process.crashed), return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                task.result()
                return
            if client.pending is not None:
                never = {"outcome": "unknown", "ended": float("inf")}
                self.said.append({**client.pending, **never})
            left -= 1

    async def _kill(self) -> None:
        for _ in range(self.crashes):
            await asyncio.sleep(self.world.random.uniform(0, 2.0))
            alive = [each for each in self.processes if each.alive]
            self.world.random.choice(alive).crash()

    async def _find_versions(self, table: Table) -> None:
        """Say of what is in doubt which version it is, if it is one; and check what was said."""
        logged = {}
        for version in range(1, (await table.snapshot()).version + 1):
            logged[(await read_commit(table.store, version)).info.user_metadata] = version
        for each in self.said:
            found = logged.get(each["name"])
            if each["outcome"] == "unknown":
                each["version"] = found
            assert each["version"] == found, each

    def wrong(self, history: Sequence[Txn]) -> list[str]:
        """What the level that was asked for does not allow."""
        left_out = overlooks_a_blind_append if self.level == "WriteSerializable" else _nothing
        found = [str(each) for each in anomalies(history, left_out)]
        kinds = {each.kind for each in anomalies(history)}
        return found + [f"{kind}: no snapshot was read" for kind in sorted(kinds - _SNAPSHOTS)]


def _nothing(_: object) -> bool:
    return False
