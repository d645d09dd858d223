"""Tables in the session's own catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import adelta.sync
from tests.spark.collected import rows

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


pytestmark = pytest.mark.usefixtures("as_delta")


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A database of the session's, in a folder of its own."""
    spark.sql(f"CREATE DATABASE names LOCATION '{tmp_path}/names'")
    yield "names"
    spark.sql("DROP DATABASE names CASCADE")


def test_a_managed_table_lives_and_goes_with_its_entry(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {db}.t (id BIGINT, v STRING) USING adelta COMMENT 'mine'")
    spark.sql(f"INSERT INTO {db}.t VALUES (1, 'a')")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        spark.sql(f"CREATE TABLE {db}.t (id INT) USING adelta")
    assert rows(spark.newSession().table(f"{db}.t")) == [(1, "a")]
    assert spark.catalog.getTable(f"{db}.t").tableType == "MANAGED"
    spark.catalog.refreshTable(f"{db}.t")
    [(place,)] = (
        spark.sql(f"DESCRIBE EXTENDED {db}.t").where("col_name = 'Location'").select("data_type")
    ).collect()
    assert place == f"file:{tmp_path}/names/t"
    spark.sql(f"ALTER TABLE {db}.t RENAME TO {db}.renamed")
    listed = [t.name for t in spark.catalog.listTables(db) if not t.isTemporary]
    assert listed == ["renamed"]
    spark.sql(f"UPDATE {db}.renamed SET v = 'b'")
    assert rows(spark.table(f"{db}.renamed")) == [(1, "b")]
    assert adelta.sync.open_table(str(tmp_path / "names" / "renamed")).snapshot().version == 2
    spark.sql(f"DROP TABLE {db}.renamed")
    assert not (tmp_path / "names" / "renamed").exists()
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table(f"{db}.renamed")


def test_an_external_table_stays_where_it_is(spark: SparkSession, db: str, tmp_path: Path) -> None:
    place = tmp_path / "out side"
    query = "SELECT id, id % 2 AS p FROM range(4)"
    options = "TBLPROPERTIES ('delta.appendOnly' = 'false')"
    layout = f"PARTITIONED BY (p) LOCATION '{place}'"
    spark.sql(f"CREATE TABLE {db}.a USING delta {layout} {options} AS {query}")
    spark.sql(f"CREATE TABLE {db}.b USING delta LOCATION '{place}'")
    spark.sql(f"DROP TABLE {db}.a")
    assert rows(spark.sql(f"SELECT p, sum(id) FROM {db}.b GROUP BY p")) == [(0, 2), (1, 4)]
    found = adelta.sync.open_table(str(place)).snapshot()
    assert found.partition_columns == ("p",)
    assert found.properties["delta.appendOnly"] == "false"
    with pytest.raises(AnalysisException, match="other columns"):
        spark.sql(f"CREATE TABLE {db}.c (other INT) USING delta LOCATION '{place}'")
    assert not spark.catalog.tableExists(f"{db}.c")


def test_tables_are_replaced_in_one_commit(spark: SparkSession, db: str, tmp_path: Path) -> None:
    def snapshot() -> adelta.sync.Snapshot:
        return adelta.sync.open_table(str(tmp_path / "names" / "t")).snapshot()

    spark.sql(
        f"CREATE OR REPLACE TABLE {db}.t USING adelta COMMENT 'one'"
        " TBLPROPERTIES ('delta.dataSkippingNumIndexedCols' = '3') AS SELECT 1 AS a"
    )
    assert (snapshot().version, snapshot().metadata.description) == (0, "one")
    spark.sql(
        f"CREATE OR REPLACE TABLE {db}.t USING adelta PARTITIONED BY (z) COMMENT 'two'"
        " TBLPROPERTIES ('owner.team' = 'x') AS SELECT 2 AS z, 3 y"
    )
    found = snapshot()
    assert (found.version, found.metadata.description) == (1, "two")
    assert found.partition_columns == ("z",)
    assert dict(found.properties) == {"owner.team": "x"}
    spark.range(2).writeTo(f"{db}.t").using("adelta").replace()
    assert rows(spark.table(f"{db}.t")) == [(0,), (1,)]
    assert (snapshot().partition_columns, dict(snapshot().properties)) == ((), {})
    spark.sql(
        f"REPLACE TABLE {db}.t (q STRING NOT NULL, r INT DEFAULT 5) USING adelta"
        " TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported', 'k' = 'v')"
    )
    assert spark.table(f"{db}.t").columns == ["q", "r"]
    assert not snapshot().schema.field("q").nullable
    assert snapshot().properties["k"] == "v"
    spark.sql(f"INSERT INTO {db}.t (q) VALUES ('x')")
    assert rows(spark.table(f"{db}.t")) == [("x", 5)]
    assert adelta.sync.history(str(tmp_path / "names" / "t"))[2].operation == (
        "REPLACE TABLE AS SELECT"
    )
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.sql(f"REPLACE TABLE {db}.none (q STRING) USING adelta")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        spark.sql(f"CREATE TABLE {db}.failed USING adelta AS SELECT 1 / id AS x FROM range(1)")
    assert not spark.catalog.tableExists(f"{db}.failed")


def test_writers_save_under_names(spark: SparkSession, db: str, tmp_path: Path) -> None:
    name, df = f"{db}.t", spark.range(3).selectExpr("id", "id % 2 AS p")
    df.write.format("delta").partitionBy("p").option("delta.appendOnly", "false").saveAsTable(name)
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        df.write.format("delta").saveAsTable(name)
    df.write.format("delta").mode("ignore").saveAsTable(name)
    df.write.format("delta").partitionBy("p").mode("append").saveAsTable(name)
    df.limit(1).write.insertInto(name)
    assert spark.table(name).count() == 7
    df.select("p", "id").write.mode("append").saveAsTable(name)  # whatever the default format is
    assert spark.table(name).count() == 10
    replaced = df.where("p = 1").write.format("delta").mode("overwrite")
    replaced.option("replaceWhere", "p = 1").saveAsTable(name)
    assert rows(spark.sql(f"SELECT p, count(*) FROM {name} GROUP BY p")) == [(0, 7), (1, 1)]
    df.limit(1).write.format("delta").mode("overwrite").saveAsTable(name)
    table = adelta.sync.open_table(str(tmp_path / "names" / "t")).snapshot()
    assert table.partition_columns == ("p",)
    assert table.properties["delta.appendOnly"] == "false"
    df.writeTo(name).overwrite(f.col("p").isNotNull())
    assert spark.table(name).count() == 3
    outside = str(tmp_path / "outside")
    df.write.format("adelta").option("path", outside).saveAsTable(f"{db}.ext")
    assert adelta.sync.open_table(outside).snapshot().version == 0


def test_other_formats_are_as_they_were(spark: SparkSession, db: str) -> None:
    spark.sql(f"CREATE TABLE {db}.p USING parquet AS SELECT 1 AS x")
    spark.sql(f"INSERT INTO {db}.p VALUES (2)")
    assert rows(spark.table(f"{db}.p")) == [(1,), (2,)]
    spark.sql(f"CREATE VIEW {db}.v AS SELECT x + 1 AS y FROM {db}.p")
    assert rows(spark.table(f"{db}.v")) == [(2,), (3,)]


def test_a_table_of_another_format_is_not_lost_to_a_replacement(
    spark: SparkSession, db: str, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE {db}.p USING parquet AS SELECT 1 AS x")
    for statement in (
        f"CREATE OR REPLACE TABLE {db}.p USING adelta AS SELECT 2 AS x",
        f"CREATE OR REPLACE TABLE {db}.p USING adelta LOCATION '{tmp_path}/names/p/in' AS SELECT 2",
    ):
        with pytest.raises(AnalysisException, match="drop it first"):
            spark.sql(statement)
    assert rows(spark.table(f"{db}.p")) == [(1,)]
    place = f"LOCATION '{tmp_path}/beside'"
    spark.sql(f"CREATE OR REPLACE TABLE {db}.p USING adelta {place} AS SELECT 2 AS x")
    assert rows(spark.table(f"{db}.p")) == [(2,)]
    assert not (tmp_path / "names" / "p").exists()
