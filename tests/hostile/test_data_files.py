"""Data files that are gone, cut short, damaged, or far larger inside than outside."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import anyio
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidTableError, MissingDataFileError, UnsupportedFeatureError
from adelta.kernel.schema.arrow import from_arrow_schema
from adelta.kernel.schema.json import schema_to_string
from adelta.parquet.reader import ParquetFile
from adelta.storage.local import LocalStore
from adelta.storage.memory import MemoryStore
from tests.hostile.reading import DV, failure_of, parquet, table_with
from tests.support import logs

if TYPE_CHECKING:
    from pathlib import Path

GOOD = parquet()
DAMAGED = {
    "empty": b"",
    "no Parquet": b"PAR1 something else PAR1",
    "cut in half": GOOD[: len(GOOD) // 2],
    "without its last byte": GOOD[:-1],
    "without its front": GOOD[64:],
    "zeros": bytes(4096),
    "encrypted": GOOD[:-4] + b"PARE",
    "an announced footer larger than the file": GOOD[:-8] + b"\xff\xff\xff\x7fPAR1",
}


async def _with(data: bytes, **more: Any) -> MemoryStore:
    store = await table_with(orjson.dumps(logs.add("a.parquet", size=len(data), **more)))
    await store.put("a.parquet", data)
    return store


@pytest.mark.parametrize("kind", DAMAGED)
async def test_a_damaged_data_file_is_one_error_that_names_it(kind: str) -> None:
    failure = await failure_of(await _with(DAMAGED[kind]))
    assert isinstance(failure, InvalidTableError)
    assert "a.parquet" in str(failure)
    assert any(word in str(failure).lower() for word in ("restore", "rewrite"))


async def test_a_data_file_that_is_gone_is_named_with_what_to_do() -> None:
    store = await _with(GOOD)
    await store.delete(["a.parquet"])
    failure = await failure_of(store)
    assert isinstance(failure, MissingDataFileError)
    assert "a.parquet" in str(failure)
    assert "fsck" in str(failure)


_LIES_OF_A_TYPE = """
import asyncio, glob, sys
import pyarrow as pa
import adelta
from adelta.errors import InvalidTableError

async def main():
    await adelta.write_table(sys.argv[1], pa.table({"s": ["a", "b", "c"] * 2000}))
    (path,) = glob.glob(sys.argv[1] + "/*.parquet")
    data = bytearray(open(path, "rb").read())
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    at = data.index(b"\x1c\x15\x0c", footer) + 2  # the type that a column chunk says it has
    data[at] = int(sys.argv[2])
    open(path, "wb").write(data)
    async with adelta.open_table(sys.argv[1]) as table:
        try:
            await (await table.snapshot()).scan().to_arrow()
        except InvalidTableError as error:
            print(error)

