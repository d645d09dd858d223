"""Which of delta-spark's conditions errors have, in classic sessions and through Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import adelta.spark
from adelta.errors import AdeltaError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_conditions"]

_OF_STATEMENTS = {
    "ALTER TABLE {} ADD CONSTRAINT no CHECK (v < 0)": "DELTA_NEW_CHECK_CONSTRAINT_VIOLATION",
    "ALTER TABLE {} DROP COLUMN v": "DELTA_UNSUPPORTED_DROP_COLUMN",
    "ALTER TABLE {} DROP CONSTRAINT no": "DELTA_CONSTRAINT_DOES_NOT_EXIST",
    "ALTER TABLE {} RENAME COLUMN v TO w": "DELTA_UNSUPPORTED_RENAME_COLUMN",
    "ALTER TABLE {} SET TBLPROPERTIES ('delta.no' = '1')": "DELTA_UNKNOWN_CONFIGURATION",
    "CREATE TABLE nowhere USING adelta LOCATION '/tmp/no/where'": (
        "DELTA_CREATE_EXTERNAL_TABLE_WITHOUT_SCHEMA"
    ),
    "DELETE FROM {} WHERE no = 1": "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "DESCRIBE HISTORY adelta.`/no/where`": "DELTA_MISSING_DELTA_TABLE",
    "INSERT INTO {} VALUES (1, -1)": "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
    "OPTIMIZE {} ZORDER BY (no)": "DELTA_ZORDERING_COLUMN_DOES_NOT_EXIST",
    "RESTORE {} TO TIMESTAMP AS OF '1999-01-01'": "DELTA_CANNOT_RESTORE_TIMESTAMP_EARLIER",
    "RESTORE {} TO VERSION AS OF 99": "DELTA_CANNOT_RESTORE_TABLE_VERSION",
    "SELECT * FROM {} VERSION AS OF 99": "DELTA_VERSION_NOT_FOUND",
    "VACUUM {} RETAIN 0 HOURS": "DELTA_VACUUM_RETENTION_PERIOD_TOO_SHORT",
}


def check_conditions(spark: SparkSession, path: str) -> None:
    """See that statements, reads and writes that are refused say why as delta-spark does."""
    table = f"adelta.`{path}`"
    spark.sql("SELECT 1L AS id, 1 AS v").write.format("adelta").save(path)
    adelta.spark.sql(spark, f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (v > 0)")
    for text, condition in _OF_STATEMENTS.items():
        with pytest.raises(PySparkException) as caught:
            adelta.spark.sql(spark, text.format(table)).collect()
        assert caught.value.getCondition() == condition, text
    more = "SELECT 2L AS id, {} AS v"
    reader = spark.read.format("adelta").option("versionAsOf", 99)
    for does, condition in (
        (lambda: reader.load(path).collect(), "DELTA_VERSION_NOT_FOUND"),
        (lambda: _append(spark, path, more.format("1 AS u, 1")), "DELTA_METADATA_MISMATCH"),
        (lambda: _append(spark, path, more.format(0)), "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"),
    ):
        with pytest.raises(AdeltaError) as caught:
            does()
        assert isinstance(caught.value, PySparkException)
        assert caught.value.getCondition() == condition


def _append(spark: SparkSession, path: str, query: str) -> None:
    spark.sql(query).write.format("adelta").mode("append").save(path)
