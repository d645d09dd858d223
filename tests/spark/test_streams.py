"""Tables as sources and sinks of Structured Streaming."""

from __future__ import annotations

import json
import pickle
from inspect import signature
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, IllegalArgumentException, StreamingQueryException
from pyspark.sql.streaming import DataStreamWriter

import adelta.spark
import adelta.sync
from adelta.changes.source_rules import Admission
from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.spark import DeltaTable
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.options.streams import StreamOptions, without_stream_options
from adelta.spark.source.datasource import DeltaDataSource
from adelta.spark.source.stream_writer import DeltaStreamWriter, stream_write_options
from adelta.spark.translate.types import arrow_schema
from adelta.spark.versions import SPARK
from tests.spark.versions import limits_micro_batches

FEED = {"delta.enableChangeDataFeed": "true"}


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


@pytest.fixture
def to(tmp_path) -> str:
    return str(tmp_path / "to")


def append(path: str, *ids: int, **columns) -> None:
    rows = {"id": pa.array(ids, pa.int64()), **{k: [v] * len(ids) for k, v in columns.items()}}
    adelta.sync.write_table(path, pa.table(rows), mode="append")


def rows(path: str) -> list[tuple]:
    with adelta.sync.open_table(path) as table:
        found = table.snapshot().scan().to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in found)


def operations(path: str) -> list[tuple]:
    with adelta.sync.open_table(path) as table:
        history = [(e.operation, e.operation_parameters or {}) for e in adelta.sync.history(table)]
    return [(name, said.get("outputMode"), said.get("epochId")) for name, said in reversed(history)]


def stream(spark, path, **options):
    return spark.readStream.format("adelta").options(**options).load(path)


def run(df, to, *, mode="append", checkpoint=None, **options) -> list[int]:
    """Take what is there to a table; how many rows each micro-batch had."""
    writer = df.writeStream.format("adelta").outputMode(mode).options(**options)
    writer = writer.option("checkpointLocation", checkpoint or f"{to}-checkpoint")
    query = writer.trigger(availableNow=True).start(to)
    try:
        assert query.awaitTermination(500), "the query has not ended"
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]
    finally:
        query.stop()


def offsets(to: str) -> list[dict]:
    found = sorted(Path(f"{to}-checkpoint/offsets").glob("[0-9]"))
    return [json.loads(file.read_text().splitlines()[-1]) for file in found]


@limits_micro_batches
def test_a_stream_takes_files_by_the_number_and_goes_on_where_it_stopped(spark, path, to):
    for number in range(3):
        append(path, number, number + 10, part=str(number))
    df = stream(spark, path, maxFilesPerTrigger=2)
    assert run(df, to) == [4, 2]
    id = adelta.sync.open_table(path).snapshot().metadata.id
    first, second = (
        {"sourceVersion": 1, "reservoirId": id, "reservoirVersion": v, "index": i,
         "isStartingVersion": initial}
        for v, i, initial in ((2, 1, True), (3, -1, False))
    )  # fmt: skip
    assert offsets(to) == [first, second]
    append(path, 100, part="x")
    assert run(df, to) == [1]
    expected = [(0, "0"), (1, "1"), (2, "2"), (10, "0"), (11, "1"), (12, "2"), (100, "x")]
    assert rows(to) == expected
    assert operations(to) == [("STREAMING UPDATE", "Append", str(n)) for n in range(3)]
    # Death before Spark notes the end of a micro-batch: it is run again, and adds nothing.
    (commit,) = Path(f"{to}-checkpoint/commits").glob("2")
    commit.unlink()
    Path(f"{to}-checkpoint/commits/.2.crc").unlink()
    assert run(df, to) == [1]
    assert (rows(to), len(operations(to))) == (expected, 3)


