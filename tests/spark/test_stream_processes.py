"""Streams in classic sessions: which Python processes Spark starts for them, and which it does not.

Only processes that the JVM itself starts count: the workers that it keeps fork themselves, and are
ended when they have been idle for a minute.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException

import adelta.sync
from adelta.errors import SchemaMismatchError
from adelta.spark.translate.errors_in_text import error_in

DRIVER = """
import json
import subprocess
import sys

import pyarrow as pa

import adelta.sync
from adelta.spark import get_session

path, to = sys.argv[1:]


def started():
    jvm, lines = spark.sparkContext._gateway.proc.pid, []
    listing = ["ps", "-A", "-ww", "-o", "ppid=,pid=,args="]
    ps = subprocess.run(listing, capture_output=True, text=True)
    for line in ps.stdout.splitlines():
        parent, pid, *words = line.split()
        if int(parent) == jvm and "-m" in words:
            lines.append((pid, " ".join(words[words.index("-m") + 1 :])))
    return dict(lines)


def append_files(count):
    for _ in range(count):
        adelta.sync.write_table(path, pa.table({"id": [1, 2]}), mode="append")


append_files(1)
conf = {"spark.driver.memory": "512m", "spark.log.level": "OFF"}
spark = get_session("streams", "local[1]", conf)
df = spark.readStream.format("adelta").option("maxFilesPerTrigger", 1).load(path)
writer = df.writeStream.format("adelta").option("checkpointLocation", f"{to}-checkpoint")
query = writer.trigger(processingTime="0 seconds").start(to)
query.processAllAvailable()
first = started()
append_files(4)
query.processAllAvailable()
print(json.dumps({"first": first, "later": started()}))
query.stop()
"""
PYTHON = """#!/bin/sh
case "$*" in *python_streaming_source_runner*)
    if mkdir "{folder}/slow" 2>/dev/null; then sleep 12; fi ;;
esac
exec "{python}" "$@"
"""
LONGEST = 500  # seconds for a driver

pytestmark = pytest.mark.timeout(LONGEST)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("processes")


@pytest.fixture(scope="module")
def processes(folder: Path) -> dict[str, dict[str, str]]:
    """The Python processes of a JVM after one micro-batch, and after four more.

    The first process of the stream's source takes longer to start than Spark waits.
    """
    python = folder / "python"
    python.write_text(PYTHON.format(folder=folder, python=sys.executable))
    python.chmod(0o755)
    driver = subprocess.run(
        [sys.executable, "-c", DRIVER, str(folder / "t"), str(folder / "to")],
        env={**os.environ, "PYSPARK_PYTHON": str(python)},
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert driver.returncode == 0, driver.stderr
    found: dict[str, dict[str, str]] = json.loads(driver.stdout.splitlines()[-1])
    return found


def rows(path: str) -> list[Any]:
    with adelta.sync.open_table(path) as table:
        return sorted(table.snapshot().scan().to_arrow()["id"].to_pylist())


def epochs(path: str) -> list[str]:
    with adelta.sync.open_table(path) as table:
        history = adelta.sync.history(table)
        return [entry.operation_parameters["epochId"] for entry in reversed(history)]


def run(spark: Any, path: str, to: str, *, by_data_source: bool = False) -> None:
    df = spark.readStream.format("adelta").option("maxFilesPerTrigger", 1).load(path)
    writer = df.writeStream.option("checkpointLocation", f"{to}-checkpoint")
    writer = writer.trigger(availableNow=True)
    if by_data_source:
        query = writer._sq(writer._jwrite.format("adelta").start(to))
    else:
        query = writer.format("adelta").start(to)
    try:
        assert query.awaitTermination(LONGEST)
    finally:
        query.stop()


def test_micro_batches_of_a_running_stream_start_no_python_process(processes, folder):
    assert processes["later"] == processes["first"]
    assert epochs(str(folder / "to")) == ["0", "1", "2", "3", "4"]
    assert rows(str(folder / "to")) == [1] * 5 + [2] * 5


def test_the_sink_of_a_stream_has_no_python_process(processes):
    modules = " ".join(processes["later"].values())
    assert "python_streaming_source_runner" in modules
    assert "write_into_data_source" not in modules
    assert "python_streaming_sink_runner" not in modules


def test_a_stream_starts_although_its_source_needs_longer_than_spark_waits(processes, folder):
    assert (folder / "slow").is_dir()
    assert rows(str(folder / "to"))


def test_a_query_that_the_data_source_has_written_goes_on_in_the_driver(spark, tmp_path):
    path, to = str(tmp_path / "t"), str(tmp_path / "to")
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    run(spark, path, to, by_data_source=True)
    assert (rows(to), epochs(to)) == ([1], ["0"])
    # Spark does not know that the micro-batch is done: the driver runs it again, and adds nothing.
    Path(f"{to}-checkpoint/commits/0").unlink()
    Path(f"{to}-checkpoint/commits/.0.crc").unlink()
    adelta.sync.write_table(path, pa.table({"id": [2]}), mode="append")
    run(spark, path, to)
    assert (rows(to), epochs(to)) == ([1, 2], ["0", "1"])
    adelta.sync.write_table(path, pa.table({"id": [3]}), mode="append")
    run(spark, path, to, by_data_source=True)
    assert (rows(to), epochs(to)) == ([1, 2, 3], ["0", "1", "2"])


def test_rows_that_sparks_writer_of_parquet_cannot_write_are_written_by_tasks(spark, tmp_path):
    path, to = str(tmp_path / "t"), str(tmp_path / "to")
    adelta.sync.write_table(path, pa.table({"id": [1, 2]}))
    schema, mapped = pa.schema([("id", pa.int64())]), {"delta.columnMapping.mode": "name"}
    adelta.sync.create_table(to, schema, properties=mapped).close()
    run(spark, path, to)
    assert rows(to) == [1, 2]


def test_micro_batches_without_files_make_no_commit(spark, tmp_path):
    path, to = str(tmp_path / "t"), str(tmp_path / "to")
    adelta.sync.write_table(path, pa.table({"id": [1, 2]}))
    run(spark, path, to)
    adelta.sync.optimize(path)
    adelta.sync.set_properties(path, {"delta.appendOnly": "true"})
    run(spark, path, to)
    adelta.sync.write_table(path, pa.table({"id": [3]}), mode="append")
    run(spark, path, to)
    assert rows(to) == [1, 2, 3]
    assert len(epochs(to)) == 2


@pytest.mark.parametrize("by_data_source", [False, True])
def test_rows_that_a_table_cannot_take_end_a_stream_with_the_error_of_the_table(
    spark, tmp_path, by_data_source
):
    path, to = str(tmp_path / "t"), str(tmp_path / "to")
    adelta.sync.write_table(path, pa.table({"id": [1], "more": [1]}))
    adelta.sync.write_table(to, pa.table({"id": [0]}))
    with pytest.raises(StreamingQueryException, match="SchemaMismatchError") as caught:
        run(spark, path, to, by_data_source=by_data_source)
    assert caught.value.getCondition() == "STREAM_FAILED"
    assert isinstance(error_in(str(caught.value)), SchemaMismatchError)
    assert rows(to) == [0]


def test_a_stream_without_a_checkpoint_is_refused_at_its_start(spark, tmp_path):
    path, to = str(tmp_path / "t"), str(tmp_path / "to")
    adelta.sync.write_table(path, pa.table({"id": [1]}))
    df = spark.readStream.format("adelta").load(path)
    with pytest.raises(Exception, match="checkpointLocation"):
        df.writeStream.format("adelta").start(to)
