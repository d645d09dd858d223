"""Transactions of one process on one table: in turn, without races, and together where they may."""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    ConcurrentAppendError,
    ConcurrentTransactionError,
    InvalidOptionError,
    StorageError,
)
from adelta.kernel.log_path import commit_path
from adelta.log.commit_reader import read_commit
from adelta.operations import create_table, set_properties, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.builders import TableBuilder
from tests.support.stores import CountingStore, SlowStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Coroutine
    from pathlib import Path

    from adelta.storage.object_store import ObjectMeta
    from adelta.transaction import Transaction

R = TypeVar("R")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
SETTLED = 0.05  # seconds after which every task has come to where it waits


class GatedStore(WrappedStore):
    """A store whose puts of commits wait at a gate, and are counted there."""

    def __init__(self) -> None:
        super().__init__(MemoryStore())
        self.gate = asyncio.Event()
        self.gate.set()
        self.arrived = asyncio.Event()
        self.closes_behind_one = False

    async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
        if path.endswith(".json"):
            self.arrived.set()
            await self.gate.wait()
            if self.closes_behind_one:
                self.gate.clear()
        return await super().put_if_absent(path, data)


def row(number: int, p: str = "x") -> pa.Table:
    return pa.table({"id": [number], "p": [p]}, schema=SCHEMA)


async def gated_table() -> tuple[GatedStore, Table]:
    store = GatedStore()
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    table = Table(store.uri, store=store)
    await table.snapshot()
    return store, table


async def append(table: Table, number: int, app: tuple[str, int] | None = None) -> Transaction:
    async with table.transaction(group_commit=True) as tx:
        if app is not None:
            tx.set_transaction(*app)
        await tx.append(row(number))
    return tx


async def ids(table: Table) -> list[int]:
    snapshot = await table.snapshot()
    return sorted((await snapshot.scan(columns=["id"]).to_arrow()).column("id").to_pylist())


async def behind_a_closed_gate(
    store: GatedStore, table: Table, *work: Coroutine[object, object, R]
) -> list[asyncio.Task[R]]:
    """Tasks that wait in the queue for the first one's put, in the order given."""
    queue = table._queue.get()
    store.gate.clear()
    store.arrived.clear()
    tasks = [asyncio.ensure_future(work[0])]
    await store.arrived.wait()
    for each in work[1:]:
        before = queue.num_places
        tasks.append(asyncio.ensure_future(each))
        for _ in range(10_000):
            if queue.num_places > before:
                break
            await asyncio.sleep(0.001)
    return tasks


async def test_tasks_of_one_process_never_race_and_read_no_more_than_their_bases() -> None:
    store = CountingStore(MemoryStore())
    no_checkpoint = {"delta.checkpointInterval": "1000"}
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"], properties=no_checkpoint)
    table = Table(store.uri, store=store)
    await table.snapshot()
    store.clear()

    async def write(number: int) -> int | None:
        return (await write_table(table, row(number))).version

    versions = await asyncio.gather(*map(write, range(30)))
    assert sorted(v for v in versions if v is not None) == list(range(1, 31))
    kinds = Counter((r.kind, r.path.rpartition(".")[2]) for r in store.requests)
    asked = kinds.pop(("get", "json"), 0) + kinds.pop(("head", "json"), 0)
    assert kinds == {("put", "parquet"): 30, ("put", "json"): 30, ("put", "crc"): 30}
    assert asked == 30, "each asks once whether its base is there"
    assert await ids(table) == list(range(30))


async def test_handles_on_one_address_have_one_queue() -> None:
    uri = f"memory://queue-{uuid.uuid4().hex}/t"
    await (await create_table(uri, SCHEMA)).aclose()
    async with open_table(uri) as one, open_table(uri) as two:
        await one.snapshot(), await two.snapshot()
        results = await asyncio.gather(*(write_table(t, row(i)) for i, t in enumerate([one, two])))
        assert sorted(r.version for r in results) == [1, 2]
        assert one._queue.get() is two._queue.get()
    async with open_table(uri, {"timeout": "7s"}) as third:
        assert third._queue.get() is not one._queue.get()


async def test_who_comes_first_goes_first() -> None:
    store, table = await gated_table()

    async def write(number: int) -> int | None:
        return (await write_table(table, row(number))).version

    tasks = await behind_a_closed_gate(store, table, *map(write, range(5)))
    store.gate.set()
    assert await asyncio.gather(*tasks) == [1, 2, 3, 4, 5]


async def test_a_transaction_is_judged_by_the_commits_of_its_neighbours() -> None:
    store, table = await gated_table()

    async def count_and_add(p: str) -> int | None:
        async with table.transaction() as tx:
            await tx.read(f"p = '{p}'")
            await tx.append(row(9, p="counts"))
        return tx.version

    first = append(table, 1)
    tasks = await behind_a_closed_gate(store, table, first, count_and_add("x"), count_and_add("y"))
    store.gate.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], ConcurrentAppendError)
    assert done[2] == 2


