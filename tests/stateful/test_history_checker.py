"""The checker of histories finds each thing that can be wrong, in a small history that has it.

A few operations are made, and what they have said, or what they have left in the store, is changed.
"""

from __future__ import annotations

import io
import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from adelta.kernel.log_path import commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.created import create_in
from tests.support.linearizability import History, violations
from tests.support.workload import SCHEMA, Operation, Worker, digest, perform

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Said = list[dict[str, Any]]

MADE = (
    Operation("o1", "append", "a", ids=[1, 2, 3]),
    Operation("o2", "append", "a", ids=[5, 6]),
    Operation("o3", "add_one", "a", rest=1, ids=[0], by_hand=False),  # 1 and 5
    Operation("o4", "delete", "a", rest=3, ids=[0], by_hand=False),  # 3
    Operation("o5", "delete", "b", rest=0, ids=[0], by_hand=False),  # nothing
)
ROWS = [("a", 1, 1), ("a", 2, 0), ("a", 5, 1), ("a", 6, 0)]  # of version 4


class Story:
    """What the operations have said and left, to be told otherwise."""

    def __init__(self, *asked: str) -> None:
        self.asked = asked
        self.store = MemoryStore()
        self.table = Table(self.store.uri, store=self.store)
        self.said: Said = []
        self.time = 0.0

    async def make(self) -> None:
        """Do all of it, one after the other."""
        properties = {"delta.enableChangeDataFeed": "true"} | dict.fromkeys(self.asked, "true")
        await create_in(self.table, SCHEMA, properties, ("p",))
        for operation in MADE:
            version = await perform(self.table, operation)
            outcome = "nothing" if version is None else "committed"
            self.says(operation=operation.name, outcome=outcome, version=version)
            if version is None:
                self.said[-1]["meant"] = operation.text()
        self.reads(4)

    def says(self, **what: Any) -> None:
        """Have somebody say something of the next second."""
        self.said.append({**what, "begun": self.time, "ended": self.time + 0.5})
        self.time += 1

    async def says_and_does(self, operation: Operation) -> None:
        """Have one more operation done."""
        version = await perform(self.table, operation)
        self.says(operation=operation.name, outcome="committed", version=version)

    def reads(self, version: int, rows: list[tuple[str, int, int]] | None = None) -> None:
        """Have somebody read a version."""
        self.says(read=digest(ROWS if rows is None else rows, None), version=version)

    async def lines(self, version: int) -> list[dict[str, Any]]:
        """What a commit says."""
        return [
            json.loads(line) for line in (await self.store.get(commit_path(version))).splitlines()
        ]

    async def write(self, version: int, lines: list[dict[str, Any]]) -> None:
        """Have a commit say something else."""
        await self.store.put(commit_path(version), "\n".join(map(json.dumps, lines)).encode())

    async def change_feed(self, change: Callable[[Any], Any]) -> None:
        """Have the change file of the update tell something else."""
        path = next(line["cdc"]["path"] for line in await self.lines(3) if "cdc" in line)
        sink = io.BytesIO()
        pq.write_table(change(pq.read_table(io.BytesIO(await self.store.get(path)))), sink)
        await self.store.put(path, sink.getvalue())


async def _lost(story: Story) -> None:
    await story.store.delete([commit_path(4)])
    story.said.pop()


async def _twice(story: Story) -> None:
    again = [line for line in await story.lines(2) if "cdc" not in line]
    await story.write(5, again)


async def _resurrected(story: Story) -> None:
    """What o4 has removed is added again by whoever has no business with it."""
    first = [line for line in await story.lines(3) if "add" in line]
    await story.write(5, [{"commitInfo": {"operation": "OPTIMIZE"}}, *first])


async def _undone(story: Story) -> None:
    """A commit that overlooks the one before: o4 keeps its removes, and adds the row of o3 anew."""
    update = next(line for line in await story.lines(3) if "add" in line)
    lines = await story.lines(4)
    await story.write(4, [update if "add" in line else line for line in lines])


async def _failed_and_there(story: Story) -> None:
    story.said[1] |= {"outcome": "failed", "version": None}


async def _elsewhere(story: Story) -> None:
    story.said[1]["version"] = 1


async def _mixed(story: Story) -> None:
    story.reads(4, [*ROWS[:3], ("a", 6, 1)])


async def _stale(story: Story) -> None:
    story.reads(3, sorted([*ROWS, ("a", 3, 0)]))


async def _stale_though_it_was_never_acknowledged(story: Story) -> None:
    story.said[3] |= {"outcome": "unknown", "version": None}
    await _stale(story)


async def _idle(story: Story) -> None:
    story.says(operation="o6", outcome="nothing", version=None)
    story.said[-1]["meant"] = Operation("o6", "delete", "a", rest=2).text()


