"""B13-01 to B13-04: tables that a catalog manages, read through the catalog's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import adelta
import adelta.sync
from adelta.commit.catalog_store import catalog_store
from adelta.commit.owner import RatifiedCommit, RatifiedCommits
from adelta.errors import (
    InvalidOptionError,
    InvalidTableError,
    ObjectNotFoundError,
    StorageError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.actions.commit_info import CommitInfo
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.log_path import (
    LAST_CHECKPOINT_PATH,
    LOG_DIR,
    STAGED_DIR,
    checkpoint_path,
    commit_path,
    compaction_path,
)
from adelta.parquet.reader import ParquetFile
from adelta.storage.local import LocalStore
from adelta.table import Table
from tests.support.catalogs import SqliteCatalog
from tests.support.managed_tables import NeverPublishing, created, handle, ids, log_of, rows
from tests.support.stores import CountingStore, WrappedStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore

UUID = "016ae953-37a9-438e-8683-9a9a4a79a395"


@pytest.fixture
def catalog(tmp_path: Path) -> SqliteCatalog:
    return SqliteCatalog(str(tmp_path / "catalog.db"))


async def worked_example(catalog: SqliteCatalog) -> ObjectStore:
    """B13-04: the log and the catalog of PROTOCOL.md, "Reading Catalog-managed Tables"."""
    store = await created(catalog)
    table = handle(store, catalog)
    for version in range(1, 11):
        await adelta.write_table(table, rows(version))
        if version == 2:
            await adelta.checkpoint(table)
        if version == 5:
            await adelta.compact_log(table, start_version=3, end_version=5)
    metas = [meta.path async for page in store.list(LOG_DIR) for meta in page]
    commits = {v: await store.get(commit_path(v)) for v in range(7, 11)}
    doomed = [p for p in metas if p.startswith(STAGED_DIR)]
    doomed += [f"{LOG_DIR}{v:020d}.{ending}" for v in (8, 9, 10) for ending in ("json", "crc")]
    await store.delete(doomed)

    def staged(version: int, unique: str) -> str:
        return f"{version:020d}.{unique}.json"

    await store.put(STAGED_DIR + staged(7, UUID), commits[7])
    await store.put(STAGED_DIR + staged(8, "7d17ac10-5cc3-401b-bd1a-9c82dd2ea032"), commits[8])
    rejected = encode_commit([CommitInfo(operation="WRITE", in_commit_timestamp=1)])
    await store.put(STAGED_DIR + staged(8, "b91807ba-fe18-488c-a15e-c4807dbd2174"), rejected)
    await store.put(STAGED_DIR + staged(10, "0f707846-cd18-4e01-b40e-84ee0ae987b0"), commits[10])
    await store.put(
        STAGED_DIR + staged(10, "7a980438-cb67-4b89-82d2-86f73239b6d6"), commits[10][:40]
    )
    catalog.name = "example"
    catalog.register(6)
    catalog.ratify(RatifiedCommit(7, staged(7, UUID)))
    catalog.ratify(RatifiedCommit(8, staged(8, "7d17ac10-5cc3-401b-bd1a-9c82dd2ea032")))
    catalog.ratify(RatifiedCommit(9, content=commits[9]))
    return store


async def test_the_protocols_worked_example_is_read_as_version_9(catalog: SqliteCatalog) -> None:
    """B13-01 to B13-04, D20: staged, inline and published commits make one log."""
    store = await worked_example(catalog)
    table = handle(store, catalog)
    snapshot = await table.snapshot()
    assert snapshot.version == 9
    assert await ids(table) == list(range(1, 10))
    for version in (1, 4, 7, 8, 9):
        assert await ids(table, version=version) == list(range(1, version + 1))
    with pytest.raises(VersionNotFoundError):
        await table.snapshot(version=10)
    stamps = [(await table.snapshot(version=v)).timestamp for v in range(1, 10)]
    for version, stamp in enumerate(stamps, 1):
        assert (await handle(store, catalog).snapshot(timestamp=stamp)).version == version


async def test_the_catalogs_copy_wins_and_what_lies_above_its_latest_is_ignored(
    catalog: SqliteCatalog,
) -> None:
    """B13-03, D20."""
    store = await worked_example(catalog)
    other = encode_commit([CommitInfo(operation="OTHER", in_commit_timestamp=1)])
    for version in (7, 10):
        await store.delete([commit_path(version)])
        await store.put(commit_path(version), other)
    await store.put(f"{LOG_DIR}{11:020d}.json", other)
    await store.put(checkpoint_path(10), b"of a version that does not count")
    await store.put(compaction_path(8, 10), other)
    await store.put(LAST_CHECKPOINT_PATH, b'{"version": 10, "size": 1}')
    table = handle(store, catalog)
    assert (await table.snapshot()).version == 9
    assert await ids(table) == list(range(1, 10))
    assert [c.version for c in await history_of(table)] == list(range(9, -1, -1))
    assert "OTHER" not in [c.operation for c in await history_of(table)]
    assert (await table.snapshot()).version == 9, "asked again, it looks for 10"


async def history_of(table: Table) -> list[Any]:
    return list(await adelta.history(table))


async def test_a_rejected_published_or_staged_commit_is_never_asked_for(
    catalog: SqliteCatalog,
) -> None:
    """B13-02: the folder of staged commits is not listed, and only ratified ones are read."""
    store = CountingStore(await worked_example(catalog))
    table = handle(store, catalog)
    assert await ids(table) == list(range(1, 10))
    staged = [r.path for r in store.requests if r.path.startswith(STAGED_DIR)]
    assert [path.removeprefix(STAGED_DIR)[18:22] for path in staged] == ["07.0", "08.7"]
    assert commit_path(7) not in store.paths("get")


async def test_refresh_asks_the_catalog_and_reads_what_is_new(catalog: SqliteCatalog) -> None:
    store = await created(catalog)
    writer, counted = handle(store, catalog), CountingStore(store)
    reader = handle(counted, catalog)
    assert await ids(reader) == []
    for number in range(1, 4):
        await adelta.write_table(writer, rows(number))
        counted.clear()
        catalog.asked.clear()
        assert (await reader.snapshot()).version == number
        assert catalog.asked == ["get", "get"], "for the new commit, and for the one after it"
        assert counted.kinds == {"get": 2}, "the new commit, and the one known before"
    counted.clear()
    catalog.asked.clear()
    assert (await reader.snapshot()).version == 3
    assert (catalog.asked, counted.kinds) == (["get"], {"get": 1})


class LeavesOut(WrappedStore):
    """A store whose listings lack the newest commits, as those of a busy folder may."""

    async def list(
        self, prefix: str = "", *, start_after: str | None = None, recursive: bool = True
    ) -> AsyncIterator[list[Any]]:
        async for page in super().list(prefix, start_after=start_after, recursive=recursive):
            yield [meta for meta in page if meta.path not in map(commit_path, (2, 3, 4))]


async def test_published_commits_that_a_listing_leaves_out_are_looked_for(
    catalog: SqliteCatalog,
) -> None:
    """B13-12: the catalog says how far the log goes, and no reader sees less."""
    store = await created(catalog)
    writer = handle(store, catalog)
    for number in range(1, 4):
        await adelta.write_table(writer, rows(number))
    with catalog._writing() as base:
        base.execute("delete from commits")
    counted = CountingStore(LeavesOut(store))
    assert await ids(handle(counted, catalog)) == [1, 2, 3]
    assert counted.paths("head") == [commit_path(3), commit_path(2)]
    counted = CountingStore(store)
    assert await ids(handle(counted, catalog)) == [1, 2, 3]
    assert counted.paths("head") == []
    await adelta.write_table(writer, rows(4))  # and this one the catalog keeps
    counted = CountingStore(LeavesOut(store))
    assert await ids(handle(counted, catalog)) == [1, 2, 3, 4]
    assert counted.paths("head") == [commit_path(3), commit_path(2)]


@pytest.mark.parametrize("inline", [False, True])
async def test_commits_that_are_not_published_are_seen_once_by_every_reader(
    catalog: SqliteCatalog, inline: bool
) -> None:
    """B13-06: published or not, staged or inline, a commit is there exactly once."""
    catalog.inline = inline
    store = await created(catalog, enableChangeDataFeed="true")
    unpublished = NeverPublishing(store)
    writer, reader = handle(unpublished, catalog), handle(store, catalog)
    following = adelta.tail(reader, poll=0.01)
    for number in range(1, 4):
        await adelta.write_table(writer if number > 1 else handle(store, catalog), rows(number))
        await reader.snapshot()
    assert commit_path(1) in [m.path async for p in store.list(LOG_DIR) for m in p]
    assert commit_path(2) not in [m.path async for p in store.list(LOG_DIR) for m in p]
    for opened in (reader, handle(store, catalog)):
        assert await ids(opened) == [1, 2, 3]
        assert [c.version for c in await history_of(opened)] == [3, 2, 1, 0]
        changed = [batch async for batch in adelta.changes(opened, 1)]
        table = pa.Table.from_batches(changed)
        assert table.column("id").to_pylist() == [1, 2, 3]
        assert table.column("_commit_version").to_pylist() == [1, 2, 3]
    assert [(await anext(following)).version for _ in range(4)] == [0, 1, 2, 3]
    await adelta.write_table(handle(store, catalog), rows(4))
    assert (await anext(following)).version == 4
    await following.aclose()  # type: ignore[attr-defined]  # it is a generator
    assert [f"{v:020d}.json" for v in range(5)] == [
        name for name in await log_of(store) if name.endswith(".json") and "_" not in name
    ]


async def test_without_its_client_a_table_is_read_as_far_as_it_is_published_and_never_written(
    catalog: SqliteCatalog,
) -> None:
    """B13-08: no file system commits; the error says what to pass."""
    store = await created(catalog)
    await adelta.write_table(handle(store, catalog), rows(1))
    await adelta.write_table(handle(NeverPublishing(store), catalog), rows(2))
    table = Table(store.uri, store=store)
    assert await ids(table) == [1]
    before = await log_of(store)
    for write in (
        adelta.write_table(table, rows(3)),
        adelta.delete(table, "id = 1"),
        adelta.set_properties(table, {"a.b": "c"}),
        adelta.checkpoint(table),
        adelta.compact_log(table),
        adelta.cleanup_log(table),
    ):
        with pytest.raises(InvalidOptionError, match=r"catalog=client"):
            await write
    assert await log_of(store) == before


async def test_a_table_that_the_catalog_does_not_know_is_not_there(
    catalog: SqliteCatalog,
) -> None:
    store = await created(catalog)
    catalog.name = "other"
    with pytest.raises(TableNotFoundError, match="other"):
        await handle(store, catalog).snapshot()


async def test_a_staged_file_that_was_published_and_deleted_is_read_where_it_is(
    catalog: SqliteCatalog,
) -> None:
    store = await created(catalog)
    reader = handle(store, catalog)
    await adelta.write_table(handle(store, catalog), rows(1))
    await reader.snapshot()
    staged = [m.path async for p in store.list(STAGED_DIR) for m in p]
    await store.delete(staged)
    assert await ids(handle(store, catalog)) == [1]


def test_what_a_catalog_says_is_checked() -> None:
    """B13-02, B13-09: the version in a staged file's name binds, and commits are contiguous."""
    name = f"{7:020d}.{UUID}.json"
    with pytest.raises(InvalidTableError, match="of that version"):
        RatifiedCommit(8, name)
    for wrong in ("../x.json", f"{7:020d}.json", f"x/{name}"):
        with pytest.raises(InvalidTableError, match="of that version"):
            RatifiedCommit(7, wrong)
    with pytest.raises(InvalidTableError, match="one of them"):
        RatifiedCommit(7)
    with pytest.raises(InvalidTableError, match="one of them"):
        RatifiedCommit(7, name, b"{}")
    seventh, ninth = RatifiedCommit(7, name), RatifiedCommit(9, content=b"{}")
    with pytest.raises(InvalidTableError, match="without a gap"):
        RatifiedCommits(9, (seventh, ninth))
    with pytest.raises(InvalidTableError, match="latest"):
        RatifiedCommits(6, (seventh,))