async def test_blind_appends_that_wait_together_are_one_commit() -> None:
    store, table = await gated_table()
    work = [append(table, i, (f"app-{i}", i) if i % 2 else None) for i in range(10)]
    tasks = await behind_a_closed_gate(store, table, *work)
    store.gate.set()
    done = await asyncio.gather(*tasks)
    assert [tx.version for tx in done] == [1] + [2] * 9
    assert all(tx.metrics["numOutputRows"] == 1 for tx in done)
    assert await ids(table) == list(range(10))
    commit = await read_commit(store, 2)
    info = commit.info
    assert info is not None
    assert info.is_blind_append
    assert info.operation_metrics["numOutputRows"] == "9"
    assert len(orjson.loads(info.tags["adelta.groupCommit"])) == 9
    assert {t.app_id: t.version for t in commit.set_transactions} == {
        f"app-{i}": i for i in (1, 3, 5, 7, 9)
    }
    assert commit.adds.num_rows == 9


async def test_appends_are_one_commit_only_where_all_of_them_ask_for_it() -> None:
    store, table = await gated_table()

    async def alone() -> Transaction:
        async with table.transaction() as tx:
            await tx.append(row(50))
        return tx

    async def reading() -> Transaction:
        async with table.transaction(group_commit=True) as tx:
            await tx.read("p = 'y'")
            await tx.append(row(60))
        return tx

    async def named() -> Transaction:
        async with table.transaction(group_commit=True, user_metadata="mine") as tx:
            await tx.append(row(70))
        return tx

    work = (append(table, 1), append(table, 2), alone(), reading(), named(), append(table, 3))
    tasks = await behind_a_closed_gate(store, table, *work)
    store.gate.set()
    assert [(await task).version for task in tasks] == [1, 2, 3, 4, 5, 2]


async def test_what_is_wrong_with_one_of_a_group_does_not_fail_the_others() -> None:
    store, table = await gated_table()
    work = [
        append(table, 0, ("app", 4)),
        append(table, 1),
        append(table, 2, ("app", 5)),  # the application runs twice at once
        append(table, 3, ("app", 3)),  # done before, as the first commit says
        append(table, 4, ("other", 1)),
        append(table, 5, ("other", 2)),  # one commit holds one of an application's transactions
    ]
    tasks = await behind_a_closed_gate(store, table, *work)
    store.gate.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    versions = [each.version for each in done if not isinstance(each, BaseException)]
    assert versions == [1, 2, None, 2]
    assert isinstance(done[2], ConcurrentTransactionError)
    assert isinstance(done[5], ConcurrentTransactionError)
    assert not isinstance(done[3], BaseException)
    assert done[3].skipped
    assert await ids(table) == [0, 1, 4]


async def test_a_member_whose_files_cannot_be_numbered_fails_alone() -> None:
    store = GatedStore()
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    table = Table(store.uri, store=store)
    await set_properties(table, {"delta.enableRowTracking": "true"})

    async def without_statistics() -> Transaction:
        async with table.transaction(group_commit=True) as tx:
            tx.add_files([replace(kept, path="p=x/bare.parquet", stats=None)])
        return tx

    async with table.transaction() as first:
        (kept,) = await first.append(row(0))
    tasks = await behind_a_closed_gate(
        store, table, append(table, 1), without_statistics(), append(table, 2), append(table, 3)
    )
    store.gate.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[1], InvalidOptionError)
    assert await ids(table) == [0, 1, 2, 3]


async def test_a_cancelled_transaction_leaves_the_queue_and_nothing_else() -> None:
    store, table = await gated_table()
    tasks = await behind_a_closed_gate(store, table, *(append(table, i) for i in range(4)))
    tasks[2].cancel()
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    store.gate.set()
    assert [(await tasks[i]).version for i in (0, 1, 3)] == [1, 2, 2]
    assert await ids(table) == [0, 1, 3]
    pages = [page async for page in store.list("p=x/")]
    assert sum(len(page) for page in pages) == 3, "the files of the cancelled one are gone"


async def test_a_cancelled_leader_commits_its_group_first() -> None:
    store, table = await gated_table()
    begun: list[Transaction] = []

    async def remembered(number: int) -> None:
        async with table.transaction(group_commit=True) as tx:
            begun.append(tx)
            await tx.append(row(number))

    tasks = await behind_a_closed_gate(store, table, append(table, 0), *map(remembered, (1, 2, 3)))
    store.arrived.clear()
    store.closes_behind_one = True
    store.gate.set()
    await tasks[0]
    await store.arrived.wait()
    tasks[1].cancel()
    tasks[3].cancel()
    await asyncio.sleep(SETTLED)
    store.gate.set()
    await asyncio.wait(tasks)
    assert await ids(table) == [0, 1, 2, 3]
    assert {tx.version for tx in begun} == {2}, "also those that were cancelled know it"
    assert [task.cancelled() for task in tasks] == [False, True, False, True]


