"""Upkeep of a table's log on S3: checkpoints of every kind, checksums, compactions, clean-up."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta._clock import SYSTEM_CLOCK
from adelta.commit.choose import open_log_store
from adelta.errors import VersionNotFoundError
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.minimal_reader import MinimalLog, log_objects
from tests.support.stores import LaterStore

if TYPE_CHECKING:
    from tests.support.s3_server import S3Location

SCHEMA = pa.schema([("id", pa.int64())])
KINDS = {
    "classic": {},
    "parts": {"adelta.checkpoint.partSize": "2"},
    "v2": {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "2"},
}


@pytest.mark.parametrize("kind", list(KINDS))
async def test_a_log_on_s3_is_kept_in_order(kind: str, s3_location: S3Location) -> None:
    properties = {
        **KINDS[kind],
        "delta.checkpointInterval": "4",
        "adelta.logCompactionInterval": "3",
    }
    uri, options = s3_location.uri, s3_location.storage_options
    async with await adelta.create_table(
        uri, SCHEMA, properties=properties, storage_options=options
    ) as table:
        for n in range(10):
            if n == 7:  # for version 8: commits that bear one time are kept with the last of them
                await s3_location.server.until_a_later_time()
            async with table.transaction() as tx:
                await tx.append(pa.table({"id": [n]}))
        assert await (await table.snapshot()).verify()
        log = MinimalLog(await log_objects(table.store))
        assert sorted(log.checkpoints) == [4, 8]
        found = log.read(compacted=True)
        assert found is not None
        assert len(found["add"]) == 10
    passed_ms = 3 * 86_400_000
    later = ManualClock(SYSTEM_CLOCK.now_ms() + passed_ms)
    store = LaterStore(open_log_store(uri, options), passed_ms)
    async with Table(uri, store=store, clock=later) as table:
        cleaned = await adelta.cleanup_log(table, retention=timedelta(0))
        assert cleaned.first_version == 8
        assert (cleaned.num_commits, cleaned.num_compactions) == (8, 2)
        for version in (8, 9, 10):
            files = await (await table.snapshot(version=version)).files()
            assert files.num_rows == version
        with pytest.raises(VersionNotFoundError):
            await table.snapshot(version=7)
