"""Commits whose actions hold values of every wrong kind."""

from __future__ import annotations

import copy
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import orjson
import pytest

import adelta
from adelta.errors import AdeltaError, InvalidTableError
from adelta.table import Table
from tests.hostile.reading import DV, everything, failure_of, parquet, table_with
from tests.support import logs

if TYPE_CHECKING:
    from collections.abc import Iterator

WRONG: tuple[Any, ...] = (
    None, True, -1, 2**31, 2**63, 2**64, 10**400, 1e300, 0.5, "", "x", "\x00", [], [1], ["a", "a"],
    {}, {"a": 1}, {"a": [1]}, {"a": None}, [["a", "b"]],
)  # fmt: skip
ABSENT = object()

ACTIONS: dict[str, dict[str, Any]] = {
    "add": {
        "path": "a.parquet", "partitionValues": {}, "size": 1, "modificationTime": 1,
        "dataChange": True, "stats": "{}", "tags": {"a": "b"}, "deletionVector": DV,
        "baseRowId": 1, "defaultRowCommitVersion": 1, "clusteringProvider": "x",
    },
    "remove": {
        "path": "a.parquet", "deletionTimestamp": 1, "dataChange": True, "size": 1, "tags": {},
        "extendedFileMetadata": True, "partitionValues": {}, "deletionVector": DV, "stats": "{}",
    },
    "cdc": {"path": "a.parquet", "partitionValues": {}, "size": 1, "dataChange": False, "tags": {}},
    "txn": {"appId": "a", "version": 1, "lastUpdated": 1},
    "domainMetadata": {"domain": "d", "configuration": "{}", "removed": False},
    "protocol": {
        "minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"],
        "writerFeatures": ["deletionVectors"],
    },
    "metaData": logs.metadata(name="n", description="d", createdTime=1)["metaData"],
    "commitInfo": {
        "timestamp": 1, "inCommitTimestamp": 1, "operation": "W", "operationParameters": {},
        "operationMetrics": {}, "readVersion": 1, "isolationLevel": "x", "isBlindAppend": True,
        "engineInfo": "e", "txnId": "t", "userMetadata": "m", "tags": {},
    },
    "sidecar": {"path": "x", "sizeInBytes": 1, "modificationTime": 1, "tags": {}},
    "checkpointMetadata": {"version": 1, "tags": {}},
}  # fmt: skip


def _spoilt(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The body with each field at any depth absent, or of every wrong kind."""
    places = [(key,) for key in body]
    places += [
        (key, sub) for key, inner in body.items() if isinstance(inner, dict) for sub in inner
    ]
    for place in places:
        for value in (*WRONG, ABSENT):
            spoilt = copy.deepcopy(body)
            holder = spoilt if len(place) == 1 else spoilt[place[0]]
            if value is ABSENT:
                del holder[place[-1]]
            else:
                holder[place[-1]] = value
            yield spoilt


@pytest.mark.parametrize("kind", ACTIONS)
async def test_a_field_of_a_wrong_kind_is_one_error_or_is_read(kind: str) -> None:
    for body in (*WRONG, *_spoilt(ACTIONS[kind])):
        line = json.dumps({kind: body}).encode()
        store = await table_with(line)
        await failure_of(store)
        async with Table("memory://of/tests", store=store) as table:
            with suppress(AdeltaError):
                [batch async for batch in adelta.changes(table)]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("size", 2**63),
        ("size", "many"),
        ("partitionValues", True),
        ("partitionValues", ["a"]),
        ("tags", 7),
        ("deletionVector", {"storageType": "u"}),
        ("deletionVector", {**DV, "cardinality": None}),
        ("stats", {"numRecords": 1}),
    ],
)
async def test_the_error_names_the_commit_the_file_and_the_field(field: str, value: object) -> None:
    store = await table_with(orjson.dumps(logs.add("a.parquet", **{field: value})))
    failure = await failure_of(store)
    assert isinstance(failure, InvalidTableError)
    for part in ("version 1", "'a.parquet'", field, "restore"):
        assert part in str(failure)


async def test_values_of_partitions_that_are_not_columns_are_passed_over() -> None:
    add = logs.add("a.parquet", size=len(parquet()), partitionValues={"ghost": "1", "id": "x"})
    rows = await everything(await table_with(orjson.dumps(add)))
    assert rows.column("id").to_pylist() == list(range(40))


async def test_a_partition_value_that_is_missing_is_null() -> None:
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "p")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    lines = (
        logs.metadata(schemaString=schema, partitionColumns=["p"]),
        logs.add("a.parquet", size=len(parquet())),
    )
    rows = await everything(await table_with(b"\n".join(map(orjson.dumps, lines))))
    assert rows.column("p").null_count == 40


async def test_a_partition_value_of_another_type_names_the_column_and_the_value() -> None:
    fields = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "p")
    ]
    schema = json.dumps({"type": "struct", "fields": fields})
    lines = (
        logs.metadata(schemaString=schema, partitionColumns=["p"]),
        logs.add("a.parquet", partitionValues={"p": "many"}),
    )
    failure = await failure_of(await table_with(b"\n".join(map(orjson.dumps, lines))))
    assert isinstance(failure, InvalidTableError)
    for part in ("a.parquet", "'p'", "'many'"):
        assert part in str(failure)


async def test_the_same_action_twice_counts_once() -> None:
    line = orjson.dumps(logs.add("a.parquet", size=len(parquet())))
    rows = await everything(await table_with(line + b"\n" + line, line))
    assert rows.num_rows == 40


async def test_of_two_metadata_in_one_commit_the_last_counts() -> None:
    lines = [logs.metadata(name="first"), logs.metadata(name="last")]
    store = await table_with(b"\n".join(map(orjson.dumps, lines)))
    async with Table("memory://of/tests", store=store) as table:
        assert (await table.snapshot()).metadata.name == "last"


@pytest.mark.parametrize("turned", [False, True])
async def test_an_add_and_a_remove_of_one_file_in_one_commit_leave_it(turned: bool) -> None:
    lines = [logs.add("a.parquet", size=len(parquet())), logs.remove("a.parquet")]
    body = b"\n".join(orjson.dumps(line) for line in (lines[::-1] if turned else lines))
    assert (await everything(await table_with(body))).num_rows == 40


async def test_of_a_key_that_stands_twice_in_one_object_the_last_counts() -> None:
    size = len(parquet())
    line = b'{"add":{"path":"ghost","path":"a.parquet","partitionValues":{},"size":%d,' % size
    line += b'"modificationTime":1,"dataChange":false,"dataChange":true}}'
    assert (await everything(await table_with(line))).num_rows == 40


async def test_a_vector_that_deletes_more_rows_than_there_are_is_refused_by_a_count_too() -> None:
    add = logs.add("a.parquet", deletionVector={**DV, "cardinality": 2**40})
    store = await table_with(orjson.dumps(add))
    async with Table("memory://of/tests", store=store) as table:
        with pytest.raises(InvalidTableError, match=r"a\.parquet"):
            await (await table.snapshot()).scan().count()
