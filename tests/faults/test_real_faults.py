"""Real processes change one table, and meet what machines, disks and networks do.

They are killed, the disk is full or fails, files may grow no further, descriptors run out, the time
of day jumps, the network is cut between one of them and the store, in one direction or both. They
clean up, too: by clocks that are years ahead. Afterwards the history is that of one table changed
step by step: what was acknowledged is there, once, nothing is there of what was said to have
failed, nobody has read what never was; every version can still be read, the times of commits
ascend, the table is whole, and the next writer succeeds.

`ADELTA_TEST_DEPTH=all` takes the faults one by one, too, and lets each last.
"""

from __future__ import annotations

import errno
import os
import resource
from collections import Counter
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import cycle, pairwise
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.operations import create_table, fsck, history, write_table
from adelta.table import open_table
from tests.storage.faulty_proxy import Fate, FaultyProxy
from tests.support.depth import DEEP, cases
from tests.support.faulty_calls import FaultyCalls
from tests.support.fleet import Fleet
from tests.support.linearizability import History, violations
from tests.support.network_faults import LOSES_PATIENCE, PARTITIONS, is_commit
from tests.support.workload import SCHEMA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from tests.storage.faulty_proxy import Act
    from tests.support.s3_server import S3Location

    Fault = Callable[["World"], AbstractContextManager[None]]

pytestmark = pytest.mark.timeout(900)

PROCESSES, TURNS = cases(4, 2), cases(8, 1)
TASKS = 2  # of a process
LASTS = cases(20, 2)  # outcomes of operations
LONGEST = 60.0  # seconds, where there are none
DAY = 86_400.0
_CONNECTIONS = 16  # more than a process has, of which each that is left serves it
IMPATIENT = {
    "aws_read_timeout": f"{LOSES_PATIENCE} s",
    "aws_connect_timeout": f"{LOSES_PATIENCE} s",
    "aws_max_retries": "2",
    "aws_init_backoff": "10 ms",
    "aws_max_backoff": "100 ms",
}


@dataclass
class World:
    """The processes, and what can be done to them."""

    fleet: Fleet
    calls: FaultyCalls
    proxies: Sequence[FaultyProxy] = ()

    async def disturb(self, faults: Mapping[str, Fault]) -> None:
        """Let one fault after the other come, be met, and go."""
        fleet = self.fleet
        async with fleet.working():
            for name in [*faults] * TURNS:
                await self._wait_for("", 1)
                with faults[name](self):
                    await self._wait_for(name, LASTS)

    async def _wait_for(self, fault: str, outcomes: int) -> None:
        """Wait for so many outcomes, and until a fault has been met."""
        since = len(self.fleet.said)
        came = await self.fleet.until(lambda: self._meets(fault, since, outcomes), LONGEST)
        assert came, f"nobody has met {fault or 'calm'}: {self.fleet.outcomes(since)}"

    def _meets(self, fault: str, since: int, least: int) -> bool:
        outcomes = self.fleet.outcomes(since)
        if fault in PARTITIONS:
            ended = [each for each in outcomes if each["operation"].startswith("w0-")]
            return sum(each["outcome"] in ("failed", "unknown") for each in ended) >= TASKS
        said = "".join(each.get("why", "") for each in outcomes)
        if fault == "a wrong clock" and not self.proxies:
            done = {each.get("keeps") for each in self.fleet.said[since:]}
            return done >= {"vacuum", "cleanup_log"}
        return len(outcomes) >= least and SHOWS.get(fault, "") in said


# --------------------------------------------------------------------------------- the faults


@contextmanager
def killed(world: World) -> Iterator[None]:
    world.fleet.kill()
    yield


@contextmanager
def full_disk(world: World) -> Iterator[None]:
    """Some bytes still fit, so that files end in the middle."""
    world.calls.leave_room(3000)
    yield
    world.calls.leave_room(None)


@contextmanager
def failing_disk(world: World) -> Iterator[None]:
    world.calls.fail(0.015, errno.EIO, applied=0.5)
    yield
    world.calls.fail(0)


def limited(kind: int, limit: int) -> Fault:
    """A limit of the system's, of every process; connections that are there break."""

    @contextmanager
    def fault(world: World) -> Iterator[None]:
        with ExitStack() as stack:
            for pid in world.fleet.pids:
                with suppress(ProcessLookupError, FileNotFoundError):
                    before = resource.prlimit(pid, kind)
                    stack.callback(_put_back, pid, kind, before)
                    resource.prlimit(pid, kind, (limit, before[1]))
            for proxy in world.proxies:
                proxy.fates = [Fate.cut_before() for _ in range(_CONNECTIONS)]
            yield

    return fault


def _put_back(pid: int, kind: int, limits: tuple[int, int]) -> None:
    with suppress(ProcessLookupError):
        resource.prlimit(pid, kind, limits)


def wrong_clock(*seconds: float) -> Fault:
    """The time of day jumps, to and fro."""
    jumps = cycle(seconds)

    @contextmanager
    def fault(world: World) -> Iterator[None]:
        world.calls.shift_clock(next(jumps))
        yield
        world.calls.shift_clock(0)

    return fault


