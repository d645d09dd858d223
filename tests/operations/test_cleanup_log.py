"""Clean-up of the log as users meet it: by itself after checkpoints, and when they ask for it."""

from __future__ import annotations

import logging
import os
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvalidOptionError, StorageError, VersionNotFoundError
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    SIDECAR_DIR,
    checkpoint_path,
    commit_path,
    parse_log_path,
)
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.minimal_reader import MinimalLog, log_objects
from tests.support.stores import CountingStore, DenyingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore

DAY = 86_400_000
NOON = 19_000 * DAY + DAY // 2
SCHEMA = pa.schema([("id", pa.int64())])
V2 = Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))
V2_PROPERTIES = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "2"}


async def aged_table(
    days: int = 10,
    *,
    every: int = 3,
    properties: dict[str, str] | None = None,
    protocol: Protocol | None = None,
) -> tuple[MemoryStore, ManualClock]:
    """One commit a day at noon, and a checkpoint every few days."""
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    builder = await TableBuilder.create(
        SCHEMA,
        store=store,
        properties={"delta.checkpointInterval": "1000", **(properties or {})},
        protocol=protocol,
    )
    for day in range(1, days + 1):
        clock.advance(days=1)
        await builder.commit(builder.add(f"f{day}", rows=day))
        if day % every == 0:
            await write_checkpoint(await load_state(store), clock)
    return store, clock


def ahead(clock: ManualClock, days: int) -> ManualClock:
    """The clock of a machine on which it is later."""
    return ManualClock(clock.ms + days * DAY)


def opened(store: ObjectStore, clock: ManualClock) -> Table:
    return Table(store.uri, store=store, clock=clock)


async def versions(store: ObjectStore) -> list[int]:
    paths = [meta.path async for page in store.list("_delta_log/") for meta in page]
    return [int(p[11:31]) for p in paths if p == commit_path(int(p[11:31]))] if paths else []


async def commits(store: ObjectStore) -> list[int]:
    log = MinimalLog(await log_objects(store))
    return sorted(log.commits)


async def test_history_is_kept_to_the_day_and_begins_with_a_checkpoint() -> None:
    store, clock = await aged_table()
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    # Day 8 at midnight: the commit of day 7 was the latest then, and the checkpoint before is 6.
    assert found.cutoff == datetime.fromtimestamp((NOON // DAY + 8) * 86_400, UTC)
    assert (found.first_version, found.num_commits, found.num_checkpoint_files) == (6, 6, 1)
    assert found.num_bytes > 0
    assert await commits(store) == list(range(6, 11))
    table = opened(store, clock)
    for version in range(6, 11):
        assert (await (await table.snapshot(version=version)).files()).num_rows == version
    with pytest.raises(VersionNotFoundError, match="versions 6 to 10 can be read"):
        await table.snapshot(version=5)
    assert (await table.snapshot(timestamp=found.cutoff)).version == 7


async def test_a_dry_run_says_what_would_go_and_leaves_it() -> None:
    store, clock = await aged_table()
    before = await log_objects(store)
    table = opened(store, clock)
    planned = await adelta.cleanup_log(table, retention=timedelta(days=2), dry_run=True)
    assert await log_objects(store) == before
    done = await adelta.cleanup_log(table, retention=timedelta(days=2))
    assert done.paths == planned.paths
    assert set(before) - set(await log_objects(store)) == set(done.paths)
    assert (planned.dry_run, done.dry_run) == (True, False)
    assert (await adelta.cleanup_log(table, retention=timedelta(days=2))).num_files == 0


async def test_the_tables_own_retention_holds_by_default() -> None:
    store, clock = await aged_table()
    assert (await adelta.cleanup_log(opened(store, clock))).num_files == 0, "it is 30 days"
    clock.advance(days=29)
    assert (await adelta.cleanup_log(opened(store, clock))).first_version == 6


async def test_a_machine_whose_clock_is_ahead_deletes_nothing_by_it() -> None:
    store, clock = await aged_table(properties={"delta.checkpointInterval": "11"})
    wrong = ahead(clock, days=400)
    assert (await adelta.cleanup_log(opened(store, wrong))).num_files == 0
    async with opened(store, wrong).transaction() as tx:  # and its checkpoint cleans up
        await tx.append(pa.table({"id": [1]}))
    assert (await opened(store, clock).snapshot(version=0)).version == 0


async def test_a_checkpoint_of_a_machine_whose_clock_is_ahead_keeps_what_applications_did() -> None:
    properties = {"delta.setTransactionRetentionDuration": "interval 7 days"}
    store, clock = await aged_table(1, properties=properties)
    async with opened(store, clock).transaction() as tx:
        tx.set_transaction("app", 7)
    await adelta.checkpoint(opened(store, ahead(clock, days=400)))
    recorded = await (await load_state(store)).set_transactions()
    assert recorded["app"].version == 7


async def test_an_hour_is_kept_whatever_the_retention() -> None:
    store, clock = await aged_table(3)
    clock.ms = (clock.ms // DAY + 1) * DAY + 60_000  # a minute after midnight
    builder = TableBuilder(store)
    builder.version = 3
    clock.advance(ms=-120_000)
    await builder.commit(builder.add("late"))
    await write_checkpoint(await load_state(store), clock)
    clock.advance(ms=120_000)
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(0))
    assert found.first_version == 3
    assert await commits(store) == [3, 4]


async def test_a_negative_retention_is_refused() -> None:
    store, clock = await aged_table(1)
    with pytest.raises(InvalidOptionError, match="negative"):
        await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=-1))


