"""The operations that change whole tables: adelta against deltalake, in turn.

    python perf/bench_operations.py [--only merge compact ...] [--rounds 3] [--tables DIR] [--far]

TPC-H's lineitem of scale factor 1 (6 million rows in eight files) is merged into, loses rows, gets
new values, and is compacted and sorted; a table of 2,000 small files is compacted; of a table of
100,000 files 20,000 are orphans and vacuumed; 10,000 Parquet files are converted. All on a local
disk, whose pages are warm; with `--far` on S3 at 2 x 20 ms, where `bench_upkeep.py` vacuums and
converts.

Each measurement is a fresh process on a fresh copy, whose files are hard links. CPU seconds are all
that the process took from its first instruction to its end, imports and all threads included; MB is
its peak. Both are the least of all rounds. The pause, how long adelta held up its event loop at
most, is that of a run of its own, for to look at the clock a thousand times a second takes
processor time, too. The ratios are deltalake's over adelta's: more is better.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from child import run_child
from far_server import far_server
from figures import record

if TYPE_CHECKING:
    from collections.abc import Callable

Options = dict[str, str]

ONE_WAY = 0.020  # seconds to the server
AT_ONCE = 32
TICK = 0.001
TINY_FILES, TINY_ROWS = 2_000, 375  # of the rows of the first part
LIVE_FILES, ORPHANS = 80_000, 20_000
CONVERTED_FILES = 10_000
TARGET = 128 * 1024 * 1024
DAY = "l_shipdate = DATE '1995-03-15'"
PARTITION = "l_shipmode = 'AIR'"
KEYS = "target.l_orderkey = source.l_orderkey AND target.l_linenumber = source.l_linenumber"
WORK = {
    "merge": "lineitem",
    "insert": "lineitem",
    "delete": "lineitem",
    "update": "partitioned",
    "tiny": "tiny",
    "compact": "lineitem",
    "zorder": "lineitem",
    "vacuum": "orphans",
    "convert": "parquet",
}
"""The operations, and the tables that they work on."""
OPERATIONS = {"insert": "merge", "tiny": "optimize", "compact": "optimize", "zorder": "optimize"}
"""What adelta calls them, where that is another name."""


# ------------------------------------------------------------------------------------- the tables


def _raw(folder: Path) -> list[Path]:
    target = folder / "tpch-lineitem-1"
    if not target.exists():
        generator = Path(sys.executable).with_name("tpchgen-cli")
        options = ["--scale-factor", "1", "--tables", "lineitem", "--parts", "8"]
        command = [generator, "parquet", "--quiet", *options, "--output-dir", str(target)]
        subprocess.run(command, check=True)
    return sorted(target.glob("lineitem/*.parquet"), key=lambda path: int(path.stem.split(".")[1]))


def _rows(part: Path) -> pa.Table:
    """A part of lineitem, with plain texts in the place of views."""
    import pyarrow.parquet as pq

    found = pq.read_table(part)
    plain = [
        field.with_type(pa.string()) if field.type == pa.string_view() else field
        for field in found.schema
    ]
    return found.cast(pa.schema(plain))


def _make_lineitem(folder: Path, target: Path, *, by: tuple[str, ...] = ()) -> None:
    import adelta.sync

    for part in _raw(folder):
        adelta.sync.write_table(str(target), _rows(part), partition_by=by)


def _make_tiny(folder: Path, target: Path) -> None:
    import adelta.sync

    rows = _rows(_raw(folder)[0])
    with adelta.sync.open_table(str(target)) as table:
        for number in range(TINY_FILES):
            adelta.sync.write_table(table, rows.slice(number * TINY_ROWS, TINY_ROWS))


def _make_orphans(_: Path, target: Path) -> None:
    import adelta.sync

    schema = pa.schema([("id", pa.int64())])
    adelta.sync.create_table(str(target), schema)
    for number in range(LIVE_FILES + ORPHANS):
        (target / f"part-{number:06d}.parquet").write_bytes(b"PAR1")
    week = time.time() - timedelta(days=30).total_seconds()
    for path in target.glob("*.parquet"):
        os.utime(path, (week, week))
    with adelta.sync.open_table(str(target)) as table, table.transaction() as change:
        change.add_files(
            adelta.AddFile(f"part-{number:06d}.parquet", {}, 4, 0, data_change=True)
            for number in range(LIVE_FILES)
        )


def _make_parquet(folder: Path, target: Path) -> None:
    import pyarrow.parquet as pq

    rows = _rows(_raw(folder)[0])
    target.mkdir()
    for number in range(CONVERTED_FILES):
        pq.write_table(rows.slice(number * 50, 50), target / f"part-{number:05d}.parquet")


MAKE: dict[str, Callable[[Path, Path], None]] = {
    "lineitem": _make_lineitem,
    "partitioned": lambda folder, target: _make_lineitem(folder, target, by=("l_shipmode",)),
    "tiny": _make_tiny,
    "orphans": _make_orphans,
    "parquet": _make_parquet,
}


def _made(folder: Path, name: str) -> Path:
    target = folder / name
    if not target.exists():
        MAKE[name](folder, target)
    return target


def _made_source(folder: Path, work: str) -> None:
    """Rows that a merge takes in: 1 % of the table's; one in ten of an upsert's is a new one."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    target = folder / f"source-{work}.parquet"
    if target.exists():
        return
    rows = pa.concat_tables(_rows(part) for part in _raw(folder))
    rows = rows.take(pa.array(range(0, rows.num_rows, 100)))
    new = pa.array(work == "insert" or number % 10 == 0 for number in range(rows.num_rows))
    keys: Any = rows["l_orderkey"]
    keys = pc.if_else(new, pc.add(keys, 10_000_000), keys)
    rows = rows.set_column(0, "l_orderkey", keys)
    rows = rows.set_column(
        rows.schema.get_field_index("l_comment"), "l_comment", pa.array(["merged"] * len(keys))
    )
    pq.write_table(rows, target)


