"""OPTIMIZE ... ZORDER BY, and of clustered tables: which rows share a file, and what is redone."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import deltalake
import numpy as np
import orjson
import pyarrow as pa
import pytest

from adelta.errors import InvalidOptionError, InvalidUseError, SchemaMismatchError
from adelta.operations import (
    add_columns,
    analyze,
    cluster_by,
    create_table,
    delete,
    history,
    optimize,
    rename_column,
    write_table,
)
from adelta.operations.rearrange import cubes, sorting
from adelta.operations.rearrange.bins import FileSizes
from adelta.table import Table, latest_state, open_table
from adelta.write import spill

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        ("id", pa.int64()),
        ("a", pa.int32()),
        ("b", pa.string()),
        ("s", pa.struct([("x", pa.float64())])),
        ("p", pa.string()),
    ]
)


def rows(count: int, seed: int = 0, p: str | None = "x") -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "id": np.arange(count) + seed * 1_000_000,
            "a": pa.array(random.integers(0, 1000, count), pa.int32()),
            "b": [f"text {n:04}" if n % 50 else None for n in random.integers(0, 1000, count)],
            "s": [{"x": float(n)} if n % 7 else None for n in random.integers(0, 1000, count)],
            "p": [p] * count,
        },
        schema=SCHEMA,
    )


async def live(table: Table) -> list[Any]:
    return list((await (await latest_state(table)).files()).rows())


async def contents(table: Table, **options: Any) -> list[dict[str, Any]]:
    scan = (await open_table(table.uri).snapshot()).scan(**options)
    found: list[dict[str, Any]] = (await scan.to_arrow()).to_pylist()
    return sorted(found, key=lambda row: row["id"])


def shares_read(files: list[Any], column: str, points: list[Any]) -> float:
    """The share of files that cannot be skipped by their bounds, on average over the points."""
    stats = [orjson.loads(file.stats) for file in files]
    read = [
        sum(s["minValues"][column] <= point <= s["maxValues"][column] for s in stats)
        for point in points
    ]
    return sum(read) / len(read) / len(files)


async def test_a_point_of_any_column_is_in_few_files(tmp_path: Path) -> None:
    # C7-04
    properties = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    table = await create_table(str(tmp_path), SCHEMA, properties=properties)
    for seed in range(4):
        await write_table(table, rows(4000, seed))
    await delete(table, "id = 7")
    before = await contents(table, with_row_ids=True)
    size = sum(file.size for file in await live(table))
    done = await optimize(table, zorder_by=["a", "b", "s.x"], target_size=size // 20)
    assert done.num_files_added == 20
    assert done.z_order_stats is not None
    assert done.z_order_stats.merged_files.num == 4
    assert not done.preserve_insertion_order
    assert await contents(table, with_row_ids=True) == before
    files = await live(table)
    assert shares_read(files, "a", [*range(0, 1000, 50)]) < 0.6
    assert shares_read(files, "b", [f"text {n:04}" for n in range(1, 1000, 51)]) < 0.6
    counts = [orjson.loads(file.stats)["numRecords"] for file in files]
    assert max(counts) < 1.2 * sum(counts) / 20
    (entry, *_) = await history(table)
    assert entry.operation_parameters["zOrderBy"] == '["a","b","s.x"]'
    assert (await optimize(table, zorder_by=["a", "b", "s.x"])).versions == ()
    assert (await optimize(table, zorder_by=["a"])).versions != ()
    await write_table(table, rows(10, 9))
    assert (await optimize(table, zorder_by=["a"])).num_files_removed > 1


async def test_partitions_are_ordered_each_by_itself_and_only_where_asked() -> None:
    table = await create_table("memory://order/partitions", SCHEMA, partition_by=["p"])
    for p in ("x", None, "x"):
        await write_table(table, rows(500, len(p or ""), p=p))
    before = await contents(table)
    done = await optimize(table, zorder_by=["a"], where="p = 'x'", target_size=4000)
    assert (done.partitions_optimized, done.num_files_removed) == (1, 2)
    assert done.num_files_added > 2
    assert await contents(table) == before
    bounds = sorted(
        (stats["minValues"]["a"], stats["maxValues"]["a"])
        for file in await live(table)
        if file.partition_values["p"] == "x"
        for stats in [orjson.loads(file.stats)]
    )
    assert all(high <= low for (_, high), (low, _) in pairwise(bounds))
    rest = await optimize(table, zorder_by=["a"])
    assert (rest.partitions_optimized, rest.num_files_removed) == (1, 1)


async def test_rows_that_do_not_fit_memory_wait_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    table = await create_table("memory://order/spill", SCHEMA)
    data = rows(30_000)
    await write_table(table, data)
    spilled = []
    write = spill.SpillFile.write

    def noted(self: Any, batches: Any) -> Any:
        spilled.append(1)
        return write(self, batches)

    monkeypatch.setattr(spill.SpillFile, "write", noted)
    monkeypatch.setattr(sorting, "_RUN_BYTES", 64 * 1024)
    monkeypatch.setattr("adelta.operations.rearrange.tasks._MEMORY", 256 * 1024)
    size = sum(file.size for file in await live(table))
    await optimize(table, zorder_by=["a"], target_size=size // 3)
    assert spilled
    assert len(await live(table)) == 3
    assert await contents(table) == sorted(data.to_pylist(), key=lambda row: row["id"])
    order = (await (await table.snapshot()).scan(columns=["a"]).to_arrow())["a"].to_numpy()
    assert sum(np.diff(order) < 0) <= 2  # within a file, and one after the other in any order


async def test_one_value_in_all_rows_is_sorted_part_by_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorting, "_RUN_BYTES", 16 * 1024)
    monkeypatch.setattr(sorting, "_BATCH_BYTES", 16 * 1024)
    monkeypatch.setattr("adelta.operations.rearrange.tasks._MEMORY", 64 * 1024)
    table = await create_table("memory://order/same", SCHEMA)
    same = rows(20_000).set_column(1, SCHEMA.field("a"), pa.array([5] * 20_000, pa.int32()))
    await write_table(table, same)
    size = sum(file.size for file in await live(table))
    await optimize(table, zorder_by=["a"], target_size=size // 4)
    assert len(await contents(table)) == 20_000
    assert all(file.size < size for file in await live(table))


async def test_columns_that_cannot_order_rows_are_refused() -> None:
    properties = {"delta.dataSkippingStatsColumns": "a,s"}
    table = await create_table(
        "memory://order/refused", SCHEMA, partition_by=["p"], properties=properties
    )
    await write_table(table, rows(10))
    for columns, error, said in (
        (["p"], InvalidOptionError, "partition column"),
        (["b"], InvalidUseError, "no statistics of column 'b'"),
        (["s"], SchemaMismatchError, "have an order"),
        (["none"], SchemaMismatchError, "none"),
        (["a", "A"], InvalidOptionError, "twice"),
    ):
        with pytest.raises(error, match=said):
            await optimize(table, zorder_by=columns)
    with pytest.raises(InvalidOptionError, match="no clustering columns"):
        await optimize(table, full=True)
    clustered = await create_table("memory://order/clustered", SCHEMA, cluster_by=["a"])
    for arguments in ({"zorder_by": ["b"]}, {"where": "id = 1"}):
        with pytest.raises(InvalidOptionError, match="is clustered"):
            await optimize(clustered, **arguments)  # type: ignore[arg-type]


async def test_a_clustered_table_is_clustered_bit_by_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # C7-05
    table = await create_table(str(tmp_path), SCHEMA, cluster_by=["a", "b"])
    for seed in range(3):
        await write_table(table, rows(2000, seed))
    size = sum(file.size for file in await live(table))
    monkeypatch.setattr(cubes.CubeSizes.__init__, "__defaults__", (size // 2, size))
    done = await optimize(table, target_size=size // 8)
    assert done.clustering_stats is not None
    assert (done.clustering_stats.input_other_files.num, done.num_bins) == (3, 1)
    first = cubes_of(await live(table))
    assert [len(files) for files in first.values()] == [8]
    (file, *_) = next(iter(first.values()))
    assert file.clustering_provider == "liquid"
    assert orjson.loads(file.tags["ZCUBE_ZORDER_BY"]) == ["a", "b"]
    assert file.tags["ZCUBE_ZORDER_CURVE"] == "hilbert"
    assert (await optimize(table)).versions == ()
    # what is large enough stays, and new files make a cube of their own, which grows
    await write_table(table, rows(500, 5))
    again = await optimize(table)
    assert again.num_files_removed == 1
    await write_table(table, rows(500, 6))
    third = await optimize(table)
    assert third.num_files_removed == 2
    found = cubes_of(await live(table))
    assert len(found) == 2
    assert found.keys() > first.keys()
    (entry, *_) = await history(table)
    told = entry.operation_parameters
    assert (told["clusterBy"], told["zOrderBy"], told["isFull"]) == ('["a","b"]', "[]", "false")
    # other columns: what is there stays, but for a full run
    await cluster_by(table, ["b"])
    assert (await optimize(table)).versions == ()
    full = await optimize(table, full=True)
    assert full.num_files_removed == 9
    assert {file.tags["ZCUBE_ZORDER_BY"] for file in await live(table)} == {'["b"]'}
    peer = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table()
    assert peer.num_rows == 7000
    assert len(await contents(table)) == 7000


async def test_rows_stay_clustered_by_a_column_whatever_it_is_called(tmp_path: Path) -> None:
    mapped = {"delta.columnMapping.mode": "name"}
    table = await create_table(str(tmp_path), SCHEMA, cluster_by=["s.x"], properties=mapped)
    await write_table(table, rows(200))
    assert (await optimize(table)).num_files_removed == 1
    await rename_column(table, "s", "t")
    assert (await optimize(table, full=True)).versions == ()
    # another column of the name that it had
    await add_columns(table, SCHEMA.remove(4).remove(2).remove(1).remove(0))
    await analyze(table, columns=["s"])
    await cluster_by(table, ["s.x"])
    assert (await optimize(table)).versions == ()
    assert (await optimize(table, full=True)).num_files_removed == 1
    (file,) = await live(table)
    assert orjson.loads(file.tags["ZCUBE_ZORDER_BY"]) == ["s.x"]
    # what others have clustered says what the columns were called
    tags = {name: tag for name, tag in file.tags.items() if name.startswith("ZCUBE")}
    configuration = (await latest_state(table)).configuration
    for name, bins in (("s.x", 0), ("id", 1)):
        theirs = replace(file, tags={**tags, "ZCUBE_ZORDER_BY": f'["{name}"]'})
        plan = cubes.plan_clustering(
            configuration, [theirs], [("s", "x")], FileSizes(1, 0), cubes.CubeSizes(), full=True
        )
        assert len(plan.bins) == bins


def cubes_of(files: list[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for file in files:
        found[file.tags["ZCUBE_ID"]].append(file)
    return dict(found)


async def test_tasks_can_be_pickled() -> None:
    from adelta.operations.rearrange.bins import FileSizes
    from adelta.table import roots_of

    table = await create_table("memory://order/pickled", SCHEMA)
    for seed in range(2):
        await write_table(table, rows(300, seed))
    state = await latest_state(table)
    plan = cubes.plan_z_order(
        state.configuration, await live(table), [("a",)], FileSizes(1 << 20, 1 << 20)
    )
    (planned,) = plan.bins
    task = pickle.loads(pickle.dumps(planned.task))
    result = await task.run(roots_of(table))
    assert [orjson.loads(add.stats)["numRecords"] for add in result.adds] == [600]
