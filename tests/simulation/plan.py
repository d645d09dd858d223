"""What a simulated run is made of, drawn from its seed; and the command that makes the same one."""

from __future__ import annotations

import random
import shlex
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from tests.simulation.exclusion import drawn_exclusion
from tests.support.workload import ALL_KINDS, PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SETTINGS", "Plan"]

SETTINGS = {
    "changes": {"delta.enableChangeDataFeed": "true"},
    "sidecars": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "2"},
    "parts": {"adelta.checkpoint.partSize": "3"},
    "row_ids": {"delta.enableRowTracking": "true"},
    "compacted": {"delta.autoOptimize.autoCompact": "true"},
}
_DRAWN_LATER = "compacted"  # so that the other settings of a seed stay what they were
_PAGE = 1000
_STREAMED = 0.3
_SMALL = (*("append",) * 3, *("together",) * 3, "import", "note")
_SMALLEST = (*("mark",) * 12, *("together",) * 3, "note")
_FEW_FAULTS = 10
_FAR_S = 90 * 86_400.0  # further off than anything is kept
_FAR = 0.12


@dataclass(frozen=True)
class Plan:
    """One run. Two runs of equal plans are the same, step by step.

    `faults` is how likely each fault of a request is, and `slow` that it takes twenty times as
    long, in thousandths; `crashes` how many processes die; `keepers` what looks after the table
    meanwhile; `tailers` how many follow its log. `excludes` is what keeps writers from overwriting
    each other, one of `EXCLUDES`; by the keeper "ownership" a commit owner takes the table and
    gives it back, to the store or to entries in DynamoDB (owner-dynamodb). `overwriting` takes the
    conditional puts away, so that the checker has something to find. With `vector_files` all
    deletion vectors are in files, as large ones are. Files of rows that are `streamed` are sent
    part by part, as large ones are, and their uploads may be torn. Each writer's process has so
    many `tasks`, which share a table, and read it after an operation in `reads` of 100 cases. So
    many of the `partitions` are used. So many `sleepers` begin a transaction before the table is
    left alone, and go on with it afterwards.

    The table has `settings` from the beginning. A page of a listing has at most `page` objects, and
    leaves out some new ones, and has some that were deleted, for at most `lag` seconds: then nobody
    may read what is wrong, but what is old.
    """

    seed: int
    writers: int = 3
    commits: int = 10
    faults: int = 10
    crashes: int = 2
    skew_s: float = 60.0
    vectors: bool = False
    checkpoint_every: int = 10
    keepers: tuple[str, ...] = ("checkpoint", "optimize", "vacuum", "cleanup", "compact")
    overwriting: bool = False
    kinds: tuple[str, ...] = ALL_KINDS
    tailers: int = 0
    excludes: str = "store"
    vector_files: bool = False
    reads: int = 20
    tasks: int = 1
    settings: tuple[str, ...] = ()
    page: int = _PAGE
    lag: float = 0.0
    partitions: int = len(PARTITIONS)
    slow: int = 20
    sleepers: int = 0
    streamed: bool = False

    @classmethod
    def drawn(cls, seed: int, commits: int = 10, *, overwriting: bool = False) -> Plan:
        """The run of a seed."""
        draw = random.Random(f"plan {seed}")
        drawn = cls(
            seed,
            draw.randint(2, 4),
            commits,
            draw.choice([0, 2, 10, 30]),
            draw.choice([0, 1, 3]),
            draw.choice([0.0, 60.0, 86_400.0]),
            draw.random() < 0.5,
            draw.choice([3, 10]),
            tuple(name for name in cls.keepers if draw.random() < 0.6),
            overwriting,
            tailers=draw.choice([0, 0, 1, 2]),
            excludes="store" if overwriting else drawn_exclusion(draw, seed),
        )
        if drawn.excludes.startswith("owner") and draw.random() < 0.5:
            drawn = replace(drawn, keepers=(*drawn.keepers, "ownership"))
        more = random.Random(f"more {seed}")
        others = (name for name in SETTINGS if name != _DRAWN_LATER)
        settings = tuple(name for name in others if more.random() < 0.25)
        page, lag = more.choice([7, _PAGE, _PAGE]), more.choice([0.0, 0.0, 0.0, 5.0])
        if random.Random(f"compacted {seed}").random() < 0.25:
            settings += (_DRAWN_LATER,)
        return replace(
            drawn,
            vector_files=draw.random() < 0.5,
            streamed=random.Random(f"streamed {seed}").random() < _STREAMED,
            settings=settings,
            page=page,
            lag=lag if drawn.excludes == "store" else 0.0,
            sleepers=int(random.Random(f"sleeper {seed}").random() < 0.25),
            skew_s=_FAR_S if random.Random(f"far {seed}").random() < _FAR else drawn.skew_s,
        )

    @classmethod
    def busy(cls, seed: int, commits: int = 20) -> Plan:
        """A run of a seed whose writers make many small commits, some of them together."""
        drawn = cls.drawn(seed, commits)
        draw = random.Random(f"busy {seed}")
        keeper = draw.choice(drawn.keepers) if drawn.keepers else ""
        return replace(
            drawn,
            kinds=_SMALL,
            keepers=(keeper,) if keeper else (),
            tailers=min(1, drawn.tailers),
            tasks=draw.randint(2, 5),
            reads=2,
            page=_PAGE,
            settings=tuple(name for name in drawn.settings if name != _DRAWN_LATER),
        )

    @classmethod
    def light(cls, seed: int, commits: int = 40) -> Plan:
        """A busy run most of whose commits have no rows, so that there can be the more of them.

        Its requests fail less often: a log that is long has to be read without a failure. Nor are
        there checkpoints for a few commits each.
        """
        drawn = cls.busy(seed, commits)
        faults = min(drawn.faults, _FEW_FAULTS)
        return replace(drawn, kinds=_SMALLEST, faults=faults, checkpoint_every=10)

    @classmethod
    def nth(cls, seed: int, commits: int = 10) -> Plan:
        """The run of a seed of many: of four one has all operations, one is busy, two are light.

        A writer makes so many `commits` where there are all operations, else 2 or 4 times as many.
        """
        match seed % 4:
            case 0:
                return cls.drawn(seed, commits)
            case 1:
                return cls.busy(seed, 2 * commits)
            case _:
                return cls.light(seed, 4 * commits)

    def smaller(self) -> Iterator[Plan]:
        """Plans with less in them, those that leave out most first."""
        if self.keepers:
            yield replace(self, keepers=())
        if self.faults:
            yield replace(self, faults=0)
        if self.crashes:
            yield replace(self, crashes=0)
        if self.skew_s:
            yield replace(self, skew_s=0.0)
        if self.vectors:
            yield replace(self, vectors=False)
        if self.vector_files:
            yield replace(self, vector_files=False)
        if self.streamed:
            yield replace(self, streamed=False)
        if self.writers > 1:
            yield replace(self, writers=self.writers - 1)
        if self.tasks > 1:
            yield replace(self, tasks=1)
        if self.tailers:
            yield replace(self, tailers=0)
        if self.sleepers:
            yield replace(self, sleepers=0)
        if self.excludes != "store":
            keepers = tuple(each for each in self.keepers if each != "ownership")
            yield replace(self, excludes="store", keepers=keepers)
        if self.page != _PAGE:
            yield replace(self, page=_PAGE)
        if self.lag:
            yield replace(self, lag=0.0)
        for name in self.settings:
            yield replace(self, settings=tuple(each for each in self.settings if each != name))
        if self.commits > 1:
            yield replace(self, commits=self.commits // 2)
            yield replace(self, commits=self.commits - 1)
        for name in self.keepers:
            yield replace(self, keepers=tuple(each for each in self.keepers if each != name))
        for kind in dict.fromkeys(self.kinds if len({*self.kinds}) > 1 else ()):
            yield replace(self, kinds=tuple(each for each in self.kinds if each != kind))

    def command(self) -> str:
        """What runs it again from the root of the repository."""
        words = ["python", "-m", "tests.simulation"]
        for field in fields(self):
            value = getattr(self, field.name)
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            words.append(f"{field.name}={text}")
        return shlex.join(words)

    @classmethod
    def of(cls, words: list[str]) -> Plan:
        """The plan that the words of a command say."""
        given = dict(word.split("=", 1) for word in words)
        plan = cls(int(given.pop("seed")))
        for name, text in given.items():
            default = getattr(plan, name)
            value: object
            if isinstance(default, tuple):
                value = tuple(filter(None, text.split(",")))
            elif isinstance(default, bool):
                value = text == "True"
            else:
                value = type(default)(text)
            plan = replace(plan, **{name: value})
        return plan
