"""Makes one history of list-appends, transactions over two tables, or copies; shrinks what fails.

    python -m tests.simulation appends seed=7 sessions=3 transactions=8 excludes=postgres
    python -m tests.simulation transfers seed=7 writers=2 transfers=4 faults=30 owner=1 changes=1
    python -m tests.simulation copies seed=7           # consumers that copy a table
    python -m tests.simulation anew seed=7             # a table that is dropped and made anew

Without `excludes` the seed says what excludes the writers of the lists. Amounts go from table to
table in a catalog, or with an `owner`, which the tables leave and come back to where it `changes`.
Prints what is wrong, and the command that shows it with as little as can be; ends with status 1.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any

from tests.simulation.anew import remade
from tests.simulation.appends import Sessions
from tests.simulation.consuming import copied
from tests.simulation.owned_transfers import owned_transferred
from tests.simulation.transfers import transferred

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

__all__ = ["KINDS", "command", "main", "wrong"]

Given = dict[str, str | int]

KINDS: Mapping[str, Given] = {
    "appends": {"seed": 0, "sessions": 3, "transactions": 8, "excludes": ""},
    "transfers": {"seed": 0, "writers": 2, "transfers": 4, "faults": 0, "owner": 0, "changes": 0},
    "copies": {"seed": 0},
    "anew": {"seed": 0},
}
"""What can be made, and of what, unless it is said."""
_OF_SEEDS: Mapping[str, Callable[[int], tuple[Any, ...]]] = {"copies": copied, "anew": remade}
_LEAST = {"seed": None, "sessions": 1, "transactions": 1, "writers": 1, "transfers": 1}


def wrong(kind: str, **given: str | int) -> list[str]:
    """What is wrong with what is made; also that it cannot be made to its end."""
    told = {**KINDS[kind], **given}
    try:
        if kind in _OF_SEEDS:
            return _OF_SEEDS[kind](int(told["seed"]))[-1]
        return _of_appends(told) if kind == "appends" else _of_transfers(told)
    except Exception as error:
        return [f"{error!r:.300}"]


def _of_appends(told: Given) -> list[str]:
    numbers = (int(told[name]) for name in ("seed", "sessions", "transactions"))
    sessions = Sessions(*numbers, excludes=str(told["excludes"]) or None)
    return sessions.wrong(sessions.history())


def _of_transfers(told: Given) -> list[str]:
    seed = int(told["seed"])
    numbers = {name: int(told[name]) for name in ("writers", "transfers", "faults")}
    if told["owner"]:
        return owned_transferred(seed, changes=bool(told["changes"]), **numbers)[1]
    return transferred(seed, **numbers)[1]


def command(kind: str, **given: str | int) -> str:
    """What makes it again, from the root of the repository."""
    told = {**KINDS[kind], **given}
    words = ["python", "-m", "tests.simulation", kind]
    return shlex.join([*words, *(f"{name}={value}" for name, value in told.items())])


def _smaller(told: Given) -> Iterator[Given]:
    """The same with less in it."""
    for name, value in told.items():
        least = _LEAST.get(name, 0)
        if least is not None and isinstance(value, int) and value > least:
            yield from ({**told, name: less} for less in sorted({least, value - 1}))


def _shrunk(kind: str, told: Given) -> Given:
    while found := next((each for each in _smaller(told) if wrong(kind, **each)), None):
        told = found
    return told


def main(kind: str, words: list[str]) -> int:
    """Do what the words of the command line say; the exit status."""
    told = dict(KINDS[kind])
    for name, text in (word.split("=", 1) for word in words):
        told[name] = type(told[name])(text)
    found = wrong(kind, **told)
    if not found:
        print("nothing is wrong")
        return 0
    print(*found, "shrinking it", sep="\n", flush=True)
    least = _shrunk(kind, told)
    print(*wrong(kind, **least), command(kind, **least), sep="\n")
    return 1
