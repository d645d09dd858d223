"""What adelta uses of pyarrow without its being documented, and doing without it."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import UnsupportedFeatureError
from adelta.parquet import _pyarrow
from adelta.parquet.reader import ParquetFile
from adelta.storage.memory import MemoryStore

TABLE = pa.table(
    {
        "id": pa.array(range(5000), pa.int64()),
        "text": pa.array([str(n % 7) for n in range(5000)]),
        "nested": pa.array([{"a": n, "b": [str(n)]} for n in range(5000)]),
        "map": pa.array([[("k", n)] for n in range(5000)], pa.map_(pa.string(), pa.int64())),
    }
)


async def opened(table: pa.Table) -> ParquetFile:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=1500, compression="snappy")
    store = MemoryStore()
    await store.put("f.parquet", sink.getvalue().to_pybytes())
    return await ParquetFile.open(store, "f.parquet")


def test_the_installed_pyarrow_is_as_adelta_knows_it() -> None:
    assert _pyarrow.own_reader() is not None


@pytest.mark.parametrize("rows", [None, 700])
async def test_without_it_the_public_api_reads_the_same(
    rows: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_pyarrow, "_READER", None)
    file = await opened(TABLE)
    assert (await file.read()).equals(TABLE)
    assert (await file.read(["nested.b", "id"], row_groups=[1, 3])).num_rows == 2000
    fetched = await file.fetch(["map", "text"])
    found = pa.concat_tables(list(file.slices(fetched, rows)))
    assert found.equals(TABLE.select(["map", "text"]))


async def test_columns_that_it_cannot_tell_apart_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_pyarrow, "_READER", None)
    table = pa.table({"a": [{"b": 1}], "a.b": [2], "c": [3]})
    file = await opened(table)
    assert (await file.read(["c"])).to_pylist() == [{"c": 3}]
    with pytest.raises(UnsupportedFeatureError, match=r"'a\.b'"):
        await file.read(["a.b"])
