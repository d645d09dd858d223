from __future__ import annotations

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.parquet.decode import repeated_texts as module
from adelta.parquet.decode.repeated_texts import laid_out, repeated_texts
from adelta.parquet.reader import ParquetFile
from tests.parquet.recording_store import parquet_bytes, stored

ROWS = 10_000
TABLE = pa.table(
    {
        "few": pa.array(["de", "fr", None, "", "españa"] * (ROWS // 5)),
        "n": pa.array(range(ROWS)),
        "many": pa.array([f"text number {n}" for n in range(ROWS)]),
        "rare": pa.array([f"text number {n}" if n % 20 == 0 else None for n in range(ROWS)]),
        "empty": pa.array([""] * ROWS),
        "none": pa.nulls(ROWS, pa.string()),
        "a.b": pa.array(["x", "y"] * (ROWS // 2)),
        "bytes": pa.array([b"x", b"y"] * (ROWS // 2)),
        "nested": pa.array([{"few": "x"}] * ROWS),
        "list": pa.array([["x", "y"]] * ROWS),
    }
)


def chosen(data: bytes, groups: tuple[int, ...] = (0,)) -> list[str]:
    metadata = pq.read_metadata(io.BytesIO(data))
    names = {leaf: name for leaf, name in enumerate(TABLE.column_names) if leaf < 7}
    return repeated_texts(metadata, groups, names)


def test_columns_of_few_texts_are_told_from_those_of_many():
    data = parquet_bytes(TABLE)
    assert chosen(data) == ["few", "empty", "a.b"]
    assert chosen(parquet_bytes(TABLE, use_dictionary=False)) == []
    delta = dict.fromkeys(("few", "empty"), "DELTA_BYTE_ARRAY")
    assert chosen(parquet_bytes(TABLE, use_dictionary=["a.b"], column_encoding=delta)) == ["a.b"]


def test_every_row_group_must_repeat_its_texts():
    texts = ["x", "y"] * 2500 + [f"text {n}" for n in range(5000)]
    table = TABLE.set_column(0, "few", pa.array(texts))
    data = parquet_bytes(table, row_group_size=5000)
    assert "few" in chosen(data, (0,))
    assert "few" not in chosen(data, (1,))
    assert "few" not in chosen(data, (0, 1))


@pytest.mark.parametrize("rows", [ROWS, 5000, 100])
@pytest.mark.parametrize("limit", [2**31 - 1, 30_000, 50])
async def test_what_is_read_is_what_was_written(
    rows: int, limit: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "_LARGEST_ARRAY", limit)
    store = await stored(TABLE, row_group_size=rows)
    file = await ParquetFile.open(store, "f.parquet")
    found = await file.read()
    assert found.schema.equals(TABLE.schema)
    assert found.equals(TABLE)
    fetched = await file.fetch(["few", "n"])
    assert file.decode(fetched).equals(TABLE.select(["few", "n"]))


def test_row_groups_come_as_one_array_unless_it_would_be_too_long(monkeypatch: pytest.MonkeyPatch):
    chunks = [
        pa.array(["one", "two", None]).dictionary_encode(),
        pa.array(["x"]).dictionary_encode(),
    ]
    kind = pa.field("a", pa.dictionary(pa.int32(), pa.string()), metadata={"PARQUET:field_id": "7"})
    table = pa.table([pa.chunked_array(chunks)], schema=pa.schema([kind]))
    texts = laid_out(table, ["a"])
    assert texts.schema.equals(pa.schema([kind.with_type(pa.string())]), check_metadata=True)
    assert texts["a"].num_chunks == 1
    assert texts["a"].to_pylist() == ["one", "two", None, "x"]
    monkeypatch.setattr(module, "_LARGEST_ARRAY", 3)
    apart = laid_out(table, ["a"])["a"]
    assert apart.to_pylist() == ["one", "two", None, "x"]
    assert apart.num_chunks == 4


def test_columns_that_are_dictionaries_in_their_own_right_stay_so():
    table = pa.table({"a": pa.array(["x", "y"]).dictionary_encode()})
    assert laid_out(table, ["b"]).equals(table)
