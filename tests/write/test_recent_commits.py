from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.log.commit_reader import read_commit
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.write.recent_commits import RecentCommits
from tests.support.builders import TableBuilder

if TYPE_CHECKING:
    from adelta.log.state import LogState

SCHEMA = pa.schema([("id", pa.int64())])


async def table(commits: int) -> tuple[MemoryStore, list[LogState]]:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    for number in range(commits):
        await builder.commit(builder.add(f"{number}.parquet"))
    return store, [await load_state(store, version=v) for v in range(commits + 1)]


def versions(recent: RecentCommits, state: LogState) -> list[int] | None:
    known = recent.after(state)
    return None if known is None else [commit.version for commit in known]


async def test_what_is_known_follows_any_state_without_a_gap() -> None:
    store, states = await table(5)
    recent = RecentCommits()
    assert versions(recent, states[0]) == []
    recent.note(
        states[1].metadata.id,
        [await read_commit(store, 2), await read_commit(store, 3)],
    )
    assert versions(recent, states[0]) is None, "version 1 is not known"
    assert versions(recent, states[1]) == [2, 3]
    assert versions(recent, states[2]) == [3]
    assert versions(recent, states[5]) == [], "the state is newer than what is known"


async def test_commits_that_are_met_again_are_kept_once() -> None:
    store, states = await table(4)
    recent = RecentCommits()
    for first in (1, 2, 1):
        recent.note(
            states[first - 1].metadata.id,
            [await read_commit(store, v) for v in (first, first + 1)],
        )
    assert versions(recent, states[0]) == [1, 2, 3]


async def test_after_a_gap_only_what_follows_it_is_kept() -> None:
    store, states = await table(5)
    recent = RecentCommits()
    recent.note(states[0].metadata.id, [await read_commit(store, 1)])
    recent.note(states[3].metadata.id, [await read_commit(store, 4)])
    assert versions(recent, states[0]) is None
    assert versions(recent, states[3]) == [4]


async def test_no_more_is_kept_than_fits() -> None:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    recent = RecentCommits()
    for number in range(4):
        before = await load_state(store)
        files = [builder.add(f"{number}-{n}.parquet") for n in range(4_000)]
        await builder.commit(*files)
        recent.note(before.metadata.id, [await read_commit(store, number + 1)])
    states = [await load_state(store, version=v) for v in (1, 2)]
    assert versions(recent, states[0]) is None
    assert versions(recent, states[1]) == [3, 4]


async def test_a_table_of_another_id_is_another_table() -> None:
    store, states = await table(2)
    other, others = await table(2)
    recent = RecentCommits()
    recent.note(states[0].metadata.id, [await read_commit(store, 1)])
    assert versions(recent, others[0]) == []
    recent.note(others[0].metadata.id, [await read_commit(other, 1)])
    assert versions(recent, states[0]) == []
    assert versions(recent, others[0]) == [1]
