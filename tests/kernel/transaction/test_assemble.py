from __future__ import annotations

import tracemalloc
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pytest

from adelta.errors import InvalidOptionError, InvalidPropertyError
from adelta.kernel.actions.domain_metadata import DomainMetadata
from adelta.kernel.actions.file_actions import AddCDCFile, AddFile, RemoveFile
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.actions.json import encode_commit
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.actions.set_transaction import SetTransaction
from adelta.kernel.file_id import FileIds
from adelta.kernel.staged import StagedChanges
from adelta.kernel.transaction.assemble import assemble, make_commit_info
from adelta.kernel.transaction.isolation import IsolationLevel, effective_level, isolation_level
from adelta.kernel.transaction.read_set import ReadSet
from adelta.kernel.transaction.removal import removals, remove_actions, removes_table

ADD = AddFile("p=1/a", {"p": "1"}, 10, 1, stats='{"numRecords":1}')


def test_commit_info_comes_first_and_files_come_last() -> None:
    staged = StagedChanges(
        "id",
        protocol=Protocol(1, 2),
        metadata=Metadata("m", "{}"),
        set_transactions=(SetTransaction("app", 1),),
        adds=(ADD,),
        removes=removes_table([RemoveFile("b", 7)]),
        cdc=(AddCDCFile("c", {}, 1),),
    )
    info = make_commit_info(
        staged,
        read_version=4,
        level=IsolationLevel.SERIALIZABLE,
        is_blind_append=False,
        timestamp_ms=99,
        engine="adelta/test",
    )
    lines = [orjson.loads(line) for line in encode_commit(assemble(staged, info)).splitlines()]
    kinds = [next(iter(line)) for line in lines]
    assert kinds == ["commitInfo", "protocol", "metaData", "txn", "remove", "add", "cdc"]


def test_commit_info_says_what_spark_wants_to_know() -> None:
    staged = StagedChanges(
        "id",
        operation="WRITE",
        parameters={"mode": "Append", "partitionBy": ["p"], "predicate": None},
        metrics={"numFiles": 1},
        user_metadata="note",
    )
    info = make_commit_info(
        staged,
        read_version=4,
        level=IsolationLevel.SERIALIZABLE,
        is_blind_append=True,
        timestamp_ms=99,
        engine="adelta/test",
    )
    assert info.to_json() == {
        "timestamp": 99,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": '["p"]'},
        "operationMetrics": {"numFiles": "1"},
        "readVersion": 4,
        "isolationLevel": "Serializable",
        "isBlindAppend": True,
        "engineInfo": "adelta/test",
        "txnId": "id",
        "userMetadata": "note",
    }


def test_tombstones_of_live_files_keep_what_their_readers_need() -> None:
    row = {
        "path": "p=1/a",
        "partition_values": [("p", "1")],
        "size": 10,
        "modification_time": 1,
        "data_change": True,
        "stats": "{}",
        "base_row_id": 3,
        "deletion_vector": {
            "storageType": "u",
            "pathOrInlineDv": "x",
            "sizeInBytes": 1,
            "cardinality": 1,
        },
    }
    table = removals(pa.Table.from_pylist([row], schema=ADD_SCHEMA), 77, data_change=False)
    (removed,) = remove_actions(table)
    assert (removed.path, removed.deletion_timestamp, removed.data_change) == ("p=1/a", 77, False)
    assert removed.extended_file_metadata
    assert removed.partition_values == {"p": "1"}
    assert (removed.size, removed.base_row_id, removed.stats) == (10, 3, None)
    assert removed.deletion_vector is not None
    assert removed.deletion_vector.unique_id == "ux"


def test_rows_survive_the_way_through_a_table_of_tombstones() -> None:
    rows = [
        ADD.remove(5),
        RemoveFile("b", None, False, tags={"k": "v"}, partition_values={"p": None}),
    ]
    assert list(remove_actions(removes_table(rows))) == rows


