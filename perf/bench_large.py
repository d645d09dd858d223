"""Tables of millions of files in Spark: checkpoints and planning, by the driver and by executors.

    python perf/bench_large.py [--files 500000 1000000 2000000] [--folder FOLDER]

The tables are logs without data, of commits of 100,000 files, and have the feature v2Checkpoint.
`first` is the first checkpoint of such a log, `next` the one after it and a further commit, `plan`
a query for one partition of 1,000 files, from opening the table to the list of these files. Each is
measured in a process of its own, in a session of two tasks that has run other jobs before. Memory
is the peak of the Python driver beyond what it had then: executors are processes of their own.
CPU is that of all processes of the session.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
import uuid
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from child import run_child
from figures import record

import adelta.spark
import adelta.sync
from adelta.spark.classic.native.file_plan import FILE_COLUMNS
from adelta.spark.classic.native.scan import OpenVersion
from adelta.spark.cluster.planning import FilesOnExecutors
from adelta.spark.options.read_write import ReadOptions
from adelta.sync._portal import call

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

COUNTS = (500_000, 1_000_000, 2_000_000)
WORKS = ("first", "next", "plan")
ROADS = ("driver", "executors")
_FILES_A_COMMIT = 100_000
_FILES_A_PARTITION = 1_000
_PROPERTIES = {
    "delta.checkpointPolicy": "v2",
    "delta.checkpointInterval": "100000",
    "adelta.writeChecksum": "true",
}


def _adds(numbers: range) -> list[adelta.AddFile]:
    found = []
    for n in numbers:
        part = n // _FILES_A_PARTITION
        low = n * 1000
        stats = (
            f'{{"numRecords":1000,"minValues":{{"id":{low},"name":"customer-{n:09d}"}},'
            f'"maxValues":{{"id":{low + 999},"name":"customer-{n:09d}-zz"}},'
            '"nullCount":{"id":0,"name":0}}'
        )
        name = uuid.UUID(int=n * 0x9E3779B97F4A7C15F39CC0605CEDC835 & (1 << 128) - 1)
        path = f"part={part}/part-{n % 1000:05d}-{name}.c000.zstd.parquet"
        size = 10_000_000 + n % 5000
        found.append(adelta.AddFile(path, {"part": str(part)}, size, 0, stats=stats))
    return found


def make(folder: Path, count: int) -> Path:
    """A table of `count` files without a checkpoint, made unless it is there already."""
    place = folder / f"large-{count}"
    if (place / ".complete").exists():
        return place
    shutil.rmtree(place, ignore_errors=True)
    empty = pa.schema([("id", pa.int64()), ("name", pa.string()), ("part", pa.int32())])
    uri = str(place)
    rows = empty.empty_table()
    adelta.sync.write_table(uri, rows, partition_by=["part"], properties=_PROPERTIES)
    with adelta.sync.open_table(uri) as table:
        for first in range(0, count, _FILES_A_COMMIT):
            with table.transaction() as transaction:
                transaction.add_files(_adds(range(first, min(count, first + _FILES_A_COMMIT))))
    (place / ".complete").touch()
    return place


def _copied(place: Path, to: Path) -> Path:
    """A table whose log's files are the same ones: they are never written again."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(place, to, copy_function=os.link)
    hint = to / "_delta_log" / "_last_checkpoint"
    if hint.exists():  # but the hint
        content = hint.read_bytes()
        hint.unlink()
        hint.write_bytes(content)
    return to


