"""Checkpoints in parts and V2 checkpoints: what they hold, who reads them, and what is kept."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.kernel import last_checkpoint
from adelta.kernel.actions.file_actions import DeletionVectorDescriptor
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.log_path import LAST_CHECKPOINT_PATH, SIDECAR_DIR, commit_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.load import load_state
from adelta.operations import create_table, write_table
from adelta.storage.memory import MemoryStore
from adelta.table import Table, open_table
from tests.support import logs
from tests.support.builders import TableBuilder
from tests.support.clock import ManualClock
from tests.support.minimal_reader import MinimalLog, log_objects

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore

SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])
WEEK = 7 * 86_400_000
NOW = 10 * WEEK
PARTS = {"adelta.checkpoint.partSize": "7"}
V2 = {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "7"}
V2_PROTOCOL = Protocol(3, 7, ("v2Checkpoint",), ("v2Checkpoint",))


async def table_of_files(
    properties: dict[str, str], *, files: int = 40, protocol: Protocol | None = None
) -> TableBuilder:
    """Files, tombstones (one of them expired) and a transaction."""
    builder = await TableBuilder.create(
        SCHEMA, partition_by=["p"], properties=properties, protocol=protocol
    )
    adds = [builder.add(f"p={n % 3}/{n}.parquet", rows=n, p=str(n % 3)) for n in range(files)]
    await builder.commit(*adds, SetTransaction("app", 7))
    await builder.commit(
        builder.remove("p=0/0.parquet", at=NOW), builder.remove("p=1/1.parquet", at=1)
    )
    return builder


async def written(store: ObjectStore) -> MinimalLog:
    await write_checkpoint(await load_state(store), ManualClock(NOW))
    return MinimalLog(await log_objects(store))


async def forget_commits(store: ObjectStore, versions: int = 3) -> None:
    await store.delete([commit_path(version) for version in range(versions)])


async def what_it_says(store: ObjectStore) -> dict[str, Any]:
    state = await load_state(store)
    return {
        "files": sorted((f.path, f.stats) for f in (await state.files()).rows()),
        "tombstones": sorted((await state.tombstones()).column("path").to_pylist()),
        "transactions": dict(await state.set_transactions()),
        "metadata": state.metadata,
    }


# ----------------------------------------------------------------------------------------- parts


async def test_parts_hold_every_action_once_and_the_table_is_read_from_them_alone() -> None:
    builder = await table_of_files(PARTS)
    before = await what_it_says(builder.store)
    log = await written(builder.store)
    (paths,) = log.checkpoints[2]
    assert len(paths) == 6, "39 actions, 7 a part"
    expected = log.read(2, checkpointed=False)
    found = log.read(2)
    assert found is not None
    assert expected is not None
    assert found["add"].keys() == expected["add"].keys()
    assert {path for path, _ in found["remove"]} == {"p=0/0.parquet"}, "the other one has expired"
    await forget_commits(builder.store)
    after = await what_it_says(builder.store)
    assert after == before | {"tombstones": ["p=0/0.parquet"]}


async def test_the_same_version_gives_the_same_parts_however_it_was_read() -> None:
    first, second = await table_of_files(PARTS), TableBuilder(MemoryStore())
    for path, data in (await log_objects(first.store)).items():
        await second.store.put(path, data)
    one = await written(first.store)
    state = await load_state(second.store)
    await state.files()  # held in memory, not streamed
    await state.tombstones()
    await write_checkpoint(state, ManualClock(NOW))
    two = MinimalLog(await log_objects(second.store))
    (ours,), (theirs,) = one.checkpoints[2], two.checkpoints[2]
    assert ours == theirs
    for path in ours:
        rows = [
            sorted(orjson.dumps(a, option=orjson.OPT_SORT_KEYS) for a in log.actions(path))
            for log in (one, two)
        ]
        assert rows[0] == rows[1]


async def test_an_action_stays_in_its_part_when_others_come_and_go() -> None:
    builder = await table_of_files(PARTS)
    before = await written(builder.store)
    await builder.commit(builder.remove("p=2/2.parquet", at=NOW), builder.add("new", p=None))
    after = await written(builder.store)

    def part_of(log: MinimalLog, version: int) -> dict[str, int]:
        return {
            (action.get("add") or action["remove"])["path"]: number
            for number, path in enumerate(log.checkpoints[version][0])
            for action in log.actions(path)
            if "add" in action or "remove" in action
        }

    one, two = part_of(before, 2), part_of(after, 3)
    assert len(set(one.values())) > 1
    assert {path: two[path] for path in one} == one


async def test_the_hint_of_parts_counts_them_all() -> None:
    builder = await table_of_files(PARTS)
    log = await written(builder.store)
    data = log.objects[LAST_CHECKPOINT_PATH]
    hint = last_checkpoint.decode(data)
    assert hint is not None
    assert (hint.version, hint.parts, hint.num_of_add_files) == (2, 6, 38)
    assert hint.size == 38 + 1 + 3
    assert hint.size_in_bytes == sum(len(log.objects[path]) for path in log.checkpoints[2][0])
    assert list(orjson.loads(data))[:3] == ["version", "size", "parts"]


async def test_few_actions_make_a_classic_checkpoint() -> None:
    builder = await table_of_files({"adelta.checkpoint.partSize": "100"})
    assert [len(paths) for paths in (await written(builder.store)).checkpoints[2]] == [1]


async def test_a_table_that_supports_v2_never_gets_parts() -> None:
    builder = await table_of_files(PARTS, protocol=V2_PROTOCOL)
    log = await written(builder.store)
    assert log.checkpoints[2] == [["_delta_log/00000000000000000002.checkpoint.parquet"]]


# -------------------------------------------------------------------------------------------- V2


@pytest.mark.parametrize("form", ["json", "parquet"])
async def test_a_v2_checkpoint_is_a_manifest_and_sidecars_of_nothing_but_files(form: str) -> None:
    builder = await table_of_files({**V2, "adelta.checkpoint.v2Format": form}, protocol=V2_PROTOCOL)
    before = await what_it_says(builder.store)
    log = await written(builder.store)
    ((path,),) = log.checkpoints[2]
    assert path.endswith(f".{form}")
    manifest = list(log.actions(path))
    kinds = sorted(kind for action in manifest for kind in action)
    assert kinds == sorted(["checkpointMetadata", *["sidecar"] * 6, "protocol", "metaData", "txn"])
    sidecars = [p for p in log.objects if p.startswith(SIDECAR_DIR)]
    assert len(sidecars) == 6, "39 actions, 7 a sidecar"
    for sidecar in sidecars:
        schema = pq.read_schema(io.BytesIO(log.objects[sidecar]))
        assert schema.names == ["add", "remove"]
    (about,) = [a["checkpointMetadata"] for a in manifest if "checkpointMetadata" in a]
    assert about["version"] == 2
    assert about["tags"] == {
        "sidecarNumActions": "39",
        "sidecarSizeInBytes": str(sum(len(log.objects[p]) for p in sidecars)),
        "numOfAddFiles": "38",
    }
    expected, found = log.read(2, checkpointed=False), log.read(2)
    assert expected is not None
    assert found is not None
    assert found["add"].keys() == expected["add"].keys()
    await forget_commits(builder.store)
    assert await what_it_says(builder.store) == before | {"tombstones": ["p=0/0.parquet"]}


async def test_the_hint_of_a_v2_checkpoint_repeats_what_spark_puts_there() -> None:
    builder = await table_of_files(V2, protocol=V2_PROTOCOL)
    log = await written(builder.store)
    ((path,),) = log.checkpoints[2]
    data = log.objects[LAST_CHECKPOINT_PATH]
    body = orjson.loads(data)
    recorded = body["v2Checkpoint"]
    assert recorded["path"] == path.removeprefix("_delta_log/")
    assert recorded["sizeInBytes"] == len(log.objects[path])
    assert len(recorded["sidecarFiles"]) == 6
    lines = [orjson.loads(line) for line in log.objects[path].splitlines()]
    assert recorded["nonFileActions"] == [line for line in lines if "sidecar" not in line]
    assert body["numOfAddFiles"] == 38
    assert body["size"] == 39 + len(lines)
    assert body["checksum"] == last_checkpoint.checksum(data)
    hint = last_checkpoint.decode(data)
    assert hint is not None
    assert hint.v2_path == recorded["path"]
    assert last_checkpoint.encode(hint) == data


async def test_a_long_manifest_is_not_repeated_in_the_hint() -> None:
    builder = await table_of_files({**V2, "adelta.checkpoint.partSize": "1"}, protocol=V2_PROTOCOL)
    await builder.commit(*(SetTransaction(f"app{n}", n) for n in range(40)))
    log = await written(builder.store)
    recorded = orjson.loads(log.objects[LAST_CHECKPOINT_PATH])["v2Checkpoint"]
    assert set(recorded) == {"path", "sizeInBytes", "modificationTime"}


async def test_wide_metadata_are_not_repeated_in_the_hint() -> None:
    properties = {**V2, "own": "x" * 100_000}
    builder = await table_of_files(properties, protocol=V2_PROTOCOL)
    log = await written(builder.store)
    recorded = orjson.loads(log.objects[LAST_CHECKPOINT_PATH])["v2Checkpoint"]
    assert "nonFileActions" not in recorded
    assert len(recorded["sidecarFiles"]) == 6


async def test_the_policy_alone_makes_no_v2_checkpoint() -> None:
    builder = await table_of_files({"delta.checkpointPolicy": "v2"})
    log = await written(builder.store)
    assert log.checkpoints[2] == [["_delta_log/00000000000000000002.checkpoint.parquet"]]


async def test_an_empty_table_has_a_v2_checkpoint_without_sidecars() -> None:
    builder = await TableBuilder.create(SCHEMA, properties=V2, protocol=V2_PROTOCOL)
    log = await written(builder.store)
    assert not [path for path in log.objects if path.startswith(SIDECAR_DIR)]
    await forget_commits(builder.store, 1)
    assert (await what_it_says(builder.store))["files"] == []


async def test_the_next_checkpoint_is_made_of_the_sidecars_of_the_last_one() -> None:
    builder = await table_of_files(V2, protocol=V2_PROTOCOL)
    await written(builder.store)
    await forget_commits(builder.store)
    await builder.commit(builder.add("late", p=None), builder.remove("p=2/2.parquet", at=NOW))
    log = await written(builder.store)
    found = log.read(3)
    assert found is not None
    assert len(found["add"]) == 38
    assert {path for path, _ in found["remove"]} == {"p=0/0.parquet", "p=2/2.parquet"}


# ------------------------------------------------------------------------------------ statistics


STATS = {"numRecords": 2, "minValues": {"id": 1}, "maxValues": {"id": 9}, "nullCount": {"id": 0}}
_BOUNDS = pa.struct([("id", pa.int64())])
_TYPED = pa.struct(
    [
        ("numRecords", pa.int64()),
        ("minValues", _BOUNDS),
        ("maxValues", _BOUNDS),
        ("nullCount", _BOUNDS),
        ("tightBounds", pa.bool_()),
    ]
)


async def table_with_typed_statistics_alone(properties: dict[str, str], **more: Any) -> MemoryStore:
    """As another engine's checkpoint leaves it."""
    store = MemoryStore()
    configuration = {"configuration": list(properties.items())}
    features = ["deletionVectors", "v2Checkpoint"]
    body = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    path_type = [("path", pa.string()), ("partitionValues", pa.map_(pa.string(), pa.string()))]
    numbers = [("size", pa.int64()), ("modificationTime", pa.int64()), ("dataChange", pa.bool_())]
    schema = pa.schema(
        [
            ("protocol", logs._ACTIONS.field("protocol").type),
            ("metaData", logs._ACTIONS.field("metaData").type),
            ("add", pa.struct([*path_type, *numbers, ("stats_parsed", _TYPED)])),
        ]
    )
    metadata = logs.metadata()["metaData"] | configuration
    metadata["format"] = {"provider": "parquet", "options": []}
    added = {
        "path": "a.parquet",
        "partitionValues": [],
        "size": 5,
        "modificationTime": 1,
        "dataChange": False,
        "stats_parsed": STATS | more,
    }
    rows = [{"protocol": body}, {"metaData": metadata}, {"add": added}]
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink)
    await store.put("_delta_log/00000000000000000000.checkpoint.parquet", sink.getvalue())
    await store.put(commit_path(0), b'{"commitInfo":{"operation":"WRITE"}}\n')
    await store.put(commit_path(1), b'{"commitInfo":{"operation":"WRITE"}}\n')
    return store


