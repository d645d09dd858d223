"""Counts and extremes of all rows are answered from the log, and only those."""

from __future__ import annotations

import json
from datetime import date, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import functions as f

import adelta.sync

ENABLED = "spark.databricks.delta.optimizeMetadataQuery.enabled"


@pytest.fixture
def table(tmp_path) -> str:
    """Two files of ten rows; of each the ones with the odd ids are behind a deletion vector."""
    path = str(tmp_path / "t")
    vectors = {"delta.enableDeletionVectors": "true"}
    for part in range(2):
        ids = range(10 * part, 10 * part + 10)
        rows = pa.table({"id": ids, "part": [part] * 10})
        adelta.sync.write_table(path, rows, partition_by=["part"], properties=vectors)
    adelta.sync.delete(path, "id % 2 = 1")
    return path


def load(spark, path):
    return spark.read.format("adelta").load(path)


def is_answered(df) -> bool:
    """Whether nothing but the log is needed."""
    plan = df._jdf.queryExecution().optimizedPlan()
    return plan.nodeName() == "LocalRelation"


def test_all_rows_are_counted_without_a_file(spark, table):
    for path in Path(table).rglob("*.parquet"):
        path.unlink()
    found = load(spark, table)
    assert found.count() == found.select("id").count() == 10
    spark.catalog.dropTempView("counted")
    found.createTempView("counted")
    query = "SELECT count(*) AS a, count(1) + 1 AS b, count('x') % 3 AS c, 'y' AS d FROM counted"
    assert is_answered(spark.sql(query))
    assert spark.sql(query).collect() == [(10, 11, 1, "y")]
    assert spark.sql("SELECT (SELECT count(*) FROM counted) AS n").collect() == [(10,)]
    assert spark.sql("SELECT count(*) FROM (SELECT id + 1 FROM counted)").collect() == [(10,)]
    both = found.groupBy().count().union(load(spark, table).groupBy().count())
    assert both.collect() == [(10,), (10,)]
    other = spark.newSession()
    assert is_answered(load(other, table).groupBy().count())


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("SELECT count(*) FROM {t} WHERE part = 1", 5),
        ("SELECT count(*) FROM {t} WHERE id >= 6", 7),
        ("SELECT count(DISTINCT 1) FROM {t}", 1),
        ("SELECT count(NULL) FROM {t}", 0),
        ("SELECT count(*) FILTER (WHERE id < 4) FROM {t}", 2),
        ("SELECT count(nullif(id, 4)) FROM {t}", 9),
        ("SELECT max(count) FROM (SELECT count(*) AS count FROM {t} GROUP BY part)", 5),
        ("SELECT count(*) FROM (SELECT explode(array(1, id)) FROM {t})", 20),
        ("SELECT count(*) FROM (SELECT * FROM {t} LIMIT 3)", 3),
        ("SELECT count(*) FROM (SELECT DISTINCT part FROM {t})", 2),
        ("SELECT count(*) FROM {t} AS a JOIN {t} AS b USING (part)", 50),
        ("SELECT count(*) + count(id) FROM {t}", 20),
        ("SELECT max(id) FROM {t}", 18),  # 19 is behind a deletion vector
        ("SELECT max(part) FROM {t} WHERE id < 10", 0),
        ("SELECT max(-part) FROM {t}", 0),
        ("SELECT sum(part) FROM {t}", 5),
    ],
)
def test_rows_are_read_where_they_alone_can_tell(spark, table, query, count):
    found = spark.sql(query, t=load(spark, table))
    assert found.collect() == [(count,)]


def test_where_the_log_does_not_say_rows_are_read(spark, table):
    log = Path(table, "_delta_log", f"{1:020d}.json")
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("add", {}).pop("stats", None)
    log.write_text("\n".join(map(json.dumps, actions)))
    for checksum in Path(table, "_delta_log").glob("*.crc"):
        checksum.unlink()
    count = spark.read.format("adelta").option("versionAsOf", 1).load(table).groupBy().count()
    assert not is_answered(count)
    assert count.collect() == [(20,)]


def test_users_may_have_rows_read_all_the_same(spark, table):
    count = load(spark, table).select(f.count("*"))
    assert is_answered(count)
    spark.conf.set(ENABLED, "false")
    try:
        count = load(spark, table).select(f.count("*"))
        assert not is_answered(count)
        assert count.collect() == [(10,)]
    finally:
        spark.conf.unset(ENABLED)


DAYS = [date(1969, 12, 31), None, date(2026, 1, 2), date(9999, 12, 31)]


@pytest.fixture(params=["none", "name", "id"])
def values(request, tmp_path) -> str:
    """Rows of several types, in columns that are mapped by name, by id or not."""
    path = str(tmp_path / "values")
    mapping = {"delta.columnMapping.mode": request.param}
    rows = pa.table(
        {
            "part": ["b", "\u00e9", "b", None],
            "at": pa.array([date(2020, 1, 1), None, None, date(2021, 1, 1)]),
            "long": pa.array([2**63 - 1, -(2**63), None, 7]),
            "byte": pa.array([-128, 127, 0, 1], pa.int8()),
            "day": DAYS,
            "none": pa.array([None] * 4, pa.int32()),
            "real": [1.5, float("nan"), -0.0, 2.0],
            "text": ["x" * 40, "y", None, "z"],
            "time": pa.array([datetime(2026, 1, 1, 1, 1, 1, 1)] * 4, pa.timestamp("us", "UTC")),
        }
    )
    adelta.sync.write_table(path, rows, partition_by=["part", "at"], properties=mapping)
    return path


@pytest.mark.parametrize(
    ("column", "least", "greatest"),
    [
        ("part", "b", "\u00e9"),
        ("at", date(2020, 1, 1), date(2021, 1, 1)),
        ("long", -(2**63), 2**63 - 1),
        ("byte", -128, 127),
        ("day", date(1969, 12, 31), date(9999, 12, 31)),
        ("none", None, None),
    ],
)
def test_extremes_are_told_without_a_file(spark, values, column, least, greatest):
    query = f"SELECT min({column}) AS a, max({column}) AS b, count(*) AS n FROM {{t}}"
    found = spark.sql(query, t=load(spark, values))
    assert is_answered(found)
    for path in Path(values).rglob("*.parquet"):
        path.unlink()
    assert found.collect() == [(least, greatest, 4)]
    again = load(spark, values).agg(f.max(column).alias("m"), f.lit(1))
    assert again.collect() == [(greatest, 1)]


@pytest.mark.parametrize("column", ["real", "text", "time", "part || 'x'", "long % 5"])
def test_what_the_log_may_not_tell_exactly_is_read(spark, values, column):
    found = spark.sql(f"SELECT max({column}) FROM {{t}}", t=load(spark, values))
    assert not is_answered(found)
    assert len(found.collect()) == 1


def test_extremes_of_no_rows_are_null(spark, tmp_path):
    adelta.sync.create_table(str(tmp_path), pa.schema([("id", pa.int64())]))
    found = load(spark, str(tmp_path)).agg(f.min("id"), f.count("*"))
    assert is_answered(found)
    assert found.collect() == [(None, 0)]
