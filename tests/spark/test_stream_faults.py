"""Each row of a stream once, whatever happens to tasks and to the driver.

`ADELTA_TEST_KILLS` says how many drivers are killed, one after the other; one by default.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import adelta.sync

KILLS = int(os.environ.get("ADELTA_TEST_KILLS", "1"))
FILES = 8
DRIVER = """
import sys
from adelta.spark import get_session

path, to = sys.argv[1:]
conf = {"spark.driver.memory": "512m", "spark.log.level": "OFF"}
spark = get_session("victim", "local[1]", conf)
df = spark.readStream.format("adelta").option("maxFilesPerTrigger", 1).load(path)
writer = df.writeStream.format("adelta").trigger(processingTime="0 seconds")
writer.option("checkpointLocation", f"{to}-checkpoint").start(to).awaitTermination()
"""

STARTS = 300  # seconds in which a driver has got somewhere

pytestmark = pytest.mark.timeout(STARTS * (1 + KILLS))


@pytest.fixture
def path(tmp_path) -> str:
    return str(tmp_path / "t")


def ids(path: str) -> list[int]:
    with adelta.sync.open_table(path) as table:
        return sorted(table.snapshot().scan().to_arrow()["id"].to_pylist())


def take(spark, path, to, change=lambda df: df):
    df = change(spark.readStream.format("adelta").option("maxFilesPerTrigger", 4).load(path))
    writer = df.writeStream.format("adelta").option("checkpointLocation", f"{to}-checkpoint")
    query = writer.trigger(availableNow=True).start(to)
    query.awaitTermination()
    return [progress.numInputRows for progress in query.recentProgress]


def wait_for(files: Path, count: int, process: subprocess.Popen) -> None:
    deadline = time.monotonic() + STARTS
    while len(list(files.glob("*.json"))) < count:
        assert process.poll() is None, "the driver ended by itself"
        assert time.monotonic() < deadline, "the driver got nowhere"
        time.sleep(0.01)


def test_drivers_that_are_killed_lose_and_double_no_row(spark, path, tmp_path):
    to = str(tmp_path / "to")
    for number in range(FILES):
        adelta.sync.write_table(path, pa.table({"id": [2 * number, 2 * number + 1]}), mode="append")
    done = 0
    for kill in range(KILLS):
        victim = subprocess.Popen(
            [sys.executable, "-c", DRIVER, path, to],
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            wait_for(Path(to, "_delta_log"), done + 1, victim)
            time.sleep(0.03 * kill)  # elsewhere in what follows a commit
        finally:
            os.killpg(victim.pid, signal.SIGKILL)
            victim.wait()
        done = len(list(Path(to, "_delta_log").glob("*.json")))
    assert ids(to)
    take(spark, path, to)
    assert ids(to) == list(range(2 * FILES))
    with adelta.sync.open_table(to) as table:
        numbers = [entry.operation_parameters["epochId"] for entry in adelta.sync.history(table)]
    assert len(numbers) == len(set(numbers))


def test_tasks_of_a_stream_that_fail_and_run_again_write_their_rows_once(spark, path, tmp_path):
    to = str(tmp_path / "to")
    for number in range(2):
        rows = pa.table({"id": range(1000 * number, 1000 * number + 1000)})
        adelta.sync.write_table(path, rows, mode="append")

    def fail_at_first(batches):
        from pyspark import TaskContext

        yield from batches
        if TaskContext.get().attemptNumber() == 0:
            raise ValueError("injected: all rows of the task have been handed over")

    take(spark, path, to, lambda df: df.mapInArrow(fail_at_first, df.schema))
    assert ids(to) == list(range(2000))
