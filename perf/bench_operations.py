"""The operations that change whole tables: adelta against deltalake, in turn.

    python perf/bench_operations.py [--only merge compact ...] [--rounds 3] [--tables DIR]

TPC-H's lineitem of scale factor 1 (6 million rows in eight files) is merged into, loses rows, gets
new values, and is compacted and sorted; a table of 2,000 small files is compacted; of a table of
100,000 files 20,000 are orphans and vacuumed; 10,000 Parquet files are converted. All on a local
disk, whose pages are warm.

Each measurement is a fresh process on a fresh copy, whose files are hard links. CPU seconds are all
that the process took from its first instruction to its end, imports and all threads included; MB is
its peak. Both are the least of all rounds. The ratios are deltalake's over adelta's: more is
better.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from child import run_child
from figures import record

if TYPE_CHECKING:
    from collections.abc import Callable

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


def _by_adelta(work: str, table: str, source: str) -> object:
    import pyarrow.parquet as pq

    import adelta

    async def merged(*, upserts: bool) -> object:
        merge = adelta.merge(table, pq.read_table(source), KEYS)
        if upserts:
            merge = merge.when_matched_update_all()
        return await merge.when_not_matched_insert_all().execute()

    match work:
        case "merge" | "insert":
            return asyncio.run(merged(upserts=work == "merge"))
        case "delete":
            return asyncio.run(adelta.delete(table, DAY))
        case "update":
            return asyncio.run(adelta.update(table, {"l_tax": "l_discount"}, PARTITION))
        case "tiny" | "compact":
            return asyncio.run(adelta.optimize(table, target_size=TARGET))
        case "zorder":
            order = ("l_partkey", "l_suppkey")
            return asyncio.run(adelta.optimize(table, zorder_by=order, target_size=TARGET))
        case "vacuum":
            return asyncio.run(adelta.vacuum(table))
        case _:
            return asyncio.run(adelta.convert(table))


def _by_deltalake(work: str, table: str, source: str) -> object:
    import deltalake
    import pyarrow.parquet as pq

    if work == "convert":
        return deltalake.convert_to_deltalake(table)
    opened = deltalake.DeltaTable(table)
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


def _child(engine: str, work: str, table: str, source: str) -> None:
    began = time.perf_counter()
    answer = (_by_adelta if engine == "adelta" else _by_deltalake)(work, table, source)
    seconds = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {
        "seconds": seconds,
        "cpu": used.ru_utime + used.ru_stime,
        "mb": _peak() / 1024,
    }
    print(str(answer)[:2000], file=sys.stderr)
    print(json.dumps(found))


def _measure(engine: str, work: str, table: Path, source: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory(dir=table.parent) as scratch:
        copy = Path(scratch) / "table"
        shutil.copytree(table, copy, copy_function=os.link)
        return run_child(__file__, engine, work, str(copy), str(source))


def main() -> None:
    """Measure, and print a line a piece of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engines", nargs="+", default=["adelta", "deltalake"])
    parser.add_argument("--tables", "--folder", type=Path, help="keep the tables here")
    parser.add_argument("--child", nargs=4, metavar=("ENGINE", "WORK", "TABLE", "SOURCE"))
    asked = parser.parse_args()
    if asked.child:
        _child(*asked.child)
        return
    print(f"{'':10} {'adelta':>9} {'deltalake':>11} {'ratio':>6} {'MB':>6} {'MB':>6} {'ratio':>6}")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.tables or Path(temporary)
        for work in asked.only:
            if work in ("merge", "insert"):
                _made_source(folder, work)
            table, source = _made(folder, WORK[work]), folder / f"source-{work}.parquet"
            runs: dict[str, list[dict[str, float]]] = {}
            for _ in range(asked.rounds):
                for engine in asked.engines:
                    runs.setdefault(engine, []).append(_measure(engine, work, table, source))
            least = {
                engine: {key: min(run[key] for run in each) for key in each[0]}
                for engine, each in runs.items()
            }
            ours, theirs = (least.get(name, {}) for name in ("adelta", "deltalake"))
            sides = (ours, theirs)
            cells = [side.get(key, math.nan) for key in ("cpu", "mb") for side in sides]
            cpu, lighter = cells[1] / cells[0], cells[3] / cells[2]
            print(
                f"{work:10} {cells[0]:8.2f}s {cells[1]:10.2f}s {cpu:6.2f} "
                f"{cells[2]:6.0f} {cells[3]:6.0f} {lighter:6.2f}   "
                f"(wall {ours.get('seconds', 0):.2f}s, {theirs.get('seconds', 0):.2f}s)",
                flush=True,
            )
            record(f"operation {work}", cpu=cpu, lighter=lighter)


if __name__ == "__main__":
    sys.exit(main())
