"""Rows that Spark's own writer of Parquet writes: the same table as by adelta's, or adelta's."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as f

import adelta
import adelta.sync

CRYPTO = "org.apache.parquet.crypto.keytools"
COLUMNS = (
    "id",
    "cast(id as timestamp) + interval '123456' microsecond as at",
    "cast(cast(id as timestamp) as timestamp_ntz) as local",
    "cast(id as int) as i",
    "cast(id as short) as small",
    "cast(id % 100 as byte) as tiny",
    "id % 2 = 0 as even",
    "cast(id / 7 as decimal(12, 3)) as price",
    "cast(id as float) / 3 as f",
    "if(id % 5 = 0, null, if(id = 7, double('nan'), id / 3)) as d",
    "cast(concat('b', id) as binary) as b",
    "date_add(date'2020-01-01', cast(id as int)) as day",
    "concat('é x/', id % 2) as s",
    "repeat('long ', cast(id % 40 as int)) as text",
    "cast(null as string) as nothing",
    "if(id % 3 = 0, '', 'k%') as key",
)


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def write(df, path: str, mode: str = "append", by: tuple[str, ...] = (), **options: str) -> None:
    writer = df.write.format("adelta").mode(mode).options(**options)
    (writer.partitionBy(*by) if by else writer).save(path)


def writers(path: str) -> set[str]:
    """Who has written the live files of a table."""
    with adelta.sync.open_table(path) as table:
        files = table.snapshot().files().column("path").to_pylist()
    found = [pq.read_metadata(Path(path, unquote(file))).created_by for file in files]
    return {created.split()[0] for created in found}


def told(path: str) -> list[object]:
    """What the log says of the rows of each file."""
    with adelta.sync.open_table(path) as table:
        files = table.snapshot().files().to_pylist()
    return sorted(
        ((dict(file["partition_values"]), json.loads(file["stats"])) for file in files), key=str
    )


def rows(path: str) -> pa.Table:
    with adelta.sync.open_table(path) as table:
        return table.snapshot().scan().to_arrow().sort_by("id")


@pytest.mark.parametrize("by", [(), ("tiny", "key"), ("day",), ("s", "even")])
def test_the_table_is_the_same_as_by_adelta_s_own_writer(spark, path, by):
    df = spark.range(0, 60, 1, 2).selectExpr(*COLUMNS)
    write(df, f"{path}-own", by=by, nativeWrite="false")
    write(df, path, by=by)
    assert writers(path) == {"parquet-mr"}
    assert writers(f"{path}-own") == {"parquet-cpp-arrow"}
    assert told(path) == told(f"{path}-own")
    assert str(rows(path).to_pylist()) == str(rows(f"{path}-own").to_pylist())  # NaN is NaN
    assert {file.suffix for file in Path(path).rglob("*.*") if "_delta_log" not in file.parts} == {
        ".parquet"
    }


def test_folders_tell_any_text(spark, path):
    """Those of them, too, that Spark's names of folders have for nulls, or cannot have."""
    null = "__HIVE_DEFAULT_PARTITION__"
    texts = [None, "", null, f"{null}-41", "a\0b", "\0", "%é/=: '", "NULL", "..", "\U0010ffff"]
    df = spark.createDataFrame(list(enumerate(texts)), "id long, text string").coalesce(1)
    write(df, path, by=("text",))
    write(df, f"{path}-own", by=("text",), nativeWrite="false")
    assert writers(path) == {"parquet-mr"}
    assert told(path) == told(f"{path}-own")
    assert rows(path).column("text").to_pylist() == [None, None, *texts[2:]]


def test_a_text_that_is_none_is_refused_as_the_name_of_a_folder(spark, path):
    with pytest.raises(PySparkException, match="INVALID_UTF8_STRING"):
        write(spark.sql("select 1L as id, cast(X'ff41' as string) as text"), path, by=("text",))


def test_what_a_disk_refuses_is_an_error_of_pyspark_s(spark, path):
    df = spark.range(1).withColumn("text", f.lit("x" * 300))
    with pytest.raises(PySparkException, match="IOException: Mkdirs failed"):
        write(df, path, by=("text",))
    assert not list(Path(path).rglob("*.parquet"))


