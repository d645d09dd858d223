"""CLONE: another table with the same rows, and nothing of the source's that is not its own."""

from __future__ import annotations

import os
import random
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import (
    CommitConflictError,
    CommitOutcomeUnknownError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    MissingDataFileError,
    RootNotAllowedError,
    StorageError,
    TableAlreadyExistsError,
    TableNotFoundError,
)
from adelta.storage.memory import MemoryStore
from adelta.table import Table, latest_state
from tests.storage.faulty_proxy import FaultyProxy
from tests.support.builders import TableBuilder
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore, FailingStore, Fault, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from tests.support.s3_server import S3Location

R = TypeVar("R")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x y" if n % 2 else "z" for n in ids]}, schema=SCHEMA)


async def rows_of(uri: Any, **options: Any) -> list[dict[str, Any]]:
    async with adelta.open_table(uri, **options) as table:
        found = await (await table.snapshot()).scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda row: row["id"])


async def source_at(uri: Any, **properties: str) -> adelta.Table:
    table = await adelta.create_table(uri, SCHEMA, partition_by=["p"], properties=properties)
    await adelta.write_table(table, rows(1, 2, 3))
    await adelta.write_table(table, rows(4, 5))
    return table


VECTORS = {"delta.enableDeletionVectors": "true"}


@pytest.mark.parametrize("shallow", [False, True])
async def test_a_clone_has_the_rows_and_goes_its_own_way(tmp_path: Path, shallow: bool) -> None:
    origin, target = tmp_path / "a source%20", tmp_path / "clone"
    async with await source_at(origin) as source:
        await adelta.write_table(source, rows(6), txn=("load", 1))
        await adelta.add_constraint(source, "positive", "id > 0")
        done = await adelta.clone(source, target, shallow=shallow)
        allowed = {"allowed_roots": [done.reads_from]} if shallow else {}
        expected = await rows_of(origin)
        assert await rows_of(target, **allowed) == expected
        assert (done.version, done.source_version) == (0, 4)
        assert (done.source_num_of_files, done.num_copied_files) == (5, 0 if shallow else 5)
        async with adelta.open_table(target, **allowed) as copy:
            mine, theirs = await copy.snapshot(), await source.snapshot()
            assert mine.metadata.id != theirs.metadata.id
            assert mine.metadata.schema_string == theirs.metadata.schema_string
            assert mine.properties == theirs.properties
            assert mine.partition_columns == theirs.partition_columns
            assert await (await latest_state(copy)).set_transactions() == {}
            entry = (await adelta.history(copy))[0]
            assert entry.operation == "CLONE"
            assert entry.operation_parameters == {"source": source.uri, "sourceVersion": "4"}
            assert set(entry.operation_metrics) == {
                "sourceTableSize",
                "sourceNumOfFiles",
                "numRemovedFiles",
                "numCopiedFiles",
                "removedFilesSize",
                "copiedFilesSize",
            }
            await adelta.delete(copy, "id < 5")
            await adelta.write_table(copy, rows(9))
        assert [row["id"] for row in await rows_of(target, **allowed)] == [5, 6, 9]
        assert await rows_of(origin) == expected
    others = deltalake.DeltaTable(target)
    if not shallow:
        assert sorted(others.to_pyarrow_table().column("id").to_pylist()) == [5, 6, 9]


async def test_a_shallow_clone_is_read_where_that_is_allowed_alone(tmp_path: Path) -> None:
    origin, first, second = (str(tmp_path / name) for name in ("origin", "first", "second"))
    async with await source_at(origin, **VECTORS) as source:
        await adelta.write_table(source, rows(*range(10, 200_000)))
        await adelta.delete(source, "id % 3 = 0")
    expected = await rows_of(origin)
    await adelta.clone(origin, first, shallow=True)
    with pytest.raises(RootNotAllowedError, match="allowed_roots") as raised:
        await rows_of(first)
    assert "origin" in str(raised.value)
    assert await rows_of(first, allowed_roots=[origin]) == expected
    await adelta.clone(first, second, shallow=True)
    assert await rows_of(second, allowed_roots=[origin]) == expected
    with pytest.raises(RootNotAllowedError):
        await adelta.clone(first, tmp_path / "deep")
    options = {"allowed_roots": origin}
    await adelta.clone(first, tmp_path / "deep", storage_options=options)
    assert await rows_of(tmp_path / "deep") == expected


