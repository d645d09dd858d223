"""VACUUM, RESTORE and DROP on S3: what they do, and by how many requests."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa

import adelta
from adelta._clock import SYSTEM_CLOCK
from adelta._concurrency import map_concurrent
from adelta.storage.resolve import open_store
from adelta.storage.s3 import S3Store
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.stores import LaterStore

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location

DAYS = 8 * 86_400_000
ROWS = pa.table({"id": [1, 2], "p": ["a b", "c"]})


async def test_a_table_on_s3_is_vacuumed_restored_and_dropped(s3_location: S3Location) -> None:
    uri, options = s3_location.uri, s3_location.storage_options
    async with adelta.open_table(uri, options) as table:
        await adelta.write_table(table, ROWS, partition_by=["p"])
        await adelta.write_table(table, ROWS)
        await adelta.delete(table, "id = 1")
        orphans = [f"p=a b/{number:04}%20x.parquet" for number in range(1_100)]
        await map_concurrent(lambda path: table.store.put(path, b"x"), orphans, limit=16)
        await table.store.put("_other/x", b"x")
    inner = open_store(uri, options)
    assert isinstance(inner, S3Store)
    asked: Counter[str] = Counter()
    inner.observe_requests(lambda method, _key, query: asked.update([f"{method} {query[:6]}"]))
    later = ManualClock(SYSTEM_CLOCK.now_ms() + DAYS)
    async with Table(uri, store=LaterStore(inner, DAYS), clock=later) as table:
        done = await adelta.vacuum(table)
        assert done.num_deleted_files == 1_102
        assert asked["POST delete"] == 2
        assert sum(asked.values()) < 40
        again = await adelta.vacuum(table, mode="lite")
        assert again.num_deleted_files == 0
    async with adelta.open_table(uri, options) as table:
        assert (await (await table.snapshot()).scan(["id"]).to_arrow()).to_pylist() == [
            {"id": 2},
            {"id": 2},
        ]
        assert (await table.store.head("_other/x")).size == 1
        await adelta.write_table(table, ROWS, mode="overwrite")
        restored = await adelta.restore(table, version=again.version)
        assert (restored.num_restored_files, restored.num_removed_files) == (2, 2)
        assert await (await table.snapshot()).scan().count() == 2
        await adelta.drop_table(table)
        assert not [meta async for page in table.store.list() for meta in page]