def test_a_checkpoint_of_deltas_own_source_goes_on(spark, path, to):
    for number in range(4):
        append(path, number)
    id = adelta.sync.open_table(path).snapshot().metadata.id
    # What delta-spark leaves behind when a first micro-batch took two of the four files.
    offset = (
        f'{{"sourceVersion":1,"reservoirId":"{id}","reservoirVersion":3,"index":1,'
        '"isStartingVersion":true}'
    )
    said = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'
    for name, text in (
        ("metadata", '{"id":"0f0a1b2c-9d8e-4f70-8a6b-123456789abc"}'),
        ("offsets/0", f"v1\n{said}\n{offset}"),
        ("commits/0", 'v1\n{"nextBatchWatermarkMs":0}'),
    ):
        file = Path(f"{to}-checkpoint", name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    assert run(stream(spark, path), to) == [2]
    assert rows(to) == [(2,), (3,)]


def test_rows_come_as_in_a_batch_with_vectors_and_mapped_columns(spark, path, to):
    schema = pa.schema([("id", pa.int64()), ("part", pa.string())])
    mapped = {"delta.columnMapping.mode": "name", "delta.enableDeletionVectors": "true"}
    adelta.sync.create_table(path, schema, partition_by=["part"], properties=mapped).close()
    append(path, 1, 2, 3, 4, part="a")
    adelta.sync.delete(path, "id = 2")
    adelta.sync.rename_column(path, "id", "number")
    adelta.sync.write_table(path, pa.table({"number": [5], "part": ["b"]}), mode="append")
    df = stream(spark, path, maxBytesPerTrigger="1g").where("number <> 4")
    writer = df.writeStream.format("adelta").partitionBy("part").trigger(availableNow=True)
    query = writer.start(to, checkpointLocation=f"{to}-checkpoint")
    query.awaitTermination(500)
    assert rows(to) == [(1, "a"), (3, "a"), (5, "b")]
    with adelta.sync.open_table(to) as table:
        assert table.snapshot().partition_columns == ("part",)


def test_the_feed_is_a_stream_of_inserts_and_then_of_changes(spark, path, to):
    adelta.sync.create_table(path, pa.schema([("id", pa.int64())]), properties=FEED).close()
    append(path, 1, 2, 3)
    df = stream(spark, path, readChangeFeed=True)
    shown = df.select("id", "_change_type", "_commit_version")
    run(shown, to)
    adelta.sync.update(path, {"id": "20"}, "id = 2")
    adelta.sync.delete(path, "id = 3")
    run(shown, to)
    assert rows(to) == [
        (1, "insert", 1), (2, "insert", 1), (2, "update_preimage", 2), (3, "delete", 3),
        (3, "insert", 1), (20, "update_postimage", 2),
    ]  # fmt: skip


def test_new_columns_end_a_stream_that_goes_on_when_it_is_started_again(spark, path, to):
    append(path, 1)
    df = stream(spark, path)
    run(df, to)
    adelta.sync.add_columns(path, pa.schema([("more", pa.string())]))
    append(path, 2, more="x")
    with pytest.raises(StreamingQueryException, match="load it again"):
        run(df, to)
    assert rows(to) == [(1,)]
    run(stream(spark, path), to, mergeSchema=True)
    assert rows(to) == [(1, None), (2, "x")]
    append(path, 3, more="y")
    other = stream(spark, path).selectExpr("CAST(id AS STRING) AS id", "more")
    run(other, to, mergeSchema=True)  # as Delta Spark stores a stream's values in the table's types
    assert rows(to) == [(1, None), (2, "x"), (3, "y")]


def test_a_stream_that_tracks_schemas_goes_on_with_renamed_columns(spark, path, to):
    schema = pa.schema([("id", pa.int64()), ("old", pa.string())])
    mapped = {"delta.columnMapping.mode": "name"}
    adelta.sync.create_table(path, schema, properties=mapped).close()
    append(path, 1, old="a")
    tracking = {"schemaTrackingLocation": f"file:{to}-checkpoint"}
    run(stream(spark, path, **tracking), to)
    append(path, 2, old="b")
    adelta.sync.rename_column(path, "old", "new")
    append(path, 3, new="c")
    if not SPARK.limits_micro_batches:
        run(stream(spark, path, **tracking), to)  # asks once for what there is, and ends
    with pytest.raises(StreamingQueryException, match="start the stream again"):
        run(stream(spark, path, **tracking), to)
    assert rows(to) == [(1, "a"), (2, "b")]
    with pytest.raises(StreamingQueryException, match="allowSourceColumnRename"):
        run(stream(spark, path, **tracking), to)
    spark.conf.set("spark.databricks.delta.streaming.allowSourceColumnRenameAndDrop", "always")
    try:
        df = stream(spark, path, **tracking)
    finally:
        spark.conf.unset("spark.databricks.delta.streaming.allowSourceColumnRenameAndDrop")
    assert df.columns == ["id", "new"]
    run(df.withColumnRenamed("new", "old"), to)
    assert rows(to) == [(1, "a"), (2, "b"), (3, "c")]


def test_a_query_that_runs_replaces_all_rows_and_ends_with_a_commit_that_deletes(spark, path, to):
    append(path, 1, 2, 2)
    counts = stream(spark, path, startingTimestamp="2000-01-01").groupBy("id").count()
    assert run(counts, to, mode="complete") == [3]
    append(path, 2)
    assert run(counts, to, mode="complete") == [1]
    assert rows(to) == [(1, 1), (2, 3)]
    assert [mode for _, mode, _ in operations(to)] == ["Complete", "Complete"]
    adelta.sync.delete(path, "id = 1")
    with pytest.raises(StreamingQueryException, match="skipChangeCommits"):
        run(counts, to, mode="complete")
    skipping = stream(spark, path, skipChangeCommits=True).groupBy("id").count()
    append(path, 5)
    assert run(skipping, to, mode="complete") == [1]
    assert rows(to) == [(1, 1), (2, 3), (5, 1)]


def test_scripts_for_delta_stream_as_they_are(spark, path, to):
    append(path, 1)
    adelta.spark.register(spark, as_delta=True)
    try:
        df = spark.readStream.format("delta").option("startingVersion", 0).load(path)
        query = (
            df.withColumn("part", df.id).writeStream.format("delta").partitionBy("part")
            .option("checkpointLocation", f"{to}-checkpoint").trigger(availableNow=True).start(to)
        )  # fmt: skip
        query.awaitTermination(500)
    finally:
        adelta.spark.register(spark, as_delta=False)
    assert rows(to) == [(1, 1)]
    if "realTime" in signature(DataStreamWriter.trigger).parameters:  # as of Spark 4.2
        writer = stream(spark, path).writeStream.format("adelta").trigger(realTime="5 seconds")
        writer = writer.option("checkpointLocation", f"{to}-real-time")
        with pytest.raises(IllegalArgumentException, match="STREAMING_REAL_TIME_MODE"):
            writer.start(to)
    with pytest.raises(Exception, match="DATA_SOURCE_NOT_FOUND"):
        spark.readStream.format("delta").load(path)
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_TIME_TRAVEL_VIEWS"):
        stream(spark, f"{path}@v0", startingVersion=0)


def test_micro_batches_of_foreach_batch_are_done_once(spark, path, to):
    append(path, 1, 2)
    seen = []

    def upsert(df, batch):
        seen.append((batch.batch_id, batch.is_done(to)))
        adelta.spark.write(df, to, mode="append", txn=batch.txn)
        df.write.format("adelta").mode("append").options(**batch.options).save(f"{to}2")
        if seen == [(0, False)]:
            raise ValueError("injected: nobody hears that it is done")

    writer = stream(spark, path).writeStream.foreachBatch(adelta.spark.foreach_batch(upsert))
    writer = writer.option("checkpointLocation", f"{to}-checkpoint").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="injected"):
        writer.start().awaitTermination(500)
    writer.start().awaitTermination(500)
    assert seen == [(0, False), (0, True)]
    assert rows(to) == rows(f"{to}2") == [(1,), (2,)]


