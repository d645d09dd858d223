"""The Spark job: raw Parquet, delivered piece by piece, streams to bronze, silver and gold.

It runs in a worker thread, as any blocking job beside an event loop would. A pipeline that has been
told to stop ends its Spark jobs and raises at the next step.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import time
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import adelta.spark
from adelta.demo import queries
from adelta.demo.medallion import Medallion
from adelta.demo.upkeep import Upkeep
from adelta.errors import AdeltaError, InvalidUseError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

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
        return len(self._dataset.deliveries) + 9

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
            # On this machine, whatever store the lake is in: Spark has no file system for that.
            with tempfile.TemporaryDirectory(prefix="adelta-demo-") as folder:
                medallion = Medallion(spark, self._lake, Path(folder))
                upkeep = Upkeep(spark, self._lake)
                try:
                    self._stream(medallion)
                    self._correct(medallion, upkeep)
                finally:
                    medallion.stop()
            self._tidy(upkeep)
            return self._ask_raw(spark)
        finally:
            self._session = None
            spark.stop()

    def _stream(self, medallion: Medallion) -> None:
        deliveries = self._dataset.deliveries
        self._step("create the tables, and start the streams")
        medallion.start(deliveries[0])
        for number, delivery in enumerate(deliveries, 1):
            self._step(f"bronze: delivery {number} of {len(deliveries)}")
            medallion.deliver(delivery)
        self._step("silver: the changes of bronze")
        medallion.catch_up(self._lake.silver)
        self._step("gold: the changes of silver")
        medallion.catch_up(self._lake.gold)

    def _correct(self, medallion: Medallion, upkeep: Upkeep) -> None:
        self._step("silver: MERGE of a late report")
        self._report.say("spark", upkeep.merge())
        self._step("gold: the changes of silver")
        medallion.catch_up(self._lake.gold)

    def _tidy(self, upkeep: Upkeep) -> None:
        self._step("silver: OPTIMIZE ZORDER BY (customer_key, shipped_on)")
        self._report.say("spark", upkeep.optimize())
        self._step("silver: VACUUM")
        self._report.say("spark", upkeep.vacuum())

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

    def _ask_raw(self, spark: SparkSession) -> pa.Table:
        """The same queries over the raw files, read by Spark's own Parquet reader."""
        self._step("check: the same query on the raw files")
        deliveries = self._dataset.deliveries
        orders = spark.read.parquet(*(str(delivery.orders) for delivery in deliveries))
        lineitem = spark.read.parquet(*(str(delivery.lineitem) for delivery in deliveries))
        orders.createOrReplaceTempView("raw_orders")
        lineitem.createOrReplaceTempView("raw_lineitem")
        enriched = f"({queries.silver('raw_orders', 'raw_lineitem')})"
        late_report = f"({queries.corrections('raw_lineitem')})"
        return spark.sql(queries.gold(f"({queries.corrected(enriched, late_report)})")).toArrow()

    def _step(self, name: str) -> None:
        if self._stopped.is_set():
            raise InvalidUseError("the demo was stopped before its pipeline ended")
        self._at = name
        self._report.step(name)