def partitioned(name: str) -> Fault:
    """The network between one process and the store is cut, in the midst of a commit."""

    @contextmanager
    def fault(world: World) -> Iterator[None]:
        proxy, cut = world.proxies[0], list[str]()

        def choose(method: str, target: str) -> Act | None:
            if cut or is_commit(method, target):
                cut.append(target)
            return PARTITIONS[name] if cut else None

        proxy.choose = choose
        yield
        proxy.choose = lambda _method, _target: None

    return fault


ANYWHERE: dict[str, Fault] = {
    "killed": killed,
    "no descriptors": limited(resource.RLIMIT_NOFILE, 6),
}
ON_DISK: dict[str, Fault] = {
    **ANYWHERE,
    "a full disk": full_disk,
    "a failing disk": failing_disk,
    "files may grow no further": limited(resource.RLIMIT_FSIZE, 700),
    "a wrong clock": wrong_clock(400 * DAY, -400 * DAY, 1.0, -3600.0),
}
ON_S3: dict[str, Fault] = {
    **ANYWHERE,
    "a wrong clock": wrong_clock(600.0, -600.0),
    "a clock that the store does not take": wrong_clock(400 * DAY, -400 * DAY),
    **{name: partitioned(name) for name in list(PARTITIONS)[:: cases(1, 2)]},
}
SHOWS = {  # by what is said of operations that have failed
    "a full disk": os.strerror(errno.ENOSPC),
    "a failing disk": os.strerror(errno.EIO),
    "files may grow no further": os.strerror(errno.EFBIG),
    "no descriptors": os.strerror(errno.EMFILE),
    "a clock that the store does not take": "RequestTimeTooSkewed",
}


# --------------------------------------------------------------------------------- the checks


async def check(world: World, options: Mapping[str, str]) -> None:
    """The table is what was said of it."""
    fleet = world.fleet
    async with open_table(fleet.uri, options) as table:
        assert await violations(table, History(fleet.said)) == []
        report = await fsck(table)
        assert not report.problems, report.problems
        newest_first = [each.timestamp for each in await history(table)]
        assert all(one > other for one, other in pairwise(newest_first))
        before = (await table.snapshot()).version
        row = [{"p": "a", "id": 0, "value": 0}]
        assert (await write_table(table, pa.Table.from_pylist(row, SCHEMA))).version == before + 1
    assert any(each["outcome"] == "committed" for each in fleet.outcomes())


async def live_through(
    faults: Mapping[str, Fault], fleet: Fleet, calls: FaultyCalls, proxies: Sequence[FaultyProxy]
) -> None:
    """Let the processes make a table's history, with these faults; nothing is wrong with it."""
    stored = proxies and fleet.options(-1)
    options = dict(stored or {})
    properties = {"delta.enableInCommitTimestamps": "true"}
    made = await create_table(
        fleet.uri, SCHEMA, partition_by=["p"], properties=properties, storage_options=options
    )
    await made.aclose()
    world = World(fleet, calls, proxies)
    await world.disturb(faults)
    await check(world, options)
    outcomes = Counter(each["outcome"] for each in fleet.outcomes())
    print(f"{dict(outcomes)}, {fleet.killed} killed")
    assert fleet.killed or "killed" not in faults


def alone(faults: dict[str, Fault]) -> list[dict[str, Fault]]:
    """All of them in turn; in the deep run each of them by itself as well."""
    return [faults, *({name: fault} for name, fault in faults.items() if DEEP)]


@pytest.mark.parametrize("faults", alone(ON_DISK), ids=" or ".join)
async def test_on_local_disk_nothing_is_lost_doubled_or_misreported(
    faults: dict[str, Fault], tmp_path: Path, faulty_library: Path
) -> None:
    calls = FaultyCalls(faulty_library, str(tmp_path), tmp_path.parent / f"{tmp_path.name}.orders")
    uri = str(tmp_path / "table")
    fleet = Fleet(uri, PROCESSES, environment=calls.environment)
    await live_through(faults, fleet, calls, [])


@pytest.mark.parametrize("faults", alone(ON_S3), ids=" or ".join)
async def test_on_s3_nothing_is_lost_doubled_or_misreported(
    faults: dict[str, Fault], tmp_path: Path, faulty_library: Path, s3_location: S3Location
) -> None:
    calls = FaultyCalls(faulty_library, str(tmp_path), tmp_path / "orders")
    async with AsyncExitStack() as stack:
        endpoint = s3_location.server.endpoint
        proxies = [await stack.enter_async_context(FaultyProxy(endpoint)) for _ in range(PROCESSES)]

        def options(number: int) -> dict[str, str]:
            if number < 0:
                return s3_location.storage_options
            through = {"aws_endpoint_url": proxies[number].endpoint}
            return {**s3_location.storage_options, **IMPATIENT, **through}

        fleet = Fleet(f"{s3_location.uri}/table", PROCESSES, options, calls.environment)
        await live_through(faults, fleet, calls, proxies)
