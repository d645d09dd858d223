"""How data files are to be: what `write_table` and `transaction` take, and what tables say."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import InvalidOptionError
from adelta.write.layout import DataFileLayout
from adelta.write.spec import WriteSpec

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": list(range(1000)), "p": [i % 3 for i in range(1000)]})


async def columns(path: str) -> list[pq.ColumnChunkMetaData]:
    async with adelta.open_table(path) as table:
        files = (await (await table.snapshot()).files()).column("path").to_pylist()
    metadata = pq.read_metadata(f"{path}/{files[0]}")
    return [metadata.row_group(0).column(i) for i in range(metadata.num_columns)]


async def test_options_of_a_write_go_before_the_tables_properties(tmp_path: Path) -> None:
    path = str(tmp_path)
    properties = {"delta.parquet.compression.codec": "gzip"}
    await adelta.write_table(path, ROWS, properties=properties)
    assert {c.compression for c in await columns(path)} == {"GZIP"}
    keep = adelta.WriterOptions(bloom_filters=(adelta.BloomFilter("id", 1000),))
    await adelta.write_table(path, ROWS, mode="overwrite", writer_options=keep)
    assert [(c.compression, c.bloom_filter_offset is not None) for c in await columns(path)] == [
        ("GZIP", True),
        ("GZIP", False),
    ]
    own = adelta.WriterOptions(columns=(adelta.ColumnOptions("p", "brotli"),), compression="zstd")
    await adelta.write_table(path, ROWS, mode="overwrite", writer_options=own)
    assert [c.compression for c in await columns(path)] == ["ZSTD", "BROTLI"]


def test_options_name_columns_as_the_table_does() -> None:
    def field(name: str, number: int, data_type: object) -> dict[str, object]:
        mapped = {
            "delta.columnMapping.id": number,
            "delta.columnMapping.physicalName": f"c{number}",
        }
        return {"name": name, "type": data_type, "nullable": True, "metadata": mapped}

    inner = {"type": "struct", "fields": [field("x", 2, "long"), field("y", 3, "long")]}
    schema = {"type": "struct", "fields": [field("p", 4, "long"), field("s", 1, inner)]}
    options = adelta.WriterOptions(
        bloom_filters=(adelta.BloomFilter("s.y"),), columns=(adelta.ColumnOptions("s", "gzip"),)
    )
    spec = WriteSpec(json.dumps(schema), ("p",), (), "name", writer_options=options)
    found = DataFileLayout.of(spec).options
    assert found.bloom_filters[0].column == ("c1", "c3")
    assert found.columns[0].column == ("c1",)


async def test_options_that_name_no_column_of_the_files_are_refused(tmp_path: Path) -> None:
    path = str(tmp_path)
    await adelta.create_table(path, ROWS.schema, partition_by=["p"])
    for name, says in (("p", "which data files do not hold"), ("nope", "none of that name")):
        wrong = adelta.WriterOptions(columns=(adelta.ColumnOptions(name, "zstd"),))
        with pytest.raises(InvalidOptionError, match=says):
            await adelta.write_table(path, ROWS, writer_options=wrong)


async def test_a_transaction_writes_files_of_the_size_asked_for(tmp_path: Path) -> None:
    path = str(tmp_path)
    await adelta.create_table(path, ROWS.schema)
    small = adelta.DataFileOptions(target_file_size=1000)
    async with adelta.open_table(path) as table:
        async with table.transaction(data_files=small) as tx:
            for start in range(0, 1000, 250):
                await tx.append(ROWS.slice(start, 250))
        assert (await (await table.snapshot()).files()).num_rows >= 4
    with pytest.raises(InvalidOptionError, match="target_file_size is 0"):
        await adelta.write_table(path, ROWS, target_file_size=0)


@pytest.mark.parametrize("by_property", [False, True])
async def test_optimize_write_gathers_the_rows_of_each_partition(
    tmp_path: Path, by_property: bool
) -> None:
    path = str(tmp_path)
    properties = {"delta.autoOptimize.optimizeWrite": "true"} if by_property else {}
    schema = pa.schema([("p", pa.int64()), ("text", pa.string())])
    await adelta.create_table(path, schema, partition_by=["p"], properties=properties)
    batches = [
        pa.record_batch([[i % 3] * 10, [f"{i} {j}" * 50 for j in range(10)]], schema=schema)
        for i in range(30)
    ]
    options = adelta.DataFileOptions(
        memory_budget=2000, optimize_write=None if by_property else True
    )
    async with adelta.open_table(path) as table:
        async with table.transaction(data_files=options) as tx:
            await tx.append(iter(batches))
        snapshot = await table.snapshot()
        assert (await snapshot.files()).num_rows == 3
        assert await snapshot.scan().count() == 300
