"""DeltaTable, as users of delta-spark know it."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from pyspark.sql import functions

import adelta.spark
from adelta.errors import InvalidOptionError, TableNotFoundError
from adelta.spark import DeltaTable


@pytest.fixture
def path(spark, tmp_path) -> str:
    path = str(tmp_path / "t")
    df = spark.range(6).selectExpr("id", "CAST(id % 2 AS INT) part")
    adelta.spark.write(df, path, partition_by=["part"], user_metadata="first")
    adelta.spark.write(df, path, mode="overwrite")
    return path


def test_a_table_is_opened_by_its_path(spark, path):
    assert DeltaTable.forPath(spark, path).toDF().count() == 6


def test_what_is_no_table_is_told_from_what_is(spark, path, tmp_path):
    assert DeltaTable.isDeltaTable(spark, path)
    assert not DeltaTable.isDeltaTable(spark, str(tmp_path))
    with pytest.raises(TableNotFoundError, match="there is no Delta table at"):
        DeltaTable.forPath(spark, str(tmp_path))


def test_a_table_that_adelta_cannot_read_is_a_delta_table_still(spark, path):
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["unheardOf"],
        "writerFeatures": ["unheardOf"],
    }
    Path(path, "_delta_log", f"{2:020}.json").write_text(json.dumps({"protocol": protocol}))
    assert DeltaTable.isDeltaTable(spark, path)


def test_the_dataframe_is_of_the_latest_version_when_it_is_asked_for(spark, path):
    table = DeltaTable.forPath(spark, path)
    adelta.spark.write(spark.sql("SELECT 9L id, 1 part"), path, mode="append")
    assert table.toDF().count() == 7


def test_an_alias_is_a_name_for_expressions(spark, path):
    df = DeltaTable.forPath(spark, path).alias("t").toDF()
    assert sorted(row[0] for row in df.where("t.id < 2").select("t.id").collect()) == [0, 1]


def test_history_is_a_dataframe_newest_first(spark, path):
    history = DeltaTable.forPath(spark, path).history()
    newest, oldest = history.collect()
    assert (newest["version"], oldest["version"]) == (1, 0)
    assert oldest["operation"] == "WRITE"
    assert oldest["operationParameters"] == {"mode": "ErrorIfExists", "partitionBy": '["part"]'}
    assert newest["operationParameters"]["mode"] == "Overwrite"
    assert newest["operationMetrics"]["numOutputRows"] == "6"
    assert newest["readVersion"] == 0
    assert (newest["isBlindAppend"], oldest["userMetadata"]) == (False, "first")
    assert newest["engineInfo"].startswith("adelta/")
    now = dt.datetime.now()
    assert now - dt.timedelta(minutes=5) < newest["timestamp"] < now + dt.timedelta(minutes=5)


def test_history_may_be_cut_short(spark, path):
    table = DeltaTable.forPath(spark, path)
    assert [row["version"] for row in table.history(1).collect()] == [1]
    with pytest.raises(InvalidOptionError, match="limit is 0"):
        table.history(0)


def test_detail_is_one_row(spark, path):
    [row] = DeltaTable.forPath(spark, path).detail().collect()
    size = sum(file.stat().st_size for file in Path(path).rglob("*.parquet"))
    assert row["format"] == "delta"
    assert row["location"].endswith(path)
    assert row["partitionColumns"] == ["part"]
    assert (row["numFiles"], row["sizeInBytes"] < size) == (4, True)
    assert (row["minReaderVersion"], row["properties"]) == (1, {})
    assert row["createdAt"] <= row["lastModified"]


def test_features_are_added_and_dropped(spark, path):
    table = DeltaTable.forPath(spark, path)
    table.addFeatureSupport("vacuumProtocolCheck")
    assert table.detail().collect()[0].minReaderVersion == 3
    table.dropFeatureSupport("vacuumProtocolCheck", truncateHistory=True)
    found = table.detail().collect()[0]
    assert (found.minReaderVersion, found.minWriterVersion) == (1, 2)
    assert found.clusteringColumns == []


def test_rows_are_deleted_by_a_condition(spark, path):
    table = DeltaTable.forPath(spark, path)
    assert [tuple(row) for row in table.delete("id >= 4").collect()] == [(2,)]
    assert sorted(row["id"] for row in table.toDF().collect()) == [0, 1, 2, 3]
    assert table.delete().collect()[0]["num_affected_rows"] == 4
    assert table.toDF().count() == 0
    assert table.history(1).collect()[0]["operation"] == "DELETE"


def test_rows_are_updated_by_expressions(spark, path):
    table = DeltaTable.forPath(spark, path)
    done = table.update("id < 2", {"part": "part + 10"})
    assert done.collect()[0]["num_affected_rows"] == 2
    assert sorted(tuple(row) for row in table.toDF().collect())[:3] == [(0, 10), (1, 11), (2, 0)]
    assert table.update(set={"part": "0"}).collect()[0]["num_affected_rows"] == 6


def test_a_column_is_no_text(spark, path):
    table = DeltaTable.forPath(spark, path)
    for attempt in (
        lambda: table.delete(functions.col("id") > 4),
        lambda: table.update(set={"part": functions.lit(1)}),
        lambda: table.update(functions.col("id") > 4, {"part": "1"}),
    ):
        with pytest.raises(InvalidOptionError, match="SQL text"):
            attempt()