def test_a_jvm_whose_locale_has_no_such_characters_names_no_files_by_them(spark, path):
    system, key = spark._jvm.java.lang.System, "sun.jnu.encoding"
    before = system.setProperty(key, "ANSI_X3.4-1968")
    try:
        df = spark.createDataFrame([(1, "é", 1), (2, "ok", 1)], "id long, text string, k int")
        write(df, path, by=("text",))
        write(df, f"{path}-é")
        assert writers(path) == writers(f"{path}-é") == {"parquet-cpp-arrow"}
        write(df, f"{path}-k", by=("k",))
        assert writers(f"{path}-k") == {"parquet-mr"}
    finally:
        system.setProperty(key, before)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"parquet.column.statistics.enabled": "false", "parquet.statistics.truncate.length": "3"},
        {"parquet.crypto.factory.class": f"{CRYPTO}.PropertiesDrivenCryptoFactory"},
    ],
)
def test_statistics_are_those_of_adelta_whatever_is_asked_of_other_files(spark, path, settings):
    columns = "id", "repeat(if(id = 0, 'b', 'a'), 3000) as s", "cast(repeat('b', 5000) as binary) b"
    df = spark.range(0, 20, 1, 2).selectExpr(*columns, "cast(id as string) as short")
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    try:
        for key, value in settings.items():
            hadoop.set(key, value)
        write(df, path)
    finally:
        for key in settings:
            hadoop.unset(key)
    write(df, f"{path}-own", nativeWrite="false")
    assert writers(path) == {"parquet-mr"}
    assert told(path) == told(f"{path}-own")


@pytest.mark.parametrize(
    ("settings", "changes"),
    [
        ({"delta.constraints.small": "id < 100"}, {}),
        ({"delta.columnMapping.mode": "name"}, {}),
        ({"delta.targetFileSize": "1000000"}, {}),
        ({}, {"optimizeWrite": "true", "by": ("k",)}),
        ({}, {"nativeWrite": "false"}),
        ({}, {"session": "spark.sql.parquet.int96RebaseModeInWrite"}),
    ],
)
def test_adelta_writes_what_spark_cannot(spark, path, settings, changes):
    by, session = changes.pop("by", ()), changes.pop("session", None)
    df = spark.range(10).withColumn("k", f.lit(1))
    try:
        if session is not None:
            spark.conf.set(session, "LEGACY")
        write(df, path, by=by, **settings, **changes)
    finally:
        if session is not None:
            spark.conf.unset(session)
    assert writers(path) == {"parquet-cpp-arrow"}


def test_adelta_writes_columns_that_are_held_to_rules_or_not_given(spark, path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.int64())])
    adelta.sync.create_table(path, schema)
    write(spark.range(3).withColumn("v", f.lit(1).cast("long")), path)
    assert writers(path) == {"parquet-cpp-arrow"}
    other = f"{path}-other"
    adelta.sync.create_table(other, pa.schema([("id", pa.int64()), ("v", pa.int64())]))
    write(spark.range(3), other)
    assert writers(other) == {"parquet-cpp-arrow"}
    write(spark.range(3).selectExpr("id as v", "id"), other)
    assert writers(other) == {"parquet-cpp-arrow", "parquet-mr"}
    assert rows(other).column("v").to_pylist().count(None) == 3


def test_no_rows_leave_no_file(spark, path):
    write(spark.range(10).where("id > 100"), path)
    write(spark.range(0, 4, 1, 4).where("id = 2"), path)
    assert rows(path).column("id").to_pylist() == [2]
    assert len(list(Path(path).glob("*.parquet"))) == 1


def test_an_overwrite_under_a_condition_of_partitions_alone_replaces_these(spark, path):
    df = spark.range(10).withColumn("k", (f.col("id") % 2).cast("int"))
    write(df, path, by=("k",))
    write(df.where("k = 1 and id > 5"), path, "overwrite", partitionOverwriteMode="dynamic")
    assert rows(path).column("id").to_pylist() == [0, 2, 4, 6, 7, 8, 9]
    assert writers(path) == {"parquet-mr"}
