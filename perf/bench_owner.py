"""Commits through a commit owner, against commits by put-if-absent, on S3 at 2 x 20 ms.

    python perf/bench_owner.py [one] [writers] [tables] [tail] [--commits N] [--rounds N]

* ``one``: one writer commits, one commit after the other: how long does one take (median)?
* ``writers``: 32 writers, 8 in each of 4 processes, commit to one table at once, each as if it were
  a process of its own: none waits for another in a queue, and none commits for another. They make
  as many commits by put-if-absent as through the owner, or their contention would soon be over.
* ``tables``: 100 tables, 10 commits to each, 32 at a time, through one owner.
* ``tail``: how long after a commit was begun has a consumer in another process got it?

The owner is `adelta serve` with SQLite, in a process of its own, 2 x 1 ms away from all clients;
the store is 2 x 20 ms away from the clients and from the owner. A commit says how far its writer
has got, as a stream's does, so that neither uploads of rows nor the table's size are measured. The
processes of ``writers`` have committed before, so that what they load once is not measured either.
Every commit is checked to be there once before a figure is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack, aclosing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from far_server import DelayingProxy, far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import adelta
    from tests.support.owner_process import OwnerProcess

STORE_ONE_WAY, OWNER_ONE_WAY = 0.020, 0.001
WARM_UP, ONE_COMMITS = 3, 40
WARM_UP_COMMITS = 21  # of a process: what it loads for checkpoints is loaded by then
PROCESSES, WRITERS_EACH = 4, 8
TABLES, TABLE_COMMITS, AT_ONCE = 100, 10, 32
TAILED, BETWEEN = 20, 0.73
SCHEMA = pa.schema([("id", pa.int64())])

Options = dict[str, str]


async def commit(table: adelta.Table, app_id: str, number: int) -> int:
    """The commit by which an application gets to a `number`; the table's version."""
    async with table.transaction() as tx:
        tx.set_transaction(app_id, number)
    assert tx.version is not None
    return tx.version


def own_handle(uri: str, options: Options) -> adelta.Table:
    """A handle whose commits wait for nobody else's of this process."""
    import adelta
    from adelta.write.queue_of_table import QueueOfTable

    table = adelta.open_table(uri, options)
    table._queue = QueueOfTable(table.store, None)
    return table


async def make(uri: str, options: Options, endpoint: str | None) -> None:
    import adelta

    owned = {
        "delta.managedCommit.commitOwner": "adelta",
        "delta.managedCommit.commitOwnerConf": json.dumps({"endpoint": endpoint}),
    }
    table = await adelta.create_table(
        uri, SCHEMA, properties=owned if endpoint else {}, storage_options=options
    )
    await table.aclose()