async def test_a_repeated_clone_copies_what_is_new(tmp_path: Path) -> None:
    target = tmp_path / "clone"
    async with await source_at(tmp_path / "source", **VECTORS) as source:
        await adelta.write_table(source, rows(*range(10, 200_000, 2)))
        first = await adelta.clone(source, target)
        assert (first.num_copied_files, first.num_removed_files) == (5, 0)
        with pytest.raises(TableAlreadyExistsError, match="replace=True"):
            await adelta.clone(source, target)
        again = await adelta.clone(source, target, replace=True)
        assert (again.num_copied_files, again.num_removed_files) == (0, 0)
        await adelta.delete(source, "id % 3 = 0")
        await adelta.delete(source, "id < 6")
        await adelta.write_table(source, rows(7))
        planned = await adelta.clone(source, target, replace=True, dry_run=True)
        third = await adelta.clone(source, target, replace=True)
        assert (planned.version, third.version) == (None, 2)
        assert planned.num_copied_files == third.num_copied_files == 1
        assert third.num_removed_files == 5
        assert await rows_of(target) == await rows_of(source.uri)
        assert (await adelta.fsck(target)).problems == ()
        await adelta.clone(source, target, replace=True, version=2)
        assert [row["id"] for row in await rows_of(target)] == [1, 2, 3, 4, 5]


async def test_files_that_stay_get_row_ids_where_the_source_has_begun_to_track_rows(
    tmp_path: Path,
) -> None:
    await adelta.write_table(tmp_path / "source", pa.table({"n": [1, 2]}))
    await adelta.clone(tmp_path / "source", tmp_path / "clone")
    await adelta.set_properties(tmp_path / "source", {"delta.enableRowTracking": "true"})
    await adelta.write_table(tmp_path / "source", pa.table({"n": [3]}))
    done = await adelta.clone(tmp_path / "source", tmp_path / "clone", replace=True)
    assert done.num_copied_files == 1
    await adelta.update(tmp_path / "clone", {"n": "n + 10"}, "n = 1")
    async with adelta.open_table(tmp_path / "clone") as table:
        scan = (await table.snapshot()).scan(with_row_ids=True)
        found = (await scan.to_arrow()).to_pylist()
    assert sorted(row["n"] for row in found) == [2, 3, 11]
    assert {row["_row_id"] for row in found} == {0, 1, 2}


@pytest.mark.parametrize("shallow", [False, True])
async def test_rows_of_files_without_statistics_get_ids(tmp_path: Path, shallow: bool) -> None:
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    await adelta.convert(tmp_path, collect_statistics=False)
    tracked = {"delta.enableRowTracking": "true"}
    allowed = {"allowed_roots": str(tmp_path)}
    for name, properties in (("new", [tracked]), ("old", [{}, tracked])):
        target = tmp_path.with_name(f"{tmp_path.name}-{name}")
        for each in properties:
            await adelta.clone(tmp_path, target, shallow=shallow, replace=True, properties=each)
        async with adelta.open_table(target, allowed) as table:
            scan = (await table.snapshot()).scan(with_row_ids=True)
            found = (await scan.to_arrow()).to_pylist()
        assert {row["n"]: row["_row_id"] for row in found} == {1: 0, 2: 1}


