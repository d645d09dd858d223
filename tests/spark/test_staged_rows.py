"""The source of a merge: computed once by Spark's tasks, and read where they have laid it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import adelta.sync
from adelta.spark import DeltaTable
from adelta.spark.cluster import staged_rows
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.sync._portal import call


@pytest.fixture
def path(tmp_path: Path) -> str:
    path = str(tmp_path / "t")
    adelta.sync.sql(f"CREATE TABLE '{path}' (id BIGINT, r DOUBLE, `a.b` STRING, n BIGINT)")
    return path


def test_many_rows_wait_in_files_that_go_when_they_were_read(spark, path):
    source = spark.range(6000).select("id", f.repeat("id", 20).alias("a.b"), f.lit(None).alias("n"))
    staged = staged_rows.staged_rows(spark, source, path)
    assert list(staged.schema.names) == ["id", "a.b", "n"]

    there: list[bool] = []

    def look() -> None:
        there.append(any(Path(path).glob("adelta-rows-*/*.parquet")))

    async def seen() -> set[int]:
        ids = set[int]()
        async for batch in staged.batches:
            ids |= set(batch.column("id").to_pylist())
            look()
        return ids

    assert call(seen) == set(range(6000))
    assert set(there) == {True}
    assert list(Path(path).glob("adelta-rows-*")) == []
    few = staged_rows.staged_rows(spark, spark.range(3).where("id > 5"), path)

    async def none() -> int:
        return sum([batch.num_rows async for batch in few.batches])

    assert call(none) == 0


def test_a_source_is_computed_once_and_shared_by_all_tasks(spark, path, monkeypatch):
    for start in (0, 4000):
        rows = spark.range(start, start + 4000, 1, 1).selectExpr("id", "0D AS r", "'' AS `a.b`")
        rows.withColumn("n", f.lit(0).cast("long")).write.format("adelta").mode("append").save(path)
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)  # a task for each file
    source = spark.range(2000, 10000).withColumn("r", f.rand()).withColumn("n", f.col("r") * 1e9)
    merge = DeltaTable.forPath(spark, path).alias("t").merge(source.alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate("s.r < 0.5", {"r": "s.r", "n": "CAST(s.n AS BIGINT)"})
    merge = merge.whenMatchedDelete()
    new = {"id": "s.id", "r": "s.r", "n": "CAST(s.n AS BIGINT)"}
    [done] = merge.whenNotMatchedInsert(values=new).execute().collect()
    assert done.num_updated_rows + done.num_deleted_rows == 6000
    assert done.num_inserted_rows == 2000
    found = adelta.sync.open_table(path).snapshot().scan().to_arrow()
    assert found.num_rows == 10000 - done.num_deleted_rows
    values = found.select(["r", "n"]).to_pylist()
    assert all(abs(row["r"] * 1e9 - row["n"]) < 1 for row in values)
    assert list(Path(path).glob("adelta-rows-*")) == []


def test_a_source_that_fails_leaves_nothing(spark, path):
    source = spark.range(20000).select("id", f.repeat("id", 20).alias("a.b"))
    source = source.where(f.expr("id < 19999 OR raise_error('broken') IS NULL"))
    merge = DeltaTable.forPath(spark, path).merge(source, "target.id = source.id")
    with pytest.raises(PySparkException, match="broken"):
        merge.whenNotMatchedInsert(values={"id": "source.id"}).execute()
    assert [each.name for each in Path(path).iterdir()] == ["_delta_log"]
