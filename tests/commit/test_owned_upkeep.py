"""Upkeep of tables that have a commit owner: of what the filesystem shows, and asked for."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta._clock import SYSTEM_CLOCK
from adelta.commit import owner_registry
from adelta.kernel.log_path import COMMITS_DIR, LOG_DIR, commit_path, compaction_path
from adelta.storage.resolve import open_store
from adelta.table import Table
from adelta.write import upkeep
from tests.support.clock import ManualClock
from tests.support.commit_owners import MemoryOwner
from tests.support.stores import CountingStore, LaterStore

if TYPE_CHECKING:
    from collections.abc import Iterator

SCHEMA = pa.schema([("id", pa.int64())])
DAYS = 9 * 86_400_000


@pytest.fixture
def owner() -> Iterator[MemoryOwner]:
    """One that publishes when it is asked, and not before."""
    name = f"owner-{uuid.uuid4()}"
    yield MemoryOwner(name, backfills=True).register()
    owner_registry._registered.pop(name, None)


async def created(owner: MemoryOwner, **properties: str) -> str:
    uri = f"memory://{uuid.uuid4()}/table"
    asked = {"delta.managedCommit.commitOwner": owner.name}
    asked |= {f"delta.{key}": value for key, value in properties.items()}
    await (await adelta.create_table(uri, SCHEMA, properties=asked)).aclose()
    return uri


async def append(table: adelta.TableOrAddress, *ids: int) -> None:
    for each in ids:
        rows = pa.table({"id": pa.array([each], pa.int64())})
        await adelta.write_table(table, rows, mode="append")


async def ids(snapshot: adelta.Snapshot) -> list[int]:
    return sorted((await snapshot.scan().to_arrow())["id"].to_pylist())


async def log(uri: str) -> set[str]:
    pages = open_store(uri).list(LOG_DIR)
    return {meta.path async for page in pages for meta in page}


async def test_a_checkpoint_that_is_due_has_the_owner_publish_and_others_wait_for_nothing(
    owner: MemoryOwner,
) -> None:
    uri = await created(owner, checkpointInterval="3")
    await append(uri, 1, 2)
    assert "backfill" not in owner.asked
    assert commit_path(1) not in await log(uri)
    await append(uri, 3)
    assert owner.asked.count("backfill") == 1
    assert {commit_path(3), f"{LOG_DIR}{3:020}.checkpoint.parquet"} <= await log(uri)
    await append(uri, 4, 5)
    assert commit_path(4) not in await log(uri)
    await adelta.compact_log(uri, start_version=4, end_version=5)
    assert {commit_path(5), compaction_path(4, 5)} <= await log(uri)


async def test_no_checkpoint_is_of_a_version_that_could_not_be_published(
    owner: MemoryOwner, caplog: pytest.LogCaptureFixture
) -> None:
    uri = await created(owner, checkpointInterval="2")

    async def fail(what: str) -> None:
        if what == "backfill":
            raise adelta.errors.StorageError("the disk is full")

    owner.hook = fail
    await append(uri, 1, 2)
    assert "the disk is full" in caplog.text
    assert not [path for path in await log(uri) if "checkpoint" in path or path == commit_path(2)]


async def test_a_checkpoint_is_of_a_published_version_though_nobody_told_of_those_before_it(
    owner: MemoryOwner,
) -> None:
    uri = await created(owner, checkpointInterval="3")
    failures = ["get"]  # the owner cannot be asked, once

    async def fail(what: str) -> None:
        if what in failures:
            failures.remove(what)
            raise adelta.errors.StorageError("the line is down")

    async with adelta.open_table(uri) as table, adelta.open_table(uri) as other:
        await table.snapshot()
        await append(other, 1, 2)  # `table` learns of them in this process
        owner.hook = fail
        await append(table, 3)
    assert not failures
    assert {commit_path(3), f"{LOG_DIR}{3:020}.checkpoint.parquet"} <= await log(uri)


async def test_where_the_owner_is_behind_the_checkpoint_is_of_a_version_that_it_has_published(
    owner: MemoryOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_PATIENCE", 0.01)
    uri = await created(owner, checkpointInterval="3")
    owner.stops_after = 2
    await append(uri, 1, 2, 3)
    assert not [path for path in await log(uri) if "checkpoint" in path]
    owner.stops_after = 4
    await append(uri, 4, 5, 6)
    assert f"{LOG_DIR}{3:020}.checkpoint.parquet" in await log(uri)
    assert not await log(uri) & {f"{LOG_DIR}{6:020}.checkpoint.parquet", commit_path(5)}
    owner.stops_after = None
    await append(uri, 7, 8, 9)
    assert f"{LOG_DIR}{9:020}.checkpoint.parquet" in await log(uri)
    async with adelta.open_table(uri) as table:
        assert await ids(await table.snapshot()) == [1, 2, 3, 4, 5, 6, 7, 8, 9]


async def test_a_checkpoint_of_an_earlier_version_is_made_of_what_its_writer_knows(
    owner: MemoryOwner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "_PATIENCE", 0.01)
    uri = await created(owner, checkpointInterval="3")
    owner.stops_after = 2
    store = CountingStore(open_store(uri))
    async with Table(uri, store=store) as table:
        await append(table, 1, 2, 3, 4, 5)
        store.requests.clear()
        owner.stops_after = 4
        await append(table, 6)
    assert f"{LOG_DIR}{3:020}.checkpoint.parquet" in await log(uri)
    read = [request.path for request in store.requests if request.kind != "put"]
    commits = [path for path in read if path.endswith(".json")]
    assert {path.partition("_commits/")[2][:20] for path in commits} == {f"{3:020}"}  # it stands
    assert len(commits) == 2  # after the checkpoint, and after the checksum


async def test_a_clean_up_leaves_what_is_in_flight_and_the_newest_that_is_published(
    owner: MemoryOwner,
) -> None:
    uri = await created(owner)
    await append(uri, 1, 2, 3)
    await adelta.checkpoint(uri)
    await append(uri, 4, 5)
    flight = f"{COMMITS_DIR}{6:020}.{uuid.uuid4()}.json"
    lost = f"{COMMITS_DIR}{2:020}.{uuid.uuid4()}.json"
    store = open_store(uri)
    for path in (flight, lost):
        await store.put(path, b"{}")
    before = {path for path in await log(uri) if path.startswith(COMMITS_DIR)}
    later = ManualClock(SYSTEM_CLOCK.now_ms() + DAYS)
    async with Table(uri, store=LaterStore(store, DAYS), clock=later) as table:
        cleaned = await adelta.cleanup_log(table, retention=timedelta(0))
        assert cleaned.first_version == 3
        assert (await (await table.snapshot()).scan().to_arrow()).num_rows == 5
    left = await log(uri)
    assert {path for path in left if path.startswith(COMMITS_DIR)} == {
        path for path in before if int(path.removeprefix(COMMITS_DIR)[:20]) > 3
    }
    assert flight in left
    assert lost not in left
    assert commit_path(3) in left


async def test_a_vacuum_keeps_what_the_filesystem_shows_readable(owner: MemoryOwner) -> None:
    uri = await created(owner)
    await append(uri, 1, 2)
    await adelta.checkpoint(uri)
    await adelta.delete(uri, "id = 1")
    await append(uri, 3)
    store = open_store(uri)
    later = ManualClock(SYSTEM_CLOCK.now_ms() + DAYS)
    async with Table(uri, store=LaterStore(store, DAYS), clock=later) as table:
        assert (await adelta.vacuum(table, dry_run=True)).num_files_to_delete == 1
        assert commit_path(4) not in await log(uri)
        assert (await adelta.vacuum(table)).num_deleted_files == 1
        assert await ids(await table.snapshot()) == [2, 3]
    assert commit_path(4) in await log(uri)
    owner_registry._registered.pop(owner.name)
    async with adelta.open_table(uri) as table:  # the filesystem alone
        snapshot = await table.snapshot()
        assert snapshot.may_be_stale
        assert await ids(snapshot) == [2, 3]
