"""A fetched row group, slice by slice, is what a read of it is."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.parquet import column_slices as slices_module
from adelta.parquet.column_slices import ColumnSlices
from adelta.parquet.reader import ParquetFile
from tests.parquet.recording_store import stored

ROWS = 3000
S = pa.struct([("x", pa.int32()), ("m", pa.map_(pa.string(), pa.int32())), ("t", pa.string())])
TABLE = pa.table(
    {
        "id": list(range(ROWS)),
        "s": pa.array(
            [
                None if n % 11 == 0 else {"x": n, "m": [("k", n)] * (n % 3), "t": str(n) * (n % 5)}
                for n in range(ROWS)
            ],
            S,
        ),
    }
)


async def opened(**settings: Any) -> ParquetFile:
    return await ParquetFile.open(await stored(TABLE, **settings), "f.parquet")


@pytest.mark.parametrize("size", [1, 100, 5000, 1 << 20])
@pytest.mark.parametrize(
    "columns", [["id"], [("s", "x")], [("s", "m")], [("s", "t"), ("s", "x")], ["s"]], ids=str
)
async def test_slices_are_the_column_in_order(columns: list[Any], size: int) -> None:
    file = await opened(row_group_size=1000)
    fetched = await file.fetch(row_groups=[1])
    with ColumnSlices(file, fetched) as slices:
        found = list(slices.of(columns, size))
    expected = (await file.read(columns, row_groups=[1])).column(0)
    assert pa.chunked_array(found).equals(expected)
    assert (len(found) == 1) == (size == 1 << 20)


async def test_no_slice_has_very_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices_module, "MOST_ROWS", 300)
    file = await opened()
    with ColumnSlices(file, await file.fetch(["id"], row_groups=[0])) as slices:
        lengths = [len(part) for part in slices.of(["id"], 1 << 20)]
    assert sum(lengths) == ROWS
    assert max(lengths) <= 300


async def test_columns_may_be_taken_one_after_the_other_and_left_early() -> None:
    file = await opened()
    with ColumnSlices(file, await file.fetch(row_groups=[0])) as slices:
        first = slices.of(["id"], 100)
        assert next(first)[0].as_py() == 0
        first.close()
        assert sum(len(part) for part in slices.of([("s", "x")], 100)) == ROWS
        assert sum(len(part) for part in slices.of(["id"], 100)) == ROWS


async def test_what_was_fetched_before_is_not_fetched_again() -> None:
    store = await stored(TABLE)
    file = await ParquetFile.open(store, "f.parquet", tail=64)
    some = await file.fetch(["id"], row_groups=[0])
    store.asked()
    both = await file.fetch(["id", ("s", "x")], row_groups=[0], having=some)
    ((_, ranges),) = store.asked()
    assert sum(end - start for start, end in ranges) == file.layout.column_bytes([("s", "x")], 0)
    with ColumnSlices(file, both) as slices:
        assert sum(len(part) for part in slices.of(["id"], 100)) == ROWS
    again = await file.fetch([("s", "x")], row_groups=[0], having=both)
    assert store.asked() == []
    with ColumnSlices(file, again) as slices:
        assert sum(len(part) for part in slices.of([("s", "x")], 100)) == ROWS


async def test_a_column_that_is_not_there_is_named() -> None:
    file = await opened()
    fetched = await file.fetch(["id"], row_groups=[0])
    with ColumnSlices(file, fetched) as slices, pytest.raises(SchemaMismatchError, match="nothing"):
        list(slices.of(["nothing"], 100))


async def test_damage_is_an_error_that_names_the_object() -> None:
    store = await stored(TABLE, use_dictionary=False, compression="zstd")
    data = bytearray(await store.get("f.parquet"))
    data[4:1200] = bytes(1196)
    await store.put("f.parquet", bytes(data))
    file = await ParquetFile.open(store, "f.parquet")
    fetched = await file.fetch(["id"], row_groups=[0])
    with (
        ColumnSlices(file, fetched) as slices,
        pytest.raises(InvalidTableError, match=r"f\.parquet"),
    ):
        list(slices.of(["id"], 1000))


async def test_texts_that_a_dictionary_repeats_are_refused_before_they_fill_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 30 << 20)
    table = pa.table({"t": ["x" * 20_000] * ROWS})  # 60 MB of which the file has 20 kB
    file = await ParquetFile.open(await stored(table), "f.parquet")
    fetched = await file.fetch(row_groups=[0])
    with ColumnSlices(file, fetched) as slices, pytest.raises(InvalidTableError, match="more than"):
        list(slices.of(["t"], 1 << 20))
    monkeypatch.setattr("adelta.parquet.guard.decoding._LARGEST_ROW_GROUP", 90 << 20)
    with ColumnSlices(file, await file.fetch(row_groups=[0])) as slices:
        assert sum(len(part) for part in slices.of(["t"], 1 << 20)) == ROWS
