"""Commits a second on a store that is 10 ms away each way, against deltalake.

    python perf/bench_commit.py [one] [service] [writers] [--rounds N]

* ``one``: one writer appends a few rows, commit after commit, to a table that it has open.
* ``service``: 32 tasks of one process append at once. deltalake has 32 threads, each with the table
  open; an append that it gives up is begun anew until it succeeds. Once more with group commit.
* ``writers``: 24 writers append at once, four commits each: adelta in processes of their own,
  deltalake in threads. How many appends fail?

The S3 is Ceph's RADOS gateway in memory (moto where that is not installed), behind a proxy that
delays. Every row is checked to be there once before a figure is printed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from child import run_child
from far_server import far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

ONE_WAY = 0.010
ONE_COMMITS = 40
TASKS, TASK_COMMITS = 32, 4
WRITERS, WRITER_COMMITS = 24, 4
SCHEMA = pa.schema([("writer", pa.string()), ("number", pa.int64())])

Options = dict[str, str]


def row(writer: str, number: int) -> pa.Table:
    return pa.table({"writer": [writer], "number": [number]}, schema=SCHEMA)


def _check(uri: str, options: Options, writers: int, commits: int) -> None:
    import adelta.sync

    with adelta.sync.open_table(uri, options) as table:
        found = table.snapshot().scan().to_arrow().to_pylist()
    rows = Counter((each["writer"], each["number"]) for each in found)
    assert rows == {(f"w{w}", n): 1 for w in range(writers) for n in range(commits)}, rows


# ------------------------------------------------------------------------------------- adelta


async def _adelta(uri: str, options: Options, tasks: int, commits: int, group: bool) -> Any:
    import adelta

    table = await adelta.create_table(uri, SCHEMA, storage_options=options)
    requests: Counter[str] = Counter()

    async def write(writer: str) -> None:
        for number in range(commits):
            await adelta.write_table(table, row(writer, number), group_commit=group)

    async with table:
        async with table.transaction() as warm_up:  # connections, imports
            await warm_up.append(row("warm", 0))
            await warm_up.read()
        async with table.transaction() as tidy:
            tidy.remove_files(await tidy.read())
        table.store.inner.observe_requests(lambda method, key, query: requests.update([method]))
        start = time.perf_counter()
        await asyncio.gather(*(write(f"w{number}") for number in range(tasks)))
        seconds = time.perf_counter() - start
        versions = (await table.snapshot()).version - 2
    return {"seconds": seconds, "requests": sum(requests.values()), "versions": versions}


# ---------------------------------------------------------------------------------- deltalake


def _deltalake(uri: str, options: Options, tasks: int, commits: int, again: bool) -> Any:
    from deltalake import DeltaTable, write_deltalake

    DeltaTable.create(uri, pa.schema(SCHEMA), storage_options=options)
    tables = [DeltaTable(uri, storage_options=options) for _ in range(tasks)]
    ready = threading.Barrier(tasks + 1)

    def write(number: int) -> int:
        table, failed = tables[number], 0
        ready.wait()
        for commit in range(commits):
            while True:
                try:
                    write_deltalake(table, row(f"w{number}", commit), mode="append")
                    break
                except Exception:
                    failed += 1
                    if not again:
                        break
                    table.update_incremental()
        return failed

    with ThreadPoolExecutor(tasks) as pool:
        found = [pool.submit(write, number) for number in range(tasks)]
        ready.wait()
        start = time.perf_counter()
        failed = sum(each.result() for each in found)
        return {"seconds": time.perf_counter() - start, "failed": failed}


def _run(engine: str, uri: str, options: str, tasks: str, commits: str, extra: str) -> Any:
    arguments = (uri, json.loads(options), int(tasks), int(commits), extra == "yes")
    if engine == "deltalake":
        return _deltalake(*arguments)
    import uvloop

    return uvloop.run(_adelta(*arguments))


# --------------------------------------------------------------------------------------- work


def _rates(
    name: str, engines: Mapping[str, str], tasks: int, commits: int, rounds: int, far: Options
) -> dict[str, float]:
    """Commits a second of each way; the first word of a way is its engine."""
    rates: dict[str, list[float]] = {way: [] for way in engines}
    notes: dict[str, str] = {}
    for turn in range(rounds):
        for way, extra in engines.items():
            uri = f"s3://far/{name}-{way.replace(' ', '-')}-{turn}"
            sizes = (str(tasks), str(commits))
            found = run_child(__file__, way.split()[0], uri, json.dumps(far), *sizes, extra)
            _check(uri, far, tasks, commits)
            rates[way].append(tasks * commits / found["seconds"])
            if "requests" in found:
                each = found["requests"] / (tasks * commits)
                notes[way] = f"{each:.2f} requests an append, {found['versions']:.0f} versions"
            else:
                notes[way] = f"{found['failed']:.0f} appends given up and begun anew"
    middle = {way: statistics.median(found) for way, found in rates.items()}
    for way, rate in middle.items():
        print(f"  {way:<22} {rate:>8.1f} appends a second   {notes[way]}")
    return middle


def one(rounds: int, far: Options) -> None:
    print(f"one writer, {ONE_COMMITS} commits")
    found = _rates("one", {"adelta": "", "deltalake": "yes"}, 1, ONE_COMMITS, rounds, far)
    ratio = found["adelta"] / found["deltalake"]
    record("commit one", faster=ratio, rate=found["adelta"])
    print(f"  ratio {ratio:.2f}x", flush=True)


def service(rounds: int, far: Options) -> None:
    print(f"{TASKS} tasks of one service, {TASK_COMMITS} commits each")
    ways = {"adelta": "", "adelta, group commit": "yes", "deltalake": "yes"}
    ways = {way.replace(",", ""): extra for way, extra in ways.items()}
    found = _rates("service", ways, TASKS, TASK_COMMITS, rounds, far)
    ratio = found["adelta"] / found["deltalake"]
    grouped = found["adelta group commit"] / found["deltalake"]
    record("commit service", faster=ratio, rate=found["adelta"])
    record("commit service group", faster=grouped, rate=found["adelta group commit"])
    print(f"  ratio {ratio:.2f}x, with group commit {grouped:.2f}x", flush=True)


def writers(_rounds: int, far: Options) -> None:
    from tests.support.appender import race

    print(f"{WRITERS} writers, {WRITER_COMMITS} commits each")
    with tempfile.TemporaryDirectory() as folder:
        places = {"local disk": (folder, {}), "S3": ("s3://far/writers", far)}
        failed = 0
        for place, (uri, options) in places.items():
            result = asyncio.run(race(f"{uri}/adelta", WRITERS, WRITER_COMMITS, options))
            result.check([f"w{number}" for number in range(WRITERS)], WRITER_COMMITS)
            sizes = (str(WRITERS), str(WRITER_COMMITS))
            theirs = run_child(
                __file__, "deltalake", f"{uri}/deltalake", json.dumps(options), *sizes, "no"
            )
            total = WRITERS * WRITER_COMMITS
            print(
                f"  {place:<12} adelta 0 of {total} failed, a commit took "
                f"{result.seconds_of_a_commit[0] * 1000:.0f} ms (median), "
                f"{result.seconds_of_a_commit[1] * 1000:.0f} ms (longest); "
                f"deltalake {theirs['failed']:.0f} of {total} failed"
            )
            failed += total - result.versions
    record("commit writers", failed=failed)


WORK: dict[str, Callable[[int, Options], None]] = {
    "one": one,
    "service": service,
    "writers": writers,
}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_run(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", nargs="*", choices=[*WORK, []], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="not used: no tables are made beforehand")
    arguments = parser.parse_args()
    print(f"S3 at 2 x {ONE_WAY * 1000:.0f} ms")
    with far_server(ONE_WAY) as (_near, far):
        for name in arguments.work or WORK:
            WORK[name](arguments.rounds, far)


if __name__ == "__main__":
    main()
