"""Many tables at once, a far store, and the slope of the file list.

    python perf/bench_log.py [tables] [far] [slope] [--rounds N] [--tables DIR]

* ``tables``: a hundred snapshots of a hundred small tables, concurrently in one event loop,
  against deltalake in a hundred threads.
* ``far``: a cold open over S3 with 20 ms of latency each way, against deltalake, in round trips of
  latency: what it takes longer than without that latency.
  The S3 is Ceph's RADOS gateway in memory (moto where that is not installed), behind a proxy that
  delays.
* ``slope``: seconds and megabytes by the number of files, for the whole list and for the same list
  in batches, of logs with 100,000 to 1,000,000 files.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from child import run_child
from far_server import far_server
from figures import record
from tables import SHAPES, Shape, make

TABLES = 100
ONE_WAY = 0.020
ROUND_TRIP = 2 * ONE_WAY
SIZES = (100_000, 250_000, 500_000, 1_000_000)


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


# ------------------------------------------------------------------------------- many tables


def many_tables(folder: Path, rounds: int) -> None:
    for number in range(TABLES):
        make(folder / f"small-{number}", Shape(adds=0, commits=10))
    runs = {engine: [] for engine in ("adelta", "deltalake")}
    for _ in range(rounds):
        for engine, seconds in runs.items():
            seconds.append(run_child(__file__, "tables", engine, str(folder))["seconds"])
    ours, theirs = (statistics.median(seconds) for seconds in runs.values())
    print(f"{TABLES} snapshots of {TABLES} tables of 10 commits each")
    print(f"  adelta, one loop         {TABLES / ours:>8,.0f} a second")
    print(f"  deltalake, {TABLES} threads   {TABLES / theirs:>8,.0f} a second")
    print(f"  ratio                    {theirs / ours:>8.2f}x", flush=True)
    record("tables", faster=theirs / ours)


def _open_tables(engine: str, folder: Path) -> dict[str, float]:
    paths = [str(folder / f"small-{number}") for number in range(TABLES)]
    if engine == "deltalake":
        from deltalake import DeltaTable

        DeltaTable(paths[0])
        ready = threading.Barrier(TABLES + 1)

        def version(path: str) -> int:
            ready.wait()
            return DeltaTable(path).version()

        with ThreadPoolExecutor(TABLES) as pool:
            found = [pool.submit(version, path) for path in paths]
            ready.wait()
            start = time.perf_counter()
            assert [one.result() for one in found] == [9] * TABLES
            return {"seconds": time.perf_counter() - start}

    import uvloop

    import adelta

    async def snapshots() -> float:
        async def version(path: str) -> int:
            async with adelta.open_table(path) as table:
                return (await table.snapshot()).version

        await version(paths[0])
        start = time.perf_counter()
        assert await asyncio.gather(*map(version, paths)) == [9] * TABLES
        return time.perf_counter() - start

    return {"seconds": uvloop.run(snapshots())}


# ------------------------------------------------------------------------------- a far store


def far_store(folder: Path, rounds: int) -> None:
    from adelta.storage.local import LocalStore
    from adelta.storage.s3 import S3Store

    shapes = {
        "young": Shape(adds=0, commits=5),
        "hinted": Shape(adds=20_000, commits=3),
        "long": replace(SHAPES["100k-json"], commits=1500, adds=20_000),
    }

    async def upload(options: dict[str, str], name: str) -> None:
        here = LocalStore(folder / f"far-{name}")
        there = S3Store.from_options("far", name, options)
        async for page in here.list("_delta_log/"):
            found = await here.get_many([meta.path for meta in page])
            for meta, data in zip(page, found, strict=True):
                if not meta.path.endswith(".complete"):
                    await there.put(meta.path, data)
        await there.aclose()

    print(f"cold open over S3 at 2 x {ONE_WAY * 1000:.0f} ms, connection set up before")
    with far_server(ONE_WAY) as (near, far):
        for name, shape in shapes.items():
            make(folder / f"far-{name}", shape)
            if name == "long":
                _add_checkpoint(folder / f"far-{name}")
            asyncio.run(upload(near, name))
            cells = []
            for engine in ("adelta", "deltalake"):
                taken = [
                    [
                        run_child(__file__, "far", engine, name, json.dumps(way))["seconds"]
                        for way in (far, near)
                    ]
                    for _ in range(rounds)
                ]
                middle = statistics.median(there for there, _ in taken)
                trips = statistics.median(there - here for there, here in taken) / ROUND_TRIP
                cells.append(f"{engine} {middle * 1000:>6.0f} ms, {trips:>4.1f} round trips")
                if engine == "adelta":
                    record(f"far {name}", ms=middle * 1000, trips=round(trips))
            print(f"  {name:<8} {'   '.join(cells)}", flush=True)


def _add_checkpoint(folder: Path) -> None:
    import adelta.sync

    with adelta.sync.open_table(str(folder)) as table:
        adelta.sync.checkpoint(table)


def _open_far(engine: str, name: str, options: dict[str, str]) -> dict[str, float]:
    if engine == "deltalake":
        from deltalake import DeltaTable

        DeltaTable(f"s3://far/{name}", storage_options=options)
        start = time.perf_counter()
        DeltaTable(f"s3://far/{name}", storage_options=options)
        return {"seconds": time.perf_counter() - start}

    import uvloop

    import adelta
    from adelta.log.load import load_state

    async def opened() -> float:
        async with adelta.open_table(f"s3://far/{name}", storage_options=options) as table:
            await load_state(table.store)
            start = time.perf_counter()
            await load_state(table.store)
            return time.perf_counter() - start

    return {"seconds": uvloop.run(opened())}


# ------------------------------------------------------------------------------------- slope


def slope(folder: Path, rounds: int) -> None:
    print(f"{'files':>10} {'whole list':>22} {'in batches':>22}")
    found: dict[str, list[tuple[float, float]]] = {"whole": [], "batches": []}
    for adds in SIZES:
        table = make(folder / f"slope-{adds}", Shape(adds=adds, parts=max(1, adds // 250_000)))
        cells = []
        for way, points in found.items():
            runs = [run_child(__file__, "slope", way, str(table)) for _ in range(rounds)]
            seconds, megabytes = (
                statistics.median(run[key] for run in runs) for key in ("seconds", "mb")
            )
            points.append((seconds, megabytes))
            cells.append(f"{seconds * 1000:>9,.0f} ms {megabytes:>6,.0f} MB")
        print(f"{adds:>10,} {cells[0]:>22} {cells[1]:>22}", flush=True)
    for way, points in found.items():
        millions = (SIZES[-1] - SIZES[0]) / 1e6
        seconds, megabytes = (
            (last - first) / millions for first, last in zip(points[0], points[-1], strict=True)
        )
        print(f"{way}: {seconds:.2f} s and {megabytes:,.0f} MB for every further million of files")
        record(f"slope {way}", seconds=seconds, mb=megabytes)


def _list(way: str, folder: str) -> dict[str, float]:
    import uvloop

    import adelta

    async def listed() -> dict[str, float]:
        async with adelta.open_table(folder) as table:
            snapshot = await table.snapshot()
            base, start = _peak_mb(), time.perf_counter()
            if way == "whole":
                _ = await snapshot.files()
            else:
                async for _ in snapshot.files_batches():
                    pass
            return {"seconds": time.perf_counter() - start, "mb": _peak_mb() - base}

    return uvloop.run(listed())


CHILDREN = {
    "tables": lambda engine, folder: _open_tables(engine, Path(folder)),
    "far": lambda engine, name, options: _open_far(engine, name, json.loads(options)),
    "slope": _list,
}
WORK = {"tables": many_tables, "far": far_store, "slope": slope}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        kind, *arguments = sys.argv[2:]
        print(json.dumps(CHILDREN[kind](*arguments)))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("work", nargs="*", choices=[*WORK, []], default=[])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="keep the tables here for the next run")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        for name in arguments.work or WORK:
            WORK[name](arguments.tables or Path(scratch), arguments.rounds)
            print()


if __name__ == "__main__":
    main()