@pytest.mark.parametrize("policy", ["classic", "v2"])
@pytest.mark.parametrize(
    ("properties", "as_text", "as_columns"),
    [
        ({}, True, False),
        ({"delta.checkpoint.writeStatsAsStruct": "true"}, True, True),
        ({"delta.checkpoint.writeStatsAsJson": "false"}, False, True),
        (
            {
                "delta.checkpoint.writeStatsAsJson": "false",
                "delta.checkpoint.writeStatsAsStruct": "true",
            },
            False,
            True,
        ),
        ({"delta.checkpoint.writeStatsAsStruct": "false"}, True, False),
    ],
)
async def test_statistics_that_an_earlier_checkpoint_has_in_columns_alone_are_not_lost(
    policy: str, properties: dict[str, str], as_text: bool, as_columns: bool
) -> None:
    store = await table_with_typed_statistics_alone(
        {**properties, "delta.checkpointPolicy": policy}, tightBounds=False
    )
    log = await written(store)
    (added,) = [a["add"] for a in log.checkpoint(1) if "add" in a]
    stated = STATS | {"tightBounds": False}
    assert ("stats" in added) == as_text
    assert ("stats_parsed" in added) == as_columns
    if as_text:
        assert orjson.loads(added["stats"]) == stated
    if as_columns:
        assert added["stats_parsed"] == stated
    await store.delete([commit_path(0), commit_path(1)])
    (file,) = (await (await load_state(store)).files()).rows()
    assert orjson.loads(file.stats or "") == stated


