"""Batch writes that replace a part of the rows, or change the columns: delta-spark's options."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import adelta.sync
from adelta.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteReadError,
    InvalidOptionError,
)
from adelta.operations.distributed_write import commit_write
from adelta.spark.exceptions import ConcurrentDeleteReadException
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.source.writer import DeltaWriter
from adelta.spark.translate.types import arrow_schema
from adelta.sync._portal import call


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def pairs(path: str) -> list[tuple[int, str]]:
    """What another reader finds."""
    found = deltalake.DeltaTable(path).to_pyarrow_table().to_pydict()
    return sorted(zip(found["id"], found["p"], strict=True))


def last_commit(path: str) -> dict[str, object]:
    newest = max(Path(path, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    return next(a["commitInfo"] for a in actions if "commitInfo" in a)


def frame(spark, *rows: tuple[int, str]):
    return spark.createDataFrame(list(rows), "id long, p string").repartition(2)


def table(spark, path: str, **properties: str) -> None:
    """Rows 0 to 9 in the partitions a, b and c."""
    schema = "id long, p string"
    rows = [(i, "abc"[i % 3]) for i in range(10)]
    adelta.sync.create_table(
        path,
        arrow_schema(spark.createDataFrame([], schema).schema),
        partition_by=["p"],
        properties=properties,
    )
    frame(spark, *rows).write.format("adelta").mode("append").save(path)


def test_replace_where_replaces_the_rows_that_it_is_true_for(spark, path):
    table(spark, path)
    new = frame(spark, (7, "a"), (70, "b"), (71, "c"))
    writer = new.write.format("adelta").mode("overwrite").option("replaceWhere", "id >= 7")
    writer.save(path)
    assert pairs(path) == [(i, "abc"[i % 3]) for i in range(7)] + [(7, "a"), (70, "b"), (71, "c")]
    assert last_commit(path)["operationParameters"]["predicate"] == "id >= 7"


def test_a_row_that_replace_where_is_not_true_for_is_refused(spark, path):
    table(spark, path)
    before = pairs(path)
    writer = frame(spark, (3, "a")).write.format("adelta").mode("overwrite")
    with pytest.raises(PySparkException, match="id >= 7"):
        writer.option("replaceWhere", "id >= 7").save(path)
    assert pairs(path) == before


def test_a_session_without_the_constraint_check_writes_rows_outside_of_replace_where(spark, path):
    spark.range(10).write.format("adelta").save(path)
    setting = "spark.databricks.delta.replaceWhere.constraintCheck.enabled"
    spark.conf.set(setting, "false")
    try:
        writer = spark.createDataFrame([(1,), (70,)], "id long").write.format("adelta")
        writer.mode("overwrite").option("replaceWhere", "id >= 7").save(path)
    finally:
        spark.conf.unset(setting)
    rows = spark.read.format("adelta").load(path).sort("id").collect()
    assert [row.id for row in rows] == [0, 1, 1, 2, 3, 4, 5, 6, 70]


def test_replace_where_tells_the_change_feed_of_rows_that_go_and_come(spark, path):
    table(spark, path, **{"delta.enableChangeDataFeed": "true"})
    version = deltalake.DeltaTable(path).version()
    writer = frame(spark, (9, "z")).write.format("adelta").mode("overwrite")
    writer.option("replaceWhere", "id >= 9").save(path)
    feed = deltalake.DeltaTable(path).load_cdf(starting_version=version + 1).read_all()
    found = pa.table(feed).select(["id", "p", "_change_type"]).to_pylist()
    assert sorted(map(str, found)) == sorted(
        map(
            str,
            [
                {"id": 9, "p": "a", "_change_type": "delete"},
                {"id": 9, "p": "z", "_change_type": "insert"},
            ],
        )
    )


def test_a_dynamic_overwrite_replaces_the_partitions_of_the_new_rows(spark, path):
    table(spark, path)
    writer = frame(spark, (100, "a"), (101, "d")).write.format("adelta").mode("overwrite")
    writer.option("partitionOverwriteMode", "dynamic").save(path)
    kept = [(i, "abc"[i % 3]) for i in range(10) if i % 3]
    assert pairs(path) == [*kept, (100, "a"), (101, "d")]
    assert last_commit(path)["operationParameters"]["isDynamicPartitionOverwrite"] == "true"


def test_merge_schema_takes_in_new_columns(spark, path):
    table(spark, path)
    wider = spark.createDataFrame([(50, "a", 1.5)], "id long, p string, score double")
    with pytest.raises(PySparkException, match="score"):
        wider.write.format("adelta").mode("append").save(path)
    wider.write.format("adelta").mode("append").option("mergeSchema", "true").save(path)
    found = spark.read.format("adelta").load(path)
    assert found.columns == ["id", "p", "score"]
    assert found.where("score is not null").collect() == [(50, "a", 1.5)]
    assert found.count() == 11


def test_overwrite_schema_replaces_the_columns_and_the_partitioning(spark, path):
    table(spark, path)
    other = spark.createDataFrame([(1, 2)], "x int, y int")
    writer = other.write.format("adelta").mode("overwrite").option("overwriteSchema", "true")
    writer.option("partitionBy", "y").save(path)
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["y"]
    assert spark.read.format("adelta").load(path).collect() == [(1, 2)]


def test_overwrite_schema_without_partitions_leaves_the_table_with_none(spark, path):
    table(spark, path)
    writer = frame(spark, (7, "a")).write.format("adelta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(path)
    assert deltalake.DeltaTable(path).metadata().partition_columns == []
    assert pairs(path) == [(7, "a")]

    table(spark, f"{path}2")
    writer = frame(spark, (7, "a")).drop("p").write.format("adelta").mode("overwrite")
    writer.option("overwriteSchema", "true").save(f"{path}2")
    assert deltalake.DeltaTable(f"{path}2").metadata().partition_columns == []


def test_a_write_of_an_old_plan_does_not_undo_a_commit_that_came_between(spark, path):
    """The plan's version is what the replacement is judged against."""
    table(spark, path)
    options = WriteOptions.parse({"path": path, "replaceWhere": "p = 'a'"})
    schema = frame(spark, (1, "a")).schema
    job = DeltaWriter.plan(options, schema, overwrite=True).job
    frame(spark, (500, "a")).write.format("adelta").mode("append").save(path)
    with pytest.raises(ConcurrentAppendError):
        call(commit_write, job, [])
    assert (500, "a") in pairs(path)


