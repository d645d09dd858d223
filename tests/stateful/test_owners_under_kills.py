"""Owners and writers are killed at any moment: each change is there once, and never in half.

Several `adelta serve` with one ledger stand behind a load balancer. Writers in processes of their
own change two tables, most of them both in one transaction, while owners and writers are killed and
others are started; readers look at both tables at one moment, and a consumer follows one of them.

`ADELTA_TEST_DEPTH=all` makes 5,000 commits with three owners, one of which is killed every five
seconds, and shorter runs with SQLite and on S3, and one in which the tables move from the owners of
one ledger to those of another, and back, all the time.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import asdict, dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import AdeltaError, InvalidOptionError
from adelta.operations.ownership import adopt_table, release_table
from tests.support.balancer import balanced
from tests.support.depth import DEEP, cases
from tests.support.local_servers import free_port
from tests.support.owned_lake import lake_of, owned_by
from tests.support.owned_writers import Writers, work
from tests.support.owner_process import OwnerProcess
from tests.support.owners import new_database
from tests.support.two_tables import Watch, published

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Location

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = pa.schema([("id", pa.int64())])
PROCESSES, TASKS = cases(4, 1), cases(4, 6)
COMMITS = cases(5000, 45)
KILL_EVERY = 5.0  # seconds; in the short run, there is a death after each third of the commits
LOOK_EVERY = 3  # commits, of each reader
MOVE_EVERY = 3  # commits

pytestmark = pytest.mark.timeout(3600 if DEEP else 600)


@dataclass
class WritersProcess:
    """A process with writers, of which `watch` hears what it says."""

    writers: Writers
    watch: Watch
    process: asyncio.subprocess.Process | None = None
    errors: bytes = b""

    async def run(self) -> None:
        """Hear it until it ends."""
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.support.owned_writers"),
            json.dumps(asdict(self.writers)),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            with suppress(json.JSONDecodeError):  # it was killed when it said that
                self.watch.hear(json.loads(line))
        code = await self.process.wait()
        assert not code or self.writers.name in self.watch.dead, code

    def kill(self) -> None:
        """End it at once, wherever it is."""
        assert self.process is not None
        self.watch.dead.add(self.writers.name)
        self.process.kill()

    def end(self) -> None:
        """End it when its changes have ended."""
        assert self.process is not None
        assert self.process.stdin is not None
        self.process.stdin.close()


@dataclass
class Run:
    """Two tables of some owners, and who writes to them."""

    owners: Sequence[OwnerProcess]
    uris: Sequence[str]
    stored: Mapping[str, str]
    options: Mapping[str, str]
    commits: int
    endpoints: Sequence[str]
    watch: Watch = field(default_factory=Watch)
    clients: list[WritersProcess] = field(default_factory=list)
    owners_killed: int = 0
    moves: int = 0
    is_over: bool = False
    random: random.Random = field(default_factory=lambda: random.Random(15))

    async def work(self) -> None:
        """Let writers make so many commits, while owners and writers are killed."""
        async with asyncio.TaskGroup() as group:
            for _ in range(PROCESSES):
                self._start(group)
            killing = group.create_task(self._kill(group))
            await self.watch.reaches(self.commits)
            self.is_over = True
            await killing
            for client in self.clients:
                client.end()

    async def _kill(self, group: asyncio.TaskGroup) -> None:
        for turn in count(1):
            if DEEP:
                await asyncio.sleep(KILL_EVERY)
            else:
                await self.watch.reaches(turn * self.commits // 3)
            if self.is_over:
                return
            if turn % 3 == 1:
                self.clients.pop(0).kill()
                self._start(group)
            if turn % 3 == 2 or DEEP:
                owner = self.random.choice(self.owners)
                await asyncio.to_thread(owner.kill)
                await asyncio.to_thread(owner.start)
                self.owners_killed += 1

    def _start(self, group: asyncio.TaskGroup) -> None:
        name = f"w{len(self.clients) + len(self.watch.dead)}"
        writers = Writers(name, TASKS, self.uris, self.options)
        self.clients.append(WritersProcess(writers, self.watch))
        group.create_task(self.clients[-1].run())

    @asynccontextmanager
    async def tables(self) -> AsyncIterator[list[adelta.Table]]:
        """Handles of both."""
        async with AsyncExitStack() as stack:
            yield [
                await stack.enter_async_context(adelta.open_table(uri, dict(self.options)))
                for uri in self.uris
            ]

    async def read(self) -> None:
        """Look at both tables, again and again."""
        async with self.tables() as tables:
            while True:
                with suppress(*([InvalidOptionError] if len(self.endpoints) > 1 else [])):
                    await self.watch.look(*tables)  # while they have one owner
                await self.watch.reaches(len(self.watch.committed) + LOOK_EVERY)
                await asyncio.sleep(0.02 * self.random.random())

    async def move(self) -> None:
        """Give the tables to the owners of another ledger, one after the other, again and again."""
        for at in cycle(range(len(self.endpoints))):
            for uri in self.random.sample(self.uris, len(self.uris)):
                await self._move_to(uri, self.endpoints[at])
            await self.watch.reaches(len(self.watch.committed) + MOVE_EVERY)

    async def _move_to(self, uri: str, endpoint: str) -> None:
        """Have a table change hands, directly or by way of its store."""
        while True:
            with suppress(AdeltaError):
                if self.random.random() < 0.3:
                    await release_table(uri, storage_options=self.options)
                conf = {"endpoint": endpoint}
                await adopt_table(uri, "adelta", conf, storage_options=self.options)
                self.moves += 1
                return
            await asyncio.sleep(0.05)

    async def follow(self, seen: list[int]) -> None:
        """Follow the first table."""
        async with aclosing(adelta.tail(self.uris[0], storage_options=self.options)) as commits:
            async for commit in commits:
                seen.append(commit.version)  # noqa: PERF401 - it is looked at meanwhile

    async def latest(self) -> list[int]:
        """The latest versions, as the owners have them."""
        async with self.tables() as tables:
            return [(await table.snapshot()).version for table in tables]


@asynccontextmanager
async def prepared(
    databases: Sequence[str], owners: int, root: str, stored: Mapping[str, str], commits: int
) -> AsyncIterator[Run]:
    """Two tables below `root`, and for each ledger so many owners behind one address.

    They are those of the first one.
    """
    given = ("--max-rate=1000000", *(f"--option={key}={value}" for key, value in stored.items()))
    groups = [
        [OwnerProcess(database, free_port(), given) for _ in range(owners)]
        for database in databases
    ]
    processes = [process for group in groups for process in group]
    try:
        async with AsyncExitStack() as stack:
            endpoints = []
            for group in groups:
                for process in group:
                    await asyncio.to_thread(process.start)
                port = await stack.enter_async_context(balanced([each.port for each in group]))
                endpoints.append(f"http://127.0.0.1:{port}")
            options = {
                **stored,
                "adelta_owner_endpoint": ",".join(endpoints),
                "adelta_owner_token": ",".join(group[0].token or "" for group in groups),
            }
            properties = {**owned_by(endpoints[0]), "delta.checkpointInterval": "100"}
            uris = [f"{root}/orders", f"{root}/stock"]
            for uri in uris:
                table = await adelta.create_table(
                    uri, SCHEMA, properties=properties, storage_options=options
                )
                await table.aclose()
            yield Run(processes, uris, stored, options, commits, endpoints)
    finally:
        for process in processes:
            if process.process is not None and process.process.poll() is None:
                await asyncio.to_thread(process.stop)


async def check(run: Run) -> None:
    """Make the run, and find nothing wrong."""
    begun, seen = time.monotonic(), list[int]()
    others = [asyncio.ensure_future(run.read()) for _ in range(2)]
    others.append(asyncio.ensure_future(run.follow(seen)))
    moving = asyncio.ensure_future(run.move()) if len(run.endpoints) > 1 else None
    try:
        await run.work()
        if moving is not None:
            moving.cancel()
            await asyncio.wait([moving])
        seconds = time.monotonic() - begun
        latest = await run.latest()
        async with asyncio.timeout(60):  # by the owners alone, who find it in their ledger
            followed = False
            while not followed:
                await asyncio.sleep(0.2)
                there = await published(run.uris, run.stored) == latest
                failed = any(task.done() for task in others)
                followed = failed or (there and seen[-1:] == latest[:1])
    finally:
        for task in others:
            task.cancel()
        ended = await asyncio.gather(*others, return_exceptions=True)
    failures = [each for each in ended if not isinstance(each, asyncio.CancelledError)]
    assert not failures, failures
    assert await run.watch.compare(run.uris, run.stored) == latest
    assert seen == list(range(latest[0] + 1))
    outcomes = dict(run.watch.outcomes)
    print(
        f"{outcomes}, versions {latest}, {run.owners_killed} owners and {len(run.watch.dead)} "
        f"writers' processes killed, {run.moves} moves, {run.watch.reads} reads, {seconds:.0f} s: "
        f"{len(run.watch.violations)} violations"
    )
    assert run.watch.violations == []
    assert run.watch.refused
    assert any(len(versions) == 2 for versions in run.watch.committed.values())


async def test_several_owners_of_one_ledger_are_killed(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    database = await new_database(postgres_server)
    async with prepared([database], cases(3, 2), str(tmp_path), {}, COMMITS) as run:
        await check(run)


@pytest.mark.skipif(not DEEP, reason="a longer form of the test before")
async def test_the_only_owner_is_killed(tmp_path: Path) -> None:
    async with prepared([str(tmp_path / "owner.db")], 1, str(tmp_path), {}, COMMITS // 10) as run:
        await check(run)


@pytest.mark.skipif(not DEEP, reason="a longer form of the test before")
async def test_several_owners_of_tables_on_s3_are_killed(
    s3_location: S3Location, postgres_server: PostgresServer
) -> None:
    database, stored = await new_database(postgres_server), s3_location.storage_options
    async with prepared([database], 3, s3_location.uri, stored, COMMITS // 10) as run:
        await check(run)


@pytest.mark.skipif(not DEEP, reason="a longer form of the test before")
async def test_owners_are_killed_while_tables_move_to_those_of_another_ledger(
    tmp_path: Path, postgres_server: PostgresServer
) -> None:
    ledgers = [await new_database(postgres_server) for _ in range(2)]
    async with prepared(ledgers, 2, str(tmp_path), {}, COMMITS // 10) as run:
        await check(run)
        assert run.moves > 4


async def test_the_checker_finds_halves_where_changes_are_two_commits(tmp_path: Path) -> None:
    """The negative control."""
    watch = Watch()

    def goes_on() -> bool:
        return not watch.violations and len(watch.committed) < 100

    async with lake_of(tmp_path) as lake:
        tables = await lake.make("orders", "stock")
        writers = Writers("w", 2, [table.uri for table in tables], lake.options, apart=True)
        async with asyncio.TaskGroup() as group:
            group.create_task(work(writers, watch.hear, goes_on))
            while goes_on():
                await watch.look(*tables)
    assert "was seen in half" in watch.violations[0]
