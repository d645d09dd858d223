from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError
from adelta.parquet.decode import decompressed_chunks as module
from adelta.parquet.decode.decompressed_chunks import decompressed_chunks
from adelta.parquet.reader import ParquetFile
from adelta.storage.local import LocalStore
from tests.parquet.many_types import PAGES, READ, ROWS, SHAPES, TABLE
from tests.parquet.recording_store import parquet_bytes, stored

if TYPE_CHECKING:
    from adelta.parquet.decode.chunk_source import ChunkSource


@pytest.fixture(autouse=True)
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small files take the way of large ones."""
    monkeypatch.setattr(module, "_FEWEST_BYTES", 0)


async def decompressed(file: ParquetFile) -> ChunkSource | None:
    """What Arrow is given of the file in the place of what is stored."""
    fetched = await file.fetch()
    with file.bytes.source(fetched) as source:
        return decompressed_chunks(file.layout, source, fetched.row_groups, fetched.columns.leaves)


@pytest.mark.parametrize("least", [0, 1.05])
@pytest.mark.parametrize("shape", SHAPES)
async def test_decompressed_chunks_hold_what_was_written(
    shape: str, least: float, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_LEAST_UNFOLDED", least)
    options = {**SHAPES[shape], "store_schema": False}
    data = parquet_bytes(TABLE, compression="snappy", **options)
    file = await ParquetFile.open(
        await stored(TABLE, compression="snappy", **SHAPES[shape]), "f.parquet"
    )
    chunks = await decompressed(file)
    assert chunks is not None
    assert chunks.metadata.num_rows == ROWS
    codecs = {
        chunks.metadata.row_group(group).column(leaf).compression
        for group in chunks.row_groups
        for leaf in range(file.layout.metadata.num_columns)
    }
    assert codecs == ({"UNCOMPRESSED", "SNAPPY"} if least else {"UNCOMPRESSED"})
    found = await file.read()
    expected = pq.read_table(pa.BufferReader(data))  # without the types it was written from
    assert found.equals(expected)
    assert found.schema.equals(expected.schema, check_metadata=True)


async def test_a_variable_leaves_all_of_snappy_to_arrow(monkeypatch: pytest.MonkeyPatch):
    file = await ParquetFile.open(await stored(TABLE, compression="snappy"), "f.parquet")
    assert await decompressed(file) is not None
    before = await file.read()
    monkeypatch.setenv("ADELTA_SNAPPY", "arrow")
    assert await decompressed(file) is None
    assert (await file.read()).equals(before)


async def test_where_snappy_has_saved_nothing_the_bytes_are_left_to_arrow():
    numbers = random.Random(1)
    table = pa.table({"n": [numbers.randrange(1 << 62) for _ in range(5000)]})
    file = await ParquetFile.open(await stored(table, compression="snappy"), "f.parquet")
    assert await decompressed(file) is None
    assert (await file.read()).equals(table)


@pytest.mark.parametrize("shape", SHAPES)
async def test_some_columns_and_row_groups_alone(shape: str):
    file = await ParquetFile.open(
        await stored(TABLE, compression="snappy", **SHAPES[shape]), "f.parquet"
    )
    last = file.layout.num_row_groups - 1
    start = ROWS - file.layout.metadata.row_group(last).num_rows
    found = await file.read(["struct.b.c", "few", "id"], row_groups=[last])
    assert found.column_names == ["struct", "few", "id"]
    assert found.column("id").combine_chunks() == TABLE.column("id").slice(start).combine_chunks()
    assert found.column("few").to_pylist() == TABLE.column("few").slice(start).to_pylist()


async def test_a_file_of_this_machine(tmp_path: Any):
    pq.write_table(TABLE, tmp_path / "f.parquet", compression="snappy", **PAGES)
    file = await ParquetFile.open(LocalStore(tmp_path), "f.parquet", tail=1000)
    assert (await file.fetch()).in_file
    assert await decompressed(file) is not None
    assert (await file.read()).equals(READ)


@pytest.mark.parametrize("codec", ["none", "zstd", "gzip", "lz4", "brotli"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
async def test_what_is_not_snappy_is_left_to_arrow(codec: str, version: str):
    store = await stored(TABLE, compression=codec, data_page_version=version, **PAGES)
    file = await ParquetFile.open(store, "f.parquet")
    assert await decompressed(file) is None
    assert (await file.read()).equals(READ)


async def test_columns_of_several_codecs_are_left_to_arrow():
    codecs = dict.fromkeys(TABLE.column_names, "snappy") | {"number": "zstd"}
    leaves = {"list.list.element": "snappy", "struct.a": "snappy"}
    store = await stored(TABLE, compression={**codecs, **leaves}, **PAGES)
    file = await ParquetFile.open(store, "f.parquet")
    assert await decompressed(file) is None
    assert (await file.read()).equals(READ)


async def test_what_only_looks_like_snappy_is_left_to_arrow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module.Page, "may_be_snappy", lambda *_: True)
    store = await stored(TABLE, compression="lz4", **PAGES)
    file = await ParquetFile.open(store, "f.parquet")
    assert await decompressed(file) is not None  # it is thought to be
    assert (await file.read()).equals(READ)


async def test_few_bytes_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch):
    file = await ParquetFile.open(await stored(TABLE, compression="snappy"), "f.parquet")
    monkeypatch.setattr(module, "_FEWEST_BYTES", file.layout.size)
    assert await decompressed(file) is None


async def test_a_damaged_page_is_said_to_be_damaged():
    table = pa.table({"text": [f"text {n * n}" for n in range(20_000)]})
    data = bytearray(parquet_bytes(table, compression="snappy", use_dictionary=False, **PAGES))
    middle = len(data) // 2
    data[middle : middle + 400] = random.Random(1).randbytes(400)
    store = await stored(table)
    await store.put("damaged", bytes(data))
    file = await ParquetFile.open(store, "damaged")
    with pytest.raises(InvalidTableError, match=r"damaged.*restore it"):
        await file.read()


async def test_chunks_of_very_many_bytes_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_MOST_BYTES", 1000)
    file = await ParquetFile.open(await stored(TABLE, compression="snappy"), "f.parquet")
    assert await decompressed(file) is None