async def test_a_doubtful_commit_is_in_doubt_for_every_member() -> None:
    class Forgetful(GatedStore):
        async def put_if_absent(self, path: str, data: bytes) -> ObjectMeta:
            made = await super().put_if_absent(path, data)
            if path == commit_path(2):
                raise CommitOutcomeUnknownError("no answer came")
            return made

        blind = True

        async def get(self, path: str) -> bytes:
            if path == commit_path(2) and self.blind:
                raise StorageError("unreachable")
            return await super().get(path)

    store = Forgetful()
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    table = Table(store.uri, store=store)
    await table.snapshot()
    tasks = await behind_a_closed_gate(store, table, *(append(table, i) for i in range(3)))
    store.gate.set()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each).__name__ for each in done[1:]] == ["CommitOutcomeUnknownError"] * 2
    store.blind = False
    assert await ids(Table(store.uri, store=store)) == [0, 1, 2], "no file was taken back"


async def test_waiting_in_the_queue_ends_with_the_timeout() -> None:
    store, table = await gated_table()

    async def impatient() -> None:
        async with table.transaction(timeout=SETTLED) as tx:
            await tx.append(row(2))

    tasks = await behind_a_closed_gate(store, table, append(table, 1))
    with pytest.raises(CommitConflictError, match="waited for"):
        await impatient()
    store.gate.set()
    assert (await tasks[0]).version == 1
    assert await ids(table) == [1]


async def test_a_table_that_took_the_place_of_another_is_not_taken_for_it() -> None:
    uri = f"memory://queue-{uuid.uuid4().hex}/t"
    old = await create_table(uri, SCHEMA)
    for number in range(3):
        await write_table(old, row(number))
    paths = [meta.path async for page in old.store.list("") for meta in page]
    await old.store.delete(paths)
    new = await create_table(uri, SCHEMA)
    assert (await write_table(new, row(7))).version == 1
    assert await ids(new) == [7]


async def test_other_writers_are_met_by_losing_and_their_commits_are_read_once() -> None:
    store = CountingStore(MemoryStore())
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    table = Table(store.uri, store=store)
    await table.snapshot()
    await write_table(Table(store.uri, store=store.inner), row(0))
    store.clear()
    await asyncio.gather(*(write_table(table, row(number)) for number in range(1, 6)))
    commits = [r for r in store.requests if r.path.endswith(".json")]
    asked = [r.path for r in commits if r.kind == "get"]
    assert asked.count(commit_path(1)) == 2, "as the winner, and as the base of the next one"
    assert [r.kind for r in commits].count("put") == 6
    assert await ids(table) == [0, 1, 2, 3, 4, 5]


async def test_a_group_takes_in_no_rows_for_a_table_that_was_here_before() -> None:
    store = SlowStore(MemoryStore(), 0.02)
    old, new = Table(store.uri, store=store), Table(store.uri, store=store)
    for number in range(2):
        await write_table(old, pa.table({"id": [number]}))
    late = old.transaction(group_commit=True)
    await late.__aenter__()
    await late.append(pa.table({"id": [111]}))
    await old.store.delete([m.path async for page in old.store.list() for m in page])
    await write_table(new, pa.table({"name": ["x"]}))
    first, member = new.transaction(), new.transaction(group_commit=True)
    for tx in (first, member):
        await tx.__aenter__()
        await tx.append(pa.table({"name": ["x"]}))
    ends = [tx.__aexit__(None, None, None) for tx in (first, member, late)]
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert outcomes[:2] == [None, None]
    assert isinstance(outcomes[2], CommitConflictError)
    assert (await (await new.snapshot()).scan().to_arrow()).to_pydict() == {"name": ["x"] * 3}


async def test_a_group_does_not_add_one_file_twice_however_its_path_is_spelled(
    tmp_path: Path,
) -> None:
    inner = open_table(tmp_path).store
    table = Table(inner.uri, store=SlowStore(inner, 0.02))
    await write_table(table, pa.table({"id": [0]}))
    async with table.transaction() as tx:
        (file,) = await tx.append(pa.table({"id": [1]}))
    async with table.transaction() as tx:
        tx.remove_files([file])
    spelled = [file, replace(file, path=f"{tmp_path.as_uri()}/{file.path}")]
    blocker, *members = (table.transaction(group_commit=True) for _ in range(3))
    await blocker.__aenter__()
    await blocker.append(pa.table({"id": [2]}))
    for tx, each in zip(members, spelled, strict=True):
        await tx.__aenter__()
        tx.add_files([each])
    ends = [tx.__aexit__(None, None, None) for tx in (blocker, *members)]
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert outcomes.count(None) == 2
    assert sum(isinstance(outcome, ConcurrentAppendError) for outcome in outcomes) == 1
    assert (await (await table.snapshot()).scan().count()) == 3
