"""OPTIMIZE and UPDATE that copy column chunks as they are, and when they do not."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import duckdb
import numpy as np
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError, InvariantViolationError
from adelta.operations import (
    add_constraint,
    create_table,
    optimize,
    set_properties,
    update,
    write_table,
)
from adelta.table import open_table

if TYPE_CHECKING:
    from adelta.table import Table

ROWS = 270_000
INNER = pa.struct([("x", pa.int64()), ("tags", pa.list_(pa.string()))])
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("noise", pa.int64()),
        ("name", pa.string()),
        ("price", pa.decimal128(12, 2)),
        ("inner", INNER),
        ("n", pa.int32()),
    ]
)


def rows(first: int, count: int = ROWS) -> pa.Table:
    ids = np.arange(first, first + count)
    noise = np.random.default_rng(first).integers(0, 2**62, count)
    names = pa.array([f"name {n % 1000}" for n in range(count)])
    inner = pa.StructArray.from_arrays(
        [pa.array(ids), pa.array([["a"]] * count, pa.list_(pa.string()))], fields=list(INNER)
    )
    price = pa.array(ids % 500, pa.int32()).cast(pa.decimal128(12, 2))
    numbers = pa.array(ids % 7, pa.int32())
    return pa.table([pa.array(ids), pa.array(noise), names, price, inner, numbers], schema=SCHEMA)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two files of one large row group each."""
    folder = tmp_path_factory.mktemp("made")

    async def make() -> None:
        table = await create_table(str(folder), SCHEMA)
        for first in (0, ROWS):
            await write_table(table, rows(first))

    asyncio.run(make())
    return folder


@pytest.fixture
def table(made: Path, tmp_path: Path) -> Table:
    for source in sorted(made.rglob("*")):
        if source.is_file():
            target = tmp_path / source.relative_to(made)
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(source.read_bytes())
    return open_table(str(tmp_path))


async def live(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await (await table.snapshot()).files()).to_pylist()
    return sorted(found, key=lambda file: orjson.loads(file["stats"])["minValues"]["id"])


async def contents(table: Table) -> pa.Table:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return found.sort_by("id").combine_chunks()


def data_files(table: Table) -> set[Path]:
    return set(Path(table.uri.removeprefix("file://")).glob("*.parquet"))


def chunks_of(table: Table, file: dict[str, Any]) -> list[dict[str, bytes]]:
    """The bytes of the chunks of a file, by row group and column."""
    path = f"{table.uri.removeprefix('file://')}/{file['path']}"
    with open(path, "rb") as opened:
        data = opened.read()
    metadata = pq.read_metadata(path)
    found = []
    for group in range(metadata.num_row_groups):
        columns = {}
        for leaf in range(metadata.num_columns):
            column = metadata.row_group(group).column(leaf)
            start = column.dictionary_page_offset or column.data_page_offset
            columns[column.path_in_schema] = data[start : start + column.total_compressed_size]
        found.append(columns)
    return found


async def test_large_row_groups_are_joined_byte_for_byte(table: Table) -> None:
    before = await contents(table)
    sources = await live(table)
    done = await optimize(table)
    assert (done.num_files_added, done.num_files_removed) == (1, 2)
    (joined,) = await live(table)
    expected = [groups for file in sources for groups in chunks_of(table, file)]
    assert chunks_of(table, joined) == expected
    assert await contents(table) == before
    said = orjson.loads(joined["stats"])
    assert said["numRecords"] == 2 * ROWS
    assert said["minValues"]["id"] == 0
    assert said["maxValues"]["id"] == 2 * ROWS - 1
    assert said["maxValues"]["inner"] == {"x": 2 * ROWS - 1}
    assert said["nullCount"]["inner"] == {"x": 0, "tags": 0}
    assert '"maxValues":{"id":539999,' in joined["stats"]
    assert '"price":499.00' in joined["stats"]


async def test_other_engines_read_what_was_joined(table: Table, tmp_path: Path) -> None:
    before = await contents(table)
    await optimize(table)
    (joined,) = await live(table)
    path = str(tmp_path / joined["path"])
    assert pq.read_table(path, page_checksum_verification=True).num_rows == 2 * ROWS
    assert duckdb.sql(f"SELECT sum(noise) FROM '{path}'").fetchall() == [
        (int(np.sum(before["noise"].to_numpy().astype(object))),)
    ]
    opened = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table(filters=[("id", ">", ROWS + 5)])
    assert opened.num_rows == ROWS - 6
    metadata = pq.read_metadata(path)
    assert all(
        metadata.row_group(group).column(leaf).has_column_index
        for group in range(2)
        for leaf in (0, 1, 2)
    )


