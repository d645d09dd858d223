"""Every write operation is cancelled wherever it waits: the table is as before or as after.

It is whole then: every file that its log names is there, and its checksum agrees. The handle and
others go on writing, nothing hangs, and where the commit had certainly not been sent off, nothing
is left behind.
"""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
import pytest

from adelta.errors import TableNotFoundError
from adelta.operations import (
    add_columns,
    add_constraint,
    analyze,
    checkpoint,
    clone,
    create_table,
    delete,
    drop_table,
    merge,
    optimize,
    reorg_purge,
    replace_table,
    restore,
    set_properties,
    update,
    vacuum,
    write_table,
)
from adelta.operations.define_with_rows import define_with_rows
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.cancellation import (
    FACTORIES,
    GivenUpStore,
    PausingStore,
    Steps,
    all_but,
    run_to_its_end,
)
from tests.support.depth import DEEP, cases
from tests.support.races import (
    OvertakenStore,
    is_commit,
    is_data,
    objects_of,
    outcome_of,
    store_with,
)
from tests.support.waiting import until

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from adelta.transaction import Transaction
    from tests.support.races import Objects
    from tests.support.stores import Request

    Act = Callable[[Table], Coroutine[Any, Any, object]]
    Ids = list[int]

R = TypeVar("R")

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
MANY = cases(1, 29)  # steps
VECTORS = {"delta.enableDeletionVectors": "true"}
FEED = {"delta.enableChangeDataFeed": "true"}
TRACKING = {"delta.enableRowTracking": "true"}


def rows(*ids: int, p: str = "a") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


BOTH = pa.concat_tables([rows(5), rows(6, p="b")])
WIDER = rows(5).append_column("x", pa.array([1], pa.int64()))


