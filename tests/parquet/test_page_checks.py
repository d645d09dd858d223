from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError
from adelta.parquet.column_slices import ColumnSlices
from adelta.parquet.reader import ParquetFile
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.writer import ParquetObjectWriter
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from tests.parquet.recording_store import stored

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore

N = range(3000)
TABLE = pa.table(
    {
        "id": pa.array(N, pa.int64()),
        "number": [n / 3 if n % 5 else None for n in N],
        "few": [("de", "fr", "it")[n % 3] for n in N],
        "text": [f"text {n * n}" for n in N],
        "list": [list(range(n % 4)) for n in N],
    }
)
SHAPES: dict[str, dict[str, Any]] = {
    "snappy": {},
    "zstd": {"compression": "zstd"},
    "uncompressed": {"compression": "none"},
    "without dictionaries": {"compression": "none", "dictionary": False},
    "in pages of the second version": {"data_page_version": "2.0"},
}


async def written(store: ObjectStore, **options: Any) -> bytes:
    options = {"data_page_bytes": 2000, "row_group_rows": 2000, **options}
    async with ParquetObjectWriter(
        store, "f.parquet", schema=TABLE.schema, options=WriterOptions(**options)
    ) as writer:
        await writer.write(TABLE)
        await writer.close()
    return await store.get("f.parquet")


async def chunks_end(store: ObjectStore) -> int:
    file = await ParquetFile.open(store, "f.parquet")
    leaves = range(file.layout.metadata.num_columns)
    return max(end for _, end in file.layout.places(leaves, range(file.layout.num_row_groups)))


def flipped(data: bytes, at: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[at] ^= 1 << bit
    return bytes(changed)


@pytest.mark.parametrize("shape", SHAPES)
async def test_no_flipped_bit_of_a_page_or_its_header_becomes_a_row(shape: str):
    store = MemoryStore()
    data = await written(store, **SHAPES[shape])
    end = await chunks_end(store)
    numbers = random.Random(1)
    unseen = 0
    for _ in range(150):
        place = numbers.randrange(4, end), numbers.randrange(8)
        await store.put("f.parquet", flipped(data, *place))
        try:
            file = await ParquetFile.open(store, "f.parquet", verify=True)
            assert (await file.read()).equals(TABLE), place
        except InvalidTableError:
            pass
        try:
            plain = await ParquetFile.open(store, "f.parquet")
            unseen += not (await plain.read()).equals(TABLE)
        except InvalidTableError:
            pass
    assert unseen  # what checksums are for


async def test_a_damaged_page_is_named(tmp_path: Path):
    store = LocalStore(tmp_path)
    data = await written(store, compression="none")
    await store.put("f.parquet", data.replace(b"text 4000000", b"text 4000001", 1))
    file = await ParquetFile.open(store, "f.parquet", verify=True)
    assert (await file.read(["id", "few"])).num_rows == len(N)
    with pytest.raises(InvalidTableError, match="column text in row group 1, has other bytes"):
        await file.read()
    assert (await file.read(row_groups=[0])).num_rows == 2000


async def test_slices_of_columns_are_held_to_their_checksums():
    store = MemoryStore()
    data = await written(store, compression="none")
    await store.put("f.parquet", data.replace(b"text 4000000", b"text 4000001", 1))
    file = await ParquetFile.open(store, "f.parquet", verify=True)
    with (
        ColumnSlices(file, await file.fetch(["text"], row_groups=[1])) as slices,
        pytest.raises(InvalidTableError, match="has other bytes than its checksum"),
    ):
        list(slices.of(["text"], 1000))


@pytest.mark.parametrize("checksums", [False, True])
async def test_files_of_other_writers_are_read(checksums: bool):
    options = {"data_page_size": 2000, "write_batch_size": 100, "store_schema": False}
    store = await stored(TABLE, write_page_checksum=checksums, row_group_size=1000, **options)
    file = await ParquetFile.open(store, "f.parquet", verify=True)
    assert (await file.read()).equals(TABLE)
    assert (await file.read(["list"], row_groups=[2])).num_rows == 1000


async def test_checksums_can_be_left_out():
    store = MemoryStore()
    with_checksums = await written(store)
    without = await written(store, page_checksums=False)
    assert len(without) < len(with_checksums)
    assert pq.read_table(pa.BufferReader(without)).equals(TABLE)
    read = pq.read_table(pa.BufferReader(with_checksums), page_checksum_verification=True)
    assert read.equals(TABLE)
