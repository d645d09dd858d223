"""Makes one simulated run, or one after the other.

    python -m tests.simulation seed=7 writers=2 commits=5 ...   # prints its trace
    python -m tests.simulation runs=100 commits=40              # that many seeds, from 0 on
    python -m tests.simulation total=1000000 jobs=8             # as many as make so many commits
    python -m tests.simulation exhaustive ...                   # every interleaving: exhaustive.py
    python -m tests.simulation hunt seconds=600                 # both, for so long: hunt.py

Ends with status 1 where something was wrong; of many runs it shrinks the one that failed first, and
prints the command that makes that one again. Every other run is a busy one, of small commits.
`first` is the first seed of many, `commits` how many each writer makes, and `jobs` how many
processes make runs at once.
"""

from __future__ import annotations

import itertools
import multiprocessing
import sys
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation import exhaustive, hunt
from tests.simulation.plan import Plan
from tests.simulation.run import run, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["main"]


def one(words: list[str]) -> int:
    """Print the trace of a run."""
    ran = run(Plan.of(words), traced=True)
    print(*ran.trace, sep="\n")
    print(*ran.wrong, sep="\n")
    print(f"{ran.commits} commits, {ran.outcomes}, {ran.digest}")
    return bool(ran.wrong)


def _tried(seed: int, commits: int, *, overwriting: bool) -> tuple[Plan, int, list[str]]:
    plan = Plan.drawn(seed, commits, overwriting=overwriting)
    if seed % 2 and not overwriting:
        plan = Plan.busy(seed, commits)
    ran = run(plan)
    return plan, ran.commits, ran.wrong


def many(given: dict[str, str]) -> int:
    """Make the runs of many seeds."""
    first, jobs = int(given.get("first", "0")), int(given.get("jobs", "1"))
    total = int(given["total"]) if "total" in given else None
    seeds: Iterable[int] = itertools.count(first)
    if total is None:
        seeds = range(first, first + int(given["runs"]))
    commits = int(given.get("commits", "40"))
    attempt = partial(_tried, commits=commits, overwriting="overwriting" in given)
    made, runs, began = 0, 0, time.monotonic()
    with multiprocessing.get_context("spawn").Pool(jobs) if jobs > 1 else _Here() as pool:
        for plan, some, wrong in pool.imap(attempt, seeds):
            made, runs = made + some, runs + 1
            if wrong:
                print(plan.command(), *wrong, "shrinking it", sep="\n", flush=True)
                least = shrunk(plan)
                print(*run(least).wrong, least.command(), sep="\n")
                return 1
            if runs % 100 == 0:
                print(f"{runs} runs, {made} commits", flush=True)
            if total is not None and made >= total:
                break
    print(f"{runs} runs, {made} commits, {made / (time.monotonic() - began):.1f} a second")
    return 0


class _Here:
    """A pool of this process alone."""

    imap = staticmethod(map)

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""


def main(words: list[str]) -> int:
    """Do what the words of the command line say; the exit status."""
    if words[:1] == ["exhaustive"]:
        return exhaustive.main(words[1:])
    if words[:1] == ["hunt"]:
        return hunt.main(words[1:])
    given = dict(word.split("=", 1) for word in words)
    if "runs" in given or "total" in given:
        return many(given)
    return one(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