@dataclass(frozen=True)
class Case:
    """An operation, the table that it finds, and the ids of the rows that it leaves.

    The table has two files, or a file a row.
    """

    act: Act
    after: Ids
    properties: dict[str, str] = field(default_factory=dict)
    creates: bool = False
    beside: Objects = field(default_factory=dict)
    stride: int = cases(1, 7)
    each_by_itself: bool = False
    commits: int = 1
    deleted: int | None = None  # a row in a vector of the first file

    @property
    def before(self) -> Ids | None:
        """The ids that were there; None where there was no table."""
        return None if self.creates else [1, 2, 3, 4]

    async def objects(self) -> Objects:
        """The table, of two files."""
        store = MemoryStore()
        if not self.creates:
            table = Table(store.uri, store=store)
            options: Any = {"partition_by": ["p"], "properties": self.properties}
            ids = [(1,), (2,), (3,), (4,)] if self.each_by_itself else [(1, 2), (3, 4)]
            for some in ids:
                more = () if options == {} or self.deleted is None else (self.deleted,)
                await write_table(table, rows(*some, *more, p="ab"[some[0] // 3]), **options)
                options = {}
            if self.deleted is not None:
                await delete(table, f"id = {self.deleted}")
        return {**await objects_of(store), **self.beside}


async def sum_by_hand(table: Table) -> None:
    async with table.transaction() as tx:
        files = await tx.read("p = 'a'")
        tx.remove_files(files)
        tx.set_transaction("app", 1)
        await tx.append(rows(5))
        await tx.append(rows(6, p="b"))


async def merge_rows(table: Table, source_memory: int = 1 << 20) -> None:
    builder = (
        merge(table, rows(2, 4, 5), "target.id = source.id")
        .when_matched_delete("source.id = 2")
        .when_matched_update({"id": "target.id + 10"})
        .when_not_matched_insert_all()
    )
    options = replace(builder._options, source_memory=source_memory)
    await replace(builder, _options=options).execute()


def write(data: pa.Table, **options: Any) -> Act:
    return partial(write_table, data=data, **options)


async def clone_here(table: Table, **options: Any) -> None:
    async with open_table(f"memory://{uuid.uuid4()}/source") as source:
        await write_table(source, BOTH, partition_by=["p"], properties=VECTORS)
        await write_table(source, rows(7, 8))
        await delete(source, "id = 7")
        await clone(source, table, **options)


async def define(table: Table, mode: Any) -> None:
    await define_with_rows(table, BOTH, SCHEMA, mode=mode, cluster_by=("id",))


CASES = {
    "create": Case(write(BOTH, partition_by=["p"]), [5, 6], creates=True),
    "append": Case(write(BOTH), [1, 2, 3, 4, 5, 6]),
    "append once": Case(write(BOTH, txn=("app", 1)), [1, 2, 3, 4, 5, 6]),
    "append in a group": Case(write(BOTH, group_commit=True), [1, 2, 3, 4, 5, 6]),
    "merge the schema": Case(write(WIDER, schema_mode="merge"), [1, 2, 3, 4, 5]),
    "overwrite": Case(write(BOTH, mode="overwrite"), [5, 6]),
    "replace where": Case(
        write(rows(5), mode="overwrite", replace_where="id = 1 OR id = 5"), [2, 3, 4, 5]
    ),
    "replace partitions": Case(
        write(rows(5), mode="overwrite", partition_overwrite="dynamic"), [3, 4, 5]
    ),
    "delete": Case(partial(delete, where="id = 1"), [2, 3, 4]),
    "delete a partition": Case(partial(delete, where="p = 'b'"), [1, 2]),
    "delete with vectors": Case(partial(delete, where="id = 1"), [2, 3, 4], VECTORS),
    "delete with a feed": Case(partial(delete, where="id = 1"), [2, 3, 4], FEED),
    "update": Case(partial(update, set={"id": "id + 10"}, where="id < 3"), [3, 4, 11, 12]),
    "update with vectors": Case(
        partial(update, set={"id": "id + 10"}, where="id = 1"), [2, 3, 4, 11], VECTORS
    ),
    "merge": Case(merge_rows, [1, 3, 5, 14], FEED),
    "merge with vectors, from disk": Case(
        partial(merge_rows, source_memory=1), [1, 3, 5, 14], VECTORS
    ),
    "purge": Case(reorg_purge, [1, 2, 3, 4], VECTORS, deleted=9),
    "set properties": Case(
        partial(set_properties, properties={"delta.appendOnly": "false"}), [1, 2, 3, 4]
    ),
    "track rows": Case(partial(set_properties, properties=TRACKING), [1, 2, 3, 4]),
    "add columns": Case(partial(add_columns, columns=pa.schema([("x", pa.int64())])), [1, 2, 3, 4]),
    "add a constraint": Case(
        partial(add_constraint, name="small", expression="id < 1000"), [1, 2, 3, 4]
    ),
    "checkpoint": Case(checkpoint, [1, 2, 3, 4]),
    "by hand": Case(sum_by_hand, [3, 4, 5, 6]),
    "optimize": Case(partial(optimize, zorder_by=["id"]), [1, 2, 3, 4], stride=MANY),
    "restore": Case(partial(restore, version=0), [1, 2], FEED, stride=MANY),
    "vacuum": Case(
        partial(vacuum, retention=timedelta(0), enforce_retention=False),
        [1, 2, 3, 4],
        VECTORS,
        beside={"p=a/orphan": b"x", "p=c/orphan": b"x"},
        stride=MANY,
    ),
    "clone": Case(clone_here, [5, 6, 8], creates=True, stride=MANY),
    "clone in place of it": Case(partial(clone_here, replace=True), [5, 6, 8], stride=MANY),
    "analyze": Case(
        partial(analyze, columns=["id"]),
        [1, 2, 3, 4],
        {"delta.dataSkippingNumIndexedCols": "0"},
        stride=MANY,
    ),
    "create as select": Case(partial(define, mode="create"), [5, 6], creates=True, stride=MANY),
    "replace as select": Case(partial(define, mode="create or replace"), [5, 6], stride=MANY),
    "replace": Case(partial(replace_table, schema=SCHEMA, cluster_by=["id"]), [], stride=MANY),
    "upkeep": Case(write(BOTH), [1, 2, 3, 4, 5, 6], {"delta.checkpointInterval": "2"}),
}
if DEEP:  # many steps each
    small = Case(optimize, [1, 2, 3, 4], each_by_itself=True)
    commit_each = partial(optimize, max_commit_interval=timedelta(0), concurrency=1)
    CASES |= {
        "compact": small,
        "compact in several commits": replace(small, act=commit_each, commits=2),
        "cluster": replace(small, act=partial(optimize, zorder_by=["id"])),
    }


@dataclass
class Trial:
    """One run of an operation that is cancelled somewhere, and what became of the table."""

    case: Case
    base: Objects
    inner: MemoryStore
    store: PausingStore
    handle: Table
    error: BaseException | None = None

    @classmethod
    async def begin(cls, case: Case, base: Objects, at_request: int | None = None) -> Trial:
        inner = await store_with(base)
        store = PausingStore(inner) if at_request is None else GivenUpStore(inner, at_request)
        return cls(case, base, inner, store, Table(inner.uri, store=store))

    async def run(self, steps: Steps | None = None) -> None:
        """Run the operation, as the task to be cancelled, and wait for all that it has begun."""
        others = asyncio.all_tasks()
        victim = steps if steps is not None else self.store

        async def operation() -> None:
            victim.victim = asyncio.current_task()  # type: ignore[union-attr]
            await self.case.act(self.handle)

        self.error = await run_to_its_end(asyncio.ensure_future(operation()))
        victim.victim = None  # type: ignore[union-attr]
        await all_but(others)

    async def check(self) -> None:
        """Say what is wrong with the table, if anything."""
        assert self.error is None or isinstance(self.error, asyncio.CancelledError), self.error
        ids, case = await ids_of(self.inner), self.case
        assert ids in (case.before, case.after), f"{ids} are neither of before nor of after"
        assert self.error is not None or ids == case.after, "it ended well, and did nothing"
        objects = await objects_of(self.inner)
        new = {path for path in objects if is_data(path) and path not in self.base}
        if not self.store.commits:
            assert ids == case.before
            assert getattr(self.store, "late", ()) or not new, f"{new} were left behind"
        elif ids == case.after:
            log = b"".join(data for path, data in objects.items() if path.endswith(".json"))
            named = {path for path in new if path.encode() in log or path.endswith(".bin")}
            late = bool(getattr(self.store, "late", ())) and case.commits > 1
            assert len(new - named) <= late, f"{new - named} belong to nothing"
        await asyncio.wait_for(write_table(self.handle, rows(99)), 60)
        assert await ids_of(self.inner) == [*(ids or []), 99]


async def ids_of(store: MemoryStore) -> Ids | None:
    try:
        seen = await outcome_of(store)
    except TableNotFoundError:
        return None
    at = seen.columns.index("id")
    found: Any = sorted(row[at] for row in seen.rows)  # type: ignore[type-var]
    return list(found)


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("name", CASES)
async def test_cancelled_at_any_step_the_table_is_as_before_or_as_after(
    name: str, factory: str
) -> None:
    case = CASES[name]
    base = await case.objects()
    wrong, seen, at = [], set(), 0
    while True:
        at += case.stride
        trial = await Trial.begin(case, base)
        with Steps(factory, at) as steps:
            await trial.run(steps)
        seen.add(type(trial.error))
        try:
            await trial.check()
        except Exception as error:
            wrong.append(f"step {at}: {str(error) or error!r}"[:400])
        if steps.count < at:
            break
    assert not wrong, "\n".join(wrong)
    assert seen == {type(None), asyncio.CancelledError}
    assert at > 5


@pytest.mark.parametrize("name", CASES)
async def test_given_up_at_any_request_that_takes_effect_later_the_table_is_whole(
    name: str,
) -> None:
    case = CASES[name]
    base = await case.objects()
    wrong, at = [], 0
    while True:
        at += 1
        trial = await Trial.begin(case, base, at_request=at)
        await trial.run()
        try:
            await trial.check()
        except Exception as error:
            wrong.append(f"request {at}: {str(error) or error!r}"[:400])
        assert isinstance(trial.store, GivenUpStore)
        if trial.store.count < at:
            break
    assert not wrong, "\n".join(wrong)
    assert at > 2


@pytest.mark.parametrize("factory", FACTORIES)
async def test_cancelled_at_any_step_a_drop_leaves_all_rows_or_none_and_can_be_repeated(
    factory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("adelta.operations.drop_table"), "_STAYS", 0)
    properties = {"delta.checkpointPolicy": "v2", "delta.checkpointInterval": "1"}
    base = await Case(drop_table, [], properties).objects()
    assert any("_sidecars" in path for path in base)
    at, seen = 0, []
    while True:
        at += MANY
        store = await store_with(base)
        async with Table(store.uri, store=PausingStore(store)) as table:
            with Steps(factory, at) as steps:
                steps.victim = asyncio.ensure_future(drop_table(table))
                error = await run_to_its_end(steps.victim)
        assert error is None or isinstance(error, asyncio.CancelledError)
        seen.append(await ids_of(store))
        assert seen[-1] in ([1, 2, 3, 4], [], None), at
        if seen[-1] is not None:
            await drop_table(Table(store.uri, store=store))
        left = await objects_of(store)
        assert not left, (at, seen[-1], left.keys())
        if steps.count < at:
            break
    assert error is None
    assert [1, 2, 3, 4] in seen
    assert [] in seen


@pytest.mark.parametrize("factory", FACTORIES)
async def test_cancelled_at_any_step_a_table_is_created_or_not(factory: str) -> None:
    at = 0
    while True:
        at += 1
        uri = f"memory://{uuid.uuid4()}/table"
        with Steps(factory, at) as steps:
            steps.victim = asyncio.ensure_future(create_table(uri, SCHEMA, partition_by=["p"]))
            error = await run_to_its_end(steps.victim)
        assert error is None or isinstance(error, asyncio.CancelledError)
        await asyncio.wait_for(write_table(uri, rows(1), partition_by=["p"]), 60)
        async with open_table(uri) as table:
            assert await ids_of(table.store) == [1]  # type: ignore[arg-type]
        if steps.count < at:
            return


class GatedStore(OvertakenStore):
    """A store whose commits wait for a gate; whatever it is asked for takes a while."""

    def __init__(self, inner: MemoryStore, others: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner, others, before=2)
        self.gate, self.reached = asyncio.Event(), asyncio.Event()

    async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
        if request.kind == "put" and is_commit(request.path):
            self.reached.set()
            await self.gate.wait()
            await _rounds(5)
        result = await super().request(request, run)
        await _rounds(1)
        return result


async def _rounds(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


@dataclass
class Group:
    """Four tasks that append: one commits, and three who wait for it then commit together.

    They lose that race to another process, and try again.
    """

    steps: Steps
    inner: MemoryStore
    begun: dict[int, Transaction] = field(default_factory=dict)

    async def run(self, member: int) -> list[BaseException | None]:
        """What each of them raises; the steps count from when the first commit is let through."""
        store = GatedStore(self.inner, self._win)
        table = Table(self.inner.uri, store=store)
        turns = [asyncio.Event() for _ in range(4)]
        tasks = [asyncio.ensure_future(self._append(table, n, turns[n])) for n in range(4)]
        await until(lambda: len(self.begun) == 4)
        turns[0].set()
        await store.reached.wait()
        queue = table._queue.get()
        for ahead, turn in enumerate(turns[1:], 1):  # in order: each waits when the next one comes
            turn.set()
            await until(partial(lambda n: queue.num_places > n, ahead))
        self.steps.victim, self.steps.counting = tasks[member], True
        store.gate.set()
        return [await run_to_its_end(task) for task in tasks]

    async def _append(self, table: Table, number: int, turn: asyncio.Event) -> None:
        async with table.transaction(group_commit=True) as tx:
            await tx.append(rows(10 + number))
            self.begun[number] = tx
            await turn.wait()

    async def _win(self) -> None:
        await write_table(Table(self.inner.uri, store=self.inner), rows(50))


@pytest.mark.parametrize("factory", FACTORIES)
@pytest.mark.parametrize("member", range(4))
async def test_cancelled_at_any_step_a_member_of_a_group_holds_up_no_other(
    member: int, factory: str
) -> None:
    base = await Case(checkpoint, []).objects()
    at = groups = 0
    while True:
        at += 1
        inner = await store_with(base)
        others = asyncio.all_tasks()
        with Steps(factory, at) as steps:
            steps.counting = False
            group = Group(steps, inner)
            errors = await group.run(member)
            await all_but(others)
        mine = errors.pop(member)
        assert errors == [None] * 3, (at, errors)
        assert mine is None or isinstance(mine, asyncio.CancelledError), (at, mine)
        committed = {10 + n: tx.version for n, tx in group.begun.items() if tx.version is not None}
        assert set(range(10, 14)) - {10 + member} <= set(committed)
        found = set(await ids_of(inner) or []) - {1, 2, 3, 4, 50}
        assert sorted(found) == sorted(committed), "what it knows of itself is true"
        groups += len(set(committed.values())) < len(committed)
        if steps.count < at:
            break
    assert groups > at / 2, "there were groups"
