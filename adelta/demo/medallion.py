"""The streams from raw files to bronze, silver and gold, every table in the format ``adelta``.

Two streams write what is delivered to bronze. One follows the changes of bronze's order lines, and
adds them, beside their orders, to silver. One follows the changes of silver, and computes anew the
years of gold that they touch. Each micro-batch is in its table exactly once.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

import adelta.spark
import adelta.sync
from adelta.demo import queries
from adelta.spark.translate.types import to_delta_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from adelta.demo.dataset import Delivery
    from adelta.demo.lake import Lake
    from adelta.spark import MicroBatch

__all__ = ["Medallion"]

_TRIGGER = "300 milliseconds"
_CHANGES = {"delta.enableChangeDataFeed": "true"}
_SMALL_FILES = {"delta.targetFileSize": "128kb"}  # so that little data has files to skip


class Medallion:
    """The streams of one run; `folder`, on this machine, is for deliveries and checkpoints."""

    def __init__(self, spark: SparkSession, lake: Lake, folder: Path) -> None:
        self._spark = spark
        self._lake = lake
        self._folder = folder
        self._queries: dict[str, StreamingQuery] = {}

    def start(self, first: Delivery) -> None:
        """Make the tables, without rows, and start; those of an earlier run lose theirs."""
        raw_orders = self._spark.read.parquet(str(first.orders))
        raw_lineitem = self._spark.read.parquet(str(first.lineitem))
        orders = _sql(queries.bronze_orders("raw"), raw=raw_orders)
        lineitem = _sql(queries.bronze_lineitem("raw"), raw=raw_lineitem)
        silver = _sql(queries.silver("orders", "lineitem"), orders=orders, lineitem=lineitem)
        gold = _sql(queries.gold("silver"), silver=silver)
        lake = self._lake
        begins = {
            lake.bronze_orders: self._empty(orders, lake.bronze_orders, "o_orderyear"),
            lake.bronze_lineitem: self._empty(lineitem, lake.bronze_lineitem, "l_shipyear"),
            lake.silver: self._empty(silver, lake.silver, "order_year", _SMALL_FILES),
            lake.gold: self._empty(gold, lake.gold, "order_year"),
        }
        self._ingest("orders", first.orders, lake.bronze_orders, queries.bronze_orders)
        self._ingest("lineitem", first.lineitem, lake.bronze_lineitem, queries.bronze_lineitem)
        self._follow(lake.bronze_lineitem, begins[lake.bronze_lineitem], lake.silver, self._add)
        self._follow(lake.silver, begins[lake.silver], lake.gold, self._refresh)

    def deliver(self, delivery: Delivery) -> None:
        """Hand over one delivery, and return when bronze has it: orders before their lines."""
        for name, file, table in (
            ("orders", delivery.orders, self._lake.bronze_orders),
            ("lineitem", delivery.lineitem, self._lake.bronze_lineitem),
        ):
            landing = self._landing(name)
            shutil.copyfile(file, landing / f".{file.name}")
            os.rename(landing / f".{file.name}", landing / file.name)
            self._queries[table].processAllAvailable()

    def catch_up(self, table: str) -> None:
        """Return when a table has all that follows from what was delivered."""
        self._queries[table].processAllAvailable()

    def stop(self) -> None:
        """Let no stream go on."""
        for query in self._queries.values():
            with contextlib.suppress(Py4JError):  # Spark may be gone by now
                query.stop()

    # ----------------------------------------------------------------------------------- bronze

    def _landing(self, name: str) -> Path:
        found = self._folder / "landing" / name
        found.mkdir(parents=True, exist_ok=True)
        return found

    def _ingest(self, name: str, like: Path, table: str, query: Callable[[str], str]) -> None:
        schema = self._spark.read.parquet(str(like)).schema
        arriving = self._spark.readStream.schema(schema).parquet(str(self._landing(name)))
        rows = _sql(query("arriving"), arriving=arriving)
        self._start(table, rows.writeStream.format("adelta").options(**self._options()))

    # --------------------------------------------------------------------------- silver and gold

    def _follow(
        self, source: str, begin: int, table: str, work: Callable[[DataFrame, MicroBatch], None]
    ) -> None:
        """Do `work` on what became of rows of a table since the version `begin`."""
        reader = self._spark.readStream.format("adelta").options(**self._options())
        reader = reader.option("readChangeFeed", "true").option("startingVersion", str(begin))
        changes = reader.load(self._lake.address(source)).where(queries.AFTERWARDS)
        self._start(table, changes.writeStream.foreachBatch(adelta.spark.foreach_batch(work)))

    def _add(self, lines: DataFrame, batch: MicroBatch) -> None:
        """Silver's rows of new order lines: their orders are in bronze by now."""
        spark = lines.sparkSession
        orders = self._read(spark, self._lake.bronze_orders)
        enriched = _sql(queries.silver("orders", "lines"), orders=orders, lines=lines)
        self._save(enriched, self._lake.silver, "append", **batch.options)

    def _refresh(self, changes: DataFrame, batch: MicroBatch) -> None:
        """Gold's rows of the years that changed."""
        spark = changes.sparkSession
        years = sorted(row[0] for row in changes.select("order_year").distinct().collect())
        if not years:
            return
        these = f"order_year IN ({', '.join(map(str, years))})"
        silver = self._read(spark, self._lake.silver).where(these)
        gold = _sql(queries.gold("silver"), silver=silver)
        self._save(gold, self._lake.gold, "overwrite", replaceWhere=these, **batch.options)

    # ----------------------------------------------------------------------------- common to all

    def _start(self, table: str, writer: DataStreamWriter) -> None:
        checkpoint = self._folder / "checkpoints" / table
        writer = writer.queryName(table).option("checkpointLocation", str(checkpoint))
        to = [self._lake.address(table)] if table in self._lake.bronze else []
        query = self._queries[table] = writer.trigger(processingTime=_TRIGGER).start(*to)
        query.processAllAvailable()  # one starts its Python after the other

    def _empty(
        self,
        like: DataFrame,
        table: str,
        partition_by: str,
        properties: Mapping[str, str] | None = None,
    ) -> int:
        """Make a table without rows; returns its version, which those with rows follow."""
        made = adelta.sync.replace_table(
            self._lake.address(table),
            to_delta_schema(like.schema),
            partition_by=[partition_by],
            properties={**_CHANGES, **(properties or {})},
            or_create=True,
            storage_options=self._lake.options,
        )
        return made.version or 0

    def _read(self, spark: SparkSession, table: str) -> DataFrame:
        reader = spark.read.format("adelta").options(**self._options())
        return reader.load(self._lake.address(table))

    def _save(self, rows: DataFrame, table: str, mode: str, **options: str) -> None:
        writer = rows.write.format("adelta").mode(mode).options(**self._options(), **options)
        writer.save(self._lake.address(table))

    def _options(self) -> dict[str, str]:
        return {f"option.{key}": value for key, value in self._lake.options.items()}


def _sql(query: str, **views: DataFrame) -> DataFrame:
    """The answer to a query over DataFrames of one session, by their names in it."""
    for name, frame in views.items():
        frame.createOrReplaceTempView(name)
    return next(iter(views.values())).sparkSession.sql(query)
