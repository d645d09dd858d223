"""The log and what goes by it in a store that lists in no order, and from the beginning alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.kernel.log_path import LOG_DIR
from adelta.log import listing
from adelta.log.tip import read_tip
from adelta.operations import vacuum_listing
from adelta.storage.memory import MemoryStore
from adelta.storage.object_store import ObjectStore
from adelta.storage.resolve import open_store

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.table import Table
    from tests.support.express_server import ExpressLocation, FakeExpress

ROWS = pa.table({"n": [1]})
VERSIONS = 23
DAYS = 40 * 86_400_000


@pytest.fixture
async def table(
    express_location: ExpressLocation, fake_express: FakeExpress
) -> AsyncIterator[Table]:
    """A table with checkpoints each five versions, whose log takes several pages to list."""
    properties = {"delta.checkpointInterval": "5", "delta.enableExpiredLogCleanup": "false"}
    place = express_location
    async with adelta.open_table(place.uri, place.storage_options) as table:
        for _ in range(VERSIONS + 1):
            await adelta.write_table(table, ROWS, properties=properties)
        fake_express.page = 7
        fake_express.asked.clear()
        yield table


def make_older(server: FakeExpress, ms: int) -> None:
    """Let all objects have been written so many milliseconds before."""
    for objects in server.objects.values():
        for key, stored in objects.items():
            objects[key] = replace(stored, modified=stored.modified - ms / 1000)


async def in_order(store: ObjectStore) -> MemoryStore:
    """A copy in a store that lists in order."""
    copied = MemoryStore()
    async for page in store.list():
        for meta in page:
            await copied.put(meta.path, await store.get(meta.path))
    return copied


async def test_every_look_at_the_log_sees_what_it_sees_in_a_store_that_lists_in_order(
    table: Table,
) -> None:
    store = table.store
    other = await in_order(store)

    def names(files: object) -> list[tuple[str, int]]:
        return [(file.path, file.size) for file in files]  # type: ignore[attr-defined]

    for start in (0, 1, 9, VERSIONS, VERSIONS + 1):
        for end in (None, 0, 12, VERSIONS):
            found = await listing.list_log(store, start, end=end)
            assert names(found) == names(await listing.list_log(other, start, end=end))
    for version in (0, 4, 17, VERSIONS, VERSIONS + 5):
        back = await listing.list_log_back(store, version)
        assert names(back) == names(await listing.list_log_back(other, version))
    commits = await listing.list_commits(store, 3, 12)
    assert names(commits) == names(await listing.list_commits(other, 3, 12))
    whole = await listing.list_whole_log(store, VERSIONS)
    assert names(whole) == names(await listing.list_whole_log(other, VERSIONS))
    pages = [file async for page in listing.list_log_pages(store) for file in page]
    assert names(pages) == names(whole)
    middle = pages[len(pages) // 2].last_modified_ms
    until = await listing.list_log_until(store, middle)
    assert names(until) == names(pages[: len(until)])
    assert any(file.last_modified_ms > middle for file in until)


async def test_a_table_is_opened_by_one_listing_and_what_its_hint_names(
    table: Table, express_location: ExpressLocation, fake_express: FakeExpress
) -> None:
    log = [m async for page in table.store.list(LOG_DIR, recursive=False) for m in page]
    pages = -(-len(log) // 7)
    fake_express.asked.clear()
    async with adelta.open_table(express_location.uri, express_location.storage_options) as fresh:
        snapshot = await fresh.snapshot()
        assert snapshot.version == VERSIONS
        assert await snapshot.scan().count() == VERSIONS + 1
        assert fake_express.asked["list"] == pages
        fake_express.asked.clear()
        await adelta.write_table(table, ROWS)
        assert (await fresh.snapshot()).version == VERSIONS + 1
        assert fake_express.asked["list"] == 0  # the next commits are asked for by name
    found = await listing.list_log_from_hint(table.store)
    assert found.start == 20
    assert {file.version for file in found.files} == {20, 21, 22, 23, 24}


async def test_a_hint_that_points_nowhere_costs_a_listing(table: Table) -> None:
    await table.store.put(f"{LOG_DIR}_last_checkpoint", b'{"version":22,"size":1}')
    found = await listing.list_log_from_hint(table.store)
    assert (found.start, found.hint) == (0, None)
    assert {file.version for file in found.files} == {*range(VERSIONS + 1)}


async def test_times_versions_history_and_changes_are_found(table: Table) -> None:
    assert (await table.snapshot(version=13)).version == 13
    entries = await adelta.history(table)
    assert [entry.version for entry in entries] == [*range(VERSIONS, -1, -1)]
    for version in (0, 11, VERSIONS):
        moment = entries[VERSIONS - version].timestamp
        assert (await table.snapshot(timestamp=moment)).version == version


async def test_the_end_of_a_log_is_found_by_one_listing(
    table: Table, express_location: ExpressLocation, fake_express: FakeExpress
) -> None:
    fake_express.page = 1000
    lake, _, name = express_location.uri.rpartition("/")
    store = open_store(lake, express_location.storage_options)
    first = await read_tip(store, name)
    assert first is not None
    assert (first.version, first.checkpoint) == (VERSIONS, 20)
    assert await read_tip(store, name, first) is first
    await adelta.write_table(table, ROWS)
    before = fake_express.asked["list"]
    later = await read_tip(store, name, first)
    assert later is not None
    assert (later.version, later.generation) == (VERSIONS + 1, first.generation)
    assert fake_express.asked["list"] == before + 1
    await store.aclose()


async def test_a_vacuum_deletes_orphans_alone_and_lists_everything_once(
    table: Table,
    express_location: ExpressLocation,
    fake_express: FakeExpress,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vacuum_listing, "_ROWS", 10)  # so that there are several batches
    orphans = sorted(f"p={number % 5}/{number:03}.parquet" for number in range(60))
    for orphan in orphans:
        await table.store.put(orphan, b"x")
    everything = [meta async for page in table.store.list() for meta in page]
    make_older(fake_express, DAYS)
    fake_express.asked.clear()
    found = await adelta.vacuum(table, dry_run=True)
    assert found.files.column("path").to_pylist() == orphans
    assert fake_express.asked["list"] == -(-len(everything) // 7)
    done = await adelta.vacuum(table)
    assert done.num_deleted_files == len(orphans)
    async with adelta.open_table(express_location.uri, express_location.storage_options) as fresh:
        assert (await (await fresh.snapshot()).scan().to_arrow()).num_rows == VERSIONS + 1


async def test_the_log_is_cleaned_up_to_a_checkpoint_and_no_further(
    table: Table, express_location: ExpressLocation, fake_express: FakeExpress
) -> None:
    make_older(fake_express, DAYS)
    done = await adelta.cleanup_log(table)
    assert done.num_commits == 20
    async with adelta.open_table(express_location.uri, express_location.storage_options) as fresh:
        assert await (await fresh.snapshot()).scan().count() == VERSIONS + 1
        left = await listing.list_log(fresh.store)
    assert {file.version for file in left} == {20, 21, 22, 23}


@pytest.mark.parametrize("kind", ["plain", "cached", "locked"])
async def test_who_needs_no_order_gets_pages_as_they_come_through_all_that_is_around_a_store(
    table: Table, express_location: ExpressLocation, tmp_path: Path, kind: str
) -> None:
    options = express_location.storage_options
    if kind == "cached":
        options |= {"adelta_cache_dir": str(tmp_path)}
    if kind == "locked":
        options |= {"adelta_commit_lock": "postgresql://nobody@127.0.0.1:1/none"}
    async with adelta.open_table(express_location.uri, options) as other:
        found = [[m.path for m in page] async for page in other.store.list_unordered(LOG_DIR)]
        paths = [path for page in found for path in page]
        assert max(map(len, found)) == 7
        assert paths != sorted(paths)
        assert sorted(paths) == [m.path async for page in other.store.list(LOG_DIR) for m in page]


def test_who_changes_what_is_listed_changes_both_ways_to_list() -> None:
    """Else what a store leaves out, or adds, would be missed by those who need no order."""
    kinds, odd = [ObjectStore], []
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        home = next(each for each in kind.__mro__ if "list_unordered" in vars(each))
        if "list" in vars(kind) and home not in (kind, ObjectStore):
            odd.append(kind.__name__)
    assert odd == []
