from __future__ import annotations

import io
import random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.parquet.write.distinct_columns import distinct_columns
from adelta.parquet.write.options import ColumnOptions, WriterOptions
from adelta.parquet.write.writer import ParquetObjectWriter
from adelta.storage.memory import MemoryStore

ROWS = 40_000
SOURCE = random.Random(1)
TABLE = pa.table(
    {
        "id": pa.array(range(ROWS), pa.int64()),
        "key": pa.array([f"{SOURCE.getrandbits(64):016x}" for _ in range(ROWS)]),
        "x": pa.array([SOURCE.random() for _ in range(ROWS)]),
        "few": pa.array([n % 50 for n in range(ROWS)], pa.int32()),
        "cycle": pa.array([n % 20_000 for n in range(ROWS)], pa.int64()),
        "runs": pa.array([n // 8 for n in range(ROWS)], pa.int64()),
        "narrow": pa.array([n % 30_000 for n in range(ROWS)], pa.int16()),
        "flag": pa.array([n % 2 == 0 for n in range(ROWS)]),
        "rare": pa.array([n if n % 100 == 0 else None for n in range(ROWS)], pa.int64()),
        "half": pa.array([n if n % 2 == 0 else None for n in range(ROWS)], pa.int64()),
        "none": pa.nulls(ROWS, pa.string()),
        "day": pa.array(range(ROWS), pa.int32()).cast(pa.date32()),
        "a.b": pa.array(range(ROWS), pa.int64()),
        "nested": pa.array([{"n": n} for n in range(ROWS)]),
    }
)
DISTINCT = ["id", "key", "x", "half", "day", "a.b"]


async def dictionaries(table: pa.Table, options: WriterOptions, rows: int = ROWS) -> list[str]:
    """The leaves that have dictionary pages in a file of the table, put in `rows` at a time."""
    store = MemoryStore()
    async with ParquetObjectWriter(store, "f.parquet", schema=table.schema, options=options) as out:
        for batch in table.to_batches(max_chunksize=rows):
            await out.write(batch)
    data = bytes(await store.get("f.parquet"))
    assert pq.read_table(io.BytesIO(data)).equals(table)
    group = pq.read_metadata(io.BytesIO(data)).row_group(0)
    columns = [group.column(index) for index in range(group.num_columns)]
    return [each.path_in_schema for each in columns if each.has_dictionary_page]


def test_columns_that_repeat_are_told_from_those_that_hardly_do():
    assert distinct_columns(TABLE) == DISTINCT


@pytest.mark.parametrize("rows", [100, 7000])
def test_it_does_not_matter_in_which_pieces_rows_come(rows: int):
    pieces = pa.Table.from_batches(TABLE.to_batches(max_chunksize=rows))
    assert distinct_columns(pieces) == DISTINCT


def test_columns_of_few_rows_are_left_alone():
    assert distinct_columns(TABLE.slice(0, 10_000)) == []


async def test_only_columns_that_repeat_get_a_dictionary():
    left = [name for name in TABLE.column_names if name not in (*DISTINCT, "flag", "nested")]
    assert await dictionaries(TABLE, WriterOptions()) == [*left, "nested.n"]
    assert await dictionaries(TABLE.select(["id", "x"]), WriterOptions(), rows=999) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"dictionary": ("id",)}, ["id"]),
        ({"dictionary": False}, []),
        ({"columns": (ColumnOptions("few", encoding="PLAIN"),)}, ["id", "x"]),
        ({"row_group_rows": 10_000}, ["id", "few", "x"]),
    ],
)
async def test_what_the_options_name_and_small_row_groups_are_written_as_ever(
    options: dict[str, Any], expected: list[str]
):
    table = TABLE.select(["id", "few", "x"])
    assert await dictionaries(table, WriterOptions(**options)) == expected
