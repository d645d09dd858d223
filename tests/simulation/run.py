"""A simulated run: writers, readers and keepers of one table, and what is wrong with its history.

Writers change it in all the ways of the workload, by what excludes writers in this run; tailers
follow its log, and keepers look after it. The table is first used for a while and left alone for 40
days; then it is used while VACUUM and the clean-up of the log delete what is old. All versions are
checked against the model, on an archive of everything that was ever in the store; some are read
from what is left, too.
"""

from __future__ import annotations

import asyncio
import logging
import traceback
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from adelta.changes import tail
from adelta.errors import (
    AdeltaError,
    ChangesNotAvailableError,
    CommitConflictError,
    CommitOutcomeUnknownError,
    MissingCommitError,
    StorageError,
)
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.log_path import LogFileKind, commit_path, sidecar_path
from adelta.kernel.log_segment import complete_checkpoints
from adelta.kernel.timestamps import from_ms
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.log.listing import list_log
from adelta.operations import checkpoint, cleanup_log, compact_log, optimize, vacuum
from adelta.operations.ownership import adopt_table, release_table
from adelta.operations.rearrange import auto_compaction
from adelta.parquet.write import upload
from adelta.write import deletion_vectors
from tests.simulation.exclusion import FOLDER, Exclusion
from tests.simulation.owner import ENDPOINT, OWNER
from tests.simulation.plan import SETTINGS
from tests.simulation.sleeper import Sleeper
from tests.simulation.store import Bucket, Direct
from tests.simulation.weather import CALM, Weather, WeatherStation
from tests.simulation.world import World
from tests.support.created import create_in
from tests.support.linearizability import History, checked, read_digest
from tests.support.told_changes import wrongly_told
from tests.support.version_facts import facts_of
from tests.support.workload import PARTITIONS, SCHEMA, Worker

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Mapping

    from adelta.table import Table
    from tests.simulation.plan import Plan
    from tests.simulation.world import Process
    from tests.support.linearizability import Checked

__all__ = ["Ran", "run", "shrunk"]

_FAULTS = ("refused", "lost_before", "lost_after", "late", "repeated")
_LOG_DIR = "/_delta_log/"
_LOG = f"{FOLDER}_delta_log/0"
_DAY = 86_400.0
_IDLE = 40 * _DAY
_LONGEST = 30.0  # seconds for a commit of each writer, whatever happens
_ASLEEP = 2.0  # seconds, by when sleepers have begun
_AWAKE = 20.0  # seconds, by when they go on, and the log may be cleaned up
_READ_COLD = 8  # one version in so many is read by what is left of the log
_ARRIVED = 100.0  # by when all requests have, also those that nobody waits for
_FOLLOWED = 120  # seconds in which a tailer gets all that was acknowledged, once faults are over
_FEW_FILES = 4  # of a partition, that are compacted after a commit where the table asks for it
_LAGS = 0.3  # of new objects, where listings lag
_EXPECTED = (CommitConflictError, CommitOutcomeUnknownError, StorageError)
_HIDDEN = ("_others/notes", "p=a/.begun")  # what a table's folder has that nobody may delete


@dataclass
class Ran:
    """What came of a run: what is wrong, the trace, and what was done."""

    wrong: list[str]
    trace: list[str]
    digest: str
    commits: int
    outcomes: dict[str, int] = field(default_factory=dict)
    compacted: int = 0  # versions that nobody asked for but the table


@dataclass
class _Tailer:
    """One who follows the log: the version that is to come next, None where that is not known."""

    since: int | None = 0


