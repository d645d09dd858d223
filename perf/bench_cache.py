"""What the disk cache is worth, on an S3 server 20 ms away each way, against local files.

    python perf/bench_cache.py [--megabytes N] [--adds N] [--rounds R] [--tables DIR]

Each measurement is a process of its own. Rows: a scan of all columns of a table without the cache,
with an empty one, and again with what that left there; and the same files on the local disk. Log:
the list of all files of a table with so many adds, opened without the cache and with it. What is
printed is the median time of the rounds with the CPU time of the process, and ratios of the times.
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


async def _write(uri: str, options: dict[str, str], megabytes: int) -> None:
    import adelta

    for number in range(_FILES):
        await adelta.write_table(uri, _rows(megabytes, number), storage_options=options)


async def _upload(folder: Path, options: dict[str, str], name: str) -> None:
    from adelta.storage.local import LocalStore
    from adelta.storage.s3 import S3Store

    here, there = LocalStore(folder), S3Store.from_options("far", name, options)
    async for page in here.list("_delta_log/"):
        for meta in page:
            if not meta.path.endswith(".complete"):
                await there.put(meta.path, await here.get(meta.path))
    await there.aclose()


def _child(work: str, uri: str, options: dict[str, str]) -> dict[str, float]:
    import uvloop

    import adelta

    async def measured() -> tuple[float, float]:
        async with adelta.open_table(uri, storage_options=options) as table:
            begin, cpu = time.perf_counter(), time.process_time()
            snapshot = await table.snapshot()
            if work == "rows":
                assert (await snapshot.scan().to_arrow()).num_rows
            else:
                assert (await snapshot.files()).num_rows
            return time.perf_counter() - begin, time.process_time() - cpu

    seconds, cpu = uvloop.run(measured())
    return {"seconds": seconds, "cpu": cpu}


def _median(what: str, work: str, uri: str, options: dict[str, str], rounds: int) -> float:
    found = [run_child(__file__, work, uri, json.dumps(options)) for _ in range(rounds)]
    seconds, cpu = (statistics.median(each[name] for each in found) for name in ("seconds", "cpu"))
    print(f"{what:36}{seconds:8.3f} s{cpu:8.3f} s of CPU")
    return seconds


def _compare(folder: Path, megabytes: int, adds: int, rounds: int) -> None:
    local = folder / f"cache-rows-{megabytes}"
    if not local.exists():
        asyncio.run(_write(str(local), {}, megabytes))
    log = make(folder / f"cache-log-{adds}", Shape(adds=adds, commits=1))
    with far_server(ONE_WAY) as (near, far), tempfile.TemporaryDirectory() as cache:
        asyncio.run(_write("s3://far/rows", near, megabytes))
        asyncio.run(_upload(log, near, "log"))
        kept = {**far, "adelta_cache_dir": cache}
        cold: list[float] = []
        without: list[float] = []
        for _ in range(rounds):
            shutil.rmtree(cache, ignore_errors=True)
            cold.append(_median("rows, an empty cache", "rows", "s3://far/rows", kept, 1))
            without.append(_median("rows, no cache", "rows", "s3://far/rows", far, 1))
        again = _median("rows again", "rows", "s3://far/rows", kept, rounds)
        here = _median("rows of local files", "rows", str(local), {}, rounds)
        off, first = statistics.median(without), statistics.median(cold)
        print(
            f"{megabytes} MB: {off / again:.1f}x faster again, {here / again:.2f}x of local files,"
        )
        print(f"  {first / off:.2f}x of the time the first time")
        record("cache scan", faster=off / again, local=here / again, cold=first / off)
        opened = _median("list, no cache", "files", "s3://far/log", far, rounds)
        _median("list, an empty cache", "files", "s3://far/log", kept, 1)
        reopened = _median("list again", "files", "s3://far/log", kept, rounds)
        print(f"list of {adds:,} files: {opened / reopened:.1f}x faster again")
        record("cache open", faster=opened / reopened)


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
    parser.add_argument("--tables", type=Path, default=Path(tempfile.gettempdir()))
    arguments = parser.parse_args()
    _compare(arguments.tables, arguments.megabytes, arguments.adds, arguments.rounds)


if __name__ == "__main__":
    main()
