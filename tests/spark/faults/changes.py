"""A driver of Spark that changes a table once, and meets one fault: what `run_changes` starts.

    python -m tests.spark.faults.changes MASTER FAULT KIND=PATH ...

Each table holds the numbers below `ROWS` in files of which each kind of change takes at least four,
so that tasks on the cluster do the work. A change is an application's work 1, and so done once,
however often it is asked for.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.dataframe import DataFrame as ClassicFrame

import adelta.spark
from adelta.spark import DeltaTable
from adelta.spark.cluster.task_executor import SparkTaskExecutor
from adelta.storage.local import LocalStore
from tests.spark.faults.driver import die, session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

__all__ = [
    "CHANGES",
    "FAULTS",
    "PARTS",
    "ROWS",
    "RUN_TWICE",
    "TWIN",
    "VECTORS",
    "change",
    "marks",
]

ROWS, PARTS = 4000, 4
TXN = ("changes", 1)
_MAP_IN_ARROW: Any = ClassicFrame.mapInArrow
_PUT: Any = LocalStore.put_if_absent
_LATE = 25  # seconds: this slot is not free before
TWIN = "twin comes late"
VECTORS = " by vectors"
"""How kinds of changes end of which the table marks rows as deleted."""
RUN_TWICE = ("exception", "executor killed", "executor killed when done", "speculation", TWIN)
"""Faults in which a task is attempted once more."""
FAULTS = (
    "none",
    "exception",
    "executor killed",
    "executor killed when done",
    "executors killed before the commit",
    "speculation",
    TWIN,
    "driver killed before the commit",
    "driver killed once it is put",
)
"""What a change may meet; `_Faulty` and `_arm` say how."""


def marks(path: str) -> set[str]:
    """What has come about while a table was changed: another attempt, the end of a late twin."""
    return {place.name for place in Path(f"{path}-marks").glob("*")}


class _Faulty:
    """What tasks do, and some of their first attempts do wrong; they leave marks in a folder."""

    def __init__(
        self, work: Callable[[Any], Iterator[pa.RecordBatch]], fault: str, folder: Path
    ) -> None:
        self._work = work
        self._fault = fault
        self._folder = folder

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        # of one task alone: others have to end, and a slot to be free for its second attempt
        wrong = context.attemptNumber() == 0 and context.partitionId() == 0
        if context.attemptNumber() > 0:
            self._mark("again")
        if not wrong:
            yield from self._work(batches)
            return
        if self._fault == TWIN:
            rows = list(batches)
            if os.fork() == 0:  # goes on when Spark has given this attempt up
                os.setsid()
                time.sleep(12)
                list(self._work(iter(rows)))
                self._mark("twin")
                os._exit(0)
            time.sleep(_LATE)
            batches = rows
        done = list(self._work(iter(batches)))
        if self._fault == "exception":
            raise ValueError("injected: all of it has been done")
        if self._fault == "executor killed":
            os.kill(_executor_of(os.getppid()), signal.SIGKILL)
            time.sleep(60)
        if self._fault == "speculation":  # another attempt begins meanwhile, and wins
            time.sleep(_LATE)
        yield from done
        if self._fault == "executor killed when done":
            os.kill(_executor_of(os.getppid()), signal.SIGKILL)
            time.sleep(60)

    def _mark(self, name: str) -> None:
        self._folder.mkdir(exist_ok=True)
        (self._folder / name).touch()


def _parents() -> dict[int, int]:
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            found[int(place.name)] = int((place / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    return found


def _executor_of(daemon: int) -> int:
    return _parents()[daemon]


def _executors() -> list[int]:
    """The processes of the executors that this driver's cluster has."""
    parents, found = _parents(), []
    for pid in parents:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        above = pid
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid() and b"CoarseGrainedExecutorBackend" in line:
            found.append(pid)
    return found


def _end_executors() -> None:
    for pid in _executors():
        os.kill(pid, signal.SIGKILL)
    time.sleep(1)


def _arm(fault: str, path: str) -> None:
    """Have the fault be met by all that tasks and commits do to a table."""
    folder = Path(f"{path}-marks")

    def faulty(self: ClassicFrame, func: Any, *arguments: Any, **named: Any) -> Any:
        return _MAP_IN_ARROW(self, _Faulty(func, fault, folder), *arguments, **named)

    ClassicFrame.mapInArrow = faulty  # type: ignore[method-assign]

    async def put_and_meet(self: LocalStore, path: str, data: bytes) -> Any:
        if not (path.startswith("_delta_log/") and path.endswith(".json")):
            return await _PUT(self, path, data)
        if fault == "driver killed before the commit":
            die()
        if fault == "executors killed before the commit":
            _end_executors()
        found = await _PUT(self, path, data)
        if fault == "driver killed once it is put":
            die()
        return found

    LocalStore.put_if_absent = put_and_meet  # type: ignore[method-assign]


def _as_they_are(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches


def _write(condition: str = "true", **options: Any) -> Callable[[SparkSession, str], None]:
    def write(spark: SparkSession, path: str) -> None:
        rows = spark.range(0, ROWS, 1, PARTS).selectExpr(f"id % {PARTS} AS part", "id", "-id AS v")
        rows = rows.where(condition).mapInArrow(_as_they_are, "part long, id long, v long")
        adelta.spark.write(rows, path, mode="overwrite", txn=TXN, **options)

    return write


def _merge(spark: SparkSession, path: str) -> None:
    news = spark.range(0, ROWS + 4, 2).selectExpr(f"id % {PARTS} AS part", "id", "-id AS v")
    merge = DeltaTable.forPath(spark, path).alias("t").merge(news.alias("s"), "t.id = s.id")
    merge = merge.whenMatchedUpdate(set={"v": "t.v + s.v - s.id"}).whenNotMatchedInsertAll()
    merge.execute()


def _delete(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).delete("id % 3 = 0")


def _update(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).update("id % 3 = 0", {"v": "v + 1"})


def _optimize(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).optimize().executeCompaction()


def _zorder(spark: SparkSession, path: str) -> None:
    DeltaTable.forPath(spark, path).optimize().executeZOrderBy("id", "v")


CHANGES: dict[str, Callable[[SparkSession, str], None]] = {
    "overwrite": _write(),
    "overwrite by adelta": _write(nativeWrite="false"),
    "replaceWhere": _write(replaceWhere="part >= 2", condition="part >= 2"),
    "dynamic": _write(partitionOverwriteMode="dynamic", condition="part >= 2"),
    "delete": _delete,
    "update": _update,
    "merge": _merge,
    "optimize": _optimize,
    "zorder": _zorder,
    f"delete{VECTORS}": _delete,
    f"update{VECTORS}": _update,
    f"merge{VECTORS}": _merge,
}


def change(spark: SparkSession, path: str, kind: str) -> str:
    """What became of a change."""
    spark.conf.set("spark.databricks.delta.write.txnAppId", TXN[0])
    spark.conf.set("spark.databricks.delta.write.txnVersion", str(TXN[1]))
    try:
        CHANGES[kind](spark, path)
    except Exception as error:
        return f"failed: {type(error).__name__}: {str(error).strip().splitlines()[-1][:120]}"
    return "done"


def main() -> None:
    master, fault, *work = sys.argv[1:]
    spark = session(master, speculation=fault in ("speculation", TWIN))
    SparkTaskExecutor.bytes_a_task = 1  # or these small files would be the work of one, here
    for item in work:
        kind, _, path = item.partition("=")
        _arm(fault, path)
        print(change(spark, path, kind), flush=True)
    if fault == TWIN:
        time.sleep(14)
    spark.stop()


if __name__ == "__main__":
    main()
