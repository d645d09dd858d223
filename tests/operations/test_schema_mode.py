"""Tables whose columns follow the data: merged into them, or instead of them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import InvalidPropertyError, MetadataChangedError, SchemaMismatchError
from adelta.operations import create_table, write_table
from adelta.operations.history import history
from adelta.table import open_table

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.snapshot import Snapshot

ROWS = pa.table({"id": pa.array([1], pa.int32()), "s": [{"x": 1}]})


def address() -> str:
    return f"memory://{uuid.uuid4()}/table"


async def latest(uri: str) -> Snapshot:
    return await open_table(uri).snapshot()


async def contents(uri: str) -> list[dict[str, Any]]:
    found = (await (await latest(uri)).scan().to_arrow()).to_pylist()
    return sorted(found, key=lambda row: row["id"])


async def test_new_columns_come_last_and_are_null_in_the_rows_there_are(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    more = pa.table({"new": ["n"], "ID": pa.array([2], pa.int32()), "s": [{"y": "inner", "x": 2}]})
    await write_table(uri, more, schema_mode="merge")
    expected = [
        {"id": 1, "s": {"x": 1, "y": None}, "new": None},
        {"id": 2, "s": {"x": 2, "y": "inner"}, "new": "n"},
    ]
    assert await contents(uri) == expected
    theirs = deltalake.DeltaTable(uri).to_pyarrow_table().to_pylist()
    assert sorted(theirs, key=lambda row: row["id"]) == expected
    newest, _ = await history(open_table(uri))
    assert newest.operation_parameters["canMergeSchema"] == "true"
    assert newest.is_blind_append is True


async def test_data_that_brings_nothing_new_leaves_the_metadata_alone() -> None:
    uri = address()
    await write_table(uri, ROWS)
    before = (await latest(uri)).metadata
    await write_table(uri, ROWS, schema_mode="merge")
    assert (await latest(uri)).metadata == before
    newest, _ = await history(open_table(uri))
    assert newest.is_blind_append is True


async def test_without_a_schema_mode_new_columns_are_refused() -> None:
    uri = address()
    await write_table(uri, ROWS)
    with pytest.raises(SchemaMismatchError, match="new"):
        await write_table(uri, pa.table({"id": [1], "new": [1]}))


async def test_a_merge_together_with_an_overwrite_keeps_the_columns_there_were() -> None:
    uri = address()
    await write_table(uri, ROWS)
    await write_table(uri, pa.table({"new": [5]}), mode="overwrite", schema_mode="merge")
    snapshot = await latest(uri)
    assert snapshot.schema.names == ["id", "s", "new"]
    assert (await snapshot.scan(columns=["new"]).to_arrow())["new"].to_pylist() == [5]


async def test_columns_become_wider_where_the_table_allows_it() -> None:
    uri, strict = address(), address()
    small = pa.table({"id": pa.array([1], pa.int8()), "l": pa.array([[1]], pa.list_(pa.int16()))})
    wide = pa.table({"id": [1 << 40], "l": pa.array([[1 << 20]], pa.list_(pa.int32()))})
    await create_table(uri, small.schema, properties={"delta.enableTypeWidening": "true"})
    await write_table(uri, small)
    await write_table(uri, wide, schema_mode="merge")
    assert await contents(uri) == [{"id": 1, "l": [1]}, {"id": 1 << 40, "l": [1 << 20]}]
    first, second = orjson.loads((await latest(uri)).metadata.schema_string)["fields"]
    assert first["metadata"]["delta.typeChanges"] == [{"fromType": "byte", "toType": "long"}]
    assert second["metadata"]["delta.typeChanges"] == [
        {"fromType": "short", "toType": "integer", "fieldPath": "element"}
    ]
    with pytest.raises(SchemaMismatchError, match="'id' is of type long"):
        await write_table(uri, pa.table({"id": [1.5]}), schema_mode="merge")
    await write_table(strict, small)
    with pytest.raises(SchemaMismatchError, match="'id' is of type byte"):
        await write_table(strict, wide, schema_mode="merge")


async def test_a_column_that_needs_a_feature_upgrades_the_protocol() -> None:
    uri = address()
    await write_table(uri, ROWS)
    ntz = pa.table({"id": pa.array([2], pa.int32()), "at": pa.array([0], pa.timestamp("us"))})
    await write_table(uri, ntz, schema_mode="merge")
    protocol = (await latest(uri)).protocol
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert protocol.reader_features == ("timestampNtz",)
    assert protocol.writer_features == ("appendOnly", "invariants", "timestampNtz")


async def test_an_overwritten_schema_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    new = pa.table({"day": ["mon", "tue"], "id": ["a", "b"]})
    done = await write_table(
        uri, new, mode="overwrite", schema_mode="overwrite", partition_by=["DAY"]
    )
    assert (done.num_removed_files, done.num_files) == (1, 2)
    snapshot = await latest(uri)
    assert snapshot.schema.names == ["day", "id"]
    assert snapshot.partition_columns == ("day",)
    assert await contents(uri) == [{"day": "mon", "id": "a"}, {"day": "tue", "id": "b"}]
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 2
    before = await open_table(uri).snapshot(version=0)
    assert (await before.scan().to_arrow()).to_pylist() == ROWS.to_pylist()
    newest, _ = await history(open_table(uri))
    assert newest.operation_parameters == {
        "mode": "Overwrite",
        "canOverwriteSchema": "true",
        "partitionBy": '["day"]',
    }


async def test_partitioning_stays_unless_told_otherwise_and_is_never_lost_silently() -> None:
    uri = address()
    await write_table(uri, pa.table({"id": [1], "p": ["x"]}), partition_by=["p"])
    mode: dict[str, Any] = {"mode": "overwrite", "schema_mode": "overwrite"}
    await write_table(uri, pa.table({"id": ["a"], "p": ["x"]}), **mode)
    assert (await latest(uri)).partition_columns == ("p",)
    with pytest.raises(SchemaMismatchError, match="partitioned by 'p'"):
        await write_table(uri, pa.table({"id": ["a"]}), **mode)
    await write_table(uri, pa.table({"id": ["a"]}), **mode, partition_by=())
    assert (await latest(uri)).partition_columns == ()


async def test_a_column_whose_statistics_are_asked_for_is_not_overwritten_away() -> None:
    uri = address()
    wanted = {"delta.dataSkippingStatsColumns": "id"}
    await create_table(uri, ROWS.schema, properties=wanted)
    with pytest.raises(InvalidPropertyError, match="id"):
        await write_table(uri, pa.table({"other": [1]}), mode="overwrite", schema_mode="overwrite")


async def test_two_writers_who_change_the_schema_at_once_conflict() -> None:
    uri = address()
    await write_table(uri, ROWS)

    async def late() -> Any:
        yield pa.record_batch({"mine": [1]})
        await write_table(uri, pa.table({"theirs": [1]}), schema_mode="merge")

    with pytest.raises(MetadataChangedError):
        await write_table(open_table(uri), late(), schema_mode="merge")
    assert (await latest(uri)).schema.names == ["id", "s", "theirs"]


async def test_a_schema_that_changed_before_the_write_is_no_conflict() -> None:
    uri = address()
    await write_table(uri, ROWS)
    stale = open_table(uri)
    await stale.snapshot()
    await write_table(uri, pa.table({"theirs": [1]}), schema_mode="merge")
    await write_table(stale, pa.table({"mine": [1]}), schema_mode="merge")
    assert (await latest(uri)).schema.names == ["id", "s", "theirs", "mine"]
