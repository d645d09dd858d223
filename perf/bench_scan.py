"""Scans of rows: adelta against pyarrow.dataset on the same files, and against deltalake over S3.

    python perf/bench_scan.py [local] [tiny] [far] [many] [--mb 1024] [--far-mb 256] [--rounds 3]
    python perf/bench_scan.py far --s3 http://127.0.0.1:7800 [--upload-by http://127.0.0.1:7480]

`local` reads a local disk, whose pages are warm; `tiny` some 200 files of 1,000 rows there; `far`
is an S3 server 2 x 20 ms away, of its own or, with `--s3`, the endpoint of another one with the
keys test/testtest; `many` the same server and as many bytes in a hundred small files, as streams
leave them.

Every measurement is a fresh process, and the engines take turns. Time is from opening the table to
its last row, batch by batch, without imports. `cpu` is the process's own seconds of computing,
`peak` its memory beyond what it had after imports, `held` the most that adelta's event loop
computed between two turns of a task that wakes every 5 ms. The ratios are the other's time, and the
other's cpu, over adelta's: more is better.

The engine `GETs` is what the link gives: it fetches the very bytes that a scan needs, by ranged
GETs of 4 MiB, 32 at a time, through Rust's object_store, and decodes nothing. `MB/s` are those
bytes by time, `link` is what an engine makes of the speed of `GETs`. Below a table stands for how
much of adelta's time from its first data request to the last byte ranges were under way, and how
many MB of them. Servers, proxy and readers share one machine: where it has few cores these bound
every engine, and the ratio of cpu says more than that of time.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
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
from far_server import far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

TWO = ["id", "price"]
SELECTIVE = "id >= 10000 and id < 11000"
WORK = {"all": None, "two of 16": TWO, "1,000 rows": None}
_ROWS_A_GROUP = 250_000
_ROWS_A_FILE = 2 * _ROWS_A_GROUP
_ROWS_A_SMALL_FILE = 25_000  # about 2 MB
_ROWS_A_TINY_FILE = 1_000
_TINY_MB = 16  # some 200 files
_TICK = 0.005
_GET = 4 << 20
_GETS = 32
_GETS_OPTIONS = ("aws_endpoint_url", "aws_access_key_id", "aws_secret_access_key", "aws_region")
_ONE_WAY = 0.020  # seconds
_FOLDER = "ADELTA_SCAN_FOLDER"  # in the environment: the table's files on the local disk
Found = dict[str, float]


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


def make(folder: Path, megabytes: int, rows_a_file: int = _ROWS_A_FILE) -> Path:
    """A table of files of up to two row groups each, until they have so many megabytes.

    They have page indexes, as files have that Spark, deltalake and adelta write.
    """
    folder = folder / f"scan-{megabytes}-{rows_a_file}-indexed"
    if (folder / "_delta_log").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    adds, size, first = [], 0, 0
    while size < megabytes << 20:
        table = rows(first, rows_a_file)
        name = f"part-{len(adds):05d}.parquet"
        pq.write_table(
            table,
            folder / name,
            row_group_size=_ROWS_A_GROUP,
            compression="snappy",
            write_page_index=True,
        )
        length = (folder / name).stat().st_size
        stats = {
            "numRecords": rows_a_file,
            "minValues": {"id": first},
            "maxValues": {"id": first + rows_a_file - 1},
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
        first += rows_a_file
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


def _adelta(uri: str, work: str, options: dict[str, str]) -> tuple[int, Found]:
    import uvloop

    import adelta

    held = 0.0
    flight = _Flight()

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

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner, flight.watched():
        count = runner.run(measured())
    return count, {"held": held * 1000, **flight.found()}


class _Flight:
    """The ranges that adelta has under way on S3."""

    def __init__(self) -> None:
        self._bytes = 0
        self._since = self._first = self._last = 0.0
        self._busy = self._byte_seconds = 0.0

    def _turn(self, change: int) -> None:
        now = time.perf_counter()
        self._first = self._first or now
        if self._bytes:
            self._busy += now - self._since
            self._byte_seconds += self._bytes * (now - self._since)
        self._since = self._last = now
        self._bytes += change

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        from adelta.storage.s3 import S3Store

        fetch = S3Store._fetch

        async def watched(store: Any, path: str, start: int, end: int, *more: Any) -> int:
            self._turn(end - start)
            try:
                return await fetch(store, path, start, end, *more)
            finally:
                self._turn(start - end)

        S3Store._fetch = watched  # type: ignore[method-assign]
        try:
            yield
        finally:
            S3Store._fetch = fetch  # type: ignore[method-assign]

    def found(self) -> Found:
        took = self._last - self._first
        if not took:
            return {}
        return {"busy": self._busy / took, "flight": self._byte_seconds / took / 1e6}


def _dataset(uri: str, work: str, _: dict[str, str]) -> tuple[int, Found]:
    import pyarrow.dataset as ds  # noqa: TID251  # it is what is compared with

    wanted = None
    if work == "1,000 rows":
        wanted = (ds.field("id") >= 10000) & (ds.field("id") < 11000)
    found = ds.dataset(sorted(map(str, Path(uri).glob("*.parquet"))), format="parquet")
    batches = found.to_batches(columns=WORK[work], filter=wanted)
    return sum(batch.num_rows for batch in batches), {}


def _deltalake(uri: str, work: str, options: dict[str, str]) -> tuple[int, Found]:
    import pyarrow.dataset as ds  # noqa: TID251  # it is what is compared with
    from deltalake import DeltaTable

    wanted = None
    if work == "1,000 rows":
        wanted = (ds.field("id") >= 10000) & (ds.field("id") < 11000)
    found = DeltaTable(uri, storage_options=options).to_pyarrow_dataset()
    batches = found.to_batches(columns=WORK[work], filter=wanted)
    return sum(batch.num_rows for batch in batches), {}


def _datafusion(uri: str, work: str, options: dict[str, str]) -> tuple[int, Found]:
    from deltalake import DeltaTable, QueryBuilder

    table = DeltaTable(uri, storage_options=options)
    columns = ", ".join(WORK[work] or ["*"])
    where = f" where {SELECTIVE}" if work == "1,000 rows" else ""
    answer = QueryBuilder().register("t", table).execute(f"select {columns} from t{where}")
    return sum(batch.num_rows for batch in answer), {}


def ranges(folder: Path, work: str) -> list[tuple[str, int, int]]:
    """What a scan needs of the files, in pieces of one GET: name, start and end."""
    pieces = []
    for file in sorted(folder.glob("*.parquet")):
        metadata = pq.read_metadata(file)
        spans = []
        for group in range(metadata.num_row_groups):
            for leaf in range(metadata.num_columns):
                chunk = metadata.row_group(group).column(leaf)
                if WORK[work] is None or chunk.path_in_schema in TWO:
                    start = chunk.dictionary_page_offset or chunk.data_page_offset
                    spans.append((start, start + chunk.total_compressed_size))
        joined = spans[:1]
        for start, end in spans[1:]:
            if start == joined[-1][1]:
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        for start, end in joined:
            pieces += [(file.name, at, min(at + _GET, end)) for at in range(start, end, _GET)]
    return pieces


def _gets(uri: str, work: str, options: dict[str, str]) -> tuple[int, Found]:
    import obstore
    from obstore.store import S3Store

    pieces = ranges(Path(os.environ[_FOLDER]), work)
    known = {key: value for key, value in options.items() if key in _GETS_OPTIONS}
    store: Any = S3Store.from_url(uri, config=known, client_options={"allow_http": True})

    async def fetched() -> int:
        todo = iter(pieces)

        async def some() -> int:
            total = 0
            for name, start, end in todo:
                total += len(await obstore.get_range_async(store, name, start=start, end=end))
            return total

        return sum(await asyncio.gather(*(some() for _ in range(_GETS))))

    start = time.perf_counter()
    total = asyncio.run(fetched())
    return 0, {"took": time.perf_counter() - start, "bytes": total}


ENGINES: dict[str, Callable[[str, str, dict[str, str]], tuple[int, Found]]] = {
    "adelta": _adelta,
    "dataset": _dataset,
    "deltalake": _deltalake,
    "deltalake SQL": _datafusion,
    "GETs": _gets,
}


def _measure(engine: str, uri: str, work: str, options: dict[str, str]) -> None:
    """In a process of its own: measure once, and print what came of it."""
    import anyio._backends._asyncio
    import deltalake
    import obstore.store
    import pyarrow.dataset  # noqa: TID251  # it is what is compared with
    import uvloop

    import adelta.storage.local
    import adelta.storage.s3
    from adelta import open_table

    _ = open_table, adelta, anyio, deltalake, obstore, pyarrow.dataset, uvloop  # noqa: TID251  # as above
    pa.array([0])  # Arrow imports pandas, where there is one, when it first meets a list
    before = resource.getrusage(resource.RUSAGE_SELF)
    start = time.perf_counter()
    count, more = ENGINES[engine](uri, work, options)
    took = more.pop("took", time.perf_counter() - start)
    after = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "rows": count,
        "seconds": took,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "peak": (after.ru_maxrss - before.ru_maxrss) / 1024,
        **more,
    }
    print(json.dumps(found), flush=True)
    os._exit(0)  # threads of other runtimes may not survive the interpreter's end


def _run(engine: str, uri: str, work: str, options: dict[str, str]) -> Found:
    command = [sys.executable, __file__, "--measure", engine, uri, work, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: Found = json.loads(done.stdout.splitlines()[-1])
    return found


def compare(
    where: str, uri: str, folder: Path, engines: Sequence[str], options: dict[str, str], asked: Any
) -> None:
    """Measure every engine in turn, and print the medians."""
    os.environ[_FOLDER] = str(folder)
    columns = "engine | rows | s | cpu s | peak MB | MB/s | link | held ms | ratio | cpu ratio"
    print(f"| {where} | {columns} |\n|" + "---|" * 11)
    for work in WORK if asked.only is None else [asked.only]:
        measured = [name for name in engines if name != "GETs" or work != "1,000 rows"]
        runs: dict[str, list[Found]] = {engine: [] for engine in measured}
        for _ in range(asked.rounds):
            for engine in measured:
                runs[engine].append(_run(engine, uri, work, options))
        rows = {int(one["rows"]) for name in measured if name != "GETs" for one in runs[name]}
        if len(rows) != 1:
            raise SystemExit(f"{work}: the engines do not agree on the rows: {runs}")
        found = {
            engine: {key: statistics.median(one[key] for one in of) for key in of[0]}
            for engine, of in runs.items()
        }
        size = sum(end - start for _, start, end in ranges(folder, work))
        for engine, one in found.items():
            print(_line(work, engine, one, found, size), flush=True)
        ours = found["adelta"]
        if "busy" in ours:
            print(
                f"\n{work}: ranges were under way {ours['busy']:.0%} of the time, "
                f"{ours['flight']:.0f} MB on average\n",
                flush=True,
            )
        figures = {"pause": ours["held"]}
        for engine, key in FIGURES.items():
            if engine in found:
                figures[key] = found[engine]["seconds"] / ours["seconds"]
                figures[f"{key} cpu"] = found[engine]["cpu"] / ours["cpu"]
        record(f"scan {where} {work}", **figures)


FIGURES = {"dataset": "dataset", "deltalake": "deltalake", "deltalake SQL": "sql", "GETs": "link"}


def _line(work: str, engine: str, one: Found, found: dict[str, Found], size: int) -> str:
    ours, gets = found["adelta"], found.get("GETs")
    selective = work == "1,000 rows"
    speed = "" if selective else f"{size / 1e6 / one['seconds']:,.0f}"
    link = "" if selective or gets is None else f"{gets['seconds'] / one['seconds']:.0%}"
    held = f"{one['held']:.1f}" if engine == "adelta" else ""
    ratio = cpu = ""
    if engine not in ("adelta", "GETs"):
        ratio = f"{one['seconds'] / ours['seconds']:.2f}x"
        cpu = f"{one['cpu'] / ours['cpu']:.2f}x"
    return (
        f"| {work} | {engine} | {one['rows']:,.0f} | {one['seconds']:.2f} | {one['cpu']:.2f} | "
        f"{one['peak']:.0f} | {speed} | {link} | {held} | {ratio} | {cpu} |"
    )


def _upload(folder: Path, bucket: str, options: dict[str, str]) -> str:
    import botocore.session

    client = botocore.session.get_session().create_client(
        "s3",
        endpoint_url=options["aws_endpoint_url"],
        aws_access_key_id=options["aws_access_key_id"],
        aws_secret_access_key=options["aws_secret_access_key"],
        region_name=options["aws_region"],
    )
    names = {found["Name"] for found in client.list_buckets()["Buckets"]}
    if bucket not in names:
        client.create_bucket(Bucket=bucket)
    for file in sorted(folder.rglob("*")):
        if file.is_file():
            key = f"{folder.name}/{file.relative_to(folder)}"
            client.put_object(Bucket=bucket, Key=key, Body=file.read_bytes())
    return f"s3://{bucket}/{folder.name}"


def _far(where: str, folder: Path, asked: Any) -> None:
    with contextlib.ExitStack() as stack:
        if asked.s3:
            far = {
                "aws_endpoint_url": asked.s3,
                "aws_access_key_id": "test",
                "aws_secret_access_key": "testtest",
                "aws_region": "us-east-1",
                "aws_allow_http": "true",
            }
            near = far | {"aws_endpoint_url": asked.upload_by or asked.s3}
        else:
            near, far = stack.enter_context(far_server(_ONE_WAY))
        uri = _upload(folder, "bench-scan", near)
        engines = ("adelta", "deltalake", "deltalake SQL", "GETs")
        compare(where, uri, folder, engines, far, asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("what", nargs="*", choices=["local", "tiny", "far", "many", []])
    parser.add_argument("--mb", type=int, default=1024)
    parser.add_argument("--far-mb", type=int, default=256)
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
    what = asked.what or ["local", "tiny", "far", "many"]
    if "local" in what:
        folder = make(asked.tables, asked.mb)
        engines = ("adelta", "dataset", "deltalake", "deltalake SQL")
        compare("local", str(folder), folder, engines, {}, asked)
    if "tiny" in what:
        folder = make(asked.tables, _TINY_MB, _ROWS_A_TINY_FILE)
        compare("tiny", str(folder), folder, ("adelta", "deltalake", "deltalake SQL"), {}, asked)
    if "far" in what:
        _far("far", make(asked.tables, asked.far_mb), asked)
    if "many" in what:
        _far("many", make(asked.tables, asked.far_mb, _ROWS_A_SMALL_FILE), asked)


if __name__ == "__main__":
    main()
