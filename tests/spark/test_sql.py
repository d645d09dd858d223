"""`adelta.spark.sql` in a classic session: statements of Delta's own, and all others Spark's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ParseException

import adelta.spark
import adelta.sync

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """A table of the session's catalog, with two rows."""
    spark.sql(f"CREATE DATABASE statements LOCATION '{tmp_path}/statements'")
    spark.sql("CREATE TABLE statements.t (id BIGINT, v STRING) USING adelta")
    spark.sql("INSERT INTO statements.t VALUES (1, 'a'), (2, 'b')")
    yield "statements.t"
    spark.sql("DROP DATABASE statements CASCADE")


def test_statements_of_deltas_own_are_run_by_name_and_by_path(spark, table, tmp_path):
    history = adelta.spark.sql(spark, f"DESCRIBE HISTORY {table} LIMIT 1")
    assert history.columns == adelta.spark.DeltaTable.forName(spark, table).history().columns
    assert [row.operation for row in history.collect()] == ["WRITE"]
    spark.catalog.setCurrentDatabase("statements")
    try:
        [detail] = adelta.spark.sql(spark, "DESC DETAIL t").collect()
    finally:
        spark.catalog.setCurrentDatabase("default")
    assert detail.name == "spark_catalog.statements.t"
    [same] = adelta.spark.sql(spark, f"DESCRIBE DETAIL '{tmp_path}/statements/t'").collect()
    assert (same.id, same.name) == (detail.id, None)
    adelta.spark.DeltaTable.forName(spark, table).addFeatureSupport("vacuumProtocolCheck")
    drop = f"ALTER TABLE {table} DROP FEATURE vacuumProtocolCheck TRUNCATE HISTORY"
    assert adelta.spark.sql(spark, drop).collect() == []
    place = f"LOCATION '{tmp_path}/mapped' TBLPROPERTIES ('delta.columnMapping.mode' = 'name')"
    text = f"CREATE TABLE statements.mapped (s STRUCT<a: INT>) USING adelta {place}"
    adelta.spark.sql(spark, text)
    place = f"LOCATION '{tmp_path}/alike'"
    adelta.spark.sql(spark, f"CREATE TABLE statements.alike LIKE statements.mapped {place}")
    assert spark.table("statements.alike").schema == spark.table("statements.mapped").schema


def test_all_other_statements_are_sparks(spark, table):
    assert adelta.spark.sql(spark, f"DELETE FROM {table} WHERE id = 1").collect() == [(1,)]
    assert adelta.spark.sql(spark, f"SELECT id + ? FROM {table}", [1]).collect() == [(3,)]
    adelta.spark.sql(spark, f"ALTER TABLE {table} ADD CONSTRAINT positive CHECK (id > 0)")
    assert adelta.spark.sql(spark, "SELECT stack(2, 1, 2)").count() == 2
    with pytest.raises(ParseException):
        adelta.spark.sql(spark, "SELEC 1")


def test_errors_are_sparks_too(spark, table):
    with pytest.raises(ParseException, match="end of the statement, found 'LIMITED'"):
        adelta.spark.sql(spark, f"DESCRIBE HISTORY {table} LIMITED 3")
    spark.range(1).createOrReplaceTempView("a_view_of_statements")
    with pytest.raises(AnalysisException, match="is a view"):
        adelta.spark.sql(spark, "DESCRIBE HISTORY a_view_of_statements")
    with pytest.raises(AnalysisException, match="not a Delta table"):
        adelta.spark.sql(spark, "DESCRIBE DETAIL statements.nothing")


def test_the_sessions_own_sql_may_be_hooked(spark, table):
    with pytest.raises(AnalysisException):
        spark.sql(f"DESCRIBE HISTORY {table}").collect()
    adelta.spark.register(spark, sql=True)
    try:
        assert spark.sql(f"DESCRIBE HISTORY {table}").count() == 2
        assert spark.sql("SELECT id FROM {t} ORDER BY id", t=spark.table(table)).count() == 2
        assert spark.sql(f"SELECT v FROM {table} WHERE id = :id", {"id": 2}).collect() == [("b",)]
    finally:
        adelta.spark.register(spark)
    with pytest.raises(AnalysisException):
        spark.sql(f"DESCRIBE HISTORY {table}").collect()


