"""The change data feed: which rows each commit changed, and when it has to be refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import adelta
from adelta import Position
from adelta.errors import (
    ChangesNotAvailableError,
    InvalidOptionError,
    InvalidTableError,
    MissingDataFileError,
    SchemaMismatchError,
    VersionNotFoundError,
)
from adelta.kernel.log_path import commit_path
from adelta.kernel.schema import types as t
from adelta.storage.memory import MemoryStore
from tests.support.data_tables import described, inline_vector, opened, put_data
from tests.support.logs import Line, add, put_commit
from tests.support.stores import OverlookingStore

IDS = pa.schema([("id", pa.int64())])
ON = {"delta.enableChangeDataFeed": "true"}
FEED = {"writer_features": ("changeDataFeed",), "configuration": ON}


def ids(*values: int) -> pa.Table:
    return pa.table({"id": pa.array(values, pa.int64())})


def removed(line: Line, **more: Any) -> Line:
    """The `remove` of what a line adds."""
    body = line["add"]
    kept = {key: body[key] for key in ("path", "deletionVector") if key in body}
    return {"remove": {**kept, "deletionTimestamp": 1, "dataChange": True, **more}}


async def rows_of(table: adelta.Table, *bounds: Any, **asked: Any) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    async for batch in adelta.changes(table, *bounds, **asked):
        kept = pa.table(batch).drop_columns(["_commit_timestamp"])
        found += zip(*kept.to_pydict().values(), strict=True)
    return found


async def feed(*commits: list[Line], **first: Any) -> list[tuple[Any, ...]]:
    table = await opened(first.pop("store"), *commits)
    async with table:
        return await rows_of(table, **first)


async def test_files_added_are_inserts_and_files_removed_are_deletes():
    store = MemoryStore()
    one, two = [await put_data(store, f"{n}.parquet", ids(n)) for n in (1, 2)]
    commits = [[*described(IDS, **FEED), one], [removed(one), two], [removed(two)]]
    assert await feed(*commits, store=store) == [
        (1, "insert", 0),
        (1, "delete", 1),
        (2, "insert", 1),
        (2, "delete", 2),
    ]


async def test_a_commit_with_change_files_is_read_from_these_alone():
    store = MemoryStore()
    old = await put_data(store, "old.parquet", ids(1, 2))
    new = await put_data(store, "new.parquet", ids(1, 3))
    rows = ids(2, 3).append_column(
        "_change_type", pa.array(["update_preimage", "update_postimage"])
    )
    change = (await put_data(store, "_change_data/c.parquet", rows))["add"]
    cdc = {
        "cdc": {**{k: change[k] for k in ("path", "partitionValues", "size")}, "dataChange": False}
    }
    commits = [[*described(IDS, **FEED), old], [removed(old), new, cdc]]
    table = await opened(store, *commits)
    async with table:
        assert await rows_of(table, 1) == [(2, "update_preimage", 1), (3, "update_postimage", 1)]


async def test_rearranged_files_change_nothing():
    store = MemoryStore()
    one = await put_data(store, "1.parquet", ids(1))
    two = await put_data(store, "2.parquet", ids(1), action={"dataChange": False})
    commits = [[*described(IDS, **FEED), one], [removed(one, dataChange=False), two]]
    assert await feed(*commits, store=store) == [(1, "insert", 0)]


@pytest.mark.parametrize("updated", ["0", "1"])
async def test_a_merge_that_says_that_it_changed_no_row_changes_nothing(updated):
    store = MemoryStore()
    one, again = [await put_data(store, f"{n}.parquet", ids(1)) for n in (1, 2)]
    metrics = dict.fromkeys(("numTargetRowsInserted", "numTargetRowsDeleted"), "0")
    metrics["numTargetRowsUpdated"] = updated
    info = {"commitInfo": {"operation": "MERGE", "operationMetrics": metrics}}
    rows = await feed(
        described(IDS, **FEED), [one], [info, removed(one), again], store=store, since=2
    )
    assert rows == ([] if updated == "0" else [(1, "delete", 2), (1, "insert", 2)])


async def test_a_vector_that_grows_deletes_rows_and_one_that_shrinks_brings_them_back():
    """D30, D31: remove and add of one path are the same file."""
    store = MemoryStore()
    plain = await put_data(store, "f.parquet", ids(10, 11, 12, 13))
    first = {"add": plain["add"] | {"deletionVector": inline_vector([0, 1])}}
    second = {"add": plain["add"] | {"deletionVector": inline_vector([1, 3])}}
    commits = [
        [*described(IDS, **FEED), plain],
        [removed(plain), first],
        [removed(first), second],
        [removed(second), plain],
        [removed(plain)],
    ]
    assert await feed(*commits, store=store) == [
        *((n, "insert", 0) for n in (10, 11, 12, 13)),
        (10, "delete", 1),
        (11, "delete", 1),
        (13, "delete", 2),
        (10, "insert", 2),
        (11, "insert", 3),
        (13, "insert", 3),
        *((n, "delete", 4) for n in (10, 11, 12, 13)),
    ]


async def test_a_removed_file_deletes_only_the_rows_that_its_vector_left():
    store = MemoryStore()
    action = {"deletionVector": inline_vector([0])}
    line = await put_data(store, "f.parquet", ids(1, 2), action=action)
    commits = [[*described(IDS, **FEED), line], [removed(line)]]
    assert await feed(*commits, store=store) == [(2, "insert", 0), (2, "delete", 1)]


async def test_partition_values_come_along_even_where_a_remove_lacks_them():
    """D24: old writers leave them out."""
    store = MemoryStore()
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    adds = [
        await put_data(store, f"{p}.parquet", ids(n), action={"partitionValues": {"p": p}})
        for n, p in enumerate("ab")
    ]
    described_once = described(schema, partition_by=["p"], **FEED)
    commits = [
        [*described_once, *adds],
        [removed(adds[0]), removed(adds[1], partitionValues={"p": "b"}, extendedFileMetadata=True)],
    ]
    table = await opened(store, *commits)
    async with table:
        found = await rows_of(table, 1)
    assert sorted(found) == [(0, "a", "delete", 1), (1, "b", "delete", 1)]


async def test_a_restore_shows_as_what_it_adds_and_removes():
    store = MemoryStore()
    one, two = [await put_data(store, f"{n}.parquet", ids(n)) for n in (1, 2)]
    commits = [[*described(IDS, **FEED), one], [removed(one), two], [removed(two), one]]
    table = await opened(store, *commits)
    async with table:
        assert await rows_of(table, 2) == [(2, "delete", 2), (1, "insert", 2)]


def mapped(name: str, physical: str, number: int, kind: t.DataType = t.LONG) -> t.StructField:
    return t.StructField(
        name,
        kind,
        metadata={
            "delta.columnMapping.physicalName": physical,
            "delta.columnMapping.id": number,
        },
    )


async def test_renamed_and_added_columns_have_the_last_versions_schema():
    store = MemoryStore()
    configuration = ON | {"delta.columnMapping.mode": "name"}
    options = FEED | {"configuration": configuration}
    before = t.StructType((mapped("id", "col-1", 1),))
    after = t.StructType((mapped("key", "col-1", 1), mapped("note", "col-2", 2, t.STRING)))
    one = await put_data(store, "1.parquet", pa.table({"col-1": [1]}))
    change = pa.table({"col-1": [1], "_change_type": ["delete"]})
    cdc = (await put_data(store, "_change_data/c.parquet", change))["add"]
    commits = [
        [*described(before, **options), one],
        described(after, **options)[1:],
        [{"cdc": {"path": cdc["path"], "partitionValues": {}, "size": cdc["size"]}}],
    ]
    assert await feed(*commits, store=store) == [
        (1, None, "insert", 0),
        (1, None, "delete", 2),
    ]


async def test_files_of_a_narrower_type_are_read_in_the_last_versions():
    store = MemoryStore()
    one = await put_data(store, "1.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    narrow = pa.schema([("id", pa.int32())])
    commits = [[*described(narrow, **FEED), one], described(IDS, **FEED)[1:]]
    assert await feed(*commits, store=store) == [(1, "insert", 0)]


async def test_only_the_columns_asked_for_come():
    store = MemoryStore()
    schema = pa.schema([("id", pa.int64()), ("other", pa.string())])
    one = await put_data(store, "1.parquet", pa.table({"id": [1], "other": ["x"]}))
    commits = [[*described(schema, **FEED), one]]
    assert await feed(*commits, store=store, columns=["other"]) == [("x", "insert", 0)]
    async with await opened(store) as table:
        with pytest.raises(SchemaMismatchError, match="'gone'"):
            await rows_of(table, columns=["gone"])


async def five(store: MemoryStore) -> adelta.Table:
    """A table of five commits, a row each, with the times 1000, 1010, ... 1040 in commits."""
    configuration = ON | {"delta.enableInCommitTimestamps": "true"}
    writer_features = ("changeDataFeed", "inCommitTimestamp")
    head = described(IDS, configuration=configuration, writer_features=writer_features)
    commits = []
    for n in range(5):
        info = {
            "commitInfo": {"inCommitTimestamp": 1000 + 10 * n, "timestamp": 1, "operation": "WRITE"}
        }
        line = await put_data(store, f"{n}.parquet", ids(n))
        commits.append([info, *(head if n == 0 else []), line])
    return await opened(store, *commits)


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)


@pytest.mark.parametrize(
    ("since", "until", "versions"),
    [
        (0, None, [0, 1, 2, 3, 4]),
        (2, 3, [2, 3]),
        (4, 4, [4]),
        (at(1010), at(1030), [1, 2, 3]),
        (at(1011), at(1039), [2, 3]),
        ("1970-01-01T00:00:01.020Z", None, [2, 3, 4]),
        (3, at(1040), [3, 4]),
        (Position(3), None, [3, 4]),
        (Position(1), 2, [1, 2]),
        (Position(1), Position(3), [1, 2]),
        (2, Position(5), [2, 3, 4]),
        (Position(2), Position(2), []),
        (0, Position(0), []),
        (5, None, []),
        (Position(5), None, []),
        (5, 4, []),
        (Position(5), Position(5), []),
    ],
)
async def test_bounds_are_versions_or_times_and_both_belong_to_the_range(since, until, versions):
    async with await five(MemoryStore()) as table:
        assert [row[-1] for row in await rows_of(table, since, until)] == versions


async def test_each_row_bears_the_time_of_its_commit():
    async with await five(MemoryStore()) as table:
        found = [
            value
            async for batch in adelta.changes(table, 1, 2)
            for value in batch.column("_commit_timestamp").to_pylist()
        ]
    assert found == [at(1010), at(1020)]


async def test_ranges_outside_the_history_are_refused():
    async with await five(MemoryStore()) as table:
        for since, until in ((-1, None), (6, None), (Position(6), None), (0, 5), (7, 9), (5, 5)):
            with pytest.raises(VersionNotFoundError, match="latest version is 4"):
                await rows_of(table, since, until)
        with pytest.raises(InvalidOptionError, match="empty range"):
            await rows_of(table, 3, 2)
        for since in (True, 1.5, None, [1]):
            with pytest.raises(InvalidOptionError, match="since is a version, a time"):
                await rows_of(table, since)
        with pytest.raises(InvalidOptionError, match="until is a version"):
            await rows_of(table, 0, True)


async def test_versions_without_the_feed_are_refused():
    store = MemoryStore()
    one = await put_data(store, "1.parquet", ids(1))
    off = described(IDS, writer_features=("changeDataFeed",))
    on, two = described(IDS, **FEED)[1:], await put_data(store, "2.parquet", ids(2))
    table = await opened(store, [*off, one], [*on, two], [*off[1:]])
    async with table:
        assert await rows_of(table, 1, 1) == [(2, "insert", 1)]
        for since, until, version in ((0, 1, 0), (1, 2, 2)):
            with pytest.raises(ChangesNotAvailableError, match=f"not enabled at version {version}"):
                await rows_of(table, since, until)


async def test_a_feed_that_only_the_property_names_is_none():
    """The protocol has to support the feature."""
    store = MemoryStore()
    table = await opened(store, described(IDS, configuration=ON))
    async with table:
        with pytest.raises(ChangesNotAvailableError):
            await rows_of(table)


async def test_vacuumed_files_are_named():
    commits = [[*described(IDS, **FEED), add("gone.parquet")]]
    with pytest.raises(MissingDataFileError, match=r"gone\.parquet"):
        await feed(*commits, store=MemoryStore())


async def test_a_removal_of_what_was_never_there_is_damage():
    store = MemoryStore()
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    line = await put_data(store, "f.parquet", ids(1))
    commits = [described(schema, partition_by=["p"], **FEED), [removed(line)]]
    with pytest.raises(InvalidTableError, match=r"removes f\.parquet"):
        await feed(*commits, store=store)


async def test_a_consumer_goes_on_from_the_position_after_what_it_has_read():
    store = MemoryStore()
    async with await five(store) as table:
        seen, position = [], Position(0)
        for head in (1, 3, 3, 5):
            seen += [row[-1] for row in await rows_of(table, position, Position(head))]
            position = Position(head)
        assert seen == [0, 1, 2, 3, 4]
        assert await rows_of(table, position) == []
        one = await put_data(store, "new.parquet", ids(7))
        info = {"commitInfo": {"inCommitTimestamp": 2000, "timestamp": 1, "operation": "WRITE"}}
        await put_commit(store, 5, info, one)
        assert await rows_of(table, position) == [(7, "insert", 5)]


async def test_cleaned_up_commits_are_refused_by_naming_where_to_start():
    store = MemoryStore()
    async with await five(store) as table:
        await adelta.checkpoint(table)
    await store.delete([commit_path(0), commit_path(1)])
    async with await opened(store) as table:
        for since, until in ((0, None), (Position(1), None), (0, 1), (1, 3)):
            with pytest.raises(ChangesNotAvailableError, match="start again from version 4"):
                await rows_of(table, since, until)
        assert [row[-1] for row in await rows_of(table, 4)] == [4]


async def test_commits_that_a_listing_leaves_out_are_not_left_out_of_the_feed():
    inner = MemoryStore()
    await five(inner)
    store = OverlookingStore(inner)
    async with adelta.Table("memory://overlooked", store=store) as table:
        await adelta.checkpoint(table)  # so that the versions of the range can be opened
        feed = adelta.changes(table, 4)
        store.always = {3}
        assert [row["_commit_version"] async for b in feed for row in b.to_pylist()] == [4]
        store.always = {4}
        assert [row[-1] for row in await rows_of(table, 4)] == [4]


async def test_a_head_that_a_listing_leaves_out_is_no_version_beyond_the_head():
    inner = MemoryStore()
    await five(inner)
    store = OverlookingStore(inner)
    store.always = {4}
    async with adelta.Table("memory://overlooked", store=store) as table:
        assert await rows_of(table, Position(5)) == []
        with pytest.raises(VersionNotFoundError, match="version 6 on; the latest version is 4"):
            await rows_of(table, Position(6))


async def test_leaving_the_feed_early_leaves_nothing_behind():
    async with await five(MemoryStore()) as table:
        async for batch in adelta.changes(table):
            assert batch.num_rows == 1
            break
