"""As `transfers`, of tables whose commits adelta's own commit owner decides on.

One table is made as the owner's, the other one is adopted. The owner's instances die and come back
while transactions are made, and copy commits into the logs meanwhile; at the end one of the tables
is taken from the owner. Where the owner `changes`, tables leave it, and come back, meanwhile. What
readers of the filesystem see of a log has no gap, and stays.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from adelta.errors import AdeltaError, InvalidOptionError
from adelta.operations.ownership import adopt_table, release_table
from adelta.table import Table
from tests.simulation.owner import ENDPOINT, OWNER, SimulatedOwner
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.transfers import ALONE, FAILURES, SCHEMA, Bank
from tests.simulation.weather import CALM, WeatherStation
from tests.support.created import create_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.simulation.store import Network

__all__ = ["owned_transferred"]


class _OwnedBank(Bank):
    def __init__(self, seed: int, faults: int, *, torn: bool, changes: bool) -> None:
        super().__init__(seed, faults, torn=torn)
        self.changes = changes
        if changes:  # of tables that are not the same owner's
            self.failures = (*FAILURES, InvalidOptionError)
        self.bucket = Bucket(self.world)
        self.bucket.on_change = self._changed
        self.published: dict[str, bytes] = {}
        self.owner = SimulatedOwner(self.world, self.bucket, CALM, torn=torn)

    def tables(self, network: Network) -> list[Table]:
        """Handles on both, over a network."""
        made = []
        for name in ("account0", "account1"):
            uri = f"s3://simulated/{name}"
            made.append(Table(uri, store=SimulatedStore(self.bucket, network, uri, f"{name}/")))
        return made

    def _changed(self, path: str, data: bytes | None) -> None:
        folder, _, name = path.rpartition("/")
        if not folder.endswith("/_delta_log") or not name.endswith(".json") or "." in name[:-5]:
            return
        version = int(name[:-5])
        if version and f"{folder}/{version - 1:020d}.json" not in self.published:
            self.wrong.append(f"{path} is there before the version before it")
        if data is None or self.published.setdefault(path, data) != data:
            self.wrong.append(f"{path} is not any more what it was")

    async def prepare(self) -> None:
        """Create one as the owner's, and have it adopt the other."""
        await self.owner.start(2)
        direct = self.tables(Direct())
        await create_in(direct[0], SCHEMA, self.owner.properties)
        await create_in(direct[1], SCHEMA)
        await self._adopt(direct[1])
        self.owner.meet(self.weather)

    async def disturb(self) -> None:
        """Kill one instance after the other, and let the tables change their owner."""
        process = self.world.process("ownership")
        if self.changes:
            process.start(self._change())
        try:
            await self.owner.kill_now_and_then()
        finally:
            process.crash()

    async def _change(self) -> None:
        tables = self.tables(WeatherStation(self.world, self.weather))
        while True:
            table = self.world.random.choice(tables)
            with suppress(*FAILURES):
                await release_table(table, user_metadata=ALONE)
            await self._adopt(table)
            await asyncio.sleep(self.world.random.uniform(0.2, 3.0))

    async def _adopt(self, table: Table) -> None:
        while True:
            with suppress(*FAILURES):
                await adopt_table(table, OWNER, {"endpoint": ENDPOINT}, user_metadata=ALONE)
                return
            await asyncio.sleep(0.1)

    async def come_to_rest(self) -> None:
        """Wait until all is backfilled."""
        self.owner.meet(CALM)
        await super().come_to_rest()
        for table in self.tables(Direct()):
            await self._adopt(table)
        self.wrong += self.owner.failures

    async def part(self, tables: Sequence[Table]) -> None:
        """Take one table from the owner; its rows stay."""
        one = tables[0]
        before = await one.snapshot()
        rows = (await before.scan().to_arrow()).sort_by("amount")
        await release_table(one, user_metadata=ALONE)
        after = await one.snapshot()
        if self.owner.properties.keys() & after.properties.keys():
            self.wrong.append("a table that was released has an owner")
        if (await after.scan().to_arrow()).sort_by("amount") != rows:
            self.wrong.append("a table that was released has other rows")


def owned_transferred(
    seed: int,
    *,
    writers: int,
    transfers: int,
    faults: int,
    torn: bool = False,
    changes: bool = False,
) -> tuple[int, list[str], str]:
    """How many transactions of a seed were acknowledged, what is wrong, and the trace's digest."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    bank = _OwnedBank(seed, faults, torn=torn, changes=changes)
    bank.world.keeps_trace = True
    try:
        bank.world.run(lambda: bank.main(writers, transfers))
    except AdeltaError as error:
        bank.wrong.append(f"the tables cannot be used any more: {error!r:.300}")
    return bank.made, bank.wrong, bank.world.digest()
