"""Types that a user of the async face sees. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from datetime import datetime
from typing import assert_type

import pyarrow as pa

import adelta


async def tables() -> None:
    table = adelta.open_table("t", storage_options={"aws_region": "eu-north-1"})
    assert_type(table, adelta.Table)
    async with table as same:
        assert_type(same, adelta.Table)
    assert_type(await adelta.create_table("t", pa.schema([]), partition_by=["a"]), adelta.Table)


async def snapshots(table: adelta.Table) -> None:
    snapshot = await table.snapshot(timestamp=datetime.now())
    assert_type(snapshot, adelta.Snapshot)
    assert_type(snapshot.version, int)
    assert_type(snapshot.timestamp, datetime)
    assert_type(snapshot.properties, Mapping[str, str])
    assert_type(snapshot.partition_columns, tuple[str, ...])
    assert_type(await snapshot.files(where=[("a", "=", 1)]), pa.Table)


async def scans(snapshot: adelta.Snapshot) -> None:
    scan = snapshot.scan(columns=["a"], where="a > 1", limit=3)
    assert_type(scan, adelta.Scan)
    assert_type(await scan.to_arrow(), pa.Table)
    assert_type(await scan.count(), int)
    async for batch in scan.batches():
        assert_type(batch, pa.RecordBatch)
    async with aclosing(snapshot.files_batches()) as batches:
        assert_type(await anext(batches), pa.RecordBatch)


async def transactions(table: adelta.Table, data: pa.Table) -> None:
    async with table.transaction(operation="WRITE") as tx:
        assert_type(tx, adelta.Transaction)
        await tx.append(data)
        tx.set_transaction("app", 1)
    assert_type(tx.version, int | None)
    written = await adelta.write_table(table, data, mode="overwrite")
    assert_type(written.version, int | None)
    await adelta.write_table(table, data, mode="upsert")  # type: ignore[arg-type]


async def lakes() -> None:
    async with adelta.Lake("lake") as lake:
        assert_type(await lake.refresh(), tuple[adelta.TableChange, ...])
        assert_type(lake.table("t"), adelta.Table)
        async for table in lake.tables():
            assert_type(table, adelta.LakeTable)
        async for change in lake.changes(poll=1.0):
            assert_type(change.error, adelta.errors.AdeltaError | None)


async def lasting_consumers(table: adelta.Table) -> None:
    async with adelta.Consumer(table, "c", "positions", max_rows=10) as consumer:
        assert_type(consumer, adelta.Consumer)
        async for batch in consumer:
            assert_type(batch, adelta.Batch)
            assert_type(batch.data, pa.Table)
            await consumer.acknowledge(batch)
            async with consumer.transaction(batch) as tx:
                assert_type(tx, adelta.Transaction)
        assert_type((await consumer.lag()).seconds, float)
    async with adelta.ChangeConsumer(table, name="c", store="positions") as changes:
        assert_type(changes, adelta.ChangeConsumer)
    adelta.Consumer(table, "c", adelta.FilePositions("positions"), of="row")  # type: ignore[arg-type]


async def consumers(table: adelta.Table) -> None:
    async for commit in adelta.tail(table, since="latest"):
        assert_type(commit, adelta.Commit)
        assert_type(commit.adds, pa.Table)
        assert_type(commit.info.operation, str | None)
    async with aclosing(adelta.tail(table)) as commits, aclosing(adelta.changes(table)) as rows:
        assert_type(await anext(commits), adelta.Commit)
        assert_type(await anext(rows), pa.RecordBatch)


async def results(table: adelta.Table, data: pa.Table) -> None:
    assert_type(await adelta.write_table(table, data), adelta.WriteMetrics)
    assert_type(await adelta.delete(table), adelta.DeleteMetrics)
    assert_type(await adelta.update(table, {"a": "1"}), adelta.UpdateMetrics)
    assert_type(await adelta.set_properties(table, {"a": "1"}), adelta.AlterMetrics)
    assert_type(await adelta.history(table), list[adelta.HistoryEntry])
    assert_type(await adelta.detail(table), adelta.TableDetail)
    assert_type((await table.snapshot()).delta_schema, adelta.StructType)


async def failures(table: adelta.Table) -> int | None:
    try:
        await adelta.delete(table)
    except adelta.errors.CommitConflictError as conflict:
        return assert_type(conflict.winning_version, int | None)
    except adelta.errors.AdeltaEror:  # type: ignore[attr-defined]
        pass
    return None
