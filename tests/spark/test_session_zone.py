"""What a table computes and checks, by the clocks of the session: New York's, in these tests."""

from __future__ import annotations

from datetime import date

import pytest
from pyspark.errors import PySparkException

import adelta.spark
import adelta.sync

EVENING = "SELECT timestamp'2024-01-01 22:00:00' AS ts"  # the next day in UTC


@pytest.fixture
def path(spark, tmp_path) -> str:
    """A table of times and of the days that they are on."""
    path = str(tmp_path / "t")
    (
        adelta.spark.DeltaTable.create(spark)
        .location(path)
        .addColumn("ts", "timestamp")
        .addColumn("day", "date", generatedAlwaysAs="CAST(ts AS DATE)")
        .execute()
    )
    return path


def days(path: str) -> list[date]:
    with adelta.sync.open_table(path) as table:
        return sorted(table.snapshot().scan(["day"]).to_arrow().column("day").to_pylist())


def test_generated_columns_are_days_of_the_session(spark, path, tmp_path):
    df = spark.sql(EVENING)
    df.write.format("adelta").mode("append").save(path)
    df.selectExpr("*", "CAST(ts AS DATE) AS day").write.format("adelta").mode("append").save(path)
    spark.sql(f"INSERT INTO adelta.`{path}` (ts) {EVENING}")
    (spark.readStream.format("adelta").load(path).select("ts").writeStream.format("adelta")
        .option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
        .start(path).awaitTermination(500))  # fmt: skip
    assert days(path) == [date(2024, 1, 1)] * 6


def test_constraints_are_of_the_clocks_of_the_session(spark, path):
    adelta.sync.add_constraint(path, "early", "hour(ts) < 23")
    late = EVENING.replace("22:00:00", "23:00:00")  # four o'clock in UTC
    with pytest.raises(PySparkException, match="'early'"):
        spark.sql(late).write.format("adelta").mode("append").save(path)
    spark.sql(EVENING).write.format("adelta").mode("append").save(path)
    assert days(path) == [date(2024, 1, 1)]


def test_an_update_computes_days_of_the_session_anew(spark, path):
    spark.sql(EVENING).write.format("adelta").mode("append").save(path)
    adelta.spark.DeltaTable.forPath(spark, path).update(
        "hour(ts) = 22", {"ts": "timestamp'2024-01-02 23:00:00'"}
    )
    assert days(path) == [date(2024, 1, 2)]
    spark.sql(f"UPDATE adelta.`{path}` SET ts = timestamp'2024-01-03 23:00:00'")
    assert days(path) == [date(2024, 1, 3)]
