"""TPC-H in Spark: `format("adelta").load()` against `spark.read.parquet` of the same files.

    python perf/bench_spark.py [--scale 1] [--rounds 3] [--only WORK...] [--all-queries]
                               [--statistics] [--folder FOLDER]

One session of two cores on this machine. Each piece of work runs without a clock first, for a
second at least, and then in turns, native first and adelta's first. CPU is of the JVM, its Python
workers, and this process. A ratio is adelta's median over native's: less is better. Before a piece
is timed, its answers are compared. The JVM has all of its heap from the beginning.

With `--statistics` Spark plans by costs, as far as a source has statistics: adelta's tables have
row counts, sizes and statistics of some columns, and `spark.read.parquet` has sizes.

The work with deletion vectors is of a table of which a tenth of the rows is behind them, in every
file; native reads the same files, with these rows.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from figures import record
from tpch import QUERIES, TABLES

import adelta.spark
import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame, SparkSession

    Figures = tuple[float, float, float, float]

WORK: dict[str, str | None] = {
    "count": "SELECT count(*) FROM lineitem",
    "one column": "SELECT sum(l_extendedprice) FROM lineitem",
    "one month": (
        "SELECT count(*), sum(l_tax) FROM lineitem"
        " WHERE l_shipdate >= date'1995-03-01' AND l_shipdate < date'1995-04-01'"
    ),
    "all columns": None,
    "Q3": QUERIES[3],
}
VECTORS = "lineitem_vectors"
DELETED = "l_orderkey % 10 = 3"
VECTOR_WORK = {
    f"{name}, 10 % behind deletion vectors": query.replace("lineitem", VECTORS)
    for name, query in WORK.items()
    if query is not None and name != "Q3"
}
_CLOCKED = 1.0  # seconds of work, at least
_SETTLED = 0.3  # seconds, until what the tables of the turn before have held is given back
WRITES = {"write": (), "write, partitioned": ("l_shipmode",)}
STATISTICS = (
    "spark.sql.cbo.enabled",
    "spark.sql.cbo.planStats.enabled",
    "spark.sql.cbo.joinReorder.enabled",
)


def make(folder: Path, scale: float) -> Path:
    """The Parquet files of TPC-H, a folder a table."""
    target = folder / f"tpch-all-{scale:g}"
    if not target.exists():
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run(
            [
                generator, "parquet", "--quiet", "--scale-factor", f"{scale:g}", "--parts", "4",
                "--output-dir", str(target),
            ],
            check=True,
        )  # fmt: skip
    return target


def load(spark: SparkSession, raw: Path, folder: Path) -> dict[str, str]:
    """The tables that adelta writes of the raw files, and where they are."""
    places = {}
    for name in TABLES:
        places[name] = place = str(folder / f"{raw.name}-{name}")
        if not Path(place).exists():
            found = sorted(raw.glob(f"{name}/*.parquet")) or sorted(raw.glob(f"{name}.parquet"))
            rows = spark.read.parquet(*map(str, found))
            rows = rows.orderBy("l_shipdate") if name == "lineitem" else rows
            adelta.spark.write(rows, place, mode="append")
    places[VECTORS] = place = f"{places['lineitem']}-vectors"
    if not Path(place).exists():
        shutil.copytree(places["lineitem"], place)
        adelta.sync.set_properties(place, {"delta.enableDeletionVectors": "true"})
        adelta.sync.delete(place, DELETED)
    return places


def show(spark: SparkSession, places: dict[str, str], *, native: bool) -> None:
    """Let the names of tables mean Parquet files, or adelta's tables."""
    for name, place in places.items():
        table = spark.read.format("adelta").load(place)
        if native:
            table = spark.read.parquet(*table.inputFiles())
        table.createOrReplaceTempView(name)


class Clock:
    """Seconds of time and of CPU."""

    def __init__(self, spark: SparkSession) -> None:
        gateway: Any = spark.sparkContext._gateway
        self._jvm = gateway.proc.pid

    def now(self) -> tuple[float, float]:
        children: dict[int, list[int]] = {}
        ticks: dict[int, int] = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):  # it has ended meanwhile
                fields = stat.read_text().rpartition(")")[2].split()
                process = int(stat.parent.name)
                children.setdefault(int(fields[1]), []).append(process)
                ticks[process] = sum(map(int, fields[11:15]))
        used, todo = 0, [self._jvm]
        while todo:
            process = todo.pop()
            used += ticks.get(process, 0)
            todo += children.get(process, ())
        cpu = used / os.sysconf("SC_CLK_TCK") + time.process_time()
        return time.perf_counter(), cpu

    def of(self, work: Callable[[], object]) -> tuple[float, float]:
        wall, cpu = self.now()
        work()
        wall_end, cpu_end = self.now()
        return wall_end - wall, cpu_end - cpu


def _checked(spark: SparkSession, query: str, *, native: bool) -> list[str]:
    """The answer; native leaves out itself what is deleted."""
    if native and VECTORS in query:
        query = query.replace(VECTORS, f"(SELECT * FROM {VECTORS} WHERE NOT {DELETED})")
    return _answer(spark.sql(query))


def _answer(df: DataFrame) -> list[str]:
    return sorted(
        repr([round(v, 2) if isinstance(v, float) else v for v in row]) for row in df.collect()
    )


