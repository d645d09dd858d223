"""B13-05 to B13-12: commits to tables that a catalog manages, through the catalog's client."""

from __future__ import annotations

import pickle
from contextlib import AsyncExitStack, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

import adelta
import adelta.sync
from adelta._clock import SYSTEM_CLOCK
from adelta.commit.owner import RatifiedCommit, RatifiedCommits
from adelta.errors import (
    CommitOutcomeUnknownError,
    ConcurrentDeleteReadError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    StorageError,
    TableAlreadyExistsError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import LOG_DIR, STAGED_DIR, commit_path
from adelta.log.commit_reader import read_commit
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.catalogs import MANAGED, SqliteCatalog
from tests.support.clock import ManualClock
from tests.support.managed_tables import SCHEMA, NeverPublishing, created, handle, ids, log_of, rows
from tests.support.stores import CountingStore, FailingStore, Fault, LaterStore

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore


@pytest.fixture
def catalog(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(str(tmp_path / "catalog.db"))


async def test_a_commit_to_an_open_table_is_staged_ratified_and_published(
    catalog: SqliteCatalog,
) -> None:
    """B13-05, B13-06, B13-08: three requests; the fourth put is the version checksum."""
    counted = CountingStore(await created(catalog))
    table = handle(counted, catalog)
    await adelta.write_table(table, rows(1))
    for version in (2, 3):
        counted.clear()
        catalog.asked.clear()
        await adelta.write_table(table, rows(version))
        assert catalog.asked == ["commit"]
        puts = [path for path in counted.paths("put") if path.startswith(LOG_DIR)]
        assert len(counted.requests) == len(puts) + 1, "the rest is the data file"
        assert puts[0].startswith(f"{STAGED_DIR}{version:020d}.")
        assert puts[1:] == [commit_path(version), f"{LOG_DIR}{version:020d}.crc"]
        published = await counted.get(commit_path(version))
        assert published == await counted.get(puts[0])
        info = (await read_commit(counted, version)).info
        assert info is not None
        assert info.txn_id
        assert info.in_commit_timestamp
    kept = await catalog.get_ratified_commits()
    assert [c.version for c in kept.commits] == [3], "it has been told that 2 is published"


async def test_inline_commits_are_ratified_and_published_without_being_staged(
    catalog: SqliteCatalog,
) -> None:
    catalog.inline = True
    counted = CountingStore(await created(catalog))
    table = handle(counted, catalog)
    for number in (1, 2):
        await adelta.write_table(table, rows(number))
    assert [p for p in counted.paths("put") if p.startswith(STAGED_DIR)] == []
    assert await log_of(counted) == [f"{v:020d}.json" for v in range(3)]
    assert await ids(handle(counted, catalog)) == [1, 2]


@pytest.mark.parametrize("tells", [True, False])
async def test_a_lost_race_is_judged_and_rebased_by_what_the_catalog_tells(
    catalog: SqliteCatalog, tells: bool
) -> None:
    """B13-09: the latest commits that come with a conflict save the question."""
    catalog.tells = tells
    store = await created(catalog)
    counted = CountingStore(store)
    late, early = handle(counted, catalog), handle(store, catalog)
    await late.snapshot()
    await adelta.write_table(early, rows(1))
    catalog.asked.clear()
    counted.clear()
    assert (await adelta.write_table(late, rows(2))).version == 2
    assert catalog.asked == ["commit", *([] if tells else ["get"]), "commit"]
    assert await ids(late) == await ids(early) == [1, 2]


async def test_a_conflict_is_a_conflict(catalog: SqliteCatalog) -> None:
    store = await created(catalog)
    mine, other = handle(store, catalog), handle(store, catalog)
    await adelta.write_table(mine, rows(1, 2))
    tx = mine.transaction("DELETE")
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(tx)
        tx.remove_files(await tx.read())
        await adelta.delete(other, "id > 0")
        with pytest.raises(ConcurrentDeleteReadError):
            await tx.__aexit__(None, None, None)
        stack.pop_all()
    assert await ids(other) == []


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize("published", [False, True])
@pytest.mark.parametrize("heard", [False, True])
async def test_an_answer_that_got_lost_is_found_out(
    catalog: SqliteCatalog, heard: bool, published: bool, inline: bool
) -> None:
    """Ratified or not: the commit is there once, and its writer knows its version."""
    catalog.inline = inline
    store = await created(catalog)
    table = handle(store, catalog)
    await adelta.write_table(table, rows(1))
    catalog.lost, catalog.unheard = (1, 0) if heard else (0, 1)
    if published:
        publish_by_server(catalog, store)
    assert (await adelta.write_table(table, rows(2))).version == 2
    assert await ids(handle(store, catalog)) == [1, 2]
    assert (await handle(store, catalog).snapshot()).version == 2


def publish_by_server(catalog: SqliteCatalog, store: ObjectStore) -> None:
    """Let the catalog publish what it ratifies, and forget it at once."""
    ratify = catalog._commit

    def commit(proposed: Any) -> Any:
        response = ratify(proposed)
        if response.ratified:
            assert isinstance(store, MemoryStore)
            store._put(commit_path(proposed.version), proposed.content)
            with catalog._writing() as base:
                base.execute("delete from commits")
        return response

    catalog._commit = commit  # type: ignore[method-assign]


async def test_a_version_that_another_took_while_nobody_heard_is_the_others(
    catalog: SqliteCatalog,
) -> None:
    """Published and forgotten by the catalog, it can only be told by its `txnId`."""
    store = await created(catalog)
    mine, other = handle(store, catalog), handle(store, replace(catalog))
    await mine.snapshot()
    ask, catalog.unheard = catalog.get_ratified_commits, 1

    async def asked(start: int | None = None, end: int | None = None) -> RatifiedCommits:
        catalog.get_ratified_commits = ask  # type: ignore[method-assign]
        await adelta.write_table(other, rows(1))
        with catalog._writing() as base:
            base.execute("delete from commits")
        return await ask(start, end)

    catalog.get_ratified_commits = asked  # type: ignore[method-assign]
    assert (await adelta.write_table(mine, rows(2))).version == 2
    assert await ids(handle(store, catalog)) == [1, 2]


async def test_a_handle_publishes_what_another_one_of_its_process_has_left(
    catalog: SqliteCatalog,
) -> None:
    """The second goes behind the first one's commit without asking the catalog of it."""
    store = await created(catalog)
    first, order = handle(NeverPublishing(store), catalog), CountingStore(store)
    second = handle(order, catalog)
    second._queue = first._queue  # as two have that `open_table` made
    await second.snapshot()
    await adelta.write_table(first, rows(1))
    catalog.asked.clear()
    assert (await adelta.write_table(second, rows(2))).version == 2
    assert catalog.asked == ["commit", "get"]
    published = [p for p in order.paths("put") if p.endswith(".json") and STAGED_DIR not in p]
    assert published == [commit_path(1), commit_path(2)]


async def test_the_catalog_is_told_what_is_published(catalog: SqliteCatalog) -> None:
    """By a handle that has published itself, and by one that has seen it."""
    store = await created(catalog)
    table = handle(store, catalog)
    for number in range(1, 4):
        await adelta.write_table(table, rows(number))
    await adelta.write_table(handle(store, catalog), rows(4))
    assert [each.published_version for each in catalog.proposals] == [0, 1, 2, 3]
    assert [each.version for each in catalog.proposals] == [1, 2, 3, 4]
    assert (await catalog.get_ratified_commits()).commits[0].version == 4


async def test_an_answer_that_cannot_be_found_out_is_unknown(catalog: SqliteCatalog) -> None:
    store = await created(catalog)
    table = handle(store, catalog)
    await adelta.write_table(table, rows(1))
    catalog.lost = 1

    async def fail(*_: object) -> RatifiedCommits:
        raise StorageError("the catalog is gone")

    works, catalog.get_ratified_commits = catalog.get_ratified_commits, fail  # type: ignore[method-assign]
    with pytest.raises(CommitOutcomeUnknownError, match="txnId"):
        await adelta.write_table(table, rows(2))
    catalog.get_ratified_commits = works  # type: ignore[method-assign]
    assert await ids(table) == [1, 2], "and the data file was kept"


async def test_a_refusal_after_a_doubt_is_not_believed_where_nobody_can_be_asked(
    catalog: SqliteCatalog,
) -> None:
    """The first proposal may have been ratified after the question that did not find it."""
    catalog.tells, catalog.unheard = False, 1
    store = await created(catalog)
    table = handle(store, catalog)
    await table.snapshot()
    ask = catalog.get_ratified_commits

    async def asked(*given: Any) -> RatifiedCommits:
        if catalog.asked.count("commit") < 2:
            answer = await ask(*given)
            catalog.ratify(RatifiedCommit(1, content=b"{}"))
            return answer
        raise StorageError("the catalog is gone")

    catalog.get_ratified_commits = asked  # type: ignore[method-assign]
    catalog.asked.clear()
    with pytest.raises(CommitOutcomeUnknownError):
        await adelta.write_table(table, rows(1))


async def test_what_could_not_be_published_hides_no_success_and_the_next_writer_publishes_it(
    catalog: SqliteCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    """B13-06: in order, and by whoever comes next."""
    store = await created(catalog, checkpointInterval="2")
    writer = handle(NeverPublishing(store), catalog)
    for number in (1, 2):
        assert (await adelta.write_table(writer, rows(number))).version == number
    assert "its publication failed" in caplog.text
    assert f"{2:020d}.checkpoint.parquet" not in await log_of(store), "B13-07"
    assert f"{1:020d}.json" not in await log_of(store)
    order = CountingStore(store)
    assert (await adelta.write_table(handle(order, catalog), rows(3))).version == 3
    published = [p for p in order.paths("put") if p.endswith(".json") and STAGED_DIR not in p]
    assert published == [commit_path(v) for v in (1, 2, 3)]
    assert await ids(handle(store, catalog)) == [1, 2, 3]


async def test_checkpoints_and_compactions_are_of_published_versions(
    catalog: SqliteCatalog,
) -> None:
    """B13-07: what is missing is published first, and where that fails there is none."""
    store = await created(catalog)
    writer = handle(NeverPublishing(store), catalog)
    for number in (1, 2):
        await adelta.write_table(writer, rows(number))
    for verb in (adelta.checkpoint, adelta.compact_log):
        with pytest.raises(StorageError, match="cannot be published"):
            await verb(writer)
    assert [n for n in await log_of(store) if not n.startswith("_staged")] == [f"{0:020d}.json"]
    await adelta.compact_log(handle(store, catalog), start_version=1, end_version=2)
    assert {f"{v:020d}.json" for v in range(3)} <= set(await log_of(store))
    await adelta.checkpoint(handle(store, catalog))
    assert await ids(handle(store, catalog)) == [1, 2]


@pytest.mark.parametrize("permits", [False, True])
async def test_a_table_is_maintained_where_the_catalog_permits_it(
    catalog: SqliteCatalog, monkeypatch: pytest.MonkeyPatch, permits: bool
) -> None:
    """B13-07, by hand, and after a checkpoint and a commit."""
    catalog.permits = permits
    store = await created(catalog)
    table = handle(store, catalog)
    for number in range(1, 4):
        await adelta.write_table(table, rows(number))
    await adelta.checkpoint(table)
    allowed = nullcontext() if permits else pytest.raises(InvalidUseError, match="not permit")
    for verb in (
        partial(adelta.cleanup_log, retention=timedelta(0)),
        adelta.vacuum,
        adelta.optimize,
        adelta.reorg_purge,
    ):
        with allowed:
            await verb(table)
    assert f"{0:020d}.json" in await log_of(store), "younger than an hour"
    monkeypatch.setattr("adelta.operations.rearrange.auto_compaction._LEAST_FILES", 2)
    await adelta.set_properties(table, {"delta.autoOptimize.autoCompact": "true"})
    await adelta.write_table(table, rows(4))
    assert (await adelta.detail(table)).num_files == (1 if permits else 4)
    assert await ids(handle(store, catalog)) == [1, 2, 3, 4]


@pytest.mark.parametrize("forgets", [False, True])
async def test_what_is_cleaned_up_later_is_nothing_that_the_table_needs(
    catalog: SqliteCatalog, forgets: bool
) -> None:
    """B13-07: a year later, with commits that nobody has published."""
    catalog.permits, catalog.forgets = True, forgets
    store = await created(catalog)
    table = handle(store, catalog)
    for number in range(1, 4):
        await adelta.write_table(table, rows(number))
    await adelta.checkpoint(table)
    lazy = handle(NeverPublishing(store), catalog)
    for number in range(4, 6):
        await adelta.write_table(lazy, rows(number))
    passed_ms = 400 * 24 * 3600 * 1000
    clock = ManualClock(SYSTEM_CLOCK.now_ms() + passed_ms)
    later = Table(store.uri, store=LaterStore(store, passed_ms), catalog=catalog, clock=clock)
    cleaned = await adelta.cleanup_log(later)
    assert cleaned.first_version == 3
    assert f"{LOG_DIR}{2:020d}.json" in cleaned.paths
    assert [n for n in await log_of(store) if n.endswith(".json") and n < "_"] == [commit(3)]
    assert await ids(handle(store, catalog)) == [1, 2, 3, 4, 5]
    with pytest.raises(VersionNotFoundError):
        await handle(store, catalog).snapshot(version=1)
    await adelta.write_table(handle(store, catalog), rows(6))
    assert [n for n in await log_of(store) if n.endswith(".json") and n < "_"] == [
        commit(version) for version in range(3, 7)
    ]
    assert await ids(handle(store, catalog)) == [1, 2, 3, 4, 5, 6]


def commit(version: int) -> str:
    return f"{version:020d}.json"


async def test_a_client_for_a_table_that_no_catalog_manages_is_refused(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    await adelta.write_table(uri, rows(1))
    catalog.register()
    async with adelta.open_table(uri, catalog=catalog) as table:
        for read in (table.snapshot(), adelta.write_table(table, rows(2))):
            with pytest.raises(InvalidOptionError, match="not managed by a catalog"):
                await read
    with pytest.raises(InvalidOptionError, match="open_table"):
        async with adelta.open_table(uri) as table:
            await adelta.write_table(table, rows(2), catalog=catalog)


async def test_a_table_is_created_through_the_file_system_and_registered_afterwards(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    """B13-11, B13-12, B2-14."""
    uri = str(tmp_path / "table")
    with pytest.raises(InvalidOptionError, match="catalog=client"):
        await adelta.create_table(uri, SCHEMA, properties=MANAGED)
    with pytest.raises(InvalidOptionError, match="catalog=client"):
        await adelta.write_table(uri, rows(1), properties=MANAGED)
    with pytest.raises(InvalidOptionError, match="not managed"):
        await adelta.create_table(uri, SCHEMA, catalog=catalog)
    assert not (tmp_path / "table").exists()
    async with await adelta.create_table(uri, SCHEMA, properties=MANAGED, catalog=catalog) as table:
        assert catalog.asked.count("commit") == 0
        catalog.register()
        assert (await adelta.write_table(table, rows(1))).version == 1
        snapshot = await table.snapshot()
        features = snapshot.protocol.writer_features
        assert {"catalogManaged", "inCommitTimestamp", "vacuumProtocolCheck"} <= set(features or ())
        assert "catalogManaged" in (snapshot.protocol.reader_features or ())
        assert snapshot.properties["delta.enableInCommitTimestamps"] == "true"
    with pytest.raises(TableAlreadyExistsError):
        await adelta.create_table(uri, SCHEMA, properties=MANAGED, catalog=catalog)
    catalog.name = "elsewhere"
    with pytest.raises(TableAlreadyExistsError):
        await adelta.create_table(uri, SCHEMA, properties=MANAGED, catalog=catalog)


async def test_a_table_is_created_with_its_rows_in_one_commit(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    uri = str(tmp_path / "table")
    made = await adelta.write_table(uri, rows(1), properties=MANAGED, catalog=catalog)
    assert made.version == 0
    catalog.register()
    assert (await adelta.write_table(uri, rows(2), catalog=catalog)).version == 1
    async with adelta.open_table(uri, catalog=catalog) as table:
        assert await ids(table) == [1, 2]


async def test_an_existing_table_is_neither_upgraded_nor_robbed_of_its_timestamps(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    """B13-08: in-commit timestamps are always active."""
    plain = str(tmp_path / "plain")
    await adelta.write_table(plain, rows(1))
    with pytest.raises(InvalidPropertyError, match="cannot come to be managed"):
        await adelta.add_feature(plain, "catalogManaged")
    table = handle(await created(catalog), catalog)
    off = {"delta.enableInCommitTimestamps": "false"}
    with pytest.raises(InvalidPropertyError, match="has to be true"):
        await adelta.set_properties(table, off)
    with pytest.raises(InvalidPropertyError, match="has to be true"):
        await adelta.create_table(
            str(tmp_path / "new"), SCHEMA, properties={**MANAGED, **off}, catalog=catalog
        )


async def test_a_handle_is_pickled_with_its_client(catalog: SqliteCatalog, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    await adelta.write_table(uri, rows(1), properties=MANAGED, catalog=catalog)
    catalog.register()
    async with (
        adelta.open_table(uri, catalog=catalog) as table,
        pickle.loads(pickle.dumps(table)) as other,
    ):
        assert (await adelta.write_table(other, rows(2))).version == 1
        assert await ids(table) == [1, 2]


def test_blocking_code_passes_the_same_client(catalog: SqliteCatalog, tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    adelta.sync.create_table(uri, SCHEMA, properties=MANAGED, catalog=catalog).close()
    catalog.register()
    with adelta.sync.open_table(uri, catalog=catalog) as table:
        adelta.sync.write_table(table, rows(1))
        adelta.sync.delete(table, "id = 1")
        adelta.sync.write_table(table, rows(2))
        assert table.snapshot().version == 3
        assert table.snapshot().scan().to_arrow() == rows(2)


@pytest.mark.parametrize("after", [False, True])
async def test_a_failure_at_each_request_of_a_commit_loses_nothing(
    catalog: SqliteCatalog, after: bool
) -> None:
    """Before the ratification nothing is committed; after it everything is."""
    plain = await created(catalog)
    for number in range(8):
        store = FailingStore(plain, {})
        table = handle(store, catalog)
        before = await ids(table)
        store.faults = {store.made + number: Fault(after=after)}
        try:
            await adelta.write_table(table, rows(number))
        except StorageError:
            assert await ids(handle(plain, catalog)) == before
        else:
            assert await ids(handle(plain, catalog)) == sorted([*before, number])
        await adelta.write_table(handle(plain, catalog), rows(100 + number))
