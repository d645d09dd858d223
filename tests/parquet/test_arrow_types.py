"""Columns have the types that Parquet's own come to, whatever they were written from."""

from __future__ import annotations

import io
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.parquet.reader import ParquetFile
from adelta.parquet.thrift import encoded_binary
from adelta.storage.memory import MemoryStore
from tests.parquet.recording_store import parquet_bytes

TEXTS = ["a", None, "a longer text, of more than twelve bytes"]
LISTS = [["a", None], None, []]
STRUCT = pa.struct([("x", pa.string_view()), ("l", pa.list_view(pa.large_string()))])
STRUCTS = [{"x": "a", "l": ["b", None]}, None, {"x": None, "l": None}]
PLAIN_STRUCT = pa.struct([("x", pa.string()), ("l", pa.list_(pa.string()))])
PAIRS = [[("a", "b"), ("c", None)], None, []]
KEY = b"ARROW:schema"
LOOKS_LIKE_IT = b"\x18" + encoded_binary(KEY)


async def opened(data: bytes) -> ParquetFile:
    store = MemoryStore()
    await store.put("f.parquet", data)
    return await ParquetFile.open(store, "f.parquet")


@pytest.mark.parametrize(
    ("written", "values", "read"),
    [
        (pa.string_view(), TEXTS, pa.string()),
        (pa.large_string(), TEXTS, pa.string()),
        (pa.dictionary(pa.int8(), pa.string()), TEXTS, pa.string()),
        (pa.json_(), ['"a"', None, "{}"], pa.string()),
        (pa.binary_view(), [b"a", None, b""], pa.binary()),
        (pa.large_binary(), [b"a", None, b""], pa.binary()),
        (pa.uuid(), [b"a" * 16, None, b"b" * 16], pa.binary(16)),
        (pa.list_view(pa.string()), LISTS, pa.list_(pa.string())),
        (pa.large_list_view(pa.string_view()), LISTS, pa.list_(pa.string())),
        (pa.large_list(pa.large_string()), LISTS, pa.list_(pa.string())),
        (pa.list_(pa.int8(), 2), [[1, 2], None, [3, None]], pa.list_(pa.int8())),
        (STRUCT, STRUCTS, PLAIN_STRUCT),
        (
            pa.map_(pa.string_view(), pa.large_string()),
            PAIRS,
            pa.map_(pa.string(), pa.string()),
        ),
        (pa.decimal32(5, 2), [1, None, 2], pa.decimal128(5, 2)),
        (pa.timestamp("us", "Europe/Berlin"), [1, None, 2], pa.timestamp("us", "UTC")),
        (pa.duration("us"), [1, None, 2], pa.int64()),
    ],
    ids=str,
)
async def test_columns_have_the_types_of_parquet_alone(
    written: pa.DataType, values: list[Any], read: pa.DataType
) -> None:
    column = pa.array(values, written)
    file = await opened(parquet_bytes(pa.table({"c": column})))
    assert file.layout.schema.field("c").type == read
    found = await file.read()
    assert found.schema.field("c").type == read
    plain = await (await opened(parquet_bytes(pa.table({"c": column}), store_schema=False))).read()
    assert found.equals(plain)
    assert found.column("c").null_count == column.null_count
    if pa.types.is_nested(written) or written in (pa.string_view(), pa.binary_view()):
        assert found.column("c").to_pylist() == column.to_pylist()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("store_schema", [False, True])
async def test_bytes_that_only_look_like_the_key_stay_what_they_are(
    store_schema: bool, last: bool
) -> None:
    text = LOOKS_LIKE_IT.decode() + "!"
    table = pa.table({"c": pa.array([text, "z"], pa.string_view()), KEY.decode(): [1, 2]})
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema, store_schema=store_schema) as writer:
        writer.write_table(table)
        if last:
            writer.add_key_value_metadata({"about": text, "ARROW:other": text})
    file = await opened(sink.getvalue())
    assert file.layout.schema.names == ["c", KEY.decode()]
    assert file.layout.schema.field("c").type == pa.string()
    statistics = file.layout.statistics(0, "c")
    assert statistics is not None
    assert statistics.min == text
    said = file.layout.metadata.metadata or {}
    assert said.get(b"about") == (text.encode() if last else None)
    assert said.get(b"ARROW:other") == (text.encode() if last else None)
    assert (await file.read()).column("c").to_pylist() == [text, "z"]


async def test_a_footer_that_names_the_schema_twice_is_read_like_any_other() -> None:
    table = pa.table({"c": pa.array(["a"], pa.string_view())})
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({KEY.decode(): "damaged"})
    file = await opened(sink.getvalue())
    assert file.layout.schema.field("c").type == pa.string()
    assert (await file.read()).column("c").to_pylist() == ["a"]


async def test_a_key_written_in_another_way_is_found() -> None:
    data = parquet_bytes(pa.table({"c": pa.array(["a"], pa.string_view())}))
    at = data.index(LOOKS_LIKE_IT)
    length = int.from_bytes(data[-8:-4], "little")
    longer = data[:at] + b"\x08\x02" + data[at + 1 : -8]  # the field's number, spelt out
    file = await opened(longer + (length + 1).to_bytes(4, "little") + b"PAR1")
    assert file.layout.schema.field("c").type == pa.string()
    assert (await file.read()).column("c").to_pylist() == ["a"]
