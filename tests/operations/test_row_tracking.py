"""Row tracking: every row has an id of its own, and keeps it when it is moved."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import (
    ConcurrentDeleteReadError,
    InvalidOptionError,
    InvalidPropertyError,
    SchemaMismatchError,
)
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.operations import (
    checkpoint,
    create_table,
    history,
    set_properties,
    unset_properties,
    write_table,
)
from adelta.operations.row_tracking import backfill_row_ids
from adelta.table import Table, begin, latest_state, open_table
from adelta.write.transaction_request import TransactionRequest
from tests.support.stores import CountingStore

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

TRACKED = {"delta.enableRowTracking": "true"}
DOMAIN = "delta.rowTracking"
IDS = pa.schema([("id", pa.int64())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


async def tracked_table(**arguments: Any) -> Table:
    return await create_table(
        f"memory://{uuid.uuid4()}/table", IDS, properties=TRACKED, **arguments
    )


async def row_ids(table: Table, **scan: Any) -> dict[int, tuple[int, int]]:
    """The row id and the row commit version of every id, as a fresh handle reads them."""
    fresh = open_table(table.uri) if table.uri.startswith("memory") else table
    found = await (await fresh.snapshot()).scan(with_row_ids=True, **scan).to_arrow()
    columns = found.to_pydict()
    kept = dict(
        zip(
            columns["id"],
            zip(columns["_row_id"], columns["_row_commit_version"], strict=True),
            strict=True,
        )
    )
    assert len(kept) == found.num_rows
    assert len({row_id for row_id, _ in kept.values()}) == found.num_rows
    return kept


async def mark(table: Table) -> int:
    domains = await (await latest_state(table)).domain_metadata()
    found: int = orjson.loads(domains[DOMAIN].configuration)["rowIdHighWaterMark"]
    return found


async def test_rows_are_numbered_in_the_order_of_their_commits() -> None:
    table = await tracked_table()
    await write_table(table, rows(7, 8))
    await write_table(table, rows(9))
    assert await row_ids(table) == {7: (0, 1), 8: (1, 1), 9: (2, 2)}
    assert await mark(table) == 2
    files = (await (await table.snapshot()).files()).to_pylist()
    assert len(files) == 2


async def test_a_table_created_by_a_write_tracks_its_first_rows() -> None:
    uri = f"memory://{uuid.uuid4()}/table"
    await write_table(uri, rows(1, 2, 3), properties=TRACKED)
    assert await row_ids(open_table(uri)) == {1: (0, 0), 2: (1, 0), 3: (2, 0)}
    protocol = (await open_table(uri).snapshot()).protocol
    assert {"rowTracking", "domainMetadata"} <= set(protocol.writer_features or ())


async def test_a_commit_that_lost_a_race_is_numbered_behind_the_winner() -> None:
    # B9-08: base row ids and default commit versions are those of the version it becomes.
    table = await tracked_table()
    slow = open_table(table.uri)
    async with slow.transaction() as tx:
        await tx.append(rows(1, 2))
        await write_table(table, rows(3, 4, 5))
    assert tx.version == 2
    assert await row_ids(table) == {3: (0, 1), 4: (1, 1), 5: (2, 1), 1: (3, 2), 2: (4, 2)}
    assert await mark(table) == 4


async def test_rows_that_an_overwrite_copies_keep_id_and_version() -> None:
    # B9-04
    table = await tracked_table()
    await write_table(table, rows(1, 2, 3))
    await write_table(table, rows(4, 5))
    before = await row_ids(table)
    await write_table(table, rows(20), mode="overwrite", replace_where="id = 2 OR id = 20")
    after = await row_ids(table)
    assert set(after) == {1, 3, 4, 5, 20}
    assert {n: after[n] for n in (1, 3, 4, 5)} == {n: before[n] for n in (1, 3, 4, 5)}
    assert after[20][0] > 4
    assert after[20][1] == 3
    # Copied once more, from a file that holds the ids to another one.
    await write_table(table, rows(30), mode="overwrite", replace_where="id = 3 OR id = 30")
    again = await row_ids(table)
    assert {n: again[n] for n in (1, 4, 5)} == {n: before[n] for n in (1, 4, 5)}


async def test_only_files_of_copied_rows_hold_the_hidden_columns() -> None:
    table = await tracked_table()
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3), mode="overwrite", replace_where="id >= 2")
    snapshot = await table.snapshot()
    names = []
    for path in (await snapshot.files())["path"].to_pylist():
        data = await table.store.get(decode_path(path))
        names.append(len(pq.read_schema(pa.BufferReader(data)).names))
    assert sorted(names) == [1, 3]
    assert snapshot.schema.names == ["id"]


async def test_row_ids_survive_a_checkpoint() -> None:
    table = await tracked_table()
    await write_table(table, rows(1, 2))
    before = await row_ids(table)
    await checkpoint(table)
    assert await row_ids(table) == before
    again = open_table(table.uri)
    await write_table(again, rows(3))
    assert (await row_ids(table))[3] == (2, 2)


async def test_a_checksum_tells_how_far_ids_have_come() -> None:
    table = await tracked_table()
    for number in range(14):
        await write_table(table, rows(number))
    store = CountingStore(table.store)
    fresh = Table(table.uri, store=store)
    await write_table(fresh, rows(99))
    read = [r.path.rpartition("/")[2] for r in store.requests if r.kind == "get"]
    last = f"{14:020}.json"  # whose checksum it is, and whether it is still there
    assert sorted(read) == sorted(["_last_checkpoint", f"{14:020}.crc", last, last])
    assert (await row_ids(table))[99] == (14, 15)


async def test_commits_say_whether_ids_were_preserved() -> None:
    table = await tracked_table()
    await write_table(table, rows(1, 2))
    await write_table(table, rows(3), mode="overwrite", replace_where="id >= 2")
    raw = [await table.store.get(f"_delta_log/{version:020}.json") for version in (1, 2)]
    tags = [orjson.loads(text.split(b"\n")[0])["commitInfo"]["tags"] for text in raw]
    assert tags == [{"delta.rowTracking.preserved": "true"}] * 2


async def test_a_file_without_a_count_of_rows_cannot_be_added() -> None:
    # B9-01: the mark can only move where it is known by how much.
    table = await tracked_table()
    with pytest.raises(InvalidOptionError, match="numRecords"):
        async with table.transaction() as tx:
            tx.add_files([AddFile("a.parquet", {}, 1, 1)])
    assert (await table.snapshot()).version == 0


async def test_a_column_cannot_take_the_name_of_a_hidden_one() -> None:
    table = await tracked_table()
    hidden = (await table.snapshot()).properties
    name = next(v for k, v in hidden.items() if "RowIdColumnName" in k)
    with pytest.raises(SchemaMismatchError, match="hidden"):
        await write_table(table, pa.table({"id": [1], name: [2]}), schema_mode="merge")


# ------------------------------------------------------------------------ tables that exist already


async def old_table() -> Table:
    table = await create_table(f"memory://{uuid.uuid4()}/table", IDS)
    for number in (1, 2, 3):
        await write_table(table, rows(number, number + 10))
    return table


async def operations(table: Table) -> list[str | None]:
    return [entry.operation for entry in await history(table)][::-1]


async def test_enabling_tracking_gives_ids_to_the_rows_that_are_there() -> None:
    # B9-06
    table = await old_table()
    await set_properties(table, TRACKED)
    assert (await operations(table))[4:] == [
        "UPGRADE PROTOCOL",
        "ROW TRACKING BACKFILL",
        "SET TBLPROPERTIES",
    ]
    ids = await row_ids(table)
    assert sorted(row_id for row_id, _ in ids.values()) == list(range(6))
    assert {version for _, version in ids.values()} == {5}
    await write_table(table, rows(99))
    assert (await row_ids(table))[99] == (6, 7)
    assert await row_ids(table, where="id < 50") == ids


async def test_a_backfill_is_done_in_several_commits() -> None:
    table = await old_table()
    await backfill_row_ids(table, files_a_commit=2)
    assert (await operations(table))[4:] == ["UPGRADE PROTOCOL", *["ROW TRACKING BACKFILL"] * 2]
    told = [entry.operation_parameters for entry in (await history(table))[:2]]
    assert told == [{"batchId": "1"}, {"batchId": "0"}]
    assert await mark(table) == 5
    before = (await table.snapshot()).version
    await backfill_row_ids(table)
    assert (await table.snapshot()).version == before
    await set_properties(table, TRACKED)
    assert len(await row_ids(table)) == 6


async def test_a_backfill_brings_no_file_back_that_is_removed_meanwhile() -> None:
    table = await old_table()
    await set_properties(table, {"delta.feature.rowTracking": "supported"})
    files = list((await (await latest_state(table)).files()).rows())

    async def backfill() -> None:
        async with begin(table, TransactionRequest(operation="ROW TRACKING BACKFILL")) as tx:
            tx.staging.add_again(files)
            await write_table(open_table(table.uri), rows(5), mode="overwrite")

    with pytest.raises(ConcurrentDeleteReadError, match="was read"):
        await backfill()
    await set_properties(table, TRACKED)
    assert set(await row_ids(table)) == {5}


async def test_a_remove_that_lost_to_a_backfill_bears_the_ids_of_its_file() -> None:
    # B9-05: a remove says what the last add of the file says.
    table = await old_table()
    await set_properties(table, {"delta.feature.rowTracking": "supported"})
    files = list((await (await latest_state(table)).files()).rows())
    slow = open_table(table.uri)
    async with slow.transaction("DELETE") as tx:
        tx.remove_files(files[:1])
        await backfill_row_ids(table)
    assert tx.version is not None
    raw = await table.store.get(f"_delta_log/{tx.version:020}.json")
    remove = next(a["remove"] for a in map(orjson.loads, raw.split(b"\n")) if "remove" in a)
    live = {f.path: f for f in (await (await latest_state(table)).files()).rows()}
    assert files[0].path not in live
    assert remove["baseRowId"] is not None
    assert remove["defaultRowCommitVersion"] == tx.version - 1
    assert {f.base_row_id for f in live.values()}.isdisjoint({remove["baseRowId"]})


async def test_a_write_that_was_under_way_goes_behind_the_switch() -> None:
    # B9-08: rows that were copied before the table kept ids could not keep theirs.
    async def late(table: Table, number: int) -> AsyncIterator[pa.RecordBatch]:
        yield rows(number).to_batches()[0]
        await set_properties(open_table(table.uri), TRACKED)

    table = await old_table()
    await write_table(open_table(table.uri), late(table, 9))
    assert (await row_ids(table))[9] == (6, 7)
    assert await preserved(table, 7) == "true"
    table = await old_table()
    where = "id IN (2, 9)"
    await write_table(open_table(table.uri), late(table, 9), mode="overwrite", replace_where=where)
    found = await row_ids(table)
    assert set(found) == {1, 11, 12, 3, 13, 9}
    assert {found[9][1], found[12][1]} == {7}
    assert await preserved(table, 7) == "false"


async def preserved(table: Table, version: int) -> Any:
    raw = await table.store.get(f"_delta_log/{version:020}.json")
    tags = orjson.loads(raw.split(b"\n")[0])["commitInfo"].get("tags", {})
    return tags.get("delta.rowTracking.preserved")


async def test_whoever_moves_rows_by_hand_does_not_preserve_their_ids() -> None:
    for properties, said in ((TRACKED, "false"), ({}, None)):
        uri = f"memory://{uuid.uuid4()}/table"
        table = await create_table(uri, IDS, properties=properties)
        await write_table(table, rows(1, 2))
        async with table.transaction() as tx:
            tx.remove_files(await tx.read())
            await tx.append(rows(1, 2))
        assert await preserved(table, 2) == said


async def test_a_backfill_counts_the_rows_of_files_without_statistics() -> None:
    table = await create_table(f"memory://{uuid.uuid4()}/table", IDS)
    await write_table(table, rows(1, 2, 3))
    (file,) = (await (await latest_state(table)).files()).rows()
    async with table.transaction() as tx:
        tx.remove_files([file])
    async with table.transaction() as tx:
        tx.add_files([replace(file, stats=None)])
    await set_properties(table, TRACKED)
    assert {row_id for row_id, _ in (await row_ids(table)).values()} == {0, 1, 2}
    (file,) = (await (await latest_state(table)).files()).rows()
    assert file.stats == '{"numRecords":3}'


async def test_no_ids_are_given_where_tracking_is_suspended() -> None:
    # B9-07
    table = await tracked_table()
    await write_table(table, rows(1))
    await unset_properties(table, ["delta.enableRowTracking"])
    await set_properties(table, {"delta.rowTrackingSuspended": "true"})
    await write_table(table, rows(2))
    files = (await (await latest_state(table)).files()).rows()
    assert sorted(f.base_row_id is None for f in files) == [False, True]
    with pytest.raises(InvalidPropertyError, match="rowTrackingSuspended"):
        await set_properties(table, TRACKED)
    await unset_properties(table, ["delta.rowTrackingSuspended"])
    await set_properties(table, TRACKED)
    assert await row_ids(table) == {1: (0, 1), 2: (1, 6)}
    with pytest.raises(InvalidPropertyError, match="both"):
        await set_properties(table, {"delta.rowTrackingSuspended": "true"})


async def test_rows_of_an_iterator_are_numbered_across_files() -> None:
    uri = f"memory://{uuid.uuid4()}/table"
    table = await create_table(
        uri,
        pa.schema([("id", pa.int64()), ("p", pa.string())]),
        partition_by=["p"],
        properties=TRACKED,
    )

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        for start in range(0, 300, 100):
            ids = list(range(start, start + 100))
            yield pa.record_batch({"id": ids, "p": [str(n % 3) for n in ids]})

    await write_table(table, batches())
    assert len(await row_ids(table)) == 300
    assert await mark(table) == 299
