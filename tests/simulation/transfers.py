"""Transactions over two tables: amounts go from the one to the other, and their sum stays.

Writers fail, requests are lost, and the catalog that has both tables fails over. Whoever asks for
both at one moment finds the sum of all amounts to be nothing; so it is after any number of
transactions, each of which is in both logs, or in neither.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.errors import CommitConflictError, CommitOutcomeUnknownError, StorageError
from adelta.log.commit_reader import read_commit
from adelta.operations import write_table
from adelta.operations.snapshots import snapshots
from adelta.operations.transaction_over import transaction_over
from adelta.table import Table
from tests.simulation.catalog import Catalog, CatalogClient
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.weather import Weather, WeatherStation
from tests.simulation.world import World
from tests.support.catalogs import MANAGED
from tests.support.created import create_in

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.errors import AdeltaError
    from tests.simulation.store import Network

__all__ = ["ALONE", "FAILURES", "FAULTS", "SCHEMA", "Bank", "transferred"]

SCHEMA = pa.schema([("amount", pa.int64())])
ALONE = "one table alone"
FAULTS = ("refused", "lost_before", "lost_after", "late", "repeated")
FAILURES = (CommitConflictError, CommitOutcomeUnknownError, StorageError)


class Bank:
    """Two tables, and those who move amounts between them; by `failures` they are not put off."""

    failures: tuple[type[AdeltaError], ...] = FAILURES

    def __init__(self, seed: int, faults: int, *, torn: bool) -> None:
        self.world = World(seed)
        self.world.keeps_trace = False
        self.buckets = [Bucket(self.world) for _ in range(2)]
        self.catalogs = [Catalog(self.world, torn=torn) for _ in range(2)]
        self.weather = Weather(**dict.fromkeys(FAULTS, faults / 1000))
        self.wrong: list[str] = []
        self.made = 0

    def tables(self, network: Network) -> list[Table]:
        """Handles on both, over a network."""
        made = []
        for number, (bucket, catalog) in enumerate(zip(self.buckets, self.catalogs, strict=True)):
            store = SimulatedStore(bucket, network, f"s3://simulated/account{number}")
            client = CatalogClient(catalog, network)
            made.append(Table(store.uri, store=store, catalog=client))  # type: ignore[arg-type]
        return made

    async def transfer(self, tables: Sequence[Table], transfers: int) -> None:
        """Let one amount go after the other, now and then by what has been read."""
        done = 0
        while done < transfers:
            amount = self.world.random.randint(1, 9)
            try:
                if amount % 2:  # so that the other table is at another version
                    await write_table(tables[amount % 4 // 2], _row(0), user_metadata=ALONE)
                async with transaction_over(*tables) as (one, other):
                    if amount > 6:  # both are as they were read, when they are changed
                        await one.read()
                    await one.append(_row(-amount))
                    await other.append(_row(amount))
                    if amount % 3 == 0:
                        await one.append(_row(-amount))
                        await other.append(_row(amount))
            except self.failures:
                continue
            done += 1
            self.made += 1

    async def look(self, tables: Sequence[Table]) -> None:
        """See both at one moment, again and again."""
        while True:
            try:
                self.check(await _sum(tables), "are read")
            except self.failures:
                continue
            await asyncio.sleep(0.2)

    def check(self, total: int, when: str) -> None:
        if total:
            self.wrong.append(f"the amounts are {total} together when they {when}")

    async def prepare(self) -> None:
        """Create both."""
        for table in self.tables(Direct()):
            await create_in(table, SCHEMA, MANAGED)

    async def disturb(self) -> None:
        """Let the catalog fail."""
        for catalog in self.catalogs:
            catalog.fail_over(0.5)

    async def come_to_rest(self) -> None:
        """Wait until nothing is under way."""
        await asyncio.sleep(100)

    async def part(self, tables: Sequence[Table]) -> None:
        """Take the tables from who has both; here nobody does."""

    async def main(self, writers: int, transfers: int) -> None:
        """All of it."""
        await self.prepare()
        processes = [self.world.process(f"writer{n}") for n in range(writers + 2)]
        tables = [self.tables(WeatherStation(self.world, self.weather)) for _ in processes]
        works = [
            process.start(self.transfer(own, transfers))
            for process, own in zip(processes[:writers], tables, strict=False)
        ]
        processes[writers].start(self.look(tables[writers]))
        processes[-1].start(self.transfer(tables[-1], 1_000_000))
        await asyncio.sleep(self.world.random.uniform(0.1, 1.0))
        processes[-1].crash()
        trouble = asyncio.ensure_future(self.disturb())
        await asyncio.wait(works)
        trouble.cancel()
        for task in works:
            task.result()
        for process in processes:
            process.crash()
        await self.come_to_rest()
        direct = self.tables(Direct())
        self.check(await _sum(direct), "are at rest")
        one, other = [await _transactions(table) for table in direct]
        if one != other:
            self.wrong.append(f"the transactions {one ^ other} are in one log alone")
        if len(one) < self.made:
            self.wrong.append(f"{self.made} transactions were acknowledged, {len(one)} are there")
        await self.part(direct)


async def _sum(tables: Sequence[Table]) -> int:
    found = [await each.scan().to_arrow() for each in await snapshots(*tables)]
    return sum(sum(table["amount"].to_pylist()) for table in found)


async def _transactions(table: Table) -> set[str | None]:
    last = (await table.snapshot()).version
    infos = [(await read_commit(table.store, v)).info for v in range(1, last + 1)]
    return {info.txn_id for info in infos if info.user_metadata != ALONE}


def _row(amount: int) -> pa.Table:
    return pa.table({"amount": [amount]}, schema=SCHEMA)


def transferred(
    seed: int, *, writers: int, transfers: int, faults: int, torn: bool = False
) -> tuple[int, list[str]]:
    """How many transactions of a seed were acknowledged, and what is wrong."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    bank = Bank(seed, faults, torn=torn)
    bank.world.run(lambda: bank.main(writers, transfers))
    return bank.made, bank.wrong
