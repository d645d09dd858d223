"""Many tables polled for news by one process: what a table costs of requests, CPU and memory.

    python perf/bench_lake.py [--tables-of-lake 10000] [--news 100] [--rounds 1]

The tables lie in a hundred folders of a bucket of S3 (Ceph's RADOS gateway in memory; moto where
that is not installed). A child opens an `adelta.Lake` on it and looks three times: the first look
finds all tables, at the second nothing is new, and before the third some tables have got a commit.
CPU is that of the child alone, user and system, all threads; memory is what its resident size has
grown by from before the first look to after the second, divided by the tables. What the looks tell
is checked before a figure is printed. No peer watches many tables; what is beside it is the CPU of
as many listings by obstore, which deltalake lists by, from the version known on, and as many at
once.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from child import run_child
from figures import record

from tests.support.s3_server import S3Server, running_server

ROOT = "s3://lake/many"
GROUPS = 100
AT_ONCE = 32
COMPARED = 2000

Options = dict[str, str]


async def make(options: Options, tables: int) -> None:
    """So many tables of one commit each, with ids of their own."""
    import adelta
    from adelta._concurrency import map_concurrent
    from adelta.storage.resolve import open_store

    store = open_store(ROOT, options)
    path = "_delta_log/00000000000000000000.json"
    await adelta.write_table(f"{ROOT}/first", pa.table({"n": [1]}), storage_options=options)
    async with adelta.open_table(f"{ROOT}/first", options) as first:
        ours = (await first.snapshot()).metadata.id
        commit = await first.store.get(path)
    await adelta.drop_table(f"{ROOT}/first", storage_options=options)

    async def put(number: int) -> None:
        own = commit.replace(ours.encode(), str(uuid.uuid4()).encode())
        await store.put(f"{name_of(number)}/{path}", own)

    await map_concurrent(put, range(tables), limit=AT_ONCE)
    await store.aclose()


def name_of(number: int) -> str:
    return f"group-{number % GROUPS:02}/table-{number:05}"


async def commit_to(options: Options, tables: range) -> None:
    """A further commit in each of these tables."""
    from adelta._concurrency import map_concurrent
    from adelta.storage.resolve import open_store

    store = open_store(ROOT, options)
    commit = b'{"commitInfo":{"timestamp":0,"operation":"MANUAL UPDATE"}}\n'

    async def put(number: int) -> None:
        meta = await latest(number)
        await store.put_if_absent(f"{name_of(number)}/_delta_log/{meta + 1:020}.json", commit)

    async def latest(number: int) -> int:
        folder = f"{name_of(number)}/_delta_log/"
        found = [meta.path async for page in store.list(folder) for meta in page]
        return int(found[-1].rpartition("/")[2].removesuffix(".json"))

    await map_concurrent(put, tables, limit=AT_ONCE)
    await store.aclose()


def resident() -> int:
    """Bytes of memory of this process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096


async def poll(options: Options, tables: int, news: int) -> dict[str, float]:
    from adelta import Lake

    found: dict[str, float] = {}
    async with Lake(ROOT, options, max_depth=2) as lake:
        for name in ("a", "b"):  # imports, connections and threads are none of the tables'
            await asyncio.gather(*(lake._store.put(f"_{name}/{n}", b"") for n in range(AT_ONCE)))
        before = resident()

        async def look(name: str, told: int) -> None:
            asked, cpu, began = lake.store_stats.num_requests, time.process_time(), time.monotonic()
            changes = await lake.refresh()
            assert len(changes) == told, (name, len(changes))
            found[f"{name} cpu"] = (time.process_time() - cpu) / tables * 1e6
            found[f"{name} requests"] = (lake.store_stats.num_requests - asked) / tables
            found[f"{name} seconds"] = time.monotonic() - began

        await look("first", tables)
        await look("idle", 0)
        found["memory"] = (resident() - before) / tables
        await commit_to(options, range(news))
        await look("news", news)
    found["obstore cpu"] = await list_by_obstore(options, range(min(tables, COMPARED)))
    return found


async def list_by_obstore(options: Options, tables: range) -> float:
    """Microseconds of CPU of obstore a table, of a listing each from its first version on."""
    import obstore
    from obstore.store import S3Store

    from adelta._concurrency import map_concurrent

    bucket, _, root = ROOT.removeprefix("s3://").partition("/")
    theirs = S3Store(
        bucket,
        access_key_id=options["aws_access_key_id"],
        secret_access_key=options["aws_secret_access_key"],
        endpoint=options["aws_endpoint_url"],
        region=options["aws_region"],
        client_options={"allow_http": True},
    )

    async def look(number: int) -> None:
        folder = f"{root}/{name_of(number)}/_delta_log"
        pages = obstore.list(theirs, folder, offset=f"{folder}/{0:020}")
        assert await pages.collect_async()

    cpu = time.process_time()
    await map_concurrent(look, tables, limit=AT_ONCE)
    return (time.process_time() - cpu) / len(tables) * 1e6


def _run(arguments: list[str]) -> dict[str, float]:
    import uvloop

    options, tables, news = arguments
    return uvloop.run(poll(json.loads(options), int(tables), int(news)))


def _measured(server: S3Server, tables: int, news: int, rounds: int) -> dict[str, Any]:
    options = server.storage_options
    server.make_bucket("lake")
    asyncio.run(make(options, tables))
    numbers = (json.dumps(options), str(tables), str(news))
    found = [run_child(__file__, *numbers) for _ in range(rounds)]
    return {name: statistics.median(each[name] for each in found) for name in found[0]}


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_run(sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--tables-of-lake", type=int, default=10_000)
    parser.add_argument("--news", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tables", type=Path, help="not used: the tables are made in the store")
    given = parser.parse_args()
    with running_server() as server:
        print(f"{given.tables_of_lake:,} tables on S3 ({server.kind}), polled by one process")
        found = _measured(server, given.tables_of_lake, given.news, given.rounds)
    titles = {
        "first": "all are found",
        "idle": "nothing is new",
        "news": f"{given.news} have a commit",
    }
    for name, title in titles.items():
        print(
            f"  {title:<20} {found[f'{name} requests']:.3f} requests, "
            f"{found[f'{name} cpu']:.0f} us of CPU a table; {found[f'{name} seconds']:.1f} s in all"
        )
    ratio = found["idle cpu"] / found["obstore cpu"]
    print(
        f"  listings by obstore  {found['obstore cpu']:.0f} us of CPU a table: {ratio:.2f}x of it"
    )
    print(f"  memory               {found['memory'] / 1024:.2f} KiB a table", flush=True)
    record(
        "lake poll",
        requests=found["idle requests"],
        cpu=found["idle cpu"],
        memory=found["memory"] / 1024,
    )


if __name__ == "__main__":
    main()
