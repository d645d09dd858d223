"""Auto-compaction after commits, and REORG: what they write anew, and what they leave."""

from __future__ import annotations

import logging
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.changes import changes
from adelta.operations import (
    create_table,
    delete,
    drop_columns,
    history,
    merge,
    optimize,
    reorg_purge,
    update,
    write_table,
)
from adelta.operations.rearrange import auto_compaction
from adelta.table import Table, latest_state, queue_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int, p: str = "x") -> pa.Table:
    return pa.table({"id": list(ids), "p": [p] * len(ids)}, schema=SCHEMA)


async def live(table: Table) -> list[Any]:
    return list((await (await latest_state(table)).files()).rows())


@pytest.fixture
def few_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(auto_compaction, "_LEAST_FILES", 4)
    return


@pytest.mark.usefixtures("few_files")
@pytest.mark.parametrize(
    ("properties", "compacts"),
    [
        ({}, False),
        ({"delta.autoOptimize.autoCompact": "true"}, True),
        ({"delta.autoOptimize.autoCompact": "auto"}, True),
        ({"delta.autoOptimize": "true"}, True),
        ({"delta.autoOptimize.autoCompact": "false"}, False),
    ],
)
async def test_the_partition_of_the_commit_is_compacted_where_the_table_says_so(
    properties: dict[str, str], compacts: bool
) -> None:
    # C7-06
    properties = properties | {"delta.enableChangeDataFeed": "true"}
    table = await create_table(
        f"memory://{uuid.uuid4()}/auto", SCHEMA, partition_by=["p"], properties=properties
    )
    for number in range(3):
        await write_table(table, rows(number))
    for number in range(5):
        await write_table(table, rows(10 + number, p="y"))
    found = [file.partition_values["p"] for file in await live(table)]
    assert found.count("x") == 3
    assert found.count("y") == (2 if compacts else 5)
    operations = [entry.operation for entry in await history(table)]
    assert operations.count("OPTIMIZE") == (1 if compacts else 0)
    if compacts:
        entry = next(e for e in await history(table) if e.operation == "OPTIMIZE")
        assert entry.operation_parameters["auto"] == "true"
        done = await write_table(table, rows(3))
        assert done.num_files == 1
        assert [f.partition_values["p"] for f in await live(table)].count("x") == 1
    seen = [r["id"] async for batch in changes(table, since=1) for r in batch.to_pylist()]
    assert sorted(seen) == [*range(4 if compacts else 3), *range(10, 15)]


@pytest.mark.usefixtures("few_files")
async def test_every_way_to_write_compacts_and_a_failure_is_none_of_the_commit(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"delta.autoOptimize.autoCompact": "true"}
    table = await create_table("memory://auto/ways", SCHEMA, properties=properties)
    for number in range(3):
        await write_table(table, rows(number, number + 100))
    await update(table, {"id": "id + 1000"}, "id = 1")
    assert len(await live(table)) == 3
    async with table.transaction() as tx:
        await tx.append(rows(50, 51))
    assert len(await live(table)) == 4
    await delete(table, "id = 50")
    assert len(await live(table)) == 1
    for number in range(2):
        async with table.transaction() as tx:
            await tx.append(rows(60 + number))
    await merge(table, rows(70), "target.id = source.id").when_not_matched_insert_all().execute()
    assert len(await live(table)) == 1

    async def fails(*_: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(auto_compaction.Rearrangement, "carry_out", fails)
    with caplog.at_level(logging.WARNING, "adelta.transaction"):
        for number in range(3):
            done = await write_table(table, rows(number))
    assert done.version is not None
    assert "auto-compaction after it failed: no" in caplog.text
    assert not queue_of(table).is_compacting


@pytest.mark.parametrize("partition_by", [[], ["p"]])
async def test_what_is_deleted_or_dropped_goes_from_the_files(partition_by: list[str]) -> None:
    # C7-16
    properties = {
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "true",
        "delta.enableRowTracking": "true",
    }
    schema = SCHEMA.append(
        pa.field("s", pa.struct([("keep", pa.int64()), ("gone", pa.int64())]))
    ).append(pa.field("old", pa.string()))
    table = await create_table(
        f"memory://reorg/{len(partition_by)}", schema, partition_by=partition_by,
        properties=properties,
    )  # fmt: skip
    for number in range(4):
        data = rows(number * 100, *range(number * 100 + 1, number * 100 + 100), p="xy"[number % 2])
        extra = [{"keep": 1, "gone": 2}] * 100
        data = data.append_column("s", pa.array(extra, schema.field("s").type))
        await write_table(table, data.append_column("old", pa.array(["secret"] * 100)))
    assert (await reorg_purge(table)).versions == ()
    await delete(table, "id = 7")
    before = await scanned(table)
    planned = await reorg_purge(table, dry_run=True)
    done = await reorg_purge(table)
    assert planned.num_files_removed == done.num_files_removed == 1
    assert done.deletion_vector_stats is not None
    assert await scanned(table) == before
    (entry, *_) = await history(table)
    assert (entry.operation, entry.operation_parameters) == (
        "REORG", {"predicate": "[]", "applyPurge": "true"},
    )  # fmt: skip
    await drop_columns(table, ["s.gone"])
    before = await scanned(table)
    where = "p = 'x'" if partition_by else None
    done = await reorg_purge(table, where)
    assert done.num_files_removed == (2 if partition_by else 4)
    await drop_columns(table, ["old"])
    await reorg_purge(table)
    assert (await reorg_purge(table)).versions == ()
    assert [row | {"old": "secret"} for row in await scanned(table)] == [
        row | {"old": "secret"} for row in before
    ]
    names = {file.path for file in await live(table)}
    for name in names:
        data = await table.store.get(name)
        assert b"secret" not in data


async def scanned(table: Table) -> list[dict[str, Any]]:
    found = (await (await table.snapshot()).scan(with_row_ids=True).to_arrow()).to_pylist()
    return sorted(found, key=lambda row: row["id"])


async def test_a_purge_keeps_clustered_files_clustered() -> None:
    table = await create_table(
        "memory://reorg/clustered",
        SCHEMA,
        cluster_by=["id"],
        properties={"delta.enableDeletionVectors": "true"},
    )
    for number in range(3):
        await write_table(table, rows(*range(number, 1000, 3)))
    await optimize(table)
    await delete(table, "id = 500")
    done = await reorg_purge(table)
    assert done.num_files_removed == 1
    (file,) = await live(table)
    assert (file.deletion_vector, file.clustering_provider) == (None, "liquid")
    assert (await optimize(table)).versions == ()


async def test_it_is_there_by_its_public_names() -> None:
    assert adelta.reorg_purge is reorg_purge
    assert adelta.sync.reorg_purge
