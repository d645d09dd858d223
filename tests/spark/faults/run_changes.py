"""Changes of rows under faults: a table holds what it held, or what the change makes of it.

    python -m tests.spark.faults.run_changes [WORD ...]     those with all words in fault and kind

Each kind of change that tasks on a cluster do (overwrites, OPTIMIZE, and DELETE, UPDATE and MERGE,
with deletion vectors and without) meets each fault: tasks fail, run twice, and end late, executors
are killed while they work, when they are done, and before the commit, and the driver is killed
before the commit and after it. Then a reader of another library looks, as `run` does; and the same
change, asked for again, leaves the rows that it makes. A fault that was not met proves nothing, and
counts as wrong.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import deltalake
import pyarrow as pa

import adelta.sync
from tests.spark.faults.changes import (
    CHANGES,
    FAULTS,
    PARTS,
    ROWS,
    RUN_TWICE,
    TWIN,
    VECTORS,
    marks,
)
from tests.spark.faults.run import cluster_for, orphans
from tests.spark.faults.two_hosts import TWO_HOSTS, started
from tests.support.spark_startup import quick_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

_STOPS = ("driver killed before the commit", "driver killed once it is put")
_LONGEST = 900.0  # seconds for the changes of one driver
_Rows = list[tuple[int, int]]


def before() -> _Rows:
    """The rows of a table that nothing has been done to: number and value."""
    return [(number, 0) for number in range(ROWS)]


def after(kind: str) -> _Rows:
    """What the change makes of them."""
    kind = kind.removesuffix(VECTORS)
    if kind.startswith("overwrite"):
        return [(number, -number) for number in range(ROWS)]
    if kind in ("replaceWhere", "dynamic"):
        return [(n, -n if n % PARTS >= 2 else 0) for n in range(ROWS)]
    if kind == "delete":
        return [(number, 0) for number in range(ROWS) if number % 3]
    if kind == "update":
        return [(number, 0 if number % 3 else 1) for number in range(ROWS)]
    if kind == "merge":
        matched = [(n, 0 if n % 2 else -2 * n) for n in range(ROWS)]
        return [*matched, *((n, -n) for n in range(ROWS, ROWS + 4, 2))]
    return before()


def rows(path: str) -> _Rows:
    """What another library reads."""
    query = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
    found = pa.table(query.execute("SELECT id, v FROM t"))
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def table(path: str, kind: str) -> str:
    """A table of `PARTS` partitions, each of two files."""
    vectors = {"delta.enableDeletionVectors": "true" if kind.endswith(VECTORS) else "false"}
    for start in (0, ROWS // 2):
        numbers = list(range(start, start + ROWS // 2))
        made = {"part": [n % PARTS for n in numbers], "id": numbers, "v": [0] * len(numbers)}
        data = pa.table({name: pa.array(values, pa.int64()) for name, values in made.items()})
        adelta.sync.write_table(path, data, partition_by=["part"], properties=vectors)
    return path


def drive(fault: str, work: dict[str, str]) -> list[str]:
    """What became of each change; kinds by the table that they are of."""
    items = [f"{kind}={path}" for path, kind in work.items()]
    with started(TWO_HOSTS if fault == TWIN else cluster_for(fault)) as address:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.faults.changes", address, fault, *items],
            env=quick_spark(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            said, _ = driver.communicate(timeout=_LONGEST)
        except subprocess.TimeoutExpired:
            driver.kill()
            said, _ = driver.communicate()
    lines = said.split("\n")[: len(work)]
    lines += [""] * (len(work) - len(lines))
    return [each or f"exit {driver.returncode}" for each in lines]


def wrong_with(path: str, kind: str, fault: str) -> str:
    """What is wrong with a table that was changed under a fault; nothing, as a rule."""
    if rows(path) != (before() if fault == _STOPS[0] else after(kind)):
        return "wrong rows"
    wanted = {"again"} if fault in RUN_TWICE else set[str]()
    if fault == TWIN:
        wanted.add("twin")
    missing = wanted - marks(path)
    return f"the fault was not met: no {sorted(missing)}" if missing else ""


def meet(folder: str, kinds: Sequence[str], fault: str) -> tuple[dict[str, str], int]:
    """Have changes meet a fault; their kinds by table, and how many went wrong."""
    begun, count = time.monotonic(), 0
    places = {kind: str(Path(folder) / f"{kind}-{fault}".replace(" ", "_")) for kind in kinds}
    work = {table(path, kind): kind for kind, path in places.items()}
    for (path, kind), said in zip(work.items(), drive(fault, work), strict=True):
        wrong = wrong_with(path, kind, fault)
        count += bool(wrong)
        print(
            f"{wrong or 'good'}: {kind}, {fault}: {said}, {orphans(path)} files beside, "
            f"{time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return work, count


def main() -> int:
    words = sys.argv[1:]
    begun, count = time.monotonic(), 0
    with tempfile.TemporaryDirectory() as folder:
        met: dict[str, str] = {}
        for fault in FAULTS:
            kinds = [kind for kind in CHANGES if all(word in f"{kind}, {fault}" for word in words)]
            groups = [[kind] for kind in kinds] if fault in _STOPS else [kinds] if kinds else []
            for group in groups:
                work, wrong = meet(folder, group, fault)
                met |= work
                count += wrong
        said = drive("none", met)
        wrong_again = [path for path, kind in met.items() if rows(path) != after(kind)]
        kept = sum(map(orphans, met))
    print(
        f"{len(met)} changes under faults, {count} of them wrong; the same ones again: "
        f"{set(said)}, {len(wrong_again)} of them wrong; {kept} files beside tables, none lost, "
        f"{time.monotonic() - begun:.0f} s"
    )
    return 1 if count or wrong_again else 0


if __name__ == "__main__":
    sys.exit(main())