# ----------------------------------------------------------------------------------- other readers


@pytest.mark.parametrize(
    "properties",
    [
        {"adelta.checkpoint.partSize": "3"},
        {"delta.checkpointPolicy": "v2", "adelta.checkpoint.partSize": "3"},
        {
            "delta.checkpointPolicy": "v2",
            "adelta.checkpoint.partSize": "3",
            "adelta.checkpoint.v2Format": "parquet",
        },
    ],
    ids=["parts", "v2-json", "v2-parquet"],
)
async def test_deltalake_reads_what_adelta_checkpoints(
    properties: dict[str, str], tmp_path: Path
) -> None:
    uri = str(tmp_path / "t")
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    await create_table(uri, schema, partition_by=["p"], properties=properties)
    for n in range(10):
        await write_table(uri, pa.table({"id": [n, -n], "p": ["x", f"y{n}"]}))
    found = list((tmp_path / "t" / "_delta_log").glob("*10.checkpoint*"))
    assert len(found) == (7 if "delta.checkpointPolicy" not in properties else 1)
    for version in range(11):
        (tmp_path / "t" / "_delta_log" / f"{version:020d}.json").unlink()
    table = deltalake.DeltaTable(uri)
    assert table.version() == 10
    ids = pa.table(deltalake.QueryBuilder().register("t", table).execute("select id from t"))
    expected = sorted(sign * n for n in range(10) for sign in (1, -1))
    assert sorted(ids.column("id").to_pylist()) == expected
    async with open_table(uri) as ours:
        read = await (await ours.snapshot()).scan(columns=["id"]).to_arrow()
    assert sorted(read.column("id").to_pylist()) == expected


