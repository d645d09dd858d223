"""Changes of TPC-H's lineitem on Spark, against writing what they write by `df.write.parquet`.

    python perf/bench_spark_changes.py [--scale 1] [--rounds 3] [--only WORK...] [--folder FOLDER]

One session of two cores on this machine. Each change is of a copy of the table, by `DeltaTable`;
native reads the files that hold such rows, computes the same rows, and writes them as Parquet. CPU
is of the JVM, its Python workers, and this process. A ratio is adelta's median over native's: less
is better. Before it is timed, a change is compared with the same one in this process.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench_spark import in_turns, make
from figures import record

import adelta.spark
import adelta.sync
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

MONTH = "l_shipdate >= date'1995-03-01' AND l_shipdate < date'1995-04-01'"
KEYS = ("l_orderkey", "l_linenumber")
SMALL_FILES = 100


@dataclass(frozen=True)
class Change:
    """A change by Spark and in this process, and the rows that native writes in its place."""

    by_spark: Callable[[SparkSession, str, DataFrame], Any]
    in_process: Callable[[str, pa.Table], Any]
    native: Callable[[DataFrame, DataFrame], DataFrame]


def _merge_by_spark(spark: SparkSession, place: str, late: DataFrame) -> None:
    on = " AND ".join(f"t.{key} = s.{key}" for key in KEYS)
    merge = DeltaTable.forPath(spark, place).alias("t").merge(late.alias("s"), on)
    merge.whenMatchedUpdate(set={"l_tax": "s.l_tax"}).execute()


def _merge_in_process(place: str, late: pa.Table) -> None:
    on = " AND ".join(f"target.{key} = source.{key}" for key in KEYS)
    merge = adelta.sync.merge(place, late, on=on)
    merge.when_matched_update({"l_tax": "source.l_tax"}).execute()


def _merge_natively(rows: DataFrame, late: DataFrame) -> DataFrame:
    late = late.withColumnRenamed("l_tax", "new_tax")
    joined = rows.join(late, list(KEYS), "left").selectExpr(
        "* EXCEPT (l_tax, new_tax)", "coalesce(new_tax, l_tax) AS l_tax"
    )
    return joined.select(*rows.columns)


CHANGES = {
    "MERGE of 1 %": Change(_merge_by_spark, _merge_in_process, _merge_natively),
    "DELETE of a month": Change(
        lambda spark, place, _: DeltaTable.forPath(spark, place).delete(MONTH),
        lambda place, _: adelta.sync.delete(place, MONTH),
        lambda rows, _: rows.where(f"NOT ({MONTH})"),
    ),
    "UPDATE of a month": Change(
        lambda spark, place, _: DeltaTable.forPath(spark, place).update(MONTH, {"l_tax": "0"}),
        lambda place, _: adelta.sync.update(place, {"l_tax": "0"}, MONTH),
        lambda rows, _: rows.selectExpr(
            *(
                f"IF({MONTH}, CAST(0 AS DECIMAL(15, 2)), l_tax) AS l_tax" if c == "l_tax" else c
                for c in rows.columns
            )
        ),
    ),
    f"OPTIMIZE of {SMALL_FILES} files": Change(
        lambda spark, place, _: DeltaTable.forPath(spark, place).optimize().executeCompaction(),
        lambda place, _: adelta.sync.optimize(place),
        lambda rows, _: rows.coalesce(2),
    ),
}


def compare(spark: SparkSession, table: str, name: str, rounds: int, folder: Path) -> list[float]:
    """Native's seconds and CPU, and adelta's, for one change."""
    change, copy, target = CHANGES[name], folder / "changed", folder / "written"
    whole = spark.read.format("adelta").load(table)
    late = whole.where("l_orderkey % 100 = 7").selectExpr(*KEYS, "l_tax + 1 AS l_tax")
    late_here = late.toArrow()
    late = spark.createDataFrame(late_here).localCheckpoint()
    digests = []
    for do in (
        lambda: change.by_spark(spark, str(copy), late),
        lambda: change.in_process(str(copy), late_here),
    ):
        _copied(table, copy)
        before = set(spark.read.format("adelta").load(str(copy)).inputFiles())
        do()
        after = spark.read.format("adelta").load(str(copy))
        digests.append(after.selectExpr("count(*)", "bit_xor(xxhash64(*))").first())
        gone = before - set(after.inputFiles())
    if digests[0] != digests[1]:
        raise SystemExit(f"{name}: {digests[0]} by Spark and {digests[1]} in this process")
    replaced = [file.replace(str(copy), table) for file in sorted(gone)]

    def prepare(_native: bool) -> None:
        shutil.rmtree(target, ignore_errors=True)
        _copied(table, copy)

    def run(native: bool) -> None:
        if native:
            change.native(spark.read.parquet(*replaced), late).write.parquet(str(target))
        else:
            change.by_spark(spark, str(copy), late)

    return list(in_turns(spark, rounds, prepare, run))


def _tables(spark: SparkSession, raw: Path, folder: Path) -> tuple[str, str]:
    """Lineitem in the order of days, and in small files."""
    places = f"{folder}/{raw.name}-by-day", f"{folder}/{raw.name}-small"
    rows = spark.read.parquet(str(raw / "lineitem"))
    for place, arranged in zip(
        places, (rows.orderBy("l_shipdate"), rows.repartition(SMALL_FILES)), strict=True
    ):
        if not Path(place).exists():
            adelta.spark.write(arranged, place, mode="append")
    return places


def _copied(table: str, copy: Path) -> None:
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(table, copy)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="*", help="some of the work")
    parser.add_argument("--folder", type=Path, help="where TPC-H is kept; a temporary one if not")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    folder = asked.folder or Path(tempfile.mkdtemp(prefix="adelta-bench-"))
    folder.mkdir(parents=True, exist_ok=True)
    raw = make(folder, asked.scale)
    spark = adelta.spark.get_session(
        "adelta bench",
        "local[2]",
        {
            "spark.driver.memory": "3g",
            "spark.sql.shuffle.partitions": "4",
            "spark.log.level": "OFF",
        },
    )
    spark.sparkContext.setLogLevel("OFF")
    tables = _tables(spark, raw, folder)
    print(f"TPC-H at scale {asked.scale:g}; seconds, CPU seconds\n")
    print(f"{'':28}{'native':>9}{'CPU':>9}{'adelta':>9}{'CPU':>9}{'ratio':>8}{'of CPU':>8}")
    for name in asked.only or CHANGES:
        place = tables[name.startswith("OPTIMIZE")]
        wall, cpu, our_wall, our_cpu = compare(spark, place, name, asked.rounds, folder)
        ratios = our_wall / wall, our_cpu / cpu
        print(
            f"{name:28}{wall:9.2f}{cpu:9.2f}{our_wall:9.2f}{our_cpu:9.2f}"
            f"{ratios[0]:8.2f}{ratios[1]:8.2f}",
            flush=True,
        )
        record(f"spark {name}", wall=ratios[0], cpu=ratios[1])
    spark.stop()
    if asked.folder is None:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
