"""How long an import takes in a fresh process, and how much memory, against deltalake's.

    python perf/bench_import.py [--rounds 5]

The imports take turns, and the best of each counts: what else the machine does makes one slower,
never faster. `adelta --help` is timed as its user would, from the start of Python to its end. What
`import adelta` puts off is shown beside it: `from adelta import open_table` loads Arrow, and what
reading and committing need.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

from child import run_child
from figures import record

ROOT = Path(__file__).resolve().parents[1]
STATEMENTS = {
    "adelta": "import adelta",
    "deltalake": "import deltalake",
    "open_table": "from adelta import open_table",
}


def child(statement: str) -> dict[str, float]:
    sys.path.insert(0, str(ROOT))
    began = time.perf_counter()
    exec(statement)
    seconds = time.perf_counter() - began
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"seconds": seconds, "mb": pages * 4096 / 1e6}


def help_seconds() -> float:
    began = time.perf_counter()
    command = [sys.executable, "-m", "adelta", "--help"]
    subprocess.run(command, cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tables", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        print(json.dumps(child(arguments.child)))
        return
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in STATEMENTS}
    helps = []
    for _ in range(arguments.rounds + 1):  # the first one writes the byte code
        for name, results in runs.items():
            results.append(run_child(__file__, STATEMENTS[name]))
        helps.append(help_seconds())
    best = {
        name: {key: min(run[key] for run in results[1:]) for key in ("seconds", "mb")}
        for name, results in runs.items()
    }
    for name, found in best.items():
        print(f"{STATEMENTS[name]:<31} {found['seconds'] * 1000:>5.0f} ms {found['mb']:>5.0f} MB")
    print(f"{'adelta --help':<31} {min(helps[1:]) * 1000:>5.0f} ms")
    adelta, peer = best["adelta"], best["deltalake"]
    record(
        "import",
        ms=adelta["seconds"] * 1000,
        mb=adelta["mb"],
        faster=peer["seconds"] / adelta["seconds"],
        lighter=peer["mb"] / adelta["mb"],
    )
    record("help", ms=min(helps[1:]) * 1000)


if __name__ == "__main__":
    main()