async def test_deletion_vectors_keep_their_bounds_wide_in_typed_statistics() -> None:
    features = ("deletionVectors",)
    builder = await TableBuilder.create(
        SCHEMA,
        properties={"delta.checkpoint.writeStatsAsJson": "false"},
        protocol=Protocol(3, 7, features, features),
    )
    vector = DeletionVectorDescriptor("u", "ab^-aqEH.-t@S}K{vb[*k^", 40, 3, 4)
    stats = orjson.dumps(STATS | {"tightBounds": False}).decode()
    await builder.commit(replace(builder.add("a"), stats=stats, deletion_vector=vector))
    log = await written(builder.store)
    (added,) = [a["add"] for a in log.checkpoint(1) if "add" in a]
    assert added["stats_parsed"]["tightBounds"] is False


async def test_a_newer_hint_is_left_alone() -> None:
    builder = await table_of_files({})
    old = await load_state(builder.store)
    await builder.commit(builder.add("b", p=None))
    await written(builder.store)
    await write_checkpoint(old, ManualClock(NOW))
    hint = last_checkpoint.decode(await builder.store.get(LAST_CHECKPOINT_PATH))
    assert hint is not None
    assert hint.version == 3


async def test_a_damaged_earlier_checkpoint_is_not_built_upon() -> None:
    builder = await table_of_files({})
    log = await written(builder.store)
    path = log.checkpoints[2][0][0]
    data = bytearray(log.objects[path])
    table = pq.ParquetFile(io.BytesIO(bytes(data)))
    at = table.metadata.row_group(1).column(3).data_page_offset
    data[at : at + 64] = b"\xff" * 64  # in the files, which opening the table does not read
    await builder.store.put(path, bytes(data))
    await builder.commit(builder.add("late", p=None))
    found = (await written(builder.store)).read(3)
    assert found is not None
    assert len(found["add"]) == 39


async def test_writers_that_checkpoint_one_version_at_once_leave_one_good_checkpoint() -> None:
    from adelta._concurrency import map_concurrent

    for properties, protocol in ((PARTS, None), (V2, V2_PROTOCOL)):
        builder = await table_of_files(properties, protocol=protocol)
        expected = await what_it_says(builder.store)

        async def write(_: int, store: ObjectStore = builder.store) -> None:
            await write_checkpoint(await load_state(store), ManualClock(NOW))

        await map_concurrent(write, range(4), limit=4)
        await forget_commits(builder.store)
        assert (await what_it_says(builder.store))["files"] == expected["files"]
        snapshot = await Table(builder.store.uri, store=builder.store).snapshot()
        assert snapshot.version == 2
