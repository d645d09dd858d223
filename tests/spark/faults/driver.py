"""A driver of Spark that writes once, and meets one fault: what `run` starts, and kills.

    python -m tests.spark.faults.driver MASTER FAULT=PATH ...

It appends the numbers from 1000 on, `ROWS` of them in `TASKS` tasks, as an application's write 1,
to each table in turn; or, where the fault's name begins with ``stream``, as a micro-batch of a
stream, whose checkpoint is beside the table.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import adelta.spark
from adelta.spark.classic.native import frame_write
from adelta.spark.classic.native.parquet_writer import NativeWriter
from adelta.storage.local import LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "CLUSTER_FAULTS",
    "DRIVER_DIES",
    "FIRST",
    "ROWS",
    "STREAM",
    "TASKS",
    "TASK_FAULTS",
    "die",
    "rows_of",
    "session",
    "write",
]

FIRST, ROWS, TASKS = 1000, 4000, 4
TXN = ("faults", 1)
DRIVER_DIES = (
    "after put",
    "before commit",
    "in tasks",
    "before put",
    "after commit",
    "before tasks",
)
TASK_FAULTS = (
    "none",
    "exception",
    "workers killed",
    "executor killed",
    "jobs cancelled",
    "interrupt",
)
STREAM = "stream "
NATIVE = "ADELTA_FAULTS_NATIVE"
"""The variable that says whether Spark's own writer writes."""
CLUSTER_FAULTS = (
    "executor killed",
    "speculation",
    f"{STREAM}executor killed",
    f"{STREAM}speculation",
)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def arm(fault: str) -> None:
    """Have this process end without a word at one step of the write."""
    if fault == "before tasks":
        _around(frame_write, "_Task", before=die)
        _around(NativeWriter, "_write", before=die)
    elif fault == "before commit":
        _around(frame_write, "commit_write", before=die)
    elif fault in ("before put", "after put"):
        put: Any = LocalStore.put_if_absent

        async def put_and_die(self: LocalStore, path: str, data: bytes) -> Any:
            if fault == "before put":
                die()
            await put(self, path, data)
            die()

        LocalStore.put_if_absent = put_and_die  # type: ignore[method-assign]
    elif fault == "after commit":
        _around(frame_write, "call", after=die, when="commit_write")


def _around(
    place: Any,
    name: str,
    *,
    before: Callable[[], None] | None = None,
    after: Callable[[], None] | None = None,
    when: str | None = None,
) -> None:
    inner = getattr(place, name)

    def around(*args: Any, **kwargs: Any) -> Any:
        if before is not None:
            before()
        found = inner(*args, **kwargs)
        if after is not None and getattr(args[0], "__name__", None) == when:
            after()
        return found

    setattr(place, name, around)


def _meets(fault: str) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """What passes rows on, and does harm half-way in the first attempt."""

    def pass_on(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        for position, batch in enumerate(batches):
            if position == 2 and context.attemptNumber() == 0 and context.partitionId() < 2:
                daemon = os.getppid()
                if fault == "exception":
                    raise ValueError("injected: half of the rows have been handed over")
                if fault == "workers killed":
                    for pid in _children(daemon):  # also the one that writes
                        if pid != os.getpid():
                            os.kill(pid, signal.SIGKILL)
                    die()
                if fault == "executor killed":
                    os.kill(_parent(daemon), signal.SIGKILL)
                    time.sleep(60)
                if fault == "speculation":  # another attempt begins meanwhile, and wins
                    time.sleep(60)
            if fault in ("jobs cancelled", "interrupt", "in tasks"):
                time.sleep(0.4)
            yield batch

    return pass_on


def _children(pid: int) -> list[int]:
    return [int(p.name) for p in Path("/proc").glob("[0-9]*") if _parent(int(p.name)) == pid]


def _parent(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except (OSError, IndexError):
        return -1


def _stream(spark: SparkSession, path: str, fault: str) -> None:
    """Take the same rows from a table that holds them, by a query that begins or goes on."""
    source = f"{path}-source"
    if not Path(source).exists():
        numbers = spark.range(FIRST, FIRST + ROWS, 1, TASKS).selectExpr("id", "id % 2 AS part")
        adelta.spark.write(numbers, source)
    rows = spark.readStream.format("adelta").option("minPartitions", TASKS).load(source)
    writer = rows.mapInArrow(_meets(fault), "id long, part long").writeStream.format("adelta")
    writer = writer.option("checkpointLocation", f"{path}-checkpoint").trigger(availableNow=True)
    writer.start(path).awaitTermination()


def rows_of(spark: SparkSession, fault: str) -> DataFrame:
    numbers = spark.range(FIRST, FIRST + ROWS, 1, TASKS).selectExpr("id", "id % 2 AS part")
    return numbers.mapInArrow(_meets(fault), "id long, part long")


def _once_tasks_have_written(path: str, act: Callable[[], None]) -> None:
    """Act as soon as rows are on their way, from another thread."""

    def wait() -> None:
        time.sleep(1.5)
        act()

    threading.Thread(target=wait, daemon=True).start()


def write(spark: SparkSession, path: str, fault: str) -> None:
    arm(fault)
    if fault == "in tasks":
        _once_tasks_have_written(path, die)
    elif fault == "jobs cancelled":
        _once_tasks_have_written(path, spark.sparkContext.cancelAllJobs)
    elif fault == "interrupt":
        _once_tasks_have_written(path, lambda: os.kill(os.getpid(), signal.SIGINT))
    adelta.spark.write(
        rows_of(spark, fault), path, mode="append", txn=TXN, user_metadata=fault,
        maxRecordsPerFile=200, nativeWrite=os.environ.get(NATIVE, "true"),
    )  # fmt: skip


def _outcome(spark: SparkSession, path: str, fault: str) -> str:
    try:
        if fault.startswith(STREAM):
            _stream(spark, path, fault.removeprefix(STREAM))
        else:
            write(spark, path, fault)
    except KeyboardInterrupt:
        return "interrupted"
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"
    return "written"


def session(master: str, *, speculation: bool) -> SparkSession:
    """A session of a driver, in which slow tasks may run twice."""
    conf = {
        "spark.driver.memory": "768m",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
        "spark.executorEnv.PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    if speculation:
        conf |= {
            "spark.speculation": "true",
            "spark.speculation.interval": "100ms",
            "spark.speculation.quantile": "0.25",
            "spark.speculation.minTaskRuntime": "1s",
        }
    spark = adelta.spark.get_session("faults", master, conf)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def main() -> None:
    master, *work = sys.argv[1:]
    spark = session(master, speculation=any("speculation" in item for item in work))
    for item in work:
        fault, _, path = item.partition("=")
        print(_outcome(spark, path, fault), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()
