"""Makes one simulated run, or one after the other.

    python -m tests.simulation seed=7 writers=2 commits=5 ...   # prints its trace
    python -m tests.simulation runs=100                         # that many seeds: many.py
    python -m tests.simulation total=1000000 jobs=8             # as many as make so many commits
    python -m tests.simulation exhaustive ...                   # every interleaving: exhaustive.py
    python -m tests.simulation hunt seconds=600                 # both, for so long: hunt.py
    python -m tests.simulation appends seed=7 ...               # histories of lists: replay.py
    python -m tests.simulation transfers seed=7 ...             # over several tables: replay.py
    python -m tests.simulation copies seed=7                    # consumers: replay.py
    python -m tests.simulation anew seed=7                      # tables made anew: replay.py

Ends with status 1 where something was wrong.
"""

from __future__ import annotations

import sys

from tests.simulation import exhaustive, hunt, replay
from tests.simulation.many import many
from tests.simulation.plan import Plan
from tests.simulation.run import run

__all__ = ["main"]


def one(words: list[str]) -> int:
    """Print the trace of a run."""
    ran = run(Plan.of(words), traced=True)
    print(*ran.trace, sep="\n")
    print(*ran.wrong, sep="\n")
    print(f"{ran.commits} commits, {ran.outcomes}, {ran.digest}")
    return bool(ran.wrong)


def main(words: list[str]) -> int:
    """Do what the words of the command line say; the exit status."""
    if words[:1] == ["exhaustive"]:
        return exhaustive.main(words[1:])
    if words[:1] == ["hunt"]:
        return hunt.main(words[1:])
    if words[:1] and words[0] in replay.KINDS:
        return replay.main(words[0], words[1:])
    given = dict(word.split("=", 1) for word in words)
    if "runs" in given or "total" in given:
        return many(given)
    return one(words)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
