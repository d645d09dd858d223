"""DELETE and UPDATE: adelta against deltalake, in turn.

    python perf/bench_row_changes.py [--rows 2000000] [--rounds 3]

A table of eight files on a local disk loses, or gets new values in, a few rows of every file, or
rows of one file alone. Each measurement is a fresh process on a fresh copy; time is from the call
to the answer, without imports, the least of all rounds. The ratio is deltalake's over adelta's, for
the processor time of all threads as well, which a busy machine disturbs less: more is better.
`vectors` is adelta with deletion vectors, which deltalake does not write; `feed` is both with a
change data feed. Memory is the peak beyond what there was before.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.lowlevel
import numpy as np
import pyarrow as pa
from child import run_child
from figures import record

if TYPE_CHECKING:
    from collections.abc import Callable

FILES = 8
FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
KINDS = {"plain": {}, "feed": FEED, "vectors": VECTORS}
WORK = {
    "delete few of all files": ("delete", "a = 7"),
    "delete in one file": ("delete", "id < 1000"),
    "update few of all files": ("update", "a = 7"),
    "update in one file": ("update", "id < 1000"),
}


def _make(folder: Path, rows: int, properties: dict[str, str]) -> None:
    import adelta.sync

    each = rows // FILES
    source = np.random.default_rng(1)
    for number in range(FILES):
        ids = np.arange(number * each, (number + 1) * each)
        table = pa.table(
            {
                "id": ids,
                "a": source.integers(0, 1000, each),
                "b": source.random(each),
                "s": pa.array([f"name {n % 5000}" for n in range(each)]),
            }
        )
        adelta.sync.write_table(str(folder), table, properties=properties)


def _adelta(folder: str, verb: str, where: str) -> Callable[[], object]:
    from adelta import delete, update

    if verb == "delete":
        return lambda: asyncio.run(delete(folder, where))
    return lambda: asyncio.run(update(folder, {"b": "b + 1"}, where))


def _deltalake(folder: str, verb: str, where: str) -> Callable[[], object]:
    import deltalake

    if verb == "delete":
        return lambda: deltalake.DeltaTable(folder).delete(where)
    return lambda: deltalake.DeltaTable(folder).update({"b": "b + 1"}, predicate=where)


def _child(engine: str, folder: str, verb: str, where: str) -> None:
    pa.array([1])  # imports what it takes, and so does the next
    asyncio.run(anyio.lowlevel.checkpoint())
    work = (_adelta if engine == "adelta" else _deltalake)(folder, verb, where)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began, cpu = time.perf_counter(), time.process_time()
    work()
    found = {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - cpu,
        "mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    }
    print(json.dumps(found))


def _measure(engine: str, table: Path, verb: str, where: str, rounds: int) -> dict[str, float]:
    runs = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / "table"
            shutil.copytree(table, copy)
            runs.append(run_child(__file__, engine, str(copy), verb, where))
    return {key: min(run[key] for run in runs) for key in runs[0]}


def main() -> None:
    """Measure, and print a line a piece of work."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=4, metavar=("ENGINE", "FOLDER", "VERB", "WHERE"))
    arguments = parser.parse_args()
    if arguments.child:
        _child(*arguments.child)
        return
    print(f"{'':34} {'adelta':>9} {'deltalake':>10} {'ratio':>6} {'CPU':>6} {'MB':>5} {'MB':>5}")
    with tempfile.TemporaryDirectory() as scratch:
        tables = {kind: Path(scratch) / kind for kind in KINDS}
        for kind, properties in KINDS.items():
            _make(tables[kind], arguments.rows, properties)
        for name, (verb, where) in WORK.items():
            plain = _measure("deltalake", tables["plain"], verb, where, arguments.rounds)
            feed = _measure("deltalake", tables["feed"], verb, where, arguments.rounds)
            for kind, table in tables.items():
                ours = _measure("adelta", table, verb, where, arguments.rounds)
                theirs = feed if kind == "feed" else plain
                ratio, cpu = theirs["seconds"] / ours["seconds"], theirs["cpu"] / ours["cpu"]
                print(
                    f"{name + ', ' + kind:34} {ours['seconds']:8.2f}s {theirs['seconds']:9.2f}s "
                    f"{ratio:6.2f} {cpu:6.2f} {ours['mb']:5.0f} {theirs['mb']:5.0f}",
                    flush=True,
                )
                record(f"{name}, {kind}", ratio=ratio, cpu=cpu)


if __name__ == "__main__":
    sys.exit(main())