# ------------------------------------------------------------------------------------ the engines


async def _watched(work: str, table: str, source: str, options: Options) -> tuple[object, float]:
    """What comes of it, and the longest pause of the loop in seconds, but for imports."""
    import anyio

    import adelta

    assert anyio.Event()
    assert getattr(adelta, OPERATIONS.get(work, work))
    longest = 0.0

    async def tick() -> None:
        nonlocal longest
        while True:
            began = time.perf_counter()
            await asyncio.sleep(TICK)
            longest = max(longest, time.perf_counter() - began - TICK)

    ticking = asyncio.create_task(tick())
    answer = await _by_adelta(work, table, source, options)
    ticking.cancel()
    return answer, longest


async def _by_adelta(work: str, table: str, source: str, options: Options) -> object:
    import pyarrow.parquet as pq

    import adelta

    given: Any = {"storage_options": options or None}
    match work:
        case "merge" | "insert":
            rows = await asyncio.to_thread(pq.read_table, source)
            merge = adelta.merge(table, rows, KEYS, **given)
            if work == "merge":
                merge = merge.when_matched_update_all()
            return await merge.when_not_matched_insert_all().execute()
        case "delete":
            return await adelta.delete(table, DAY, **given)
        case "update":
            return await adelta.update(table, {"l_tax": "l_discount"}, PARTITION, **given)
        case "tiny" | "compact":
            return await adelta.optimize(table, target_size=TARGET, **given)
        case "zorder":
            order = ("l_partkey", "l_suppkey")
            return await adelta.optimize(table, zorder_by=order, target_size=TARGET, **given)
        case "vacuum":
            return await adelta.vacuum(table, **given)
        case _:
            return await adelta.convert(table, **given)


def _by_deltalake(work: str, table: str, source: str, options: Options) -> object:
    import deltalake
    import pyarrow.parquet as pq

    if work == "convert":
        return deltalake.convert_to_deltalake(table, storage_options=options or None)
    opened = deltalake.DeltaTable(table, storage_options=options or None)
    match work:
        case "merge" | "insert":
            rows = pq.read_table(source)
            merge = opened.merge(rows, KEYS, source_alias="source", target_alias="target")
            if work == "merge":
                merge = merge.when_matched_update_all()
            return merge.when_not_matched_insert_all().execute()
        case "delete":
            return opened.delete(DAY)
        case "update":
            return opened.update({"l_tax": "l_discount"}, predicate=PARTITION)
        case "tiny" | "compact":
            return opened.optimize.compact(target_size=TARGET)
        case "zorder":
            return opened.optimize.z_order(["l_partkey", "l_suppkey"], target_size=TARGET)
        case _:
            return opened.vacuum(dry_run=False, full=True)