async def test_commits_clean_up_after_their_checkpoint() -> None:
    store, clock = await aged_table(properties={"delta.checkpointInterval": "11"})
    clock.advance(days=60)
    async with opened(store, clock).transaction() as tx:
        await tx.append(pa.table({"id": [1]}))
    assert tx.version == 11
    assert await commits(store) == [9, 10, 11]


async def test_a_table_may_keep_its_log_for_ever() -> None:
    store, clock = await aged_table(
        properties={
            "delta.checkpointInterval": "11",
            "delta.enableExpiredLogCleanup": "false",
        }
    )
    clock.advance(days=60)
    table = opened(store, clock)
    async with table.transaction() as tx:
        await tx.append(pa.table({"id": [1]}))
    assert tx.version == 11
    assert len(await commits(store)) == 12
    assert (await adelta.cleanup_log(table)).num_commits == 9, "unless it is asked to"


async def test_a_clean_up_that_fails_does_not_make_the_commit_look_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class NoDeletes(WrappedStore):
        async def request(self, request: Request, run: Callable[[], Awaitable[Any]]) -> Any:
            if request.kind == "delete":
                raise StorageError("not allowed")
            return await run()

    store, clock = await aged_table(properties={"delta.checkpointInterval": "11"})
    clock.advance(days=60)
    with caplog.at_level(logging.WARNING, "adelta.transaction"):
        async with opened(NoDeletes(store), clock).transaction() as tx:
            await tx.append(pa.table({"id": [1]}))
    assert tx.version == 11
    assert "version 11 is committed, but its clean-up failed: not allowed" in caplog.text


async def test_with_nothing_expired_a_clean_up_is_one_page_of_a_listing() -> None:
    inner, clock = await aged_table()
    store = CountingStore(inner)
    state = await load_state(store)
    store.clear()
    from adelta.log.cleanup import clean_expired

    await clean_expired(state, clock.now_ms())
    assert store.kinds == {"list": 1}
    clock.advance(seconds=20 * 3600)
    await clean_expired(state, clock.now_ms())
    assert store.kinds == {"list": 1}, "what was seen cannot have expired yet"
    clock.advance(seconds=5 * 3600)
    assert await clean_expired(state, clock.now_ms()) is not None
    assert store.kinds == {"list": 2}, "of other files nobody knows for longer than a day"


