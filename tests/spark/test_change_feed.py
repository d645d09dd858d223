"""``option("readChangeFeed", True)`` in batch: the rows that commits changed."""

from __future__ import annotations

import datetime as dt
import os
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.errors import ParseException

import adelta.spark
import adelta.sync

FEED = {"delta.enableChangeDataFeed": "true"}
SHOWN = "_commit_version", "_change_type", "id", "part"


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def at(number: int) -> float:
    """When the commit of a version was made."""
    return dt.datetime(2024, 1, 1 + number, 12, tzinfo=ZoneInfo("America/New_York")).timestamp()


def table(path: str, properties=FEED, *, mapped: bool = False) -> None:
    """Versions: 0 is empty, 1 inserts 1 to 4, 2 updates 2, 3 deletes 4, 4 deletes a whole part."""
    mapping = {"delta.columnMapping.mode": "name"} if mapped else {}
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    adelta.sync.create_table(
        path, schema, partition_by=["part"], properties={**properties, **mapping}
    ).close()
    rows = pa.table({"id": [1, 2, 3, 4], "part": ["a", "b", "b", "b"]}, schema=schema)
    adelta.sync.write_table(path, rows, mode="append")
    adelta.sync.update(path, {"id": "id * 10"}, "id = 2")
    adelta.sync.delete(path, "id = 4")
    adelta.sync.delete(path, "part = 'a'")
    for number in range(5):
        os.utime(f"{path}/_delta_log/{number:020}.json", (at(number), at(number)))


def feed(spark, path, start=0, end=None, **options):
    reader = spark.read.format("adelta").option("readChangeFeed", True).options(**options)
    if start is not None:
        reader = reader.option("startingVersion", start)
    if end is not None:
        reader = reader.option("endingVersion", end)
    return reader.load(path)


def shown(df) -> list[tuple]:
    return sorted(tuple(row) for row in df.select(*SHOWN).collect())


INSERTS = [(1, "insert", n, "b" if n > 1 else "a") for n in (1, 2, 3, 4)]
UPDATES = [(2, "update_postimage", 20, "b"), (2, "update_preimage", 2, "b")]
DELETES = [(3, "delete", 4, "b"), (4, "delete", 1, "a")]


@pytest.mark.parametrize("vectors", ["true", "false"])
def test_the_feed_has_every_change_with_its_commit(spark, path, vectors):
    table(path, FEED | {"delta.enableDeletionVectors": vectors})
    df = feed(spark, path)
    assert df.columns == ["id", "part", "_change_type", "_commit_version", "_commit_timestamp"]
    assert shown(df) == INSERTS + UPDATES + DELETES
    assert df.where("_commit_version = 3").selectExpr("unix_timestamp(_commit_timestamp)").collect(
    ) == [(int(at(3)),)]  # fmt: skip
    assert shown(feed(spark, path, 2, 3)) == UPDATES + DELETES[:1]
    assert df.where("id > 3").count() == 3
    assert df.where("part = 'a'").select("_change_type").count() == 2


def test_the_feed_of_a_table_is_read_by_its_name(spark, path):
    table(path)
    spark.sql(f"CREATE TABLE fed USING adelta LOCATION '{path}'")
    try:
        reader = spark.read.option("readChangeFeed", "true").option("startingVersion", 2)
        assert shown(reader.table("fed")) == UPDATES + DELETES
        assert shown(reader.table(f"adelta.`{path}`")) == UPDATES + DELETES
        assert spark.read.option("versionAsOf", 1).table("fed").count() == len(INSERTS)
    finally:
        spark.sql("DROP TABLE fed")


def test_a_dataframe_of_changes_ends_with_the_version_that_it_was_made_at(spark, path):
    table(path)
    df = feed(spark, path, 3)
    adelta.sync.write_table(path, pa.table({"id": [7], "part": ["c"]}), mode="append")
    assert shown(df) == DELETES
    assert shown(feed(spark, path, 3)) == [*DELETES, (5, "insert", 7, "c")]


def test_bounds_are_times_of_the_sessions_zone(spark, path):
    table(path)
    times = {"startingTimestamp": "2024-01-03 12:00:00", "endingTimestamp": "2024-01-04 12:00:00"}
    assert shown(feed(spark, path, None, **times)) == UPDATES + DELETES[:1]
    times = {"startingTimestamp": "2024-01-03 13:00:00", "endingTimestamp": "2024-01-03 14:00:00"}
    assert shown(feed(spark, path, None, **times)) == []
    reader = spark.read.format("adelta").option("readChangeFeed", "true")
    early = reader.option("startingTimestamp", "1999-01-01").option("endingVersion", 1)
    assert shown(early.load(path)) == INSERTS


@pytest.mark.parametrize(
    ("start", "end", "options", "says"),
    [
        (5, None, {}, "the latest version is 4"),
        (3, 2, {}, "empty range"),
        (None, None, {}, "needs to know from where"),
        (1, None, {"startingTimestamp": "2024-01-01"}, "not both"),
        (1, None, {"versionAsOf": "1"}, "for the rows of one version"),
        (None, None, {"startingTimestamp": "2024-02-01"}, "no version was committed at or after"),
        (1, None, {"endingTimestamp": "2023-12-31"}, "outside the table's history"),
        ("one", None, {}, "startingVersion is 'one'"),
    ],
)
def test_ranges_that_are_none_are_refused(spark, path, start, end, options, says):
    table(path)
    with pytest.raises(Exception, match=says):
        feed(spark, path, start, end, **options).collect()


