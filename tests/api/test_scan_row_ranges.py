"""Of a large row group a scan decodes the rows from the first to the last that it wants."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import adelta
from adelta.operations import delete
from adelta.parquet.reader import ParquetFile
from adelta.read import opener, unit_decoder

if TYPE_CHECKING:
    from pathlib import Path

ROWS = 4000


@pytest.fixture(params=["at once", "in slices", "without indexes"])
async def uri(request: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of one file with row ids, of which some rows are deleted."""
    monkeypatch.setattr(opener, "_NOT_WORTH_A_LOOK", 0)
    if request.param == "in slices":
        monkeypatch.setattr(unit_decoder, "_SLICE_ROWS", 300)
        monkeypatch.setattr(unit_decoder, "_SLICE", 1)
    rows = pa.table(
        {
            "id": range(ROWS),
            "text": [f"text {n}" for n in range(ROWS)],
            "list": [[n] * (n % 3) for n in range(ROWS)],
            "noise": [random.Random(n).randbytes(100) for n in range(ROWS)],
        }
    )
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    options = adelta.WriterOptions(
        compression="zstd",
        dictionary=("text",),
        data_page_bytes=1000,
        page_index=request.param != "without indexes",
    )
    uri = str(tmp_path / request.param)
    await adelta.write_table(uri, rows, properties=properties, writer_options=options)
    await delete(uri, where="id % 10 = 7")
    return uri


@pytest.mark.parametrize(
    ("where", "wanted"),
    [
        ("id >= 1207 and id < 1218", range(1207, 1218)),
        ("id < 3", range(3)),
        (f"id >= {ROWS - 3}", range(ROWS - 3, ROWS)),
        ("id in (2001, 2107, 2300)", [2001, 2107, 2300]),
        ("id in (5, 3990)", [5, 3990]),
        ("id = 2007", []),
        ("id = 2007 or text = 'text 2010'", [2010]),
    ],
)
async def test_rows_lists_and_row_ids_are_those_of_the_table(
    uri: str, where: str, wanted: range | list[int]
):
    kept = [n for n in wanted if n % 10 != 7]
    async with adelta.open_table(uri) as table:
        scan = (await table.snapshot()).scan(where=where, with_row_ids=True)
        found = await scan.to_arrow()
    assert found["id"].to_pylist() == kept
    assert found["text"].to_pylist() == [f"text {n}" for n in kept]
    assert found["list"].to_pylist() == [[n] * (n % 3) for n in kept]
    assert found["_row_id"].to_pylist() == kept


async def test_few_rows_are_all_that_is_decoded(uri: str, monkeypatch: pytest.MonkeyPatch):
    decoded = []
    row_range, slices = ParquetFile.row_range, ParquetFile.slices

    def noted(file: ParquetFile, fetched: Any, rows: range) -> pa.Table:
        decoded.append((len(fetched.columns.leaves), rows))
        return row_range(file, fetched, rows)

    def sliced(file: ParquetFile, fetched: Any, rows: int | None = None, **options: Any) -> Any:
        for table in slices(file, fetched, rows, **options):
            decoded.append((len(fetched.columns.leaves), range(table.num_rows)))
            yield table

    monkeypatch.setattr(ParquetFile, "row_range", noted)
    monkeypatch.setattr(ParquetFile, "slices", sliced)
    async with adelta.open_table(uri) as table:
        rows = await (await table.snapshot()).scan(where="id >= 2000 and id < 2005").to_arrow()
    assert rows.num_rows == 5
    assert decoded.pop(0) == (1, range(ROWS))  # the column that decides
    assert sum(leaves for leaves, _ in decoded) == 4
    assert {rows for _, rows in decoded} == {range(2000, 2005)}


async def test_the_pages_that_are_read_are_what_is_counted(uri: str):
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        before = table.store.stats.bytes_read
        await snapshot.scan(columns=["id", "noise"]).to_arrow()
        all_rows, before = table.store.stats.bytes_read - before, table.store.stats.bytes_read
        where = "id >= 2000 and id < 2005"
        await snapshot.scan(columns=["id", "noise"], where=where).to_arrow()
        few = table.store.stats.bytes_read - before
    assert 0 < few < all_rows / 2


async def test_an_update_reads_the_pages_of_its_rows(uri: str):
    async with adelta.open_table(uri) as table:
        before = table.store.stats.bytes_read
        await (await table.snapshot()).scan(columns=["id", "text", "list", "noise"]).to_arrow()
        all_rows, before = table.store.stats.bytes_read - before, table.store.stats.bytes_read
        await adelta.update(table, {"text": "'new'"}, where="id in (2000, 2002)")
        few = table.store.stats.bytes_read - before
        found = await (await table.snapshot()).scan(where="text = 'new'").to_arrow()
        every = await (await table.snapshot()).scan(columns=["id"]).to_arrow()
    assert sorted(found["id"].to_pylist()) == [2000, 2002]
    assert found["noise"].to_pylist() == [
        random.Random(n).randbytes(100) for n in found["id"].to_pylist()
    ]
    assert sorted(every["id"].to_pylist()) == [n for n in range(ROWS) if n % 10 != 7]
    assert 0 < few < all_rows * (1.2 if "without" in uri else 0.7)
