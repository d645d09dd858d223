"""A table that is dropped and made anew at the same place, again and again, in the simulated world.

Writers add rows, and rows that say how many there were; who finds no table makes one. Others drop
it, two at once now and then; readers, tailers and who keeps the log go on through it all, with
handles that know the table before, and stop for seconds in the midst of it. A life of the table is
from one version 0 to the next; the first one begins with a log that has expired. In each its
commits follow each other and stay, each is of what the one before has left in the same life, and
nobody is told of a commit, or of rows, that are of none. Nothing lies beside the commits that
somebody has left who worked on the table before and has ended. Whoever dies between a commit and
the look whether its base is there leaves that commit behind, and a checkpoint that comes late
stands for a table until it is taken back: either spoils a life.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._clock import monotonic
from adelta.changes import tail
from adelta.errors import AdeltaError, CommitOutcomeUnknownError
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.log_path import commit_path, commit_version, parse_log_path
from adelta.operations import (
    checkpoint,
    cleanup_log,
    compact_log,
    drop_table,
    generate_manifest,
    vacuum,
    write_table,
)
from adelta.table import Table
from tests.simulation.left_behind import Lazy, left_behind
from tests.simulation.store import Bucket, Direct, SimulatedStore
from tests.simulation.weather import Weather
from tests.simulation.world import World

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tests.simulation.store import Network

__all__ = ["remade"]

_SCHEMA = pa.schema([("id", pa.int64()), ("count", pa.int64())])
_FAULTS = ("refused", "lost_before", "lost_after", "repeated")  # what is late stays behind a drop
_URI = "s3://simulated/table"
_SECONDS = 40.0
_NOBODY = -1  # counts of rows that count nothing
_DROPPED = b"adelta.dropped"
_AGED = 40 * 86_400.0  # seconds
_LOOKS = 2.0  # seconds from one look at what lies beside the commits to the next
_SETTINGS: tuple[dict[str, str], ...] = (
    {},
    {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "3"},
    {"adelta.logCompactionInterval": "2", "delta.checkpointInterval": "5"},
    {"delta.compatibility.symlinkFormatManifest.enabled": "true"},
)

Row = tuple[int, int]


@dataclass
class _Life:
    """What became of the table from a version 0 on: its commits' names, and rows as they say."""

    began: float
    id: str = ""
    ended: float = float("inf")
    spoilt: float = float("inf")
    names: dict[int, str | None] = field(default_factory=dict)
    rows: list[tuple[Row, ...]] = field(default_factory=list)


@dataclass(frozen=True)
class _Said:
    """What somebody was told: of a commit by its `name`, or of the `rows` of a version."""

    begun: float
    ended: float
    version: int
    name: str = ""
    rows: tuple[Row, ...] = ()


