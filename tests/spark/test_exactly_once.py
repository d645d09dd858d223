"""Each row once, whatever happens to tasks, jobs and commits."""

from __future__ import annotations

import os
import pickle
import shutil
import time
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import types as s

import adelta.spark
from adelta.errors import (
    ConcurrentAppendError,
    InvalidUseError,
    InvariantViolationError,
    MetadataChangedError,
    TableAlreadyExistsError,
)
from adelta.operations.create import create_table
from adelta.spark.options.read_write import WriteOptions
from adelta.spark.source.writer import DeltaWriter
from adelta.sync._portal import call

APPEND_ONLY = {"delta.appendOnly": "true"}
SCHEMA = s.StructType([s.StructField("id", s.LongType())])


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def rows(path: str) -> list[int]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def live(path: str) -> set[str]:
    return {os.path.relpath(uri, path) for uri in deltalake.DeltaTable(path).file_uris()}


def on_disk(path: str) -> set[str]:
    return {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet")}


def planned(path: str, *, overwrite: bool = False, **options: str) -> DeltaWriter:
    """A writer as the processes that write and commit get it."""
    options = {"path": path, **options}
    writer = DeltaWriter.plan(WriteOptions.parse(options), SCHEMA, overwrite=overwrite)
    return pickle.loads(pickle.dumps(writer))


def written(writer: DeltaWriter, *ids: int):
    batch = pa.record_batch({"id": pa.array(ids, pa.int64())})
    return pickle.loads(pickle.dumps(writer.write(iter([batch]))))


# ------------------------------------------------------------------------------------- on Spark


def test_tasks_that_fail_and_run_again_write_their_rows_once(spark, path):
    def fail_at_first(batches):
        from pyspark import TaskContext

        yield from batches
        context = TaskContext.get()
        if context.attemptNumber() + context.partitionId() < 2:
            raise ValueError("injected: all rows of the task have been handed over")

    df = spark.range(0, 4000, 1, 4).mapInArrow(fail_at_first, "id long")
    adelta.spark.write(df, path)
    assert rows(path) == list(range(4000))


def test_tasks_whose_worker_dies_write_their_rows_once(spark, path):
    def die_at_first(batches):
        from pyspark import TaskContext

        for position, batch in enumerate(batches):
            if position == 1 and TaskContext.get().attemptNumber() == 0:
                os._exit(1)
            yield batch

    # Batches small enough that files have been begun when the worker dies.
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    try:
        adelta.spark.write(spark.range(0, 2000, 1, 2).mapInArrow(die_at_first, "id long"), path)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    assert rows(path) == list(range(2000))


def test_a_job_that_fails_leaves_the_table_as_it_was(spark, path):
    adelta.spark.write(spark.range(5), path)
    before = live(path)

    def fail_late(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().partitionId() == 1:
            raise ValueError("injected failure")

    df = spark.range(0, 4000, 1, 2).mapInArrow(fail_late, "id long")
    with pytest.raises(PySparkException, match="injected failure"):
        adelta.spark.write(df, path, mode="overwrite")
    assert deltalake.DeltaTable(path).version() == 0
    assert (rows(path), live(path)) == (list(range(5)), before)
    deadline = time.monotonic() + 120  # a task that was cancelled may still clean up
    while on_disk(path) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert on_disk(path) == before


def test_a_job_that_fails_makes_no_table(spark, path):
    df = spark.range(0, 10, 1, 1).selectExpr("if(id = 7, raise_error('injected'), id) id")
    with pytest.raises(PySparkException, match="injected"):
        adelta.spark.write(df, path)
    assert not adelta.spark.DeltaTable.isDeltaTable(spark, path)
    adelta.spark.write(spark.range(10), path)
    assert rows(path) == list(range(10))


# ----------------------------------------------------------------- the writer, without a Spark


def test_only_what_is_committed_is_in_the_table(path):
    writer = planned(path)
    winner = written(writer, 1, 2)
    loser = written(writer, 1, 2)  # the same task, raced
    writer.commit([winner])
    assert rows(path) == [1, 2]
    assert on_disk(path) > live(path)
    assert {f.path for f in loser.files}.isdisjoint(live(path))


def test_a_job_with_an_unfinished_task_cannot_be_committed(path):
    writer = planned(path)
    with pytest.raises(InvalidUseError, match="not all finished"):
        writer.commit([written(writer, 1), None])


def test_abort_deletes_what_finished_tasks_wrote(path):
    writer = planned(path)
    message = written(writer, 1)
    assert len(on_disk(path)) == 1
    writer.abort([message, None])
    assert on_disk(path) == set()


def test_abort_after_a_commit_deletes_nothing(path):
    writer = planned(path)
    message = written(writer, 1)
    writer.commit([message])
    writer.abort([message])  # as Spark does where the answer to the commit got lost
    assert rows(path) == [1]


def test_an_append_outlives_any_number_of_others(path):
    planned(path).commit([])
    writer = planned(path)
    message = written(writer, 1)
    for other in range(2, 5):
        competitor = planned(path)
        competitor.commit([written(competitor, other)])
    writer.commit([message])
    assert rows(path) == [1, 2, 3, 4]


def test_an_overwrite_never_undoes_a_write_that_it_has_not_seen(path):
    first = planned(path)
    first.commit([written(first, 1)])
    writer = planned(path, overwrite=True)
    message = written(writer, 10)
    other = planned(path)
    other.commit([written(other, 2)])
    with pytest.raises(ConcurrentAppendError):
        writer.commit([message])
    assert rows(path) == [1, 2]
    assert on_disk(path) == live(path)  # the loser has cleaned up


def test_of_two_jobs_that_make_the_same_table_both_append(path):
    one, two = planned(path), planned(path)
    messages = written(one, 1), written(two, 2)
    one.commit([messages[0]])
    two.commit([messages[1]])
    assert rows(path) == [1, 2]


def test_a_job_that_makes_a_table_only_loses_to_one_that_has_made_it(path):
    only, ignoring = planned(path, ifExists="error"), planned(path, ifExists="ignore")
    replacing = planned(path, overwrite=True)
    jobs = [(w, written(w, n)) for n, w in enumerate((only, ignoring, replacing))]
    planned(path).commit([])
    with pytest.raises(TableAlreadyExistsError):
        only.commit([jobs[0][1]])
    ignoring.commit([jobs[1][1]])
    with pytest.raises(MetadataChangedError):
        replacing.commit([jobs[2][1]])
    assert (rows(path), on_disk(path)) == ([], set())


def test_the_same_work_done_twice_at_the_same_time_is_in_the_table_once(path):
    planned(path).commit([])
    options = {"txnAppId": "nightly", "txnVersion": "1"}
    one, two = planned(path, **options), planned(path, **options)
    messages = written(one, 1), written(two, 1)
    one.commit([messages[0]])
    two.commit([messages[1]])
    assert rows(path) == [1]
    assert on_disk(path) == live(path)


def test_work_that_is_done_already_is_not_even_written(path):
    options = {"txnAppId": "nightly", "txnVersion": "1"}
    one = planned(path, **options)
    one.commit([written(one, 1)])
    again = planned(path, **options)
    assert written(again, 1).files == ()
    again.commit([])
    assert rows(path) == [1]


def test_an_append_only_table_is_not_overwritten_and_no_task_starts(path):
    made = call(create_table, path, pa.schema({"id": pa.int64()}), properties=APPEND_ONLY)
    call(made.aclose)
    with pytest.raises(InvariantViolationError, match="append-only"):
        planned(path, overwrite=True)
    writer = planned(path)
    writer.commit([written(writer, 1)])
    assert rows(path) == [1]


def test_a_job_does_not_commit_to_a_table_that_was_made_anew_since_it_was_planned(
    path: str,
) -> None:
    call(_create, path, pa.schema([("id", pa.int64())]))
    options = WriteOptions(path, {})
    writer = DeltaWriter.plan(options, SCHEMA, overwrite=False)
    written = writer.write(iter(pa.table({"id": [1, 2]}).to_batches()))
    shutil.rmtree(path)
    call(_create, path, pa.schema([("id", pa.string())]))
    with pytest.raises(MetadataChangedError, match="dropped and made anew"):
        writer.commit([written])
    assert rows(path) == []
    assert not list(Path(path).glob("*.parquet"))


async def _create(path: str, schema: pa.Schema) -> None:
    async with await create_table(path, schema):
        pass
