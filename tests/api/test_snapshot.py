"""Tables and snapshots as users meet them."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import adelta
from adelta.errors import (
    InvalidExpressionError,
    InvalidOptionError,
    InvalidUseError,
    SchemaMismatchError,
    TableNotFoundError,
    TimestampOutOfRangeError,
    UnsupportedFeatureError,
    VersionNotFoundError,
)
from adelta.kernel.history import from_ms
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.support.clock import ManualClock
from tests.support.logs import add, metadata, protocol, put_checkpoint, put_commit
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", None]})


async def made(uri: str) -> adelta.Table:
    await adelta.write_table(uri, ROWS, partition_by=["p"])
    return adelta.open_table(uri)


async def test_opening_a_table_does_no_io_until_it_is_used() -> None:
    store = CountingStore(MemoryStore())
    async with Table("memory://unused", store=store) as table:
        assert table.uri
    assert store.count == 0


async def test_a_snapshot_says_what_the_table_is(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
    assert snapshot.version == 0
    assert snapshot.schema.names == ["id", "p"]
    assert snapshot.schema.field("id").type == pa.int64()
    assert snapshot.delta_schema.names == ("id", "p")
    assert snapshot.partition_columns == ("p",)
    assert snapshot.protocol.min_reader_version == 1
    assert snapshot.metadata.id
    assert abs(datetime.now(UTC) - snapshot.timestamp) < timedelta(minutes=1)


async def test_files_and_rows_are_pruned_by_sql_and_by_tuples(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
        assert (await snapshot.files()).num_rows == 3
        for where in ("p = 'a'", [("p", "=", "a")], [[("p", "=", "a")]], "id < 2"):
            files = await snapshot.files(where)
            assert [dict(v) for v in files.column("partition_values").to_pylist()] == [{"p": "a"}]
            rows = await snapshot.scan(where=where).to_arrow()
            assert rows.to_pylist() == [{"id": 1, "p": "a"}]
        assert (await snapshot.files("p IS NULL")).num_rows == 1
        assert (await snapshot.files("id = 99")).num_rows == 0


async def test_a_scan_gives_the_columns_asked_for_in_the_order_asked(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
        rows = await snapshot.scan(["p", "id"], "id >= 2").to_arrow()
        assert rows.schema.names == ["p", "id"]
        assert sorted(rows.to_pylist(), key=lambda r: r["id"]) == [
            {"p": "b", "id": 2},
            {"p": None, "id": 3},
        ]
        only = await snapshot.scan(["id"], "p = 'b'").to_arrow()
        assert only.to_pylist() == [{"id": 2}]
        none = await snapshot.scan([]).to_arrow()
        assert (none.num_columns, none.num_rows) == (0, 3)


async def test_batches_limits_and_counts(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
        batches = [batch async for batch in snapshot.scan().batches()]
        assert sum(batch.num_rows for batch in batches) == 3
        assert (await snapshot.scan(limit=2).to_arrow()).num_rows == 2
        assert (await snapshot.scan(limit=0).to_arrow()).num_rows == 0
        assert await snapshot.scan().count() == 3
        assert await snapshot.scan(limit=2).count() == 2
        assert await snapshot.scan(where="p = 'a'").count() == 1
        assert await snapshot.scan(where="id > 1").count() == 2


async def test_a_count_of_whole_files_reads_no_data(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
        for path in tmp_path.rglob("*.parquet"):  # noqa: ASYNC240
            path.unlink()
        assert await snapshot.scan().count() == 3
        assert await snapshot.scan(where="p = 'a'").count() == 1


async def test_mistakes_are_named(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        snapshot = await table.snapshot()
        with pytest.raises(SchemaMismatchError, match="nope"):
            snapshot.scan(["nope"])
        with pytest.raises(InvalidExpressionError, match="nope"):
            snapshot.scan(where="nope = 1")
        with pytest.raises(InvalidExpressionError):
            snapshot.scan(where="id ===")
        with pytest.raises(VersionNotFoundError, match="latest version is 0"):
            await table.snapshot(version=1)
        with pytest.raises(VersionNotFoundError):
            await table.snapshot(version=-1)
        with pytest.raises(InvalidOptionError):
            await table.snapshot(version=0, timestamp="2024-01-01")
        with pytest.raises(InvalidOptionError):
            await table.snapshot(timestamp="yesterday")
    with pytest.raises(InvalidUseError, match="closed"):
        await table.snapshot()
    with pytest.raises(TableNotFoundError, match=r"no Delta table"):
        await adelta.open_table(str(tmp_path / "nothing")).snapshot()
    with pytest.raises(InvalidOptionError, match="scheme"):
        adelta.open_table("gopher://x/y")


async def test_a_snapshot_stays_as_it_is_while_the_table_moves_on(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        before = await table.snapshot()
        await adelta.write_table(table, ROWS)
        after = await table.snapshot()
        assert (before.version, after.version) == (0, 1)
        assert await before.scan().count() == 3
        assert await after.scan().count() == 6
        assert (await table.snapshot(version=0)).version == 0


async def test_a_pickled_handle_opens_the_same_table(tmp_path: Path) -> None:
    async with await made(str(tmp_path)) as table:
        copy = pickle.loads(pickle.dumps(table))
    async with copy:
        assert (await copy.snapshot()).version == 0


async def test_a_file_uri_and_a_path_are_the_same_table(tmp_path: Path) -> None:
    folder = tmp_path / "a b%c"
    await adelta.write_table(str(folder), ROWS)
    async with adelta.open_table(folder.as_uri()) as table:
        assert await (await table.snapshot()).scan().count() == 3


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_700_000_000_000)


async def timed(store: MemoryStore, clock: ManualClock, *times_ms: int, **more: object) -> Table:
    """A table whose versions were put at these times, the last ones maybe with their own."""
    for version, time_ms in enumerate(times_ms):
        clock.ms = time_ms
        lines = [protocol(), metadata(**more)] if version == 0 else []
        await put_commit(store, version, *lines, add(f"{version}.parquet"))
    return Table("memory://timed", store=store)


@pytest.mark.parametrize(
    ("when_ms", "version"), [(1000, 0), (1999, 0), (2000, 1), (2500, 1), (3000, 2)]
)
async def test_time_travel_takes_the_last_commit_not_after_the_time(
    clock: ManualClock, when_ms: int, version: int
) -> None:
    table = await timed(MemoryStore(clock=clock), clock, 1000, 2000, 3000)
    assert (await table.snapshot(timestamp=from_ms(when_ms))).version == version
    assert (await table.snapshot(timestamp=from_ms(when_ms).isoformat())).version == version


async def test_modification_times_that_run_backwards_are_made_to_ascend(
    clock: ManualClock,
) -> None:
    table = await timed(MemoryStore(clock=clock), clock, 5000, 3000, 3000, 9000)
    assert (await table.snapshot(timestamp=from_ms(5001))).version == 1
    assert (await table.snapshot(timestamp=from_ms(5002))).version == 2
    assert (await table.snapshot(timestamp=from_ms(8999))).version == 2


@pytest.mark.parametrize("when_ms", [999, 3001])
async def test_a_time_outside_the_history_names_the_range(clock: ManualClock, when_ms: int) -> None:
    table = await timed(MemoryStore(clock=clock), clock, 1000, 3000)
    with pytest.raises(TimestampOutOfRangeError, match=r"version 0 .* version 1"):
        await table.snapshot(timestamp=from_ms(when_ms))


async def test_in_commit_timestamps_count_where_the_table_has_them(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    clock.ms = 50_000  # what the files say does not matter
    on = {"delta.enableInCommitTimestamps": "true"}
    for version, time_ms in enumerate((1000, 2000, 3000)):
        features = {"writerFeatures": ["inCommitTimestamp"]}
        lines = [protocol(1, 7, **features), metadata(configuration=on)] if not version else []
        info = {"commitInfo": {"inCommitTimestamp": time_ms, "operation": "WRITE"}}
        await put_commit(store, version, info, *lines, add(f"{version}.parquet"))
    table = Table("memory://ict", store=store)
    assert (await table.snapshot()).timestamp == from_ms(3000)
    assert (await table.snapshot(timestamp=from_ms(2500))).version == 1
    with pytest.raises(TimestampOutOfRangeError):
        await table.snapshot(timestamp=from_ms(40_000))
    await put_checkpoint(store, 2, [protocol(1, 7), metadata(configuration=on)])
    anew = Table("memory://ict", store=store)
    assert (await anew.snapshot()).timestamp == from_ms(3000)


async def test_in_commit_timestamps_count_from_their_enablement_on(clock: ManualClock) -> None:
    store = MemoryStore(clock=clock)
    configuration = {
        "delta.enableInCommitTimestamps": "true",
        "delta.inCommitTimestampEnablementVersion": "2",
        "delta.inCommitTimestampEnablementTimestamp": "5000",
    }
    clock.ms = 1000
    await put_commit(store, 0, protocol(1, 7, writerFeatures=["inCommitTimestamp"]), metadata())
    clock.ms = 2000
    await put_commit(store, 1, add("1.parquet"))
    clock.ms = 99_000
    info = {"commitInfo": {"inCommitTimestamp": 5000}}
    await put_commit(store, 2, info, metadata(configuration=configuration))
    await put_commit(store, 3, {"commitInfo": {"inCommitTimestamp": 6000}}, add("3.parquet"))
    table = Table("memory://ict2", store=store)
    for when_ms, version in ((1000, 0), (2500, 1), (4999, 1), (5000, 2), (5999, 2), (6000, 3)):
        assert (await table.snapshot(timestamp=from_ms(when_ms))).version == version


async def test_a_reader_feature_that_nobody_knows_is_refused_by_name() -> None:
    store = MemoryStore()
    features = {"readerFeatures": ["teleportation"], "writerFeatures": ["teleportation"]}
    await put_commit(store, 0, protocol(3, 7, **features), metadata())
    with pytest.raises(UnsupportedFeatureError, match="teleportation"):
        await Table("memory://future", store=store).snapshot()


async def test_a_feature_that_comes_later_is_refused_when_it_comes() -> None:
    store = MemoryStore()
    await put_commit(store, 0, protocol(), metadata())
    table = Table("memory://later", store=store)
    await table.snapshot()
    features = {"readerFeatures": ["teleportation"], "writerFeatures": ["teleportation"]}
    await put_commit(store, 1, protocol(3, 7, **features))
    with pytest.raises(UnsupportedFeatureError, match="teleportation"):
        await table.snapshot()
    assert (await table.snapshot(version=0)).version == 0


async def test_it_tells_how_far_applications_have_got_and_which_rows_are_deleted(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path / "t")
    vectors = {"delta.enableDeletionVectors": "true"}
    await adelta.write_table(uri, ROWS, properties=vectors, txn=("load", 7))
    await adelta.write_table(uri, ROWS, name="not for a table that is there")
    await adelta.delete(uri, "id IN (1, 3)")
    async with adelta.open_table(uri) as table:
        snapshot = await table.snapshot()
        before = await table.snapshot(version=1)
        assert await snapshot.application_version("load") == 7
        assert await snapshot.application_version("other") is None
        with pytest.raises(InvalidOptionError):
            await snapshot.application_version(7)  # type: ignore[arg-type]
        deleted = await snapshot.deleted_rows()
        assert set(deleted) == set((await snapshot.files())["path"].to_pylist())
        assert [rows.to_pylist() for rows in deleted.values()] == [[0, 2], [0, 2]]
        assert await before.deleted_rows() == {}


async def test_a_write_names_the_table_that_it_makes(tmp_path: Path) -> None:
    await adelta.write_table(tmp_path, ROWS, name="sales", description="of a shop")
    async with adelta.open_table(tmp_path) as table:
        found = (await table.snapshot()).metadata
    assert (found.name, found.description) == ("sales", "of a shop")