async def test_a_request_to_the_catalog_that_fails_is_an_error_of_storage(
    catalog: SqliteCatalog,
) -> None:
    store = await created(catalog)

    async def fail(*_: object) -> RatifiedCommits:
        raise OSError("no route")

    catalog.get_ratified_commits = fail  # type: ignore[method-assign]
    with pytest.raises(StorageError, match="no route"):
        await handle(store, catalog).snapshot()


async def test_arrow_reads_the_files_of_a_managed_table_on_the_local_disk_by_itself(
    catalog: SqliteCatalog, tmp_path: Path
) -> None:
    pq.write_table(pa.table({"id": range(100_000)}), tmp_path / "a.parquet")
    plain = LocalStore(tmp_path)
    for store in (plain, catalog_store(plain, catalog, plain.put_if_absent)):
        fetched = await (await ParquetFile.open(store, "a.parquet")).fetch()
        assert fetched.in_file


async def test_whatever_verb_reads_a_commit_the_catalog_says_what_it_is(
    catalog: SqliteCatalog,
) -> None:
    store = await worked_example(catalog)
    await store.put(commit_path(50), b"nobody has ratified this")
    await store.put("z/data.parquet", b"data")
    await store.put("a.parquet", b"data")
    seen = catalog_store(store, catalog, store.put_if_absent)
    for read in (
        seen.get(commit_path(50)),
        seen.get_with_meta(commit_path(50)),
        seen.get_many([commit_path(1), commit_path(50)]),
        seen.get_range(commit_path(50), 0, 3),
        seen.get_ranges(commit_path(50), [(0, 3)]),
        seen.get_suffix(commit_path(50), 3),
        seen.head(commit_path(50)),
    ):
        with pytest.raises(ObjectNotFoundError):
            await read
    kept = commit_path(8)  # staged alone
    data = await seen.get(kept)
    assert await seen.get_range(kept, 1, 5) == data[1:5]
    assert [bytes(part) for part in await seen.get_ranges(kept, [(0, 2), (3, 9)])] == [
        data[:2],
        data[3:9],
    ]
    assert (await seen.get_suffix(kept, 4)).data == data[-4:]
    everything = [m.path async for page in seen.list() for m in page]
    assert everything == sorted(everything)
    assert {"a.parquet", "z/data.parquet", kept} <= {*everything}
    assert commit_path(50) not in everything
    for prefix in ("_delta", LOG_DIR, f"{LOG_DIR}0000", commit_path(8)[:-6], "z/"):
        found = [m.path async for page in seen.list(prefix) for m in page]
        assert found == [path for path in everything if path.startswith(prefix)]
    after = [m.path async for page in seen.list(start_after=kept) for m in page]
    assert after == [path for path in everything if path > kept]
