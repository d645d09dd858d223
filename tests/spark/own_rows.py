"""Rows that are made of the table that they go into, in classic sessions and through Connect."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import adelta.sync
from adelta.errors import ConcurrentAppendError
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    Change = Callable[[DataFrame, str], object]

__all__ = ["CHANGES", "append_elsewhere", "appended", "check_own_rows", "loaded", "made"]


def made(spark: SparkSession, path: str) -> str:
    """A table of the rows 0 to 4."""
    spark.range(5).write.format("adelta").mode("append").save(path)
    return path


def append_elsewhere(path: str) -> None:
    """What another writer does."""
    adelta.sync.write_table(path, pa.table({"id": [100]}), mode="append")


def loaded(spark: SparkSession, path: str, **options: str) -> DataFrame:
    """One row: the number that comes after all others."""
    rows = spark.read.format("adelta").options(**options).load(path)
    return rows.agg((f.max("id") + 1).alias("id"))


def _merged(rows: DataFrame, path: str) -> None:
    table = DeltaTable.forPath(rows.sparkSession, path).alias("t")
    table.merge(rows.alias("s"), "t.id = s.id").whenNotMatchedInsertAll().execute()


def _merged_by_spark(rows: DataFrame, path: str) -> None:
    same = f.udf(lambda one, other: one == other, "boolean")
    table = DeltaTable.forPath(rows.sparkSession, path).alias("t")
    merge = table.merge(rows.alias("s"), same(f.col("t.id"), f.col("s.id")))
    merge.whenNotMatchedInsertAll().execute()


def appended(rows: DataFrame, path: str) -> None:
    """Append the rows."""
    rows.write.format("adelta").mode("append").save(path)


def _overwritten(rows: DataFrame, path: str) -> None:
    rows.write.format("adelta").mode("overwrite").option("replaceWhere", "id IN (5, 101)").save(
        path
    )


def _replaced(rows: DataFrame, path: str) -> None:
    rows.write.format("adelta").mode("overwrite").option("replaceUsing", "id").save(path)


CHANGES: dict[str, Change] = {
    "merge": _merged,
    "merge by Spark": _merged_by_spark,
    "append": appended,
    "replaceWhere": _overwritten,
    "replaceUsing": _replaced,
}


def check_own_rows(spark: SparkSession, path: str) -> None:
    """Rows that come while a change reads its own table are a conflict; nothing is written."""
    for number, change in enumerate(CHANGES.values()):
        table = made(spark, f"{path}-{number}")
        begun = Path(f"{table}-begun")

        def meanwhile(batches: Any, table: str = table, begun: Path = begun) -> Any:
            if not begun.exists():
                begun.touch()
                append_elsewhere(table)
            yield from batches

        rows = loaded(spark, table).mapInArrow(meanwhile, "id long")
        with pytest.raises(ConcurrentAppendError, match="read the table again"):
            change(rows, table)
        assert adelta.sync.history(table)[0].version == 1
        change(loaded(spark, table), table)
        assert sorted(row.id for row in spark.read.format("adelta").load(table).collect()) == [
            0, 1, 2, 3, 4, 100, 101,
        ]  # fmt: skip
        assert not adelta.sync.history(table)[0].is_blind_append
