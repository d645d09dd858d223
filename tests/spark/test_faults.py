"""Jobs that are cancelled, and drivers that die: `tests.spark.faults.run` has all of them."""

from __future__ import annotations

import os
import signal
import threading
import time

import pyarrow as pa
import pytest

import adelta.spark
import adelta.sync
from adelta.spark.classic.native import frame_write, parquet_writer
from tests.spark.faults import driver, run
from tests.support.depth import DEEP


@pytest.fixture
def path(tmp_path) -> str:
    path = str(tmp_path / "t")
    adelta.sync.write_table(path, pa.table({"id": run.BEFORE, "part": run.BEFORE}))
    return path


def write_again(spark, path: str) -> None:
    adelta.spark.write(driver.rows_of(spark, "none"), path, mode="append", txn=driver.TXN)


def test_a_driver_that_dies_once_the_commit_is_put_has_written_and_writes_no_row_twice(spark, path):
    assert run.drive("local[2]", {path: "after put"}) == ["exit -9"]
    assert run.ids(path) == run.AFTER
    write_again(spark, path)
    assert run.ids(path) == run.AFTER
    assert run.orphans(path) == 0


if DEEP:  # a cluster of JVMs each

    @pytest.mark.timeout(900)
    @pytest.mark.parametrize("fault", driver.CLUSTER_FAULTS)
    def test_executors_that_die_and_tasks_that_run_twice_leave_each_row_once(fault, tmp_path):
        cluster = run.cluster_for(fault)
        path = run.table(str(tmp_path), fault, cluster)
        assert run.drive(cluster, {path: fault}) == ["written"]
        assert run.ids(path) == run.AFTER
        run.orphans(path)  # looks that no live file is gone
        assert run.drive(run.LOCAL, {path: run.again(path)}) == ["written"]
        assert run.ids(path) == run.AFTER


def test_a_job_that_is_cancelled_has_written_nothing_and_can_be_done_again(spark, path):
    said: list[Exception] = []

    def write() -> None:
        spark.sparkContext.setJobGroup("a write", "to be cancelled")
        try:
            adelta.spark.write(driver.rows_of(spark, "jobs cancelled"), path, mode="append")
        except Exception as error:
            said.append(error)

    writing = threading.Thread(target=write)
    writing.start()
    while not spark.sparkContext.statusTracker().getActiveJobsIds():
        time.sleep(0.05)
    spark.sparkContext.cancelJobGroup("a write")
    writing.join()
    assert "cancelled" in str(said[0])
    assert run.ids(path) == run.BEFORE
    write_again(spark, path)
    assert run.ids(path) == run.AFTER


@pytest.mark.parametrize("native", ["true", "false"])
def test_an_interrupt_while_tasks_run_deletes_what_they_have_written(
    spark, path, monkeypatch, native
):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(frame_write.pickle, "loads", interrupt)
    monkeypatch.setattr(parquet_writer, "ConvertTask", interrupt)
    writer = driver.rows_of(spark, "none").write.format("adelta").mode("append")
    with pytest.raises(KeyboardInterrupt):
        writer.option("nativeWrite", native).save(path)
    monkeypatch.undo()
    assert run.ids(path) == run.BEFORE
    assert run.orphans(path) == 0


def test_an_append_that_is_interrupted_leaves_no_job_and_no_commit(spark, path, tmp_path):
    begun = tmp_path / "begun"

    def slow(batches):
        begun.touch()
        time.sleep(300)
        yield from batches

    def interrupt():
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark's cancels all jobs
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            adelta.spark.write(
                driver.rows_of(spark, "none").mapInArrow(slow, "id bigint, part bigint"),
                path,
                mode="append",
            )
    finally:
        signal.signal(signal.SIGINT, before)
        thread.join()
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()
    assert adelta.sync.open_table(path).snapshot().version == 0