class _Run:
    def __init__(self, plan: Plan, *, traced: bool) -> None:
        self.plan = plan
        self.world = World(plan.seed)
        self.world.keeps_trace = traced
        self.exclusion = Exclusion(
            self.world, plan.excludes, overwriting=plan.overwriting, page=plan.page
        )
        self.bucket, self.table = self.exclusion.bucket, self.exclusion.table
        self.archive = Bucket(self.world)
        self.bucket.on_change = self._keep
        faults = dict.fromkeys(_FAULTS, plan.faults / 1000)
        self.weather = self.exclusion.bearable(Weather(slow=plan.slow / 1000, **faults))
        self.said: list[dict[str, Any]] = []
        self.unexpected: list[str] = []
        self.generation = 0
        self.young = 0  # the first version after the table was left alone
        self.gaps = (MissingCommitError,) if plan.lag else ()
        self.followed: list[list[tuple[int, str | None]]] = []
        self.tailers: list[_Tailer] = []
        self.stations: list[WeatherStation] = []
        self.sleepers: list[tuple[Process, Sleeper, asyncio.Task[None]]] = []

    def _keep(self, path: str, data: bytes | None) -> None:
        if data is not None:
            if self._is_stray(path, data):
                return
            if not self.plan.overwriting:
                self._check_put(path, data)
            self.archive.put(path, data)
        elif _is_commit(path) and path == max(filter(_is_commit, self.archive.objects)):
            self.archive.delete(path)  # a commit that was taken back

    def _is_stray(self, path: str, data: bytes) -> bool:
        """Whether it is a commit in the place of one that has been cleaned up, with the one before.

        Only a sleeper puts one, and has to take it back before it says anything.
        """
        was = self.archive.objects
        if not self.sleepers or not _is_commit(path) or path not in was or was[path].data == data:
            return False
        before = FOLDER + commit_path(int(path[-len("0.json") - 19 : -len(".json")]) - 1)
        return before in was and before not in self.bucket.objects

    @property
    def compacted(self) -> int:
        """How many versions are of what the table does by itself after commits."""
        files = self.archive.objects.items()
        return sum(b'"auto":"true"' in each.data for path, each in files if _is_commit(path))

    def _check_put(self, path: str, data: bytes) -> None:
        """See that a commit leaves no gap, and that no commit or file of rows is replaced."""
        was = self.archive.objects
        if _is_commit(path):
            version = int(path[-len("0.json") - 19 : -len(".json")])
            if version and FOLDER + commit_path(version - 1) not in was:
                self.unexpected.append(f"version {version} is there before the version before it")
        elif _LOG_DIR in path or not path.startswith(FOLDER):
            return
        if path in was and was[path].data != data:
            self.unexpected.append(f"{path} is not any more what it was")

    def process(self, kind: str) -> tuple[Process, Table]:
        """A new process with a handle of its own."""
        self.generation += 1
        skew = self.world.random.uniform(-self.plan.skew_s, self.plan.skew_s)
        process = self.world.process(f"{kind}{self.generation}", skew_s=skew)
        station = WeatherStation(self.world, self.weather)
        self.stations.append(station)
        return process, self.table(self.bucket, station)

    # ------------------------------------------------------------------------------ what they do

    async def main(self) -> list[str]:
        """All of it; what is wrong."""
        plan = self.plan
        properties = {
            "delta.enableDeletionVectors": str(plan.vectors).lower(),
            "delta.checkpointInterval": str(plan.checkpoint_every),
        }
        if "domain" in plan.kinds:  # else the table begins with an older protocol
            properties["delta.feature.domainMetadata"] = "supported"
        for name in plan.settings:
            properties |= SETTINGS[name]
        properties |= self.exclusion.properties
        await self.exclusion.start()
        await create_in(self.table(self.bucket, Direct()), SCHEMA, properties, ("p",))
        for name in _HIDDEN:
            self.bucket.put(FOLDER + name, b"another's")
        if plan.lag:
            self.bucket.lag = self._lag
        half = max(1, plan.commits // 2)
        asleep = [asyncio.ensure_future(self._fall_asleep()) for _ in range(plan.sleepers)]
        await self._used(half)
        for task in asleep:
            await task
        await self._left_alone()
        try:
            self.young = (await self.table(self.archive, Direct()).snapshot()).version + 1
        except AdeltaError as error:
            return [*self.unexpected, _unreadable(error)]
        await self._used(plan.commits - half, waking=True)
        await asyncio.sleep(_ARRIVED)
        self.world.note("the checker begins")
        wrong = await self._wrong()
        return self.unexpected + self._failures() + wrong

    def _failures(self) -> list[str]:
        return self.exclusion.owner.failures if self.exclusion.owner else []

    def _lag(self) -> float:
        """How long listings do not see that an object is new, or gone: mostly not at all."""
        draw = self.world.random
        return draw.uniform(0, self.plan.lag) if draw.random() < _LAGS else 0.0

    def _told(self) -> list[dict[str, Any]]:
        """What was said; where listings lag not when somebody read, who may read what is old."""
        if not self.plan.lag:
            return self.said
        never = {"begun": float("-inf"), "ended": float("inf")}
        return [
            {**each, **never} if "begun" in each and each.get("outcome") != "committed" else each
            for each in self.said
        ]

    async def _left_alone(self) -> None:
        self.exclusion.stop()  # an owner would look for what to backfill, every other second
        await asyncio.sleep(_IDLE)
        await self.exclusion.start()

    async def _used(self, commits: int, *, waking: bool = False) -> None:
        """The table is used by everybody until the commits are made; sleepers are among them."""
        writers = [asyncio.ensure_future(self._writer(commits)) for _ in range(self.plan.writers)]
        killer = asyncio.ensure_future(self._kill())
        keepers = [asyncio.ensure_future(self._keeper(name)) for name in self.plan.keepers]
        self.tailers = [_Tailer() for _ in range(self.plan.tailers)]
        tailers = [asyncio.ensure_future(self._tail(each)) for each in self.tailers]
        awake = [asyncio.ensure_future(self._wake(*each)) for each in self.sleepers if waking]
        self.exclusion.meet(self.weather)
        if self.plan.crashes and self.exclusion.is_served:
            keepers.append(asyncio.ensure_future(self.exclusion.fail_now_and_then()))
        longest = _LONGEST + _LONGEST * commits
        done, late = await asyncio.wait((*writers, *awake), timeout=longest)
        for task in done:
            task.result()
        if late:
            self.unexpected.append(f"{len(late)} writers do not get on any more")
        for task in (*writers, *awake, killer, *keepers):
            task.cancel()
        await self._all_is_followed()
        for task in tailers:
            task.cancel()
        ended = (killer, *keepers, *writers, *awake, *tailers)
        await asyncio.gather(*ended, return_exceptions=True)
        asleep = [process for process, *_ in self.sleepers if not waking]
        for process in self.world.processes:
            if process not in asleep:
                process.crash()
        self.exclusion.meet(CALM)

    async def _writer(self, commits: int) -> None:
        """One writer, which comes back after each crash."""
        left = commits
        while left > 0:
            process, table = self.process("writer")
            worker = Worker(
                *(table, process.name, self.generation, left, self._said, self.plan.kinds),
                partitions=PARTITIONS[: self.plan.partitions],
                reads=self.plan.reads / 100,
            )
            works = [worker.work(tell=_silent) for _ in range(self.plan.tasks)]
            await self._until_over(process, works[0] if len(works) == 1 else _all_of(works))
            left = worker.left

    async def _fall_asleep(self) -> None:
        """Have somebody begin a transaction, who ends it when the table has been left alone."""
        await asyncio.sleep(self.world.random.uniform(0, _ASLEEP))
        process, table = self.process("sleeper")
        number, partitions = self.generation, PARTITIONS[: self.plan.partitions]
        worker = Worker(table, process.name, number, 1, self._said, self.plan.kinds, reads=1.0)
        sleeper = Sleeper(table, process.name, number, partitions, worker)
        self.sleepers.append((process, sleeper, process.start(sleeper.work(self._said))))

    async def _wake(self, process: Process, sleeper: Sleeper, task: asyncio.Task[None]) -> None:
        await asyncio.sleep(self.world.random.uniform(0, _AWAKE))
        sleeper.awake.set()
        await self._until_over(process, task)

    async def _until_over(self, process: Process, work: Any) -> None:
        task = work if isinstance(work, asyncio.Task) else process.start(work)
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

    async def _all_is_followed(self) -> None:
        """Wait in calm until each tailer has got all that was acknowledged; say which one does not.

        A request of six fails else: one who asks for many commits at once would get none.
        """
        last = max((each["version"] for each in self.said if _acknowledged(each)), default=0)
        for _ in range(_FOLLOWED):
            behind = [each for each in self.tailers if each.since is None or each.since <= last]
            if not behind:
                return
            self.weather = CALM
            for station in self.stations:
                station.weather = CALM
            await asyncio.sleep(1.0)
        self.unexpected += [
            f"a tailer waits for version {each.since}, though {last} is there" for each in behind
        ]

    async def _tail(self, tailer: _Tailer) -> None:
        """Follow the log, and go on after each crash behind the last commit that came."""
        got: list[tuple[int, str | None]] = []
        self.followed.append(got)

        async def follow(table: Table) -> None:
            nonlocal got
            while True:
                try:
                    if tailer.since is None:  # it was away for too long
                        tailer.since = (await table.snapshot()).version
                    async for commit in tail(table, tailer.since, poll=0.5):
                        got.append((commit.version, commit.info.user_metadata))
                        tailer.since = commit.version + 1
                except ChangesNotAvailableError:
                    tailer.since, got = None, []
                    self.followed.append(got)
                except (StorageError, *self.gaps):
                    await asyncio.sleep(0.1)

        while True:
            process, table = self.process("tailer")
            await self._until_over(process, follow(table))
            await asyncio.sleep(0.5)

    async def _keeper(self, name: str) -> None:
        works: dict[str, Callable[[Table], Awaitable[object]]] = {
            "compact": compact_log,
            "checkpoint": checkpoint,
            "cleanup": cleanup_log,
            "vacuum": vacuum,
            "optimize": optimize,
            "ownership": self._change_owner,
        }

        async def keep(table: Table) -> None:
            while True:
                with suppress(*_EXPECTED, *self.gaps):
                    await works[name](table)
                await asyncio.sleep(self.world.random.uniform(0.2, 2.0))

        while True:
            process, table = self.process(name)
            await self._until_over(process, keep(table))
            await asyncio.sleep(0.5)

    async def _change_owner(self, table: Table) -> None:
        """Take the table from its owner, or have the owner take it."""
        if self.exclusion.properties.keys() & (await table.snapshot()).properties.keys():
            await release_table(table)
        else:
            await adopt_table(table, OWNER, {"endpoint": ENDPOINT})

    # ------------------------------------------------------------------------------ what is wrong

    async def _wrong(self) -> list[str]:
        archive, direct = (self.table(each, Direct()) for each in (self.archive, self.bucket))
        try:  # by entries it puts a last commit into the log that is not there
            await direct.snapshot()
        except AdeltaError as error:
            return [_unreadable(error)]
        history = await checked(archive, History(self._told()), scans=False)
        found = history.found + self._followed_wrongly(history)
        if not found:
            found += await wrongly_told(archive, history.changed)
        last = max(history.digests)
        found += self._gone_too_soon(history) + await self._torn(direct)
        oldest = min(self.young, last)
        scanned = self.world.random.choice((oldest, last))
        for version in sorted({oldest, *range(oldest, last, _READ_COLD), last}):
            try:
                found += await self._read_wrongly(version, history, scans=version == scanned)
            except AdeltaError as error:
                found.append(f"version {version} cannot be read any more: {error!r:.200}")
        newest = (await direct.snapshot()).version
        if newest != last:
            found.append(f"what is left is version {newest}, not {last}")
        return found

    async def _read_wrongly(self, version: int, history: Checked, *, scans: bool) -> list[str]:
        """What of a version is not what it was, as it is read from what is left."""
        table = self.table(self.bucket, Direct())
        other = history.facts[version].differences(await facts_of(table.store, version))
        found = [f"version {version} is not any more what it was: {other}"] if other else []
        if scans:
            if await read_digest(table, version) != history.digests[version]:
                found.append(f"version {version} has other rows than it had")
            at = await table.snapshot(timestamp=from_ms(history.times_ms[version]))
            if at.version != version:
                found.append(f"at the time of version {version} there was {at.version}, it says")
        return found

    def _followed_wrongly(self, history: Checked) -> list[str]:
        """What tailers got that is not each commit, once and in order."""
        found = []
        for got in self.followed:
            first = got[0][0] if got else 0
            if [version for version, _ in got] != list(range(first, first + len(got))):
                found.append(f"a tailer got the versions {[version for version, _ in got]}")
                continue
            for version, said in got:
                if version and history.notes.get(version) != said:
                    found.append(f"a tailer got version {version} as it never was")
        return found

    async def _torn(self, table: Table) -> list[str]:
        """Sidecars that are gone, of checkpoints that are there: readers may do without them."""
        found, there = [], self.bucket.objects
        for each in complete_checkpoints(await list_log(table.store)):
            if each.kind is not LogFileKind.MULTI_PART_CHECKPOINT:
                for sidecar in (await CheckpointReader.open(table.store, each)).sidecars:
                    path = sidecar_path(decode_path(sidecar.path))
                    if FOLDER + path not in there:
                        found.append(f"{path} is gone, which {each.files[0].path} needs")
        return found

    def _gone_too_soon(self, history: Checked) -> list[str]:
        """What was deleted that a version needs which is young."""
        was, there = self.archive.objects, self.bucket.objects  # a catalog's may never have been
        last = max(history.digests)
        commits = [(commit_path(version), version, version) for version in history.digests]
        commits += [(name, 0, last) for name in _HIDDEN]
        return [
            f"{path} is gone, which the versions from {first} to {end} need"
            for path, first, end in commits + history.spans
            if end >= self.young and FOLDER + path in was and FOLDER + path not in there
        ]


def _acknowledged(each: Mapping[str, Any]) -> bool:
    return each.get("outcome") == "committed"


async def _all_of(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    await asyncio.gather(*works)


def _is_commit(path: str) -> bool:
    return path.startswith(_LOG) and path.endswith(".json") and path.count(".") == 1


def _unreadable(error: AdeltaError) -> str:
    return f"the table cannot be read any more: {error!r:.200}"


def _silent(error: AdeltaError) -> None:
    """What fails is in the trace."""


@contextmanager
def _as_if_large(plan: Plan) -> Iterator[None]:
    """Have adelta do with the small tables of a run what it does with large ones."""
    sizes: tuple[tuple[Any, str, int], ...] = (
        *(((deletion_vectors, "_INLINE_BYTES", 0),) if plan.vector_files else ()),
        *(((upload, "STREAM_FROM_BYTES", 0),) if plan.streamed else ()),
        (auto_compaction, "_LEAST_FILES", _FEW_FILES),  # 50 are never there
    )
    before = [getattr(module, name) for module, name, _ in sizes]
    for module, name, size in sizes:
        setattr(module, name, size)
    try:
        yield
    finally:
        for (module, name, _), size in zip(sizes, before, strict=True):
            setattr(module, name, size)


def run(plan: Plan, *, traced: bool = False) -> Ran:
    """Make the run."""
    logging.getLogger("adelta").setLevel(logging.CRITICAL)
    made = _Run(plan, traced=traced)
    try:
        with _as_if_large(plan):
            wrong = made.world.run(made.main)
    except Exception as error:
        made.world.note(traceback.format_exc())
        wrong = [*made.unexpected, f"the run does not come to its end: {error!r:.300}"]
    outcomes: dict[str, int] = {}
    for each in made.said:
        key = each.get("outcome", "read")
        outcomes[key] = outcomes.get(key, 0) + 1
    trace, commits = made.world.trace, outcomes.get("committed", 0)
    return Ran(wrong, trace, made.world.digest(), commits, outcomes, made.compacted)


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