def _cpu() -> float:
    """Seconds of CPU of this process, its JVM and the Python workers that it has."""
    parents, times = {}, {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            _, _, fields = place.read_text().rpartition(")")
            said = fields.split()
            parents[int(place.parent.name)] = int(said[1])
            times[int(place.parent.name)] = int(said[11]) + int(said[12])
    mine, more = {os.getpid()}, True
    while more:
        found = {child for child, parent in parents.items() if parent in mine} - mine
        more = bool(found)
        mine |= found
    return sum(times.get(process, 0) for process in mine) / os.sysconf("SC_CLK_TCK")


def _memory_mb(which: str) -> float:
    """`VmRSS`, what this process has, or `VmHWM`, the most that it had since `_forget_peak`."""
    (line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if which in line)
    return int(line.split()[1]) / 1024


def _forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _checkpointed(spark: SparkSession, road: str, place: str) -> int:
    if road == "driver":
        return adelta.sync.checkpoint(place).num_files
    return adelta.spark.checkpoint(spark, place).num_files


def _planned(spark: SparkSession, road: str, place: str) -> int:
    options = ReadOptions.parse({"path": place})
    version = OpenVersion(options)
    where = "part = 7"
    if road == "driver":
        return call(version.snapshot.files, where, columns=FILE_COLUMNS).num_rows
    large = FilesOnExecutors(spark, options)
    return call(large.files, version.snapshot, where, FILE_COLUMNS).num_rows


def child(work: str, road: str, place: str, small: str) -> None:
    """Print seconds and megabytes."""
    warnings.simplefilter("ignore")
    conf = {"spark.driver.memory": "1g"}
    spark = adelta.spark.get_session("bench", "local[2]", conf)
    spark.sparkContext.setLogLevel("OFF")
    asked: Callable[[SparkSession, str, str], int] = _planned if work == "plan" else _checkpointed
    adelta.spark.checkpoint(spark, small, parts=4)
    _planned(spark, road, small)
    _forget_peak()
    before, cpu, start = _memory_mb("VmRSS"), _cpu(), time.perf_counter()
    found = asked(spark, road, place)
    took, used = time.perf_counter() - start, _cpu() - cpu
    grown = max(0.0, _memory_mb("VmHWM") - before)
    print(json.dumps({"seconds": took, "cpu": used, "mb": grown, "files": found}))
    spark.stop()


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        child(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=WORKS)
    parser.add_argument("--roads", nargs="+", choices=ROADS, default=ROADS)
    parser.add_argument("--folder", "--tables", type=Path, help="keep the tables here")
    asked = parser.parse_args()
    seen: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        small = _copied(make(folder, 1000), folder / "small")
        print("| files | work | where | seconds | CPU s | driver MB |")
        print("|---|---|---|---|---|---|", flush=True)
        for count in asked.files:
            made = make(folder, count)
            based = folder / f"based-{count}"
            if not based.exists():
                _copied(made, based)
                adelta.sync.checkpoint(str(based))
                with adelta.sync.open_table(str(based)) as table, table.transaction() as last:
                    last.add_files(_adds(range(count, count + 1000)))
            for work in asked.works:
                for road in asked.roads:
                    source = made if work == "first" else based
                    place = source if work == "plan" else _copied(source, folder / "copy")
                    found = run_child(__file__, work, road, str(place), str(small))
                    expected = {"first": count, "next": count + 1000, "plan": _FILES_A_PARTITION}
                    if found["files"] != expected[work]:
                        raise SystemExit(f"{work} by {road}: {found['files']:,.0f} files")
                    cells = (count, found["cpu"], found["mb"])
                    seen.setdefault((work, road), []).append(cells)
                    print(
                        f"| {count:,} | {work} | {road} | {found['seconds']:.2f} "
                        f"| {found['cpu']:.2f} | {found['mb']:,.0f} |",
                        flush=True,
                    )
            shutil.rmtree(folder / "copy", ignore_errors=True)
    for (work, road), points in seen.items():
        if len(points) > 1:
            (few, s1, m1), (many, s2, m2) = points[0], points[-1]
            millions = (many - few) / 1e6
            print(
                f"{work} by {road}: {(s2 - s1) / millions:.2f} s of CPU and "
                f"{(m2 - m1) / millions:,.0f} MB of the driver for each further million of files"
            )
            record(
                f"spark large {work} {road}",
                slope=(s2 - s1) / millions,
                growth=(m2 - m1) / millions,
            )


if __name__ == "__main__":
    main()
