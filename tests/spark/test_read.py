"""Batch reads by format("adelta") and adelta.spark.read.

The tables are written by `deltalake`, so that what is read is another writer's.
"""

from __future__ import annotations

import datetime as dt
import os
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceReader

import adelta.spark
from adelta.errors import (
    InvalidExpressionError,
    MissingDataFileError,
    SchemaMismatchError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.spark.options.read_write import ReadOptions
from adelta.spark.source.reader import DeltaReader
from adelta.spark.translate.types import to_spark_schema
from tests.spark.versions import pushes_filters


@pytest.fixture
def table(tmp_path) -> str:
    """Four files: part 0 to 3, ten rows each, ids rising with part."""
    path = str(tmp_path / "t")
    for part in range(4):
        ids = range(10 * part, 10 * part + 10)
        rows = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "name": [f"n{i}" for i in ids],
                "part": pa.array([part] * 10, pa.int32()),
            }
        )
        write_deltalake(path, rows, mode="append", partition_by=["part"])
    return path


def ids(df) -> list[int]:
    return sorted(row["id"] for row in df.collect())


def tasks(df) -> int:
    return df.rdd.getNumPartitions()


def load(spark, path, **options):
    options = {"minPartitions": "4", "nativeScan": "false", **options}
    return spark.read.format("adelta").options(**options).load(path)


def test_all_rows_are_read_with_the_tables_columns(spark, table):
    df = load(spark, table)
    assert df.columns == ["id", "name", "part"]
    assert ids(df) == list(range(40))
    assert df.agg(f.sum("part"), f.max("name")).collect() == [(60, "n9")]


def test_a_read_by_name_of_the_format_is_a_view_for_sql(spark, table):
    load(spark, table).createOrReplaceTempView("numbers")
    rows = spark.sql("SELECT part, count(*) c FROM numbers GROUP BY part ORDER BY part").collect()
    assert rows == [(0, 10), (1, 10), (2, 10), (3, 10)]


def test_small_files_share_a_task_and_large_tables_are_split(spark, table):
    assert tasks(load(spark, table, minPartitions="1")) == 1
    assert tasks(load(spark, table, minPartitions="2")) == 2
    assert tasks(load(spark, table, minPartitions="1", maxPartitionBytes="1")) == 4


def test_columns_named_by_the_option_are_the_only_ones_read(spark, table):
    df = load(spark, table, columns="part, id")
    assert df.columns == ["part", "id"]
    assert ids(df.where("part = 2")) == list(range(20, 30))
    assert ids(adelta.spark.read(spark, table, columns=["id"])) == list(range(40))


def test_bytes_of_columns_that_are_not_asked_for_are_never_read(table):
    schema = to_spark_schema(_delta_schema(table))
    [one] = [field for field in schema if field.name == "id"]
    reader = DeltaReader(ReadOptions.parse({"path": table}), type(schema)([one]))
    for partition in reader.partitions():
        assert partition.plan.read.names == ("id",)


def test_where_keeps_the_rows_and_skips_the_files_that_it_rules_out(spark, table):
    by_partition = load(spark, table, where="part = 2")
    assert (ids(by_partition), tasks(by_partition)) == (list(range(20, 30)), 1)
    by_statistics = load(spark, table, where="id BETWEEN 18 AND 21 AND name <> 'n20'")
    assert (ids(by_statistics), tasks(by_statistics)) == ([18, 19, 21], 2)
    neither = load(spark, table, where="id < 3 OR id >= 38", columns="id")
    assert (ids(neither), tasks(neither)) == ([0, 1, 2, 38, 39], 2)
    nothing = load(spark, table, where="id > 100")
    assert ids(nothing) == []


def test_where_may_be_tuples(spark, table):
    df = adelta.spark.read(spark, table, where=[("part", "=", 1), ("id", ">=", 15)])
    assert ids(df) == list(range(15, 20))


