"""Makes one simulated run, or one after the other.

    python -m tests.simulation seed=7 writers=2 commits=5 ...   # prints its trace
    python -m tests.simulation runs=100 commits=40              # that many seeds, from 0 on
    python -m tests.simulation exhaustive ...                   # every interleaving: exhaustive.py

Ends with status 1 where something was wrong; of many runs it shrinks the one that failed first, and
prints the command that makes that one again.
"""

from __future__ import annotations

import sys
import time

from tests.simulation import exhaustive
from tests.simulation.plan import Plan
from tests.simulation.run import run, shrunk


def one(words: list[str]) -> int:
    """Print the trace of a run."""
    ran = run(Plan.of(words), traced=True)
    print(*ran.trace, sep="\n")
    print(*ran.wrong, sep="\n")
    print(f"{ran.commits} commits, {ran.outcomes}, {ran.digest}")
    return bool(ran.wrong)


def many(runs: int, commits: int, first: int, *, overwriting: bool) -> int:
    """Make the runs of that many seeds."""
    made, began = 0, time.process_time()
    for seed in range(first, first + runs):
        plan = Plan.drawn(seed, commits, overwriting=overwriting)
        ran = run(plan)
        made += ran.commits
        if ran.wrong:
            print(plan.command(), *ran.wrong, "shrinking it", sep="\n", flush=True)
            least = shrunk(plan)
            print(*run(least).wrong, least.command(), sep="\n")
            return 1
    seconds = time.process_time() - began
    print(f"{runs} runs, {made} commits, {made / seconds:.1f} commits a second of CPU")
    return 0


if __name__ == "__main__":
    if "exhaustive" in sys.argv:
        sys.exit(exhaustive.main(sys.argv[2:]))
    given = dict(word.split("=", 1) for word in sys.argv[1:])
    if "runs" in given:
        numbers = [int(given.get(name, d)) for name, d in (("commits", "40"), ("first", "0"))]
        sys.exit(many(int(given["runs"]), *numbers, overwriting="overwriting" in given))
    sys.exit(one(sys.argv[1:]))
