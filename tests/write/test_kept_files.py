"""New metadata over files that stay live: what a transaction refuses at its end, and what not."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.errors import CommitConflictError, SchemaMismatchError
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, STRING, StructField, StructType

if TYPE_CHECKING:
    from adelta.kernel.actions.metadata import Metadata

ROWS = pa.table({"id": [1, 2], "p": ["a", "b"], "v": [1.5, 2.5]})
TEXTS = pa.table({"id": ["x"], "p": ["c"], "v": [0.5]})


async def new_table() -> adelta.Table:
    uri = f"memory://kept-{uuid.uuid4().hex}/t"
    await adelta.write_table(uri, ROWS, partition_by=["p"])
    return adelta.open_table(uri)


def with_ids_as(metadata: Metadata, kind: object) -> Metadata:
    fields = (replace(f, type=kind) if f.name == "id" else f for f in metadata.schema)  # type: ignore[arg-type]
    return replace(metadata, schema_string=schema_to_string(StructType(tuple(fields))))


def changed(metadata: Metadata, what: str) -> Metadata:
    match what:
        case "partitioning":
            return replace(metadata, partition_columns=("v",))
        case "no partitioning":
            return replace(metadata, partition_columns=())
        case "type":
            return with_ids_as(metadata, STRING)
    fields = tuple(f for f in metadata.schema if f.name != "id")
    return replace(metadata, schema_string=schema_to_string(StructType(fields)))


CHANGES = ["partitioning", "no partitioning", "type", "column gone"]


@pytest.mark.parametrize("what", CHANGES)
@pytest.mark.parametrize("removes", ["nothing", "one file"])
async def test_metadata_that_live_files_do_not_fit_are_refused(what: str, removes: str) -> None:
    async with await new_table() as table:

        async def attempt() -> None:
            async with table.transaction() as tx:
                files = await tx.read()
                tx.update_metadata(changed(tx.metadata, what))
                if removes == "one file":
                    tx.remove_files(files[:1])

        with pytest.raises(SchemaMismatchError, match=r"files that stay live.*'p=.*overwrite"):
            await attempt()
        snapshot = await table.snapshot()
        assert snapshot.version == 0
        assert await snapshot.scan().count() == 2


@pytest.mark.parametrize("what", CHANGES)
async def test_they_go_with_the_removal_of_every_file(what: str) -> None:
    async with await new_table() as table:
        async with table.transaction() as tx:
            files = await tx.read()
            tx.update_metadata(changed(tx.metadata, what))
            tx.remove_files(files)
        assert tx.version == 1
        assert await (await table.snapshot()).scan().count() == 0


async def test_a_table_may_be_overwritten_with_rows_of_other_columns() -> None:
    async with await new_table() as table:
        async with table.transaction() as tx:
            tx.update_metadata(replace(changed(tx.metadata, "type"), partition_columns=("v",)))
            await tx.overwrite(TEXTS)
        assert await (await table.snapshot()).scan().to_arrow() == TEXTS


@pytest.mark.parametrize("isolation", ["Serializable", "WriteSerializable"])
async def test_a_file_that_another_commit_adds_meanwhile_is_a_conflict(isolation: Any) -> None:
    async with await new_table() as table:
        files = list(await (await table.snapshot()).add_files())

        async def attempt() -> None:
            async with table.transaction(isolation=isolation) as tx:
                tx.update_metadata(changed(tx.metadata, "partitioning"))
                tx.remove_files(files)  # as the user knows them, without a read of the table
                async with adelta.open_table(table.uri) as other:
                    await adelta.write_table(other, ROWS)

        with pytest.raises(CommitConflictError):
            await attempt()
        snapshot = await table.snapshot()
        assert snapshot.metadata.partition_columns == ("p",)
        assert await snapshot.scan().count() == 4


async def test_a_table_without_files_may_become_another_one_unless_files_come() -> None:
    async with await new_table() as table:
        await adelta.delete(table)
        async with table.transaction() as tx:
            tx.update_metadata(changed(tx.metadata, "type"))
        await adelta.write_table(table, TEXTS)

        async def attempt() -> None:
            async with table.transaction() as tx:
                tx.update_metadata(with_ids_as(tx.metadata, LONG))

        with pytest.raises(SchemaMismatchError, match="'id' would change from string to long"):
            await attempt()


async def test_files_of_the_transaction_go_when_it_is_refused() -> None:
    async with await new_table() as table:
        before = {o.path async for page in table.store.list() for o in page}

        async def attempt() -> None:
            async with table.transaction() as tx:
                tx.update_metadata(changed(tx.metadata, "type"))
                await tx.append(TEXTS)

        with pytest.raises(SchemaMismatchError):
            await attempt()
        assert {o.path async for page in table.store.list() for o in page} == before


async def test_what_alter_operations_do_may_be_done_by_hand() -> None:
    async with await new_table() as table:
        async with table.transaction() as tx:
            fields = (*tx.metadata.schema, StructField("new", STRING))
            wider = schema_to_string(StructType(fields))
            tx.update_metadata(replace(tx.metadata, schema_string=wider))
        assert (await table.snapshot()).schema.names == ["id", "p", "v", "new"]