class _Remaking:
    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.world.keeps_trace = False
        self.random = random.Random(f"anew {seed}")
        faults = self.random.choice([0, 5, 20]) / 1000
        slow = self.random.choice([0.02, 0.1])
        self.weather = Weather(slow=slow, **dict.fromkeys(_FAULTS, faults))
        self.bucket = Bucket(self.world)
        self.bucket.on_change = self._keep
        self.lives: list[_Life] = []
        self.said: list[_Said] = []
        self.undone: set[str] = set()  # names of what was refused, or failed
        self.followed: list[list[tuple[float, int, str | None]]] = []
        self.wrong: list[str] = []
        self.rows: dict[str, Row] = {}  # what whoever has that name wants to add
        self.calm = not faults  # who looks is told, and who takes back is let
        self.settings = self.random.choice(_SETTINGS)
        self.networks: list[Lazy] = []

    # --------------------------------------------------------------------------- what the log is

    def _keep(self, path: str, data: bytes | None) -> None:
        version, now = commit_version(path), self.world.loop.time()
        if version is None:
            if data is not None and self.lives and self._is_foreign(path):
                self.lives[-1].spoilt = min(now, self.lives[-1].spoilt)
            return
        if data is None:
            self._take_back(version)
        elif version == 0:
            if self.lives:
                self.lives[-1].ended = min(now, self.lives[-1].ended)
            self.lives.append(_Life(now))
            self._add(0, data)
            if any(map(self._is_foreign, self.bucket.objects)):
                self.lives[-1].spoilt = now
            self.world.loop.call_later(_LOOKS, self._look_at, self.lives[-1])
        elif self.lives[-1].ended > now:
            self._add(version, data)

    def _take_back(self, version: int) -> None:
        life = self.lives[-1]
        if min(life.ended, life.spoilt) < float("inf") or version not in life.names:
            return
        if version and version == max(life.names):
            del life.names[version], life.rows[-1]
        elif life is not self.lives[0]:  # which has expired, as far as it was there at first
            self.wrong.append(f"version {version} is deleted of a table that is there")

    def _look_at(self, life: _Life) -> None:
        is_first = life is self.lives[0]  # in which there is what others lack
        if is_first or life is not self.lives[-1] or not self.calm:
            return
        if min(life.ended, life.spoilt) < float("inf"):
            return
        self.world.loop.call_later(_LOOKS, self._look_at, life)
        excused = {path for each in self.networks for path in each.sent}
        found = left_behind(self.bucket, life.id, max(life.names), excused)
        self.wrong += [f"{path} is left of a table before" for path in found]

    def _is_foreign(self, path: str) -> bool:
        """Whether it is a checkpoint that brings back another table, or one that is dropped."""
        file, life = parse_log_path(path), self.lives[-1]
        if file is None or not file.is_checkpoint:
            return False
        latest, is_over = max(life.names), life.ended < float("inf")
        gone = is_over and commit_path(latest) not in self.bucket.objects
        return file.version > latest or gone

    def _is_left(self, version: int) -> bool:
        """Whether somebody who has died has put a commit there, and had no time to look."""
        path = commit_path(version)
        dead = (each for each in self.networks if not each.process.alive)
        return path in self.bucket.objects and any(path in each.sent for each in dead)

    def _add(self, version: int, data: bytes) -> None:
        now = self.world.loop.time()
        life, actions = self.lives[-1], [*map(json.loads, data.splitlines())]
        if version != len(life.rows):
            return  # it has to be taken back; else its name is in no life
        if self._is_left(version + 1):
            life.spoilt = min(now, life.spoilt)
        told = next(each["commitInfo"] for each in actions if "commitInfo" in each)
        said = told.get("userMetadata")
        life.names[version] = said
        life.id = next((each["metaData"]["id"] for each in actions if "metaData" in each), life.id)
        if _DROPPED in data:
            life.rows.append(())
            life.ended = now
            return
        before = life.rows[-1] if version else ()
        row = self.rows[said] if said else None
        counts = row and row[1] != _NOBODY and life.spoilt == float("inf")
        if row and counts and row[1] != len(before):
            self.wrong.append(f"version {version} counts {row[1]} rows, where {len(before)} were")
        life.rows.append(before if row is None else (*before, row))
        for each in actions:
            path = decode_path(each["add"]["path"]) if "add" in each else None
            if path is not None and path not in self.bucket.objects:
                self.wrong.append(f"version {version} names {path}, which is not there")

    # ------------------------------------------------------------------------------ what they do

    def _table(self, network: Network) -> Table:
        return Table(_URI, store=SimulatedStore(self.bucket, network, _URI))

    async def _write(self, table: Table) -> None:
        kind = self.random.choice((self._append, self._append, self._count, self._read))
        name = str(len(self.rows))
        self.rows[name] = (len(self.rows), _NOBODY)
        begun = monotonic()
        try:
            version = await kind(table, name)
        except CommitOutcomeUnknownError:
            return
        except AdeltaError:
            self.undone.add(name)
            return
        if version is not None:
            self.said.append(_Said(begun, monotonic(), version, name))

    async def _append(self, table: Table, name: str) -> int | None:
        row, settings = _data(self.rows[name]), self.settings
        made = await write_table(table, row, user_metadata=name, properties=settings)
        return made.version

    async def _count(self, table: Table, name: str) -> int | None:
        """Add a row that says how many there are: what it has read is of the table it goes to."""
        async with table.transaction("count", user_metadata=name) as tx:
            await tx.read()
            there = await table.snapshot(version=tx.read_version)
            if there.metadata.id != tx.metadata.id:
                raise AdeltaError("there is another table now")
            self.rows[name] = (int(name), (await there.scan().to_arrow()).num_rows)
            await tx.append(_data(self.rows[name]))
        return tx.version

    async def _read(self, table: Table, _: str) -> None:
        begun = monotonic()
        there = await table.snapshot()
        found = await there.scan().to_arrow()
        rows = zip(found["id"].to_pylist(), found["count"].to_pylist(), strict=True)
        self.said.append(_Said(begun, monotonic(), there.version, rows=tuple(sorted(rows))))

    async def _keep_up(self, table: Table) -> None:
        keep = self.random.choice((checkpoint, compact_log, generate_manifest, vacuum))
        with suppress(AdeltaError):
            await keep(table)

    async def _clean(self, table: Table) -> None:
        with suppress(AdeltaError):
            await cleanup_log(table)

    async def _drop(self, table: Table) -> None:
        await asyncio.sleep(self.random.uniform(0, 5))
        with suppress(AdeltaError):
            await drop_table(table)

    async def _follow(self, table: Table) -> None:
        self.followed.append(got := [])
        with suppress(AdeltaError):
            async for commit in tail(table, poll=0.2):
                got += [(monotonic(), commit.version, commit.info.user_metadata)]

    async def _make(self) -> None:
        """The table at first, with versions that nobody needs any more."""
        table = self._table(Direct())
        for number in range(4):
            self.rows[name := str(number)] = (number, _NOBODY)
            await self._append(table, name)
        await checkpoint(table)
        await asyncio.sleep(_AGED)
        self.rows["4"] = (4, _NOBODY)
        await self._append(table, "4")
        await checkpoint(table)
        await asyncio.sleep(_AGED)
        self.rows["5"] = (5, _NOBODY)
        await self._append(table, "5")

    async def _again_and_again(self, work: Callable[[Table], Awaitable[None]], name: str) -> None:
        """Do it over and over, in one process after the other, each with a handle that stays."""
        for number in range(1_000_000):
            process = self.world.process(f"{name}{number}")
            lazy = self.random.choice([0.0, 0.0, 0.02, 0.1])
            network = Lazy(self.world, self.weather, process, self.random, lazy)
            self.networks.append(network)
            table = self._table(network)

            async def works(table: Table = table, network: Lazy = network) -> None:
                while True:
                    await work(table)
                    network.sent.clear()
                    await asyncio.sleep(self.random.uniform(0, 0.3))

            task = process.start(works())
            await asyncio.wait((task,), timeout=self.random.uniform(1, 15))
            if task.done():
                task.result()
            process.crash()

    async def main(self) -> list[str]:
        """All of it; what is wrong."""
        await self._make()
        works: Mapping[str, Callable[[Table], Awaitable[None]]] = {
            "writer": self._write,
            "second": self._write,
            "third": self._write,
            "keeper": self._keep_up,
            "cleaner": self._clean,
            "dropper": self._drop,
            "other": self._drop,
            "tailer": self._follow,
        }
        tasks = [
            asyncio.ensure_future(self._again_and_again(work, name)) for name, work in works.items()
        ]
        done, _ = await asyncio.wait(tasks, timeout=_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in self.world.processes:
            process.crash()
        await asyncio.sleep(100)
        return self.wrong + self._told_wrongly() + await self._left_wrongly()

    # ------------------------------------------------------------------------------ what is wrong

    def _told_wrongly(self) -> list[str]:
        ends = [*(life.began for life in self.lives[1:]), float("inf")]
        found = [
            f"{each} is of no life of the table at that time"
            for each in self.said
            if not any(_is_of(each, *life) for life in zip(self.lives, ends, strict=True))
        ]
        there = {name for life in self.lives for name in life.names.values()}
        found += [f"{name} failed, and is in the log" for name in sorted(there & self.undone)]
        for got in self.followed:
            if not any(self._was(life, got) for life in self.lives):
                found.append(f"a tailer got {got}, which no life of the table is")
        return found

    def _was(self, life: _Life, got: list[tuple[float, int, str | None]]) -> bool:
        """Whether a tailer got each commit of a life, as far as it was not being dropped."""
        at = self.lives.index(life) + 1
        over = self.lives[at].began if at < len(self.lives) else float("inf")
        return [version for _, version, _ in got] == [*range(len(got))] and all(
            life.names.get(version) == name or min(life.ended, life.spoilt) <= time < over
            for time, version, name in got
        )

    async def _left_wrongly(self) -> list[str]:
        life = self.lives[-1]
        try:
            snapshot = await self._table(Direct()).snapshot()
            found = await snapshot.scan().to_arrow()
        except AdeltaError as error:
            over = min(life.ended, life.spoilt) < float("inf") or _commits(self.bucket) == []
            over = over or any(map(self._is_left, map(commit_version, _commits(self.bucket))))
            return [] if over else [f"what is left cannot be read: {error!r:.200}"]
        rows = sorted(zip(found["id"].to_pylist(), found["count"].to_pylist(), strict=True))
        if rows == sorted(life.rows[-1]) or life.spoilt < float("inf"):
            return []
        return [f"what is left has the rows {rows}, and ought to have {sorted(life.rows[-1])}"]


def _data(row: Row) -> pa.Table:
    return pa.table({"id": [row[0]], "count": [row[1]]}, _SCHEMA)


def _commits(bucket: Bucket) -> list[str]:
    return [path for path in bucket.objects if commit_version(path) is not None]


def _is_of(said: _Said, life: _Life, over: float) -> bool:
    if life.spoilt <= said.ended and said.begun < over:
        return True
    if said.name and life.ended <= said.begun < over:
        return True  # where the log is being deleted there are names for commits, which go as well
    if said.ended < life.began or said.begun > life.ended or said.version not in life.names:
        return said.rows == () and not said.name  # a table that is dropped has no rows
    if said.name:
        return life.names[said.version] == said.name
    return said.rows in ((), tuple(sorted(life.rows[said.version])))


def remade(seed: int) -> tuple[int, int, list[str]]:
    """How often a table of a seed was made, how many commits it had, and what is wrong."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    made = _Remaking(seed)
    wrong = made.world.run(made.main)
    return len(made.lives), sum(len(life.names) for life in made.lives), wrong
