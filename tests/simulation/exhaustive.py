"""Goes through the specification's configurations one after the other, and prints what they take.

    python -m tests.simulation exhaustive                    # two writers, put-if-absent
    python -m tests.simulation exhaustive writers=3          # three
    python -m tests.simulation exhaustive by=coordination    # or by=both, by=neither
    python -m tests.simulation exhaustive failures=1         # each writer may fail at any moment
    python -m tests.simulation exhaustive checksums=1        # with the checksums of versions
    python -m tests.simulation exhaustive part=2/8           # the second of eight parts of them
    python -m tests.simulation exhaustive switches=1         # where writers change so often at most

Three writers who coordinate have too many interleavings to go through all of them; with `switches`
those are left out in which the writer that goes on changes oftener, where the one before could have
gone on, and in which what a writer sends at once arrives in another order.

Without put-if-absent and without coordination (`by=neither`) the overwrite has to be found: its
trace is printed, the one with the fewest switches between writers. Ends with status 1 where a
configuration is violated that should not be.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import combinations_with_replacement, product
from typing import TYPE_CHECKING

from tests.simulation.search import Figures
from tests.simulation.specification import (
    COLUMN_1,
    Action,
    Configuration,
    Violation,
    checked,
    shortest,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["EXCLUSIONS", "configurations", "main"]

EXCLUSIONS = {
    "put_if_absent": {"put_if_absent": True, "coordination": False},
    "coordination": {"put_if_absent": False, "coordination": True},
    "both": {"put_if_absent": True, "coordination": True},
    "neither": {"put_if_absent": False, "coordination": False},
}
_COLUMN_2 = (1, 2)
_OTHER = dict(zip(COLUMN_1, reversed(COLUMN_1), strict=True))


def workloads(writers: int) -> Iterator[tuple[Action, ...]]:
    """An operation of each writer: all of them, but for those that others are when renamed."""
    actions = [
        Action(kind, value, other)
        for kind, value, other in product(("append", "update", "delete"), COLUMN_1, _COLUMN_2)
        if kind != "delete" or other == _COLUMN_2[0]
    ]
    seen = set()
    for chosen in combinations_with_replacement(actions, writers):
        renamed = tuple(replace(action, col1=_OTHER[action.col1]) for action in chosen)
        if frozenset(_counted(renamed)) not in seen:
            seen.add(frozenset(_counted(chosen)))
            yield chosen


def _counted(chosen: tuple[Action, ...]) -> list[tuple[Action, int]]:
    return [(action, chosen.count(action)) for action in chosen]


def configurations(
    writers: int, by: str, *, failures: bool = False, checksums: bool = False
) -> Iterator[Configuration]:
    """All of the specification's, and the same ones with deletion vectors."""
    for chosen, partitioned, vectors in product(workloads(writers), (False, True), (False, True)):
        if vectors and all(action.kind == "append" for action in chosen):
            continue  # no row of it is deleted
        yield Configuration(
            tuple((action,) for action in chosen),
            partitioned,
            vectors,
            **EXCLUSIONS[by],
            failures=failures,
            checksums=checksums,
        )


def main(words: list[str]) -> int:
    """Run what the command line says."""
    given = dict(word.split("=", 1) for word in words)
    by = given.get("by", "put_if_absent")
    if by not in EXCLUSIONS:
        raise SystemExit(f"by={by} is none of {', '.join(EXCLUSIONS)}")
    part, parts = map(int, given.get("part", "1/1").split("/"))
    flags = {name: given.get(name, "0") == "1" for name in ("failures", "checksums")}
    switches = int(given["switches"]) if "switches" in given else None
    todo = list(configurations(int(given.get("writers", "2")), by, **flags))[part - 1 :: parts]
    if by == "neither":
        return _find(todo)
    total, began = Figures(), time.process_time()
    for number, configuration in enumerate(todo, 1):
        try:
            figures = checked(configuration, switches=switches, in_order=switches is not None)
        except Violation as violation:
            print(configuration, shortest(configuration) or violation, sep="\n")
            return 1
        total.add(figures)
        print(f"{number}/{len(todo)} {configuration}: {figures}", flush=True)
    total.seconds = time.process_time() - began
    print(f"no violation in {len(todo)} configurations: {total}")
    return 0


def _find(todo: list[Configuration]) -> int:
    for configuration in todo:
        violation = shortest(configuration)
        if violation is None:
            print(f"{configuration}: nothing is found")
            return 1
        print(configuration, violation, "", sep="\n", flush=True)
    return 0
