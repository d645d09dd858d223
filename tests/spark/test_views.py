"""DELETE, UPDATE, MERGE and INSERT through temporary views."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException

from tests.spark.collected import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("as_delta")


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The path of a table; `loaded` and `chosen` are views of it, and `late` are other rows."""
    path = str(tmp_path / "t")
    written = spark.range(4).selectExpr("id", "id * 10 AS v").coalesce(1)
    written.write.format("delta").save(path)
    spark.read.format("delta").load(path).createOrReplaceTempView("loaded")
    spark.sql(f"CREATE OR REPLACE TEMP VIEW chosen AS SELECT * FROM delta.`{path}`")
    spark.range(3, 5).selectExpr("id", "-id AS v").createOrReplaceTempView("late")
    yield path
    for name in ("loaded", "chosen", "late"):
        spark.catalog.dropTempView(name)


def now(spark: SparkSession, path: str) -> list[tuple[object, ...]]:
    return rows(spark.read.format("delta").load(path))


@pytest.mark.parametrize("view", ["loaded", "chosen"])
def test_rows_are_changed_through_views_of_all_columns(
    spark: SparkSession, table: str, view: str
) -> None:
    assert rows(spark.sql(f"DELETE FROM {view} WHERE id = 0")) == [(1,)]
    assert rows(spark.sql(f"UPDATE {view} SET v = v + id WHERE id = 1")) == [(1,)]
    merge = f"MERGE INTO {view} t USING late s ON t.id = s.id "
    merge += "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id + 1)"
    assert rows(spark.sql(merge)) == [(2, 1, 0, 1)]
    assert now(spark, table) == [(1, 11), (2, 20), (3, -3), (5, None)]


def test_a_merge_through_a_view_may_have_that_view_as_its_source(
    spark: SparkSession, table: str
) -> None:
    merge = "MERGE INTO chosen t USING chosen s ON t.id = s.id + 1 "
    spark.sql(merge + "WHEN MATCHED THEN UPDATE SET v = s.v")
    assert now(spark, table) == [(0, 0), (1, 0), (2, 10), (3, 20)]


def test_columns_that_a_view_renames_or_computes_are_the_table_s(
    spark: SparkSession, table: str
) -> None:
    spark.sql(
        "CREATE OR REPLACE TEMP VIEW swapped AS SELECT id AS v, v AS id, v + 1 AS more FROM chosen"
    )
    assert rows(spark.sql("DELETE FROM swapped WHERE more = 11")) == [(1,)]
    assert rows(spark.sql("UPDATE swapped SET id = more WHERE v = 2")) == [(1,)]
    assert rows(spark.sql("DELETE FROM swapped WHERE v IN (SELECT id FROM late)")) == [(1,)]
    assert now(spark, table) == [(0, 0), (2, 21)]
    with pytest.raises(
        AnalysisException, match=r"DELTA_UNSUPPORTED_SOURCE.*which the view computes"
    ):
        spark.sql("UPDATE swapped SET more = 1")
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_SOURCE"):
        spark.sql("MERGE INTO swapped t USING late s ON t.id = s.id WHEN MATCHED THEN DELETE")


def test_rows_are_inserted_into_views_of_what_was_loaded(spark: SparkSession, table: str) -> None:
    spark.sql("INSERT INTO loaded (id) VALUES (9)")
    assert now(spark, table)[-1] == (9, None)
    spark.sql("INSERT OVERWRITE loaded VALUES (7, 8)")
    assert now(spark, table) == [(7, 8)]
    with pytest.raises(AnalysisException, match="EXPECT_TABLE_NOT_VIEW"):
        spark.sql("INSERT INTO chosen VALUES (7, 8)")  # of no view in SQL, as Spark has it


@pytest.mark.parametrize(
    ("query", "condition"),
    [
        ("SELECT * FROM chosen WHERE id > 1", "DELTA_UNEXPECTED_PARTIAL_SCAN"),
        ("SELECT DISTINCT * FROM chosen", "DELTA_UNSUPPORTED_SOURCE"),
        ("SELECT id, rand() AS v FROM chosen", "DELTA_UNSUPPORTED_SOURCE"),
        (
            "SELECT * FROM delta.`{table}` VERSION AS OF 0",
            "DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION",
        ),
    ],
)
def test_other_views_are_refused_by_a_condition_of_delta_spark_s(
    spark: SparkSession, table: str, query: str, condition: str
) -> None:
    spark.sql(f"CREATE OR REPLACE TEMP VIEW other AS {query.format(table=table)}")
    for statement in (
        "DELETE FROM other WHERE id = 1",
        "UPDATE other SET v = 1",
        "MERGE INTO other t USING late s ON t.id = s.id WHEN MATCHED THEN DELETE",
    ):
        with pytest.raises(AnalysisException) as refused:
            spark.sql(statement)
        assert refused.value.getCondition() == condition
    assert now(spark, table) == [(0, 0), (1, 10), (2, 20), (3, 30)]


def test_a_view_of_an_earlier_version_changes_nothing(spark: SparkSession, table: str) -> None:
    old = spark.read.format("delta").option("versionAsOf", 0).load(table)
    old.createOrReplaceTempView("old")
    with pytest.raises(AnalysisException, match="DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"):
        spark.sql("DELETE FROM old")
    with pytest.raises(AnalysisException, match="DELTA_FAILED_SCAN_WITH_HISTORICAL_VERSION"):
        spark.sql("INSERT INTO old VALUES (1, 2)")
