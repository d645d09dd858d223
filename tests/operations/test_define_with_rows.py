"""CREATE TABLE AS SELECT, from rows that are there."""

from __future__ import annotations

import pyarrow as pa

import adelta
from adelta.operations.define_with_rows import define_with_rows

LOOSE = pa.schema([("id", pa.int64()), ("many", pa.list_(pa.struct([("x", pa.int64())])))])


async def test_columns_of_rows_without_nulls_take_nulls_later(tmp_path):
    item = pa.field("item", pa.struct([pa.field("x", pa.int64(), nullable=False)]), nullable=False)
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("many", pa.list_(item))])
    rows = pa.table({"id": [1], "many": [[{"x": 1}]]}, schema=schema)
    async with adelta.open_table(tmp_path / "t") as table:
        assert await define_with_rows(table, rows, schema, mode="create") == 1
        more = pa.table({"id": [None], "many": [[None, {"x": None}]]}, schema=LOOSE)
        await adelta.write_table(table, more)
        found = await (await table.snapshot()).scan().to_arrow()
    assert found.sort_by("id").to_pylist() == [*rows.to_pylist(), *more.to_pylist()]
