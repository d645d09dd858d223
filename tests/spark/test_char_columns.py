"""Changes of rows find by columns of char(n) what SELECT finds, with blanks stored or without."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta.sync as adelta
from adelta.spark import DeltaTable

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("as_delta")

CONDITIONS = (
    "c = 'a'",
    "'a   ' = c",
    "c <=> 'a '",
    "c <> 'a'",
    "c IN ('a', 'bb')",
    "c NOT IN ('a', 'zz')",
    "c > 'a'",
    "c >= 'a' AND 'bb' >= c",
    "c LIKE 'a'",
    "c LIKE 'a%'",
    "length(c) = 3",
    "s.k = 'x'",
    "s.k = 'x '",
    "v = 'a'",
    "c IS NULL OR c = 'ccc'",
    "c BETWEEN 'a' AND 'bb'",
    "c NOT BETWEEN 'a' AND 'bb'",
    "c BETWEEN 'a  ' AND 'bb '",
    "c = d",
    "c <=> d",
    "d < c",
    "c BETWEEN d AND d",
    "c = concat('a', '')",
    "c > lower('A')",
    "c IN ('ccc', trim(' a '))",
)
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4, 5], pa.int32()),
        "c": ["a", "a  ", "bb", "ccc", None],
        "s": pa.array([{"k": "x"}, {"k": "x "}, None, {"k": "xy"}, {"k": None}]),
        "v": ["a", "a ", None, "b", "a"],
        "d": ["a    ", "b", "bb", "cc", None],
        "hit": pa.array([None] * 5, pa.int32()),
    }
)


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> str:
    columns = "id INT, c CHAR(3), s STRUCT<k: CHAR(2)>, v VARCHAR(3), d CHAR(5), hit INT"
    spark.sql(f"CREATE TABLE delta.`{tmp_path}` ({columns}) USING delta")
    adelta.write_table(str(tmp_path), ROWS)  # as they are
    return str(tmp_path)


def found(spark: SparkSession, place: str, condition: str) -> list[int]:
    rows = spark.sql(f"SELECT id FROM delta.`{place}` WHERE {condition} ORDER BY id").collect()
    return [row.id for row in rows]


def by_statement(spark: SparkSession, place: str, condition: str, hit: int) -> None:
    spark.sql(f"UPDATE delta.`{place}` SET hit = {hit} WHERE {condition}")


def by_method(spark: SparkSession, place: str, condition: str, hit: int) -> None:
    DeltaTable.forPath(spark, place).update(condition, {"hit": str(hit)})


def by_merge(spark: SparkSession, place: str, condition: str, hit: int) -> None:
    of_target = condition.replace("c ", "t.c ", 1) if condition.startswith("c ") else condition
    spark.sql(
        f"MERGE INTO delta.`{place}` AS t USING (SELECT {hit} AS n) AS q ON {of_target} "
        "WHEN MATCHED THEN UPDATE SET hit = n"
    )


def by_builder(spark: SparkSession, place: str, condition: str, hit: int) -> None:
    source = spark.sql(f"SELECT {hit} AS n")
    merge = DeltaTable.forPath(spark, place).alias("t").merge(source.alias("q"), condition)
    merge.whenMatchedUpdate(set={"hit": "q.n"}).execute()


@pytest.mark.parametrize("change", [by_statement, by_method, by_merge, by_builder])
def test_a_change_is_about_the_rows_that_a_query_finds(
    spark: SparkSession, place: str, change: Any
):
    expected, hits = {}, {}
    for hit, condition in enumerate(CONDITIONS):
        expected[condition] = found(spark, place, condition)
        change(spark, place, condition, hit)
        rows = adelta.open_table(place).snapshot().scan(["id", "hit"]).to_arrow().to_pylist()
        hits[condition] = sorted(row["id"] for row in rows if row["hit"] == hit)
    assert hits == expected
    assert expected["c = 'a'"] == [1, 2]


def test_rows_are_deleted_by_them(spark: SparkSession, place: str):
    for condition in ("c IN (SELECT 'bb' AS n)", "c IN (SELECT 'a  ' AS n)", "upper(c) = 'CCC'"):
        meant = found(spark, place, condition)
        left = [row for row in found(spark, place, "true") if row not in meant]
        spark.sql(f"DELETE FROM delta.`{place}` WHERE {condition}")
        assert found(spark, place, "true") == left
    assert left == [3, 5]
    spark.sql(f"DELETE FROM delta.`{place}` WHERE c IN (SELECT 'bb ' AS n)")
    assert found(spark, place, "true") == [5]


def test_a_session_may_compare_what_is_stored(spark: SparkSession, place: str):
    spark.conf.set("spark.sql.readSideCharPadding", "false")
    try:
        DeltaTable.forPath(spark, place).delete("c = 'a'")
    finally:
        spark.conf.unset("spark.sql.readSideCharPadding")
    assert found(spark, place, "true") == [2, 3, 4, 5]
