"""A write in three steps, of which engines with tasks of their own only call each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import SchemaMismatchError, TableAlreadyExistsError
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.operations.distributed_write import commit_write, discard_files, plan_write, write_files
from adelta.operations.write_kind import WriteKind
from adelta.operations.write_transactions import WriteRequest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.operations.distributed_write import WriteJob
    from adelta.operations.write_kind import WriteMode

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


async def plan(uri: Path, request: WriteRequest) -> WriteJob:
    return await plan_write(str(uri), {}, request, from_arrow_schema(SCHEMA), SCHEMA)


async def batches(*ids: int) -> AsyncIterator[pa.RecordBatch]:
    yield pa.record_batch({"id": list(ids), "p": ["x"] * len(ids)}, schema=SCHEMA)


def request(mode: WriteMode = "append", cluster_by: tuple[str, ...] | None = None) -> WriteRequest:
    return WriteRequest(
        WriteKind(mode),
        partition_by=None,
        cluster_by=cluster_by,
        properties={},
        txn=None,
        user_metadata=None,
    )


async def ids(uri: Path) -> list[int]:
    async with adelta.open_table(str(uri)) as table:
        found = await (await table.snapshot()).scan(columns=["id"]).to_arrow()
    return sorted(found.column("id").to_pylist())


def files_in(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


@pytest.fixture
def uri(tmp_path: Path) -> Path:
    return tmp_path / "t"


async def test_the_files_of_all_tasks_are_one_commit_which_makes_the_table(uri: Path) -> None:
    job = await plan(uri, request())
    one = await write_files(job, batches(1, 2), task=0)
    other = await write_files(job, batches(3), task=1)
    await commit_write(job, [*one.files, *other.files])
    assert await ids(uri) == [1, 2, 3]
    async with adelta.open_table(str(uri)) as table:
        assert (await table.snapshot()).version == 0


async def test_a_job_that_is_given_up_leaves_neither_files_nor_a_table(uri: Path) -> None:
    job = await plan(uri, request())
    written = await write_files(job, batches(1), task=0)
    await discard_files(job, [file.path for file in written.files])
    assert not files_in(uri)


async def test_a_table_that_is_there_is_an_error_where_it_was_to_be_one(uri: Path) -> None:
    await adelta.write_table(str(uri), pa.table({"id": [1], "p": ["x"]}, schema=SCHEMA))
    with pytest.raises(TableAlreadyExistsError, match="'append'"):
        await plan(uri, request("error"))


@pytest.mark.parametrize("columns", [("p",), ()])
async def test_a_table_that_is_clustered_otherwise_is_refused_before_any_task(
    uri: Path, columns: tuple[str, ...]
) -> None:
    await (await adelta.create_table(str(uri), SCHEMA, cluster_by=["id"])).aclose()
    with pytest.raises(SchemaMismatchError, match=r"is clustered by \(id\), not by"):
        await plan(uri, request(cluster_by=columns))
    job = await plan(uri, request(cluster_by=("id",)))
    await commit_write(job, (await write_files(job, batches(7), task=0)).files)
    assert await ids(uri) == [7]