async def test_pages_are_skipped_by_the_indexes_that_were_moved(table: Table) -> None:
    await optimize(table)
    snapshot = await open_table(table.uri).snapshot()
    found = await snapshot.scan(["id", "noise"], f"id = {ROWS + 7}").to_arrow()
    assert found["id"].to_pylist() == [ROWS + 7]
    assert found["noise"][0].as_py() == rows(ROWS)["noise"][7].as_py()


@pytest.mark.parametrize("operation", ["optimize", "update"])
async def test_no_damaged_page_is_copied(operation: str, table: Table, tmp_path: Path) -> None:
    (file, _) = await live(table)
    path = tmp_path / file["path"]
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    before = data_files(table)
    with pytest.raises(InvalidTableError, match="has other bytes than its checksum says"):
        await (optimize(table) if operation == "optimize" else update(table, {"n": "n + 1"}))
    assert data_files(table) == before
    assert (await open_table(table.uri).snapshot()).version == 2


async def test_rows_are_encoded_anew_where_the_codec_is_another(table: Table) -> None:
    before = await contents(table)
    await set_properties(table, {"delta.parquet.compression.codec": "snappy"})
    await optimize(table)
    (written,) = await live(table)
    path = f"{table.uri.removeprefix('file://')}/{written['path']}"
    column = pq.read_metadata(path).row_group(0).column(1)
    assert (column.compression, written["path"].endswith(".snappy.parquet")) == ("SNAPPY", True)
    assert await contents(table) == before


async def test_rows_are_encoded_anew_where_pages_have_no_checksums(table: Table) -> None:
    for file in await live(table):
        path = Path(table.uri.removeprefix("file://")) / file["path"]
        found, plain = pq.read_table(path), path.with_suffix(".plain")
        options: Any = {"store_decimal_as_integer": True, "store_schema": False}
        pq.write_table(found, plain, compression="zstd", row_group_size=ROWS, **options)
        path.write_bytes(plain.read_bytes())
    before = await contents(table)
    await optimize(table)
    (written,) = await live(table)
    assert await contents(table) == before
    path = f"{table.uri.removeprefix('file://')}/{written['path']}"
    assert pq.read_table(path, page_checksum_verification=True).num_rows == 2 * ROWS


@pytest.mark.parametrize(
    ("where", "changed"),
    [(None, 2 * ROWS), ("n = 3", None)],
    ids=["all", "some"],
)
async def test_update_copies_the_columns_that_it_does_not_set(
    where: str | None, changed: int | None, table: Table
) -> None:
    before = await contents(table)
    sources = await live(table)
    done = await update(table, {"n": "n + 10", "name": "concat(name, '!')"}, where)
    after = await contents(table)
    mask = np.ones(2 * ROWS, bool)
    if where is not None:
        mask = before["n"].to_numpy() == 3
    assert done.num_updated_rows == int(mask.sum()) == (changed or int(mask.sum()))
    assert np.array_equal(after["n"].to_numpy(), before["n"].to_numpy() + 10 * mask)
    names = np.array(before["name"].to_pylist(), object)
    names[mask] += "!"
    assert after["name"].to_pylist() == names.tolist()
    same = ["id", "noise", "price", "inner"]
    assert after.select(same) == before.select(same)
    for source, written in zip(sources, await live(table), strict=True):
        old, new = orjson.loads(source["stats"]), orjson.loads(written["stats"])
        assert {k: v for k, v in new["maxValues"].items() if k not in ("n", "name")} == {
            k: v for k, v in old["maxValues"].items() if k not in ("n", "name")
        }
        if source["path"] == written["path"]:
            continue
        (was,), (now,) = chunks_of(table, source), chunks_of(table, written)
        assert {name for name in was if was[name] != now[name]} == {"n", "name"}
        assert new["maxValues"]["n"] in (13, 16)
        assert new["maxValues"]["name"].startswith("name 99")
        assert new["numRecords"] == ROWS
    copied = sum(ROWS for s, w in zip(sources, await live(table), strict=True) if s != w)
    assert done.num_copied_rows == copied - done.num_updated_rows


async def test_update_refuses_nulls_where_there_may_be_none(table: Table, tmp_path: Path) -> None:
    before = data_files(table)
    with pytest.raises(InvariantViolationError, match="id"):
        await update(table, {"id": "CASE WHEN id = 300000 THEN NULL ELSE id END"})
    assert data_files(table) == before


async def test_update_holds_whole_rows_to_constraints(table: Table) -> None:
    await add_constraint(table, "few", "n < 100 AND noise >= 0")
    with pytest.raises(InvariantViolationError, match="few"):
        await update(table, {"n": "200"}, "id = 7")
    done = await update(table, {"n": "99"}, "id = 7")
    assert done.num_updated_rows == 1
    assert (await contents(table))["n"][7].as_py() == 99