def test_rows_of_changing_aggregates_are_merged_in_foreach_batch(spark, path, to):
    append(path, 1, 2, 1)
    spark.sql("SELECT 1L AS id, 0L AS count").write.format("adelta").save(to)

    def upsert(df, _):
        merge = (
            DeltaTable.forPath(df.sparkSession, to).alias("t").merge(df.alias("s"), "t.id = s.id")
        )
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()

    counts = stream(spark, path).groupBy("id").count().writeStream
    writer = counts.format("adelta").foreachBatch(upsert).outputMode("update")
    writer = writer.option("checkpointLocation", f"{to}-checkpoint").trigger(availableNow=True)
    writer.start().awaitTermination(500)
    assert rows(to) == [(1, 2), (2, 1)]
    with pytest.raises(AnalysisException, match="DELTA_UNSUPPORTED_OUTPUT_MODE"):
        writer.start(to, format="adelta")  # which takes the rows from the function again


def test_an_upsert_of_a_micro_batch_is_done_once(spark, path, to):
    append(path, 1, 2)
    spark.sql("SELECT 1 AS n, 10 AS v").write.format("adelta").save(to)
    seen = []

    def upsert(df, batch):
        seen.append(batch.batch_id)
        table = DeltaTable.forPath(df.sparkSession, to).alias("t")
        merge = table.merge(df.toDF("n").alias("s"), "t.n = s.n")
        merge = merge.whenMatchedUpdate(set={"v": "t.v + 1"})
        with batch.recorded(df.sparkSession):
            merge.whenNotMatchedInsert(values={"n": "s.n", "v": "0"}).execute()
        assert df.sparkSession.conf.get("spark.databricks.delta.write.txnAppId", None) is None
        if len(seen) == 1:
            raise ValueError("injected: nobody hears that it is done")

    writer = stream(spark, path).writeStream.foreachBatch(adelta.spark.foreach_batch(upsert))
    writer = writer.option("checkpointLocation", f"{to}-checkpoint").trigger(availableNow=True)
    with pytest.raises(StreamingQueryException, match="injected"):
        writer.start().awaitTermination(500)
    writer.start().awaitTermination(500)
    assert seen == [0, 0]
    assert rows(to) == [(1, 11), (2, 0)]


