"""Files that a user stages: held to what is live, so that no row comes back and no count is off."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import InvalidOptionError, InvalidUseError
from adelta.kernel.actions.file_actions import AddFile, DeletionVectorDescriptor
from adelta.kernel.actions.protocol import Protocol
from adelta.operations import delete, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.created import create_in

if TYPE_CHECKING:
    from collections.abc import Iterable

VECTORS = {"delta.enableDeletionVectors": "true"}


async def table_of(properties: dict[str, str] | None = None) -> Table:
    table = Table(f"memory://staged-{uuid.uuid4().hex}/t")
    await create_in(table, pa.schema([("id", pa.int64())]), properties)
    for ids in ([1, 2, 3], [4]):
        await write_table(table, pa.table({"id": ids}))
    return table


async def ids(table: Table) -> list[int]:
    snapshot = await table.snapshot()
    await snapshot.verify()
    return sorted((await snapshot.scan().to_arrow()).column("id").to_pylist())


async def test_a_live_file_that_is_added_again_is_no_news() -> None:
    table = await table_of()
    files = await (await table.snapshot()).add_files("id < 4")
    async with table.transaction() as tx:
        tx.add_files(files)
    assert await ids(table) == [1, 2, 3, 4]
    assert not any(f.data_change for f in await (await table.snapshot()).add_files("id < 4"))


async def test_live_files_are_not_added_again_while_others_are_removed() -> None:
    table = await table_of()
    for data_change in (True, False):
        tx = table.transaction()
        await tx.__aenter__()
        tx.add_files(await tx.read("id < 4"))
        tx.remove_files(await tx.read("id = 4"), data_change=data_change)
        with pytest.raises(InvalidUseError, match="is live already"):
            await tx.__aexit__(None, None, None)
    assert await ids(table) == [1, 2, 3, 4]


async def test_a_file_is_not_removed_and_added_by_one_commit() -> None:
    table = await table_of()
    tx = table.transaction()
    await tx.__aenter__()
    files = await tx.read("id < 4")
    tx.remove_files(files)
    tx.add_files(files)
    with pytest.raises((InvalidOptionError, InvalidUseError)):
        await tx.__aexit__(None, None, None)
    assert await ids(table) == [1, 2, 3, 4]


async def test_a_file_that_is_live_under_a_vector_does_not_bring_its_deleted_rows_back() -> None:
    table = await table_of(VECTORS)
    before = await (await table.snapshot()).add_files("id < 4")
    await delete(table, "id = 2")
    tx = table.transaction()
    await tx.__aenter__()
    tx.add_files(before)
    with pytest.raises(InvalidOptionError, match="would bring deleted rows back"):
        await tx.__aexit__(None, None, None)
    assert await ids(table) == [1, 3, 4]
    async with table.transaction("RESTORE") as tx:
        now = await tx.read("id < 4")
        tx.remove_files(now)
        tx.add_files(before)
    assert await ids(table) == [1, 2, 3, 4]


async def test_files_of_another_table_get_row_ids_of_this_one() -> None:
    table = await table_of({"delta.enableRowTracking": "true"})
    other = await table_of({"delta.enableRowTracking": "true"})
    snapshot = await other.snapshot()
    (file,) = await snapshot.add_files("id = 4")
    data = await other.store.get(file.path)
    await table.store.put("theirs.parquet", data)
    async with table.transaction() as tx:
        tx.add_files([replace(file, path="theirs.parquet", base_row_id=0)])
    rows = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
    assert len(set(rows.column("_row_id").to_pylist())) == 5


class SlowToDelete(MemoryStore):
    """Deletes when it is let to."""

    def __init__(self) -> None:
        super().__init__(f"slow-{uuid.uuid4().hex}", "t")
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def delete(self, paths: Iterable[str]) -> None:
        self.reached.set()
        await self.go.wait()
        await super().delete(paths)


async def test_what_was_written_is_deleted_however_often_the_task_is_cancelled() -> None:
    store = SlowToDelete()
    table = Table(store.uri, store=store)
    await create_in(table, pa.schema([("id", pa.int64())]))

    written = asyncio.Event()

    async def work() -> None:
        async with table.transaction() as tx:
            await tx.append(pa.table({"id": [1]}))
            written.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(work())
    await written.wait()
    task.cancel()
    await store.reached.wait()
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0)
    store.go.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    paths = [meta.path async for page in store.list() for meta in page]
    assert all(path.startswith("_delta_log/") for path in paths)


@pytest.mark.parametrize("wrong", ["value", "statistics"])
async def test_what_is_said_of_a_file_by_hand_is_seen_before_anything_is_written(
    wrong: str,
) -> None:
    uri = f"memory://staged-{uuid.uuid4().hex}/t"
    await write_table(uri, pa.table({"id": [1], "day": [date(2024, 2, 29)]}), partition_by=["day"])
    async with Table(uri) as table:
        file = (await (await table.snapshot()).add_files())[0]
        other = replace(file, path="other.parquet", stats='{"numRecords":1}')
        bad = {"value": {"partition_values": {"day": "soon"}}, "statistics": {"stats": "many"}}
        async with table.transaction() as tx:
            with pytest.raises(InvalidOptionError, match=r"'other\.parquet' has the"):
                tx.add_files([replace(other, **bad[wrong])])  # type: ignore[arg-type]
        assert tx.version is None
        async with table.transaction() as tx:
            tx.add_files([other])
        assert tx.version == 1


async def test_a_file_with_a_vector_is_not_added_where_nobody_looks_for_vectors() -> None:
    table = await table_of()
    vector = DeletionVectorDescriptor("i", "x", 1, 1)
    async with table.transaction() as tx:
        with pytest.raises(InvalidOptionError, match="add the feature deletionVectors first"):
            tx.add_files([AddFile("a.parquet", {}, 1, 1, deletion_vector=vector)])


async def test_no_feature_that_files_may_need_goes_with_a_change_of_metadata() -> None:
    table = await table_of({"delta.enableDeletionVectors": "true"})
    async with table.transaction() as tx:
        bare = tx.metadata.with_configuration({})
        with pytest.raises(InvalidOptionError, match=r"supports deletionVectors.*drop_feature"):
            tx.update_metadata(bare, Protocol(1, 2))