asyncio.run(main())
"""


@pytest.mark.parametrize("kind", [2, 4, 14])
def test_a_chunk_of_another_type_than_the_schema_s_does_not_end_the_process(
    tmp_path: Path, kind: int
) -> None:
    command = [sys.executable, "-c", _LIES_OF_A_TYPE, str(tmp_path / "t"), str(kind)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "where the schema says BYTE_ARRAY" in done.stdout


@pytest.mark.parametrize("size", [-1, 0, 7, 1 << 62])
async def test_a_size_that_the_log_has_wrong_does_not_matter(size: int) -> None:
    store = await table_with(orjson.dumps(logs.add("a.parquet", size=size)))
    assert await failure_of(store) is None


@pytest.mark.parametrize(
    "change",
    [
        {"cardinality": 7},
        {"cardinality": 2**40},
        {"sizeInBytes": 3},
        {"sizeInBytes": 2**31 - 1},
        {"pathOrInlineDv": "00000"},
        {"pathOrInlineDv": "~~~~~"},
        {"pathOrInlineDv": "x" * 100_000},
        {"storageType": "z"},
        {"storageType": "u", "pathOrInlineDv": "short"},
        {"storageType": "u", "pathOrInlineDv": "~" * 20},
        {"storageType": "p", "pathOrInlineDv": "gone.bin"},
        {"storageType": "p", "pathOrInlineDv": "a.parquet", "offset": 2**31 - 1},
        {"storageType": "p", "pathOrInlineDv": "a.parquet", "offset": 4},
    ],
)
async def test_a_damaged_deletion_vector_is_one_error(change: dict[str, Any]) -> None:
    failure = await failure_of(await _with(GOOD, deletionVector=DV | change))
    assert isinstance(failure, InvalidTableError | UnsupportedFeatureError)
    assert any(word in str(failure) for word in ("deletion vector", "Base85", "deletes"))


def _sevens(groups: int) -> bytes:
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, pa.schema({"id": pa.int64()})) as writer:
        rows = pa.table({"id": pa.repeat(pa.scalar(7, pa.int64()), 20_000_000)})
        for _ in range(groups):
            writer.write_table(rows, row_group_size=20_000_000)
    return sink.getvalue()


MEASURED = """
import sys, time
import adelta.sync
from tests.support.memory import peak_bytes

rows = 0
for batch in adelta.sync.open_table(sys.argv[1]).snapshot().scan().batches():
    if rows == 0:
        time.sleep(1)  # what is read ahead has the time to grow
    rows += batch.num_rows
print(rows, peak_bytes())
"""


async def test_rows_that_unfold_a_thousandfold_are_read_in_bounded_memory(tmp_path) -> None:
    """240 million sevens, 2 GB of memory, lie in a file of some kilobytes."""
    data = _sevens(12)
    assert len(data) < 1 << 20
    store = LocalStore(tmp_path)
    await store.put("a.parquet", data)
    line = logs.add("a.parquet", size=len(data))
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata(), line)
    done = await anyio.run_process([sys.executable, "-c", MEASURED, str(tmp_path)])
    rows, peak = map(int, done.stdout.split())
    assert rows == 240_000_000
    assert peak < 1200 << 20


async def test_what_a_row_group_unfolds_to_counts_as_its_size() -> None:
    store = MemoryStore()
    await store.put("x.parquet", _sevens(1))
    file = await ParquetFile.open(store, "x.parquet")
    assert file.layout.uncompressed_bytes(None, 0) >= 160_000_000


async def test_a_row_group_that_no_memory_holds_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 100 << 20)
    failure = await failure_of(await _with(_sevens(1)))
    assert isinstance(failure, InvalidTableError)
    for part in ("a.parquet", "row group 0", "20,000,000 rows", "smaller row groups"):
        assert part in str(failure)


def _one_text(rows: int, length: int, **options: Any) -> bytes:
    """A file of one text that a dictionary holds once, and every row repeats."""
    indices = pa.repeat(pa.scalar(0, pa.int32()), rows)
    column = pa.DictionaryArray.from_arrays(indices, pa.array(["x" * length]))
    sink = io.BytesIO()
    table = pa.table({"text": column})
    settings = {"store_schema": False, "dictionary_pagesize_limit": 1 << 30, **options}
    pq.write_table(table, sink, row_group_size=rows, **settings)
    return sink.getvalue()


SCHEMA_OF_TEXT = schema_to_string(from_arrow_schema(pa.schema({"text": pa.string()})))
FAILING = """
import sys
import adelta.sync
from adelta.errors import AdeltaError
from tests.support.memory import peak_bytes

try:
    rows = adelta.sync.open_table(sys.argv[1]).snapshot().scan().to_arrow().num_rows
except AdeltaError as error:
    rows = error
