"""What the disk cache is worth, on an S3 server 20 ms away each way, against local files.

    python perf/bench_cache.py [--megabytes N] [--adds N] [--rounds R] [--line MB] [--tables DIR]

The line to the server carries `--line` megabytes a second, which all connections share (125: one
gigabit; 0: without a bound). Each measurement is a process of its own, which opens the table and
then does one of

    rows      all columns of 16 files, `--megabytes` in all: bound by the line, or by decoding
    columns   2 of 16 columns of 256 small files: two small ranges each, bound by round trips
    lookups   16 rows by their id, one after the other, each in another one of these files

without the cache, with an empty one, and again with what that left there; and on the same files on
the local disk. The table is open before the clock starts: opening asks for a listing with and
without the cache, and is measured by itself. Log: the newest version, and the list of all files, of
a table with so many adds. What is printed is the median time of the rounds with the CPU time of the
process, and ratios of the times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from child import run_child
from far_server import far_server
from figures import record
from tables import Shape, make

ONE_WAY = 0.020
_FILES = 16
_SMALL_FILES = 256
_SMALL_ROWS = 2000
_LOOKUPS = 16


def _rows(megabytes: int, number: int) -> Any:
    import pyarrow as pa

    count = megabytes * (1 << 20) // _FILES // 40
    luck = random.Random(number)
    return pa.table(
        {
            "id": pa.array(range(number * count, (number + 1) * count)),
            "x": pa.array([luck.random() for _ in range(count)]),
            "text": pa.array([luck.randbytes(12).hex() for _ in range(count)]),
        }
    )


def _small_rows(number: int) -> Any:
    import pyarrow as pa

    luck = random.Random(number)
    ids = pa.array(range(number * _SMALL_ROWS, (number + 1) * _SMALL_ROWS))
    columns = {f"x{n}": pa.array([luck.random() for _ in range(_SMALL_ROWS)]) for n in range(15)}
    return pa.table({"id": ids, **columns})


async def _write(uri: str, options: dict[str, str], megabytes: int) -> None:
    import adelta

    for number in range(_FILES):
        await adelta.write_table(uri, _rows(megabytes, number), storage_options=options)


async def _write_small(uri: str, options: dict[str, str]) -> None:
    import adelta

    for number in range(_SMALL_FILES):
        await adelta.write_table(uri, _small_rows(number), storage_options=options)


async def _upload(folder: Path, options: dict[str, str], name: str) -> None:
    from adelta.storage.local import LocalStore
    from adelta.storage.s3 import S3Store

    here, there = LocalStore(folder), S3Store.from_options("far", name, options)
    async for page in here.list():
        for meta in page:
            if not meta.path.endswith(".complete"):
                await there.put(meta.path, await here.get(meta.path))
    await there.aclose()


async def _work(work: str, snapshot: Any) -> None:
    if work == "rows":
        assert (await snapshot.scan().to_arrow()).num_rows
    elif work == "columns":
        assert (await snapshot.scan(columns=["id", "x7"]).to_arrow()).num_rows
    elif work == "lookups":
        for number in range(_LOOKUPS):
            id = (number * 13 + 3) % _SMALL_FILES * _SMALL_ROWS + 77
            assert (await snapshot.scan(where=f"id = {id}").to_arrow()).num_rows == 1
    elif work == "files":
        assert (await snapshot.files()).num_rows


def _child(work: str, uri: str, options: dict[str, str]) -> dict[str, float]:
    import uvloop

    import adelta

    async def measured() -> tuple[float, float]:
        async with adelta.open_table(uri, storage_options=options) as table:
            opens = work in ("open", "files")
            begin, cpu = time.perf_counter(), time.process_time()
            snapshot = await table.snapshot()
            if not opens:
                await snapshot.files()
                begin, cpu = time.perf_counter(), time.process_time()
            await _work(work, snapshot)
            return time.perf_counter() - begin, time.process_time() - cpu

    seconds, cpu = uvloop.run(measured())
    return {"seconds": seconds, "cpu": cpu}


def _median(what: str, work: str, uri: str, options: dict[str, str], rounds: int) -> float:
    found = [run_child(__file__, work, uri, json.dumps(options)) for _ in range(rounds)]
    seconds, cpu = (statistics.median(each[name] for each in found) for name in ("seconds", "cpu"))
    print(f"{what:36}{seconds:8.3f} s{cpu:8.3f} s of CPU", flush=True)
    return seconds


def _scans(work: str, far_uri: str, far: dict[str, str], local: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as cache:
        kept = {**far, "adelta_cache_dir": cache}
        cold: list[float] = []
        without: list[float] = []
        for _ in range(rounds):
            shutil.rmtree(cache, ignore_errors=True)
            cold.append(_median(f"{work}, an empty cache", work, far_uri, kept, 1))
            without.append(_median(f"{work}, no cache", work, far_uri, far, 1))
        again = _median(f"{work} again", work, far_uri, kept, rounds)
        here = _median(f"{work} of local files", work, str(local), {}, rounds)
    off, first = statistics.median(without), statistics.median(cold)
    print(
        f"{work}: {off / again:.1f}x faster again, {here / again:.2f}x of local files, "
        f"{first / off:.2f}x of the time the first time"
    )
    record(f"cache {work}", faster=off / again, local=here / again, cold=first / off)


def _opening(work: str, far_uri: str, far: dict[str, str], local: Path, rounds: int) -> None:
    with tempfile.TemporaryDirectory() as cache:
        kept = {**far, "adelta_cache_dir": cache}
        off = _median(f"{work}, no cache", work, far_uri, far, rounds)
        _median(f"{work}, an empty cache", work, far_uri, kept, 1)
        again = _median(f"{work} again", work, far_uri, kept, rounds)
        _median(f"{work} of local files", work, str(local), {}, rounds)
    print(f"{work}: {off / again:.1f}x faster again")
    record(f"cache {work}", faster=off / again)


def _compare(
    folder: Path, megabytes: int, adds: int, rounds: int, line: float, only: str | None
) -> None:
    big = folder / f"cache-rows-{megabytes}"
    small = folder / "cache-small"
    if not big.exists():
        asyncio.run(_write(str(big), {}, megabytes))
    if not small.exists():
        asyncio.run(_write_small(str(small), {}))
    log = make(folder / f"cache-log-{adds}", Shape(adds=adds, commits=1))
    with far_server(ONE_WAY, line * 1e6 or None) as (near, far):
        for name, table, works in (
            ("rows", big, ("rows",)),
            ("small", small, ("columns", "lookups")),
            ("log", log, ("open", "files")),
        ):
            works = tuple(work for work in works if only in (None, work))
            if works:
                asyncio.run(_upload(table, near, name))
            for work in works:
                compared = _opening if name == "log" else _scans
                compared(work, f"s3://far/{name}", far, table, rounds)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_child(sys.argv[2], sys.argv[3], json.loads(sys.argv[4]))))
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--adds", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--line", type=float, default=125, help="megabytes a second; 0: no bound")
    parser.add_argument("--only", help="one kind of work")
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    _compare(
        arguments.tables,
        arguments.megabytes,
        arguments.adds,
        arguments.rounds,
        arguments.line,
        arguments.only,
    )


if __name__ == "__main__":
    main()
