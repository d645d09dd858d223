"""What readers and writers of a registered session can do that those of others cannot."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
from concurrent.futures import ThreadPoolExecutor
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f

import adelta.spark
import adelta.sync
from adelta.errors import InvalidOptionError, InvariantViolationError


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def rows(path) -> list[tuple]:
    with adelta.sync.open_table(path) as table:
        found = table.snapshot().scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def snapshot(path):
    with adelta.sync.open_table(path) as table:
        return table.snapshot()


def numbers(spark, *ids):
    return spark.createDataFrame([(i, i % 3) for i in ids], "id long, part long")


def test_writers_have_all_modes(spark, path):
    numbers(spark, 1).write.format("adelta").save(path)
    with pytest.raises(AnalysisException, match="there is a Delta table"):
        numbers(spark, 2).write.format("adelta").save(path)
    with pytest.raises(AnalysisException, match="there is a Delta table"):
        numbers(spark, 2).write.save(path, format="adelta", mode="errorifexists")
    numbers(spark, 3).write.format("adelta").mode("ignore").save(path)
    assert rows(path) == [(1, 1)]
    numbers(spark, 4).write.format("adelta").mode("append").option("path", path).save()
    assert rows(path) == [(1, 1), (4, 1)]
    numbers(spark, 5).write.save(path, format="adelta", mode="overwrite")
    assert rows(path) == [(5, 2)]


def test_writers_partition_and_cluster_and_set_properties(spark, path, tmp_path):
    writer = numbers(spark, 1, 2).write.format("adelta").partitionBy("part")
    writer.option("delta.appendOnly", "true").option("delta.checkpointInterval", "7").save(path)
    found = snapshot(path)
    assert found.partition_columns == ("part",)
    assert found.properties["delta.appendOnly"] == "true"
    assert found.properties["delta.checkpointInterval"] == "7"
    clustered = str(tmp_path / "clustered")
    numbers(spark, 1).write.format("adelta").clusterBy("id").save(clustered)
    assert "clustering" in (snapshot(clustered).protocol.writer_features or ())
    writer = spark.range(2).toDF("n").write.format("adelta").mode("overwrite")
    writer.option("overwriteSchema", True).save(clustered)
    assert adelta.sync.detail(clustered).clustering_columns == ()
    with pytest.raises(AnalysisException, match="no buckets"):
        numbers(spark, 1).write.format("adelta").bucketBy(2, "id").mode("append").save(path)


def test_the_sessions_own_mode_of_overwriting_partitions_counts(spark, path):
    numbers(spark, *range(9)).write.format("adelta").partitionBy("part").save(path)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        numbers(spark, 30).write.format("adelta").mode("overwrite").save(path)
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert [id for id, _ in rows(path)] == [1, 2, 4, 5, 7, 8, 30]
    option = {"partitionOverwriteMode": "static"}
    numbers(spark, 40).write.format("adelta").mode("overwrite").options(**option).save(path)
    assert rows(path) == [(40, 1)]
    for wrong in ({"delta.foo": "1"}, {"delta.appendOnly": "maybe"}):  # for new tables, and wrong
        with pytest.raises(PySparkException, match="delta"):
            numbers(spark, 1).write.format("adelta").mode("append").options(**wrong).save(path)
    assert rows(path) == [(40, 1)]


def test_times_in_a_condition_are_of_the_sessions_zone(spark, path):
    spark.sql("SELECT timestamp'2024-01-01 00:30:00' AS at").write.format("adelta").save(path)
    new = spark.sql("SELECT timestamp'2024-01-01 00:45:00' AS at").write.format("adelta")
    new = new.mode("overwrite")
    for early in ("at < '2024-01-01 04:00:00'", "hour(at) = 0", "date(at) = '2024-01-01'"):
        new.option("replaceWhere", early).save(path)
        [[at]] = spark.read.format("adelta").load(path).selectExpr("cast(at as string)").collect()
        assert at == "2024-01-01 00:45:00"
    for late in ("at >= '2024-01-01 05:00:00'", "hour(at) = 5"):
        with pytest.raises(InvariantViolationError):
            new.option("replaceWhere", late).save(path)


def test_any_thread_reads_and_writes(spark, path):
    def work(number):
        numbers(spark, number).write.format("adelta").mode("append").save(path)
        return spark.read.format("adelta").load(path).where(f"id = {number}").count()

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(work, range(6))) == [1] * 6
    asyncio.run(asyncio.to_thread(adelta.spark.write, numbers(spark, 9), path, mode="append"))
    assert [id for id, _ in rows(path)] == [0, 1, 2, 3, 4, 5, 9]


def test_new_sessions_know_the_format(spark, path):
    numbers(spark, 1).write.format("adelta").save(path)
    new = spark.newSession()
    assert new.read.format("adelta").load(path).count() == 1
    assert new.read.format("adelta").option("nativeScan", "false").load(path).count() == 1
    numbers(new, 2).write.format("adelta").mode("append").save(path)
    adelta.spark.write(numbers(new, 3), path, mode="append")
    assert adelta.spark.read(new, path).count() == 3
    adelta.spark.register(new)
    assert new.read.format("adelta").load(path).count() == 3


def test_scripts_for_delta_run_as_they_are(spark, path):
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        spark.read.format("delta").load(path)
    adelta.spark.register(spark, as_delta=True)
    try:
        numbers(spark, 1, 2).write.format("delta").mode("overwrite").save(path)
        found = spark.read.format("delta").load(path)
        assert found.where("id = 2").count() == 1
        assert spark.read.load(path, format="DELTA").count() == 2
        assert spark.read.format("delta").option("nativeScan", "false").load(path).count() == 2
        assert spark.read.format("adelta").load(path).count() == 2
    finally:
        adelta.spark.register(spark, as_delta=False)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        spark.read.format("delta").load(path)


def test_other_formats_are_left_to_spark(spark, path, tmp_path):
    folder = str(tmp_path / "p")
    numbers(spark, 1, 2).write.mode("overwrite").partitionBy("part").parquet(folder)
    numbers(spark, 3).write.save(folder, "parquet", "append", ["part"], compression="gzip")
    assert spark.read.load(folder).count() == 3
    assert spark.read.load([folder], "parquet", schema="id long").count() == 3
    with pytest.raises(AnalysisException):
        numbers(spark, 1).write.save(folder)


def test_a_table_written_by_arrow_is_read_under_its_schema(spark, path):
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    assert spark.read.format("adelta").schema("id long").load(path).collect() == [(1,)]
    with pytest.raises(AnalysisException, match="not string"):
        spark.read.format("adelta").schema("id string").load(path).collect()


def moments(spark, path):
    rows = [(1, "2024-01-01 00:30:00"), (2, "2023-12-31 23:30:00")]
    df = spark.createDataFrame(rows, "id int, at string")
    df.withColumn("at", f.col("at").cast("timestamp")).write.format("adelta").save(path)
    return adelta.spark.DeltaTable.forPath(spark, path)


def test_rows_are_deleted_and_updated_by_times_of_the_sessions_zone(spark, path):
    table = moments(spark, path)
    values = {"at": "timestamp'2020-02-02 20:20:20'", "id": "id + 5"}
    table.update("at < '2024-01-01 00:00:00'", values)
    shown = "id", "cast(at as string)"
    assert sorted(table.toDF().selectExpr(*shown).collect()) == [
        (1, "2024-01-01 00:30:00"), (7, "2020-02-02 20:20:20")
    ]  # fmt: skip
    table.delete("at > timestamp'2024-01-01 00:00:00'")
    assert [row["id"] for row in table.toDF().collect()] == [7]


CLOCKS = (
    "hour(at) = 0",
    "cast(at as date) = date'2024-01-01'",
    "cast(at as string) > '2024'",
    "date_format(at, 'HH:mm') = '00:30'",
    "date_trunc('day', at) = timestamp'2023-12-31'",
    "year(at) * 100 + month(at) = 202401",
)


@pytest.mark.parametrize("condition", CLOCKS)
def test_clocks_in_conditions_are_of_the_sessions_zone(spark, path, condition):
    table = moments(spark, path)
    df = table.toDF()
    [[expected]] = df.selectExpr(f"count_if({condition})").collect()
    assert 0 < expected < df.count()
    read = adelta.spark.read(spark, path, where=condition)
    assert read.count() == expected
    unhooked = spark.read.format("adelta").option("nativeScan", "false")
    assert unhooked.option("where", condition).load(path).count() == expected
    table.update(condition, {"at": "date_trunc('month', at)", "id": "id + hour(at) + 100"})
    changed = table.toDF().where("id >= 100").selectExpr("cast(at as string)").collect()
    assert len(changed) == expected
    assert all(text.endswith("-01 00:00:00") for [text] in changed)
    table.delete("date_trunc('month', at) = at")
    assert table.toDF().count() == df.count() - expected


def test_columns_are_conditions_and_values(spark, path):
    table = moments(spark, path)
    table.update(f.col("id") == 1, {"id": f.col("id") * 10 + f.lit(3)})
    assert sorted(row["id"] for row in table.toDF().collect()) == [2, 13]
    table.delete((f.col("at") < "2024-01-01") & f.col("id").isin(2, 3))
    assert [row["id"] for row in table.toDF().collect()] == [13]
    with pytest.raises(InvalidOptionError, match="found to be of type"):
        table.delete(5)


@pytest.mark.parametrize("native", ["true", "false"])
def test_a_reader_keeps_what_it_was_told_after_a_load(spark, path, native):
    moments(spark, path)
    reader = spark.read.format("adelta").option("nativeScan", native)
    zone = spark.conf.get("spark.sql.session.timeZone")
    assert reader.load(path, where="at < '2024-01-01 00:00:00'").count() == 1
    try:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        assert reader.load(path, where="at < '2024-01-01 05:00:00'").count() == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("native", ["true", "false"])
def test_versions_are_found_by_times_of_the_sessions_zone(spark, path, native):
    for number in range(2):
        numbers(spark, number).write.format("adelta").mode("append").save(path)
        at = dt.datetime(2024, 1, 1 + number, 12, tzinfo=ZoneInfo("America/New_York")).timestamp()
        os.utime(f"{path}/_delta_log/{number:020}.json", (at, at))
    reader = spark.read.format("adelta").option("nativeScan", native)
    assert reader.option("timestampAsOf", "2024-01-01 12:00:00").load(path).count() == 1
    assert reader.option("timestampAsOf", "2024-01-02T11:00:00").load(path).count() == 1
    assert reader.option("timestampAsOf", "2024-01-02 17:00:00Z").load(path).count() == 2
