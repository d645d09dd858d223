from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from adelta.kernel import last_checkpoint
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, checkpoint_path, commit_path
from adelta.log.checkpoint_writer import checkpoint_if_due, write_checkpoint
from adelta.log.load import load_state
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock

if TYPE_CHECKING:
    from adelta.log.state import LogState
    from adelta.storage.object_store import ObjectStore

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
WEEK = 7 * 86_400_000
NOW = 10 * WEEK


async def checkpoint_rows(store: ObjectStore, version: int) -> list[dict[str, object]]:
    table = pq.read_table(pa.BufferReader(await store.get(checkpoint_path(version))))
    return [{k: v for k, v in row.items() if v is not None} for row in table.to_pylist()]


async def content(state: LogState) -> dict[str, object]:
    """Everything that a state says, however it was read."""
    files = (await state.files()).rows()
    return {
        "protocol": state.protocol,
        "metadata": state.metadata,
        "files": sorted((f for f in files), key=lambda f: f.path),
        "transactions": dict(await state.set_transactions()),
        "domains": dict(await state.domain_metadata()),
        "tombstones": sorted((await state.tombstones()).column("path").to_pylist()),
    }


async def busy_table() -> TableBuilder:
    """A history with a bit of everything."""
    builder = await TableBuilder.create(
        SCHEMA, partition_by=["p"], properties={"delta.checkpointInterval": "3", "own": "1"}
    )
    vector = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 3, 4)
    odd = builder.add("p=a%25b/ü x.parquet", rows=3, p="a%b")
    await builder.commit(
        replace(odd, data_change=False, deletion_vector=vector, tags={"k": "v"}),
        builder.add("p=y/b.parquet", rows=2, p="y"),
        builder.add("no-stats.parquet"),
        SetTransaction("app", 4, NOW),
        SetTransaction("old", 9),
        DomainMetadata("mine", "{}"),
        DomainMetadata("gone", "{}"),
    )
    await builder.commit(
        builder.remove("p=y/b.parquet", at=NOW),
        builder.add("c.parquet", rows=1, p=None),
        DomainMetadata("gone", "{}", removed=True),
        operation="DELETE",
    )
    return builder


async def test_a_table_read_from_its_checkpoint_is_the_table_read_from_its_commits() -> None:
    builder = await busy_table()
    before = await content(await load_state(builder.store))
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    for version in range(3):
        await builder.store.delete([commit_path(version)])
    after = await content(await load_state(builder.store))
    for files in (before["files"], after["files"]):
        assert isinstance(files, list)
    assert [f.path for f in before["files"]] == [f.path for f in after["files"]]  # type: ignore[attr-defined]
    before["files"] = [replace(f, data_change=False) for f in before["files"]]  # type: ignore[attr-defined]
    assert after == before
    assert before["tombstones"] == ["p=y/b.parquet"]


async def test_what_a_checkpoint_adds_is_no_news_and_tombstones_bear_no_statistics() -> None:
    builder = await busy_table()
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    rows = await checkpoint_rows(builder.store, 2)
    files = [body for row in rows for kind, body in row.items() if kind in ("add", "remove")]
    assert files
    assert not any(body["dataChange"] for body in files)  # type: ignore[index]
    (removed,) = [row["remove"] for row in rows if "remove" in row]
    assert isinstance(removed, dict)
    assert not {"stats", "tags"} & set(removed)


async def test_each_row_holds_one_action_and_provenance_is_left_out() -> None:
    builder = await busy_table()
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    rows = await checkpoint_rows(builder.store, 2)
    kinds = [kind for row in rows for kind in row]
    assert len(kinds) == len(rows)
    assert sorted(kinds) == sorted(
        ["protocol", "metaData", "txn", "txn", "domainMetadata", "add", "add", "add", "remove"]
    )


async def test_feature_lists_are_there_just_for_the_versions_that_have_them() -> None:
    for protocol, reader, writer in (
        (Protocol(1, 2), None, None),
        (Protocol(1, 7, None, ("appendOnly",)), None, ["appendOnly"]),
        (Protocol(3, 7, (), ()), [], []),
    ):
        builder = await TableBuilder.create(SCHEMA, protocol=protocol)
        await write_checkpoint(await load_state(builder.store))
        (found,) = [
            row["protocol"] for row in await checkpoint_rows(builder.store, 0) if "protocol" in row
        ]
        assert isinstance(found, dict)
        assert (found["readerFeatures"], found["writerFeatures"]) == (reader, writer)


async def test_expired_tombstones_are_dropped() -> None:
    builder = await TableBuilder.create(SCHEMA)
    await builder.commit(
        builder.remove("expired", at=NOW - WEEK - 1),
        builder.remove("just-kept", at=NOW - WEEK),
        builder.remove("kept", at=NOW),
    )
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    rows = await checkpoint_rows(builder.store, 1)
    assert sorted(r["remove"]["path"] for r in rows if "remove" in r) == ["just-kept", "kept"]  # type: ignore[index]


