"""Cold open, file list, pruned file lists and refresh: adelta against deltalake, in turn.

    python perf/bench_snapshot.py [--shapes 1m-json 1m-parsed ...] [--rounds 3] [--tables DIR]
    python perf/bench_snapshot.py --first-use

With `--first-use` nothing is warm but the pages of the disk: see first_use.py. Else every
measurement is a fresh process on a local disk whose pages are warm. Time is from the first call to
the answer, without imports, among them pandas, which the first array that Arrow makes of a Python
value brings along where it is installed. Memory is the peak beyond what there was then. The ratio
is deltalake's over adelta's: more is better. `CPU` is the same ratio of the processor time of all
threads, which a busy machine disturbs less. `pause` is the longest time that a task on adelta's
event loop, waking every millisecond, was kept from running, in a run of its own, and the shortest
of all rounds: a busy machine pauses every loop. The collector is told to pass over what imports
left, which it would otherwise search at times while everything waits.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow
from figures import record
from tables import SHAPES, append_commit, make

if TYPE_CHECKING:
    from collections.abc import Callable

PARTITION = "00017"
ID = 17_017_500
WORK = ("open", "files", "partition", "id", "refresh")


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _adelta(
    work: str, folder: Path, *, pause: bool = False
) -> tuple[Callable[[], int], Callable[[], int]]:
    """What comes before the clock starts, and what is measured; both give a number to compare."""
    import asyncio

    import uvloop

    import adelta

    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    table = runner.get_loop() and adelta.open_table(str(folder))

    async def measured() -> int:
        snapshot = await table.snapshot()
        match work:
            case "files":
                return (await snapshot.files()).num_rows
            case "partition":
                return (await snapshot.files(where=f"p = '{PARTITION}'")).num_rows
            case "id":
                return (await snapshot.files(where=f"id = {ID}")).num_rows
        return snapshot.version

    def before() -> int:
        return runner.run(measured()) if work == "refresh" else 0

    async def paused() -> int:
        """The longest pause of the loop in microseconds."""
        pauses = [0.0]

        async def tick() -> None:
            last = time.perf_counter()
            while True:
                await asyncio.sleep(0.001)
                now = time.perf_counter()
                pauses.append(now - last - 0.001)
                last = now

        ticker = asyncio.ensure_future(tick())
        await measured()
        await asyncio.sleep(0.005)
        ticker.cancel()
        return round(max(pauses) * 1e6)

    if pause:
        return before, lambda: runner.run(paused())
    return before, lambda: runner.run(measured())


def _deltalake(work: str, folder: Path) -> tuple[Callable[[], int], Callable[[], int]]:
    from deltalake import DeltaTable

    held: list[DeltaTable] = []

    def before() -> int:
        if work == "refresh":
            held.append(DeltaTable(str(folder)))
        return 0

    def measured() -> int:
        if work == "refresh":
            held[0].update_incremental()
            return held[0].version()
        table = DeltaTable(str(folder))
        match work:
            case "files":
                return table.get_add_actions().num_rows
            case "partition":
                predicate = f"p = '{PARTITION}'"
                return len(table.file_uris(file_pruning_predicate=predicate))
            case "id":
                return len(table.file_uris(file_pruning_predicate=f"id = {ID}"))
        return table.version()

    return before, measured


def child(engine: str, work: str, folder: Path, shape: str) -> None:
    pyarrow.array([1])
    gc.freeze()
    if engine == "pause":
        before, measured = _adelta(work, folder, pause=True)
    else:
        before, measured = (_adelta if engine == "adelta" else _deltalake)(work, folder)
    before()
    if work == "refresh":
        log = folder / "_delta_log"
        version = max(int(f.name[:20]) for f in log.glob("*.json")) + 1
        append_commit(folder, version, SHAPES[shape], random.Random(version))
    base = _peak_mb()
    cpu, start = time.process_time(), time.perf_counter()
    answer = measured()
    found = {"seconds": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    print(json.dumps(found | {"mb": max(0.0, _peak_mb() - base), "answer": answer}))


def _run(engine: str, work: str, folder: Path, shape: str) -> dict[str, float]:
    command = [sys.executable, __file__, "--child", engine, work, str(folder), shape]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{engine} failed at {work}:\n{done.stderr[-3000:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def _first_use(shape: str, work: str, folder: Path, rounds: int) -> None:
    program = str(Path(__file__).with_name("first_use.py"))
    runs: dict[str, list[dict[str, float]]] = {"adelta": [], "deltalake": []}
    # As pip leaves packages, with their bytecode; the first round makes it.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder.parent / "bytecode")
    for _ in range(rounds + 1):
        for engine, results in runs.items():
            command = [sys.executable, program, engine, work, str(folder)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=True, env=environment
            )
            results.append(json.loads(done.stdout))
    for results in runs.values():
        del results[0]
    if len({results[0]["answer"] for results in runs.values()}) != 1:
        raise SystemExit(f"{shape}, {work}: the answers differ")
    seconds = {e: statistics.median(r["seconds"] for r in rs) for e, rs in runs.items()}
    faster = seconds["deltalake"] / seconds["adelta"]
    cells = [f"{seconds[e] * 1000:,.1f} ms" for e in runs]
    print(f"{shape:<12} {work:<10} {cells[0]:>20} {cells[1]:>20} {faster:>6.1f}x first", flush=True)
    record(f"{shape} {work} first", faster=faster, ms=seconds["adelta"] * 1000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["1m-json", "1m-parsed"])
    parser.add_argument("--work", nargs="+", choices=WORK, default=list(WORK))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tables", type=Path, help="keep the tables here for the next run")
    parser.add_argument("--first-use", action="store_true", help="with all that it loads first")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        engine, work, folder, shape = arguments.child
        child(engine, work, Path(folder), shape)
        return
    with tempfile.TemporaryDirectory() as scratch:
        tables = arguments.tables or Path(scratch)
        heads = f"{'log':<12} {'work':<10} {'adelta':>20} {'deltalake':>20}"
        print(f"{heads} {'time':>7} {'CPU':>7} {'memory':>7} {'pause':>8}")
        for shape in arguments.shapes:
            folder = make(tables / shape, SHAPES[shape])
            for work in arguments.work:
                if arguments.first_use and work != "refresh":
                    _first_use(shape, work, folder, arguments.rounds)
                elif not arguments.first_use:
                    _compare(shape, work, folder, arguments.rounds)


def _compare(shape: str, work: str, folder: Path, rounds: int) -> None:
    runs: dict[str, list[dict[str, float]]] = {"adelta": [], "deltalake": [], "pause": []}
    for _ in range(rounds):
        for engine, results in runs.items():
            results.append(_run(engine, work, folder, shape))
    pause = min(run["answer"] for run in runs.pop("pause")) / 1000
    if work != "refresh":
        answers = {engine: results[0]["answer"] for engine, results in runs.items()}
        if len(set(answers.values())) != 1:
            raise SystemExit(f"{shape}, {work}: the answers differ: {answers}")
    seconds = {e: statistics.median(r["seconds"] for r in rs) for e, rs in runs.items()}
    megabytes = {e: statistics.median(r["mb"] for r in rs) for e, rs in runs.items()}
    cells = [f"{seconds[e] * 1000:,.1f} ms {megabytes[e]:,.0f} MB" for e in runs]
    faster = seconds["deltalake"] / seconds["adelta"]
    lighter = megabytes["deltalake"] / max(megabytes["adelta"], 1.0)
    cpu = {e: statistics.median(r["cpu"] for r in rs) for e, rs in runs.items()}
    less = cpu["deltalake"] / max(cpu["adelta"], 1e-4)
    print(
        f"{shape:<12} {work:<10} {cells[0]:>20} {cells[1]:>20} {faster:>6.1f}x {less:>6.1f}x "
        f"{lighter:>6.1f}x {pause:>5.1f} ms",
        flush=True,
    )
    mine = {"ms": seconds["adelta"] * 1000, "mb": megabytes["adelta"]}
    record(f"{shape} {work}", faster=faster, cpu=less, lighter=lighter, pause=pause, **mine)


if __name__ == "__main__":
    main()
