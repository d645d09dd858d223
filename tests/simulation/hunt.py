"""Looks for anything wrong in the code as it is, for so long: what takes guards out uses it.

    python -m tests.simulation hunt seconds=600

First the small configurations of the specification, then runs of one seed after the other, of many
writers who meet often, with histories of list-appends, consumers, tables that are made anew and
transactions over tables of the commit owner now and then. Prints what is found and the command that
shows it, and ends with status 1.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

from tests.simulation import replay
from tests.simulation.exclusion import EXCLUDES
from tests.simulation.exhaustive import EXCLUSIONS
from tests.simulation.plan import Plan
from tests.simulation.run import run
from tests.simulation.specification import Action, Configuration, Violation, checked

__all__ = ["found_within", "main"]

_RED, _UPDATE, _DELETE = (Action(kind, "red") for kind in ("append", "update", "delete"))
_FIRST = (
    Configuration(((_UPDATE,), (_DELETE,))),
    Configuration(((_UPDATE,), (_UPDATE,)), vectors=True),
    Configuration(((_RED,), (_DELETE,)), partitioned=True),
)
_WITH_FEATURES = ("append", "delete", "add_one", "add_one", "merge", *("feature", "support") * 2)
_COUNTED = (*("append",) * 3, *("count",) * 4, "clear")
_RESTORED = ("overwrite", "restore", "restore")
_TOGETHER = (*("together",) * 6, "append", "note")
_TRANSFERS_EACH = 6  # runs
_HISTORY_EACH = 2
_COPIES_EACH = 3
_ANEW_EACH = 4
_OWNED = {"writers": 2, "transfers": 4, "owner": 1, "changes": 1}
_COORDINATED = Configuration(((_RED,), (_DELETE,)), **EXCLUSIONS["coordination"])


def found_within(seconds: float) -> str | None:
    """What is wrong, as far as so many seconds of this process show; None where nothing is."""
    began = time.process_time()
    try:
        for configuration in _FIRST:
            checked(configuration, in_order=True)
        checked(_COORDINATED, in_order=True, switches=1)
    except Violation as violation:
        return f"{violation.reason}, of {configuration}"
    for seed in itertools.count():
        if time.process_time() - began > seconds:
            return None
        plans, transfers = [_plan(seed)], _OWNED | {"faults": (0, 10, 30)[seed % 3]}
        if seed % 2:
            plans.append(_restoring(seed))
        if seed % 3 == 0:
            plans.append(_sleeping(seed))
        if seed % 3 == 1:
            plans.append(_swept(seed))
        if seed % 3 == 2:
            plans.append(_stormy(seed))
        for plan in plans:
            if wrong := run(plan).wrong:
                return f"{wrong[0]:.200}, by {plan.command()}"
        others: list[tuple[str, dict[str, int]]] = []
        if seed % _HISTORY_EACH == 0:
            others.append(("appends", {"seed": seed}))
        if seed % _COPIES_EACH == 0:
            others.append(("copies", {"seed": seed}))
        if seed % _ANEW_EACH == 1:
            others.append(("anew", {"seed": seed}))
        if seed % _TRANSFERS_EACH == 1:
            others.append(("transfers", {**transfers, "seed": seed}))
        for kind, given in others:
            if wrong := replay.wrong(kind, **given):
                return f"{wrong[0]:.200}, by {replay.command(kind, **given)}"
    return None


def _plan(seed: int) -> Plan:
    """The run of a seed: every other one has all keepers, and writers who meet more often.

    In every fourth one many of them change what the others have to keep to; in another fourth
    several of one process make one commit, now and then. In an eighth they count rows that others
    move and take out.
    """
    plan = Plan.drawn(seed, 6)
    if seed % 4 == 3:
        plan = replace(Plan.busy(seed, 6), kinds=_TOGETHER)
    if seed % 2 == 0:
        excludes = EXCLUDES[seed // 2 % len(EXCLUDES)]
        plan = replace(plan, writers=4, excludes=excludes, keepers=Plan.keepers, vector_files=True)
        plan = plan if excludes == "store" else replace(plan, lag=0.0)
    if seed % 4 == 2:
        plan = replace(plan, kinds=_WITH_FEATURES)
    if seed % 8 == 5:
        plan = replace(_calm(seed), kinds=_COUNTED, keepers=("optimize",) * 3, commits=10)
    return plan if plan.faults else replace(plan, faults=5)


def _calm(seed: int) -> Plan:
    """Writers who meet each other often, and faults rarely."""
    drawn = Plan.drawn(seed, 6)
    calm = replace(drawn, faults=2, crashes=0, settings=(), tailers=0, lag=0.0)
    return replace(calm, writers=4, excludes="store", reads=0)


def _restoring(seed: int) -> Plan:
    """Writers who bring back what VACUUM, slow as it is, is about to delete.

    That can be in the first moments after the table has been left alone: so the run is short.
    """
    plan = replace(_calm(seed), kinds=_RESTORED, keepers=("vacuum",), page=2, partitions=1)
    return replace(plan, commits=2, faults=0, skew_s=0.0)


def _sleeping(seed: int) -> Plan:
    """Transactions that stay open until a clean-up is under way behind them."""
    plan = replace(_calm(seed), kinds=("append",), keepers=("cleanup",), checkpoint_every=3)
    return replace(plan, writers=2, faults=5, skew_s=0.0, page=7, sleepers=4)


def _stormy(seed: int) -> Plan:
    """Small commits while so many requests fail that several of one commit do."""
    excludes = EXCLUDES[1:][seed // 3 % (len(EXCLUDES) - 1)]
    plan = replace(_calm(seed), excludes=excludes, faults=60, kinds=("append", "note", "mark"))
    return replace(plan, keepers=(), crashes=1, commits=4)


def _swept(seed: int) -> Plan:
    """Checkpoints of several files, written slowly while others sweep up what none names yet."""
    plan = replace(_calm(seed), settings=("sidecars",), checkpoint_every=3, slow=300, page=7)
    return replace(plan, kinds=("append",), keepers=(*("cleanup",) * 4, *("checkpoint",) * 2))


def main(words: list[str]) -> int:
    """Do what the words of the command line say; the exit status."""
    given = dict(word.split("=", 1) for word in words)
    found = found_within(float(given.get("seconds", "600")))
    print(found or "nothing is found")
    return found is not None