def test_times_in_where_are_of_the_session(spark, tmp_path):
    path = str(tmp_path / "t")
    at = [dt.datetime(2024, 3, 10, hour, tzinfo=dt.UTC) for hour in (4, 5, 6)]
    write_deltalake(
        path, pa.table({"id": [4, 5, 6], "at": pa.array(at, pa.timestamp("us", "UTC"))})
    )
    for midnight in ("TIMESTAMP'2024-03-10 00:00:00'", "'2024-03-10'", "DATE'2024-03-10'"):
        condition = f"at >= {midnight}"  # in New York
        assert ids(adelta.spark.read(spark, path, where=condition)) == [5, 6], condition
        assert ids(load(spark, path).where(condition)) == [5, 6], condition
    assert ids(load(spark, path, where="at >= '2024-03-10'")) == [5, 6]
    assert ids(load(spark, path, where="at >= '2024-03-10'", timeZone="UTC")) == [4, 5, 6]


def test_a_where_that_does_not_fit_is_an_error_that_says_so(spark, table):
    with pytest.raises(InvalidExpressionError, match=r"nosuch"):
        load(spark, table, where="nosuch = 1")


@pushes_filters
def test_filters_are_pushed_down_where_the_read_allows_it(spark, table):
    def filtered(condition):
        return load(spark, table, filterPushdown="true").where(condition)

    assert tasks(filtered("part = 3")) == 1
    assert ids(filtered("part = 3")) == list(range(30, 40))
    assert tasks(filtered("id >= 10 AND id < 20")) == 1
    assert ids(filtered("id IN (5, 25) AND name LIKE 'n2%'")) == [25]
    assert tasks(filtered("part % 2 = 0")) == 4  # no filter that Spark pushes down
    assert ids(filtered("part % 2 = 0 AND id > 18")) == list(range(20, 30))
    assert tasks(load(spark, table).where("part = 3")) == 4


def test_filters_that_may_not_be_pushed_down_fail_no_query(spark, table):
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "false")
    try:
        assert ids(load(spark, table, filterPushdown="true").where("part = 3")) == list(
            range(30, 40)
        )
    finally:
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


def test_a_dataframe_gives_the_same_rows_however_often_it_is_filtered(spark, table):
    df = load(spark, table)
    assert ids(df.where("part = 3")) == list(range(30, 40))
    assert ids(df.select("id")) == list(range(40))
    both = df.where("part = 0").union(df.where("part = 1"))
    assert ids(both) == list(range(20))


@pushes_filters
@pytest.mark.skipif(hasattr(DataSourceReader, "pushLimit"), reason="PySpark keeps scans apart")
def test_pyspark_hands_a_querys_filters_to_the_next_which_is_why_they_are_not_pushed(spark, table):
    df = load(spark, table, filterPushdown="true")
    assert ids(df.where("part = 3")) == list(range(30, 40))
    assert ids(df.select("id")) == list(range(30, 40))  # all 40 would be right


def test_a_dataframe_stays_at_the_version_that_it_was_loaded_at(spark, table):
    before = load(spark, table)
    rows = pa.table({"id": [100], "name": ["x"], "part": pa.array([9], pa.int32())})
    write_deltalake(table, rows, mode="append")
    assert len(ids(before)) == 40
    assert len(ids(load(spark, table))) == 41


def test_earlier_versions_are_read_by_number_and_by_time(spark, table):
    assert ids(load(spark, table, versionAsOf="1")) == list(range(20))
    assert ids(adelta.spark.read(spark, table, version=0)) == list(range(10))
    log = Path(table, "_delta_log")
    for version in range(4):
        at = dt.datetime(2024, 1, 1 + version, tzinfo=dt.UTC).timestamp()
        os.utime(log / f"{version:020}.json", (at, at))
    assert ids(load(spark, table, timestampAsOf="2024-01-02T12:00:00Z")) == list(range(20))
    noon = dt.datetime(2024, 1, 3, 12, tzinfo=dt.UTC)
    assert ids(adelta.spark.read(spark, table, timestamp=noon)) == list(range(30))


def test_a_version_that_is_not_there_is_an_error_that_says_so(spark, table):
    with pytest.raises(VersionNotFoundError, match=r"7"):
        load(spark, table, versionAsOf="7")


