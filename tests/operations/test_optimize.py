"""OPTIMIZE: fewer files of the same rows, and what readers, histories and rivals see of it."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import anyio
import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.changes import changes
from adelta.errors import InvalidOptionError, MetadataChangedError, MissingDataFileError
from adelta.operations import add_columns, create_table, delete, history, optimize, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support.cancellation import PausingStore, Steps, run_to_its_end
from tests.support.races import OvertakenStore, is_commit, is_data, objects_of, store_with
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.progress import Progress

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


async def contents(table: Table, *, tracked: bool = False) -> list[dict[str, Any]]:
    scan = (await open_table(table.uri).snapshot()).scan(with_row_ids=tracked)
    found: list[dict[str, Any]] = (await scan.to_arrow()).to_pylist()
    return sorted(found, key=lambda row: row["id"])


async def files(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await (await table.snapshot()).files()).to_pylist()
    return found


async def test_small_files_are_gathered_in_row_groups_of_half_the_memory_of_others(
    tmp_path: Path,
) -> None:
    """They wait beside what is decoded meanwhile, and are still as large as engines like them."""
    uri = str(tmp_path / "table")
    numbers = pa.table({f"c{column}": pa.array(range(50_000)) for column in range(8)})
    for _ in range(12):  # 3 MB each
        await write_table(uri, numbers)
    async with open_table(uri) as table:
        await optimize(table)
        (file,) = [pq.read_metadata(tmp_path / "table" / f["path"]) for f in await files(table)]
    sizes = [file.row_group(number).num_rows * 64 for number in range(file.num_row_groups)]
    assert len(sizes) == 2
    assert 32 << 20 <= sizes[0] <= 36 << 20


@pytest.mark.parametrize(
    "properties", [{}, FEED, MAPPED, BY_ID, VECTORS | TRACKED, VECTORS | MAPPED | TRACKED]
)
@pytest.mark.parametrize("partition_by", [[], ["p"]])
async def test_rows_and_their_ids_stay_and_files_become_few(
    properties: dict[str, str], partition_by: list[str]
) -> None:
    table = await new_table(partition_by=partition_by, properties=properties)
    values = ["x", "a/b %25 =ä", None, "x"]
    for number, p in enumerate(values):
        await write_table(table, rows(*range(10 * number, 10 * number + 10), p=p))
    await delete(table, "id IN (3, 25)")
    tracked = "delta.enableRowTracking" in properties
    before = await contents(table, tracked=tracked)
    done = await optimize(table)
    assert await contents(table, tracked=tracked) == before
    found = await files(table)
    assert len(found) == (3 if partition_by else 1)
    assert done.num_files_added < done.num_files_removed
    assert all(file["deletion_vector"] is None for file in found)
    again = await optimize(table)
    assert (again.versions, again.num_bins) == ((), 0)
    assert (await table.snapshot()).version == done.versions[-1]


async def test_files_are_joined_in_the_order_of_their_rows_up_to_the_target(tmp_path: Path) -> None:
    # C7-01, C7-02
    table = await new_table(str(tmp_path))
    data = pa.table({"id": range(5000), "p": [uuid.uuid4().hex for _ in range(5000)]})
    for start in range(0, 5000, 500):
        await write_table(table, data.slice(start, 500))
    size = max(file["size"] for file in await files(table))
    done = await optimize(table, target_size=size * 3)
    assert (done.num_bins, done.num_files_added) == (3, 3)
    assert done.files_removed.total_files == 9
    found = [await _ids_of(table, file["path"]) for file in await files(table)]
    assert sorted(found) == [[*range(s, min(s + 1500, 5000))] for s in range(0, 5000, 1500)]
    assert (await optimize(table, target_size=size * 3)).versions == ()
    peer = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert sorted(peer["id"].to_pylist()) == [*range(5000)]


async def _ids_of(table: Table, path: str) -> list[int]:
    import pyarrow.parquet as pq

    data = await table.store.get(path)
    found: list[int] = pq.read_table(pa.BufferReader(data))["id"].to_pylist()
    return found


async def test_what_became_smaller_than_thought_is_joined_at_once() -> None:
    table = await new_table()
    texts = [uuid.uuid4().hex for _ in range(1000)]
    for number in range(8):
        await write_table(table, pa.table({"id": [number] * 1000, "p": texts}))
    size = (await files(table))[0]["size"]
    done = await optimize(table, target_size=int(size * 2.5))
    assert len(await files(table)) == 1
    assert len(done.versions) > 1
    assert (await optimize(table, target_size=int(size * 2.5))).versions == ()


async def test_a_history_says_what_was_done_in_sparks_words() -> None:
    table = await new_table(partition_by=["p"])
    for number in range(4):
        await write_table(table, rows(number, p="x" if number % 2 else "y"))
    done = await optimize(table, where="p = 'x'", user_metadata="nightly")
    (entry, *_) = await history(table)
    assert (entry.operation, entry.user_metadata) == ("OPTIMIZE", "nightly")
    assert entry.operation_parameters == {
        "predicate": "[\"p = 'x'\"]", "zOrderBy": "[]", "clusterBy": "[]", "auto": "false",
    }  # fmt: skip
    size = done.files_added.total_size
    assert {k: int(v) for k, v in entry.operation_metrics.items()} == {
        "numAddedFiles": 1, "numAddedBytes": size, "numRemovedFiles": 2,
        "numRemovedBytes": done.files_removed.total_size, "numDeletionVectorsRemoved": 0,
        "numDeletionVectorRowsRemoved": 0, "numDeletionVectorBytesRemoved": 0, "minFileSize": size,
        "p25FileSize": size, "p50FileSize": size, "p75FileSize": size, "maxFileSize": size,
    }  # fmt: skip
    assert (done.total_considered_files, done.partitions_optimized) == (2, 1)
    assert len(await files(table)) == 3


async def test_a_dry_run_tells_and_writes_nothing() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    before = await objects_of(store)
    planned = await optimize(table, dry_run=True)
    assert (planned.num_files_removed, planned.num_files_added) == (3, 0)
    assert (planned.dry_run, planned.versions) == (True, ())
    assert await objects_of(store) == before
    seen: list[Progress] = []
    done = await optimize(table, on_progress=seen.append)
    assert done.files_removed == planned.files_removed
    assert [(p.done, p.total) for p in seen] == [
        (0, planned.files_removed.total_size),
        (planned.files_removed.total_size,) * 2,
    ]


async def test_streams_and_feeds_see_nothing_of_it() -> None:
    # C7-02
    table = await new_table(properties=FEED)
    for number in range(3):
        await write_table(table, rows(number))
    version = (await optimize(table)).versions[0]
    await write_table(table, rows(9))
    found = [
        row["id"] async for batch in changes(table, since=version) for row in batch.to_pylist()
    ]
    assert found == [9]
    async with aclosing(adelta.tail(table, since=version)) as commits:
        commit = await anext(commits)
    lines = [*commit.adds.to_pylist(), *commit.removes.to_pylist()]
    assert [line["data_change"] for line in lines] == [False] * 4


async def test_appends_and_reads_go_on_meanwhile() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(4):
        await write_table(table, rows(number))
    other = Table(store.uri, store=store)

    async def meanwhile() -> None:
        await write_table(other, rows(7))

    rival = Table(store.uri, store=OvertakenStore(store, meanwhile))
    done = await optimize(rival)
    assert (done.versions, done.num_bins_lost) == ((5,), 0)
    fresh = await Table(store.uri, store=store).snapshot()
    assert sorted((await fresh.scan(columns=["id"]).to_arrow())["id"].to_pylist()) == [
        0,
        1,
        2,
        3,
        7,
    ]


@pytest.mark.parametrize("properties", [{}, VECTORS, TRACKED, FEED])
async def test_a_delete_meanwhile_takes_its_group_alone(properties: dict[str, str]) -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    await write_table(table, rows(1, 2, p="a"), partition_by=["p"], properties=properties)
    for number, p in ((3, "a"), (5, "b"), (7, "b"), (9, "c"), (11, "c")):
        await write_table(table, rows(number, number + 1, p=p))
    other = Table(store.uri, store=store)

    async def meanwhile() -> None:
        await delete(other, "id = 3")

    done = await optimize(Table(store.uri, store=OvertakenStore(store, meanwhile)))
    assert (done.num_bins, done.num_bins_lost, len(done.versions)) == (2, 1, 1)
    fresh = Table(store.uri, store=store)
    found = await (await fresh.snapshot()).scan(columns=["id"]).to_arrow()
    assert sorted(found["id"].to_pylist()) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    live = {file["path"] for file in await files(fresh)}
    # what the lost group had written is gone again
    log = b"".join(data for path, data in (await objects_of(store)).items() if is_commit(path))
    data_files = {p for p in await objects_of(store) if p.endswith(".parquet") and "/_" not in p}
    assert live <= data_files
    assert all(path.encode() in log for path in data_files if not path.startswith("_"))


async def test_other_columns_meanwhile_are_a_conflict_and_leave_nothing() -> None:
    store = MemoryStore()
    table = Table(store.uri, store=store)
    for number in range(3):
        await write_table(table, rows(number))
    other = Table(store.uri, store=store)

    async def meanwhile() -> None:
        await add_columns(other, pa.schema([("x", pa.int64())]))

    data = {path for path in await objects_of(store) if path.endswith(".parquet")}
    with pytest.raises(MetadataChangedError):
        await optimize(Table(store.uri, store=OvertakenStore(store, meanwhile)))
    assert {path for path in await objects_of(store) if path.endswith(".parquet")} == data


async def test_a_long_run_commits_in_between_and_keeps_that_where_it_fails(tmp_path: Path) -> None:
    table = await new_table(str(tmp_path), partition_by=["p"])
    for number in range(8):
        await write_table(table, rows(number, p=f"p{number // 2}"))
    (gone,) = [f["path"] for f in await files(table) if f["path"].startswith("p=p3")][:1]
    (tmp_path / gone).rename(tmp_path / "kept.parquet")
    with pytest.raises(MissingDataFileError):
        await optimize(table, max_commit_interval=timedelta(0), concurrency=1)
    assert len(await files(table)) == 5
    (tmp_path / "kept.parquet").rename(tmp_path / gone)
    done = await optimize(table, max_commit_interval=timedelta(0), concurrency=1)
    assert (done.num_batches, len(await files(table))) == (1, 4)
    assert [row["id"] for row in await contents(table)] == [*range(8)]
    named = {file["path"] for file in await files(table)}
    removed = (await (await table.snapshot()).files()).num_rows
    assert removed == len(named) == 4


async def test_what_cannot_be_asked_for_is_refused_before_anything_is_read() -> None:
    store = CountingStore(MemoryStore())
    table = Table(store.uri, store=store)
    await write_table(table, rows(1), partition_by=["p"])
    with pytest.raises(InvalidOptionError, match="only compare partition columns \\(p\\)"):
        await optimize(table, where="id = 1")
    with pytest.raises(InvalidOptionError, match="target_size"):
        await optimize(table, target_size=0)


async def test_a_file_with_few_deleted_rows_is_left_and_one_with_many_is_not() -> None:
    # C7-02
    table = await new_table(properties=VECTORS)
    await write_table(table, rows(*range(100)))
    await delete(table, "id < 5")
    assert (await optimize(table)).versions == ()
    await delete(table, "id = 5")
    done = await optimize(table)
    assert done.deletion_vector_stats is not None
    assert done.deletion_vector_stats.num_deletion_vector_rows_removed == 6
    assert [file["deletion_vector"] for file in await files(table)] == [None]
    await delete(table, "id < 200")
    assert await contents(table) == []


async def test_only_files_below_the_least_size_are_touched(tmp_path: Path) -> None:
    table = await new_table(str(tmp_path), properties={"delta.targetFileSize": "100mb"})
    data = pa.table({"id": range(2000), "p": [uuid.uuid4().hex for _ in range(2000)]})
    await write_table(table, data)
    await write_table(table, rows(1))
    await write_table(table, rows(2))
    done = await optimize(table, min_file_size=5000)
    assert (done.num_files_removed, done.num_files_added) == (2, 1)
    assert table.store.local is not None


@pytest.mark.parametrize("order", [None, ["id"]])
async def test_cancelled_anywhere_it_leaves_the_table_as_before_or_as_after(
    order: list[str] | None,
) -> None:
    base = MemoryStore()
    table = Table(base.uri, store=base)
    for number in range(4):
        data = rows(number, number + 10, p="ab"[number % 2])
        await write_table(table, data, partition_by=["p"])
    objects = await objects_of(base)

    async def work(store: MemoryStore) -> None:
        table = Table(store.uri, store=PausingStore(store))
        await optimize(table, zorder_by=order)

    with Steps() as steps:
        steps.victim = asyncio.ensure_future(work(await store_with(objects)))
        await run_to_its_end(steps.victim)
    assert steps.count > 50
    versions = set()
    for at in range(1, steps.count + 1, 3):
        store = await store_with(objects)
        with Steps(at=at) as step:
            step.victim = asyncio.ensure_future(work(store))
            await run_to_its_end(step.victim)
        after = await objects_of(store)
        fresh = Table(store.uri, store=store)
        versions.add((await fresh.snapshot()).version)
        found = await (await fresh.snapshot()).scan(columns=["id"]).to_arrow()
        assert sorted(found["id"].to_pylist()) == [0, 1, 2, 3, 10, 11, 12, 13]
        log = b"".join(data for path, data in after.items() if is_commit(path))
        assert all(path.encode() in log for path in after if is_data(path)), at
    assert versions == {3, 4}


async def test_partitions_of_times_beyond_those_of_python_are_compacted() -> None:
    times = pa.array([400_000_000_000_000_000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    rows = pa.table({"id": [1], "at": times})
    async with adelta.open_table(f"memory://{uuid.uuid4()}/t") as table:
        for _ in range(2):
            await adelta.write_table(table, rows, partition_by=["at"])
        assert (await adelta.optimize(table)).num_files_removed == 2


@pytest.mark.parametrize("type", [pa.float32(), pa.float64()], ids=str)
async def test_partitions_of_zero_and_of_negative_zero_are_compacted_apart(
    type: pa.DataType,
) -> None:
    uri = f"memory://{uuid.uuid4()}"
    data = pa.table({"p": pa.array([0.0, -0.0], type), "id": [1, 2]})
    for _ in range(2):
        await write_table(uri, data, partition_by=["p"])
    with anyio.fail_after(30):
        done = await optimize(uri)
    assert (done.num_files_added, done.num_files_removed) == (2, 4)
    rows = (await (await open_table(uri).snapshot()).scan().to_arrow()).to_pylist()
    assert sorted((row["id"], str(row["p"])) for row in rows) == [
        (1, "0.0"),
        (1, "0.0"),
        (2, "-0.0"),
        (2, "-0.0"),
    ]
