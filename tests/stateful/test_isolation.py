"""Isolation as it is claimed: histories of real transactions show the anomalies that are listed.

Sessions append blindly, read keys and add to the same or to others, rewrite, UPDATE, MERGE, DELETE,
OPTIMIZE and look, all at once, on one table. What they have read tells who came before whom:

* Serializable: everything happens one after the other, in an order that agrees with the sessions
  and with the clock;
* WriteSerializable: so it does but for blind appends that were overlooked: a transaction may come
  before one that was committed first, after it had read. Two kinds of others can see that: who
  reads between the two (also in order to write something else), and who deletes what was appended;
* whoever reads reads a snapshot, at either level: no update is lost, nothing is read in half.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import pyarrow as pa
import pytest

from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.transaction import conflict_checker
from adelta.kernel.transaction.isolation import IsolationLevel
from adelta.log.commit_reader import read_commit
from adelta.operations import create_table, delete, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.anomalies import Read, Txn, anomalies
from tests.support.builders import TableBuilder
from tests.support.depth import DEEP, cases
from tests.support.list_appends import (
    BLIND,
    SCHEMA,
    Client,
    history_of,
    overlooks_a_blind_append,
    read_all,
)
from tests.support.races import OvertakenStore
from tests.support.stores import Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from adelta.storage.object_store import ObjectStore
    from tests.support.s3_server import S3Location

R = TypeVar("R")
ROOT = Path(__file__).resolve().parents[2]
SESSIONS, TRANSACTIONS = cases(6, 4), cases(40, 12)
VECTORS = "deletionVectors"


class UnevenStore(WrappedStore):
    """Every request takes its time."""

    def __init__(self, inner: ObjectStore, seed: int) -> None:
        super().__init__(inner)
        self.chance = random.Random(seed)

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        await asyncio.sleep(self.chance.random() * 0.004)
        result = await run()
        await asyncio.sleep(self.chance.random() * 0.002)
        return result


async def new_table(store: ObjectStore, *, partitioned: bool, vectors: bool = False) -> None:
    await TableBuilder.create(
        SCHEMA,
        store=store,
        partition_by=["key"] if partitioned else [],
        properties={"delta.enableDeletionVectors": "true"} if vectors else {},
        protocol=Protocol(3, 7, (VECTORS,), (VECTORS, "appendOnly", "invariants")),
    )


async def history(
    store: ObjectStore,
    level: str,
    *,
    seed: int = 0,
    partitioned: bool = True,
    vectors: bool = False,
    **how: Any,
) -> list[Txn]:
    """What sessions do to a new table, each with a handle of its own."""
    await new_table(store, partitioned=partitioned, vectors=vectors)
    said: list[dict[str, Any]] = []
    tables = [
        Table(store.uri, store=UnevenStore(store, seed + number)) for number in range(SESSIONS)
    ]
    sessions = [
        Client(table, f"s{number}", number + 8 * seed, level, said.append, **how)
        for number, table in enumerate(tables)
    ]
    await asyncio.gather(*(session.work(TRANSACTIONS) for session in sessions))
    assert not any("why" in each for each in said), [e["why"] for e in said if "why" in e]
    said.append(await read_all(Table(store.uri, store=store)))
    for each in said:
        if each["version"] is not None:
            info = (await read_commit(store, each["version"])).info
            assert info.is_blind_append is (each["kind"] in BLIND), each
    found = history_of(said)
    assert any(txn.outcome == "failed" for txn in found), "without a conflict nothing was tried"
    return found


# ------------------------------------------------------------------------------- what is claimed

SEEDS = cases(20, 1)
_MOST_ATTEMPTS = 20


def layout(seed: int) -> dict[str, bool]:
    return {"partitioned": seed % 2 == 0, "vectors": seed % 4 in (1, 2)}


@pytest.mark.parametrize("seed", range(1, 1 + SEEDS))
async def test_at_serializable_everything_happens_one_after_the_other(seed: int) -> None:
    found = await history(MemoryStore(), "Serializable", seed=seed, **layout(seed))
    assert [str(each) for each in anomalies(found)] == []


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_at_write_serializable_nothing_but_overlooked_blind_appends_is_out_of_order(
    seed: int,
) -> None:
    found = await history(MemoryStore(), "WriteSerializable", seed=seed, **layout(seed))
    assert [str(each) for each in anomalies(found, overlooks_a_blind_append)] == []
    shown = {each.kind for each in anomalies(found)}
    assert shown <= {"G2", "G2-process", "G2-realtime"}, "who reads does not read a snapshot"


@pytest.mark.skipif(not DEEP, reason="a longer form of the tests before")
@pytest.mark.parametrize("where", ["local disk", "s3"])
@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
async def test_so_it_is_among_processes(
    level: str, where: str, tmp_path: Path, s3_location: S3Location
) -> None:
    uri = f"{s3_location.uri}/table" if where == "s3" else str(tmp_path / "table")
    options = s3_location.storage_options if where == "s3" else {}
    said: list[dict[str, Any]] = []

    async def one(number: int) -> None:
        arguments = [uri, f"p{number}", str(number), str(TRANSACTIONS), level]
        done = await anyio.run_process(
            [sys.executable, "-m", "tests.support.list_appends", *arguments, *pairs],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stderr=None,
        )
        said.extend(json.loads(line) for line in done.stdout.splitlines())

    pairs = [f"{key}={value}" for key, value in options.items()]
    async with await create_table(uri, SCHEMA, storage_options=options) as table:
        await asyncio.gather(*map(one, range(SESSIONS)))
        said.append(await read_all(table))
    left_out = overlooks_a_blind_append if level == "WriteSerializable" else lambda _: False
    assert [str(each) for each in anomalies(history_of(said), left_out)] == []


# ------------------------------------------------------------------- what WriteSerializable allows


async def overtaken(
    level: str, kind: str, keys: str, others: Sequence[tuple[str, str]], *, vectors: bool = False
) -> tuple[list[dict[str, Any]], list[Txn]]:
    """What is said of a transaction, and of others that come first; and the whole history."""
    store, said = MemoryStore(), list[dict[str, Any]]()
    await new_table(store, partitioned=True, vectors=vectors)
    session = Client(Table(store.uri, store=WrappedStore(store)), "o", 2, level, said.append)
    await session.do("blind", *"xy")

    async def others_first() -> None:
        for each, about in others:
            await session.do(each, *about)

    slow = Table(store.uri, store=OvertakenStore(store, others_first))
    await Client(slow, "slow", 1, level, said.append).do(kind, *keys)
    said.append(await read_all(Table(store.uri, store=store)))
    assert [each["kind"] for each in said[1:-1]] == [*(each for each, _ in others), kind]
    return said, history_of(said)


SEEN = {
    "by who reads in between": [("blind", "x"), ("look", "xy")],
    "by who copies it elsewhere": [("apart", "x"), ("copy", "xy")],
}


@pytest.mark.parametrize("others", SEEN.values(), ids=SEEN)
async def test_that_a_blind_append_was_overlooked_can_be_seen(
    others: list[tuple[str, str]],
) -> None:
    said, found = await overtaken("WriteSerializable", "read", "xy", others)
    assert {each["outcome"] for each in said} == {"committed"}
    assert [each.kind for each in anomalies(found)] == ["G2"]
    assert anomalies(found, overlooks_a_blind_append) == []
    said, found = await overtaken("Serializable", "read", "xy", others)
    assert [each["outcome"] for each in said if each["process"] == "slow"] == ["failed"]
    assert anomalies(found) == []


async def test_it_can_be_seen_by_who_deletes_what_was_appended() -> None:
    """The rows that a deletion finds are gone, and a row is there that it ought to have found."""
    store = MemoryStore()
    await new_table(store, partitioned=True)
    table, other = (Table(store.uri, store=WrappedStore(store)) for _ in range(2))
    async with table.transaction(isolation="WriteSerializable") as tx:
        assert await tx.read("key = 'x'") == []
        await write_table(other, pa.Table.from_pylist([{"key": "x", "value": "blind"}]))
        deleted = await delete(other, "key = 'x'", isolation="WriteSerializable")
        await tx.append(pa.Table.from_pylist([{"key": "x", "value": "slow"}]))
    assert deleted.num_deleted_rows == 1
    rows = await (await table.snapshot()).scan(["value"]).to_arrow()
    assert rows.column("value").to_pylist() == ["slow"]
    found = [
        Txn("slow", [Read("x")], {"x": ["slow"]}, version=tx.version),
        Txn("blind", [], {"x": ["blind"]}, version=1, blind=True),
        Txn("deletion", [Read.of_list("x", "blind")], version=deleted.version),
    ]
    assert [each.kind for each in anomalies(found)] == ["G2"]
    assert anomalies(found, overlooks_a_blind_append) == []


async def test_who_overlooks_what_was_not_appended_blindly_is_refused() -> None:
    others = [("update", "x"), ("merge", "x"), ("rewrite", "x"), ("read", "xy")]
    for other in others:
        said, found = await overtaken("WriteSerializable", "read", "xy", [other])
        assert [each["outcome"] for each in said if each["process"] == "slow"] == ["failed"]
        assert anomalies(found) == []


# --------------------------------------------------------------------------- the negative controls


@pytest.mark.parametrize("level", ["Serializable", "WriteSerializable"])
async def test_where_rows_that_others_add_are_no_conflict_the_checker_finds_it(
    level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(IsolationLevel, "must_see_adds_of", lambda *_: False)
    _, found = await overtaken(level, "read", "xy", [("read", "yx")])
    shown = {each.kind for each in anomalies(found, overlooks_a_blind_append)}
    assert shown == {"G2"}, "write skew"
    _, found = await overtaken(level, "read", "xy", [("read", "xy")])
    shown = {each.kind for each in anomalies(found, overlooks_a_blind_append)}
    assert "lost update" in shown
    if DEEP or level == "Serializable":
        found = await history(MemoryStore(), level, **layout(0))
        assert anomalies(found, overlooks_a_blind_append)


async def test_where_rows_that_others_remove_are_no_conflict_the_checker_finds_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(conflict_checker, "_check_removed", lambda *_: None)
    monkeypatch.setattr(IsolationLevel, "must_see_adds_of", lambda *_: False)
    _, found = await overtaken("Serializable", "rewrite", "x", [("rewrite", "x")])
    assert {"lost update", "duplicate"} <= {each.kind for each in anomalies(found)}


async def test_where_reads_are_no_snapshots_the_checker_finds_it() -> None:
    for attempt in range(1, _MOST_ATTEMPTS + 1):  # whether a commit comes between is a race
        kinds = await _anomalies_of_torn_reads()
        assert kinds <= {"G-single"}
        if kinds:
            print(f"found in attempt {attempt} of at most {_MOST_ATTEMPTS}")
            return
    pytest.fail(f"{_MOST_ATTEMPTS} attempts do not find it")


async def _anomalies_of_torn_reads() -> set[str]:
    store, said = MemoryStore(), list[dict[str, Any]]()
    await new_table(store, partitioned=True)
    writer = Client(Table(store.uri, store=WrappedStore(store)), "w", 2, "", said.append)
    reader = Client(Table(store.uri, store=store), "r", 1, "", said.append, torn=True)
    looking = asyncio.ensure_future(reader.do("look", "x", "y"))
    while not looking.done():
        await writer.do("blind", "x", "y")
    said.append(await read_all(Table(store.uri, store=store)))
    return {each.kind for each in anomalies(history_of(said))}
