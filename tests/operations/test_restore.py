"""RESTORE: what comes back, what goes on, and what is refused before anything changes."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
from adelta.errors import (
    CommitConflictError,
    ConcurrentDeleteReadError,
    InvalidOptionError,
    InvariantViolationError,
    MissingDataFileError,
    VersionNotFoundError,
)
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.operations.vacuum import VACUUM_END, VACUUM_START
from adelta.storage.memory import MemoryStore
from adelta.storage.resolve import open_store
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.races import objects_of
from tests.support.stores import CountingStore, LaterStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from pathlib import Path

DAY = 86_400_000
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x y" if n % 2 else "z" for n in ids]}, schema=SCHEMA)


async def ids_of(table: Any, version: int | None = None) -> list[int]:
    snapshot = await table.snapshot(version=version)
    return sorted((await snapshot.scan(columns=["id"]).to_arrow()).column(0).to_pylist())


async def test_every_version_comes_back_as_it_was_and_others_read_it(tmp_path: Path) -> None:
    await (await adelta.create_table(tmp_path, SCHEMA, partition_by=["p"])).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(1, 2, 3))
        await adelta.write_table(table, rows(4, 5))
        await adelta.delete(table, "id in (1, 4)")
        await adelta.write_table(
            table,
            pa.table({"id": [7], "p": ["z"], "more": [1]}),
            mode="overwrite",
            schema_mode="overwrite",
        )
        contents = [await ids_of(table, version) for version in range(5)]
        last = 4
        for version in (2, 0, 3, 4, 1):
            planned = await adelta.restore(table, version=version, dry_run=True)
            assert (await table.snapshot()).version == last
            done = await adelta.restore(table, version=version)
            last += 1
            assert (done.version, planned.version) == (last, None)
            assert planned.num_restored_files == done.num_restored_files
            assert await ids_of(table) == contents[version]
            now, then = await table.snapshot(), await table.snapshot(version=version)
            assert (now.schema, now.metadata) == (then.schema, then.metadata)
            files = await now.files()
            assert done.num_of_files_after_restore == files.num_rows
            assert done.table_size_after_restore == sum(files.column("size").to_pylist())
            assert await now.verify()
            others = deltalake.DeltaTable(tmp_path).to_pyarrow_table()
            assert sorted(others.column("id").to_pylist()) == contents[version]
        entry = (await adelta.history(table, 1))[0]
    assert (entry.operation, entry.operation_parameters) == ("RESTORE", {"version": "1"})
    assert set(entry.operation_metrics) == {
        "tableSizeAfterRestore",
        "numOfFilesAfterRestore",
        "numRemovedFiles",
        "numRestoredFiles",
        "removedFilesSize",
        "restoredFilesSize",
    }


async def test_row_ids_and_deletion_vectors_come_back_and_new_ids_are_new(tmp_path: Path) -> None:
    wanted = {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    await (await adelta.create_table(tmp_path, SCHEMA, properties=wanted)).aclose()
    async with adelta.open_table(tmp_path) as table:

        async def tracked(version: int | None = None) -> list[dict[str, Any]]:
            scan = (await table.snapshot(version=version)).scan(with_row_ids=True)
            return sorted((await scan.to_arrow()).to_pylist(), key=lambda row: row["id"])

        await adelta.write_table(table, rows(1, 2, 3))
        await adelta.delete(table, "id = 2")
        await adelta.delete(table, "id = 3")
        await adelta.write_table(table, rows(9))
        await adelta.restore(table, version=2)
        assert await tracked() == await tracked(2)
        await adelta.restore(table, version=1)
        assert await tracked() == await tracked(1)
        await adelta.write_table(table, rows(10))
        assert (await tracked())[-1]["_row_id"] == 4


async def test_row_ids_come_back_though_the_table_had_stopped_to_track_rows(tmp_path: Path) -> None:
    wanted = {"delta.enableRowTracking": "true"}
    await (await adelta.create_table(tmp_path, SCHEMA, properties=wanted)).aclose()
    async with adelta.open_table(tmp_path) as table:

        async def tracked(version: int | None = None) -> list[dict[str, Any]]:
            scan = (await table.snapshot(version=version)).scan(with_row_ids=True)
            return sorted((await scan.to_arrow()).to_pylist(), key=lambda row: row["id"])

        await adelta.write_table(table, rows(1))
        await adelta.write_table(table, rows(3, 5))
        await adelta.delete(table, "id = 1")
        await adelta.drop_feature(table, "rowTracking")
        done = await adelta.restore(table, version=3)  # whose file has been there all the time
        assert (done.num_restored_files, done.num_removed_files) == (0, 0)
        log = (tmp_path / "_delta_log" / f"{done.version:020}.json").read_text()
        assert (log.count('"add"'), log.count('"dataChange":false')) == (1, 1)
        assert await tracked() == await tracked(3)
        await adelta.drop_feature(table, "rowTracking")
        await adelta.write_table(table, rows(7))
        await adelta.set_properties(table, wanted)  # by which all files get other ids
        await adelta.restore(table, version=2)
        assert await tracked() == await tracked(2)
        await adelta.write_table(table, rows(9))
        await adelta.update(table, {"p": "'y'"}, "id = 3")
        assert [row["_row_id"] for row in await tracked()] == [0, 1, 2, 3]


async def test_files_without_statistics_come_back_to_a_table_that_tracks_rows(
    tmp_path: Path,
) -> None:
    pq.write_table(pa.table({"n": [1, 2]}), tmp_path / "a.parquet")
    await adelta.convert(tmp_path, collect_statistics=False)
    await adelta.delete(tmp_path)
    await adelta.set_properties(tmp_path, {"delta.feature.rowTracking": "supported"})
    await adelta.restore(tmp_path, version=0)
    await adelta.set_properties(tmp_path, {"delta.enableRowTracking": "true"})
    async with adelta.open_table(tmp_path) as table:
        scan = (await table.snapshot()).scan(with_row_ids=True)
        found = (await scan.to_arrow()).to_pylist()
    assert {row["n"]: row["_row_id"] for row in found} == {1: 0, 2: 1}


async def test_identity_values_and_column_ids_are_not_given_again(tmp_path: Path) -> None:
    schema = pa.schema([adelta.identity_column("n"), ("id", pa.int64())])
    mapped = {"delta.columnMapping.mode": "name"}
    await (await adelta.create_table(tmp_path, schema, properties=mapped)).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, pa.table({"id": [1, 2]}))
        await adelta.write_table(table, pa.table({"id": [3]}))
        await adelta.add_columns(table, pa.schema([("more", pa.int64())]))
        await adelta.restore(table, version=1)
        await adelta.write_table(table, pa.table({"id": [4]}))
        found = (await (await table.snapshot()).scan().to_arrow()).to_pylist()
        assert sorted(row["n"] for row in found) == [1, 2, 4]
        stored = (await table.snapshot()).metadata.configuration
        assert stored["delta.columnMapping.maxColumnId"] == "3"


async def test_the_protocol_is_lowered_only_if_that_is_said(tmp_path: Path) -> None:
    await (await adelta.create_table(tmp_path, SCHEMA)).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(1))
        low = (await table.snapshot()).protocol
        await adelta.set_properties(table, {"delta.enableDeletionVectors": "true"})
        high = (await table.snapshot()).protocol
        assert high != low
        await adelta.restore(table, version=1)
        assert (await table.snapshot()).protocol == high
        assert "delta.enableDeletionVectors" not in (await table.snapshot()).properties
        await adelta.restore(table, version=1, protocol_downgrade_allowed=True)
        assert (await table.snapshot()).protocol == low
        await adelta.restore(table, version=2)
        assert (await table.snapshot()).protocol == high


async def test_times_of_commits_are_kept_in_them_only_where_the_protocol_says_so(
    tmp_path: Path,
) -> None:
    await (await adelta.create_table(tmp_path, SCHEMA)).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(1))
        await adelta.set_properties(table, {"delta.enableInCommitTimestamps": "true"})
        await adelta.restore(table, version=1, protocol_downgrade_allowed=True)
        snapshot = await table.snapshot()
        assert snapshot.protocol.writer_features is None
        assert not snapshot.properties
        await adelta.write_table(table, rows(2))
    assert deltalake.DeltaTable(tmp_path).version() == 4


@pytest.mark.parametrize("how", ["restore", "replace", "clone"])
async def test_history_that_is_protected_stays_so_whatever_definition_the_table_gets(
    tmp_path: Path, how: str
) -> None:
    wanted = {"delta.enableDeletionVectors": "true"}
    await (await adelta.create_table(tmp_path / "t", SCHEMA, properties=wanted)).aclose()
    await adelta.write_table(tmp_path / "other", rows(9))
    async with adelta.open_table(tmp_path / "t") as table:
        await adelta.write_table(table, rows(1, 2))
        await adelta.delete(table, "id = 1")
        await adelta.drop_feature(table, "deletionVectors")
        protected = dict((await table.snapshot()).properties)
        assert protected.keys() == {"delta.requireCheckpointProtectionBeforeVersion"}
        if how == "restore":
            await adelta.restore(table, version=1)
        elif how == "replace":
            await adelta.replace_table(table, SCHEMA)
        else:
            await adelta.clone(tmp_path / "other", table, replace=True)
        assert protected.items() <= dict((await table.snapshot()).properties).items()
        clone = tmp_path / "clone"
        await adelta.clone(table, clone)  # which has a history of its own
    async with adelta.open_table(clone) as table:
        assert protected.keys().isdisjoint((await table.snapshot()).properties)


async def test_files_that_are_gone_are_named_before_anything_changes(tmp_path: Path) -> None:
    await (await adelta.create_table(tmp_path, SCHEMA, partition_by=["p"])).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(1, 2))
        files = (await (await table.snapshot()).files()).column("path").to_pylist()
        await adelta.write_table(table, rows(3), mode="overwrite")
        gone = next(path for path in files if "x%20y" in path)
        os.remove(tmp_path / unquote(gone))
        with pytest.raises(MissingDataFileError, match="x%20y") as raised:
            await adelta.restore(table, version=1)
        assert repr(gone) in str(raised.value)
        assert (await table.snapshot()).version == 2
        done = await adelta.restore(table, version=1, ignore_missing=True)
        assert done.missing_files == (gone,)
        assert await ids_of(table) == [2]


async def test_a_file_does_not_come_back_without_its_deletion_vector(tmp_path: Path) -> None:
    wanted = {"delta.enableDeletionVectors": "true"}
    await (await adelta.create_table(tmp_path, SCHEMA, properties=wanted)).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(*range(1, 200_000, 2)))
        await adelta.delete(table, "id % 3 = 0")
        await adelta.write_table(table, rows(8), mode="overwrite")
        vectors = [name for name in os.listdir(tmp_path) if name.endswith(".bin")]
        for name in vectors:
            os.remove(tmp_path / name)
        assert vectors
        with pytest.raises(MissingDataFileError, match="deletion vectors"):
            await adelta.restore(table, version=2)
        await adelta.restore(table, version=2, ignore_missing=True)
        assert await ids_of(table) == []


async def test_what_cannot_be_restored_is_refused(tmp_path: Path) -> None:
    await (await adelta.create_table(tmp_path, SCHEMA)).aclose()
    async with adelta.open_table(tmp_path) as table:
        await adelta.write_table(table, rows(1))
        await adelta.write_table(table, rows(2))
        for options in ({}, {"version": 1, "timestamp": "2024-01-01"}, {"version": 2}):
            with pytest.raises(InvalidOptionError):
                await adelta.restore(table, **options)
        for version in (-1, 3):
            with pytest.raises(VersionNotFoundError):
                await adelta.restore(table, version=version)
        await adelta.set_properties(table, {"delta.appendOnly": "true"})
        with pytest.raises(InvariantViolationError, match="append-only"):
            await adelta.restore(table, version=1)
        before = (await adelta.history(table))[-2].timestamp + timedelta(milliseconds=1)
        with pytest.raises(InvariantViolationError):
            await adelta.restore(table, timestamp=before)
        assert (await table.snapshot()).version == 3


@pytest.mark.parametrize("other", [VACUUM_START, "WRITE"])
async def test_whatever_is_committed_meanwhile_is_a_conflict(other: str) -> None:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    await builder.append(rows(1))
    await builder.append(rows(2))

    class Raced(CountingStore):
        async def head(self, path: str) -> Any:
            await builder.commit(operation=other)
            return await super().head(path)

    await builder.commit(*[builder.remove(p) for p in await _paths(store)])
    async with Table(store.uri, store=Raced(store)) as table:
        with pytest.raises(CommitConflictError):
            await adelta.restore(table, version=1)
        assert (await table.snapshot()).version == 4


async def _paths(store: MemoryStore) -> list[str]:
    return [m.path async for page in store.list() for m in page if "_delta_log" not in m.path]


async def test_files_that_a_vacuum_under_way_may_delete_do_not_come_back() -> None:
    clock = ManualClock(19_000 * DAY)
    store = MemoryStore(clock=clock)
    builder = await TableBuilder.create(SCHEMA, store=store)
    await builder.append(rows(1))
    first = await _paths(store)
    await builder.append(rows(2))
    second = [path for path in await _paths(store) if path not in first]
    await builder.commit(builder.remove(first[0], at=clock.ms))
    clock.advance(days=8)
    await builder.commit(builder.remove(second[0], at=clock.ms))
    clock.advance(ms=1)
    start = CommitInfo(
        timestamp=clock.ms,
        operation=VACUUM_START,
        operation_parameters={"defaultRetentionMillis": 7 * DAY},
    )
    await builder.commit(start, operation=None)
    async with Table(store.uri, store=store, clock=clock) as table:
        with pytest.raises(ConcurrentDeleteReadError, match="run VACUUM again"):
            await adelta.restore(table, version=1)
        await adelta.restore(table, version=3)  # which left the table within the retention
        await builder_end(builder)
        await adelta.restore(table, version=1)
        assert await ids_of(table) == [1]


class Interrupted(WrappedStore):
    """A store in which something else happens when an object is to be deleted."""

    def __init__(self, inner: MemoryStore, act: Callable[[], Awaitable[object]]) -> None:
        super().__init__(inner)
        self.act = act

    async def delete(self, paths: Iterable[str]) -> None:
        await self.act()
        await super().delete(paths)


async def removed_long_ago() -> tuple[MemoryStore, ManualClock]:
    """A table whose version 1 has a file that left it eight days ago."""
    clock = ManualClock(19_000 * DAY)
    store = MemoryStore(clock=clock)
    builder = await TableBuilder.create(SCHEMA, store=store)
    await builder.append(rows(1))
    await builder.commit(*[builder.remove(path, at=clock.ms) for path in await _paths(store)])
    clock.advance(days=8)
    return store, clock


async def test_a_vacuum_is_under_way_though_another_one_has_ended_since() -> None:
    store, clock = await removed_long_ago()
    refused = []

    async def meanwhile() -> None:
        clock.advance(ms=1)
        other = Table(store.uri, store=store, clock=clock)
        await adelta.vacuum(other, retention=timedelta(days=30))
        clock.advance(ms=1)
        try:
            await adelta.restore(other, version=1)
        except ConcurrentDeleteReadError as error:
            refused.append(error.winning_version)

    async with Table(store.uri, store=Interrupted(store, meanwhile), clock=clock) as table:
        done = await adelta.vacuum(table)
    assert refused == [done.start_version]
    async with Table(store.uri, store=store, clock=clock) as table:
        assert await ids_of(table) == []
        with pytest.raises(MissingDataFileError):  # what has ended is no hindrance any more
            await adelta.restore(table, version=1)


async def test_nor_do_they_come_back_by_a_shallow_clone_of_the_table_itself() -> None:
    store, clock = await removed_long_ago()
    space = f"memory://{uuid.uuid4()}"
    origin = open_store(f"{space}/table", {})
    for path, data in (await objects_of(store)).items():
        await origin.put(path, data)
    allowed = {"allowed_roots": f"{space}/table"}
    await adelta.clone(f"{space}/table", f"{space}/clone", shallow=True, version=1)
    clock.advance(ms=round(time.time() * 1000) - clock.ms + 8 * DAY)
    refused = []

    async def meanwhile() -> None:
        table = Table(f"{space}/table", store=origin)
        with pytest.raises(ConcurrentDeleteReadError):
            await adelta.clone(
                f"{space}/clone", table, shallow=True, replace=True, storage_options=allowed
            )
        refused.append(True)

    later = LaterStore(Interrupted(origin, meanwhile), 8 * DAY)
    async with Table(origin.uri, store=later, clock=clock) as table:
        await adelta.vacuum(table)
    assert refused


async def test_a_vacuum_that_was_broken_off_has_nothing_left_when_another_one_has_ended() -> None:
    store, clock = await removed_long_ago()

    async def dies() -> None:
        raise asyncio.CancelledError

    async with Table(store.uri, store=Interrupted(store, dies), clock=clock) as table:
        with pytest.raises(asyncio.CancelledError):
            await adelta.vacuum(table)
    async with Table(store.uri, store=store, clock=clock) as table:
        await adelta.vacuum(table, retention=timedelta(days=30))
        with pytest.raises(ConcurrentDeleteReadError, match="run VACUUM again"):
            await adelta.restore(table, version=1, ignore_missing=True)
        clock.advance(ms=1)
        await adelta.vacuum(table)
        assert (await adelta.restore(table, version=1, ignore_missing=True)).missing_files


async def builder_end(builder: TableBuilder) -> None:
    builder.version += 1
    await builder.commit(operation=VACUUM_END)


async def test_the_presence_of_many_files_is_asked_by_few_requests() -> None:
    store = MemoryStore()
    builder = await TableBuilder.create(SCHEMA, store=store)
    names = [f"{number:05}.parquet" for number in range(2_500)]
    for name in names[1:]:
        await store.put(name, b"x")
    await builder.commit(*(builder.add(name) for name in names))
    await builder.commit(*(builder.remove(name) for name in names))
    counting = CountingStore(store)
    async with Table(store.uri, store=counting) as table:
        done = await adelta.restore(table, version=1, ignore_missing=True)
    assert done.missing_files == (names[0],)
    assert counting.kinds["head"] <= 3
    assert counting.kinds["list"] <= 8