def test_rows_are_merged(spark, table):
    spark.sql("CREATE OR REPLACE TEMP VIEW news AS SELECT 2L AS id, 'B' AS v UNION SELECT 3L, 'C'")
    merge = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    text = f"MERGE INTO {table} USING news ON t.id = news.id {merge}"
    assert adelta.spark.sql(spark, text).collect() == [(2, 1, 0, 1)]
    source = f"(SELECT id, upper(v) AS v FROM {table} WHERE id = 1) s"
    text = f"MERGE INTO {table} AS o USING {source} ON o.id = s.id {merge}"
    [row] = adelta.spark.sql(spark, text).collect()
    assert row.num_updated_rows == 1
    assert [row.v for row in spark.table(table).orderBy("id").collect()] == ["A", "B", "C"]


def test_tables_are_cloned_under_names_and_elsewhere(spark, table, tmp_path):
    def sql(text):
        return [tuple(row) for row in adelta.spark.sql(spark, text).collect()]

    assert sql(f"CREATE TABLE statements.copy CLONE {table} VERSION AS OF 0")[0][1] == 0
    assert sql(f"CREATE TABLE IF NOT EXISTS statements.copy CLONE {table}") == []
    with pytest.raises(AnalysisException, match="already exists"):
        sql(f"CREATE TABLE statements.copy CLONE {table}")
    [copied] = sql(f"CREATE OR REPLACE TABLE statements.copy DEEP CLONE {table}")
    assert copied[3] == copied[1] > 0
    assert spark.table("statements.copy").count() == 2
    sql(f"CREATE TABLE statements.there CLONE {table} LOCATION '{tmp_path}/there'")
    [detail] = sql("DESCRIBE DETAIL statements.there")
    assert detail[4].endswith(f"{tmp_path}/there")
    assert sql(f"CREATE TABLE delta.`{tmp_path}/near` SHALLOW CLONE statements.there")[0][3] == 0
    with pytest.raises(AnalysisException, match="not a Delta table"):
        sql("CREATE TABLE statements.none CLONE statements.nothing")
    with pytest.raises(AnalysisException, match="cannot be replaced"):
        sql(f"REPLACE TABLE statements.none CLONE {table}")
    assert not spark.catalog.tableExists("statements.none")


def test_sessions_of_the_same_application_hand_over_their_statements_too(spark, tmp_path):
    path, seen = f"{tmp_path}/t", []
    spark.range(2).write.format("adelta").save(path)

    def look(df, _):
        seen.append(df.sparkSession.sql(f"DESCRIBE HISTORY adelta.`{path}`").count())

    adelta.spark.register(spark, sql=True)
    try:
        assert spark.newSession().sql(f"DESCRIBE HISTORY adelta.`{path}`").count() == 1
        writer = spark.readStream.format("adelta").load(path).writeStream.foreachBatch(look)
        writer = writer.option("checkpointLocation", f"{tmp_path}/c").trigger(availableNow=True)
        writer.start().awaitTermination(300)
        other = spark.newSession()
        adelta.spark.register(other)
        with pytest.raises(ParseException):
            other.sql(f"VACUUM adelta.`{path}`")
    finally:
        adelta.spark.register(spark)
    assert seen == [1]
    with pytest.raises(ParseException):
        spark.newSession().sql(f"VACUUM adelta.`{path}`")


def test_statements_of_deltas_own_are_carried_out_by_tasks(spark, tmp_path):
    for _ in range(2):
        rows = spark.range(4, numPartitions=1).selectExpr("id", "id % 2 AS p")
        rows.write.format("adelta").partitionBy("p").mode("append").save(f"{tmp_path}/t")
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup())
    [done] = adelta.spark.sql(spark, f"OPTIMIZE '{tmp_path}/t'").collect()
    assert (done.metrics.numFilesAdded, done.metrics.numFilesRemoved) == (2, 4)
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) > jobs


def test_tables_are_kept_up(spark, table, tmp_path):
    spark.sql(f"INSERT INTO {table} VALUES (3, 'c')")
    [done] = adelta.spark.sql(spark, f"OPTIMIZE {table}").collect()
    assert (done.metrics.numFilesAdded, done.metrics.filesRemoved.totalFiles > 1) == (1, True)
    adelta.spark.sql(spark, f"GENERATE symlink_format_manifest FOR TABLE {table}")
    [done] = adelta.spark.sql(spark, f"RESTORE {table} TO VERSION AS OF 1").collect()
    assert done.num_removed_files == 1
    assert spark.table(table).count() == 2
    assert adelta.spark.sql(spark, f"VACUUM {table} RETAIN 168 HOURS DRY RUN").columns == ["path"]
    spark.range(3).write.parquet(f"{tmp_path}/plain")
    adelta.spark.sql(spark, f"CONVERT TO DELTA parquet.`{tmp_path}/plain`")
    assert adelta.spark.DeltaTable.forPath(spark, f"{tmp_path}/plain").toDF().count() == 3