def test_a_commit_that_only_rearranges_rows_falls_to_snapshot_isolation() -> None:
    moved = AddFile("a", {}, 1, 1, data_change=False)
    quiet = removes_table([RemoveFile("b", 1, False)])
    asked = IsolationLevel.SERIALIZABLE
    assert effective_level(StagedChanges("i", adds=(moved,), removes=quiet), ReadSet(), asked) is (
        IsolationLevel.SNAPSHOT
    )
    loud = removes_table([RemoveFile("b", 1, True)])
    assert (
        effective_level(StagedChanges("i", adds=(moved,), removes=loud), ReadSet(), asked) is asked
    )
    assert (
        effective_level(StagedChanges("i", adds=(ADD,), removes=quiet), ReadSet(), asked) is asked
    )


def test_only_levels_that_spark_knows_can_be_asked_for() -> None:
    assert isolation_level("Serializable") is IsolationLevel.SERIALIZABLE
    for text in ("serializable", "SnapshotIsolation", ""):
        with pytest.raises(InvalidOptionError, match="choose 'Serializable'"):
            isolation_level(text)


def test_a_blind_append_reads_nothing_and_does_nothing_to_files_but_add_them() -> None:
    add = StagedChanges("i", adds=(ADD,))
    assert ReadSet().makes_blind(add)
    assert not ReadSet(whole_table=True).makes_blind(add)
    assert not ReadSet(files=FileIds.of([ADD], "memory://t")).makes_blind(add)
    assert ReadSet().makes_blind(StagedChanges("i"))
    removing = StagedChanges("i", adds=(ADD,), removes=removes_table([RemoveFile("b", 1)]))
    assert not ReadSet().makes_blind(removing)
    told = StagedChanges("i", adds=(ADD,), cdc=(AddCDCFile("c", {}, 1),))
    assert not ReadSet().makes_blind(told)
    assert ReadSet().makes_blind(StagedChanges("i", adds=(ADD,), metadata=Metadata("m", "{}")))
    assert ReadSet().makes_blind(StagedChanges("i", metadata=Metadata("m", "{}")))


def test_the_tables_level_holds_and_only_a_stronger_one_is_asked_for() -> None:
    key = "delta.isolationLevel"
    for said, level in (
        ("Serializable", "SERIALIZABLE"),
        ("writeserializable", "WRITE_SERIALIZABLE"),
    ):
        assert isolation_level(None, {key: said}) is IsolationLevel[level]
        assert isolation_level("Serializable", {key: said}) is IsolationLevel.SERIALIZABLE
    assert isolation_level(None) is isolation_level(None, {}) is IsolationLevel.SERIALIZABLE
    assert isolation_level("WriteSerializable") is IsolationLevel.WRITE_SERIALIZABLE
    with pytest.raises(InvalidOptionError, match="is weaker"):
        isolation_level("WriteSerializable", {key: "Serializable"})
    for asked in (None, "Serializable"):
        with pytest.raises(InvalidPropertyError, match="no isolation level"):
            isolation_level(asked, {key: "SnapshotIsolation"})


def test_a_commit_that_says_anything_else_keeps_its_level() -> None:
    asked = IsolationLevel.SERIALIZABLE
    moved = AddFile("a", {}, 1, 1, data_change=False)
    others: list[dict[str, Any]] = [
        {"metadata": Metadata("m", "{}")},
        {"protocol": Protocol(1, 2)},
        {"set_transactions": (SetTransaction("app", 1),)},
        {"domains": (DomainMetadata("mine", "x"),)},
    ]
    for other in others:
        assert (
            effective_level(StagedChanges("i", adds=(moved,), **other), ReadSet(), asked) is asked
        )
    assert effective_level(StagedChanges("i"), ReadSet(), asked) is IsolationLevel.SNAPSHOT
    assert effective_level(StagedChanges("i"), ReadSet(whole_table=True), asked) is asked
    only = removes_table([RemoveFile("b", 1, False)])
    assert (
        effective_level(StagedChanges("i", removes=only), ReadSet(), asked)
        is IsolationLevel.SNAPSHOT
    )
    assert (
        effective_level(StagedChanges("i", adds=(moved,)), ReadSet(), asked)
        is IsolationLevel.SNAPSHOT
    )


def test_a_commit_of_many_files_takes_little_more_memory_than_its_text() -> None:
    files = [replace(ADD, path=f"{number}", stats="x" * 1000) for number in range(3000)]
    tracemalloc.start()
    try:
        text = encode_commit(files)
        assert tracemalloc.get_traced_memory()[1] < 1.3 * len(text)
    finally:
        tracemalloc.stop()
    assert text.count(b"\n") == len(files)