print(peak_bytes(), rows)
"""


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
async def test_a_text_that_millions_of_rows_repeat_is_refused_before_it_is_made(
    tmp_path, codec
) -> None:
    """Two terabytes lie in a file of a megabyte at most."""
    data = _one_text(2_000_000, 1 << 20, compression=codec)
    assert len(data) < 2 << 20
    store = LocalStore(tmp_path)
    await store.put("a.parquet", data)
    line = logs.add("a.parquet", size=len(data))
    schema = logs.metadata(schemaString=SCHEMA_OF_TEXT)
    await logs.put_commit(store, 0, logs.protocol(), schema, line)
    done = await anyio.run_process([sys.executable, "-c", FAILING, str(tmp_path)])
    peak, _, said = done.stdout.decode().partition(" ")
    for part in ("a.parquet", "row group 0", "2,000,000 rows", "smaller row groups"):
        assert part in said
    assert int(peak) < 300 << 20


async def _read(data: bytes) -> pa.Table:
    store = MemoryStore()
    await store.put("x.parquet", data)
    return await (await ParquetFile.open(store, "x.parquet")).read()


async def test_a_text_that_many_rows_repeat_is_read_where_there_is_room_for_it() -> None:
    table = await _read(_one_text(100_000, 1000))
    assert table.column("text").unique().to_pylist() == ["x" * 1000]
    assert table.num_rows == 100_000


@pytest.mark.parametrize("shape", ["list", "struct", "map"])
async def test_texts_that_repeat_inside_lists_structs_and_maps_count(monkeypatch, shape) -> None:
    texts = ["x" * 10_000] * 3000 + [None]
    column = {
        "list": pa.array([texts]),
        "struct": pa.array([{"s": text} for text in texts]),
        "map": pa.array([[("k", text)] for text in texts], pa.map_(pa.string(), pa.string())),
    }[shape]
    sink = io.BytesIO()
    pq.write_table(pa.table({"column": column}), sink)
    assert (await _read(sink.getvalue())).column("column").to_pylist() == column.to_pylist()
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 29_900_000)
    with pytest.raises(InvalidTableError, match=r"x\.parquet: its row group 0"):
        await _read(sink.getvalue())
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 30_200_000)
    assert (await _read(sink.getvalue())).num_rows == len(column)


async def test_texts_of_which_each_repeats_the_one_before_are_decoded_in_parts(monkeypatch) -> None:
    texts = pa.array([f"{'y' * 200_000}{n}" for n in range(500)])
    sink = io.BytesIO()
    settings: dict[str, Any] = {"column_encoding": {"text": "DELTA_BYTE_ARRAY"}}
    pq.write_table(pa.table({"text": texts}), sink, use_dictionary=False, **settings)
    assert len(sink.getvalue()) < 100_000
    monkeypatch.setattr("adelta.parquet.guard.unfolding._AT_ONCE", 10_000_000)
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 90_000_000)
    with pytest.raises(InvalidTableError, match=r"x\.parquet: its row group 0"):
        await _read(sink.getvalue())
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 110_000_000)
    assert (await _read(sink.getvalue())).column("text").combine_chunks().equals(texts)


@pytest.mark.parametrize("codec", ["zstd", "gzip"])
async def test_pages_that_unfold_to_more_than_the_footer_says_are_refused(codec) -> None:
    """300 MB of zeros, of which the footer admits a thousand bytes."""
    sink = io.BytesIO()
    rows = pa.table({"bytes": pa.array([bytes(300_000_000)], pa.binary())})
    pq.write_table(rows, sink, compression=codec, use_dictionary=False, write_statistics=False)
    data = sink.getvalue()
    told = pq.read_metadata(sink).row_group(0).column(0).total_uncompressed_size
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    honest = _varint(told * 2)
    assert honest in data[footer:]
    small = bytes([0x80 | 2000 & 0x7F, 0x80 | 2000 >> 7, 0x80, 0x80, 0])
    lying = data[:footer] + data[footer:].replace(honest, small)
    assert len(lying) == len(data)
    with pytest.raises(InvalidTableError, match=r"x\.parquet: a column .* unfolds to 300,000,"):
        await _read(lying)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
