"""Writes of Spark under faults: a table holds a write's rows once or not at all, and then once.

    python -m tests.spark.faults.run [WORD]     those with the word in their name; some minutes

All of it twice: where Spark's own writer writes the files, and where adelta's does.

Drivers append to tables that are there: tasks fail, workers and executors are killed, jobs are
cancelled, and drivers are killed at each step of a commit. Then a reader of another library looks:
the rows are as before or as after, every file of the log is there, and what is on disk beside them
are data files that no log names. The same write, done again as the same write of its application,
leaves every row once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

import adelta.sync
from tests.spark.faults.driver import (
    CLUSTER_FAULTS,
    DRIVER_DIES,
    FIRST,
    NATIVE,
    ROWS,
    STREAM,
    TASK_FAULTS,
)
from tests.spark.faults.two_hosts import TWO_HOSTS, started
from tests.support.spark_startup import quick_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

LOCAL, CLUSTER = "local[2,4]", "local-cluster[2,1,1024]"
BEFORE = list(range(10))
AFTER = BEFORE + list(range(FIRST, FIRST + ROWS))
MAY_STAND = {"after put", "after commit", "none", "exception", "workers killed", *CLUSTER_FAULTS}


def ids(path: str) -> list[int]:
    return sorted(deltalake.DeltaTable(path).to_pyarrow_table()["id"].to_pylist())


def orphans(path: str) -> int:
    """Data files that no log names; every other one has to be there."""
    live = {os.path.relpath(uri, path) for uri in deltalake.DeltaTable(path).file_uris()}
    found = {str(p.relative_to(path)) for p in Path(path).rglob("*.parquet")}
    assert live <= found, f"lost: {live - found}"
    return len(found - live)


def cluster_for(fault: str) -> str:
    """Which cluster can meet a fault with tasks."""
    return TWO_HOSTS if "speculation" in fault else CLUSTER


def drive(master: str, work: dict[str, str], native: str = "true") -> list[str]:
    """What became of each write; faults by the table that meets them."""
    items = [f"{fault}={path}" for path, fault in work.items()]
    with started(master) as address:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.faults.driver", address, *items],
            env=quick_spark() | {NATIVE: native},
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    said = done.stdout.split("\n")[: len(work)]
    return [each or f"exit {done.returncode}" for each in said]


def table(folder: str, fault: str, master: str) -> str:
    path = str(Path(folder) / f"{fault}-{master.partition('[')[0]}".replace(" ", "_"))
    rows = pa.table({"id": pa.array(BEFORE, pa.int64()), "part": pa.array(BEFORE, pa.int64())})
    adelta.sync.write_table(path, rows)
    return path


def meet(folder: str, faults: Sequence[str], master: str, native: str) -> list[str]:
    """Have writes of one driver meet faults; their tables."""
    begun = time.monotonic()
    work = {table(folder, fault, master): fault for fault in faults}
    for (path, fault), said in zip(work.items(), drive(master, work, native), strict=True):
        expected, stands = AFTER if fault in MAY_STAND else BEFORE, ids(path)
        good = stands == expected
        print(
            f"{'good' if good else 'WRONG'}: {fault} on {master}, "
            f"{'by Spark' if native == 'true' else 'by adelta'}: {said}, {len(stands)} rows,"
            f" {orphans(path)} orphans, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return list(work)


def again(path: str) -> str:
    """What does the write of a table once more, without a fault."""
    return f"{STREAM}none" if Path(path).name.startswith(STREAM.strip()) else "none"


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    alone = ("executor killed", "workers killed")  # idle workers die, too, and use up attempts
    runs = [([fault for fault in TASK_FAULTS if fault not in alone], LOCAL)]
    runs += [
        (["workers killed"], LOCAL),
        *(([fault], cluster_for(fault)) for fault in CLUSTER_FAULTS),
    ]
    runs += [([fault], LOCAL) for fault in DRIVER_DIES]
    runs += [(["in tasks"], CLUSTER)]
    for native in ("true", "false"):
        _all(runs, word, native)


def _all(runs: Sequence[tuple[list[str], str]], word: str, native: str) -> None:
    """Have all writes meet their faults, files written by Spark's own writer or by adelta's."""
    with tempfile.TemporaryDirectory() as folder:
        met = []
        for faults, master in runs:
            if any(word in fault for fault in faults):
                found = [fault for fault in faults if word in fault]
                met += meet(folder, found, master, native)
        said = drive(LOCAL, {path: again(path) for path in met}, native)
        twice = [path for path in met if ids(path) != AFTER or orphans(path) < 0]
        print(f"the same writes again: {set(said)}; not each row once: {twice or 'nowhere'}")


if __name__ == "__main__":
    main()