async def check(uri: str, options: Options, commits: int, each: int) -> None:
    """Whether the table has so many commits, and each application has got so far."""
    import adelta
    from adelta.table import latest_state

    async with adelta.open_table(uri, options) as table:
        state = await latest_state(table)
        assert state.version == commits, (uri, state.version, commits)
        reached = [one.version for one in (await state.set_transactions()).values()]
        assert reached == [each] * (commits // each), (uri, reached)


# -------------------------------------------------------------------------------- what children do


async def warm_up(uri: str, options: Options) -> None:
    """Commit to a table like the one at `uri` until there is a checkpoint.

    What a process loads once, and what Arrow loads for it, is not what a commit costs.
    """
    import adelta

    async with adelta.open_table(uri, options) as table:
        properties = (await table.snapshot()).metadata.configuration
    owned = json.loads(properties.get("delta.managedCommit.commitOwnerConf", "{}"))
    warm = f"{uri}-{uuid.uuid4().hex}"
    await make(warm, options, owned.get("endpoint"))
    async with own_handle(warm, options) as table:
        for number in range(1, WARM_UP_COMMITS + 1):
            await commit(table, "warm", number)


async def child_write(uri: str, options: Options, commits: int) -> None:
    """So many writers, each with a handle of its own; they begin when a line is read."""
    await warm_up(uri, options)
    tables = [own_handle(uri, options) for _ in range(WRITERS_EACH)]
    await asyncio.gather(*(table.snapshot() for table in tables))
    print("ready", flush=True)
    sys.stdin.readline()

    async def write(table: adelta.Table) -> None:
        app_id = f"{uuid.uuid4()}"
        for number in range(1, commits + 1):
            await commit(table, app_id, number)

    begun = time.time()
    await asyncio.gather(*(write(table) for table in tables))
    print(json.dumps({"begun": begun, "ended": time.time()}), flush=True)
    for table in tables:
        await table.aclose()


async def child_tail(uri: str, options: Options, commits: int) -> None:
    import adelta

    async with aclosing(adelta.tail(uri, "latest", storage_options=options)) as found:
        print("ready", flush=True)
        for _ in range(commits):
            one = await anext(found)
            print(json.dumps({"version": one.version, "at": time.time()}), flush=True)


def start(what: str, uri: str, options: Options, commits: int) -> subprocess.Popen[str]:
    process = subprocess.Popen(
        [sys.executable, __file__, "--child", what, uri, json.dumps(options), str(commits)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip() == "ready"
    return process


# --------------------------------------------------------------------------------- what is measured


async def one(uri: str, options: Options) -> float:
    """Seconds of a commit: the median."""
    table = own_handle(uri, options)
    await table.snapshot()
    times = []
    for number in range(1, WARM_UP + ONE_COMMITS + 1):
        begun = time.perf_counter()
        await commit(table, "one", number)
        times.append(time.perf_counter() - begun)
    times = times[WARM_UP:]
    await table.aclose()
    await check(uri, options, WARM_UP + ONE_COMMITS, WARM_UP + ONE_COMMITS)
    return statistics.median(times)


def writers(uri: str, options: Options, commits: int, owner: OwnerProcess) -> tuple[float, float]:
    """Commits a second, and the owner's milliseconds of CPU for each; not those of the warm-up."""
    processes = [start("write", uri, options, commits) for _ in range(PROCESSES)]
    before = owner.cpu_seconds()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [json.loads(process.communicate()[0]) for process in processes]
    spent = owner.cpu_seconds() - before
    total = PROCESSES * WRITERS_EACH * commits
    asyncio.run(check(uri, options, total, commits))
    seconds = max(each["ended"] for each in said) - min(each["begun"] for each in said)
    return total / seconds, 1000 * spent / total


async def tables(uri: str, options: Options, endpoint: str | None) -> float:
    """Commits a second."""
    limit = asyncio.Semaphore(AT_ONCE)
    handles: list[adelta.Table] = []

    async def begin(number: int) -> None:
        async with limit:
            await make(f"{uri}-{number}", options, endpoint)
            handles.append(own_handle(f"{uri}-{number}", options))
            await handles[-1].snapshot()

    async def write(table: adelta.Table) -> None:
        for number in range(1, TABLE_COMMITS + 1):
            async with limit:
                await commit(table, "one", number)

    await asyncio.gather(*map(begin, range(TABLES)))
    begun = time.perf_counter()
    await asyncio.gather(*map(write, handles))
    seconds = time.perf_counter() - begun
    for table in handles:
        await table.aclose()
        await check(table.uri, options, TABLE_COMMITS, TABLE_COMMITS)
    return TABLES * TABLE_COMMITS / seconds


async def tailed(uri: str, options: Options) -> float:
    """Seconds from the beginning of a commit until the consumer has it: the median."""
    consumer = start("tail", uri, options, TAILED)
    begun: dict[int, float] = {}
    table = own_handle(uri, options)
    await table.snapshot()
    for number in range(1, TAILED + 1):
        await asyncio.sleep(BETWEEN)
        at = time.time()
        begun[await commit(table, "one", number)] = at
    await table.aclose()
    lines = (await asyncio.to_thread(consumer.communicate))[0].splitlines()
    got = {each["version"]: each["at"] for each in map(json.loads, lines)}
    assert got.keys() == begun.keys()
    return statistics.median(got[version] - begun[version] for version in begun)


@contextmanager
def owner(folder: str, options: Options) -> Iterator[tuple[OwnerProcess, Options]]:
    """An owner that is 1 ms away, and the options by which it is reached."""
    from tests.support.owner_process import running_owner_process

    given = [f"--option={key}={value}" for key, value in options.items()]
    with running_owner_process(f"{folder}/owner.db", "--max-rate=1000000", *given) as process:
        proxy = DelayingProxy(process.port, OWNER_ONE_WAY)
        endpoint = f"http://127.0.0.1:{proxy.port}"
        named = {"adelta_owner_endpoint": endpoint, "adelta_owner_token": process.token or ""}
        try:
            yield process, {**options, **named}
        finally:
            proxy.stop()


class Bench:
    """The works, each of which gives figures: times and rates beside those by put-if-absent."""

    def __init__(self, process: OwnerProcess, options: Options, commits: int) -> None:
        self._process = process
        self._options = options
        self._endpoint = options["adelta_owner_endpoint"]
        self._commits = commits

    def _made(self, work: str, endpoint: str | None) -> str:
        uri = f"s3://far/{uuid.uuid4().hex[:8]}/{work}"
        asyncio.run(make(uri, self._options, endpoint))
        return uri

    def one(self) -> dict[str, float]:
        """One writer."""
        plain = asyncio.run(one(self._made("one", None), self._options))
        before = self._process.cpu_seconds()
        owned = asyncio.run(one(self._made("one", self._endpoint), self._options))
        cpu = 1000 * (self._process.cpu_seconds() - before) / (WARM_UP + ONE_COMMITS)
        return {"ratio": owned / plain, "ms": 1000 * owned, "plain": 1000 * plain, "cpu": cpu}

    def writers(self) -> dict[str, float]:
        """32 of one table."""
        options, process = self._options, self._process
        plain, _ = writers(self._made("writers", None), options, self._commits, process)
        uri = self._made("writers", self._endpoint)
        owned, cpu = writers(uri, options, self._commits, process)
        return {"faster": owned / plain, "rate": owned, "plain": plain, "cpu": cpu}

    def tables(self) -> dict[str, float]:
        """100 at once."""
        uri = f"s3://far/{uuid.uuid4().hex[:8]}/table"
        plain = asyncio.run(tables(f"{uri}-plain", self._options, None))
        before = self._process.cpu_seconds()
        owned = asyncio.run(tables(f"{uri}-owned", self._options, self._endpoint))
        cpu = 1000 * (self._process.cpu_seconds() - before) / (TABLES * TABLE_COMMITS)
        return {"faster": owned / plain, "rate": owned, "plain": plain, "cpu": cpu}

    def tail(self) -> dict[str, float]:
        """A consumer in another process."""
        plain = asyncio.run(tailed(self._made("tail", None), self._options))
        owned = asyncio.run(tailed(self._made("tail", self._endpoint), self._options))
        return {"ratio": owned / plain, "ms": 1000 * owned, "plain": 1000 * plain}


SAYS = {
    "one": "one commit: {ms:.1f} ms through the owner, {plain:.1f} ms by put-if-absent: "
    "{ratio:.2f}x; {cpu:.2f} ms CPU of the owner",
    "writers": "32 writers of one table: {rate:.0f} commits a second through the owner, "
    "{plain:.1f} by put-if-absent: {faster:.1f}x; {cpu:.2f} ms CPU of the owner each",
    "tables": "100 tables: {rate:.0f} commits a second through one owner, {plain:.0f} by "
    "put-if-absent: {faster:.2f}x; {cpu:.2f} ms CPU of the owner each",
    "tail": "until a consumer has a commit: {ms:.0f} ms by announcements, {plain:.0f} ms by "
    "polling: {ratio:.2f}x",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", nargs="*", choices=[*SAYS, []], default=[])
    parser.add_argument("--commits", type=int, default=8, help="of each of the 32 writers")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tables", type=Path, help="not used: no tables are made beforehand")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        _, store = stack.enter_context(far_server(STORE_ONE_WAY))
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        process, options = stack.enter_context(owner(folder, store))
        bench = Bench(process, options, arguments.commits)
        for work in arguments.work or SAYS:
            rounds = [getattr(bench, work)() for _ in range(arguments.rounds)]
            found = {name: statistics.median(each[name] for each in rounds) for name in rounds[0]}
            record(f"owner {work}", **found)
            print(SAYS[work].format(**found), flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        what, address, given, count = sys.argv[2:]
        does = {"write": child_write, "tail": child_tail}[what]
        asyncio.run(does(address, json.loads(given), int(count)))
    else:
        main()
