"""Checking a table, and taking out of it what is gone."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Any

import orjson
import pyarrow as pa
import pytest

import adelta
from adelta.errors import InvariantViolationError, MissingDataFileError, TableNotFoundError
from adelta.kernel.deletion_vector.blob import encode_bitmap
from adelta.kernel.log_path import checkpoint_path, commit_path
from adelta.storage.memory import MemoryStore
from adelta.table import Table
from tests.hostile.reading import DV, parquet
from tests.support import logs
from tests.support.races import OvertakenStore
from tests.support.stores import CountingStore, OverlookingStore

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.storage.object_store import ObjectStore

SIZE = len(parquet())


async def _table(files: int = 3, checkpoint: int | None = None) -> MemoryStore:
    """A table of one file a commit after the first."""
    store = MemoryStore()
    await logs.put_commit(store, 0, logs.protocol(), logs.metadata())
    live = []
    for version in range(1, files + 1):
        line = logs.add(f"{version}.parquet", size=SIZE)
        await store.put(f"{version}.parquet", parquet())
        await logs.put_commit(store, version, line)
        live.append(line)
        if version == checkpoint:
            await logs.put_checkpoint(store, version, [logs.protocol(), logs.metadata(), *live])
    return store


async def _fsck(store: ObjectStore, *, dry_run: bool = True) -> adelta.operations.FsckReport:
    async with Table("memory://of/tests", store=store) as table:
        return await adelta.fsck(table, dry_run=dry_run)


async def test_a_sound_table_has_no_problems() -> None:
    report = await _fsck(await _table(3, checkpoint=2))
    assert report.problems == ()
    assert (report.version, report.num_commits, report.num_checkpoints) == (3, 4, 1)
    assert (report.num_files, report.num_deletion_vectors) == (3, 0)


async def test_a_table_that_is_not_there_is_no_report() -> None:
    with pytest.raises(TableNotFoundError):
        await _fsck(MemoryStore())


async def test_a_file_that_is_gone_is_named_and_nothing_is_written() -> None:
    store = await _table()
    await store.delete(["2.parquet"])
    report = await _fsck(store)
    assert report.missing_files == ("2.parquet",)
    assert report.repaired_version is None
    assert [meta.path async for page in store.list("_delta_log/") for meta in page][-1] == (
        commit_path(3)
    )


async def test_a_repair_takes_the_missing_files_and_nothing_else_out() -> None:
    store = await _table()
    await store.delete(["2.parquet"])
    async with Table("memory://of/tests", store=store) as table:
        with pytest.raises(MissingDataFileError, match="fsck"):
            await (await table.snapshot()).scan().to_arrow()
        report = await adelta.fsck(table, dry_run=False)
        assert report.repaired_version == 4
        assert report.missing_files == ("2.parquet",)
        assert report.unrepaired == ()
        snapshot = await table.snapshot()
        assert (await snapshot.scan().to_arrow()).num_rows == 80
        entry = (await adelta.history(table, limit=1))[0]
        assert entry.operation == "FSCK"
        assert int(entry.operation_metrics["numRemovedFiles"]) == 1
        again = await adelta.fsck(table, dry_run=False)
        assert (again.problems, again.repaired_version) == ((), None)


async def test_what_others_append_meanwhile_is_no_obstacle_to_a_repair() -> None:
    store = await _table()
    await store.delete(["2.parquet"])

    async def others() -> None:
        await store.put("4.parquet", parquet())
        await logs.put_commit(store, 4, logs.add("4.parquet", size=SIZE))

    report = await _fsck(OvertakenStore(store, others), dry_run=False)
    assert report.repaired_version == 5
    async with Table("memory://of/tests", store=store) as table:
        files = await (await table.snapshot()).files()
        assert sorted(files.column("path").to_pylist()) == [f"{n}.parquet" for n in (1, 3, 4)]


async def test_a_file_of_another_size_is_reported_and_kept() -> None:
    store = await _table()
    await store.put("2.parquet", parquet()[:-9])
    report = await _fsck(store, dry_run=False)
    (problem,) = report.problems
    assert (problem.kind, problem.path) == ("file", "2.parquet")
    assert report.repaired_version is None
    assert report.unrepaired == report.problems


async def test_a_table_that_only_takes_appends_is_not_repaired() -> None:
    store = await _table()
    await logs.put_commit(store, 4, logs.metadata(configuration={"delta.appendOnly": "true"}))
    await store.delete(["2.parquet"])
    with pytest.raises(InvariantViolationError, match="append-only"):
        await _fsck(store, dry_run=False)


async def test_a_gap_before_the_checkpoint_is_reported() -> None:
    store = await _table(5, checkpoint=4)
    await store.delete([commit_path(1), commit_path(2)])
    report = await _fsck(store)
    (problem,) = report.problems
    assert problem.kind == "missing commit"
    assert "1 to 2" in problem.message


async def test_a_commit_that_listings_overlook_is_not_missing() -> None:
    store = OverlookingStore(await _table(5, checkpoint=4))
    for overlooked in ({1}, {1, 2}, {3}):
        store.always = overlooked
        report = await _fsck(store)
        assert report.problems == ()
        assert report.num_commits == 6


async def test_a_checkpoint_that_cannot_be_read_is_reported() -> None:
    store = await _table(3, checkpoint=2)
    data = await store.get(checkpoint_path(2))
    await store.put(checkpoint_path(2), data[:-30])
    report = await _fsck(store)
    (problem,) = report.problems
    assert (problem.kind, problem.path) == ("checkpoint", checkpoint_path(2))


LIES = {
    "lacks": [logs.add("1.parquet", size=SIZE)],
    "have not": [logs.add(f"{n}.parquet", size=SIZE) for n in (1, 2, 9)],
    "sizes": [logs.add("1.parquet", size=SIZE), logs.add("2.parquet", size=7)],
    "twice": [logs.add(f"{n}.parquet", size=SIZE) for n in (1, 2, 2)],
    "txn": [*(logs.add(f"{n}.parquet", size=SIZE) for n in (1, 2)), logs.txn("a", 9)],
}


@pytest.mark.parametrize("said", LIES)
async def test_a_checkpoint_that_differs_from_the_commits_is_reported(said: str) -> None:
    store = await _table(3)
    await logs.put_checkpoint(store, 2, [logs.protocol(), logs.metadata(), *LIES[said]])
    problems = [p for p in (await _fsck(store)).problems if p.kind == "checkpoint"]
    assert said in problems[0].message


@pytest.mark.parametrize("said", ["protocol", "schema"])
async def test_a_checkpoint_of_another_protocol_or_metadata_is_reported(said: str) -> None:
    store = await _table(2)
    live = [logs.add(f"{n}.parquet", size=SIZE) for n in (1, 2)]
    protocol = logs.protocol(1, 4) if said == "protocol" else logs.protocol()
    metadata = logs.metadata(configuration={"a": "b"} if said == "schema" else {})
    await logs.put_checkpoint(store, 2, [protocol, metadata, *live])
    (problem,) = (await _fsck(store)).problems
    assert said in problem.message


async def test_a_checkpoint_whose_commits_were_cleaned_up_only_has_to_be_readable() -> None:
    store = await _table(3, checkpoint=2)
    await store.delete([commit_path(0), commit_path(1)])
    assert (await _fsck(store)).problems == ()


async def test_a_checksum_that_disagrees_is_reported() -> None:
    store = await _table(2)
    body = {
        "tableSizeBytes": 7,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "protocol": logs.protocol()["protocol"],
        "metadata": logs.metadata()["metaData"],
    }
    await store.put(f"_delta_log/{2:020d}.crc", orjson.dumps(body))
    problems = (await _fsck(store)).problems
    assert [p.kind for p in problems] == ["checksum"]


async def _listing_table() -> tuple[MemoryStore, dict[str, Any]]:
    """A table with two files, and its checksum as Delta Spark writes it, with the list of files."""
    store = MemoryStore()
    actions = [logs.protocol(), logs.metadata()]
    stats = '{"numRecords":1,"minValues":{"id":1},"maxValues":{"id":1},"nullCount":{"id":0}}'
    adds = [logs.add(f"{n}.parquet", size=SIZE, stats=stats) for n in range(2)]
    for line in adds:
        await store.put(line["add"]["path"], parquet())
    await logs.put_commit(store, 0, *actions, *adds)
    body = {
        "txnId": "ea8a7b39-4c1c-4a8a-9d7c-7f2c1a5b8f10",
        "tableSizeBytes": 2 * SIZE,
        "numFiles": 2,
        "numMetadata": 1,
        "numProtocol": 1,
        "setTransactions": [],
        "domainMetadata": [],
        "metadata": actions[1]["metaData"],
        "protocol": actions[0]["protocol"],
        "allFiles": [{**line["add"], "dataChange": False} for line in adds],
    }
    return store, body


async def _checksum_problems(store: MemoryStore, body: dict[str, Any]) -> list[str]:
    await store.put(f"_delta_log/{0:020d}.crc", orjson.dumps(body))
    problems = (await _fsck(store)).problems
    assert {problem.kind for problem in problems} <= {"checksum"}
    return [problem.message for problem in problems]


async def test_a_list_of_files_as_delta_spark_writes_it_is_no_problem() -> None:
    store, body = await _listing_table()
    assert await _checksum_problems(store, body) == []
    body["allFiles"].reverse()
    body["allFiles"][0]["path"] = f"{store.uri}/1.parquet"
    stats = '{ "nullCount":{"id":0}, "maxValues":{"id":1}, "minValues":{"id":1}, "numRecords":1}'
    body["allFiles"][1]["stats"] = stats
    assert await _checksum_problems(store, body) == []


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("path", "other.parquet", "does not have '1.parquet'"),
        ("deletionVector", {"storageType": "i", "pathOrInlineDv": "x"}, "malformed"),
        (
            "deletionVector",
            {"storageType": "i", "pathOrInlineDv": "x", "sizeInBytes": 1, "cardinality": 1},
            "does not have '1.parquet'",
        ),
        ("partitionValues", {"p": "1"}, "partitionValues of '1.parquet'"),
        ("modificationTime", 12345, "modificationTime of '1.parquet'"),
        ("modificationTime", "yesterday", "malformed"),
        ("baseRowId", 5, "baseRowId of '1.parquet'"),
        ("stats", '{"numRecords":1,"minValues":{"id":2}}', "stats of '1.parquet'"),
        ("stats", None, "stats of '1.parquet'"),
    ],
)
async def test_a_list_of_files_that_disagrees_with_the_log_is_reported(
    field: str, value: Any, said: str
) -> None:
    store, body = await _listing_table()
    body["allFiles"][1][field] = value
    (message,) = await _checksum_problems(store, body)
    assert said in message


async def test_a_list_without_a_file_of_the_log_is_reported_and_no_row_is_lost() -> None:
    store, body = await _listing_table()
    body["allFiles"].pop()
    (message,) = await _checksum_problems(store, body)
    assert "allFiles" in message
    body |= {"numFiles": 1, "tableSizeBytes": SIZE}
    (message,) = await _checksum_problems(store, body)
    assert "the list of files, which does not have '1.parquet'" in message
    async with Table("memory://of/tests", store=store) as table:
        assert len(await (await table.snapshot()).files()) == 2


async def test_checksums_state_in_commit_timestamps_as_the_commits_do() -> None:
    store = MemoryStore()
    configuration = {"delta.enableInCommitTimestamps": "true"}
    described = logs.metadata(configuration=configuration)
    versions = logs.protocol(1, 7, writerFeatures=["inCommitTimestamp"])
    told = {"commitInfo": {"inCommitTimestamp": 77, "timestamp": 5}}
    await logs.put_commit(store, 0, told, versions, described)
    body = {
        "tableSizeBytes": 0,
        "numFiles": 0,
        "numMetadata": 1,
        "numProtocol": 1,
        "inCommitTimestampOpt": 77,
        "protocol": versions["protocol"],
        "metadata": described["metaData"],
    }
    await store.put(f"_delta_log/{0:020d}.crc", orjson.dumps(body))
    assert (await _fsck(store)).problems == ()
    await store.put(f"_delta_log/{0:020d}.crc", orjson.dumps(body | {"inCommitTimestampOpt": 78}))
    (problem,) = (await _fsck(store)).problems
    assert "the in-commit timestamp: 78 is stated, 77 found" in str(problem)


async def _with_vector(vector: dict[str, object], **files: bytes) -> MemoryStore:
    store = MemoryStore()
    features = {"readerFeatures": ["deletionVectors"], "writerFeatures": ["deletionVectors"]}
    line = logs.add("1.parquet", size=SIZE, deletionVector=vector)
    await logs.put_commit(store, 0, logs.protocol(3, 7, **features), logs.metadata(), line)
    await store.put("1.parquet", parquet())
    for name, data in files.items():
        await store.put(name, data)
    return store


async def test_a_deletion_vector_is_read_and_checked() -> None:
    assert (await _fsck(await _with_vector(DV))).problems == ()
    wrong = await _fsck(await _with_vector(DV | {"cardinality": 7}))
    assert [p.kind for p in wrong.problems] == ["deletion vector"]
    gone = DV | {"storageType": "p", "pathOrInlineDv": "gone.bin"}
    report = await _fsck(await _with_vector(gone), dry_run=False)
    assert [(p.kind, p.path) for p in report.problems] == [("deletion vector", "1.parquet")]
    assert report.repaired_version is None


async def test_a_deletion_vector_with_a_flipped_bit_is_reported() -> None:
    bitmap = encode_bitmap([1, 2, 3])
    frame = struct.pack(">i", len(bitmap)) + bitmap + struct.pack(">I", zlib.crc32(bitmap) ^ 1)
    vector = {
        "storageType": "p",
        "pathOrInlineDv": "v",
        "offset": 1,
        "sizeInBytes": len(bitmap),
        "cardinality": 3,
    }
    report = await _fsck(await _with_vector(vector, v=b"\x01" + frame))
    assert [p.kind for p in report.problems] == ["deletion vector"]
    assert "CRC" in report.problems[0].message


async def test_a_hostile_path_is_a_problem_and_no_way_out() -> None:
    store = await _table(1)
    await logs.put_commit(store, 2, logs.add("../x"), logs.add("gopher://x/y"))
    report = await _fsck(store, dry_run=False)
    assert [p.kind for p in report.problems] == ["file", "file"]
    assert report.repaired_version is None


async def test_files_elsewhere_are_asked_for_by_name(tmp_path: Path) -> None:
    for name in ("one", "two"):
        await adelta.write_table(str(tmp_path / name), pa.table({"id": [1]}))
    (data,) = (tmp_path / "two").glob("*.parquet")
    options = {"allowed_roots": str(tmp_path)}
    async with adelta.open_table(str(tmp_path / "one"), options) as table:
        store = table.store
        line = logs.add(f"file://{data}", size=data.stat().st_size)
        gone = logs.add(f"file://{tmp_path}/gone.parquet")
        await logs.put_commit(store, 1, line, gone)
        report = await adelta.fsck(table)
    assert report.missing_files == (f"file://{tmp_path}/gone.parquet",)


async def test_a_thousand_files_cost_no_request_each() -> None:
    inner = MemoryStore()
    names = [f"{n}.parquet" for n in range(1000)]
    adds = [logs.add(name, size=1) for name in names]
    await logs.put_commit(inner, 0, logs.protocol(), logs.metadata(), *adds)
    for name in names:
        await inner.put(name, b"x")
    store = CountingStore(inner)
    async with Table("memory://of/tests", store=store) as table:
        assert (await adelta.fsck(table)).problems == ()
    assert store.count < 10
