"""Scans of rows: adelta against pyarrow.dataset on the same files, and against deltalake over S3.

    python perf/bench_scan.py [--mb 1024] [--rounds 3] [--tables DIR]
    python perf/bench_scan.py --s3 http://127.0.0.1:7800 [--mb 256] [--rounds 3]

Every measurement is a fresh process; a local disk's pages are warm. Time is from opening the table
to its last row, batch by batch, without imports. `cpu` is the process's own seconds of computing,
`peak` its memory beyond what it had after imports, `held` the most that adelta's event loop
computed between two turns of a task that wakes every 5 ms. The ratio is the other's time over
adelta's: more is better. For S3, give the endpoint of a server (keys test/testtest), best through
a proxy that adds latency.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TWO = ["id", "price"]
SELECTIVE = "id >= 10000 and id < 11000"
WORK = {"all": None, "two of 16": TWO, "1,000 rows": None}
_ROWS_A_GROUP = 250_000
_ROWS_A_FILE = 2 * _ROWS_A_GROUP
_TICK = 0.005


# ------------------------------------------------------------------------------------- the table


def rows(first: int, count: int) -> pa.Table:
    """Rows of sixteen columns: some compress well, and some do not."""
    ids = pa.array(range(first, first + count), pa.int64())
    noise = _noise(count)
    names = pa.array([f"customer {i % 9973:05d}" for i in range(count)])
    text = pc.binary_join_element_wise(names, noise[0].cast(pa.string()), " ")
    columns: dict[str, Any] = {
        "id": ids,
        "price": pc.divide(noise[1].cast(pa.float64()), 1e9),
        "discount": pc.divide(pc.bit_wise_and(noise[1], 15).cast(pa.float64()), 100.0),
        "quantity": pc.bit_wise_and(noise[2], 63).cast(pa.int32()),
        "customer": names,
        "comment": text,
        "country": pa.array([("de", "fr", "it", "es")[i % 4] for i in range(count)]),
        "at": pc.add(pc.multiply(ids, 1_000_000), 1_600_000_000_000_000).cast(
            pa.timestamp("us", "UTC")
        ),
        "day": pc.divide(ids, 100_000).cast(pa.int32()).cast(pa.date32()),
        "paid": pc.equal(pc.bit_wise_and(noise[2], 1), 1),
        "amount": pc.bit_wise_and(noise[3], 0xFFFFFF).cast(pa.decimal128(20, 0)),
        **{f"n{i}": noise[i % 4] for i in range(3)},
        "score": noise[3].cast(pa.float64()),
        "tags": pa.ListArray.from_arrays(
            pa.array(range(0, 2 * count + 1, 2), pa.int32()),
            _noise(2 * count)[0].cast(pa.int32(), safe=False),
        ),
    }
    return pa.table(columns)


def _noise(count: int) -> list[pa.Int64Array]:
    raw = os.urandom(8 * count)
    values = pa.Array.from_buffers(pa.int64(), count, [None, pa.py_buffer(raw)])
    return [
        pc.bit_wise_and(pc.shift_right(values, shift), (1 << 40) - 1) for shift in (0, 3, 7, 11)
    ]


def make(folder: Path, megabytes: int) -> Path:
    """A table of files of two row groups each, until they have so many megabytes."""
    folder = folder / f"scan-{megabytes}"
    if (folder / "_delta_log").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    adds, size, first = [], 0, 0
    while size < megabytes << 20:
        table = rows(first, _ROWS_A_FILE)
        name = f"part-{len(adds):05d}.parquet"
        pq.write_table(table, folder / name, row_group_size=_ROWS_A_GROUP, compression="snappy")
        length = (folder / name).stat().st_size
        stats = {
            "numRecords": _ROWS_A_FILE,
            "minValues": {"id": first},
            "maxValues": {"id": first + _ROWS_A_FILE - 1},
            "nullCount": {"id": 0},
        }
        adds.append(
            {
                "add": {
                    "path": name,
                    "partitionValues": {},
                    "size": length,
                    "modificationTime": 1,
                    "dataChange": True,
                    "stats": json.dumps(stats),
                }
            }
        )
        size += length
        first += _ROWS_A_FILE
    from adelta.kernel.schema.arrow import from_arrow_schema
    from adelta.kernel.schema.json import schema_to_string

    metadata = {
        "id": "9a1ff0c5-5d53-4ad9-9b0c-9d8a4c5a2d11",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": schema_to_string(from_arrow_schema(table.schema)),
        "partitionColumns": [],
        "configuration": {},
    }
    lines = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, {"metaData": metadata}]
    (folder / "_delta_log").mkdir()
    text = "".join(json.dumps(line) + "\n" for line in (*lines, *adds))
    (folder / "_delta_log" / f"{0:020d}.json").write_text(text)
    return folder


# ------------------------------------------------------------------------------ what is measured


def _adelta(uri: str, work: str, options: dict[str, str]) -> tuple[int, float]:
    import uvloop

    import adelta

    held = 0.0

    async def tick() -> None:
        nonlocal held
        while True:
            before = time.thread_time()
            await asyncio.sleep(_TICK)
            held = max(held, time.thread_time() - before)

    async def measured() -> int:
        ticker = asyncio.ensure_future(tick())
        count = 0
        async with adelta.open_table(uri, storage_options=options) as table:
            snapshot = await table.snapshot()
            where = SELECTIVE if work == "1,000 rows" else None
            async for batch in snapshot.scan(columns=WORK[work], where=where).batches():
                count += batch.num_rows
        ticker.cancel()
        return count

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(measured()), held


def _dataset(uri: str, work: str, _: dict[str, str]) -> tuple[int, float]:
    import pyarrow.dataset as ds  # noqa: TID251  # it is what is compared with

    wanted = None
    if work == "1,000 rows":
        wanted = (ds.field("id") >= 10000) & (ds.field("id") < 11000)
    found = ds.dataset(sorted(map(str, Path(uri).glob("*.parquet"))), format="parquet")
    batches = found.to_batches(columns=WORK[work], filter=wanted)
    return sum(batch.num_rows for batch in batches), 0.0


def _deltalake(uri: str, work: str, options: dict[str, str]) -> tuple[int, float]:
    import pyarrow.dataset as ds  # noqa: TID251  # it is what is compared with
    from deltalake import DeltaTable

    wanted = None
    if work == "1,000 rows":
        wanted = (ds.field("id") >= 10000) & (ds.field("id") < 11000)
    found = DeltaTable(uri, storage_options=options).to_pyarrow_dataset()
    batches = found.to_batches(columns=WORK[work], filter=wanted)
    return sum(batch.num_rows for batch in batches), 0.0


def _datafusion(uri: str, work: str, options: dict[str, str]) -> tuple[int, float]:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(uri, storage_options=options)
    columns = ", ".join(WORK[work] or ["*"])
    where = f" where {SELECTIVE}" if work == "1,000 rows" else ""
    answer = QueryBuilder().register("t", table).execute(f"select {columns} from t{where}")
    return sum(batch.num_rows for batch in answer), 0.0


ENGINES: dict[str, Callable[[str, str, dict[str, str]], tuple[int, float]]] = {
    "adelta": _adelta,
    "dataset": _dataset,
    "deltalake": _deltalake,
    "deltalake SQL": _datafusion,
}


def _measure(engine: str, uri: str, work: str, options: dict[str, str]) -> None:
    """In a process of its own: measure once, and print what came of it."""
    import anyio._backends._asyncio
    import deltalake
    import pyarrow.dataset  # noqa: TID251  # it is what is compared with
    import uvloop

    import adelta.storage.s3

    _ = adelta, anyio, deltalake, pyarrow.dataset, uvloop  # noqa: TID251  # as above
    pa.array([0])  # Arrow imports pandas, where there is one, when it first meets a list
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    count, held = ENGINES[engine](uri, work, options)
    took = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "rows": count,
        "seconds": took,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak": (after.ru_maxrss - before.ru_maxrss) / 1024,
        "held": held * 1000,
    }
    print(json.dumps(found))


def _run(engine: str, uri: str, work: str, options: dict[str, str]) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", engine, uri, work, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    uri: str, engines: Sequence[str], rounds: int, options: dict[str, str], only: str | None
) -> None:
    """Measure every engine in turn, and print the medians."""
    print("| scan | engine | rows | s | cpu s | peak MB | held ms | ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for work in WORK if only is None else [only]:
        taken: dict[str, list[dict[str, float]]] = {engine: [] for engine in engines}
        for _ in range(rounds):
            for engine in engines:
                taken[engine].append(_run(engine, uri, work, options))
        if len({int(one["rows"]) for runs in taken.values() for one in runs}) != 1:
            raise SystemExit(f"{work}: the engines do not agree on the rows: {taken}")
        ours = statistics.median(one["seconds"] for one in taken["adelta"])
        for engine, runs in taken.items():
            middle = {key: statistics.median(one[key] for one in runs) for key in runs[0]}
            held = f"{middle['held']:.1f}" if engine == "adelta" else ""
            ratio = "" if engine == "adelta" else f"{middle['seconds'] / ours:.2f}x"
            print(
                f"| {work} | {engine} | {middle['rows']:,.0f} | {middle['seconds']:.2f} | "
                f"{middle['cpu']:.2f} | {middle['peak']:.0f} | {held} | {ratio} |",
                flush=True,
            )


def _upload(folder: Path, options: dict[str, str]) -> str:
    import botocore.session

    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=options["AWS_ENDPOINT_URL"],
        aws_access_key_id=options["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=options["AWS_SECRET_ACCESS_KEY"],
        region_name=options["AWS_REGION"],
    )
    names = {bucket["Name"] for bucket in client.list_buckets()["Buckets"]}
    if "bench-scan" not in names:
        client.create_bucket(Bucket="bench-scan")
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{folder.name}/{file.relative_to(folder)}"
            client.put_object(Bucket="bench-scan", Key=key, Body=file.read_bytes())
    return f"s3://bench-scan/{folder.name}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--mb", type=int)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, default=Path("/tmp/perf-tables"))
    parser.add_argument("--s3", metavar="ENDPOINT")
    parser.add_argument("--upload-by", metavar="ENDPOINT", help="the server without the proxy")
    parser.add_argument("--only", choices=WORK)
    parser.add_argument("--measure", nargs=4, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.measure:
        engine, uri, work, options = asked.measure
        _measure(engine, uri, work, json.loads(options))
        return
    folder = make(asked.tables, asked.mb or (256 if asked.s3 else 1024))
    if not asked.s3:
        compare(str(folder), tuple(ENGINES), asked.rounds, {}, asked.only)
        return
    options = {
        "AWS_ENDPOINT_URL": asked.s3,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "testtest",
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    direct = options | {"AWS_ENDPOINT_URL": asked.upload_by or asked.s3}
    uri = _upload(folder, direct)
    compare(uri, ("adelta", "deltalake", "deltalake SQL"), asked.rounds, options, asked.only)


if __name__ == "__main__":
    main()
