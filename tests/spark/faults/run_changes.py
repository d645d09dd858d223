"""Changes of rows under faults: a table holds what it held, or what the change makes of it.

    python -m tests.spark.faults.run_changes [WORD]     those with the word in fault or kind

Each kind of change that tasks on a cluster do (overwrites, DELETE, UPDATE, MERGE, OPTIMIZE) meets
each fault: tasks fail, run twice, and end late, executors are killed while they work, when they are
done, and before the commit, and the driver is killed before the commit and after it. Then a reader
of another library looks, as `run` does; and the same change, asked for again, leaves the rows that
it makes.
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
from tests.spark.faults.changes import CHANGES, FAULTS, PARTS, ROWS
from tests.spark.faults.run import cluster_for, orphans
from tests.spark.faults.two_hosts import started
from tests.support.spark_startup import quick_spark

if TYPE_CHECKING:
    from collections.abc import Sequence

_STOPS = ("driver killed before the commit", "driver killed once it is put")
_Rows = list[tuple[int, int]]


def before() -> _Rows:
    """The rows of a table that nothing has been done to: number and value."""
    return [(number, 0) for number in range(ROWS)]


def after(kind: str) -> _Rows:
    """What the change makes of them."""
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
    found = deltalake.DeltaTable(path).to_pyarrow_table()
    return sorted(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))


def table(path: str) -> str:
    """A table of `PARTS` partitions, each of two files."""
    for start in (0, ROWS // 2):
        numbers = list(range(start, start + ROWS // 2))
        made = {"part": [n % PARTS for n in numbers], "id": numbers, "v": [0] * len(numbers)}
        data = pa.table({name: pa.array(values, pa.int64()) for name, values in made.items()})
        adelta.sync.write_table(path, data, partition_by=["part"])
    return path


def drive(fault: str, work: dict[str, str]) -> list[str]:
    """What became of each change; kinds by the table that they are of."""
    items = [f"{kind}={path}" for path, kind in work.items()]
    with started(cluster_for(fault)) as address:
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.faults.changes", address, fault, *items],
            env=quick_spark(),
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
    said = done.stdout.split("\n")[: len(work)]
    return [each or f"exit {done.returncode}" for each in said]


def meet(folder: str, kinds: Sequence[str], fault: str) -> dict[str, str]:
    """Have changes meet a fault; their kinds by table."""
    begun = time.monotonic()
    work = {table(str(Path(folder) / f"{kind}-{fault}".replace(" ", "_"))): kind for kind in kinds}
    for (path, kind), said in zip(work.items(), drive(fault, work), strict=True):
        found = rows(path)
        stands = "after" if found == after(kind) else "before" if found == before() else "WRONG"
        wanted = "before" if fault == _STOPS[0] else "after"
        good = stands == wanted or (stands == "before" and after(kind) == before())
        print(
            f"{'good' if good else 'WRONG'}: {kind}, {fault}: {said}, as {stands}, "
            f"{orphans(path)} orphans, {time.monotonic() - begun:.0f} s",
            flush=True,
        )
    return work


def main() -> None:
    word = sys.argv[1] if len(sys.argv) > 1 else ""
    with tempfile.TemporaryDirectory() as folder:
        met: dict[str, str] = {}
        for fault in FAULTS:
            kinds = [kind for kind in CHANGES if word in kind or word in fault]
            groups = [[kind] for kind in kinds] if fault in _STOPS else [kinds] if kinds else []
            for group in groups:
                met |= meet(folder, group, fault)
        said = drive("none", met)
        wrong = [path for path, kind in met.items() if rows(path) != after(kind)]
        lost = [path for path in met if orphans(path) < 0]
        print(f"the same changes again: {set(said)}; wrong rows: {wrong or 'nowhere'}{lost or ''}")


if __name__ == "__main__":
    main()
