"""The process that is watched: it works on tables round by round, and says what it holds.

    python -m tests.soak.service '{"minutes": 60, "roots": [...], "options": [...], "commits": 40}'

A round is a new table, on each of the roots in turn: tasks change it, read it, follow its log and
clean it up, as in ``tests.support.workload``, by handles that are closed at its end. Beside that
one table is there all the time, with a handle and a consumer. Lines of standard
output are what the workers say, the end of each round with its table, and a sample after it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import pyarrow as pa

import adelta
import adelta.sync
from adelta._concurrency import MOST_THREADS
from adelta.errors import AdeltaError, TableAlreadyExistsError
from tests.soak.growth import Sample
from tests.support.workload import SCHEMA, Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

HANDLES = 3
ROWS = 50
LOOPS = 2  # this module's, and that of adelta.sync
POOLS = {name: LOOPS * most for name, most in MOST_THREADS.items()} | {
    "asyncio": min(32, (os.cpu_count() or 1) + 4)  # what `asyncio.to_thread` uses
}
_KEPT_COMMITS = 500  # of the steady table's log
STEADY_COMMITS = 250  # of a round: a handle begins anew after 1000


@dataclass(frozen=True)
class Plan:
    """How long, how many commits a round, and where tables lie, with their storage options."""

    minutes: float
    commits: int
    roots: Sequence[str]
    options: Sequence[Mapping[str, str]]


def say(what: Mapping[str, Any]) -> None:
    print(json.dumps(what), flush=True)


def sample(began: float) -> Sample:
    """What the process holds now."""
    gc.collect()
    status = Path("/proc/self/status").read_text()
    found = re.search(r"^VmRSS:\s*(\d+) kB$", status, re.MULTILINE)
    assert found is not None
    workers = pooled_threads()
    return Sample(
        seconds=time.monotonic() - began,
        resident=int(found[1]) << 10,
        arrow=pa.total_allocated_bytes(),
        blocks=sys.getallocatedblocks(),
        descriptors=len(os.listdir("/proc/self/fd")),
        threads=threading.active_count() - workers,
        workers=workers,
        tasks=len(asyncio.all_tasks()),
    )


def pooled_threads() -> int:
    """How many threads there are of pools that start them as they are needed, up to a bound.

    Those beyond the bound are not counted among them.
    """
    names = (re.sub(r"_\d+$", "", thread.name) for thread in threading.enumerate())
    return sum(min(count, POOLS.get(name, 0)) for name, count in Counter(names).items())


async def follow(uri: str, options: Mapping[str, str]) -> None:
    """Follow a log, and begin again behind the last commit where that fails."""
    seen = 0
    while True:
        try:
            async with aclosing(adelta.tail(uri, seen, poll=0.5, storage_options=options)) as log:
                async for commit in log:
                    seen = commit.version + 1
        except AdeltaError:
            await asyncio.sleep(0.1)


async def insisted(operation: Callable[[], Awaitable[object]]) -> None:
    """Do it again where a fault of the network has ended it, as a user would; not for ever."""
    for _ in range(5):
        try:
            await operation()
            return
        except AdeltaError as error:
            print(repr(error), file=sys.stderr)


async def make(uri: str, options: Mapping[str, str]) -> None:
    """Make a table; one that an attempt before has made is that one."""
    with suppress(TableAlreadyExistsError):
        made = await adelta.create_table(uri, SCHEMA, partition_by=["p"], storage_options=options)
        await made.aclose()


async def one_round(number: int, plan: Plan) -> None:
    """Make a table's history."""
    at = number % len(plan.roots)
    uri, options = f"{plan.roots[at]}/round-{number}", dict(plan.options[at])
    say({"round": number, "uri": uri, "root": at})
    await insisted(lambda: make(uri, options))
    following = asyncio.ensure_future(follow(uri, options))
    async with AsyncExitStack() as stack:
        workers = []
        for each in range(HANDLES):
            table = await stack.enter_async_context(adelta.open_table(uri, options))
            seed = number * HANDLES + each + 1
            commits = plan.commits // HANDLES
            workers.append(Worker(table, f"w{seed}", seed, commits, say, upkeep=True))
        await asyncio.gather(*(worker.work() for worker in workers for _ in range(2)))
        await insisted(lambda: adelta.optimize(workers[0].table))
    following.cancel()
    await asyncio.gather(following, return_exceptions=True)
    await insisted(lambda: asyncio.to_thread(look, uri, options))
    say({"ended": number})


def look(uri: str, options: dict[str, str]) -> None:
    """Read it once by the blocking face."""
    with adelta.sync.open_table(uri, options) as table:
        table.snapshot().scan().count()


class Steady:
    """The table that is there all the time, with one handle."""

    def __init__(self, table: adelta.Table) -> None:
        self.table = table
        self.random = random.Random(1)
        self.commits = 0

    async def work(self) -> None:
        """Make so many commits, of which one in ten writes a partition anew, and is read."""
        for _ in range(STEADY_COMMITS):
            self.commits += 1
            if self.commits % 10:
                async with self.table.transaction() as tx:
                    tx.set_transaction("soak", self.commits)
                continue
            p = self.random.choice("abc")
            rows = pa.table(
                {"p": [p] * ROWS, "id": range(ROWS), "value": [self.commits] * ROWS}, schema=SCHEMA
            )
            where = f"p = '{p}'"
            await adelta.write_table(self.table, rows, mode="overwrite", replace_where=where)
            scan = (await self.table.snapshot()).scan(where=where)
            assert (await scan.to_arrow()).num_rows == ROWS
        await asyncio.to_thread(self._let_days_pass)

    def _let_days_pass(self) -> None:
        """Delete what a clean-up leaves for the rest of a day: it grows with every commit."""
        log = Path(unquote(urlsplit(self.table.uri).path), "_delta_log")
        for file in log.iterdir():
            version = file.name[:20]
            if version.isdigit() and int(version) < self.commits - _KEPT_COMMITS:
                file.unlink()


async def main(plan: Plan) -> None:
    began, number = time.monotonic(), 0
    uri, options = f"{plan.roots[0]}/steady", plan.options[0]
    kept = ("delta.logRetentionDuration", "delta.deletedFileRetentionDuration")
    properties = dict.fromkeys(kept, "interval 1 minutes")
    table = await adelta.create_table(
        uri, SCHEMA, partition_by=["p"], properties=properties, storage_options=options
    )
    async with table:
        steady = Steady(table)
        following = asyncio.ensure_future(follow(uri, options))
        while time.monotonic() < began + 60 * plan.minutes:
            await asyncio.gather(one_round(number, plan), steady.work())
            await asyncio.sleep(0.5)
            say({"sample": asdict(sample(began)), "steady": steady.commits})
            number += 1
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(Plan(**json.loads(sys.argv[1]))))