async def test_a_log_is_listed_again_as_soon_as_something_can_have_expired() -> None:
    inner, clock = await aged_table(days=30)
    store = CountingStore(inner)
    state = await load_state(store)
    from adelta.log.cleanup import clean_expired

    store.clear()
    for listings in (1, 1, 2):
        await clean_expired(state, clock.now_ms())
        assert store.kinds["list"] == listings
        clock.advance(seconds=11 * 3600)


async def test_a_damaged_checkpoint_is_no_beginning() -> None:
    store, clock = await aged_table()
    await store.put(checkpoint_path(6), b"not Parquet at all")
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert found.first_version == 3
    for version in range(3, 11):
        assert (await (await opened(store, clock).snapshot(version=version)).files()).num_rows


async def test_times_are_those_in_the_commits_where_they_have_them() -> None:
    """The files look old, as after a copy that kept no better times; the commits say otherwise."""
    clock = ManualClock(NOON)
    store = MemoryStore(clock=clock)
    features = ("inCommitTimestamp",)
    builder = await TableBuilder.create(
        SCHEMA,
        store=store,
        properties={"delta.enableInCommitTimestamps": "true"},
        protocol=Protocol(1, 7, None, features),
    )
    log = await log_objects(store)
    created = [orjson.loads(line) for line in log[commit_path(0)].splitlines()]
    created[0]["commitInfo"]["inCommitTimestamp"] = NOON
    await store.put(commit_path(0), b"\n".join(map(orjson.dumps, created)))
    for day in range(1, 8):
        info = CommitInfo(in_commit_timestamp=NOON + day * DAY, operation="WRITE")
        await builder.commit(info, builder.add(f"f{day}"), operation=None)
        await write_checkpoint(await load_state(store), clock)
    clock.advance(days=7)
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=3))
    assert found.first_version == 3
    assert (await opened(store, clock).snapshot(timestamp=found.cutoff)).version == 3


async def test_a_hint_of_a_checkpoint_that_is_gone_does_no_harm() -> None:
    store, clock = await aged_table()
    await store.put(LAST_CHECKPOINT_PATH, b'{"version":3,"size":5}')
    await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert (await (await opened(store, clock).snapshot()).files()).num_rows == 10


# -------------------------------------------------------------------------------------------- V2


async def sidecars(store: ObjectStore) -> set[str]:
    return {meta.path async for page in store.list(SIDECAR_DIR) for meta in page}


async def test_sidecars_go_with_the_checkpoints_that_named_them() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    before = await sidecars(store)
    log = MinimalLog(await log_objects(store))
    named = {
        f"{SIDECAR_DIR}{a['sidecar']['path']}"
        for version in (6, 9)
        for a in log.actions(log.checkpoints[version][0][0])
        if "sidecar" in a
    }
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert await sidecars(store) == named
    assert found.num_sidecars == len(before) - len(named) > 0
    for version in range(6, 11):
        assert (await (await opened(store, clock).snapshot(version=version)).files()).num_rows


async def test_sidecars_of_a_checkpoint_under_way_stay() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    young = f"{SIDECAR_DIR}{uuid.uuid4()}.parquet"
    await store.put(young, b"x")
    await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert young in await sidecars(store)
    clock.advance(days=2)
    await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert young not in await sidecars(store)


async def test_only_sidecars_go_from_their_folder() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    name = uuid.uuid4()
    foreign = {
        f"{SIDECAR_DIR}README.txt",
        f"{SIDECAR_DIR}notes.parquet",
        f"{SIDECAR_DIR}{name}",
        f"{SIDECAR_DIR}{name}.parquet.bak",
        f"{SIDECAR_DIR}old/{name}.parquet",
    }
    for path in foreign:
        await store.put(path, b"precious")
    of_spark = f"{SIDECAR_DIR}{'3':0>20}.checkpoint.{'1':0>10}.{'2':0>10}.{name}.parquet"
    await store.put(of_spark, b"left of a checkpoint that failed")
    clock.advance(days=9)
    found = await adelta.cleanup_log(opened(store, clock))
    assert found.paths == (of_spark,)
    assert foreign < await sidecars(store)