async def test_row_ids_are_the_clones_own(tmp_path: Path) -> None:
    target = tmp_path / "clone"
    async with await source_at(
        tmp_path / "source", **{"delta.enableRowTracking": "true", **VECTORS}
    ) as source:
        await adelta.update(source, {"id": "id + 100"}, "id = 2")

        async def tracked() -> dict[int, int]:
            async with adelta.open_table(target) as table:
                scan = (await table.snapshot()).scan(with_row_ids=True)
                found = (await scan.to_arrow()).to_pylist()
            return {row["id"]: row["_row_id"] for row in found}

        await adelta.clone(source, target)
        first = await tracked()
        assert sorted(first.values()) == sorted(set(first.values()))
        await adelta.delete(source, "id = 3")
        await adelta.clone(source, target, replace=True)
        second = await tracked()
        assert second == {key: value for key, value in first.items() if key != 3}


async def test_properties_are_the_sources_but_for_those_that_are_given(tmp_path: Path) -> None:
    async with await source_at(tmp_path / "source", **{"delta.appendOnly": "true"}) as source:
        given = {"delta.appendOnly": "false", "delta.enableChangeDataFeed": "true", "mine": "1"}
        await adelta.clone(source, tmp_path / "clone", properties=given)
        for bad in ({"delta.appendOnly": "soon"}, {"delta.constraints.c": "id > 100"}):
            with pytest.raises(InvalidPropertyError):
                await adelta.clone(source, tmp_path / "bad", properties=bad)
        assert not (tmp_path / "bad" / "_delta_log").exists()
    async with adelta.open_table(tmp_path / "clone") as copy:
        assert (await copy.snapshot()).properties == given


async def test_what_cannot_be_cloned_is_refused(tmp_path: Path) -> None:
    async with await source_at(tmp_path / "source") as source:
        (tmp_path / "link").symlink_to(tmp_path / "source")
        itself = (tmp_path / "source", tmp_path / "source" / "in it", tmp_path)
        for target in (*itself, tmp_path / "link", tmp_path / "link" / "in it"):
            with pytest.raises(InvalidOptionError, match="clone"):
                await adelta.clone(source, target)
        with pytest.raises(TableNotFoundError):
            await adelta.clone(tmp_path / "nothing", tmp_path / "clone")
        path = (await (await source.snapshot()).files()).column("path")[0].as_py()
        file = tmp_path / "source" / path.replace("%20", " ")
        file.write_bytes(file.read_bytes() + b"x")
        with pytest.raises(InvalidTableError, match="bytes"):
            await adelta.clone(source, tmp_path / "clone")
        os.remove(file)
        with pytest.raises(MissingDataFileError, match="VACUUM"):
            await adelta.clone(source, tmp_path / "clone")
    left = [name for _, _, names in os.walk(tmp_path / "clone") for name in names]
    assert left == []


async def test_a_clone_that_breaks_off_leaves_the_target_as_it_was() -> None:
    async with await source_at("memory://clones/source", **VECTORS) as source:
        await adelta.delete(source, "id = 1")
        counting = CountingStore(MemoryStore())
        async with Table(counting.uri, store=counting) as target:
            await adelta.clone(source, target)
        most = counting.count
        for number in range(most):
            store = MemoryStore()
            failing = FailingStore(store, {number: Fault(after=bool(number % 2))})
            async with Table(store.uri, store=failing) as target:
                with suppress(StorageError, CommitOutcomeUnknownError):
                    await adelta.clone(source, target)
            objects = [meta.path async for page in store.list() for meta in page]
            if "_delta_log/00000000000000000000.json" in objects:
                async with Table(store.uri, store=store) as target:
                    assert await (await target.snapshot()).scan().count() == 4
                    assert (await adelta.fsck(target)).problems == ()


