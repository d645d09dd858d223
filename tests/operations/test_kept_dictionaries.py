"""Texts that repeat go from file to file as numbers: contents, statistics and files as ever."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.operations import create_table, delete, merge, update, write_table
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.statistics import StatisticsCollector
from adelta.parquet.write.writer import ParquetObjectWriter
from adelta.storage.memory import MemoryStore
from adelta.table import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.table import Table

ROWS = 10_000
SCHEMA = pa.schema(
    [pa.field("id", pa.int64()), pa.field("kind", pa.string(), nullable=False), ("t", pa.string())]
)
NUMBERS = pa.dictionary(pa.int32(), pa.string())


def rows(first: int, letters: str) -> list[dict[str, Any]]:
    return [
        {"id": n, "kind": letters[n % len(letters)] * 9, "t": None if n % 5 == 0 else f"t{n % 50}"}
        for n in range(first, first + ROWS)
    ]


async def made(uri: str) -> tuple[Table, list[dict[str, Any]]]:
    table = await create_table(uri, SCHEMA)
    expected = []
    for first, letters in ((0, "abc"), (ROWS, "bxyz")):
        given = rows(first, letters)
        await write_table(table, pa.Table.from_pylist(given, SCHEMA))
        expected += given
    return table, expected


async def contents(table: Table) -> list[dict[str, Any]]:
    found = await (await open_table(table.uri).snapshot()).scan().to_arrow()
    return found.sort_by("id").to_pylist()


async def files(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await (await table.snapshot()).files()).to_pylist()
    return found


async def test_deleted_rows_leave_the_others_as_they_were(tmp_path: Path) -> None:
    table, expected = await made(str(tmp_path))
    await delete(table, "id % 3 = 0 OR kind = 'zzzzzzzzz'")
    kept = [r for r in expected if r["id"] % 3 and r["kind"] != "z" * 9]
    assert await contents(table) == kept
    (written,) = await files(table)
    said = orjson.loads(written["stats"])
    assert said["minValues"]["kind"] == min(r["kind"] for r in kept)
    assert said["maxValues"]["kind"] == max(r["kind"] for r in kept) == "y" * 9
    assert said["nullCount"]["t"] == sum(r["t"] is None for r in kept)
    path = tmp_path / written["path"]
    assert pq.read_schema(path).field("kind").type == pa.string()
    column = pq.read_metadata(path).row_group(0).column(1)
    assert column.statistics.max == "y" * 9
    assert "RLE_DICTIONARY" in column.encodings
    assert "PLAIN" not in {e for e in column.encodings if not column.has_dictionary_page}
    other = deltalake.DeltaTable(str(tmp_path)).to_pyarrow_table().sort_by("id")
    assert other.to_pylist() == kept


@pytest.mark.parametrize("feed", ["false", "true"])
async def test_merged_rows_stand_beside_copied_ones(feed: str) -> None:
    table = await create_table(
        f"memory://{uuid.uuid4()}/t", SCHEMA, properties={"delta.enableChangeDataFeed": feed}
    )
    expected = rows(0, "abc")
    await write_table(table, pa.Table.from_pylist(expected, SCHEMA))
    new = [{"id": n, "kind": f"new {n}", "t": None} for n in range(7, 2 * ROWS, 1000)]
    done = await (
        merge(table, pa.Table.from_pylist(new, SCHEMA), "target.id = source.id")
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )
    assert done.num_target_rows_updated == ROWS // 1000
    merged = {row["id"]: row for row in (*expected, *new)}
    assert await contents(table) == [merged[n] for n in sorted(merged)]


async def test_updated_rows_stand_beside_copied_ones(tmp_path: Path) -> None:
    table, expected = await made(str(tmp_path))
    await update(table, {"kind": "concat(kind, t)"}, "t = 't7' OR t = 't8'")
    for row in expected:
        row["kind"] += row["t"] if row["t"] in ("t7", "t8") else ""
    assert await contents(table) == expected


@pytest.mark.parametrize("first", ["texts", "numbers"])
@pytest.mark.parametrize("dictionary", [True, False, ("id",)])
async def test_a_file_takes_texts_and_numbers_of_texts(
    first: str, dictionary: bool | tuple[str, ...]
) -> None:
    schema = pa.schema([("id", pa.int64()), ("t", pa.string())])
    plain = pa.table({"id": range(100), "t": [f"t{n % 7}" for n in range(100)]}, schema)
    numbers = plain.set_column(1, "t", plain["t"].cast(NUMBERS))
    other = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 2], pa.int32()), pa.array(["unused", "x", "a", "zz unused"])
    )
    more = pa.table({"id": [1, 2, 3], "t": other})
    groups = [[plain, numbers], [plain], [numbers, more]]
    if first == "numbers":
        groups.reverse()
    store = MemoryStore("memory://files")
    statistics = StatisticsCollector(schema, [("id",), ("t",)])
    options = WriterOptions(dictionary=dictionary)
    async with ParquetObjectWriter(
        store, "f.parquet", schema=schema, options=options, statistics=statistics
    ) as writer:
        for group in groups:
            for table in group:
                await writer.write(table)
            await writer.flush()
    found = pq.read_table(pa.BufferReader(await store.get("f.parquet")))
    expected = [row for group in groups for table in group for row in table.to_pylist()]
    assert found.schema.field("t").type == pa.string()
    assert found.to_pylist() == expected
    told: Any = statistics.result().columns["t"]
    assert (told.min.as_py(), told.max.as_py(), told.null_count) == ("a", "x", 1)
