"""Writing a checkpoint: adelta against deltalake, in turn.

    python perf/bench_checkpoint.py [--shapes 1m-json ...] [--rounds 3] [--tables DIR]

Each measurement is a fresh process on a fresh copy of the log, on a local disk whose pages are
warm; one commit is added, so that there is something to write. Time is from the call on a closed
table to the answer, without imports; memory is the peak beyond what there was then. The ratio is
deltalake's over adelta's: more is better. `CPU` is the same ratio of the processor time of all
threads, which a busy machine disturbs less. `pause` is the longest time that a task on adelta's
event loop, waking every millisecond, was kept from running, in a run of its own, and the shortest
of all rounds. `adelta-v2` and `adelta-parts` are the same table with sidecars and in ten parts.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import orjson
import pyarrow
from figures import record
from tables import SHAPES, Shape, append_commit, make, metadata

ENGINES = ("deltalake", "adelta", "adelta-v2", "adelta-parts", "pause")
_PROPERTIES = {
    "adelta-v2": {"delta.checkpointPolicy": "v2"},
    "adelta-parts": {"adelta.checkpoint.partSize": "100000"},
}


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _adelta(folder: Path, *, pause: bool) -> float:
    """The files in the checkpoint, or the longest pause of the loop in milliseconds."""
    import uvloop

    from adelta import checkpoint, open_table

    async def work() -> int:
        async with open_table(str(folder)) as table:
            return (await checkpoint(table)).num_files

    async def watched() -> float:
        longest = 0.0

        async def tick() -> None:
            nonlocal longest
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                longest, last = max(longest, now - last - 0.001), now

        ticker = asyncio.ensure_future(tick())
        await work()
        ticker.cancel()
        return longest * 1000

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(watched() if pause else work())


def _deltalake(folder: Path) -> float:
    from deltalake import DeltaTable

    DeltaTable(str(folder)).create_checkpoint()
    return 0.0


def child(engine: str, folder: Path) -> None:
    pyarrow.array([1])
    if engine == "deltalake":
        import deltalake  # noqa: F401
    else:
        import adelta  # noqa: F401
    gc.freeze()
    base = _peak_mb()
    cpu, start = time.process_time(), time.perf_counter()
    if engine == "deltalake":
        answer = _deltalake(folder)
    else:
        answer = _adelta(folder, pause=engine == "pause")
    found = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    print(json.dumps(found | {"mb": max(0.0, _peak_mb() - base), "answer": answer}))


def _prepare(engine: str, table: Path, shape: Shape, scratch: Path) -> Path:
    """A copy of the table with one more commit, which for some engines sets properties."""
    folder = scratch / "table"
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(table, folder)
    append_commit(folder, 1, shape, random.Random(1))
    if engine in _PROPERTIES:
        features = ["deletionVectors", "v2Checkpoint"] if shape.vectors else ["v2Checkpoint"]
        protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
        protocol |= {"readerFeatures": features, "writerFeatures": features}
        lines = [{"metaData": metadata() | {"configuration": _PROPERTIES[engine]}}]
        if engine == "adelta-v2":
            lines.append({"protocol": protocol})
        with (folder / "_delta_log" / f"{1:020d}.json").open("ab") as file:
            file.write(b"".join(b"\n" + orjson.dumps(line) for line in lines))
    os.sync()
    return folder


def _run(engine: str, table: Path, shape: Shape, scratch: Path) -> dict[str, float]:
    folder = _prepare(engine, table, shape, scratch)
    command = [sys.executable, __file__, "--child", engine, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    written = list((folder / "_delta_log").rglob("*"))
    new = [f for f in written if "checkpoint" in f.name and f"{0:020d}" not in f.name]
    sidecars = [f for f in written if f.parent.name == "_sidecars"]
    found["disk"] = sum(f.stat().st_size for f in {*new, *sidecars}) / 1e6
    if not new:
        raise SystemExit(f"{engine} has written no checkpoint")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["1m-json", "1m-parsed"])
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="keep the tables here for the next run")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        engine, folder = arguments.child
        child(engine, Path(folder))
        return
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        tables = arguments.tables or scratch / "tables"
        print(f"{'log':<12} {'engine':<13} {'time':>10} {'CPU':>8} {'memory':>9} {'file':>7}")
        for shape in arguments.shapes:
            table = make(tables / shape, SHAPES[shape])
            runs: dict[str, list[dict[str, float]]] = {e: [] for e in arguments.engines}
            for _ in range(arguments.rounds):
                for engine, results in runs.items():
                    results.append(_run(engine, table, SHAPES[shape], scratch))
            _report(shape, runs)


def _report(shape: str, runs: dict[str, list[dict[str, float]]]) -> None:
    medians = {
        engine: {key: statistics.median(r[key] for r in results) for key in results[0]}
        for engine, results in runs.items()
    }
    peer = medians.get("deltalake")
    for engine, found in medians.items():
        if engine == "pause":
            pause = min(run["answer"] for run in runs[engine])
            print(f"{shape:<12} the loop was kept waiting for {pause:.1f} ms at most")
            record(f"checkpoint {shape} adelta", pause=pause)
            continue
        ratios = ""
        if peer is not None and engine != "deltalake":
            times = [peer[key] / max(found[key], 1e-3) for key in ("seconds", "cpu", "mb")]
            ratios = "  time {:.1f}x  CPU {:.1f}x  memory {:.1f}x".format(*times)
            record(f"checkpoint {shape} {engine}", faster=times[0], lighter=times[2])
        print(
            f"{shape:<12} {engine:<13} {found['seconds'] * 1000:>7,.0f} ms {found['cpu']:>6.2f} s "
            f"{found['mb']:>6,.0f} MB {found['disk']:>4,.0f} MB{ratios}",
            flush=True,
        )


if __name__ == "__main__":
    main()
