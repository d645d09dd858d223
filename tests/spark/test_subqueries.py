"""DELETE and UPDATE whose conditions and values ask subqueries."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException

import adelta.sync

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> str:
    """Ids from 0 to 9 and null, each with n = 10 * id and m, which is null for every third."""
    name = f"adelta.`{tmp_path}/t`"
    spark.sql(
        f"CREATE TABLE {name} USING adelta AS SELECT id, id * 10 AS n,"
        " if(id % 3 = 0, NULL, id) AS m FROM (SELECT id FROM range(10) UNION ALL SELECT NULL)"
    )
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW asked AS SELECT * FROM VALUES (3L, 1), (4L, 2) AS a(id, n)"
    )
    return name


CONDITIONS = (
    "id IN (SELECT id FROM asked)",
    "id NOT IN (SELECT id FROM asked)",
    "id NOT IN (SELECT m FROM {table})",  # has nulls
    "m NOT IN (SELECT id FROM asked) OR m IN (SELECT n FROM asked)",
    "EXISTS (SELECT 1 FROM asked a WHERE a.n = x.id)",
    "NOT EXISTS (SELECT 1 FROM asked a WHERE a.id = m) AND id > 2",
    "n > (SELECT avg(n) FROM {table})",
    "n = (SELECT max(y.n) FROM {table} y WHERE y.id <= x.id)",
    "EXISTS (SELECT 1 FROM asked WHERE id = 4) AND id > (SELECT min(id) + 5 FROM {table})",
    "(SELECT count(*) FROM asked) = 3",
)


def test_those_rows_go_which_a_query_finds(spark, table, tmp_path):
    for condition in CONDITIONS:
        condition = condition.format(table=table)
        rows = spark.sql(f"SELECT * FROM {table} x").collect()
        found = spark.sql(f"SELECT * FROM {table} x WHERE {condition}").collect()
        [(count,)] = spark.sql(f"DELETE FROM {table} x WHERE {condition}").collect()
        assert count == len(found), condition
        left = spark.table(table).collect()
        assert sorted(map(str, left)) == sorted(set(map(str, rows)) - set(map(str, found))), (
            condition
        )
        if found:
            version = adelta.sync.history(f"{tmp_path}/t", 1)[0].version
            spark.read.format("adelta").option("versionAsOf", version - 1).load(
                f"{tmp_path}/t"
            ).write.format("adelta").mode("overwrite").save(f"{tmp_path}/t")


def test_values_are_what_subqueries_find_for_the_row(spark, table, tmp_path):
    smaller = f"(SELECT count(*) FROM {table} y WHERE y.id < x.id)"
    done = spark.sql(
        f"UPDATE {table} x SET n = {smaller}, m = m + (SELECT max(n) FROM asked)"
        f" WHERE id IN (SELECT id FROM {table} WHERE id > 6)"
    )
    assert done.collect() == [(3,)]
    found = sorted(map(tuple, spark.sql(f"SELECT * FROM {table} WHERE id > 5").collect()))
    assert found == [(6, 60, None), (7, 7, 9), (8, 8, 10), (9, 9, None)]
    [entry] = adelta.sync.history(f"{tmp_path}/t", 1)
    assert entry.operation == "UPDATE"
    assert entry.operation_metrics["numUpdatedRows"] == "3"
    assert spark.sql(f"UPDATE {table} SET m = (SELECT sum(n) FROM asked)").collect() == [(11,)]
    assert spark.sql(f"SELECT DISTINCT m FROM {table}").collect() == [(3,)]


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("id = (SELECT id FROM asked)", "SCALAR_SUBQUERY_TOO_MANY_ROWS"),
        ("id IN (SELECT id FROM asked) AND rand() < 2", "whenever it is computed"),
    ],
)
def test_what_has_no_one_answer_is_refused(spark, table, condition, message):
    with pytest.raises((AnalysisException, PySparkException), match=message):
        spark.sql(f"DELETE FROM {table} WHERE {condition}").collect()
    assert spark.table(table).count() == 11
