"""Makes simulated runs of one seed after the other, in several processes at once.

    python -m tests.simulation runs=100                      # that many seeds, from 0 on
    python -m tests.simulation total=1000000 jobs=8          # as many as make so many commits
    python -m tests.simulation total=400000 first=31000      # the rest of them, from that seed on

The runs are those of `Plan.nth`, of all operations and of many small commits. `first` is the first
seed, `commits` how many a writer makes at least, and `jobs` how many processes make runs at once.
Now and then it says how far it is, and with what seed a run that is broken off goes on. Of the runs
it shrinks the one that failed first, prints the command that makes that one again, and ends with
status 1.
"""

from __future__ import annotations

import itertools
import multiprocessing
import time
from functools import partial
from typing import TYPE_CHECKING

from tests.simulation.plan import Plan
from tests.simulation.run import run, shrunk

if TYPE_CHECKING:
    from collections.abc import Iterable
    from multiprocessing.pool import Pool

__all__ = ["many"]

_SAYS_EACH = 100  # runs
_RUNS_OF_A_PROCESS = 250


def many(given: dict[str, str]) -> int:
    """Make the runs that the words of the command line say; the exit status."""
    first, jobs = int(given.get("first", "0")), int(given.get("jobs", "1"))
    total = int(given["total"]) if "total" in given else None
    seeds: Iterable[int] = itertools.count(first)
    if total is None:
        seeds = range(first, first + int(given["runs"]))
    commits = int(given.get("commits", "10"))
    attempt = partial(_tried, commits=commits, overwriting="overwriting" in given)
    made, runs, began = 0, 0, time.monotonic()

    def far() -> str:
        speed = made / (time.monotonic() - began)
        return f"{runs} runs, {made} commits, {speed:.1f} a second; first={first + runs} goes on"

    with _processes(jobs) if jobs > 1 else _Here() as pool:
        for plan, some, wrong in pool.imap(attempt, seeds):
            made, runs = made + some, runs + 1
            if wrong:
                print(plan.command(), *wrong, "shrinking it", far(), sep="\n", flush=True)
                least = shrunk(plan)
                print(*run(least).wrong, least.command(), sep="\n", flush=True)
                return 1
            if runs % _SAYS_EACH == 0:
                print(far(), flush=True)
            if total is not None and made >= total:
                break
    print(far())
    return 0


def _processes(jobs: int) -> Pool:
    """Processes that make so many runs and no more: what worlds leave behind adds up."""
    return multiprocessing.get_context("spawn").Pool(jobs, maxtasksperchild=_RUNS_OF_A_PROCESS)


def _tried(seed: int, commits: int, *, overwriting: bool) -> tuple[Plan, int, list[str]]:
    plan = Plan.nth(seed, commits)
    if overwriting:
        plan = Plan.drawn(seed, commits, overwriting=True)
    ran = run(plan)
    return plan, ran.commits, ran.wrong


class _Here:
    """A pool of this process alone."""

    imap = staticmethod(map)

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to end."""