def _peak() -> int:
    """KiB; what `resource` says is never less than the peak of the process that started this."""
    status = Path("/proc/self/status")
    if not status.exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (peak,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1])


def _child(engine: str, work: str, table: str, source: str, given: str) -> None:
    options: Options = json.loads(given)
    began, pause = time.perf_counter(), 0.0
    if engine == "watched":
        answer, pause = asyncio.run(_watched(work, table, source, options))
    elif engine == "adelta":
        answer = asyncio.run(_by_adelta(work, table, source, options))
    else:
        answer = _by_deltalake(work, table, source, options)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "mb": _peak() / 1024,
        "pause": pause,
    }
    print(str(answer)[:2000], file=sys.stderr)
    print(json.dumps(found))


def _measure(
    engine: str, work: str, table: Path, source: Path, far: tuple[Options, Options] | None
) -> dict[str, float]:
    if far is not None:
        uri = f"s3://far/{uuid.uuid4().hex}/table"
        files = [path for path in sorted(table.rglob("*")) if path.is_file()]
        asyncio.run(_put_all(uri, far[0], table, files))
        return run_child(__file__, engine, work, uri, str(source), json.dumps(far[1]))
    with tempfile.TemporaryDirectory(dir=table.parent) as scratch:
        copy = Path(scratch) / "table"
        shutil.copytree(table, copy, copy_function=os.link)
        return run_child(__file__, engine, work, str(copy), str(source), "{}")


async def _put_all(uri: str, options: Options, table: Path, files: list[Path]) -> None:
    from adelta._concurrency import map_concurrent
    from adelta.storage.resolve import open_store

    store = open_store(uri, options)

    async def put(file: Path) -> None:
        data = await asyncio.to_thread(file.read_bytes)
        await store.put(str(file.relative_to(table)), data)

    await map_concurrent(put, files, limit=AT_ONCE)
    await store.aclose()


def main() -> None:
    """Measure, and print a line a piece of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=["adelta", "deltalake"])
    parser.add_argument("--tables", "--folder", type=Path, help="keep the tables here")
    parser.add_argument("--far", action="store_true", help="on S3 at 2 x 20 ms")
    parser.add_argument(
        "--child", nargs=5, metavar=("ENGINE", "WORK", "TABLE", "SOURCE", "OPTIONS")
    )
    asked = parser.parse_args()
    if asked.child:
        _child(*asked.child)
        return
    print(f"{'':10} {'adelta':>9} {'deltalake':>11} {'ratio':>6} {'MB':>6} {'MB':>6} {'ratio':>6}")
    with contextlib.ExitStack() as stack:
        folder = asked.tables or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        far = stack.enter_context(far_server(ONE_WAY)) if asked.far else None
        for work in asked.only:
            _compare(work, folder, asked.engines, asked.rounds, far)


def _compare(
    work: str,
    folder: Path,
    engines: list[str],
    rounds: int,
    far: tuple[Options, Options] | None,
) -> None:
    """Measure the engines in turn, and print what comes of it."""
    if work in ("merge", "insert"):
        _made_source(folder, work)
    table, source = _made(folder, WORK[work]), folder / f"source-{work}.parquet"
    runs: dict[str, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for engine in engines:
            runs.setdefault(engine, []).append(_measure(engine, work, table, source, far))
    pause = math.nan
    if "adelta" in engines:
        pause = 1000 * _measure("watched", work, table, source, far)["pause"]
    least = {
        engine: {key: min(run[key] for run in each) for key in each[0]}
        for engine, each in runs.items()
    }
    ours, theirs = (least.get(name, {}) for name in ("adelta", "deltalake"))
    sides = (ours, theirs)
    cells = [side.get(key, math.nan) for key in ("cpu", "mb", "seconds") for side in sides]
    cpu, lighter, faster = cells[1] / cells[0], cells[3] / cells[2], cells[5] / cells[4]
    print(
        f"{work:10} {cells[0]:8.2f}s {cells[1]:10.2f}s {cpu:6.2f} "
        f"{cells[2]:6.0f} {cells[3]:6.0f} {lighter:6.2f}   "
        f"(wall {cells[4]:.2f}s, {cells[5]:.2f}s: {faster:.2f}; pause {pause:.0f} ms)",
        flush=True,
    )
    where = "far operation" if far else "operation"
    record(f"{where} {work}", cpu=cpu, lighter=lighter, faster=faster, pause=pause)


if __name__ == "__main__":
    sys.exit(main())
