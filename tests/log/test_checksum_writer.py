"""Version checksums beside commits: exact, never overwritten, and none where nobody can tell."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import orjson
import pyarrow as pa
import pytest

from adelta.errors import ChecksumMismatchError, StorageError
from adelta.kernel.actions.file_actions import RemoveFile
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.checksum.file_facts import SIZE_BOUNDARIES
from adelta.kernel.checksum.json import decode, encode
from adelta.kernel.log_path import checksum_path
from adelta.log.checkpoint_writer import write_checkpoint
from adelta.log.checksum_record import ChecksumRecord
from adelta.log.load import load_state
from adelta.operations import (
    add_columns,
    create_table,
    delete,
    optimize,
    restore,
    set_properties,
    write_table,
)
from adelta.table import Table, open_table
from tests.support.builders import TableBuilder
from tests.support.stores import CountingStore, Request, WrappedStore

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.storage.object_store import ObjectStore

R = TypeVar("R")
SCHEMA = pa.schema([("id", pa.int64()), ("p", pa.string())])


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "p": ["x"] * len(ids)})


async def stated(store: ObjectStore, version: int) -> VersionChecksum:
    return decode(await store.get(checksum_path(version)), "the checksum")


async def versions_with_checksum(store: ObjectStore) -> list[int]:
    paths = [meta.path async for page in store.list("_delta_log/") for meta in page]
    return [int(path[11:31]) for path in paths if path.endswith(".crc")]


async def new_table(properties: dict[str, str] | None = None) -> ObjectStore:
    uri = f"memory://{uuid.uuid4()}"
    await create_table(uri, SCHEMA, properties=properties or {})
    return open_table(uri).store


def opened(store: ObjectStore) -> Table:
    return Table(store.uri, store=store)


async def append(store: ObjectStore, *ids: int) -> None:
    async with Table(store.uri, store=store).transaction() as tx:
        await tx.append(rows(*ids))


async def test_every_version_gets_a_checksum_that_agrees_with_the_log(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await create_table(uri, SCHEMA, partition_by=["p"])
    for n in range(12):  # over a checkpoint
        await write_table(uri, rows(n), txn=("app", n))
    await write_table(uri, rows(1, 2), mode="overwrite")
    await set_properties(uri, {"own": "1"})
    async with Table(uri) as table:
        for version in range(15):
            assert await (await table.snapshot(version=version)).verify(), version
        body = orjson.loads(await table.store.get(checksum_path(14)))
        assert (body["numMetadata"], body["numProtocol"], body["numFiles"]) == (1, 1, 1)
        assert body["metadata"]["configuration"] == {"own": "1"}
        assert len(body["txnId"]) == 36
        assert body["fileSizeHistogram"]["sortedBinBoundaries"] == list(SIZE_BOUNDARIES)
        assert body["setTransactions"][0]["version"] == 11


def test_the_bins_are_those_of_spark() -> None:
    assert len(SIZE_BOUNDARIES) == 95
    assert SIZE_BOUNDARIES[:3] == (0, 8192, 16384)
    assert SIZE_BOUNDARIES[-1] == 274_877_906_944


async def test_a_handle_carries_the_checksum_on_without_reading() -> None:
    inner = await new_table()
    store = CountingStore(inner)
    table = Table(store.uri, store=store)
    await table.snapshot()
    store.clear()
    for n in range(5):
        async with table.transaction() as tx:
            await tx.append(rows(n))
    assert store.kinds == {"put": 15, "get": 5}
    assert not [path for path in store.paths("get") if path.endswith(".crc")]
    assert (await stated(inner, 5)).num_files == 5


async def test_a_handle_that_opens_by_a_checkpoint_carries_on_from_the_last_checksum() -> None:
    inner = await new_table()
    for n in range(12):
        await append(inner, n)
    store = CountingStore(inner)
    await append(store, 99)
    assert not [path for path in store.paths("get") if "checkpoint" in path and "last" not in path]
    assert (await stated(inner, 13)).num_files == 13


async def test_commits_of_other_writers_are_counted_too() -> None:
    inner = await new_table()
    table = Table(inner.uri, store=inner)
    await table.snapshot()
    for n in range(3):
        await append(inner, n)
    async with table.transaction() as tx:  # loses to three
        await tx.append(rows(9))
    assert tx.version == 4
    assert (await stated(inner, 4)).num_files == 4


@pytest.mark.parametrize("unclear", ["no provenance", "no size", "statistics alone"])
async def test_after_a_commit_that_says_too_little_there_is_none_until_a_checkpoint_counts_anew(
    unclear: str,
) -> None:
    builder = await TableBuilder.create(SCHEMA, properties={"delta.checkpointInterval": "6"})
    store = builder.store
    await builder.commit(*(builder.add(f"f{n}", rows=1) for n in range(5)))
    await append(store, 1)
    await write_checkpoint(await load_state(store))
    table = Table(store.uri, store=store)
    await table.snapshot()
    builder.version = 2
    if unclear == "no provenance":
        await builder.commit(builder.add("g"), operation=None)
    elif unclear == "no size":
        await builder.commit(RemoveFile("f0", 1))
    else:
        await builder.commit(builder.add("f1", rows=5, data_change=False))
    for n in range(2):
        async with table.transaction() as tx:
            await tx.append(rows(n))
    assert tx.version == 5
    assert await versions_with_checksum(store) == [2]
    for n in range(2):
        async with table.transaction() as tx:
            await tx.append(rows(n))
    assert await versions_with_checksum(store) == [2, 6, 7]
    for version in (6, 7):
        assert await (await opened(store).snapshot(version=version)).verify()


async def test_files_that_are_at_hand_are_counted_anew_at_once() -> None:
    builder = await TableBuilder.create(SCHEMA)
    store = builder.store
    await append(store, 1)
    table = Table(store.uri, store=store)
    await (await table.snapshot()).files()
    builder.version = 1
    await builder.commit(builder.add("odd", size=77), operation=None)
    async with table.transaction() as tx:
        await tx.append(rows(6))
    assert tx.version == 3
    assert await (await opened(store).snapshot()).verify()


async def test_a_checksum_is_never_overwritten() -> None:
    store = await new_table()
    await store.put(checksum_path(1), b"another writer's")
    await append(store, 1)
    assert await store.get(checksum_path(1)) == b"another writer's"


async def test_a_table_may_be_without_checksums() -> None:
    store = await new_table({"adelta.writeChecksum": "false"})
    await append(store, 1)
    assert await versions_with_checksum(store) == []


async def test_a_checksum_that_fails_does_not_make_the_commit_look_failed(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class NoChecksums(WrappedStore):
        async def request(self, request: Request, run: Callable[[], Awaitable[R]]) -> R:
            if request.path.endswith(".crc"):
                raise StorageError("no room for this")
            return await run()

    inner = await new_table()
    with caplog.at_level(logging.WARNING, "adelta.transaction"):
        await append(NoChecksums(inner), 1)
    assert "version 1 is committed, but its checksum failed" in caplog.text
    assert (await Table(inner.uri, store=inner).snapshot()).version == 1


async def test_what_the_clock_decides_is_left_out() -> None:
    store = await new_table({"delta.setTransactionRetentionDuration": "interval 1 day"})
    table = Table(store.uri, store=store)
    async with table.transaction() as tx:
        tx.set_transaction("app", 1)
        await tx.append(rows(1))
    assert (await stated(store, 1)).set_transactions is None


async def test_a_hundred_transactions_are_stated_and_no_more() -> None:
    builder = await TableBuilder.create(SCHEMA)
    await builder.commit(*(SetTransaction(f"app{n}", n) for n in range(99)))
    table = Table(builder.store.uri, store=builder.store)
    found: list[Any] = []
    for n in range(99, 101):
        async with table.transaction() as tx:
            tx.set_transaction(f"app{n}", n)
            await tx.append(rows(n))
        found.append((await stated(builder.store, tx.version or 0)).set_transactions)
    assert [each and len(each) for each in found] == [100, None]


async def test_a_wrong_checksum_is_found_by_the_next_checkpoint_and_not_carried_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    builder = await TableBuilder.create(SCHEMA, properties={"delta.checkpointInterval": "3"})
    store = builder.store
    await append(store, 1)
    await write_checkpoint(await load_state(store))
    true = await stated(store, 1)
    await store.put(checksum_path(1), encode(replace(true, num_files=7, all_files=None)))
    table = opened(store)
    await table.snapshot()
    for n in range(3):
        async with table.transaction() as tx:
            await tx.append(rows(n))
    assert "do not agree with the log in the number of files: 9 is stated, 3 found" in caplog.text
    assert (await stated(store, 4)).num_files == 4


async def test_a_checksum_with_another_schema_than_the_logs_is_not_carried_on() -> None:
    builder = await TableBuilder.create(SCHEMA)
    store = builder.store
    await append(store, 1)
    true = await stated(store, 1)
    table = opened(store)
    state = await load_state(store)
    wrong = replace(true, metadata=true.metadata.with_configuration({"own": "1"}))
    state.note_checksum(ChecksumRecord(wrong))
    table._source.publish_state(state)
    async with table.transaction() as tx:
        await tx.append(rows(2))
    assert await versions_with_checksum(store) == [1]


async def listed(store: ObjectStore, version: int) -> list[dict[str, Any]] | None:
    body = orjson.loads(await store.get(checksum_path(version)))
    files = body.get("allFiles")
    return None if files is None else sorted(files, key=lambda file: str(file["path"]))


async def live(store: ObjectStore, version: int) -> list[dict[str, Any]]:
    """The live files as a checksum lists them, by replaying the log."""
    snapshot = await opened(store).snapshot(version=version)
    assert await snapshot.verify()
    files = (await (await load_state(store, version=version)).files()).rows()
    bodies = [file.to_json() | {"dataChange": False} for file in files]
    return sorted(bodies, key=lambda file: str(file["path"]))


async def test_checksums_list_the_live_files_after_every_kind_of_operation(tmp_path: Path) -> None:
    uri = str(tmp_path / "t")
    await create_table(
        uri,
        SCHEMA,
        partition_by=["p"],
        properties={"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"},
    )
    await write_table(uri, rows(1, 2, 3))
    await write_table(uri, pa.table({"id": [4, 5], "p": ["y", None]}))
    await delete(uri, "id = 2")  # a deletion vector
    await delete(uri, "id = 3")  # another one for the same file
    await set_properties(uri, {"own": "1"})
    await write_table(uri, rows(7), mode="overwrite")
    await restore(uri, version=4)
    await optimize(uri)
    await delete(uri)
    await write_table(uri, rows(8))
    store = open_table(uri).store
    for version in range(11):
        assert await listed(store, version) == await live(store, version), version
    (masked,) = [file for file in await listed(store, 4) or [] if "deletionVector" in file]
    assert masked["deletionVector"]["cardinality"] == 2
    assert masked["dataChange"] is False
    assert {"stats", "baseRowId", "defaultRowCommitVersion", "tags"} & masked.keys() >= {
        "stats",
        "baseRowId",
    }
    assert await listed(store, 9) == []


async def opened_by_checksums(checkpoint_interval: int = 1000) -> ObjectStore:
    """A table with a file in each of so many commits that it is opened by its last checksum."""
    store = await new_table({"delta.checkpointInterval": str(checkpoint_interval)})
    for n in range(12):
        await append(store, n)
    return store


async def without_list(store: ObjectStore, version: int) -> None:
    """Have the checksum of `version` as earlier releases have written it."""
    earlier = replace(await stated(store, version), all_files=None)
    await store.put(checksum_path(version), encode(earlier))


async def test_a_process_that_appends_by_the_last_checksum_lists_the_files_without_reading() -> (
    None
):
    inner = await opened_by_checksums()
    store = CountingStore(inner)
    await append(store, 12)
    with_list = store.kinds
    assert await listed(inner, 13) == await live(inner, 13)
    await without_list(inner, 13)
    store.clear()
    await append(store, 13)
    assert store.kinds == with_list
    assert await listed(inner, 14) is None


async def test_a_checksum_without_a_list_of_files_gets_it_by_the_next_checkpoint() -> None:
    store = await opened_by_checksums(14)
    await without_list(store, 12)
    for n in range(3):
        await append(store, n)
    present = [await listed(store, version) is not None for version in (13, 14, 15)]
    assert present == [False, True, True]
    assert await listed(store, 14) == await live(store, 14)
    assert await listed(store, 15) == await live(store, 15)


async def test_a_change_of_schema_leaves_the_list_out_and_the_next_commit_has_it_again() -> None:
    store = await new_table()
    table = opened(store)
    async with table.transaction() as tx:
        await tx.append(rows(1))
    await (await table.snapshot()).files()
    await add_columns(table, pa.schema([("more", pa.int64())]))
    async with table.transaction() as tx:
        await tx.append(rows(3))
    assert [await listed(store, version) is not None for version in (1, 2, 3)] == [
        True,
        False,
        True,
    ]
    assert await listed(store, 3) == await live(store, 3)


async def test_a_table_that_outgrows_the_list_has_it_again_once_it_is_compacted() -> None:
    builder = await TableBuilder.create(SCHEMA, properties={"delta.checkpointInterval": "1000"})
    store = builder.store
    table = opened(store)
    await table.snapshot()
    for n in range(51):
        async with table.transaction() as tx:
            await tx.append(rows(n))
    await optimize(table)
    async with table.transaction() as tx:
        await tx.append(rows(1))
    counts = [await listed(store, version) for version in (50, 51, 52, 53)]
    assert [files and len(files) for files in counts] == [50, None, 1, 2]
    assert counts[-1] == await live(store, 53)


async def test_a_list_of_files_by_delta_spark_is_carried_on() -> None:
    store = await opened_by_checksums()
    body = orjson.loads(await store.get(checksum_path(12)))
    stats = ' {"numRecords" : 1}'  # other text for the same file
    body["allFiles"][0] |= {"stats": stats, "tags": {"INSERTION_TIME": "1"}}
    body["histogramOpt"] = body.pop("fileSizeHistogram")
    await store.put(checksum_path(12), orjson.dumps(body) + b"\n")
    await append(store, 2)
    files = await listed(store, 13)
    assert files is not None
    assert len(files) == 13
    (carried,) = [file for file in files if file["stats"] == stats]
    assert carried["tags"] == {"INSERTION_TIME": "1"}


async def test_a_checksum_that_contradicts_its_list_of_files_is_not_used() -> None:
    store = await opened_by_checksums()
    body = orjson.loads(await store.get(checksum_path(12)))
    body["allFiles"].pop()
    await store.put(checksum_path(12), orjson.dumps(body))
    await append(store, 12)
    assert await listed(store, 13) == await live(store, 13)
    assert await scanned(store) == list(range(13))


async def test_rows_are_never_read_by_a_list_of_files_that_is_wrong() -> None:
    store = await opened_by_checksums()
    true = await stated(store, 12)
    kept = dict([*(true.all_files or {}).items()][:1])
    size = sum(body["size"] for body in kept.values())
    wrong = replace(true, all_files=kept, num_files=1, table_size_bytes=size)
    await store.put(checksum_path(12), encode(wrong))
    assert await scanned(store) == list(range(12))
    with pytest.raises(ChecksumMismatchError, match="the list of files, which does not have"):
        await (await opened(store).snapshot()).verify()


async def scanned(store: ObjectStore) -> list[int]:
    ids = (await (await opened(store).snapshot()).scan().to_arrow()).column("id").to_pylist()
    return sorted(ids)
