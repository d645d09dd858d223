"""`Snapshot.files`, `files_batches` and `verify`, as users call them."""

from __future__ import annotations

import uuid

import pyarrow as pa
import pytest

import adelta
from adelta.errors import ChecksumMismatchError, SchemaMismatchError
from adelta.kernel.checksum.json import encode
from adelta.kernel.checksum.summary import summarize
from adelta.kernel.log_path import checksum_path

URI = "memory://snapshot-files"


@pytest.fixture
async def table() -> adelta.Table:
    uri = f"{URI}-{uuid.uuid4()}"
    for part in range(3):
        rows = pa.table({"part": [f"p{part}"] * 4, "id": range(part * 4, part * 4 + 4)})
        await adelta.write_table(uri, rows, partition_by=["part"])
    return adelta.open_table(uri)


async def test_files_are_listed_with_the_columns_asked_for(table: adelta.Table) -> None:
    snapshot = await table.snapshot()
    sizes = await snapshot.files("part = 'p1'", columns=["size"])
    assert sizes.schema.names == ["size"]
    assert sizes.num_rows == 1
    assert (await snapshot.files(where="id > 7")).num_rows == 1
    assert (await snapshot.files()).num_rows == 3


async def test_batches_of_files_are_the_files(table: adelta.Table) -> None:
    snapshot = await table.snapshot()
    for where in (None, "part <> 'p1'", "id < 5"):
        batches = [batch async for batch in snapshot.files_batches(where)]
        listed = await snapshot.files(where)
        found = pa.Table.from_batches(batches, listed.schema)
        assert sorted(found.column("path").to_pylist()) == sorted(listed.column("path").to_pylist())


async def test_a_column_that_lists_of_files_have_not_is_refused(table: adelta.Table) -> None:
    snapshot = await table.snapshot()
    with pytest.raises(SchemaMismatchError, match=r"no column 'sizes'; it has path, "):
        await snapshot.files(columns=["sizes"])
    with pytest.raises(SchemaMismatchError, match="'sizes'"):
        _ = [batch async for batch in snapshot.files_batches(columns=["sizes"])]


async def test_a_snapshot_is_held_to_its_checksum(table: adelta.Table) -> None:
    snapshot = await table.snapshot()
    assert await snapshot.verify() is True
    await table.store.delete([checksum_path(snapshot.version)])
    assert await snapshot.verify() is False
    files = await snapshot.files()
    true = summarize(files, snapshot.protocol, snapshot.metadata)
    await table.store.put(checksum_path(snapshot.version), encode(true))
    assert await snapshot.verify() is True
    wrong = summarize(files.slice(1), snapshot.protocol, snapshot.metadata)
    await table.store.put(checksum_path(snapshot.version), encode(wrong))
    with pytest.raises(ChecksumMismatchError, match="number of files: 2 is stated, 3 found"):
        await snapshot.verify()
