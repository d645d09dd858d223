"""The Spark job: raw Parquet to bronze, silver and gold, every table in the format ``adelta``.

It runs in a worker thread, as any blocking job beside an event loop would. A pipeline that has been
told to stop ends its Spark jobs and raises at the next step.
"""

from __future__ import annotations

import contextlib
import re
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import adelta.spark
from adelta.demo import queries
from adelta.errors import AdeltaError, InvalidUseError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from adelta.demo.dataset import Dataset
    from adelta.demo.lake import Lake
    from adelta.demo.report import Report

__all__ = ["Pipeline"]

_PATIENCE = 0.2  # seconds between two cancellations
_LOGGING = Path(__file__).with_name("log4j2.properties").as_uri()
_CONFIGURATION = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
    "spark.sql.shuffle.partitions": "4",
}

_ERROR_LINE = re.compile(r"^\s*[\w.]+(?:Error|Exception): .+$", re.MULTILINE)


def _cause(error: Exception) -> str:
    """The line of Spark's message that says why: the end of a traceback, where it holds one."""
    text = str(error) or type(error).__name__
    if "Traceback" in text and (ends := _ERROR_LINE.findall(text)):
        return str(ends[-1]).strip()
    return text.splitlines()[0]


class Pipeline:
    """The job over one lake; `run` it once."""

    def __init__(self, lake: Lake, dataset: Dataset, report: Report) -> None:
        self._lake = lake
        self._dataset = dataset
        self._report = report
        self._session: SparkSession | None = None
        self._stopped = Event()
        self._at = ""

    @property
    def steps(self) -> int:
        """How many times `run` tells the report of a step."""
        return 2 * len(self._dataset.deliveries) + 4

    def run(self) -> pa.Table:
        """Fill the lake; returns the gold query's answer over the raw files.

        Raises:
            AdeltaError: Spark failed, or the pipeline was stopped.
        """
        try:
            return self._run()
        except (PySparkException, Py4JError) as error:
            raise AdeltaError(f"Spark failed at the step {self._at!r}: {_cause(error)}") from error

    def _run(self) -> pa.Table:
        self._step("start Spark")
        spark = self._session = adelta.spark.get_session("adelta demo", conf=_CONFIGURATION)
        try:
            self._fill_bronze(spark)
            self._fill_silver(spark)
            self._fill_gold(spark)
            return self._ask_raw(spark)
        finally:
            self._session = None
            spark.stop()

    def stop(self) -> None:
        """Make `run` end soon; called from another thread, and returns when it has let go of Spark.

        A query is several jobs, with planning between them that nobody can cancel, so one
        cancellation may meet no job at all.
        """
        self._stopped.set()
        while (session := self._session) is not None:
            with contextlib.suppress(Py4JError, AttributeError):  # Spark may be gone by now
                session.sparkContext.cancelAllJobs()
            time.sleep(_PATIENCE)

    def _fill_bronze(self, spark: SparkSession) -> None:
        """One append a delivery; the first one replaces what an earlier run has left."""
        for number, delivery in enumerate(self._dataset.deliveries, 1):
            mode = "overwrite" if number == 1 else "append"
            of = f"{number} of {len(self._dataset.deliveries)}"
            spark.read.parquet(str(delivery.orders)).createOrReplaceTempView("delivered_orders")
            spark.read.parquet(str(delivery.lineitem)).createOrReplaceTempView("delivered_lineitem")
            self._step(f"bronze: delivery {of}, orders")
            orders = spark.sql(queries.bronze_orders("delivered_orders"))
            self._write(orders, self._lake.bronze_orders, mode, partition_by="o_orderyear")
            self._step(f"bronze: delivery {of}, lineitem")
            lineitem = spark.sql(queries.bronze_lineitem("delivered_lineitem"))
            self._write(lineitem, self._lake.bronze_lineitem, mode, partition_by="l_shipyear")

    def _fill_silver(self, spark: SparkSession) -> None:
        self._step("silver: join orders and lineitem")
        self._view(spark, self._lake.bronze_orders, "orders", queries.SILVER_ORDERS)
        self._view(spark, self._lake.bronze_lineitem, "lineitem", queries.SILVER_LINEITEM)
        enriched = spark.sql(queries.silver("orders", "lineitem"))
        self._write(enriched, self._lake.silver, "overwrite", partition_by="order_year")

    def _fill_gold(self, spark: SparkSession) -> None:
        self._step("gold: aggregate")
        self._view(spark, self._lake.silver, "order_lines", queries.GOLD_ORDER_LINES)
        self._write(spark.sql(queries.gold("order_lines")), self._lake.gold, "overwrite")

    def _ask_raw(self, spark: SparkSession) -> pa.Table:
        """The same queries over the raw files, read by Spark's own Parquet reader."""
        self._step("check: the same query on the raw files")
        deliveries = self._dataset.deliveries
        orders = spark.read.parquet(*(str(delivery.orders) for delivery in deliveries))
        lineitem = spark.read.parquet(*(str(delivery.lineitem) for delivery in deliveries))
        orders.createOrReplaceTempView("raw_orders")
        lineitem.createOrReplaceTempView("raw_lineitem")
        enriched = f"({queries.silver('raw_orders', 'raw_lineitem')})"
        return spark.sql(queries.gold(enriched)).toArrow()

    def _step(self, name: str) -> None:
        if self._stopped.is_set():
            raise InvalidUseError("the demo was stopped before its pipeline ended")
        self._at = name
        self._report.step(name)

    def _view(self, spark: SparkSession, table: str, view: str, columns: Sequence[str]) -> None:
        """A view of some columns; Spark does not tell a Python data source which ones it needs."""
        reader = spark.read.format("adelta").options(**self._storage_options())
        frame = reader.option("columns", ",".join(columns)).load(self._lake.address(table))
        frame.createOrReplaceTempView(view)

    def _write(
        self, rows: DataFrame, table: str, mode: str, *, partition_by: str | None = None
    ) -> None:
        writer = rows.write.format("adelta").mode(mode).options(**self._storage_options())
        if partition_by is not None:
            writer = writer.option("partitionBy", partition_by)
        writer.save(self._lake.address(table))

    def _storage_options(self) -> dict[str, str]:
        return {f"option.{key}": value for key, value in self._lake.options.items()}
