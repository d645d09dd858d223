"""One partition of many in Spark: seconds of a first query, as the paper on Delta Lake plots them.

    python perf/bench_partitions.py [--partitions 1 1000 10000 100000 1000000] [--folder FOLDER]

Each table has one small file a partition. A query asks for one partition through
``spark.read.format("adelta").load(path).where(...)``, in a process of its own that has run another
query, of another table by the same format, before; the table's log is cold for it. Beside it
``spark.read.parquet`` does the same on the same folders, which lists all of them. Of the largest
tables only the file that is asked for is there, so nothing can list them.

With ``--plot`` a picture goes to perf/partitions.png, for which matplotlib has to be there.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import sys
import tempfile
import time
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from child import run_child
from figures import record

import adelta.spark
import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

COUNTS = (1, 1_000, 10_000, 100_000, 1_000_000)
ALL_THERE = 100_000  # so many files are made; listing more takes Spark minutes
_FILES_A_COMMIT = 100_000
_LINKS = 30_000  # a file of ext4 has no more than 65,000 names
_ROWS = 10


def make(folder: Path, count: int) -> Path:
    """A table of `count` partitions, made unless it is there already."""
    place = folder / f"partitions-{count}"
    if (place / ".complete").exists():
        return place
    sample = folder / "sample.parquet"
    folder.mkdir(parents=True, exist_ok=True)
    rows = pa.table({"id": range(_ROWS), "amount": [n / 4 for n in range(_ROWS)]})
    pq.write_table(rows, sample)
    columns = pa.table({"id": pa.array([], pa.int64()), "amount": pa.array([], pa.float64())})
    empty = columns.append_column("part", pa.array([], pa.int32()))
    adelta.sync.write_table(str(place), empty, partition_by=["part"])
    stats = {"id": 0, "amount": 0.0}, {"id": _ROWS - 1, "amount": (_ROWS - 1) / 4}
    said = {"numRecords": _ROWS, "minValues": stats[0], "maxValues": stats[1]}
    text = json.dumps(said | {"nullCount": {"id": 0, "amount": 0}})
    size, source, seed = sample.stat().st_size, sample, random.Random(count)
    with adelta.sync.open_table(str(place)) as table:
        for first in range(0, count, _FILES_A_COMMIT):
            files = []
            for part in range(first, min(count, first + _FILES_A_COMMIT)):
                name = uuid.UUID(int=seed.getrandbits(128))
                path = f"part={part}/part-00000-{name}.c000.snappy.parquet"
                files.append(adelta.AddFile(path, {"part": str(part)}, size, 0, stats=text))
                if count <= ALL_THERE or part == count // 2:
                    (place / path).parent.mkdir(exist_ok=True)
                    if part % _LINKS == 0:
                        source = place / path
                        source.write_bytes(sample.read_bytes())
                    else:
                        os.link(source, place / path)
            with table.transaction() as transaction:
                transaction.add_files(files)
    adelta.sync.checkpoint(str(place))
    (place / ".complete").touch()
    return place


def _asked(spark: SparkSession, road: str, place: str, part: int) -> float:
    """Seconds until the rows of one partition are there."""
    start = time.perf_counter()
    reader: Any = spark.read.format(road)
    found = reader.load(place).where(f"part = {part}").collect()
    took = time.perf_counter() - start
    if len(found) != _ROWS:
        raise SystemExit(f"{place} by {road}: {len(found)} rows instead of {_ROWS}")
    return took


def child(road: str, warm: str, place: str, part: int) -> None:
    """Print seconds of the first query, and of a second one on another DataFrame."""
    warnings.simplefilter("ignore")
    spark = adelta.spark.get_session("bench", "local[2]", {"spark.driver.memory": "2g"})
    spark.sparkContext.setLogLevel("OFF")
    _asked(spark, road, warm, 0)
    first = _asked(spark, road, place, part)
    again = _asked(spark, road, place, part)
    spark.stop()
    print(json.dumps({"first": first, "again": again}))


def draw(path: Path, lines: Mapping[str, Sequence[tuple[int, float]]]) -> None:
    """Write a picture with a line a road: seconds by numbers of partitions, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8, 4.2), dpi=150)
    for (name, line), colour in zip(lines.items(), ("#0b6fa4", "#b4552d"), strict=True):
        counts, seconds = zip(*line, strict=True)
        axes.plot(counts, seconds, marker="o", color=colour, label=name)
        for count, took in line:
            at = (count, took)
            axes.annotate(f"{took:.2f} s", at, (0, 7), textcoords="offset points", fontsize=8)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("partitions of the table")
    axes.set_ylabel("seconds")
    axes.set_title("Seconds of a session's first query for one partition of a table", fontsize=11)
    axes.grid(axis="y", color="#ddd", linewidth=0.6)
    axes.legend(fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path)


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        road, warm, place, part = sys.argv[2:]
        child(road, warm, place, int(part))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--partitions", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--listed", type=int, default=10_000, help="list no more in Parquet")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", "--tables", type=Path, help="keep the tables here")
    parser.add_argument("--plot", action="store_true")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        warm = make(folder, 1)
        roads: dict[str, list[tuple[int, float]]] = {"adelta": [], "parquet": []}
        print("| partitions | adelta, first s | again s | parquet, first s | again s |")
        print("|---|---|---|---|---|")
        for count in asked.partitions:
            place, cells = make(folder, count), []
            for road, seen in roads.items():
                if road == "parquet" and count > min(asked.listed, ALL_THERE):
                    cells += ["", ""]
                    continue
                runs = [
                    run_child(__file__, road, str(warm), str(place), str(count // 2))
                    for _ in range(asked.rounds if road == "adelta" else 1)
                ]
                first, again = (
                    statistics.median(run[which] for run in runs) for which in ("first", "again")
                )
                seen.append((count, first))
                cells += [f"{first:.2f}", f"{again:.2f}"]
                if road == "adelta":
                    record(f"spark partitions {count}", seconds=first)
            print(f"| {count:,} | {' | '.join(cells)} |", flush=True)
        if asked.plot:
            draw(Path(__file__).with_name("partitions.png"), roads)


if __name__ == "__main__":
    main()
