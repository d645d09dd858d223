"""The verbs of a transaction: one at a time, checked before anything is written, never too late."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    ConcurrentDeleteReadError,
    ConcurrentTransactionError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    SchemaMismatchError,
)
from adelta.kernel.actions.file_actions import AddFile
from adelta.kernel.log_path import LOG_DIR
from adelta.operations import delete, set_properties, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.created import create_in
from tests.support.stores import SlowStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from adelta.transaction import Transaction


SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


async def table_of(properties: dict[str, str] | None = None) -> Table:
    """Two files with the ids 1 and 2."""
    table = Table(f"memory://verbs-{uuid.uuid4().hex}/t")
    await create_in(table, SCHEMA, properties)
    for number in (1, 2):
        await write_table(table, rows(number))
    return table


async def ids(table: Table) -> list[int]:
    found = await (await table.snapshot()).scan().to_arrow()
    return sorted(found.column("id").to_pylist())


async def objects(table: Table) -> set[str]:
    """The data files that are in the store, whether they are live or not."""
    paths = [meta.path async for page in table.store.list() for meta in page]
    return {path for path in paths if not path.startswith(LOG_DIR)}


async def live(table: Table) -> set[str]:
    return set((await (await table.snapshot()).files()).column("path").to_pylist())


# -------------------------------------------------------------------------------- one at a time


async def test_a_second_verb_at_a_time_is_refused_and_names_the_first() -> None:
    table = await table_of()
    async with table.transaction() as tx:
        first = asyncio.ensure_future(tx.append(rows(3)))
        await asyncio.sleep(0)
        for verb in (tx.append(rows(4)), tx.read(), tx.overwrite(rows(5))):
            with pytest.raises(InvalidUseError, match=r"while append\(\) is under way"):
                await verb
        for call in (
            lambda: tx.set_transaction("a", 1),
            lambda: tx.add_files([]),
            lambda: tx.remove_files([]),
            lambda: tx.mark_read([]),
        ):
            with pytest.raises(InvalidUseError, match=r"while append\(\) is under way"):
                call()
        await first
        tx.set_transaction("a", 1)
    assert await ids(table) == [1, 2, 3]


async def test_a_block_that_ends_before_a_verb_commits_nothing_and_leaves_no_file() -> None:
    table = await table_of()
    tx = table.transaction()
    await tx.__aenter__()
    await tx.append(rows(3))
    late = asyncio.ensure_future(tx.append(rows(4)))
    await asyncio.sleep(0)
    with pytest.raises(InvalidUseError, match=r"append\(\) is still under way"):
        await tx.__aexit__(None, None, None)
    with pytest.raises(InvalidUseError, match="written too late, and deleted again"):
        await late
    assert await ids(table) == [1, 2]
    assert await objects(table) == await live(table)
    with pytest.raises(InvalidUseError, match="was given up"):
        await tx.append(rows(5))


async def test_an_append_whose_rows_end_after_a_cancelled_block_leaves_no_file() -> None:
    table = await table_of()
    go = asyncio.Event()

    async def slow() -> AsyncIterator[pa.RecordBatch]:
        yield rows(3).to_batches()[0]
        await go.wait()

    tx = table.transaction()
    await tx.__aenter__()
    late = asyncio.ensure_future(tx.append(slow()))
    await asyncio.sleep(0.01)
    cancelled = asyncio.CancelledError()
    await tx.__aexit__(asyncio.CancelledError, cancelled, None)
    go.set()
    with pytest.raises(InvalidUseError, match="too late"):
        await late
    assert await objects(table) == await live(table)


# ----------------------------------------------------------------------- what is staged is live


async def test_a_file_that_is_not_live_cannot_be_removed() -> None:
    """Else the version checksum would count a file that has gone before."""
    table = await table_of()
    async with table.transaction() as look:
        files = await look.read("id = 1")
    await delete(table, "id = 1")
    for stale in (files, [AddFile("never-there.parquet", {}, 1, 0)]):
        with pytest.raises(ConcurrentDeleteReadError, match="is not live at version 3") as caught:
            async with table.transaction() as tx:
                tx.remove_files(stale)
        assert caught.value.path == stale[0].path
    assert (await table.snapshot()).version == 3
    await (await table.snapshot()).verify()


async def test_a_file_under_another_deletion_vector_is_another_file() -> None:
    table = await table_of({"delta.enableDeletionVectors": "true"})
    await write_table(table, rows(5, 6, 7))
    async with table.transaction() as look:
        files = await look.read("id = 6")
    await delete(table, "id = 6")
    with pytest.raises(ConcurrentDeleteReadError, match="another deletion vector"):
        async with table.transaction() as tx:
            tx.remove_files(files)
    assert await ids(table) == [1, 2, 5, 7]


async def test_files_that_the_transaction_has_read_are_not_looked_up_again() -> None:
    table = await table_of()
    async with table.transaction() as tx:
        tx.remove_files(await tx.read("id = 1"))
    async with table.transaction() as tx:
        tx.remove_files(await tx.read())
    assert await ids(table) == []
    await (await table.snapshot()).verify()


# ------------------------------------------------------------------------------------ applications


async def test_the_version_of_an_application_never_goes_back() -> None:
    table = await table_of()
    async with table.transaction() as tx:
        tx.set_transaction("first", 10)
        await tx.append(rows(3))
    tx = table.transaction()
    await tx.__aenter__()
    tx.set_transaction("first", 5)
    tx.set_transaction("second", 1)
    with pytest.raises(ConcurrentTransactionError, match="'first' has got to version 10") as caught:
        await tx.append(rows(4))
    await tx.__aexit__(type(caught.value), caught.value, None)
    assert not caught.value.retryable
    async with table.transaction() as tx:
        tx.set_transaction("first", 10)
        await tx.append(rows(3))
    assert tx.skipped
    assert await ids(table) == [1, 2, 3]
    assert await objects(table) == await live(table)


# --------------------------------------------------------------------------- what can be asked for


async def test_a_commit_of_its_provenance_alone_can_be_made() -> None:
    table = await table_of()
    async with table.transaction("VACUUM END", commit_empty=True) as tx:
        pass
    assert tx.version == 3
    async with table.transaction("NOTHING") as tx:
        pass
    assert tx.version is None


async def test_removing_nothing_is_no_change_of_a_table_with_a_change_feed() -> None:
    table = await table_of({"delta.enableChangeDataFeed": "true"})
    async with table.transaction("MERGE") as tx:
        await tx.read("id > 7")
        tx.remove_files([])
        await tx.append(rows(8))
    assert await ids(table) == [1, 2, 8]


async def test_without_rebase_any_commit_that_comes_first_is_a_conflict() -> None:
    table = await table_of()
    other = Table(table.uri, store=table.store)
    tx = table.transaction("RESTORE", rebase=False)
    await tx.__aenter__()
    await tx.append(rows(3))
    async with other.transaction() as harmless:
        harmless.set_transaction("somebody", 1)
    with pytest.raises(CommitConflictError, match="was to follow the version") as caught:
        await tx.__aexit__(None, None, None)
    assert caught.value.winning_version == 3
    assert await ids(table) == [1, 2]
    async with table.transaction("RESTORE", rebase=False) as again:
        await again.append(rows(3))
    assert again.version == 4, "the conflict has left the handle at what it has met"


async def test_a_conflict_leaves_the_handle_with_what_the_lost_commit_has_met() -> None:
    """No refresh is needed to do the work again: what it met is the base of the next one."""
    table = await table_of()
    await table.snapshot()
    builder = TableBuilder(table.store)
    builder.version = 2
    metadata = (await table.snapshot()).metadata
    await builder.commit(metadata.with_configuration({"delta.appendOnly": "true"}))
    with pytest.raises(CommitConflictError):
        await write_table(table, rows(3))
    written = await write_table(table, rows(3))
    assert written.version == 4


async def test_a_transaction_begins_with_what_its_process_has_committed_by_another_handle() -> None:
    """Two handles of one process on one table: neither is behind what the other has done."""
    one = await table_of()
    two = Table(one.uri)
    await two.snapshot()
    await write_table(one, rows(3))
    async with two.transaction() as tx:
        assert tx.read_version == 3


# ------------------------------------------------------------------------------------- isolation


@pytest.mark.parametrize(
    ("stored", "asked", "used"),
    [
        (None, None, "Serializable"),
        (None, "WriteSerializable", "WriteSerializable"),
        ("WriteSerializable", None, "WriteSerializable"),
        ("writeSerializable", None, "WriteSerializable"),
        ("WriteSerializable", "Serializable", "Serializable"),
        ("Serializable", None, "Serializable"),
    ],
)
async def test_the_isolation_level_is_the_tables_unless_a_stronger_one_is_asked_for(
    stored: str | None, asked: str | None, used: str
) -> None:
    properties = {} if stored is None else {"delta.isolationLevel": stored}
    builder = await TableBuilder.create(SCHEMA, properties=properties)
    table = Table(builder.store.uri, store=builder.store)
    async with table.transaction(isolation=asked) as tx:
        await tx.append(rows(1))
    async for commit in _commits(table, 1):
        assert commit.info.isolation_level == used


async def _commits(table: Table, version: int) -> AsyncIterator[Any]:
    from adelta.log.commit_reader import read_commit

    yield await read_commit(table.store, version)


async def test_a_weaker_level_than_the_tables_is_refused() -> None:
    table = await table_of({"delta.isolationLevel": "Serializable"})
    with pytest.raises(InvalidOptionError, match="WriteSerializable is weaker"):
        async with table.transaction(isolation="WriteSerializable"):
            pass
    with pytest.raises(InvalidOptionError, match="weaker"):
        await delete(table, "id = 1", isolation="WriteSerializable")


async def test_only_a_level_that_delta_allows_can_be_set() -> None:
    table = await table_of()
    for level in ("WriteSerializable", "SnapshotIsolation", "none"):
        with pytest.raises(InvalidPropertyError, match="isolationLevel"):
            await set_properties(table, {"delta.isolationLevel": level})
    builder = await TableBuilder.create(SCHEMA, properties={"delta.isolationLevel": "odd"})
    with pytest.raises(InvalidPropertyError, match="'odd', which is no isolation level"):
        await write_table(Table(builder.store.uri, store=builder.store), rows(1))


# -------------------------------------------------------------------------------------- arguments


@pytest.mark.parametrize(
    "arguments",
    [
        {"operation": 7},
        {"parameters": "x"},
        {"parameters": {"x": object()}},
        {"parameters": {1: "x"}},
        {"user_metadata": {"a": 1}},
        {"user_metadata": "\ud800"},
        {"isolation": "Chaos"},
        {"isolation": 1},
        {"timeout": "soon"},
        {"timeout": -1},
        {"timeout": float("nan")},
        {"data_files": {}},
        {"group_commit": "yes"},
        {"rebase": None},
        {"commit_empty": 1},
    ],
)
async def test_what_a_transaction_is_asked_is_checked_before_it_begins(
    arguments: dict[str, Any],
) -> None:
    table = await table_of()
    with pytest.raises(InvalidOptionError, match=next(iter(arguments))):
        table.transaction(**arguments)


@pytest.mark.parametrize(
    ("verb", "arguments"),
    [
        ("set_transaction", (7, 1)),
        ("set_transaction", ("app", "1")),
        ("set_transaction", ("app", 1.0)),
        ("set_transaction", ("app", True)),
        ("set_transaction", ("app", 2**63)),
        ("set_domain_metadata", (7, "x")),
        ("set_domain_metadata", ("mine", {"a": 1})),
        ("add_files", (["a.parquet"],)),
        ("add_files", (7,)),
        ("remove_files", (["a.parquet"],)),
        ("mark_read", (["a.parquet"],)),
    ],
)
async def test_arguments_of_verbs_are_checked_and_nothing_of_them_is_staged(
    verb: str, arguments: tuple[Any, ...]
) -> None:
    table = await table_of({"delta.feature.domainMetadata": "supported"})
    async with table.transaction() as tx:
        with pytest.raises(InvalidOptionError):
            getattr(tx, verb)(*arguments)
    assert tx.version is None


@pytest.mark.parametrize("verb", ["overwrite", "append"])
async def test_a_transaction_whose_writing_verb_has_failed_commits_nothing(verb: str) -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await write_table(table, pa.table({"id": [1, 2, 3]}))

    async def never_ends() -> AsyncIterator[pa.RecordBatch]:
        yield pa.table({"id": [9]}).to_batches()[0]
        await asyncio.Event().wait()

    async def fails(tx: Transaction) -> None:
        with pytest.raises(SchemaMismatchError):
            await getattr(tx, verb)(pa.table({"other": ["x"]}))

    async def times_out(tx: Transaction) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.05):
                await getattr(tx, verb)(never_ends())

    for failing in (fails, times_out):
        tx = table.transaction()
        await tx.__aenter__()
        tx.set_transaction("app", 7)
        await failing(tx)
        with pytest.raises(InvalidUseError, match=f"{verb}.* has failed"):
            await tx.append(pa.table({"id": [4]}))
        with pytest.raises(InvalidUseError, match=rf"commit.* {verb}\(\) has failed"):
            await tx.__aexit__(None, None, None)
        assert tx.version is None
    assert (await (await table.snapshot()).scan().to_arrow()).to_pydict() == {"id": [1, 2, 3]}
    assert (await write_table(table, pa.table({"id": [4]}), txn=("app", 7))).version == 1
    assert len(await objects(table)) == 2


async def test_a_block_that_is_ended_twice_is_committed_once_with_its_files() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=SlowStore(store, 0.01))
    await write_table(table, pa.table({"id": [1]}))
    tx = table.transaction()
    await tx.__aenter__()
    await tx.append(pa.table({"id": [2]}))

    async def end(error: Exception | None) -> None:
        await tx.__aexit__(None if error is None else type(error), error, None)

    ends = (end(None), end(None), end(ZeroDivisionError()))
    outcomes = await asyncio.gather(*ends, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), InvalidUseError, type(None)]
    assert tx.version == 1
    assert await ids(table) == [1, 2]


async def test_rows_that_misuse_their_own_transaction_fail_it_as_any_others() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await write_table(table, pa.table({"id": [1]}))
    tx = table.transaction()
    await tx.__aenter__()

    async def misuse() -> AsyncIterator[pa.RecordBatch]:
        await tx.read()
        yield pa.table({"id": [9]}).to_batches()[0]

    with pytest.raises(InvalidUseError, match="while append"):
        await tx.append(misuse())
    with pytest.raises(InvalidUseError, match=r"append\(\) has failed"):
        await tx.__aexit__(None, None, None)
    assert (await table.snapshot()).version == 0