async def test_expired_transactions_are_dropped_but_never_one_without_a_time() -> None:
    builder = await TableBuilder.create(
        SCHEMA, properties={"delta.setTransactionRetentionDuration": "interval 1 week"}
    )
    await builder.commit(
        SetTransaction("expired", 1, NOW - WEEK),
        SetTransaction("kept", 1, NOW - WEEK + 1),
        SetTransaction("undated", 1),
    )
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    rows = await checkpoint_rows(builder.store, 1)
    assert sorted(r["txn"]["appId"] for r in rows if "txn" in r) == ["kept", "undated"]  # type: ignore[index]


async def test_statistics_as_json_are_left_out_when_the_table_says_so() -> None:
    builder = await TableBuilder.create(
        SCHEMA, properties={"delta.checkpoint.writeStatsAsJson": "false"}
    )
    await builder.commit(builder.add("a", rows=1))
    await write_checkpoint(await load_state(builder.store))
    schema = pq.read_schema(pa.BufferReader(await builder.store.get(checkpoint_path(1))))
    names = [
        schema.field("add").type.field(i).name for i in range(schema.field("add").type.num_fields)
    ]
    assert "stats" not in names


async def test_the_hint_points_to_the_checkpoint_and_says_what_is_in_it() -> None:
    builder = await busy_table()
    written = await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    hint = last_checkpoint.decode(await builder.store.get(LAST_CHECKPOINT_PATH))
    assert hint == written
    assert (written.version, written.size, written.num_of_add_files) == (2, 9, 3)
    assert written.size_in_bytes == (await builder.store.head(checkpoint_path(2))).size


async def test_a_checkpoint_is_due_every_interval_but_not_at_the_start() -> None:
    builder = await TableBuilder.create(SCHEMA, properties={"delta.checkpointInterval": "3"})
    due = []
    for version in range(8):
        if version:
            await builder.commit(builder.add(f"f{version}"))
        if await checkpoint_if_due(await load_state(builder.store)):
            due.append(version)
    assert due == [3, 6]


async def test_singletons_have_a_row_group_of_their_own() -> None:
    builder = await busy_table()
    await write_checkpoint(await load_state(builder.store), ManualClock(NOW))
    file = pq.ParquetFile(pa.BufferReader(await builder.store.get(checkpoint_path(2))))
    first = file.read_row_group(0).to_pylist()
    assert not any(row["add"] or row["remove"] for row in first)
    rest = [
        row for i in range(1, file.num_row_groups) for row in file.read_row_group(i).to_pylist()
    ]
    assert all(row["add"] or row["remove"] for row in rest)


async def test_typed_columns_say_what_the_texts_say_where_the_table_wants_them() -> None:
    schema = pa.schema(
        [
            ("id", pa.int64()),
            ("d", pa.decimal128(20, 2)),
            ("t", pa.timestamp("us", "UTC")),
            ("s", pa.struct([("x", pa.string()), ("l", pa.list_(pa.int64()))])),
            ("p", pa.date32()),
        ]
    )
    builder = await TableBuilder.create(
        schema, partition_by=["p"], properties={"delta.checkpoint.writeStatsAsStruct": "true"}
    )
    stats = (
        '{"numRecords":2,"minValues":{"id":1,"d":-999999999999999999.99,'
        '"t":"2024-01-01T00:00:00.000Z","s":{"x":"a"}},"maxValues":{"id":9007199254740993,'
        '"s":{"x":"b"}},"nullCount":{"id":0,"d":1,"s":{"x":0,"l":2}}}'
    )
    await builder.commit(
        replace(builder.add("a", p="2024-02-29"), stats=stats), builder.add("bare", p=None)
    )
    await write_checkpoint(await load_state(builder.store))
    rows = await checkpoint_rows(builder.store, 1)
    adds: dict[str, dict[str, Any]] = {r["add"]["path"]: r["add"] for r in rows if "add" in r}  # type: ignore[index]
    assert adds["a"]["stats"] == stats
    assert adds["a"]["partitionValues_parsed"] == {"p": date(2024, 2, 29)}
    assert adds["bare"]["partitionValues_parsed"] == {"p": None}
    parsed = adds["a"]["stats_parsed"]
    assert parsed["numRecords"] == 2
    assert parsed["minValues"] == {
        "id": 1,
        "d": Decimal("-999999999999999999.99"),
        "t": datetime(2024, 1, 1, tzinfo=UTC),
        "s": {"x": "a"},
    }
    assert parsed["maxValues"]["id"] == 9007199254740993
    assert parsed["nullCount"] == {"id": 0, "d": 1, "t": None, "s": {"x": 0, "l": 2}}
    assert adds["bare"]["stats_parsed"]["numRecords"] is None
    assert len((await (await load_state(builder.store)).files()).table) == 2