def test_a_stream_may_begin_beyond_the_history_where_it_says_so(spark, path, to):
    append(path, 1)
    with pytest.raises(StreamingQueryException, match="no version was committed at or after"):
        run(stream(spark, path, startingTimestamp="2100-01-01"), to)
    lenient = {"timestampOutOfRange": True}
    for number, start in enumerate(({"startingTimestamp": "2100-01-01"}, {"startingVersion": 2})):
        target = f"{to}{number}"
        assert run(stream(spark, path, **start, **lenient), target) == []
    append(path, 2)
    append(path, 3)
    assert run(stream(spark, path, **lenient, startingTimestamp="2100-01-01"), f"{to}0") == [2]
    assert run(stream(spark, path, **lenient, startingVersion=2), f"{to}1") == [1]


# ------------------------------------------------------------------------- without a Spark


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"maxFilesPerTrigger": "0"}, "above 0"),
        ({"maxBytesPerTrigger": "ten"}, "size such as '10g'"),
        ({"excludeRegex": "("}, "no regular expression"),
        (
            {"startingVersion": "1", "startingTimestamp": "2024-01-01"},
            r"^\[DELTA_STARTING_VERSION_AND_TIMESTAMP_BOTH_SET\] .* not both",
        ),
        ({"startingVersion": "newest"}, "'latest'"),
        ({"versionAsOf": "1"}, "not for streams"),
        ({"endingVersion": "1"}, "not for streams"),
        ({"ignoreDeletes": "yes"}, "ignoreDeletes is 'yes'"),
        ({"withEventTimeOrder": "true"}, "withEventTimeOrder needs to know"),
        ({"eventTimeColumn": "at"}, "give withEventTimeOrder, too"),
        ({"timestampOutOfRange": "yes"}, "timestampOutOfRange is 'yes'"),
        ({"schemaTrackingLocation": "/c", "schemaLocation": "/d"}, "another name"),
        ({"schemaTrackingLocation": "/c", "failOnDataLoss": "false"}, "cannot both be"),
        ({"schemaTrackingLocation": "/c", "allowSourceColumnDrop": "yes"}, "'always', or"),
        ({"allowSourceColumnDrop": "always"}, "give schemaTrackingLocation"),
        ({"maxFilePerTrigger": "1"}, "did you mean maxFilesPerTrigger"),
    ],
)
def test_options_that_make_no_sense_are_refused(options, says):
    with pytest.raises(InvalidOptionError, match=says):
        StreamOptions.parse({"path": "t", **options})


