"""The tasks of an operation, run by Spark."""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING
from uuid import UUID, uuid4

import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError

import adelta
import adelta.spark
import adelta.sync
from adelta.errors import InvariantViolationError, StorageError
from adelta.spark import DeltaTable
from adelta.spark.cluster.job_settings import JobSettings
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.sync._portal import call
from adelta.table import open_table, roots_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from adelta.storage.roots import StoreRoots


@dataclass(frozen=True)
class Told:
    """Where a task ran."""

    number: int
    process: int
    paths: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tells:
    """A task that says where it runs, and may fail."""

    number: int
    flag: str
    fails: int = 0
    sleeps: float = 0

    async def run(self, roots: StoreRoots) -> Told:
        await asyncio.sleep(self.sleeps)
        if begin(self.flag, self.number) < self.fails:
            raise StorageError("the first attempt fails")
        if self.fails:
            raise InvariantViolationError("so does the second")
        path = f"part-0000{self.number}-{UUID(int=self.number)}.c000.snappy.parquet"
        await roots.store.put(path, b"x")
        return Told(self.number, os.getpid(), (path,))


def begin(flag: str, number: int) -> int:
    """Note that a task has begun; how often it has by now."""
    with Path(flag).open("a") as begun:
        begun.write(f"{number}\n")
    return Path(flag).read_text().split().count(str(number))


@pytest.fixture
def place(spark, tmp_path) -> str:
    place = str(tmp_path / "t")
    for number in range(3):
        ids = pa.array(range(100 * number, 100 * number + 100))
        adelta.sync.write_table(place, pa.table({"id": ids, "v": ids}))
    return place


def run(spark, place, tasks):
    async def all_of_them():
        async with open_table(place) as table:
            return await SparkTaskExecutor(spark, place, jobs=JobSettings()).run(
                roots_of(table), tasks
            )

    return call(all_of_them)


def test_tasks_run_elsewhere_and_answer_in_their_order(spark, place, tmp_path):
    flag = str(tmp_path / "begun")
    found = run(spark, place, [Tells(number, flag) for number in (3, 1, 2)])
    assert [each.number for each in found] == [3, 1, 2]
    assert os.getpid() not in {each.process for each in found}
    (alone,) = run(spark, place, [Tells(4, flag)])
    assert alone.process == os.getpid()


def test_a_store_that_fails_is_tried_again_and_an_error_comes_as_it_is(spark, place, tmp_path):
    before = sorted(Path(place).glob("*.parquet"))
    flag = tmp_path / "begun"
    with pytest.raises(InvariantViolationError, match="so does the second"):
        run(spark, place, [Tells(1, str(flag)), Tells(2, str(flag), fails=2), Tells(3, str(flag))])
    assert sorted(flag.read_text().split()) == ["1", "2", "2", "3"]
    assert sorted(Path(place).glob("*.parquet")) == before


def test_who_is_cancelled_waits_for_the_end_of_the_job(spark, place, tmp_path):
    flag = str(tmp_path / "begun")

    async def cancelled():
        async with open_table(place) as table:
            tasks = [Tells(number, flag, sleeps=200) for number in (1, 2, 3)]
            job = asyncio.ensure_future(
                SparkTaskExecutor(spark, place, jobs=JobSettings()).run(roots_of(table), tasks)
            )
            while not spark.sparkContext.statusTracker().getActiveJobsIds():  # noqa: ASYNC110
                await asyncio.sleep(0.1)
            job.cancel()
            await asyncio.wait((job,), timeout=150)
            return job.cancelled()

    assert call(cancelled)
    assert not spark.sparkContext.statusTracker().getActiveJobsIds()


def test_rows_are_changed_by_tasks_of_spark_as_they_are_without_it(
    spark, place, tmp_path, monkeypatch
):
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)
    table = DeltaTable.forPath(spark, place)
    jobs = len(spark.sparkContext.statusTracker().getJobIdsForGroup())
    assert table.delete("id % 3 = 0").collect() == [(100,)]
    assert table.update("id % 3 = 1", {"v": "-id"}).collect() == [(100,)]
    assert len(spark.sparkContext.statusTracker().getJobIdsForGroup()) > jobs
    rows = adelta.sync.open_table(place).snapshot().scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": n, "v": -n if n % 3 == 1 else n} for n in range(300) if n % 3]
    entry = adelta.sync.history(place)[0]
    assert entry.operation_metrics["numUpdatedRows"] == "100"


@dataclass
class Jobs:
    """Jobs of a group, and those that are in none."""

    grouped: set[int] = field(default_factory=set)
    others: set[int] = field(default_factory=set)


@contextmanager
def jobs_of(spark) -> Iterator[Jobs]:
    """What jobs a block begins, the caller of which has a group."""
    tracker, group, found = spark.sparkContext.statusTracker(), str(uuid4()), Jobs()
    listeners = spark.sparkContext._jsc.sc().listenerBus()
    listeners.waitUntilEmpty()
    before = set(tracker.getJobIdsForGroup())
    spark.sparkContext.setJobGroup(group, "a caller")
    try:
        yield found
    finally:
        spark.sparkContext._jsc.clearJobGroup()
        listeners.waitUntilEmpty()
        found.grouped = set(tracker.getJobIdsForGroup(group))
        found.others = set(tracker.getJobIdsForGroup()) - before


@pytest.mark.parametrize(
    "statement",
    [
        "OPTIMIZE {}",
        "UPDATE {} SET v = 0 WHERE id % 2 = 0",
        "DELETE FROM {} WHERE id % 2 = 0",
        "MERGE INTO {} t USING (SELECT 7L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE",
        "INSERT INTO {} SELECT id, id FROM range(3)",
    ],
)
def test_all_jobs_of_a_statement_are_in_the_group_of_the_caller(
    spark, tmp_path, monkeypatch, statement
):
    monkeypatch.setattr(SparkTaskExecutor, "bytes_a_task", 1)
    place = str(tmp_path / "t")
    for _ in range(2):
        rows = pa.table({"id": range(20), "v": [0, 1] * 10})
        adelta.sync.write_table(place, rows, partition_by=["v"])
    with jobs_of(spark) as jobs:
        adelta.spark.sql(spark, statement.format(f"adelta.`{place}`"))
    assert jobs.grouped
    assert not jobs.others


def test_who_cancels_the_group_of_the_caller_cancels_a_merge_as_a_whole(spark, place, tmp_path):
    context = spark.sparkContext
    flag = tmp_path / "begun"

    def slow(batches):
        flag.touch()
        time.sleep(200)
        yield from batches

    def cancel():
        while not flag.exists():
            time.sleep(0.05)
        context.cancelJobGroup("of the caller")

    late = spark.range(5).selectExpr("id", "id AS v").mapInArrow(slow, "id bigint, v bigint")
    merge = DeltaTable.forPath(spark, place).alias("t").merge(late.alias("s"), "t.id = s.id")
    files = sorted(Path(place).rglob("*"))
    context.setJobGroup("of the caller", "a merge", interruptOnCancel=True)
    thread = Thread(target=cancel)
    thread.start()
    try:
        with pytest.raises(Py4JJavaError, match="cancelled job group of the caller"):
            merge.whenMatchedDelete().execute()
    finally:
        context._jsc.clearJobGroup()
        thread.join()
    assert sorted(Path(place).rglob("*")) == files
    merge = DeltaTable.forPath(spark, place).alias("t").merge(spark.range(5), "t.id = source.id")
    assert merge.whenMatchedDelete().execute().collect()[0].num_deleted_rows == 5
