"""MERGE, OPTIMIZE, VACUUM, RESTORE, CLONE, CONVERT and GENERATE, as by delta-spark's users."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import functions as f

import adelta.sync
from adelta.spark import DeltaTable
from adelta.spark.task_executor import SparkTaskExecutor


@pytest.fixture
def path(spark, tmp_path) -> str:
    """Four files: ids from 0 to 19, each with the text of its number."""
    path = str(tmp_path / "t")
    for start in range(0, 20, 5):
        rows = spark.range(start, start + 5, numPartitions=1)
        rows = rows.selectExpr("id", "string(id) AS v", "id % 2 AS p")
        rows.write.format("adelta").mode("append").save(path)
    return path


def content(spark, path) -> dict[int, str]:
    return {row.id: row.v for row in spark.read.format("adelta").load(path).collect()}


def test_a_merge_takes_clauses_in_text_and_columns(spark, path, monkeypatch):
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)
    source = spark.createDataFrame(
        [(3, "three"), (4, "gone"), (30, "new"), (31, "no")], "id INT, v STRING"
    )
    target, source = DeltaTable.forPath(spark, path).alias("t"), source.alias("s")
    done = (
        target.merge(source, f.col("t.id") == f.col("s.id"))
        .whenMatchedDelete("s.v = 'gone'")
        .whenMatchedUpdate(set={"t.v": f.concat(f.col("s.v"), f.lit("!")), "p": "t.p + 1"})
        .whenNotMatchedInsert(f.col("s.v") != "no", {"id": "s.id", "v": f.col("s.v"), "p": "0"})
        .whenNotMatchedBySourceUpdate("t.id = 7", {"v": "'seven'"})
        .whenNotMatchedBySourceDelete(f.col("t.id") > 17)
        .execute()
    )
    assert [row.asDict() for row in done.collect()] == [
        {
            "num_affected_rows": 6,
            "num_updated_rows": 2,
            "num_deleted_rows": 3,
            "num_inserted_rows": 1,
        }
    ]
    expected = {n: str(n) for n in range(18)} | {3: "three!", 7: "seven", 30: "new"}
    del expected[4]
    assert content(spark, path) == expected
    assert adelta.sync.history(path)[0].operation == "MERGE"


def test_a_merge_of_all_columns_takes_in_new_ones_where_it_is_told_to(spark, path):
    source = spark.sql("SELECT 1L AS id, 'one' AS v, 0L AS p, 5 AS extra").alias("s")
    target = DeltaTable.forPath(spark, path).alias("t")
    merge = target.merge(source, "t.id = s.id").withSchemaEvolution()
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    row = spark.read.format("adelta").load(path).where("id = 1").first()
    assert (row.v, row.extra) == ("one", 5)
    with pytest.raises(TypeError, match="DataFrame"):
        target.merge("s", "true")
    with pytest.raises(IllegalArgumentException, match="'set' cannot be None"):
        target.merge(source, "t.id = s.id").whenMatchedUpdate()


def test_small_files_are_written_anew_and_old_ones_deleted(spark, path):
    table = DeltaTable.forPath(spark, path)
    before = content(spark, path)
    [done] = table.optimize().executeCompaction().collect()
    assert done.path.endswith("/t")
    assert (done.metrics.numFilesRemoved, done.metrics.numFilesAdded) == (4, 1)
    [done] = table.optimize().executeZOrderBy("id", "v").collect()
    assert done.metrics.zOrderStats is not None
    assert content(spark, path) == before
    of_rows = table.optimize().where("id = 1")
    with pytest.raises((AnalysisException, IllegalArgumentException), match="partition"):
        of_rows.executeCompaction()
    with pytest.raises(IllegalArgumentException, match="retention"):
        table.vacuum(0)
    assert table.vacuum().count() == 0
    spark.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    try:
        table.vacuum(0)
    finally:
        spark.conf.unset("spark.databricks.delta.retentionDurationCheck.enabled")
    assert len(list(Path(path).glob("*.parquet"))) == 1
    assert content(spark, path) == before


def test_a_table_becomes_again_what_it_was(spark, path):
    table = DeltaTable.forPath(spark, path)
    table.delete("id < 15")
    [done] = table.restoreToVersion(3).collect()
    assert done.num_of_files_after_restore == 4
    assert len(content(spark, path)) == 20
    shown = "date_format(timestamp, 'yyyy-MM-dd HH:mm:ss.SSS')"  # in the session's zone
    table.restoreToTimestamp(table.history().where("version = 0").selectExpr(shown).first()[0])
    assert sorted(content(spark, path)) == [0, 1, 2, 3, 4]


def test_a_table_is_cloned_and_a_folder_converted(spark, path, tmp_path):
    table = DeltaTable.forPath(spark, path)
    deep = table.clone(str(tmp_path / "deep"), False, properties={"mine": "1"})
    assert deep.toDF().count() == 20
    shallow = table.cloneAtVersion(1, f"delta.`{tmp_path}/shallow`", True)
    assert shallow.toDF().count() == 10
    spark.range(6).selectExpr("id", "id % 2 AS p").write.partitionBy("p").parquet(
        str(tmp_path / "raw")
    )
    found = DeltaTable.convertToDelta(spark, f"parquet.`{tmp_path}/raw`", "p BIGINT")
    assert found.toDF().where("p = 1").count() == 3
    found.generate("symlink_format_manifest")
    assert len(list((tmp_path / "raw" / "_symlink_format_manifest").glob("p=*/manifest"))) == 2
    with pytest.raises(IllegalArgumentException, match="no mode"):
        found.generate("else")
