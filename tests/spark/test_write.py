"""Batch writes by format("adelta") and adelta.spark.write."""

from __future__ import annotations

import json
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import adelta.spark
from adelta.errors import (
    InvalidOptionError,
    InvariantViolationError,
    SchemaMismatchError,
    TableAlreadyExistsError,
)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def commits(path: str) -> list[dict[str, object]]:
    """The commitInfo of every version."""
    found = []
    for file in sorted(Path(path, "_delta_log").glob("*.json")):
        actions = [json.loads(line) for line in file.read_text().splitlines()]
        found.append(next(a["commitInfo"] for a in actions if "commitInfo" in a))
    return found


def rows(path: str, column: str = "id") -> list[object]:
    """What another reader finds."""
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()[column].to_pylist())


def files(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet")}


def numbers(spark, *bounds: int):
    return spark.range(*bounds, 1, 2).selectExpr("id", "CAST(id % 3 AS INT) part")


def test_an_append_makes_the_table_and_the_next_one_adds_to_it(spark, path):
    numbers(spark, 0, 10).write.format("adelta").mode("append").save(path)
    numbers(spark, 10, 20).write.format("adelta").mode("append").save(path)
    assert rows(path) == list(range(20))
    first, second = commits(path)
    assert first["operation"] == second["operation"] == "WRITE"
    assert second["operationParameters"] == {"mode": "Append", "partitionBy": "[]"}
    assert second["operationMetrics"]["numOutputRows"] == "10"
    assert (first["isBlindAppend"], second["isBlindAppend"]) == (True, True)


def test_an_overwrite_replaces_all_rows_in_one_commit(spark, path):
    numbers(spark, 0, 10).write.format("adelta").mode("append").save(path)
    numbers(spark, 50, 55).write.format("adelta").mode("overwrite").save(path)
    assert rows(path) == list(range(50, 55))
    assert commits(path)[1]["operationParameters"]["mode"] == "Overwrite"
    before = spark.read.format("adelta").option("versionAsOf", "0").load(path)
    assert before.count() == 10


def test_a_table_may_be_overwritten_by_what_is_read_from_it(spark, path):
    numbers(spark, 0, 10).write.format("adelta").mode("append").save(path)
    kept = spark.read.format("adelta").load(path).where("id % 2 = 0")
    kept.write.format("adelta").mode("overwrite").save(path)
    assert rows(path) == [0, 2, 4, 6, 8]


def test_rows_go_to_the_files_of_their_partition(spark, path):
    writer = numbers(spark, 0, 9).write.format("adelta").option("partitionBy", "part")
    writer.mode("append").save(path)
    numbers(spark, 9, 12).write.format("adelta").mode("append").save(path)
    assert deltalake.DeltaTable(path).metadata().partition_columns == ["part"]
    assert {name.split("/")[0] for name in files(path)} == {"part=0", "part=1", "part=2"}
    assert rows(path) == list(range(12))
    skipped = adelta.spark.read(spark, path, where="part = 1")
    assert sorted(r["id"] for r in skipped.collect()) == [1, 4, 7, 10]


def test_odd_partition_values_come_back_as_they_were(spark, path):
    odd = ["a b", "x/y", "a%2Fb", "k=v", "ünï", "c:d", "#?", "..", None, "it's", '"', "\\", "%"]
    df = spark.createDataFrame(list(enumerate(odd)), "n int, p string")
    adelta.spark.write(df, path, partition_by=["p"])
    found = sorted(spark.read.format("adelta").load(path).collect())
    assert [row["p"] for row in found] == odd
    theirs = deltalake.DeltaTable(path).to_pyarrow_table().sort_by("n")
    assert theirs["p"].to_pylist() == odd


def test_an_empty_string_is_no_partition_value_so_it_reads_as_null(spark, path):
    df = spark.createDataFrame([(1, ""), (2, None), (3, "x")], "n int, p string")
    adelta.spark.write(df, path, partition_by=["p"])
    found = sorted(spark.read.format("adelta").load(path).collect())
    assert [row["p"] for row in found] == [None, None, "x"]


def test_other_partition_columns_than_the_tables_are_refused(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path, partition_by=["part"])
    with pytest.raises(AnalysisException, match=r"partitioned by \(part\), not by \(id\)"):
        adelta.spark.write(numbers(spark, 3, 6), path, mode="append", partition_by=["id"])
    adelta.spark.write(numbers(spark, 3, 6), path, mode="append", partition_by=["PART"])
    assert rows(path) == list(range(6))


def test_the_mode_error_writes_a_new_table_only(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path)
    with pytest.raises(TableAlreadyExistsError, match=r"already"):
        adelta.spark.write(numbers(spark, 3, 6), path, mode="error")
    assert rows(path) == [0, 1, 2]
    assert commits(path)[0]["operationParameters"]["mode"] == "ErrorIfExists"


def test_the_mode_ignore_leaves_a_table_alone(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path, mode="ignore")
    before = files(path)
    adelta.spark.write(numbers(spark, 3, 6), path, mode="ignore")
    assert rows(path) == [0, 1, 2]
    assert (len(commits(path)), files(path)) == (1, before)


def test_an_unknown_mode_is_refused(spark, path):
    with pytest.raises(InvalidOptionError, match="no mode 'upsert'"):
        adelta.spark.write(numbers(spark, 0, 3), path, mode="upsert")


def test_a_write_that_an_application_has_done_before_is_skipped(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path, mode="append", txn=("nightly", 1))
    before = files(path)
    adelta.spark.write(numbers(spark, 0, 3), path, mode="append", txn=("nightly", 1))
    assert (rows(path), files(path)) == ([0, 1, 2], before)
    adelta.spark.write(numbers(spark, 3, 4), path, mode="append", txn=("nightly", 2))
    adelta.spark.write(numbers(spark, 4, 5), path, mode="append", txn=("hourly", 1))
    assert rows(path) == [0, 1, 2, 3, 4]
    assert len(commits(path)) == 3


def test_users_may_leave_a_note_with_the_commit(spark, path):
    writer = numbers(spark, 0, 3).write.format("adelta").option("userMetadata", "first load")
    writer.mode("append").save(path)
    adelta.spark.write(numbers(spark, 3, 6), path, mode="append", user_metadata="second")
    assert [commit["userMetadata"] for commit in commits(path)] == ["first load", "second"]


def test_a_table_made_from_rows_without_nulls_takes_nulls_later(spark, path):
    adelta.spark.write(spark.range(1), path)
    adelta.spark.write(spark.sql("SELECT CAST(NULL AS BIGINT) id"), path, mode="append")
    assert spark.read.format("adelta").load(path).where("id IS NULL").count() == 1


def test_columns_are_matched_by_name(spark, path):
    adelta.spark.write(spark.createDataFrame([(1, "a")], "id long, name string"), path)
    swapped = spark.createDataFrame([("b", 2)], "NAME string, id int")
    adelta.spark.write(swapped, path, mode="append")
    assert rows(path, "name") == ["a", "b"]


def test_changes_store_times_by_the_sessions_zone_inside_of_columns_too(spark, path):
    kinds = {"a": "timestamp", "b": "timestamp_ntz", "c": "timestamp"}
    columns = "id INT, " + ", ".join(f"{n} {k}, l{n} ARRAY<{k}>" for n, k in kinds.items())
    spark.sql(f"CREATE TABLE adelta.`{path}` ({columns})")
    at = "'2024-01-01 00:00:00'"
    given = {"a": f"timestamp_ntz{at}", "b": f"timestamp{at}", "c": "date'2024-01-01'"}
    values = ", ".join(f"{v} {n}, array({v}) l{n}" for n, v in given.items())
    spark.sql(f"SELECT 1 id, {values}").write.format("adelta").mode("append").save(path)
    table = adelta.spark.DeltaTable.forPath(spark, path)
    rows = spark.sql(f"SELECT explode(array(1, 2)) id, {values}")
    merge = table.alias("t").merge(rows.alias("s"), "t.id = s.id")
    merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    found = table.toDF()
    held = " AND ".join(f"string({n}) = {at} AND string(l{n}[0]) = {at}" for n in kinds)
    assert found.where(held).count() == 2
    table.update("id = 1", dict(given))
    assert table.toDF().where(held).count() == 2


def test_a_column_of_nulls_alone_goes_into_the_tables_own_or_a_new_one_of_any_type(spark, path):
    adelta.spark.write(spark.sql("SELECT 1 id, 'a' name, named_struct('x', 1, 'y', 2) s"), path)
    nulls = spark.sql("SELECT 2 id, NULL name, named_struct('x', 3, 'y', NULL) s, NULL more")
    nulls.drop("more").write.format("adelta").mode("append").save(path)
    nulls.write.format("adelta").mode("append").option("mergeSchema", True).save(path)
    last = nulls.withColumn("more", f.lit("text"))
    last.write.format("adelta").mode("append").option("mergeSchema", True).save(path)
    found = adelta.spark.read(spark, path).select("id", "name", "s.y", "more").collect()
    assert sorted(tuple(row) for row in found if row.more is None) == [
        (1, "a", 2, None), (2, None, None, None), (2, None, None, None)
    ]  # fmt: skip
    assert [tuple(row) for row in found if row.more] == [(2, None, None, "text")]
    assert rows(path) == [1, 2, 2, 2]
    with pytest.raises(SchemaMismatchError, match="element' is of type void"):
        adelta.spark.write(spark.sql("SELECT 1 id, array(NULL) more"), path, mode="append")


def test_rows_that_do_not_fit_are_refused_before_any_task_runs(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path)
    before = files(path)
    with pytest.raises(SchemaMismatchError, match=r"other"):
        adelta.spark.write(
            spark.range(1).selectExpr("id", "1 part", "2 other"), path, mode="append"
        )
    with pytest.raises(SchemaMismatchError, match=r"part"):
        adelta.spark.write(spark.sql("SELECT 1 id, array(1) part"), path, mode="append")
    assert (rows(path), files(path)) == ([0, 1, 2], before)


@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_rows_without_columns_are_refused_and_not_lost(spark, path, mode):
    spark.range(3).write.format("adelta").save(path)
    with pytest.raises(SchemaMismatchError, match="have no columns"):
        spark.range(2).select().write.format("adelta").mode(mode).save(path)
    assert spark.read.format("adelta").load(path).count() == 3


@pytest.mark.parametrize("native", ["true", "false"])
def test_times_and_dates_become_those_of_the_table_by_the_sessions_zone(spark, path, native):
    before = "SELECT timestamp'2023-01-01' a, timestamp'2023-01-01' b, timestamp_ntz'2023-01-01' c"
    spark.sql(before).write.format("adelta").save(path)
    midnight = "'2024-01-01 00:00:00'"
    more = spark.sql(f"SELECT timestamp_ntz{midnight} a, date'2024-01-01' b, timestamp{midnight} c")
    more.write.format("adelta").mode("append").option("nativeWrite", native).save(path)
    found = spark.read.format("adelta").load(path).where("a > '2023-06-01'")
    assert found.where(" AND ".join(f"string({c}) = {midnight}" for c in "abc")).count() == 1


def test_a_value_that_does_not_fit_fails_the_job_and_leaves_the_table_alone(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path)
    too_large = spark.range(0, 5, 1, 1).selectExpr("id", "id * 10000000000 part")
    with pytest.raises(SchemaMismatchError, match=r"part"):
        adelta.spark.write(too_large, path, mode="append")
    assert rows(path) == [0, 1, 2]


def test_a_null_where_none_may_be_fails_the_job(spark, path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    deltalake.write_deltalake(path, pa.table({"id": [1]}, schema=schema))
    df = spark.range(0, 3, 1, 1).selectExpr("nullif(id, 1) id")
    with pytest.raises(InvariantViolationError, match=r"id"):
        adelta.spark.write(df, path, mode="append")
    assert rows(path) == [1]


def test_rows_are_inserted_by_sql_through_a_view(spark, path):
    adelta.spark.write(numbers(spark, 0, 3), path)
    reader = spark.read.format("adelta").option("nativeScan", "false")
    reader.load(path).createOrReplaceTempView("target")
    spark.sql("INSERT INTO target SELECT 7L, 1")
    assert rows(path) == [0, 1, 2, 7]


def test_a_write_of_no_rows_makes_an_empty_table(spark, path):
    adelta.spark.write(numbers(spark, 0, 0), path)
    assert rows(path) == []
    assert spark.read.format("adelta").load(path).columns == ["id", "part"]


def test_tasks_tell_the_same_time_where_a_default_asks_for_it(spark, path):
    columns = "id BIGINT, at TIMESTAMP DEFAULT current_timestamp()"
    adelta.sync.sql(f"CREATE TABLE '{path}' ({columns})")
    spark.range(6).repartition(3).write.format("adelta").mode("append").save(path)
    with adelta.sync.open_table(path) as table:
        snapshot = table.snapshot()
        assert snapshot.files().num_rows > 1
        assert len(set(snapshot.scan(columns=["at"]).to_arrow()["at"].to_pylist())) == 1
