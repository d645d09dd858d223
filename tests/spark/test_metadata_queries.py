"""Counts of all rows are answered from the log, and only those."""

from __future__ import annotations

import json
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
