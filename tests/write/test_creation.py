"""Writes that create a table: one commit, whoever else creates it, whenever they are cancelled."""

from __future__ import annotations

import asyncio
import uuid

import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    InvalidOptionError,
    MetadataChangedError,
    MissingDataFileError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.kernel.log_path import LOG_DIR, commit_path
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations import add_constraint, create_table, write_table
from adelta.operations.create import new_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, begin
from adelta.write.transaction_request import TransactionRequest
from tests.support.created import create_in
from tests.support.stores import Request, WrappedStore

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x"] * len(ids)}, schema=SCHEMA)


def space() -> MemoryStore:
    return MemoryStore(f"creation-{uuid.uuid4().hex}", "t")


async def ids(store: MemoryStore) -> list[int]:
    found = await (await Table(store.uri, store=store).snapshot()).scan().to_arrow()
    return sorted(found.column("id").to_pylist())


async def data_files(store: MemoryStore) -> set[str]:
    paths = [meta.path async for page in store.list() for meta in page]
    return {path for path in paths if not path.startswith(LOG_DIR)}


class Meeting(WrappedStore):
    """Does something right before the put of version 0."""

    def __init__(self, inner: MemoryStore, first) -> None:  # type: ignore[no-untyped-def]
        super().__init__(inner)
        self.first = first

    async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
        if request.path == commit_path(0) and request.kind == "put" and self.first is not None:
            first, self.first = self.first, None
            await first()
        return await run()


async def lost(mode: str = "append", theirs=None, **asked) -> MemoryStore:  # type: ignore[no-untyped-def]
    """A write that finds no table, and loses the race to create it to `theirs`."""
    store = space()
    other = Table(store.uri, store=store)

    async def create() -> None:
        if theirs is None:
            await write_table(other, rows(1))
        else:
            await theirs(other)

    table = Table(store.uri, store=Meeting(store, create))
    await write_table(table, rows(2), mode=mode, **asked)  # type: ignore[arg-type]
    return store


async def test_rows_are_appended_to_the_same_table_that_another_has_created_meanwhile() -> None:
    store = await lost(txn=("load", 1))
    assert await ids(store) == [1, 2]
    assert len(await data_files(store)) == 2
    snapshot = await Table(store.uri, store=store).snapshot()
    assert snapshot.version == 1


async def test_a_batch_that_the_other_has_written_is_skipped() -> None:
    async def same(table: Table) -> None:
        await write_table(table, rows(1), txn=("load", 1))

    store = await lost(theirs=same, txn=("load", 1))
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1


@pytest.mark.parametrize("kind", ["columns", "partition", "constraint", "mapping", "clustering"])
async def test_a_table_of_another_kind_takes_no_rows_that_were_not_written_for_it(
    kind: str,
) -> None:
    async def other(table: Table) -> None:
        if kind == "columns":
            await write_table(table, pa.table({"id": [1], "q": ["x"]}))
        elif kind == "partition":
            await write_table(table, rows(1), partition_by=["p"])
        elif kind == "mapping":
            await write_table(table, rows(1), properties={"delta.columnMapping.mode": "name"})
        elif kind == "clustering":
            await write_table(table, rows(1), cluster_by=["id"])
        else:
            await write_table(table, rows(1))
            await add_constraint(table, "first", "id < 2")

    asked = {"cluster_by": ["p"]} if kind == "clustering" else {}
    store = space()
    theirs = Table(store.uri, store=store)
    table = Table(store.uri, store=Meeting(store, lambda: other(theirs)))
    with pytest.raises(MetadataChangedError, match="another writer has created the table"):
        await write_table(table, rows(2), **asked)  # type: ignore[arg-type]
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1, "what was written for the lost commit is gone"
    assert (await write_table(table, pa.table({"id": [1]}), schema_mode="merge")).version


async def test_an_overwrite_does_not_take_the_rows_of_who_created_the_table_meanwhile() -> None:
    with pytest.raises(MetadataChangedError, match="write again"):
        await lost(mode="overwrite")
    with pytest.raises(TableAlreadyExistsError):
        await lost(mode="error")
    assert await ids(await lost(mode="ignore")) == [1]


async def test_of_many_who_create_one_table_at_once_all_append() -> None:
    store = space()
    tables = [Table(store.uri, store=Meeting(store, None)) for _ in range(6)]
    written = await asyncio.gather(*(write_table(t, rows(i)) for i, t in enumerate(tables)))
    assert sorted(w.version for w in written if w.version is not None) == list(range(6))
    assert await ids(store) == list(range(6))


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("place", range(6))
async def test_a_creation_that_is_cancelled_leaves_a_whole_table_or_none(
    place: int, after: bool
) -> None:
    """At each request in turn, before and after it took effect."""

    class Cancelling(WrappedStore):
        made = 0

        async def request(self, request: Request, run):  # type: ignore[no-untyped-def]
            mine, self.made = self.made, self.made + 1
            if mine == place and not after:
                task.cancel()
                await asyncio.sleep(0.01)
            result = await run()
            if mine == place and after:
                task.cancel()
                await asyncio.sleep(0.01)
            return result

    store = space()
    table = Table(store.uri, store=Cancelling(store))
    task = asyncio.ensure_future(write_table(table, rows(1, 2, 3)))
    await asyncio.wait({task})
    try:
        assert await ids(store) == [1, 2, 3]
    except TableNotFoundError:
        assert task.cancelled()
        assert await data_files(store) == set()
    except MissingDataFileError:
        pytest.fail("the table is there, its rows are not")


async def test_creating_a_table_twice_at_once_creates_it_once() -> None:
    store = space()
    tables = [Table(store.uri, store=Meeting(store, None)) for _ in range(4)]
    found = await asyncio.gather(*(create_in(t, SCHEMA) for t in tables), return_exceptions=True)
    assert sum(isinstance(each, TableAlreadyExistsError) for each in found) == 3
    uri = f"memory://twice-{uuid.uuid4().hex}/t"
    both = await asyncio.gather(*(create_table(uri, SCHEMA, mode="ignore") for _ in range(4)))
    assert {(await table.snapshot()).version for table in both} == {0}


async def test_a_creation_that_has_lost_and_has_no_more_time_is_given_up() -> None:
    store = space()
    other = Table(store.uri, store=store)

    async def create() -> None:
        await write_table(other, rows(1))

    table = Table(store.uri, store=Meeting(store, create))
    new = new_table(from_arrow_schema(SCHEMA), partition_by=(), properties={})
    with pytest.raises(CommitConflictError, match="1 attempts within 0 s"):
        async with begin(
            table, TransactionRequest(operation="WRITE", timeout=0.0), creates=new, joins=True
        ) as tx:
            await tx.write(rows(2))
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1


async def test_a_commit_that_would_be_read_as_something_else_is_not_written() -> None:
    store = space()
    table = Table(store.uri, store=store)
    await write_table(table, rows(1))
    with pytest.raises(InvalidOptionError, match="user_metadata of this commit would be read"):
        async with begin(table, TransactionRequest(operation="WRITE", user_metadata=5)) as tx:  # type: ignore[arg-type]
            await tx.write(rows(2))
    assert await ids(store) == [1]
    assert len(await data_files(store)) == 1
