"""A consumer that copies a table into another one, in the simulated world: each row comes once.

Writers append to the first table and rearrange it. Consumers of one name come one after the other,
whether the one before has died or goes on; their requests fail. The position is in the table that
they write to.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.consumers import Consumer
from adelta.errors import CommitConflictError, CommitOutcomeUnknownError, StorageError
from adelta.operations import checkpoint, optimize, write_table
from adelta.table import Table
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.transfers import FAULTS
from tests.simulation.weather import Weather, WeatherStation
from tests.simulation.world import World
from tests.support.created import create_in

if TYPE_CHECKING:
    from tests.simulation.store import Network
    from tests.simulation.world import Process

__all__ = ["copied"]

_SCHEMA = pa.schema([("id", pa.int64())])
_FAILURES = (CommitConflictError, CommitOutcomeUnknownError, StorageError)
_SOURCE, _TARGET = "source", "target"


class _Copying:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.keeps_trace = False
        self.random = random.Random(f"copies {seed}")
        self.weather = Weather(**dict.fromkeys(FAULTS, self.random.choice([0, 10, 30]) / 1000))
        self.buckets = {name: Bucket(self.world) for name in (_SOURCE, _TARGET)}
        self.appended = 0
        self.consumers: list[Process] = []

    def table(self, name: str, network: Network) -> Table:
        """A handle over a network."""
        uri = f"s3://simulated/{name}"
        return Table(uri, store=SimulatedStore(self.buckets[name], network, uri))

    async def write(self, number: int) -> None:
        """Append some rows, ten times, and rearrange those that are there."""
        table, draw = self.table(_SOURCE, WeatherStation(self.world, self.weather)), self.random
        for commit in range(10):
            ids = range(first := 1000 * number + 10 * commit, first + draw.randint(1, 9))
            with suppress(*_FAILURES):
                await write_table(table, pa.table({"id": [*ids]}, _SCHEMA))
            with suppress(*_FAILURES):
                if draw.random() < 0.4:
                    await draw.choice([optimize, checkpoint])(table)
            await asyncio.sleep(draw.random())

    async def consume(self, network: Network, *, follow: bool) -> None:
        """Copy batch after batch, and begin anew after what fails."""
        source, target = self.table(_SOURCE, network), self.table(_TARGET, network)
        while True:
            rows = self.random.choice([3, 7, 50])
            with suppress(*_FAILURES):
                async with Consumer(
                    source, "copy", target, max_rows=rows, poll=0.2, follow=follow
                ) as consumer:
                    async for batch in consumer:
                        await consumer.append(batch)
                        self.appended += 1
                return
            await asyncio.sleep(0.1)

    def begin(self) -> None:
        """Let another consumer of the name begin."""
        process = self.world.process(f"consumer{len(self.consumers)}")
        network = WeatherStation(self.world, self.weather)
        process.start(self.consume(network, follow=True))
        self.consumers.append(process)

    async def main(self) -> list[str]:
        """All of it; what is wrong."""
        for name in self.buckets:
            await create_in(self.table(name, Direct()), _SCHEMA, {"delta.checkpointInterval": "4"})
        writers = [self.world.process(f"writer{n}").start(self.write(n)) for n in range(2)]
        self.begin()
        for _ in range(self.random.randint(2, 6)):
            await asyncio.sleep(self.random.uniform(0.2, 2.0))
            if self.random.random() < 0.7:
                self.consumers[-1].crash()
            self.begin()
        await asyncio.gather(*writers)
        await asyncio.sleep(100)
        for process in self.consumers:
            process.crash()
        await asyncio.sleep(100)
        await self.consume(Direct(), follow=False)
        there, came = [await self._ids(name) for name in (_SOURCE, _TARGET)]
        found = [f"{each} came {came[each]} times" for each in came if came[each] != there[each]]
        return found + [f"{each} never came" for each in there if each not in came]

    async def _ids(self, name: str) -> Counter[int]:
        snapshot = await self.table(name, Direct()).snapshot()
        return Counter((await snapshot.scan(columns=["id"]).to_arrow())["id"].to_pylist())


def copied(seed: int) -> tuple[int, list[str]]:
    """How many batches consumers of a seed have appended, and what is wrong."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    made = _Copying(seed)
    wrong = made.world.run(made.main)
    return made.appended, wrong
