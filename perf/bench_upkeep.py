"""CONVERT and VACUUM of tables on S3 at 2 x 20 ms: adelta against deltalake, in turn.

    python perf/bench_upkeep.py [convert] [vacuum] [--files N] [--objects N] [--rounds N]

* ``convert``: a folder of so many Parquet files, in eight partitions, becomes a table, with the
  statistics of every file.
* ``vacuum``: of a table of so many objects a fifth belongs to nothing, and is deleted.

Each measurement is a process of its own, on objects of its own; the seconds are those of the call,
imports and threads included. `pause` is how long adelta held up its event loop at most. Both are
checked to have done the work.
"""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import statistics
import sys
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from child import run_child
from far_server import far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from adelta.storage.object_store import ObjectStore

ONE_WAY = 0.020
AT_ONCE = 32
TICK = 0.001
WORKS = ("convert", "vacuum")

Options = dict[str, str]


# ------------------------------------------------------------------------------------- the objects


async def _put_all(store: ObjectStore, objects: Iterable[tuple[str, bytes]]) -> None:
    from adelta._concurrency import map_concurrent

    await map_concurrent(lambda each: store.put(*each), objects, limit=AT_ONCE)


async def _make_folder(uri: str, options: Options, files: int) -> None:
    import pyarrow.parquet as pq

    from adelta.storage.resolve import open_store

    def file(number: int) -> tuple[str, bytes]:
        sink = io.BytesIO()
        rows = pa.table({"id": pa.array(range(number * 50, number * 50 + 50), pa.int64())})
        pq.write_table(rows, sink)
        return f"part={number % 8}/file-{number:06d}.parquet", sink.getvalue()

    store = open_store(uri, options)
    await _put_all(store, map(file, range(files)))
    await store.aclose()


async def _make_table(uri: str, options: Options, objects: int) -> None:
    import adelta

    schema = pa.schema([("id", pa.int64())])
    table = await adelta.create_table(uri, schema, storage_options=options)
    names = [f"part-{number:06d}.parquet" for number in range(objects)]
    await _put_all(table.store, ((name, b"PAR1") for name in names))
    async with table.transaction() as tx:
        tx.add_files(
            adelta.AddFile(name, {}, 4, 0, data_change=True) for name in names[objects // 5 :]
        )
    await table.aclose()


# ------------------------------------------------------------------------------------- the engines


async def _by_adelta(work: str, uri: str, options: Options) -> tuple[int, float]:
    """How many files it has seen to, and the longest pause of the loop in seconds."""
    import adelta

    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            longest = max(longest, time.perf_counter() - began - TICK)

    ticking = asyncio.create_task(tick())
    if work == "convert":
        parts = pa.schema([("part", pa.int32())])
        converted = await adelta.convert(uri, partition_schema=parts, storage_options=options)
        count = converted.num_converted_files
    else:
        done = await adelta.vacuum(
            uri, retention=timedelta(0), enforce_retention=False, storage_options=options
        )
        count = done.num_deleted_files
    ticking.cancel()
    return count, longest


def _by_deltalake(work: str, uri: str, options: Options) -> tuple[int, float]:
    import deltalake

    if work == "convert":
        deltalake.convert_to_deltalake(
            uri,
            partition_by=deltalake.Schema([deltalake.Field("part", "integer")]),
            partition_strategy="hive",
            storage_options=options,
        )
        return len(deltalake.DeltaTable(uri, storage_options=options).file_uris()), 0.0
    table = deltalake.DeltaTable(uri, storage_options=options)
    gone = table.vacuum(0, dry_run=False, enforce_retention_duration=False, full=True)
    return len(gone), 0.0


def _child(engine: str, work: str, uri: str, given: str) -> None:
    options = json.loads(given)
    began = time.perf_counter()
    if engine == "adelta":
        count, pause = asyncio.run(_by_adelta(work, uri, options))
    else:
        count, pause = _by_deltalake(work, uri, options)
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "count": count, "pause": pause}))


def _measured(engine: str, work: str, near: Options, far: Options, size: int) -> dict[str, float]:
    uri = f"s3://far/{uuid.uuid4().hex}/table"
    asyncio.run((_make_folder if work == "convert" else _make_table)(uri, near, size))
    found = run_child(__file__, engine, work, uri, json.dumps(far))
    wanted = size if work == "convert" else size // 5
    assert found["count"] == wanted, (engine, work, found, wanted)
    return found


def main() -> None:
    """Measure, and print a line a piece of work."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("works", nargs="*", choices=[*WORKS, []], default=[])
    parser.add_argument("--files", type=int, default=2_000, help="that are converted")
    parser.add_argument("--objects", type=int, default=20_000, help="among which is vacuumed")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--tables", type=Path, help="not used: no tables are made beforehand")
    arguments = parser.parse_args()
    with far_server(ONE_WAY) as (near, far):
        for work in arguments.works or WORKS:
            size = arguments.files if work == "convert" else arguments.objects
            rounds = [
                [_measured(each, work, near, far, size) for each in ("adelta", "deltalake")]
                for _ in range(arguments.rounds)
            ]
            ours, theirs = (
                statistics.median(each[at]["seconds"] for each in rounds) for at in (0, 1)
            )
            pause = 1000 * min(each[0]["pause"] for each in rounds)
            print(
                f"{work}: {ours:.2f} s, deltalake {theirs:.2f} s: {theirs / ours:.1f}x as fast; "
                f"longest pause of the loop {pause:.0f} ms",
                flush=True,
            )
            record(f"upkeep {work}", faster=theirs / ours, pause=pause)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
    else:
        main()