async def test_a_checkpoint_that_has_lost_a_sidecar_is_no_beginning() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    log = MinimalLog(await log_objects(store))
    actions = list(log.actions(log.checkpoints[6][0][0]))
    (lost, *_) = [a["sidecar"]["path"] for a in actions if "sidecar" in a]
    await store.delete([f"{SIDECAR_DIR}{lost}"])
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert found.first_version == 3


async def test_sidecars_stay_where_a_checkpoint_cannot_say_which_it_needs() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    log = MinimalLog(await log_objects(store))
    await store.put(log.checkpoints[9][0][0], b'{"add":')
    before = await sidecars(store)
    found = await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    assert found.num_commits == 6
    assert await sidecars(store) == before


async def test_sidecars_stay_where_a_checkpoint_is_listed_and_denied() -> None:
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    log = MinimalLog(await log_objects(store))
    before = await sidecars(store)
    denying = DenyingStore(store, log.checkpoints[9][0][0])
    await adelta.cleanup_log(opened(denying, clock), retention=timedelta(days=2))
    assert await sidecars(store) == before


async def test_old_readers_find_a_sign_at_the_new_beginning() -> None:
    """B6-06: a classic name, and in it the protocol that they cannot read."""
    store, clock = await aged_table(properties=V2_PROPERTIES, protocol=V2)
    await adelta.cleanup_log(opened(store, clock), retention=timedelta(days=2))
    log = MinimalLog(await log_objects(store))
    actions = list(log.actions(checkpoint_path(6)))
    (protocol,) = [a["protocol"] for a in actions if "protocol" in a]
    assert protocol["readerFeatures"] == ["v2Checkpoint"]
    manifest = next(p for (p,) in log.checkpoints[6] if p != checkpoint_path(6))
    await store.delete([manifest])
    assert (await (await opened(store, clock).snapshot(version=6)).files()).num_rows == 6


async def test_history_behind_a_protected_version_stays_until_all_of_it_has_expired() -> None:
    properties = {"delta.requireCheckpointProtectionBeforeVersion": "8"}
    protocol = Protocol(1, 7, None, ("checkpointProtection",))
    store, clock = await aged_table(properties=properties, protocol=protocol)
    table = opened(store, clock)
    assert (await adelta.cleanup_log(table, retention=timedelta(days=2))).num_files == 0
    clock.advance(days=2)
    assert (await adelta.cleanup_log(table, retention=timedelta(days=2))).first_version == 9
    paths = [p async for page in store.list("_delta_log/") for p in page]
    kept = [f for f in (parse_log_path(meta.path) for meta in paths) if f is not None]
    assert min(f.version for f in kept) == 9


@pytest.mark.parametrize("properties", [{}, V2_PROPERTIES], ids=["classic", "v2"])
async def test_deltalake_reads_a_log_that_no_longer_begins_at_zero(
    properties: dict[str, str], tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    table = await adelta.create_table(
        uri, SCHEMA, properties={"delta.checkpointInterval": "4", **properties}
    )
    async with table:
        for n in range(10):
            async with table.transaction() as tx:
                await tx.append(pa.table({"id": [n]}))
        for day in range(11):  # a commit a day, ten days ago
            path = tmp_path / "t" / commit_path(day)
            os.utime(path, (path.stat().st_mtime - (10 - day) * 86_400,) * 2)
        assert (await adelta.cleanup_log(table, retention=timedelta(days=1))).first_version == 8
        await adelta.compact_log(table)
    for hinted in (True, False):
        if not hinted:
            (tmp_path / "t" / LAST_CHECKPOINT_PATH).unlink()
        theirs = deltalake.DeltaTable(uri)
        assert theirs.version() == 10
        found = pa.table(deltalake.QueryBuilder().register("t", theirs).execute("select id from t"))
        assert sorted(found.column("id").to_pylist()) == list(range(10))
        async with adelta.open_table(uri) as ours:
            read = await (await ours.snapshot()).scan().to_arrow()
        assert sorted(read.column("id").to_pylist()) == list(range(10))
