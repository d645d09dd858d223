"""Types that a user of the blocking face sees. Checked by mypy, never run."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from datetime import datetime
from typing import assert_type

import pyarrow as pa

import adelta.sync


def tables() -> None:
    table = adelta.sync.open_table("t", storage_options={"aws_region": "eu-north-1"})
    assert_type(table, adelta.sync.Table)
    with table as same:
        assert_type(same, adelta.sync.Table)
    assert_type(adelta.sync.create_table("t", pa.schema([]), partition_by=["a"]), adelta.sync.Table)


def snapshots(table: adelta.sync.Table) -> None:
    snapshot = table.snapshot(timestamp=datetime.now())
    assert_type(snapshot, adelta.sync.Snapshot)
    assert_type(snapshot.version, int)
    assert_type(snapshot.timestamp, datetime)
    assert_type(snapshot.properties, Mapping[str, str])
    assert_type(snapshot.partition_columns, tuple[str, ...])
    assert_type(snapshot.files(where=[("a", "=", 1)]), pa.Table)


def scans(snapshot: adelta.sync.Snapshot) -> None:
    scan = snapshot.scan(columns=["a"], where="a > 1", limit=3)
    assert_type(scan, adelta.sync.Scan)
    assert_type(scan.to_arrow(), pa.Table)
    assert_type(scan.count(), int)
    for batch in scan.batches():
        assert_type(batch, pa.RecordBatch)


def transactions(table: adelta.sync.Table, data: pa.Table) -> None:
    with table.transaction(operation="WRITE") as tx:
        assert_type(tx, adelta.sync.Transaction)
        tx.append(data)
        tx.set_transaction("app", 1)
    assert_type(tx.version, int | None)
    written = adelta.sync.write_table(table, data, mode="overwrite")
    assert_type(written.version, int | None)
    adelta.sync.write_table(table, data, mode="upsert")  # type: ignore[arg-type]


def lakes() -> None:
    with adelta.sync.Lake("lake") as lake:
        assert_type(lake, adelta.sync.Lake)
        assert_type(lake.refresh(), tuple[adelta.TableChange, ...])
        assert_type(lake.table("t"), adelta.sync.Table)
        for table in lake.tables():
            assert_type(table, adelta.LakeTable)
        for change in lake.changes(poll=1.0):
            assert_type(change.error, adelta.errors.AdeltaError | None)


def lasting_consumers(table: adelta.sync.Table) -> None:
    with adelta.sync.ChangeConsumer(table, "c", table) as changes:
        assert_type(changes, adelta.sync.ChangeConsumer)
    with adelta.sync.Consumer(table, "c", table) as consumer:
        assert_type(consumer, adelta.sync.Consumer)
        for batch in consumer:
            assert_type(batch, adelta.sync.Batch)
            with consumer.transaction(batch) as tx:
                assert_type(tx, adelta.sync.Transaction)
        assert_type(consumer.lag().versions, int)


def consumers(table: adelta.sync.Table) -> None:
    for commit in adelta.sync.tail(table, since="latest"):
        assert_type(commit, adelta.sync.Commit)
        assert_type(commit.adds, pa.Table)
        assert_type(commit.info.operation, str | None)
    with closing(adelta.sync.tail(table)) as commits, adelta.sync.changes(table) as rows:
        assert_type(commits, adelta.sync.BlockingIterator[adelta.sync.Commit])
        assert_type(next(commits), adelta.sync.Commit)
        assert_type(next(rows), pa.RecordBatch)


def results(table: adelta.sync.Table, data: pa.Table) -> None:
    assert_type(adelta.sync.write_table(table, data), adelta.sync.WriteMetrics)
    assert_type(adelta.sync.detail(table), adelta.sync.TableDetail)


def failures(table: adelta.sync.Table) -> None:
    try:
        adelta.sync.delete(table)
    except adelta.errors.CommitConflictError as conflict:
        assert_type(conflict.winning_version, int | None)