def test_a_table_that_is_not_there_is_an_error_that_says_so(spark, tmp_path):
    with pytest.raises(TableNotFoundError, match=r"there is no Delta table at"):
        load(spark, str(tmp_path / "none"))


def test_a_data_file_that_is_not_there_is_an_error_that_names_it(spark, table):
    [file] = Path(table, "part=2").iterdir()
    file.unlink()
    with pytest.raises(MissingDataFileError, match=rf"{file.name}"):
        load(spark, table).collect()


def test_columns_may_be_chosen_by_a_schema(spark, table):
    assert ids(spark.read.format("adelta").schema("id long").load(table)) == list(range(40))


def test_a_schema_that_is_not_the_tables_is_refused_before_anything_is_read(spark, table):
    with pytest.raises(AnalysisException, match="column 'id' is bigint, not string"):
        spark.read.format("adelta").schema("id string").load(table).collect()
    with pytest.raises(AnalysisException, match="no column 'other'"):
        spark.read.format("adelta").schema("other string").load(table).collect()


def test_nulls_are_never_promised_away(table):
    schema = to_spark_schema(_delta_schema(table))
    schema["id"].nullable = False
    with pytest.raises(SchemaMismatchError, match="not bigint not null"):
        DeltaReader(ReadOptions.parse({"path": table}), schema).partitions()


def test_an_empty_table_has_columns_and_no_rows(spark, tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, pa.table({"id": pa.array([], pa.int64())}))
    df = load(spark, path)
    assert (df.columns, df.collect()) == (["id"], [])


@pytest.mark.parametrize(
    "values",
    [
        ["a b", "x/y", "a%b", "k=v", "ünï", "c:d", None, "#?"],
        [1, -1, None],
        [True, False, None],
        [dt.date(2024, 2, 29), dt.date(1, 1, 1), None],
        [Decimal("1.50"), Decimal("20.01"), None],
        [1.5, -0.0, float("inf"), None],
    ],
    ids=["string", "long", "boolean", "date", "decimal", "double"],
)
def test_partition_values_come_back_as_they_were(spark, tmp_path, values):
    path = str(tmp_path / "t")
    rows = pa.table({"p": pa.array(values), "n": range(len(values))})
    write_deltalake(path, rows, partition_by=["p"])
    df = load(spark, path)
    assert [row["p"] for row in sorted(df.collect(), key=lambda row: row["n"])] == values
    assert df.where("p IS NULL").count() == values.count(None)


def _delta_schema(path):
    from adelta.sync._portal import call
    from adelta.table import open_table

    async def schema():
        async with open_table(path) as table:
            return (await table.snapshot()).delta_schema

    return call(schema)


def test_a_clone_is_read_where_its_origin_is_allowed(spark, table, tmp_path):
    """On the driver and in the tasks; the options of each hold for a rewrite, too."""
    origin, clone = tmp_path / "t", tmp_path / "clone"
    (clone / "_delta_log").mkdir(parents=True)
    for commit in sorted((origin / "_delta_log").glob("*.json")):
        text = commit.read_text().replace('"path":"part=', f'"path":"file://{origin}/part=')
        (clone / "_delta_log" / commit.name).write_text(text)
    with pytest.raises(PySparkException, match=f"allowed_roots={origin}"):
        load(spark, str(clone)).collect()
    assert ids(load(spark, str(clone), allowed_roots=str(origin))) == list(range(40))
    few = spark.createDataFrame([(5, "new", 0)], "id long, name string, part int")
    options = {"replaceWhere": "id < 5 AND part = 0", "path": str(clone)}
    writer = few.withColumn("id", f.lit(4).cast("long")).write.format("adelta").options(**options)
    with pytest.raises(PySparkException, match=f"allowed_roots={origin}"):
        writer.mode("overwrite").save()
    assert not list(clone.glob("**/*.parquet"))
    writer.option("option.allowed_roots", f"/nowhere, {origin}").mode("overwrite").save()
    found = adelta.spark.read(spark, str(clone), storage_options={"allowed_roots": str(origin)})
    assert ids(found) == list(range(4, 40))
