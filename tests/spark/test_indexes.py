"""Page indexes and Bloom filters that Spark's own Parquet writer leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.table import Table
from tests.parquet.recording_store import RecordingStore
from tests.support import logs
from tests.support.data_tables import described

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COLUMNS = {
    "id": "id * 2",
    "k": "concat('k', id * 2)",
    "small": "cast(id * 2 as decimal(7, 0))",
    "big": "cast(id * 2 as decimal(25, 2))",
    "day": "date_add(date'1970-01-01', cast(id * 2 as int))",
    "f": "cast(id * 2 as float)",
    "g": "cast(id * 2 as double)",
    "noise": "sha2(cast(id as string), 512)",
}
ROWS = 40_000
HAD_AND_NOT = [
    ("id = 4000", "id = 4001"),
    ("k = 'k4000'", "k = 'k4001'"),
    ("small = 4000", "small = 4001"),
    ("big = 4000.00", "big = 4000.50"),
    ("day = date'1980-12-14'", "day = date'1980-12-15'"),
    ("f = 4000", "f = 4001"),
    ("g = 4000D", "g = 4001D"),
]


@pytest.fixture(scope="module")
def file(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("spark") / "indexed"
    rows = spark.range(0, ROWS, 1, 1).selectExpr(*(f"{sql} as {n}" for n, sql in COLUMNS.items()))
    writer = rows.orderBy("noise").coalesce(1).write  # every row group has all numbers' range
    options = {
        "parquet.block.size": str(1 << 20),
        "parquet.page.size": "16384",
        "parquet.enable.dictionary": "false",
        **{f"parquet.bloom.filter.enabled#{name}": "true" for name in COLUMNS if name != "noise"},
        **{f"parquet.bloom.filter.expected.ndv#{name}": "8000" for name in COLUMNS},
    }
    writer.options(**options).parquet(str(folder))
    (found,) = folder.glob("*.parquet")
    return bytes(found.read_bytes())


@pytest.mark.parametrize(("had", "not_had"), HAD_AND_NOT)
async def test_sparks_filters_keep_the_row_group_of_a_value(
    file: bytes, had: str, not_had: str
) -> None:
    store = RecordingStore()
    await store.put("f.parquet", file)
    line = logs.add("f.parquet", size=len(file))
    await logs.put_commit(store, 0, *described(pq.read_schema(pa.BufferReader(file))), line)
    groups = pq.read_metadata(pa.BufferReader(file)).num_row_groups
    assert groups >= 4
    async with Table("memory://data", store=store) as table:
        snapshot = await table.snapshot()
        for where, rows in ((had, 1), (not_had, 0)):
            store.asked()
            assert (await snapshot.scan(where=where).to_arrow()).num_rows == rows
            asked = [span for kind, spans in store.asked() if kind == "ranges" for span in spans]
            size = sum(end - start for start, end in asked)
            assert size < len(file) / groups * (1 + rows), "of two groups at most"
