"""What keeps silver right and quick to ask: MERGE of corrections, OPTIMIZE and VACUUM, by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

import adelta.sync
from adelta._dataclasses import dataclass
from adelta.console.render import counted, size
from adelta.demo import queries
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from adelta.demo.lake import Lake

__all__ = ["FilesOfQuery", "Upkeep"]

_ORDER = ("customer_key", "shipped_on")
_RETENTION_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


@dataclass(frozen=True, slots=True)
class FilesOfQuery:
    """How many files, of how many bytes, a query has to read, and how many there are."""

    files: int
    num_bytes: int
    of: int

    def __str__(self) -> str:
        return f"{self.files} of {counted(self.of, 'file')}, {size(self.num_bytes)}"


class Upkeep:
    """Operations on the silver table; each gives a line about what it did."""

    def __init__(self, spark: SparkSession, lake: Lake) -> None:
        self._spark = spark
        self._lake = lake
        self._path = lake.address(lake.silver)

    def merge(self) -> str:
        """Refund returned order lines, and take out those that were cancelled."""
        self._bronze().createOrReplaceTempView("bronze_lineitem")
        corrections = self._spark.sql(queries.corrections("bronze_lineitem"))
        on = "silver.order_key = c.order_key AND silver.line_number = c.line_number"
        merge = self._table().alias("silver").merge(corrections.alias("c"), on)
        merge = merge.whenMatchedDelete("c.cancelled")
        merge = merge.whenMatchedUpdate(set={"revenue": "0", "charge": "0"})
        done = merge.execute().first()
        assert done is not None
        return (
            f"refunded {done['num_updated_rows']:,} order lines of silver, and took out "
            f"{done['num_deleted_rows']:,}"
        )

    def optimize(self) -> str:
        """Write silver's files anew, along a Z-order of customers and days."""
        customer = self._customer()
        before = self._read_by(customer)
        self._table().optimize().executeZOrderBy(*_ORDER)
        after = self._read_by(customer)
        return f"one customer's order lines take {after} to read, and took {before}"

    def vacuum(self) -> str:
        """Delete silver's old files at once, as nobody reads its earlier versions."""
        conf = self._spark.conf
        conf.set(_RETENTION_CHECK, "false")
        try:
            self._table().vacuum(0)
        finally:
            conf.unset(_RETENTION_CHECK)
        with adelta.sync.open_table(self._path, storage_options=self._options) as table:
            start, end = sorted(adelta.sync.history(table, limit=2), key=lambda e: e.version)
        freed = int(start.operation_metrics.get("sizeOfDataToDelete", 0))
        deleted = int(end.operation_metrics.get("numDeletedFiles", 0))
        return f"deleted {counted(deleted, 'file')} that no version needs, {size(freed)}"

    # ------------------------------------------------------------------------------------ inside

    @property
    def _options(self) -> dict[str, str]:
        return dict(self._lake.options)

    def _table(self) -> DeltaTable:
        return DeltaTable.forPath(self._spark, self._path, storage_options=self._options)

    def _bronze(self) -> DataFrame:
        path = self._lake.address(self._lake.bronze_lineitem)
        return DeltaTable.forPath(self._spark, path, storage_options=self._options).toDF()

    def _customer(self) -> int:
        """Whoever has the least key."""
        with adelta.sync.open_table(self._path, storage_options=self._options) as table:
            keys = table.snapshot().scan(columns=["customer_key"]).to_arrow()["customer_key"]
        return int(pc.min(keys).as_py() or 0)

    def _read_by(self, customer: int) -> FilesOfQuery:
        with adelta.sync.open_table(self._path, storage_options=self._options) as table:
            snapshot = table.snapshot()
            chosen = snapshot.scan(where=f"customer_key = {customer}").files()
            return FilesOfQuery(
                chosen.num_rows,
                int(pc.sum(chosen["size"]).as_py() or 0),
                snapshot.files().num_rows,
            )