def test_tasks_read_from_what_the_driver_planned_alone(path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("part", pa.string())])
    properties = {"delta.enableDeletionVectors": "true", **FEED}
    adelta.sync.create_table(path, schema, partition_by=["part"], properties=properties).close()
    rows = pa.table({"id": [1, 2, 3], "part": ["a", "a", "b"]}, schema=schema)
    adelta.sync.write_table(path, rows, mode="append")
    adelta.sync.delete(path, "id = 2")
    for options, names in (({}, []), ({"readChangeFeed": "true"}, ["_change_type"])):
        given = {"path": path, "minPartitions": "2", "maxBytesPerTrigger": "1", **options}
        source = DeltaDataSource(given)
        columns = source.schema()
        driver = source.streamReader(columns)
        start = driver.initialOffset()
        found, at = [], start
        while (end := driver.next_offset(at, Admission(None, 1), ends=False)) != at:
            for part in driver.partitions(at, end):
                reader, part = pickle.loads(pickle.dumps((source.streamReader(columns), part)))
                for batch in reader.read(part):
                    assert batch.schema == arrow_schema(columns)
                    found += [
                        tuple(row.values()) for row in batch.select(["id", *names]).to_pylist()
                    ]
            at = end
        pickle.dumps(driver)
        driver.stop()
        assert sorted(found) == [(id, *(["insert"] if names else [])) for id in (1, 3)]


@pytest.mark.skipif(SPARK.limits_micro_batches, reason="Spark tells where micro-batches start")
def test_the_first_micro_batch_of_a_run_has_all_rows_where_spark_tells_no_start(spark, path, to):
    for number in range(3):
        append(path, number)
    assert run(stream(spark, path, maxFilesPerTrigger=1), to) == [3]
    append(path, 3)
    append(path, 4)
    assert run(stream(spark, path, maxFilesPerTrigger=1), to) == [2]
    assert rows(to) == [(number,) for number in range(5)]


@pytest.mark.skipif(SPARK.limits_micro_batches, reason="Spark tells where micro-batches start")
def test_later_micro_batches_of_a_run_are_limited_where_spark_tells_no_start(path):
    append(path, 0)
    source = DeltaDataSource({"path": path, "maxFilesPerTrigger": "1"})
    driver = source.streamReader(source.schema())
    start, first = driver.initialOffset(), driver.latestOffset()
    assert len(driver.partitions(start, first)) == 1
    append(path, 1)
    append(path, 2)
    second = driver.latestOffset()
    assert len(driver.partitions(first, second)) == 1
    assert driver.latestOffset() != second
    driver.stop()


def test_options_mean_what_they_do_in_delta():
    given = {"path": "/t", "maxBytesPerTrigger": "10k", "startingTimestamp": "2024-01-01",
             "timeZone": "America/New_York", "failOnDataLoss": "false"}  # fmt: skip
    rules = StreamOptions.parse(given).rules
    assert (rules.max_files, rules.max_bytes, rules.fail_on_data_loss) == (None, 10240, False)
    assert str(rules.start) == "2024-01-01 05:00:00+00:00"
    assert StreamOptions.parse({"path": "/t", "startingVersion": "latest"}).rules.start == "latest"
    assert without_stream_options(given | {"readChangeFeed": "true"})["startingtimestamp"]
    assert "startingtimestamp" not in without_stream_options(given)


def test_a_micro_batch_with_an_unfinished_task_cannot_be_committed(path):
    append(path, 1)
    schema = without_stream_options({"path": path})
    for name in ("txnAppId", "replaceWhere", "partitionOverwriteMode"):
        with pytest.raises(InvalidOptionError, match="not for streams"):
            stream_write_options({**schema, name: "x"})
    from pyspark.sql import types as s

    options = WriteOptions.parse(stream_write_options({**schema, "checkpointLocation": "/c"}))
    columns = s.StructType([s.StructField("id", s.LongType())])
    writer = DeltaStreamWriter(options, columns, overwrite=False)
    with pytest.raises(InvalidUseError, match="not all finished"):
        writer.commit([None], 0)
    with pytest.raises(InvalidUseError, match="tasks of a streaming query"):
        writer.write(iter(()))
    writer.commit([], 0)
    assert rows(path) == [(1,)]