def test_sessions_that_overwrite_partitions_replace_tables_without_any_with_their_schema(
    spark, path
):
    table(spark, path)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        writer = frame(spark, (7, "a")).write.format("adelta").mode("overwrite")
        writer.option("overwriteSchema", "true").save(path)
        assert pairs(path) == [(7, "a")]
        with pytest.raises(InvalidOptionError, match=r"add \.option"):
            writer.option("overwriteSchema", "true").partitionBy("p").save(path)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert pairs(path) == [(7, "a")]


def test_overwrite_schema_may_take_the_columns_away_that_cluster_the_table(spark, path):
    schema = arrow_schema(spark.createDataFrame([], "id long, p string").schema)
    adelta.sync.create_table(path, schema, cluster_by=["id"]).close()
    writer = spark.createDataFrame([(1,)], "other long").write.format("adelta").mode("overwrite")
    writer.option("overwriteSchema", True).save(path)
    assert [row.asDict() for row in spark.read.format("adelta").load(path).collect()] == [
        {"other": 1}
    ]
    assert not adelta.sync.detail(path).clustering_columns


def test_a_writer_that_loses_hears_of_it_by_delta_sparks_exception(spark, path):
    table(spark, path)

    def with_another_writer(batches):
        for number, batch in enumerate(batches):
            if not number:
                adelta.sync.delete(path, "id = 1")
            yield batch

    late = spark.sql("SELECT 50L AS id, 'a' AS p").mapInArrow(
        with_another_writer, "id long, p string"
    )
    with pytest.raises(ConcurrentDeleteReadException) as caught:
        late.write.format("adelta").mode("overwrite").option("replaceWhere", "id > 0").save(path)
    assert isinstance(caught.value, ConcurrentDeleteReadError)
    assert [id for id, _ in pairs(path)] == [0, 2, 3, 4, 5, 6, 7, 8, 9]
