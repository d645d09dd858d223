"""Looks for anything wrong in the code as it is, for so long: what takes guards out uses it.

    python -m tests.simulation hunt seconds=600

First the small configurations of the specification, then runs of one seed after the other, of many
writers who meet often. Prints what is found and the command that shows it, and ends with status 1.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import replace

from tests.simulation.exhaustive import EXCLUSIONS
from tests.simulation.plan import EXCLUDES, Plan
from tests.simulation.run import run
from tests.simulation.specification import Action, Configuration, Violation, checked

__all__ = ["found_within", "main"]

_RED, _UPDATE, _DELETE = (Action(kind, "red") for kind in ("append", "update", "delete"))
_FIRST = (
    Configuration(((_UPDATE,), (_DELETE,))),
    Configuration(((_UPDATE,), (_UPDATE,)), vectors=True),
    Configuration(((_RED,), (_DELETE,)), partitioned=True),
)
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
        plan = _plan(seed)
        try:
            ran = run(plan)
        except Exception as error:
            return f"{error!r:.200}, by {plan.command()}"
        if ran.wrong:
            return f"{ran.wrong[0]:.200}, by {plan.command()}"
    return None


def _plan(seed: int) -> Plan:
    """The run of a seed: every other one has all keepers, and writers who meet more often."""
    plan = Plan.drawn(seed, 6)
    if seed % 2 == 0:
        excludes = EXCLUDES[seed // 2 % len(EXCLUDES)]
        plan = replace(plan, writers=4, excludes=excludes, keepers=Plan.keepers)
    return plan if plan.faults else replace(plan, faults=5)


def main(words: list[str]) -> int:
    """Do what the words of the command line say; the exit status."""
    given = dict(word.split("=", 1) for word in words)
    found = found_within(float(given.get("seconds", "600")))
    print(found or "nothing is found")
    return found is not None
