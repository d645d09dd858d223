"""Changes of a table's properties, columns and constraints."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    CommitConflictError,
    ConcurrentAppendError,
    InvalidExpressionError,
    InvalidOptionError,
    InvalidPropertyError,
    InvariantViolationError,
    SchemaMismatchError,
)
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.operations import (
    AlterMetrics,
    add_columns,
    add_constraint,
    create_table,
    drop_constraint,
    set_properties,
    unset_properties,
    write_table,
)
from adelta.operations.history import history
from adelta.table import Table, open_table

if TYPE_CHECKING:
    from pathlib import Path

ROWS = pa.table({"id": [1, 2], "s": [{"x": 1}, None]})


async def new_table(**properties: str) -> Table:
    table = open_table(f"memory://{uuid.uuid4()}/table")
    await write_table(table, ROWS, properties=properties)
    return table


async def operation(table: Table) -> tuple[str | None, dict[str, Any]]:
    newest = (await history(table, 1))[0]
    return newest.operation, dict(newest.operation_parameters)


# -------------------------------------------------------------------------------------- properties


async def test_properties_are_set_beside_those_there_were() -> None:
    table = await new_table(own="1", other="2")
    done = await set_properties(
        table, {"own": "3", "DELTA.LOGRETENTIONDURATION": "interval 40 days"}
    )
    assert done == AlterMetrics(1)
    assert (await table.snapshot()).properties == {
        "own": "3",
        "other": "2",
        "delta.logRetentionDuration": "interval 40 days",
    }
    name, parameters = await operation(table)
    assert name == "SET TBLPROPERTIES"
    assert orjson.loads(parameters["properties"])["own"] == "3"


async def test_properties_that_are_set_already_make_no_commit() -> None:
    table = await new_table(own="1")
    assert await set_properties(table, {"own": "1"}) == AlterMetrics(None)
    assert (await table.snapshot()).version == 0


async def test_a_property_that_needs_a_feature_upgrades_the_protocol(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    await set_properties(uri, {"delta.enableChangeDataFeed": "true"})
    protocol = (await open_table(uri).snapshot()).protocol
    assert protocol.min_writer_version == 7
    assert protocol.writer_features == ("appendOnly", "changeDataFeed", "invariants")
    await set_properties(uri, {"delta.feature.timestampNtz": "supported"})
    protocol = (await open_table(uri).snapshot()).protocol
    assert protocol.min_reader_version == 3
    assert protocol.reader_features == ("timestampNtz",)
    assert "changeDataFeed" in (protocol.writer_features or ())
    assert "delta.feature.timestampNtz" not in (await open_table(uri).snapshot()).properties
    assert deltalake.DeltaTable(uri).protocol().min_reader_version == 3


async def test_append_only_is_enforced_from_the_moment_it_is_set() -> None:
    table = await new_table()
    await set_properties(table, {"delta.appendOnly": "true"})
    with pytest.raises(InvariantViolationError, match="append-only"):
        await write_table(table, ROWS, mode="overwrite")
    await write_table(table, ROWS)
    await unset_properties(table, ["DELTA.appendonly"])
    await write_table(table, ROWS, mode="overwrite")


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({"delta.nonsense": "1"}, InvalidPropertyError, "nonsense"),
        ({"delta.appendOnly": "perhaps"}, InvalidPropertyError, "appendOnly"),
        ({"delta.constraints.c": "id > 0"}, InvalidPropertyError, "add_constraint"),
        ({"delta.minWriterVersion": "8"}, InvalidPropertyError, "from 1 to 7"),
        ({"delta.minReaderVersion": "3"}, InvalidOptionError, "highest of writers"),
        ({"delta.dataSkippingStatsColumns": "gone"}, InvalidPropertyError, "gone"),
        ({"delta.logRetentionDuration": "interval 1 day"}, InvalidPropertyError, "shorter"),
    ],
)
async def test_properties_that_a_table_cannot_have_are_refused(
    properties: dict[str, str], error: type[Exception], message: str
) -> None:
    table = await new_table()
    with pytest.raises(error, match=message):
        await set_properties(table, properties)
    assert (await table.snapshot()).version == 0


@pytest.mark.parametrize(
    ("properties", "versions"),
    [
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "3"}, (1, 3)),
        ({"delta.minWriterVersion": "4"}, (1, 4)),
        ({"delta.minReaderVersion": "1", "delta.minWriterVersion": "1"}, (1, 2)),
        ({"delta.minReaderVersion": "3", "delta.minWriterVersion": "7"}, (1, 2)),
        (
            {
                "delta.minReaderVersion": "2",
                "delta.minWriterVersion": "5",
                "delta.columnMapping.mode": "name",
            },
            (2, 5),
        ),
    ],
)
async def test_properties_ask_for_what_protocol_versions_stand_for(
    properties: dict[str, str], versions: tuple[int, int]
) -> None:
    table = await new_table()
    await set_properties(table, properties)
    snapshot = await table.snapshot()
    has = snapshot.protocol
    assert (has.min_reader_version, has.min_writer_version) == versions
    assert not [key for key in snapshot.properties if "Version" in key]


async def test_versions_that_properties_ask_for_add_to_lists_of_features() -> None:
    table = await new_table()
    await set_properties(table, {"delta.enableDeletionVectors": "true"})
    await set_properties(table, {"delta.minWriterVersion": "3"})
    found = (await table.snapshot()).protocol
    assert found.writer_features is not None
    assert {"checkConstraints", "deletionVectors"} <= set(found.writer_features)


async def test_a_property_is_held_against_those_that_the_table_has() -> None:
    table = await new_table()
    await set_properties(
        table,
        {
            "delta.logRetentionDuration": "interval 90 days",
            "delta.deletedFileRetentionDuration": "interval 60 days",
        },
    )
    with pytest.raises(InvalidPropertyError, match="shorter"):
        await set_properties(table, {"delta.logRetentionDuration": "interval 50 days"})


async def test_properties_are_unset_if_they_are_there() -> None:
    table = await new_table(own="1", other="2")
    assert await unset_properties(table, ["own"]) == AlterMetrics(1)
    assert (await table.snapshot()).properties == {"other": "2"}
    assert await operation(table) == (
        "UNSET TBLPROPERTIES",
        {"properties": '["own"]', "ifExists": "false"},
    )
    with pytest.raises(InvalidPropertyError, match="'own'"):
        await unset_properties(table, ["other", "own"])
    assert await unset_properties(table, ["own"], if_exists=True) == AlterMetrics(None)
    assert (await table.snapshot()).properties == {"other": "2"}


async def test_two_who_change_properties_at_once_do_not_undo_each_other() -> None:
    table = await new_table()
    tx = await table.transaction().__aenter__()
    tx.update_metadata(tx.metadata.with_configuration({"mine": "1"}))
    await set_properties(table.uri, {"theirs": "1"})
    with pytest.raises(CommitConflictError):
        await tx.__aexit__(None, None, None)
    assert (await table.snapshot()).properties == {"theirs": "1"}


# ----------------------------------------------------------------------------------------- columns


async def test_columns_and_fields_are_added_behind_the_others(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    new = pa.schema([("c", pa.string()), ("S", pa.struct([("y", pa.int32())]))])
    assert await add_columns(uri, new) == AlterMetrics(1)
    table = open_table(uri)
    assert (await (await table.snapshot()).scan().to_arrow()).to_pylist() == [
        {"id": 1, "s": {"x": 1, "y": None}, "c": None},
        {"id": 2, "s": None, "c": None},
    ]
    assert deltalake.DeltaTable(uri).schema().to_json() == (
        (await table.snapshot()).metadata.schema_string
    )
    name, parameters = await operation(table)
    assert name == "ADD COLUMNS"
    assert orjson.loads(parameters["columns"]) == [
        {"column": {"name": "c", "type": "string", "nullable": True, "metadata": {}}},
        {"column": {"name": "S.y", "type": "integer", "nullable": True, "metadata": {}}},
    ]


async def test_columns_that_rows_could_not_have_are_refused() -> None:
    table = await new_table()
    for schema, message in (
        (pa.schema([("ID", pa.int64())]), "'ID' already"),
        (pa.schema([("s", pa.struct([("x", pa.int64())]))]), r"'s\.x' already"),
        (pa.schema([pa.field("n", pa.int64(), nullable=False)]), "'n' forbids nulls"),
        (pa.schema([("a b", pa.int64())]), "column mapping"),
        (StructType((StructField("d", LONG, True, {"CURRENT_DEFAULT": "1"}),)), "CURRENT_DEFAULT"),
    ):
        with pytest.raises(SchemaMismatchError, match=message):
            await add_columns(table, schema)
    assert (await table.snapshot()).version == 0


# ------------------------------------------------------------------------------------- constraints


async def test_a_constraint_holds_for_the_rows_there_are_and_those_to_come(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    await write_table(uri, ROWS)
    assert await add_constraint(uri, "Small", "id < 10") == AlterMetrics(1)
    table = open_table(uri)
    snapshot = await table.snapshot()
    assert snapshot.properties == {"delta.constraints.small": "id < 10"}
    versions = snapshot.protocol.min_reader_version, snapshot.protocol.min_writer_version
    assert versions == (1, 3)
    assert await operation(table) == ("ADD CONSTRAINT", {"name": "Small", "expr": "id < 10"})
    with pytest.raises(InvariantViolationError, match="'small'"):
        await write_table(uri, pa.table({"id": [10]}))
    with pytest.raises(deltalake.exceptions.DeltaError):
        deltalake.write_deltalake(uri, pa.table({"id": [10]}), mode="append")
    await write_table(uri, pa.table({"id": [9]}))
    assert await drop_constraint(uri, "SMALL") == AlterMetrics(3)
    assert await operation(table) == (
        "DROP CONSTRAINT",
        {"name": "SMALL", "expr": "id < 10", "existed": "true"},
    )
    await write_table(uri, pa.table({"id": [10]}))


async def test_a_constraint_that_rows_break_is_not_added() -> None:
    table = await new_table()
    with pytest.raises(InvariantViolationError, match=r"1 rows .* do not satisfy s\.x = 1"):
        await add_constraint(table, "c", "s.x = 1")  # null for one row
    with pytest.raises(InvariantViolationError, match="2 rows"):
        await add_constraint(table, "c", "id > 2")
    assert (await table.snapshot()).version == 0


async def test_a_constraint_needs_a_name_of_its_own_and_a_condition_that_fits() -> None:
    table = await new_table()
    await add_constraint(table, "c", "id > 0")
    with pytest.raises(InvalidOptionError, match="'C' already"):
        await add_constraint(table, "C", "id > -1")
    with pytest.raises(InvalidOptionError, match="name"):
        await add_constraint(table, " ", "id > 0")
    for text in ("gone > 0", "id + 1", "my_udf(id)", "id >"):
        with pytest.raises(InvalidExpressionError):
            await add_constraint(table, "d", text)


async def test_a_constraint_that_is_not_there_is_dropped_only_if_asked() -> None:
    table = await new_table()
    with pytest.raises(InvalidOptionError, match="no constraint 'c'"):
        await drop_constraint(table, "c")
    assert await drop_constraint(table, "c", if_exists=True) == AlterMetrics(None)


async def test_rows_added_while_a_constraint_is_checked_are_a_conflict() -> None:
    table = await new_table()
    tx = await table.transaction().__aenter__()
    await tx.read()
    await write_table(table.uri, ROWS)
    tx.update_metadata(tx.metadata.with_configuration({"own": "1"}))
    with pytest.raises(ConcurrentAppendError):
        await tx.__aexit__(None, None, None)


async def test_rows_written_before_a_constraint_was_seen_are_a_conflict() -> None:
    table = await new_table()
    tx = await table.transaction().__aenter__()
    await tx.append(pa.table({"id": [99]}))
    await add_constraint(table.uri, "c", "id < 3")
    with pytest.raises(CommitConflictError):
        await tx.__aexit__(None, None, None)
    assert await (await table.snapshot()).scan().count() == 2


async def test_a_table_with_no_rows_takes_any_constraint() -> None:
    table = await create_table(f"memory://{uuid.uuid4()}/table", ROWS.schema)
    await add_constraint(table, "never", "id <> id")
    with pytest.raises(InvariantViolationError):
        await write_table(table, ROWS)
