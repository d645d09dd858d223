"""Tables of which no driver holds the list of files: executors replay the log."""

from __future__ import annotations

import asyncio
import shutil
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from pyspark.errors import AnalysisException
from pyspark.sql import functions as f

import adelta
import adelta.spark
import adelta.sync
from adelta.errors import InvalidTableError, TableNotFoundError
from adelta.log.file_groups import FileGroup
from adelta.spark.options.session_settings import PLANNING_FILES
from adelta.storage.resolve import open_store
from tests.operations.test_distributed_checkpoint import IDS, PARTS, V2, make, read_back, rows_of
from tests.spark.test_native_scan import (
    by_adelta,
    files_opened,
    files_read,
    is_native,
    load,
    rows,
)
from tests.spark.test_task_executor import jobs_of
from tests.support.minimal_reader import MinimalLog, log_objects

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

FILES = 8


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> str:
    """Eight files of ten rows in a checkpoint of several sidecars, and later commits that undo."""
    path = str(tmp_path_factory.mktemp("large") / "t")
    properties = {
        "delta.checkpointPolicy": "v2",
        "adelta.checkpoint.partSize": "3",
        "delta.enableDeletionVectors": "true",
    }
    for part in range(FILES):
        ids = list(range(10 * part, 10 * part + 10))
        adelta.sync.write_table(
            path,
            pa.table({"id": ids, "part": pa.array([part] * 10, pa.int32())}),
            mode="append",
            partition_by=["part"],
            properties=properties if part == 0 else None,
        )
    adelta.sync.checkpoint(path)
    adelta.sync.delete(path, "part = 2")
    adelta.sync.delete(path, "id = 31")  # by a deletion vector
    adelta.sync.write_table(
        path, pa.table({"id": [999], "part": pa.array([5], pa.int32())}), mode="append"
    )
    return path


@pytest.fixture
def driver_reads(monkeypatch) -> list[int]:
    """Reads of file actions of a checkpoint by this very process."""
    seen: list[int] = []
    plain = FileGroup.adds

    async def noted(self, *arguments):
        seen.append(self.row_group)
        return await plain(self, *arguments)

    monkeypatch.setattr(FileGroup, "adds", noted)
    return seen


@pytest.fixture
def large(spark):
    spark.conf.set(PLANNING_FILES, "1")
    yield
    spark.conf.unset(PLANNING_FILES)


QUERIES = [None, "part = 2", "id between 25 and 42", "part in (5, 7) and id > 52"]


@pytest.mark.parametrize("where", QUERIES)
def test_executors_plan_what_the_driver_plans(spark, table, driver_reads, large, where):
    def asked(df):
        return df if where is None else df.where(where)

    spark.conf.set(PLANNING_FILES, "1000000")
    expected = rows(asked(load(spark, table)))
    read = files_read(asked(load(spark, table)))
    assert driver_reads
    driver_reads.clear()
    spark.conf.set(PLANNING_FILES, "1")
    df = asked(load(spark, table))
    assert is_native(df)
    assert (rows(df), files_opened(df)) == (expected, read)
    assert rows(asked(by_adelta(spark, table))) == expected
    if where is not None:
        assert rows(by_adelta(spark, table, where=where)) == expected
        assert rows(adelta.spark.read(spark, table, where=where)) == expected
    assert driver_reads == []


def test_totals_of_a_large_table_are_counted_by_executors(
    spark, table, driver_reads, large, tmp_path
):
    bare = tmp_path / "t"
    shutil.copytree(table, bare)
    for checksum in (bare / "_delta_log").glob("*.crc"):
        checksum.unlink()
    df = load(spark, str(bare))
    assert is_native(df)
    assert df.count() == 70
    assert 0 < df._jdf.queryExecution().optimizedPlan().stats().sizeInBytes() < 1 << 20
    assert df.agg(f.sum("id")).collect()[0][0] == sum(range(80)) - sum(range(20, 30)) - 31 + 999
    assert driver_reads == []


def test_the_jobs_that_plan_a_query_are_in_the_group_of_who_asks(spark, table, large):
    df = load(spark, table).where("id > 42")  # begun by one, and asked for by another
    with jobs_of(spark) as jobs:
        assert df.count() == 38
    assert len(jobs.grouped) > 1
    assert not jobs.others


def test_a_setting_that_is_no_number_is_refused(spark, table, large):
    spark.conf.set(PLANNING_FILES, "many")
    with pytest.raises(AnalysisException, match="distributedPlanningFiles"):
        load(spark, table).count()


def file_actions(path: Path) -> list[Counter[bytes]]:
    """The actions of the last checkpoint, by part where it has some."""
    store = open_store(str(path))
    log = asyncio.run(log_objects(store))
    return rows_of(MinimalLog(log), max(MinimalLog(log).checkpoints))


@pytest.mark.parametrize("kind", [V2, PARTS], ids=["v2", "parts"])
def test_executors_write_what_one_process_writes(spark, tmp_path, kind):
    path = tmp_path / "t"
    asyncio.run(make(path, kind | {"delta.enableDeletionVectors": "true"}, absolute=False))
    other = tmp_path / "other"
    shutil.copytree(path, other)
    expected = adelta.sync.checkpoint(str(other))
    parts = file_actions(other)
    found = adelta.spark.checkpoint(spark, str(path), parts=len(parts) if len(parts) > 1 else None)
    assert (found.version, found.num_files) == (expected.version, expected.num_files)
    assert file_actions(path) == parts
    assert asyncio.run(read_back(path)) == IDS
    assert (
        sorted(
            QueryBuilder()
            .register("t", DeltaTable(str(path)))
            .execute("select id from t")
            .read_all()["id"]
            .to_pylist()
        )
        == IDS
    )


def test_a_checkpoint_is_written_of_a_table_by_its_name(spark, tmp_path):
    path = str(tmp_path / "t")
    adelta.sync.write_table(path, pa.table({"id": [1, 2]}), properties=V2)
    with pytest.raises(TableNotFoundError, match="no table of that name"):
        adelta.spark.checkpoint(spark, "nothing_of_that_name")
    spark.sql(f"CREATE TABLE checkpointed USING adelta LOCATION '{path}'")
    try:
        assert adelta.spark.checkpoint(spark, "checkpointed", parts=2).num_files == 1
        assert adelta.spark.checkpoint(spark, f"adelta.`{path}`").num_files == 1
    finally:
        spark.sql("DROP TABLE checkpointed")


def test_what_a_task_raises_is_raised_here(spark, tmp_path):
    path = tmp_path / "t"
    adelta.sync.write_table(path, pa.table({"id": [1]}), properties=V2)
    (path / "_delta_log" / f"{0:020d}.json").write_bytes(b"{}")
    with pytest.raises(InvalidTableError):
        adelta.spark.checkpoint(spark, str(path), parts=2)


def test_a_damaged_checkpoint_is_passed_over_by_executors(spark, table, large, tmp_path_factory):
    copy = tmp_path_factory.mktemp("damaged") / "t"  # other readers are not asked to read it
    shutil.copytree(table, copy)
    sidecar = next((copy / "_delta_log" / "_sidecars").iterdir())
    data = bytearray(sidecar.read_bytes())
    data[10:200] = bytes(190)
    sidecar.write_bytes(data)
    assert load(spark, str(copy)).where("id >= 0").count() == 70