def compare_queries(
    spark: SparkSession, places: dict[str, str], name: str, query: str | None, rounds: int
) -> Figures:
    """Native's seconds and CPU, and adelta's, for one query."""

    def prepare(native: bool) -> None:
        show(spark, places, native=native)

    def run(native: bool) -> None:
        if query is None:
            spark.table("lineitem").write.format("noop").mode("overwrite").save()
        else:
            spark.sql(query).collect()

    answers = []
    for native in (True, False) if query is not None else ():
        prepare(native)
        answers.append(_checked(spark, query, native=native))
    if answers and answers[0] != answers[1]:
        raise SystemExit(f"{name}: the answers differ: {answers[0][:2]} and {answers[1][:2]}")
    return in_turns(spark, rounds, prepare, run)


def compare_writes(
    spark: SparkSession, places: dict[str, str], columns: Sequence[str], rounds: int, folder: Path
) -> Figures:
    """Native's seconds and CPU, and adelta's, for writing lineitem anew."""
    show(spark, places, native=True)
    formats = {True: "parquet", False: "adelta"}
    targets = {native: folder / f"written-{name}" for native, name in formats.items()}

    def prepare(native: bool) -> None:
        shutil.rmtree(targets[native], ignore_errors=True)

    def run(native: bool) -> None:
        writer = spark.table("lineitem").write.format(formats[native])
        writer.partitionBy(*columns).mode("append").save(str(targets[native]))

    figures = in_turns(spark, rounds, prepare, run)
    whole = spark.table("lineitem").count()
    for native, target in targets.items():
        kept = spark.read.load(str(target), formats[native]).count()
        if whole != kept:
            raise SystemExit(f"{kept} rows were written as {formats[native]} of {whole}")
        shutil.rmtree(target)
    return figures


def in_turns(
    spark: SparkSession,
    rounds: int,
    prepare: Callable[[bool], None],
    run: Callable[[bool], None],
) -> Figures:
    """Medians of native's seconds and CPU, and of adelta's, in rounds in turn.

    The rounds before, in which the JVM learns the work, have no clock: one, or as many as take a
    second. What takes less than that has the more rounds.
    """
    clock = Clock(spark)
    found: dict[bool, list[tuple[float, float]]] = {True: [], False: []}
    learning, has_learnt, order = 0.0, False, (True, False)
    while len(found[True]) < rounds or sum(wall for wall, _ in found[True]) < _CLOCKED:
        for native in order:
            prepare(native)
            spark._jvm.System.gc()
            time.sleep(_SETTLED)
            figures = clock.of(lambda: run(native))  # noqa: B023
            learning += figures[0]
            if has_learnt:
                found[native].append(figures)
        has_learnt, order = learning / 2 >= _CLOCKED, order[::-1]
    medians = [statistics.median(x[at] for x in found[n]) for n in (True, False) for at in (0, 1)]
    return medians[0], medians[1], medians[2], medians[3]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="some of the work")
    parser.add_argument("--statistics", action="store_true", help="plan by costs")
    parser.add_argument("--all-queries", action="store_true", help="the 22 queries, too")
    parser.add_argument(
        "--folder", "--tables", type=Path, help="keep the tables here for the next run"
    )
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    conf = {
        "spark.driver.memory": "4g",
        # All of the heap is there from the beginning. Otherwise the collections between two turns
        # give memory back, and what some turns pay for it anew is as much as what a query takes.
        "spark.driver.extraJavaOptions": "-Xms4g -XX:+AlwaysPreTouch",
        "spark.sql.shuffle.partitions": "4",
    }
    if asked.statistics:
        conf |= dict.fromkeys(STATISTICS, "true")
    with tempfile.TemporaryDirectory() as temporary:
        folder = asked.folder or Path(temporary)
        spark = adelta.spark.get_session("bench", "local[2]", conf)
        spark.sparkContext.setLogLevel("OFF")
        places = load(spark, make(folder, asked.scale), folder)
        print("| work | native s | adelta s | ratio | native cpu | adelta cpu | ratio |")
        print("|---|---|---|---|---|---|---|")
        queries = {f"Q{n}": q for n, q in QUERIES.items()} if asked.all_queries else {}
        totals = [0.0] * 4
        for name, query in (WORK | VECTOR_WORK | queries).items():
            if asked.only and name not in asked.only and name not in queries:
                continue
            found = compare_queries(spark, places, name, query, asked.rounds)
            _print(name, found)
            if name in queries:
                totals = [total + each for total, each in zip(totals, found, strict=True)]
        if queries:
            _print("22 queries, with statistics" if asked.statistics else "22 queries", totals)
        for name, columns in WRITES.items():
            if not asked.only or name in asked.only:
                _print(name, compare_writes(spark, places, columns, asked.rounds, folder))
        spark.stop()


def _print(name: str, found: Sequence[float]) -> None:
    wall, cpu, our_wall, our_cpu = found
    print(
        f"| {name} | {wall:.2f} | {our_wall:.2f} | {our_wall / wall:.2f}x "
        f"| {cpu:.2f} | {our_cpu:.2f} | {our_cpu / cpu:.2f}x |",
        flush=True,
    )
    record(f"spark {name}", wall=our_wall / wall, cpu=our_cpu / cpu)


if __name__ == "__main__":
    main()
