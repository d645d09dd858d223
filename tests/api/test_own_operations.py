"""Operations of the user's own: what a transaction is told that it read decides what conflicts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import (
    ConcurrentAppendError,
    ConcurrentDeleteDeleteError,
    ConcurrentDeleteReadError,
    InvalidUseError,
    ProtocolChangedError,
    UnsupportedFeatureError,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.log.commit_reader import read_commit
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.races import OvertakenStore

if TYPE_CHECKING:
    from adelta.transaction import Transaction

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


async def two_handles() -> tuple[Table, Table]:
    """Two processes, as it were, on a table with the ids 1 and 2 in x and 3 in y."""
    store = MemoryStore()
    await TableBuilder.create(SCHEMA, store=store, partition_by=["p"])
    mine = Table(store.uri, store=store)
    for ids, p in (((1,), "x"), ((2,), "x"), ((3,), "y")):
        async with mine.transaction() as tx:
            await tx.append(rows(*ids, p=p))
    return mine, Table(store.uri, store=store)


async def remove(table: Table, where: str, *, compacted: bool = False) -> None:
    async with table.transaction("REMOVE") as tx:
        found = await tx.read(where)
        tx.remove_files(found, data_change=not compacted)
        if compacted:
            await tx.append(rows(1, 2), data_change=False)


async def begun(table: Table) -> Transaction:
    tx = table.transaction("COUNT")
    await tx.__aenter__()
    return tx


async def end(tx: Transaction) -> None:
    await tx.__aexit__(None, None, None)


async def test_rows_that_were_read_and_are_gone_are_a_conflict_though_others_are_written() -> None:
    """Whoever counts x into y must not miss what others take out of x meanwhile."""
    mine, other = await two_handles()
    tx = await begun(mine)
    assert len(await tx.read("p = 'x'")) == 2
    await tx.append(rows(2, p="y"))
    await remove(other, "id = 1")
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        await end(tx)
    assert caught.value.winning_version == 4
    assert caught.value.winning_operation == "REMOVE"
    assert caught.value.partition == {"p": "x"}
    assert tx.version is None


async def test_rows_that_were_read_and_only_moved_are_no_conflict() -> None:
    mine, other = await two_handles()
    tx = await begun(mine)
    await tx.read("p = 'x'")
    await tx.append(rows(2, p="y"))
    await remove(other, "p = 'x'", compacted=True)
    await end(tx)
    assert tx.version == 5
    commit = await read_commit(other.store, 4)
    assert commit.adds.column("data_change").to_pylist() == [False]


async def test_rows_that_were_read_moved_and_then_deleted_are_a_conflict() -> None:
    """The sum of rows that are gone must not be appended, whatever file they were in last."""
    for level in ("Serializable", "WriteSerializable"):
        mine, other = await two_handles()
        tx = mine.transaction("SUM", isolation=level)
        await tx.__aenter__()
        assert len(await tx.read("p = 'x'")) == 2
        await remove(other, "p = 'x'", compacted=True)
        await remove(other, "p = 'x'")
        await tx.append(rows(3, p="sum"))
        with pytest.raises(ConcurrentDeleteReadError) as caught:
            await end(tx)
        assert caught.value.winning_version == 5


async def test_so_they_are_where_each_lets_an_attempt_of_its_own_lose() -> None:
    """What was read is looked for where the winner before has moved it."""
    other, _ = await two_handles()
    moved = OvertakenStore(other.store, partial(remove, other, "p = 'x'", compacted=True))
    taken = OvertakenStore(moved, partial(remove, other, "p = 'x'"), before=2)
    tx = await begun(Table(other.uri, store=taken))
    assert len(await tx.read("p = 'x'")) == 2
    await tx.append(rows(3, p="sum"))
    with pytest.raises(ConcurrentDeleteReadError) as caught:
        await end(tx)
    assert caught.value.winning_version == 5


async def test_files_that_were_moved_cannot_be_removed_by_who_prepared_for_the_old_ones() -> None:
    mine, other = await two_handles()
    tx = await begun(mine)
    tx.remove_files(await tx.read("id = 1"))
    await remove(other, "p = 'x'", compacted=True)
    with pytest.raises(ConcurrentDeleteDeleteError):
        await end(tx)


async def test_single_files_can_be_named_as_read() -> None:
    mine, other = await two_handles()
    for where, conflicts in (("id = 2", False), ("id = 1", True)):
        async with mine.transaction() as look:
            files = await look.read()
        tx = await begun(mine)
        tx.mark_read([file for file in files if '"id":1' in (file.stats or "")])
        await tx.append(rows(9, p="y"))
        await remove(other, where)
        if conflicts:
            with pytest.raises(ConcurrentDeleteReadError):
                await end(tx)
        else:
            await end(tx)
    with pytest.raises(InvalidUseError, match="mark_read"):
        tx.mark_read([])


async def test_two_who_each_read_what_the_other_writes_cannot_both_commit() -> None:
    """Write skew: Serializable forbids it."""
    mine, other = await two_handles()
    one, two = await begun(mine), await begun(other)
    await one.read("p = 'x'")
    await one.append(rows(10, p="y"))
    await two.read("p = 'y'")
    await two.append(rows(20, p="x"))
    await end(one)
    with pytest.raises(ConcurrentAppendError):
        await end(two)


async def test_a_file_that_is_placed_again_does_not_undo_its_removal() -> None:
    mine, other = await two_handles()
    tx = await begun(mine)
    async with mine.transaction() as look:
        files = await look.read("id = 1")
    tx.add_files(files)
    await remove(other, "id = 1")
    with pytest.raises(ConcurrentDeleteReadError, match="which this one adds"):
        await end(tx)


async def test_a_table_that_came_to_need_what_adelta_lacks_is_not_written() -> None:
    """A change that a commit may follow does not make a table one that adelta may write."""
    mine, other = await two_handles()
    tx = await begun(mine)
    tx.set_transaction("a", 1)
    builder = TableBuilder(other.store)
    builder.version = 3
    await builder.commit(Protocol(1, 7, None, ("appendOnly", "fromTheFuture", "invariants")))
    with pytest.raises(UnsupportedFeatureError, match="fromTheFuture"):
        await end(tx)


async def test_a_table_that_came_to_be_managed_by_a_catalog_is_not_written_without_it() -> None:
    """B13-08: though nothing in the commit depends on the protocol."""
    for stage in ("append", "application"):
        mine, other = await two_handles()
        tx = await begun(mine)
        if stage == "append":
            await tx.append(rows(4))
        else:
            tx.set_transaction("a", 1)
        builder = TableBuilder(other.store)
        builder.version = 3
        features = ("appendOnly", "catalogManaged", "invariants")
        await builder.commit(Protocol(3, 7, ("catalogManaged",), features))
        with pytest.raises(ProtocolChangedError, match="who decides"):
            await end(tx)