async def _unasked(story: Story) -> None:
    story.said.insert(0, {"begins": "another"})


async def _silent_about_a_row(story: Story) -> None:
    await story.change_feed(lambda rows: rows.slice(1))


async def _told_twice(story: Story) -> None:
    await story.change_feed(lambda rows: rows.take([*range(rows.num_rows), 0]))


async def _told_the_wrong_way_round(story: Story) -> None:
    def swap(rows: Any) -> Any:
        at = rows.schema.get_field_index("_change_type")
        kinds = [
            {"update_preimage": "update_postimage"}.get(kind, "update_preimage")
            for kind in rows["_change_type"].to_pylist()
        ]
        return rows.set_column(at, "_change_type", [kinds])

    await story.change_feed(swap)


WRONG: dict[str, tuple[Callable[[Story], Awaitable[None]], str]] = {
    "an acknowledged commit is lost": (_lost, "is not in the log at its version"),
    "a commit is there twice": (_twice, "was committed twice"),
    "a deleted row is there again": (_resurrected, "is not what"),
    "an update is undone by whoever overlooked it": (_undone, "is not what"),
    "what failed is there": (_failed_and_there, "is in the log as version 2"),
    "a commit is not where it was said to be": (_elsewhere, "is not in the log at its version"),
    "a read is of no version": (_mixed, "as it never was"),
    "a read is older than a write that had ended": (_stale, "had been acknowledged, or read"),
    "a read is older than a read that had ended": (
        _stale_though_it_was_never_acknowledged,
        "had been acknowledged, or read",
    ),
    "there was something to do": (_idle, "was to find nothing to do"),
    "nobody has begun it": (_unasked, "nobody has begun"),
    "the change feed leaves out a row": (_silent_about_a_row, "tells of other changes"),
    "the change feed tells of a row twice": (_told_twice, "tells of other changes"),
    "the change feed is the wrong way round": (_told_the_wrong_way_round, "tells of other changes"),
}


async def test_a_history_in_which_nothing_is_wrong_is_accepted() -> None:
    story = Story()
    await story.make()
    assert [line for line in await story.lines(3) if "cdc" in line], "no changes were told"
    assert await violations(Table(story.store.uri, store=story.store), History(story.said)) == []


@pytest.mark.parametrize("what", WRONG)
async def test_what_is_wrong_is_found(what: str) -> None:
    change, says = WRONG[what]
    story = Story()
    await story.make()
    await change(story)
    found = await violations(Table(story.store.uri, store=story.store), History(story.said))
    assert any(says in each for each in found), found


async def _same_id(story: Story) -> None:
    """Rows of the second commit have the ids of the first one's."""
    lines = await story.lines(2)
    next(line for line in lines if "add" in line)["add"]["baseRowId"] = 0
    await story.write(2, lines)


async def _other_id(story: Story) -> None:
    """The update does not write down which ids its rows have had."""
    path = next(line["add"]["path"] for line in await story.lines(3) if "add" in line)
    rows = pq.read_table(io.BytesIO(await story.store.get(path)))
    sink = io.BytesIO()
    pq.write_table(rows.select(["id", "value"]), sink)
    await story.store.put(path, sink.getvalue())


async def _id_of_the_dead(story: Story) -> None:
    """A row gets the id of one that has been deleted."""
    await story.says_and_does(Operation("o7", "append", "c", ids=[100]))
    lines = await story.lines(5)
    next(line for line in lines if "add" in line)["add"]["baseRowId"] = 2
    await story.write(5, lines)


WRONG_IDS = {
    "two rows have it": (_same_id, "to 2 rows"),
    "a row has another one": (_other_id, "changes the id of"),
    "a row has had it": (_id_of_the_dead, "another's"),
}


@pytest.mark.parametrize("what", [None, *WRONG_IDS])
async def test_an_id_of_a_row_is_found_that_is_not_its_own_for_good(what: str | None) -> None:
    story = Story("delta.enableRowTracking")
    await story.make()
    if what is not None:
        await WRONG_IDS[what][0](story)
    found = await violations(Table(story.store.uri, store=story.store), History(story.said))
    if what is None:
        assert found == []
    else:
        assert any(WRONG_IDS[what][1] in each for each in found), found


async def test_a_worker_says_what_an_operation_meant_that_found_nothing_to_do() -> None:
    store, said = MemoryStore(), list[dict[str, Any]]()
    table = Table(store.uri, store=store)
    await create_in(table, SCHEMA, {}, ("p",))
    await Worker(table, "w", 1, 3, said.append, ("delete", "append")).work()
    idle = [each for each in said if each.get("outcome") == "nothing"]
    assert idle
    assert all(json.loads(each["meant"])["kind"] == "delete" for each in idle)
    assert await violations(table, History(said)) == []