def test_an_end_beyond_the_history_is_the_latest_version(spark, path):
    table(path)
    assert shown(feed(spark, path, 3, 99)) == DELETES


def test_what_is_beyond_the_history_has_no_changes_where_the_session_or_an_option_says_so(
    spark, path
):
    table(path)
    late, setting = (
        "2024-02-01",
        "spark.databricks.delta.changeDataFeed.timestampOutOfRange.enabled",
    )
    spark.conf.set(setting, "true")
    try:
        assert shown(feed(spark, path, None, startingTimestamp=late)) == []
        assert shown(feed(spark, path, None, startingTimestamp=late, endingTimestamp=late)) == []
        assert shown(feed(spark, path, 5)) == []
        assert shown(feed(spark, path, 3, endingTimestamp=late)) == DELETES
        text = f"SELECT * FROM table_changes_by_path('{path}', '{late}')"
        assert adelta.spark.sql(spark, text).count() == 0
        with pytest.raises(Exception, match="no version was committed at or after"):
            feed(spark, path, None, startingTimestamp=late, timestampOutOfRange=False).collect()
        with pytest.raises(Exception, match="empty range"):
            feed(spark, path, 3, 2).collect()
        assert spark.read.format("adelta").load(path).count() == 2
    finally:
        spark.conf.unset(setting)
    assert shown(feed(spark, path, 5, timestampOutOfRange=True)) == []
    with pytest.raises(Exception, match="outside the table's history"):
        feed(spark, path, 3, endingTimestamp=late).collect()


def test_versions_without_the_feed_are_refused(spark, path):
    table(path, {})
    with pytest.raises(Exception, match="not enabled at version 1"):
        feed(spark, path, 1).collect()
    adelta.sync.set_properties(path, FEED)
    with pytest.raises(Exception, match="not enabled at version 4"):
        feed(spark, path, 4).collect()
    assert shown(feed(spark, path, 5)) == []


def test_columns_are_the_latest_ones_or_those_of_the_end_where_they_are_mapped(
    spark, path, tmp_path
):
    mapped = str(tmp_path / "mapped")
    table(path)
    table(mapped, mapped=True)
    for each in (path, mapped):
        adelta.sync.add_columns(each, pa.schema([("more", pa.string())]))
    assert "more" in feed(spark, path, 1, 2).columns
    assert shown(feed(spark, path, 1, 1)) == INSERTS
    assert "more" not in feed(spark, mapped, 1, 2).columns
    adelta.sync.rename_column(mapped, "id", "number")
    renamed = feed(spark, mapped, 2).selectExpr("_commit_version", "_change_type", "number", "part")
    assert sorted(tuple(row) for row in renamed.collect()) == UPDATES + DELETES
    only = feed(spark, path, 3, columns="id")
    assert only.columns == ["id", "_change_type", "_commit_version", "_commit_timestamp"]
    assert sorted(row["id"] for row in only.collect()) == [1, 4]


def test_a_range_without_the_feed_is_refused(spark, path):
    table(path)
    reader = spark.read.format("adelta").option("startingVersion", 1)
    with pytest.raises(Exception, match="add the option readChangeFeed"):
        reader.load(path).collect()
    assert reader.option("readChangeData", "true").load(path).count() == 8


def test_statements_have_changes_by_table_changes(spark, path):
    table(path)
    spark.sql(f"CREATE TABLE changed USING adelta LOCATION '{path}'")
    try:
        by_name = "SELECT * FROM table_changes('changed', 1) c JOIN values_ v ON c.id = v.id"
        spark.sql("CREATE OR REPLACE TEMP VIEW values_ AS SELECT 2L AS id")
        found = adelta.spark.sql(spark, by_name).drop("v.id")
        assert sorted(row._commit_version for row in found.collect()) == [1, 2]
        by_path = f"SELECT * FROM TABLE_CHANGES_BY_PATH('{path}', '2024-01-03', 3)"
        assert shown(adelta.spark.sql(spark, by_path)) == [*UPDATES, DELETES[0]]
        text = "SELECT 'table_changes(1)' AS t, upper(:x)"
        assert adelta.spark.sql(spark, text, {"x": "a"}).collect() == [("table_changes(1)", "A")]
        copied = f"CREATE TABLE adelta.`{path}-copy` AS SELECT * FROM table_changes('changed', 1)"
        adelta.spark.sql(spark, copied)
        assert spark.read.format("adelta").load(f"{path}-copy").count() == 8
        assert not [each.name for each in spark.catalog.listTables() if "adelta" in each.name]
        with pytest.raises(ParseException, match="make it of a DataFrame"):
            adelta.spark.sql(spark, f"CREATE TEMP VIEW kept AS {by_name}")
        for wrong in ("'changed'", "changed, 1", "'changed', -1", "'changed', 1, 2, 3"):
            with pytest.raises(ParseException, match="table_changes takes"):
                adelta.spark.sql(spark, f"SELECT * FROM table_changes({wrong})")
    finally:
        spark.sql("DROP TABLE changed")