async def test_whatever_is_committed_to_the_target_meanwhile_is_a_conflict() -> None:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)

    class Raced(WrappedStore):
        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.kind == "put" and request.path.endswith(".parquet") and builder.version < 1:
                await builder.append(rows(77))
            return await run()

    async with await source_at("memory://clones/raced") as source:
        async with Table(store.uri, store=Raced(store)) as target:
            with pytest.raises(CommitConflictError):
                await adelta.clone(source, target, replace=True)
        async with Table(store.uri, store=store) as target:
            assert await (await target.snapshot()).scan().count() == 1
            await adelta.clone(source, target, replace=True)
            assert await (await target.snapshot()).scan().count() == 5


@pytest.mark.parametrize("repeated", [False, True])
async def test_of_two_at_once_the_one_that_fails_takes_nothing_from_the_other(
    repeated: bool,
) -> None:
    store = MemoryStore()
    async with await source_at(f"memory://clones/at once {repeated}", **VECTORS) as source:
        if repeated:
            await adelta.clone(source, Table(store.uri, store=store))
        await adelta.delete(source, "id = 1")
        await adelta.write_table(source, rows(6))

        async def other() -> None:
            await adelta.clone(source, Table(store.uri, store=store), replace=repeated)

        async with Table(store.uri, store=OvertakenStore(store, other)) as target:
            with pytest.raises((CommitConflictError, TableAlreadyExistsError)):
                await adelta.clone(source, target, replace=repeated)
    async with Table(store.uri, store=store) as target:
        found = (await (await target.snapshot()).scan().to_arrow()).column("id").to_pylist()
        assert sorted(found) == [2, 3, 4, 5, 6]
        assert (await adelta.fsck(target)).problems == ()
        objects = [meta.path async for page in store.list() for meta in page]
        data = [path for path in objects if not path.startswith("_delta_log/")]
        assert len(data) == 5, "what it had copied has gone"
        again = await adelta.clone(source.uri, target, replace=True)
        assert again.num_copied_files == 0


async def test_a_clone_within_s3_leaves_the_copying_to_it(s3_location: S3Location) -> None:
    origin, target = f"{s3_location.uri}/origin", f"{s3_location.uri}/clone"
    async with (
        FaultyProxy(s3_location.server.endpoint) as proxy,
        await adelta.create_table(
            origin, SCHEMA, properties=VECTORS, storage_options=s3_location.storage_options
        ) as source,
    ):
        await adelta.write_table(source, rows(1, 2, 3))
        await adelta.delete(source, "id = 3")
        options = {**s3_location.storage_options, "aws_endpoint_url": proxy.endpoint}
        await adelta.clone(origin, target, storage_options=options)
        methods = {method for method, key in proxy.seen if key.endswith((".parquet", ".bin"))}
        assert methods == {"HEAD", "PUT"}
        expected = await rows_of(origin, storage_options=s3_location.storage_options)
    assert await rows_of(target, storage_options=s3_location.storage_options) == expected


async def test_a_clone_goes_from_any_store_to_any_other(
    tmp_path: Path, s3_location: S3Location
) -> None:
    options = s3_location.storage_options
    async with await source_at(tmp_path / "source", **VECTORS) as source:
        generator = random.Random(1)
        texts = [generator.randbytes(60).hex() for _ in range(150_000)]
        large = pa.table({"id": range(10, 150_010), "p": ["z"] * 150_000, "t": texts})
        await adelta.write_table(source, large, schema_mode="merge")
        await adelta.delete(source, "id % 5 = 0")
        files = await (await source.snapshot()).files()
        assert max(files.column("size").to_pylist()) > 9 << 20
        there = f"{s3_location.uri}/there"
        await adelta.clone(source, there, target_storage_options=options)
    await adelta.clone(there, tmp_path / "back", storage_options=options, target_storage_options={})
    await adelta.clone(there, f"{s3_location.uri}/shallow", shallow=True, storage_options=options)
    expected = await rows_of(tmp_path / "source")
    assert await rows_of(there, storage_options=options) == expected
    assert await rows_of(tmp_path / "back") == expected
    allowed = {"storage_options": options, "allowed_roots": [there]}
    assert await rows_of(f"{s3_location.uri}/shallow", **allowed) == expected
