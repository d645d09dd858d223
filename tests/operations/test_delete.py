"""DELETE: which rows go, by what means, and what readers, histories and rivals see of it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pytest

from adelta.changes import changes
from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    InvalidExpressionError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.expressions.dnf import to_predicate
from adelta.operations import (
    create_table,
    delete,
    history,
    set_properties,
    update,
    write_table,
)
from adelta.operations.delete import _stage
from adelta.table import Table, open_table
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

FEED = {"delta.enableChangeDataFeed": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
MAPPED = {"delta.columnMapping.mode": "name"}
BY_ID = {"delta.columnMapping.mode": "id"}
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str | None = "x") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "p": pa.array([p] * len(ids), pa.string())})


async def new_table(uri: str | None = None, **arguments: Any) -> Table:
    return await create_table(uri or f"memory://{uuid.uuid4()}/table", SCHEMA, **arguments)


async def ids(table: Table) -> list[int | None]:
    fresh = open_table(table.uri)
    found = await (await fresh.snapshot()).scan(columns=["id"]).to_arrow()
    return sorted(found["id"].to_pylist(), key=lambda n: (n is None, n))


async def feed(table: Table, since: int) -> list[tuple[Any, ...]]:
    found = [
        (row["_change_type"], row["id"], row["p"])
        async for batch in changes(table, since=since)
        for row in batch.to_pylist()
    ]
    return sorted(found, key=repr)


async def files(table: Table) -> list[dict[str, Any]]:
    return (await (await table.snapshot()).files()).to_pylist()


@pytest.mark.parametrize("properties", [{}, VECTORS, MAPPED, BY_ID, TRACKED, VECTORS | TRACKED])
@pytest.mark.parametrize("partition_by", [[], ["p"]])
async def test_the_rows_under_the_condition_go_and_no_others(
    properties: dict[str, str], partition_by: list[str]
) -> None:
    table = await new_table(partition_by=partition_by, properties=properties | FEED)
    await write_table(table, rows(1, 2, 3))
    await write_table(table, rows(4, 5, p="y"))
    await write_table(table, rows(6, p=None))
    done = await delete(table, "id % 2 = 0")
    assert (done.version, done.num_deleted_rows) == (4, 3)
    assert await ids(table) == [1, 3, 5]
    expected = [("delete", 2, "x"), ("delete", 4, "y"), ("delete", 6, None)]
    assert await feed(table, 4) == expected
    again = await delete(table, "id IN (1, 2)")
    assert again.num_deleted_rows == 1
    assert await ids(table) == [3, 5]
    assert await feed(table, 5) == [("delete", 1, "x")]


async def test_files_are_written_anew_without_their_deleted_rows(tmp_path: Path) -> None:
    table = await new_table(str(tmp_path))
    await write_table(table, rows(1, 2, 3))
    await write_table(table, rows(4, 5))
    await write_table(table, rows(6, 7))
    done = await delete(table, "id = 2 OR id = 4 OR id = 5")
    assert (done.num_removed_files, done.num_added_files, done.num_copied_rows) == (2, 1, 2)
    assert await ids(table) == [1, 3, 6, 7]
    (entry, *_) = await history(table)
    assert entry.operation == "DELETE"
    assert entry.operation_parameters["predicate"] == '["id = 2 OR id = 4 OR id = 5"]'
    metrics = {k: int(v) for k, v in entry.operation_metrics.items() if not k.endswith("Ms")}
    assert metrics == {
        "numAddedFiles": 1,
        "numRemovedFiles": 2,
        "numAddedBytes": done.num_added_bytes,
        "numRemovedBytes": done.num_removed_bytes,
        "numAddedChangeFiles": 0,
        "numDeletionVectorsAdded": 0,
        "numDeletionVectorsRemoved": 0,
        "numDeletionVectorsUpdated": 0,
        "numDeletedRows": 3,
        "numCopiedRows": 2,
    }
    peer = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(peer["id"].to_pylist()) == [1, 3, 6, 7]


@pytest.mark.parametrize("where", ["p = 'x'", None, "id >= 2"])
async def test_deletes_count_the_deletion_vectors_of_the_files_that_they_remove(
    where: str | None,
) -> None:
    table = await new_table(properties=VECTORS)
    await write_table(table, rows(1, 2, 3))
    await delete(table, "id = 1")
    await set_properties(table, {"delta.enableDeletionVectors": "false"})
    done = await delete(table, where)
    assert (done.num_deleted_rows, done.num_removed_files) == (2, 1)
    assert (done.num_deletion_vectors_removed, done.num_deletion_vectors_added) == (1, 0)


async def test_rows_under_a_deletion_vector_stay_gone(tmp_path: Path) -> None:
    # C6-01
    table = await new_table(str(tmp_path), properties=VECTORS | FEED)
    await write_table(table, rows(*range(1000)))
    first = await delete(table, "id < 10")
    assert (first.num_added_files, first.num_removed_files) == (0, 0)
    assert (first.num_deletion_vectors_added, first.num_deletion_vectors_updated) == (1, 0)
    second = await delete(table, "id < 20")
    assert second.num_deleted_rows == 10
    assert (second.num_deletion_vectors_updated, second.num_added_change_files) == (1, 0)
    (file,) = await files(table)
    assert file["deletion_vector"]["cardinality"] == 20
    last = await delete(table, "id >= 20")
    assert (last.num_deleted_rows, last.num_removed_files) == (980, 1)
    assert (last.num_deletion_vectors_removed, last.num_deletion_vectors_added) == (1, 0)
    assert await ids(table) == []
    assert len(await feed(table, 2)) == 1000
    peers = pa.table(deltalake.DeltaTable(str(tmp_path)).load_cdf(starting_version=3))
    kept = [row["id"] for row in peers.to_pylist() if row["_commit_version"] == 3]
    assert sorted(kept) == list(range(10, 20))


async def test_vectors_that_share_an_object_are_read_by_others(tmp_path: Path) -> None:
    # B5-06: several vectors in one file, each with its offset, size and checksum.
    table = await new_table(str(tmp_path), partition_by=["p"], properties=VECTORS | TRACKED)
    for p in ("x", "y z", None):
        await write_table(table, rows(*range(3000), p=p))
    done = await delete(table, "id % 3 = 0")
    assert (done.num_deleted_rows, done.num_deletion_vectors_added) == (3000, 3)
    vectors = [file["deletion_vector"] for file in await files(table)]
    assert {v["storageType"] for v in vectors} == {"u"}
    assert len({v["pathOrInlineDv"] for v in vectors}) == 1
    assert len({v["offset"] for v in vectors}) == 3
    await delete(table, "id % 5 = 0 AND p = 'x'")
    expected = [i for i in range(3000) if i % 3 and i % 5]
    expected += 2 * [i for i in range(3000) if i % 3]
    assert await ids(table) == sorted(expected)
    peer = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(str(tmp_path)))
    told = pa.table(peer.execute("SELECT id FROM t ORDER BY id").read_all())
    assert told["id"].to_pylist() == sorted(expected)


async def test_long_runs_of_rows_make_short_vectors() -> None:
    table = await new_table(properties=VECTORS)
    await write_table(table, rows(*range(50_000)))
    await delete(table, "id < 40000")
    (file,) = await files(table)
    assert file["deletion_vector"]["storageType"] == "i"
    assert file["deletion_vector"]["cardinality"] == 40_000
    assert await ids(table) == list(range(40_000, 50_000))


async def test_vectors_stay_in_force_when_no_more_are_to_be_written() -> None:
    # B5-12
    table = await new_table(properties=VECTORS)
    await write_table(table, rows(1, 2, 3))
    await delete(table, "id = 1")
    await set_properties(table, {"delta.enableDeletionVectors": "false"})
    done = await delete(table, "id = 2")
    assert (done.num_added_files, done.num_copied_rows) == (1, 1)
    assert await ids(table) == [3]
    assert [file["deletion_vector"] for file in await files(table)] == [None]


async def test_a_condition_that_partitions_decide_reads_no_data() -> None:
    store = CountingStore(open_table(f"memory://{uuid.uuid4()}/table").store)
    table = Table(store.uri, store=store)
    await new_table(store.uri, partition_by=["p"], properties=FEED)
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3, p="y"))
    store.requests.clear()
    done = await delete(table, "p = 'x'")
    assert (done.num_deleted_rows, done.num_removed_files) == (2, 1)
    assert [r for r in store.requests if r.kind == "get" and r.path.endswith(".parquet")] == []
    assert await feed(table, 3) == [("delete", 1, "x"), ("delete", 2, "x")]


async def test_only_files_that_may_hold_such_rows_are_read() -> None:
    store = CountingStore(open_table(f"memory://{uuid.uuid4()}/table").store)
    table = Table(store.uri, store=store)
    await new_table(store.uri)
    await write_table(table, rows(1, 2))
    await write_table(table, rows(10, 20))
    (far,) = [f["path"] for f in await files(table) if '"minValues":{"id":10' in f["stats"]]
    store.requests.clear()
    await delete(table, "id = 2")
    read = {r.path for r in store.requests if r.kind == "get" and r.path.endswith(".parquet")}
    assert read
    assert far not in read


async def test_everything_goes_without_a_condition() -> None:
    table = await new_table()
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3))
    done = await delete(table)
    assert (done.num_deleted_rows, done.num_removed_files) == (3, 2)
    assert await ids(table) == []
    (entry, *_) = await history(table)
    assert entry.operation_parameters["predicate"] == '["true"]'


async def test_the_feed_keeps_its_own_names_for_itself() -> None:
    schema = pa.schema([("id", pa.int64()), ("_Change_type", pa.string())])
    uri = f"memory://{uuid.uuid4()}/table"
    with pytest.raises(SchemaMismatchError, match="change data feed"):
        await create_table(uri, schema, properties=FEED)
    table = await create_table(uri, schema)
    with pytest.raises(SchemaMismatchError, match="change data feed"):
        await set_properties(table, FEED)
    fed = await new_table(properties=FEED)
    with pytest.raises(SchemaMismatchError, match="change data feed"):
        await write_table(fed, pa.table({"_commit_version": [1]}), schema_mode="merge")


async def test_nothing_is_committed_where_no_row_is_concerned() -> None:
    table = await new_table()
    await write_table(table, rows(1))
    for where in ("id = 7", "id = 1 AND p IS NULL", "false"):
        assert (await delete(table, where)).version is None
    assert (await table.snapshot()).version == 1


async def test_rows_for_which_the_condition_is_null_stay() -> None:
    table = await new_table()
    await write_table(table, pa.table({"id": [1, None, 3], "p": ["x", "x", None]}))
    await delete(table, "id > 1 OR p = 'y'")
    assert await ids(table) == [1, None]


async def test_copied_rows_keep_their_ids() -> None:
    # B9-04
    for properties in (TRACKED, TRACKED | VECTORS):
        table = await new_table(properties=properties)
        await write_table(table, rows(1, 2, 3))
        await delete(table, "id = 2")
        found = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
        kept = zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True)
        assert dict(kept) == {1: 0, 3: 2}
        assert set(found["_row_commit_version"].to_pylist()) == {1}


async def test_whole_files_that_go_are_told_of_beside_files_written_anew() -> None:
    # B4-04: with one change data file, all changes of the commit have to be in such files.
    table = await new_table(properties=FEED)
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3))
    done = await delete(table, "id >= 2")
    assert (done.num_added_change_files, done.num_removed_files) == (1, 2)
    assert await feed(table, 3) == [("delete", 2, "x"), ("delete", 3, "x")]


async def test_no_change_data_is_written_where_only_whole_files_go() -> None:
    table = await new_table(properties=FEED)
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3))
    assert (await delete(table, "id >= 3")).num_added_change_files == 0
    assert await feed(table, 3) == [("delete", 3, "x")]


async def test_an_append_only_table_keeps_its_rows() -> None:
    table = await new_table(properties={"delta.appendOnly": "true"})
    await write_table(table, rows(1))
    for where in (None, "id = 1"):
        with pytest.raises(InvariantViolationError, match="append-only"):
            await delete(table, where)


async def test_a_condition_that_cannot_be_computed_changes_nothing() -> None:
    table = await new_table()
    await write_table(table, rows(0, 1))
    for where in ("1 / id > 0", "nope = 1", "id +"):
        with pytest.raises(InvalidExpressionError):
            await delete(table, where)
    assert (await table.snapshot()).version == 1


async def data_files(table: Table) -> list[str]:
    found = [meta.path async for page in table.store.list() for meta in page]
    return [path for path in found if not path.startswith("_delta_log")]


async def interrupted(table: Table, meanwhile: pa.Table, **arguments: Any) -> int | None:
    """A delete of ids from 2 on, with an append by another writer before it commits."""
    tx = table.transaction("DELETE", **arguments)
    async with tx:
        await _stage(table, tx._core, to_predicate("id >= 2"))
        await write_table(open_table(table.uri), meanwhile)
    return tx.version


async def test_rows_that_others_add_under_the_condition_are_a_conflict() -> None:
    table = await new_table()
    await write_table(table, rows(1, 2, 3))
    before = await data_files(table)
    with pytest.raises(ConcurrentAppendError, match="id >= 2"):
        await interrupted(table, rows(9))
    assert len(await data_files(table)) == len(before) + 1  # the other's alone
    assert await ids(table) == [1, 2, 3, 9]
    assert await interrupted(table, rows(0)) == 4
    assert await ids(table) == [0, 1]


async def test_blind_appends_are_no_conflict_where_writes_alone_are_ordered() -> None:
    # C3-02
    table = await new_table()
    await write_table(table, rows(1, 2, 3))
    assert await interrupted(table, rows(9), isolation="WriteSerializable") == 3
    assert await ids(table) == [1, 9]


@pytest.mark.parametrize("properties", [{}, VECTORS])
async def test_of_two_deletes_in_one_file_one_is_done_again(properties: dict[str, str]) -> None:
    table = await new_table(properties=properties)
    await write_table(table, rows(1, 2, 3))
    other = open_table(table.uri)

    async def late() -> None:
        tx = table.transaction("DELETE")
        async with tx:
            await _stage(table, tx._core, to_predicate("id = 1"))
            await delete(other, "id = 2")

    with pytest.raises(CommitConflictError):
        await late()
    assert await ids(table) == [1, 3]


@pytest.mark.parametrize("properties", [{}, VECTORS])
async def test_rows_are_deleted_and_updated_by_parts_of_variants(
    properties: dict[str, str],
) -> None:
    table = await create_table(
        f"memory://{uuid.uuid4()}", "id bigint, v variant", properties=properties
    )
    texts = ['{"a":1}', '{"a":5}', None, "null", '{"b":[2]}']
    data = pa.table({"id": [0, 1, 2, 3, 4], "v": pa.array(texts, pa.json_())})
    await write_table(table, data)
    assert (await delete(table, "variant_get(v, '$.a', 'int') = 1")).num_deleted_rows == 1
    done = await update(
        table, {"id": "10 + variant_get(v, '$.b[0]', 'int')"}, "v IS NOT NULL AND id = 4"
    )
    assert done.num_updated_rows == 1
    assert (await delete(table, "is_variant_null(v)")).num_deleted_rows == 1
    assert await ids(table) == [1, 2, 12]
