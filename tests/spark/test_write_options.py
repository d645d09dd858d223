"""Options of writers, and settings of sessions that say the same: Spark's own and delta-spark's."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import functions as f

import adelta
import adelta.spark
import adelta.sync
from adelta.errors import InvalidOptionError
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.source.writer import DeltaWriter

DELTA = "spark.databricks.delta"


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


@contextmanager
def settings(spark, **values: str):
    named = {name.replace("__", "."): value for name, value in values.items()}
    for name, value in named.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in named:
            spark.conf.unset(name)


def frame(spark, *ids: int, tasks: int = 1):
    rows = spark.createDataFrame([(i, i % 3) for i in ids], "id long, part int")
    return rows.repartition(tasks) if tasks > 1 else rows.coalesce(1)


def write(df, path: str, mode: str = "append", **options: object) -> None:
    df.write.format("adelta").mode(mode).options(**options).save(path)


def rows(path: str, column: str = "id") -> list[object]:
    with adelta.sync.open_table(path) as table:
        return sorted(table.snapshot().scan().to_arrow()[column].to_pylist())


def newest(path: str, action: str) -> list[dict[str, object]]:
    commit = max(Path(path, "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    return [found[action] for found in actions if action in found]


def counts(path: str) -> list[int]:
    return sorted(json.loads(str(add["stats"]))["numRecords"] for add in newest(path, "add"))


def test_files_have_as_many_rows_and_the_codec_that_were_asked_for(spark, path):
    write(frame(spark, *range(10)), path, maxRecordsPerFile=4, compression="GZIP")
    assert counts(path) == [2, 4, 4]
    assert all(str(add["path"]).endswith(".gz.parquet") for add in newest(path, "add"))
    with settings(spark, spark__sql__files__maxRecordsPerFile="5"):
        write(frame(spark, *range(10)), path)
        assert counts(path) == [5, 5]
        write(frame(spark, *range(10)), path, maxRecordsPerFile=0)
        assert counts(path) == [10]
    with pytest.raises(AnalysisException, match=r"'lzo'; it must be one of .*zstd"):
        write(frame(spark, 1), path, compression="lzo")


def test_rows_that_are_only_rearranged_are_no_change_of_data(spark, path):
    write(frame(spark, *range(6)), path)
    write(frame(spark, *range(6, 9)), path)
    write(spark.read.format("adelta").load(path).coalesce(1), path, "overwrite", dataChange=False)
    assert rows(path) == list(range(9))
    changes = [file["dataChange"] for kind in ("add", "remove") for file in newest(path, kind)]
    assert changes == [False] * 3
    fewer = frame(spark, *range(8))
    with pytest.raises(SparkRuntimeException, match="8 would take the place of 9"):
        write(fewer, path, "overwrite", dataChange="false")
    for mode, more, why in (
        ("append", {}, "adds rows"),
        ("overwrite", {"replaceWhere": "id > 5"}, "other columns than those of partitions"),
    ):
        with pytest.raises(AnalysisException, match=why):
            write(fewer, path, mode, dataChange=False, **more)
    wider = fewer.selectExpr("*", "1 AS more")
    with pytest.raises(AnalysisException, match="columns or the partitioning"):
        write(wider, path, "overwrite", dataChange=False, mergeSchema=True)
    with pytest.raises(AnalysisException, match="no table yet"):
        write(fewer, path + "2", "overwrite", dataChange=False)
    assert rows(path) == list(range(9))


def test_settings_of_the_session_say_it_for_all_writes(spark, path):
    said = {
        f"{DELTA}.commitInfo.userMetadata": "nightly",
        f"{DELTA}.write.txnAppId": "job",
        f"{DELTA}.write.txnVersion": "3",
        f"{DELTA}.properties.defaults.checkpointInterval": "7",
        f"{DELTA}.schema.autoMerge.enabled": "true",
    }
    with settings(spark, **said):
        write(frame(spark, 1), path)
        assert newest(path, "commitInfo")[0]["userMetadata"] == "nightly"
        assert newest(path, "metaData")[0]["configuration"] == {"delta.checkpointInterval": "7"}
        write(frame(spark, 2), path)  # done before, as the session has it
        assert rows(path) == [1]
        write(frame(spark, 3), path, txnAppId="other", txnVersion=1, userMetadata="mine")
        assert newest(path, "commitInfo")[0]["userMetadata"] == "mine"
        spark.conf.set(f"{DELTA}.write.txnVersion", "4")
        with settings(spark, **{f"{DELTA}.write.txnVersion.autoReset.enabled": "true"}):
            write(frame(spark, 4).selectExpr("*", "1 AS more"), path)
        assert spark.conf.get(f"{DELTA}.write.txnVersion", None) is None
        with pytest.raises(AnalysisException, match="belong together"):
            write(frame(spark, 5), path)
    assert rows(path) == [1, 3, 4]


def test_tasks_number_rows_of_identity_columns_apart(spark, path):
    schema = pa.schema([adelta.identity_column("n", start=7, step=-3), ("id", pa.int64())])
    adelta.sync.create_table(path, schema).close()
    write(spark.range(0, 9000, 1, 2), path)
    write(spark.range(9000, 9004, 1, 4), path)
    numbers = rows(path, "n")
    assert len(set(numbers)) == len(numbers) == 9004
    assert max(numbers) == 7
    assert all((number - 7) % 3 == 0 for number in numbers)
    [field, _] = json.loads(newest(path, "metaData")[0]["schemaString"])["fields"]
    assert field["metadata"]["delta.identity.highWaterMark"] == min(numbers)
    with pytest.raises(AnalysisException, match="GENERATED ALWAYS"):
        write(spark.sql("SELECT 1L AS n, 1L AS id"), path)


def test_optimised_writes_bring_the_rows_of_a_partition_together(spark, path, tmp_path):
    many = frame(spark, *range(90), tasks=4)
    write(many, path, partitionBy="part")
    assert len(newest(path, "add")) > 6
    write(many, path, optimizeWrite=True)
    assert counts(path) == [30] * 3
    write(many, path, optimizeWrite=False)
    assert len(newest(path, "add")) > 6
    with settings(spark, **{f"{DELTA}.optimizeWrite.enabled": "true"}):
        write(many, path)
    assert counts(path) == [30] * 3
    other = str(tmp_path / "o")
    properties = {"delta.autoOptimize.optimizeWrite": "true"}
    write(many, other, "errorifexists", partitionBy="PART", **properties)
    assert counts(other) == [30] * 3
    write(many, other, "overwrite", partitionOverwriteMode="dynamic")
    assert counts(other) == [30] * 3


def test_a_process_that_does_not_see_the_session_asks_which_partitions_are_replaced(spark, path):
    write(frame(spark, *range(6)), path, partitionBy="part")
    schema = frame(spark, 1).schema

    def planned(**options: str) -> DeltaWriter:
        given = WriteOptions.parse({"path": path, **options})
        return DeltaWriter.plan(given, schema, overwrite=True)

    with pytest.raises(InvalidOptionError, match=r"partitionOverwriteMode.*adelta\.spark\.write"):
        planned()
    planned(partitionOverwriteMode="static")
    planned(replaceWhere="part = 1")
    planned(overwriteSchema="true")


def test_properties_of_a_new_table_reach_a_data_source_in_lower_case(path):
    options = {"path": path, "delta.appendonly": "true", "tableProperties": '{"a": "b"}'}
    assert WriteOptions.parse(options).properties == {"a": "b", "delta.appendonly": "true"}


def test_every_way_to_make_a_table_gives_it_the_properties_of_the_session(spark, tmp_path):
    made = [str(tmp_path / name) for name in ("created", "as_select", "built", "streamed")]
    created, as_select, built, streamed = made
    write(frame(spark, 1), str(tmp_path / "source"))
    rows = spark.readStream.format("adelta").load(str(tmp_path / "source"))
    said = {
        f"{DELTA}.properties.defaults.checkpointInterval": "7",
        f"{DELTA}.properties.defaults.appendOnly": "true",
        f"{DELTA}.commitInfo.userMetadata": "nightly",
    }
    with settings(spark, **said):
        mine = "TBLPROPERTIES ('delta.appendonly' = 'false')"
        spark.sql(f"CREATE TABLE adelta.`{created}` (id BIGINT) USING adelta {mine}")
        spark.sql(f"CREATE TABLE adelta.`{as_select}` USING adelta {mine} AS SELECT 1 AS id")
        builder = adelta.spark.DeltaTable.create(spark).location(built).addColumn("id", "bigint")
        builder.property("delta.appendOnly", "false").execute()
        writer = rows.writeStream.format("adelta").option("delta.appendOnly", "false")
        writer = writer.option("checkpointLocation", str(tmp_path / "c"))
        writer.trigger(availableNow=True).start(streamed).awaitTermination(500)
    expected = {"delta.checkpointInterval": "7", "delta.appendOnly": "false"}
    assert [newest(path, "metaData")[0]["configuration"] for path in made] == [expected] * 4
    assert newest(streamed, "commitInfo")[0]["userMetadata"] == "nightly"


def test_the_second_writer_takes_options_where_there_is_a_table(spark, path):
    name = f"adelta.`{path}`"
    frame(spark, 1, 2, 4).write.format("adelta").partitionBy("part").save(path)
    for number, (write, expected) in enumerate(
        (
            (lambda to: to.overwritePartitions(), [2, 7]),
            (lambda to: to.overwrite(f.col("part") == 1), [2, 7]),
            (lambda to: to.append(), [2, 7, 7]),
            (lambda to: to.createOrReplace(), [7]),
            (lambda to: to.replace(), [7]),
        )
    ):
        write(frame(spark, 7).writeTo(name).using("adelta").option("userMetadata", f"m{number}"))
        assert rows(path) == expected
        assert newest(path, "commitInfo")[0]["userMetadata"] == f"m{number}"
