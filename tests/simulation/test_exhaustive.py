"""Every interleaving of some writers' requests: what is read is what the history says, always."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from adelta.errors import ConcurrentAppendError
from adelta.kernel.log_path import commit_path
from tests.simulation.exhaustive import EXCLUSIONS, configurations
from tests.simulation.specification import Action, Configuration, Violation, checked, shortest
from tests.support.depth import DEEP

if TYPE_CHECKING:
    from adelta.table import Table

RED, BLUE = Action("append", "red"), Action("append", "blue")
UPDATE, DELETE, OTHER = Action("update", "red"), Action("delete", "red"), Action("delete", "blue")
SHALLOW = [
    Configuration(((RED,), (DELETE,)), failures=True),
    Configuration(((UPDATE,), (DELETE,)), vectors=True, checksums=True),
    Configuration(((UPDATE,), (OTHER,)), vectors=True),
    Configuration(((UPDATE,), (OTHER,)), partitioned=True),
    Configuration(((UPDATE,), (Action("update", "red", 1),)), partitioned=True, vectors=True),
    Configuration(((RED,), (UPDATE,), (DELETE,))),
]


@pytest.mark.parametrize(
    "configuration", [*configurations(2, "put_if_absent")] if DEEP else SHALLOW, ids=str
)
def test_writers_who_put_if_absent_never_make_a_read_inconsistent(
    configuration: Configuration,
) -> None:
    figures = checked(configuration, in_order=not DEEP)
    assert figures.states >= 10
    assert figures.ends > 3


@pytest.mark.parametrize("by", ["coordination", "both"] if DEEP else ["coordination"])
@pytest.mark.parametrize("writers", [(UPDATE, DELETE), (DELETE, DELETE)], ids=["update", "delete"])
def test_nor_do_writers_who_coordinate(by: str, writers: tuple[Action, ...]) -> None:
    configuration = Configuration(tuple((each,) for each in writers), **EXCLUSIONS[by])
    whole = DEEP or UPDATE not in writers
    figures = checked(configuration, switches=None if whole else 1, in_order=not whole)
    assert figures.ends > 10


@pytest.mark.parametrize("vectors", [False, True])
def test_without_either_the_overwrite_is_found_in_the_fewest_switches(vectors: bool) -> None:
    violation = shortest(
        Configuration(((UPDATE,), (DELETE,)), put_if_absent=False, vectors=vectors)
    )
    assert violation is not None
    assert "Invariant ConsistentRead is violated" in violation.reason
    steps = [line for line in violation.trace.splitlines() if "TryCommitTxn" in line]
    assert len(steps) == 2
    assert violation.trace.count("create _delta_log/00000000000000000001.json") == 2
    assert "StartOperation(w1)" in violation.trace


def test_a_commit_that_is_replaced_by_one_that_says_the_same_is_found() -> None:
    violation = shortest(Configuration(((UPDATE,), (UPDATE,)), put_if_absent=False))
    assert violation is not None
    assert "version 1 is the commit of w1.1 and w2.1: one is replaced" in violation.reason


def test_what_the_overwrite_does_not_need_is_left_out() -> None:
    alone = Configuration(((UPDATE,), (DELETE,)), put_if_absent=False)
    with_others = Configuration(((BLUE, UPDATE), (DELETE,)), put_if_absent=False)
    expected, violation = shortest(alone), shortest(with_others)
    assert expected is not None
    assert violation is not None
    assert violation.trace.count("State") == expected.trace.count("State")
    assert violation.trace.count("TryCommitTxn") == 2


def test_a_read_that_is_not_what_the_history_says_is_a_violation() -> None:
    forgetful = Action("append", "red", 2)
    wrong = Configuration(((_Other(forgetful),), (DELETE,)))
    with pytest.raises(Violation, match="ConsistentRead"):
        checked(wrong)


@pytest.mark.parametrize(
    ("does", "says"),
    [
        ("deletes", "cannot be read"),
        ("overwrites", "version 1, col1 = blue: expected"),
        ("idles", "at every moment"),
        ("gives up", "nobody"),
        ("adds and removes", "ValidDeltaLog"),
    ],
)
def test_a_file_lost_after_its_commit_and_a_false_answer_are_violations(
    does: str, says: str
) -> None:
    changes = does in ("deletes", "overwrites")
    other = Action("append", "blue") if changes else Action("delete", "blue")
    with pytest.raises(Violation, match=says):
        checked(Configuration(((_Careless(other, does),),)), in_order=True)


class _Careless(Action):
    """Deletes or replaces what it has committed, or does nothing and says what is not so."""

    _does: str

    def __init__(self, other: Action, does: str) -> None:
        super().__init__(other.kind, other.col1, other.col2)
        object.__setattr__(self, "_does", does)

    async def run(self, table: Table, name: str) -> int | None:
        if self._does == "gives up":
            raise ConcurrentAppendError("nobody was there")
        if self._does == "idles":
            return None
        if self._does == "adds and removes":
            lines = map(json.loads, (await table.store.get(commit_path(0))).splitlines())
            add = next(line["add"] for line in lines if "add" in line)
            both: list[dict[str, Any]] = [{"remove": add}, {"add": add}]
            told = [{"commitInfo": {"userMetadata": name}}, *both]
            data = "\n".join(map(json.dumps, told)).encode()
            await table.store.put_if_absent(commit_path(1), data)
            return 1
        before = [meta.path async for page in table.store.list("") for meta in page]
        version = await super().run(table, name)
        after = [meta.path async for page in table.store.list("") for meta in page]
        (mine,) = {p for p in after if p.endswith(".parquet")} - {*before}
        if self._does == "deletes":
            await table.store.delete([mine])
        else:
            other = next(path for path in before if path.endswith(".parquet"))
            await table.snapshot()  # between the two there is a state
            await table.store.put(mine, await table.store.get(other))
        return version


class _Other(Action):
    """Does what another operation does, and means nothing."""

    def __init__(self, other: Action) -> None:
        super().__init__(other.kind, other.col1, other.col2)

    def apply(self, rows: tuple[tuple[str, int], ...]) -> tuple[tuple[str, int], ...]:
        return rows
