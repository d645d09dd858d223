"""Streams over a watermark that begin with files which do not lie in the order of their times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as f

import adelta.spark
import adelta.sync

START = datetime(2024, 5, 1, tzinfo=UTC)
SETTING = "spark.databricks.delta.withEventTimeOrder.enabled"


def append(path: str, *hours: int) -> None:
    rows = {"id": list(hours), "at": [START + timedelta(hours=hour) for hour in hours]}
    table = pa.table(rows, schema=pa.schema({"id": pa.int64(), "at": pa.timestamp("us", "UTC")}))
    adelta.sync.write_table(path, table, mode="append")


@pytest.fixture
def path(tmp_path) -> str:
    """A table whose files lie in the reverse order of their times."""
    for hour in range(30, 0, -10):
        append(str(tmp_path / "t"), hour, hour + 3)
    return str(tmp_path / "t")


def counted(rows, to: str) -> list[int]:
    """The hours that a count by the hour, over what is there, has: those that were not late."""
    hours = rows.groupBy(f.window("at", "1 hour")).count()
    found = hours.select(f.hour(f.col("window.start")).alias("hour"), "window.start", "count")
    writer = found.writeStream.format("adelta").option("checkpointLocation", f"{to}-checkpoint")
    query = writer.trigger(availableNow=True).start(to)
    try:
        assert query.awaitTermination(500), "the query has not ended"
    finally:
        query.stop()
    with adelta.sync.open_table(to) as table:
        starts = table.snapshot().scan(["start"]).to_arrow().column("start").to_pylist()
    return sorted((start - START) // timedelta(hours=1) for start in starts)


def reader(spark, **options):
    return spark.readStream.format("adelta").options(maxFilesPerTrigger=1, **options)


def test_no_row_is_late_that_a_stream_begins_with(spark, path, tmp_path):
    late = counted(reader(spark).load(path).withWatermark("at", "1 second"), f"{tmp_path}/late")
    assert late == [20, 23, 30]  # 10 and 13 are lost, and 33 is still open
    ordered = reader(spark, withEventTimeOrder=True).load(path)
    to = str(tmp_path / "to")
    assert counted(ordered.withWatermark("at", "1 second"), to) == [10, 13, 20, 23, 30]
    first = json.loads(Path(f"{to}-checkpoint/offsets/0").read_text().splitlines()[-1])
    assert first["isStartingVersion"]
    assert first["eventTime"] > 0
    append(path, 40)
    again = reader(spark, withEventTimeOrder=True).load(path).withWatermark("at", "1 second")
    assert counted(again, to) == [10, 13, 20, 23, 30, 33]


def test_the_session_may_ask_for_it_and_the_column_may_be_named(spark, path, tmp_path):
    spark.conf.set(SETTING, "true")
    try:
        rows = reader(spark).load(path).withWatermark("at", "1 second")
        assert counted(rows, f"{tmp_path}/to") == [10, 13, 20, 23, 30]
        plain = reader(spark).load(path).select("id")  # without a watermark as it was
        query = plain.writeStream.format("adelta").trigger(availableNow=True)
        query = query.option("checkpointLocation", f"{tmp_path}/c").start(f"{tmp_path}/plain")
        assert query.awaitTermination(500)
    finally:
        spark.conf.unset(SETTING)
    asked = reader(spark, withEventTimeOrder=True, eventTimeColumn="at", readChangeFeed=False)
    rows = asked.load(path).where("id > 0").withWatermark("at", "1 second")
    assert counted(rows, f"{tmp_path}/named") == [10, 13, 20, 23, 30]


def test_who_does_not_say_the_column_is_told(spark, path, tmp_path):
    rows = reader(spark, withEventTimeOrder=True).load(path).where("id > 0")
    with pytest.raises(StreamingQueryException, match="eventTimeColumn"):
        counted(rows.withWatermark("at", "1 second"), f"{tmp_path}/to")
    rows = reader(spark, withEventTimeOrder=True, eventTimeColumn="id").load(path)
    with pytest.raises(StreamingQueryException, match="no column of timestamps"):
        counted(rows.withWatermark("at", "1 second"), f"{tmp_path}/to")
