"""Columns renamed, dropped, moved and widened; and what files call them (PROTOCOL.md)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import (
    InvalidExpressionError,
    InvalidOptionError,
    InvalidPropertyError,
    InvalidTableError,
    InvalidUseError,
    InvariantViolationError,
    MetadataChangedError,
    SchemaMismatchError,
)
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string
from adelta.kernel.schema.types import LONG, StructField, StructType
from adelta.operations import (
    AlterMetrics,
    add_columns,
    add_constraint,
    change_column,
    create_table,
    drop_columns,
    drop_feature,
    history,
    rename_column,
    set_properties,
    unset_properties,
    write_table,
)
from adelta.table import open_table
from tests.operations.altered import (
    MODE,
    ROWS,
    files_of,
    new_table,
    read_by_deltalake,
    rows,
    schema_of,
)

if TYPE_CHECKING:
    from pathlib import Path


def mapping(field: StructField | None) -> tuple[int, str]:
    assert field is not None
    metadata = field.metadata
    return metadata["delta.columnMapping.id"], metadata["delta.columnMapping.physicalName"]


def field_ids(fields: Any) -> list[tuple[str, int]]:
    return [(f.name, int(f.metadata[b"PARQUET:field_id"])) for f in fields]


# ----------------------------------------------------------------------------------------- mapping


@pytest.mark.parametrize("mode", ["name", "id"])
async def test_a_mapped_table_names_its_columns_by_ids_in_files_and_log(mode: str) -> None:
    """A0-46, C5-20: physical names in files, statistics and partition values, and field ids."""
    table = await new_table(mode=mode, partition_by=["p"])
    schema = await schema_of(table)
    (id_1, id_name), (id_2, p_name) = mapping(schema.field("id")), mapping(schema.field("p"))
    (id_3, s_name), (id_6, l_name) = mapping(schema.field("s")), mapping(schema.field("l"))
    struct = schema.field("s")
    assert struct is not None
    assert isinstance(struct.type, StructType)
    (id_4, a_name), (id_5, _) = map(mapping, struct.type)
    assert [id_1, id_2, id_3, id_4, id_5, id_6] == [1, 2, 3, 4, 5, 6]
    snapshot = await table.snapshot()
    assert snapshot.properties == {MODE: mode, "delta.columnMapping.maxColumnId": "7"}
    assert snapshot.protocol == Protocol(2, 7, None, ("appendOnly", "columnMapping", "invariants"))
    names = {id_name, p_name, s_name, a_name, l_name}
    assert all(name.startswith("col-") for name in names)
    for action, parquet in await files_of(table):
        assert dict(action["partition_values"]).keys() == {p_name}
        stats = orjson.loads(action["stats"])
        assert stats["minValues"][id_name] in (1, 2)
        assert stats["nullCount"].keys() == {id_name, s_name, l_name}
        assert field_ids(parquet) == [(id_name, 1), (s_name, 3), (l_name, 6)]
        assert field_ids(parquet.field(s_name).type.fields)[0] == (a_name, 4)
        assert field_ids(parquet.field(l_name).type.value_type.fields)[0][1] == 7
    await write_table(table, ROWS)
    assert len(await rows(table)) == 4
    where = (await table.snapshot()).scan(where="p = 'x' AND id = 1")
    assert await where.count() == 2


async def test_a_table_that_begins_to_map_keeps_the_names_that_its_files_have(
    tmp_path: Path,
) -> None:
    """B12-02: the display names of now become the physical ones; later columns get new ones."""
    uri = str(tmp_path)
    await write_table(uri, ROWS, partition_by=["p"])
    async with open_table(uri) as table:
        await set_properties(table, {MODE: "name"})
        schema = await schema_of(table)
        assert mapping(schema.field("p")) == (2, "p")
        assert mapping(schema.field("l")) == (6, "l")
        assert await set_properties(table, {MODE: "name"}) == AlterMetrics(None)
        await add_columns(table, pa.schema([("late", pa.int64())]))
        late = mapping((await schema_of(table)).field("late"))
        assert late[0] == 8
        assert late[1].startswith("col-")
        await write_table(table, ROWS.append_column("late", pa.array([7, 8])))
        assert [row["late"] for row in await rows(table)] == [None, 7, None, 8]
        assert (await table.snapshot()).properties["delta.columnMapping.maxColumnId"] == "8"
    await rename_column(uri, "late", "later on; much later")
    query = 'SELECT p, l, "later on; much later" AS late FROM t ORDER BY late, p'
    assert read_by_deltalake(uri, query) == [
        {"p": "x", "l": [{"k": 1}], "late": 7},
        {"p": "y", "l": [], "late": 8},
        {"p": "x", "l": [{"k": 1}], "late": None},
        {"p": "y", "l": [], "late": None},
    ]


async def test_names_that_parquet_cannot_hold_need_mapping() -> None:  # C5-05
    odd = pa.table({"a b": [1], "c;d": ["x"]})
    with pytest.raises(SchemaMismatchError, match="needs column mapping"):
        await new_table(odd, mode="none")
    table = await new_table(odd, partition_by=["c;d"])
    assert await rows(table) == [{"a b": 1, "c;d": "x"}]


@pytest.mark.parametrize(
    ("mode", "to", "message"),
    [
        ("none", "id", "the only mode that an existing table can change to is name"),
        ("id", "name", "the only mode"),
        ("name", "nonsense", "must be one of"),
    ],
)
async def test_a_mapping_mode_other_than_none_to_name_or_to_none_is_refused(
    mode: str, to: str, message: str
) -> None:
    table = await new_table(mode=mode)
    with pytest.raises(InvalidPropertyError, match=message):
        await set_properties(table, {MODE: to})
    assert (await table.snapshot()).version == 0


async def test_the_highest_column_id_cannot_be_set() -> None:
    table = await new_table()
    with pytest.raises(InvalidPropertyError, match="cannot be set"):
        await set_properties(table, {"delta.columnMapping.maxColumnId": "100"})


@pytest.mark.parametrize("unset", [False, True])
@pytest.mark.parametrize("mode", ["name", "id"])
async def test_a_table_that_stops_mapping_its_columns_is_rewritten_without_a_data_change(
    tmp_path: Path, mode: str, unset: bool
) -> None:
    uri = str(tmp_path)
    async with await new_table(uri=uri, mode=mode, partition_by=["p"]) as table:
        await rename_column(table, "id", "key")
        protocol = (await table.snapshot()).protocol
        before = sorted(await rows(table), key=lambda row: row["key"])
        if unset:
            done = await unset_properties(table, [MODE])
        else:
            done = await set_properties(table, {MODE: "none"})
        assert done.version == 2
        snapshot = await table.snapshot()
        assert snapshot.properties == ({} if unset else {MODE: "none"})
        assert snapshot.protocol == protocol
        assert sorted(await rows(table), key=lambda row: row["key"]) == before
        for _, parquet in await files_of(table):
            assert parquet.names == ["key", "s", "l"]
        assert (await history(table))[0].operation == "REMOVE COLUMN MAPPING"
        commit = (tmp_path / "_delta_log/00000000000000000002.json").read_text()
        assert '"dataChange":true' not in commit
        assert await set_properties(table, {MODE: "none", "a": "b"}) == AlterMetrics(3)
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 2


async def test_other_properties_are_set_after_the_files_of_a_mapped_table_were_rewritten() -> None:
    table = await new_table()
    assert await set_properties(table, {MODE: "none", "delta.appendOnly": "true"}) == AlterMetrics(
        2
    )
    assert (await table.snapshot()).properties == {MODE: "none", "delta.appendOnly": "true"}


async def test_a_table_whose_names_or_features_need_mapping_does_not_stop_mapping() -> None:
    table = await new_table()
    await rename_column(table, "id", "the id")
    with pytest.raises(SchemaMismatchError, match="needs column mapping; rename the column"):
        await set_properties(table, {MODE: "none"})
    await rename_column(table, "the id", "id")
    await set_properties(table, {"delta.enableIcebergCompatV2": "true"})
    before = (await table.snapshot()).version
    with pytest.raises(InvalidPropertyError, match="enableIcebergCompatV2 needs mapped columns"):
        await set_properties(table, {MODE: "none"})
    assert (await table.snapshot()).version == before


async def test_ids_that_two_columns_share_are_refused() -> None:
    table = await new_table()
    twice = {"delta.columnMapping.id": 1, "delta.columnMapping.physicalName": "z"}
    schema = StructType((*await schema_of(table), StructField("z", LONG, True, twice)))
    async with table.transaction() as tx:
        with pytest.raises(InvalidTableError, match="id 1 of column 'z' is another column's"):
            tx.update_metadata(replace(tx.metadata, schema_string=schema_to_string(schema)))


async def test_an_overwritten_schema_keeps_the_ids_of_columns_that_stay_as_they_are() -> None:
    table = await new_table()
    before = await schema_of(table)
    await write_table(
        table,
        pa.table({"id": [5], "p": [1.5], "new": ["n"]}),
        mode="overwrite",
        schema_mode="overwrite",
    )
    after = await schema_of(table)
    assert mapping(after.field("id")) == mapping(before.field("id"))
    assert mapping(after.field("p"))[0] > 7  # of another type, so another column
    assert mapping(after.field("new"))[0] == 9
    assert await rows(table) == [{"id": 5, "p": 1.5, "new": "n"}]


@pytest.mark.parametrize("mode", ["name", "id"])
async def test_columns_that_a_write_brings_get_ids_and_names_too(mode: str) -> None:
    table = await new_table(mode=mode, partition_by=["p"])
    more = pa.table({"id": [3], "p": ["x"], "s": [{"c": 1.5}], "new col": ["n"]})
    await write_table(table, more, schema_mode="merge")
    schema = await schema_of(table)
    struct = schema.field("s")
    assert struct is not None
    assert isinstance(struct.type, StructType)
    assert {mapping(struct.type.field("c"))[0], mapping(schema.field("new col"))[0]} == {8, 9}
    assert (await table.snapshot()).properties["delta.columnMapping.maxColumnId"] == "9"
    found = (await (await table.snapshot()).scan(where="id = 3").to_arrow()).to_pylist()
    struct_value = {"a": None, "b": None, "c": 1.5}
    assert found == [{"id": 3, "p": "x", "s": struct_value, "l": None, "new col": "n"}]


async def test_a_new_table_of_another_ones_schema_is_not_mapped_by_its_ids() -> None:
    schema = await schema_of(await new_table())
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema)
    assert all(not field.metadata for field in await schema_of(table))


# ---------------------------------------------------------------------------------- rename and drop


async def test_a_column_is_renamed_without_a_new_file() -> None:
    table = await new_table(partition_by=["p"])
    assert await rename_column(table, "ID", "key") == AlterMetrics(1)
    await rename_column(table, "p", "part")
    await rename_column(table, "s.b", "text")
    await rename_column(table, "l.element.k", "number")
    assert await rename_column(table, "key", "key") == AlterMetrics(None)
    assert (await table.snapshot()).partition_columns == ("part",)
    assert sorted(await rows(table), key=lambda row: row["key"]) == [
        {"key": 1, "part": "x", "s": {"a": 1, "text": "one"}, "l": [{"number": 1}]},
        {"key": 2, "part": "y", "s": None, "l": []},
    ]
    newest = (await history(table, 2))[1]
    assert newest.operation == "RENAME COLUMN"
    assert newest.operation_parameters == {"oldColumnPath": "s.b", "newColumnPath": "s.text"}
    more = pa.table({"key": [3], "part": ["x"], "s": [{"a": 2, "text": "two"}], "l": [[]]})
    await write_table(table, more)
    assert (await (await table.snapshot()).scan(where="part = 'x'").count()) == 2


async def test_a_name_that_is_taken_or_not_there_is_refused() -> None:
    table = await new_table()
    with pytest.raises(SchemaMismatchError, match="cannot tell apart"):
        await rename_column(table, "id", "P")
    with pytest.raises(SchemaMismatchError, match=r"no column 's\.z': s has a, b"):
        await rename_column(table, "s.z", "y")
    with pytest.raises(SchemaMismatchError, match="which has no 'x'"):
        await rename_column(table, "id.x", "y")
    with pytest.raises(InvalidOptionError, match="names 2 columns"):
        await rename_column(table, "id,p", "y")
    with pytest.raises(SchemaMismatchError, match="without a name"):
        await rename_column(table, "id", "")


async def test_a_column_whose_name_holds_a_dot_is_named_between_backticks() -> None:
    """D22: nothing is guessed, and nothing passed over."""
    table = await new_table(pa.table({"e.f": [1], "e": [{"g": 1, "h": 2}]}))
    with pytest.raises(InvalidOptionError, match=r"is `e\.f`, between backticks"):
        await drop_columns(table, ["e.f"], if_exists=True)
    await drop_columns(table, ["e.g"])
    await drop_columns(table, ["`e.f`"])
    assert await rows(table) == [{"e": {"h": 2}}]


async def test_a_table_that_does_not_map_its_columns_says_how_to() -> None:
    table = await new_table(mode="none")
    with pytest.raises(InvalidUseError, match=r"columnMapping\.mode to 'name' first"):
        await rename_column(table, "id", "key")
    with pytest.raises(InvalidUseError, match=r"columnMapping\.mode to 'name' first"):
        await drop_columns(table, ["id"])


async def test_a_dropped_column_never_comes_back() -> None:
    """B12-01: a column of the same name is another one, with an id and a name of its own."""
    table = await new_table()
    assert await drop_columns(table, ["s.a", "p"]) == AlterMetrics(1)
    assert (await table.snapshot()).schema.names == ["id", "s", "l"]
    assert (await rows(table))[0] == {"id": 1, "s": {"b": "one"}, "l": [{"k": 1}]}
    await add_columns(table, pa.schema([("p", pa.string())]))
    assert (await rows(table))[0]["p"] is None
    newest = (await history(table, 2))[1]
    assert newest.operation == "DROP COLUMNS"
    assert orjson.loads(newest.operation_parameters["columns"]) == ["s.a", "p"]
    assert await drop_columns(table, ["gone"], if_exists=True) == AlterMetrics(None)
    with pytest.raises(SchemaMismatchError, match="no column 'gone'"):
        await drop_columns(table, ["gone"])


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        (["p"], InvalidUseError, "partitioned by it"),
        (["l.element"], SchemaMismatchError, "part of a value"),
        (["l.element.k"], SchemaMismatchError, "would have no field left"),
        (["id", "s", "l"], SchemaMismatchError, "no column left"),
        ([], InvalidOptionError, "one at least"),
        ("id", InvalidOptionError, "a list"),
    ],
)
async def test_columns_that_a_table_needs_are_not_dropped(
    columns: Any, error: type[Exception], message: str
) -> None:
    table = await new_table(partition_by=["p"])
    with pytest.raises(error, match=message):
        await drop_columns(table, columns)
    assert (await table.snapshot()).version == 0


async def test_columns_that_rules_depend_on_stay() -> None:
    generated = {"delta.generationExpression": "id + 1"}
    schema = StructType(
        (
            StructField("id", LONG),
            StructField("next", LONG, True, generated),
            StructField("s", StructType((StructField("x", LONG), StructField("y", LONG)))),
        )
    )
    table = await create_table(
        f"memory://{uuid.uuid4()}/t",
        schema,
        properties={MODE: "name", "delta.enableTypeWidening": "true"},
    )
    await add_constraint(table, "positive", "s.x > 0")
    with pytest.raises(InvalidUseError, match="'next'"):
        await rename_column(table, "id", "key")
    with pytest.raises(InvalidUseError, match="'positive'"):
        await drop_columns(table, ["s.x"])
    with pytest.raises(InvalidUseError, match="'positive'"):
        await drop_columns(table, ["s"])
    await rename_column(table, "s.y", "z")
    assert await drop_columns(table, ["next", "id"]) == AlterMetrics(3)


async def test_the_columns_of_statistics_follow_names() -> None:
    stats = "delta.dataSkippingStatsColumns"
    table = await new_table(properties={stats: "id,s.a"})
    await rename_column(table, "s", "struct,ure")
    assert (await table.snapshot()).properties[stats] == "id,`struct,ure`.a"
    await drop_columns(table, ["id"])
    assert (await table.snapshot()).properties[stats] == "`struct,ure`.a"


async def test_an_append_prepared_before_a_rename_is_a_conflict() -> None:
    table = await new_table()
    tx = await table.transaction().__aenter__()
    await tx.append(ROWS)
    await rename_column(table, "id", "key")
    with pytest.raises(MetadataChangedError, match="RENAME COLUMN"):
        await tx.__aexit__(None, None, None)


async def test_mapping_is_dropped_by_writing_files_under_the_names_that_users_see(
    tmp_path: Path,
) -> None:
    uri = str(tmp_path)
    async with await new_table(uri=uri, partition_by=["p"]) as table:
        await rename_column(table, "id", "key")
        await drop_columns(table, ["s"])
        await drop_feature(table, "columnMapping")
        before = [{"key": 1, "p": "x", "l": [{"k": 1}]}, {"key": 2, "p": "y", "l": []}]
        assert sorted(await rows(table), key=lambda row: row["key"]) == before
        snapshot = await table.snapshot()
        assert snapshot.properties.keys() == {"delta.requireCheckpointProtectionBeforeVersion"}
        assert snapshot.protocol == Protocol(
            1, 7, None, ("appendOnly", "checkpointProtection", "invariants")
        )
        for _, parquet in await files_of(table):
            assert parquet.names == ["key", "l"]
        operations = [entry.operation for entry in await history(table)]
        assert operations[::-1][3:5] == ["REMOVE COLUMN MAPPING", "Empty Commit"]
    assert deltalake.DeltaTable(uri).to_pyarrow_table().num_rows == 2


# --------------------------------------------------------------------------------- add at a place


async def test_columns_are_added_where_they_are_wanted() -> None:
    table = await new_table(mode="none")
    late = pa.schema([("late", pa.int64()), ("later", pa.int64())])
    await add_columns(table, late, after="ID")
    await add_columns(table, pa.schema([("head", pa.string())]), first=True)
    await add_columns(table, pa.schema([("c", pa.int64())]), parent="s", after="a")
    await add_columns(table, pa.schema([("j", pa.int64())]), parent="l.element", first=True)
    schema = (await table.snapshot()).schema
    assert schema.names == ["head", "id", "late", "later", "p", "s", "l"]
    assert (await rows(table))[0] == {
        "head": None,
        "id": 1,
        "late": None,
        "later": None,
        "p": "x",
        "s": {"a": 1, "c": None, "b": "one"},
        "l": [{"j": None, "k": 1}],
    }
    newest = (await history(table, 2))[1]
    column = orjson.loads(newest.operation_parameters["columns"])[0]
    assert column["column"]["name"] == "s.c"
    assert column["position"] == "AFTER a"
    with pytest.raises(SchemaMismatchError, match="no column 'gone' beside"):
        await add_columns(table, pa.schema([("x", pa.int64())]), after="gone")
    with pytest.raises(SchemaMismatchError, match="no fields to add to"):
        await add_columns(table, pa.schema([("x", pa.int64())]), parent="l")
    with pytest.raises(InvalidOptionError, match="choose one"):
        await add_columns(table, pa.schema([("x", pa.int64())]), first=True, after="id")


# ------------------------------------------------------------------------------------------ change


async def test_comments_and_places_change() -> None:
    table = await new_table(mode="none")
    await change_column(table, "p", comment="the part", first=True)
    await change_column(table, "s.a", comment="inside", after="b")
    schema = (await table.snapshot()).schema
    assert schema.names == ["p", "id", "s", "l"]
    assert schema.field("p").metadata == {b"comment": b"the part"}
    assert [f.name for f in schema.field("s").type] == ["b", "a"]
    assert (await rows(table))[0]["s"] == {"b": "one", "a": 1}
    assert await change_column(table, "p", comment="the part") == AlterMetrics(None)
    await change_column(table, "p", comment="")
    assert (await table.snapshot()).schema.field("p").metadata is None
    entry = (await history(table))[1]
    assert entry.operation == "CHANGE COLUMN"
    assert entry.operation_parameters["position"] == "AFTER b"
    assert orjson.loads(entry.operation_parameters["column"]) == {
        "name": "s.a",
        "type": "long",
        "nullable": True,
        "metadata": {"comment": "inside"},
    }
    with pytest.raises(SchemaMismatchError, match="no column 'p' beside"):
        await change_column(table, "p", after="p")
    with pytest.raises(SchemaMismatchError, match="part of every value"):
        await change_column(table, "l.element", comment="no")


async def test_nulls_are_forbidden_only_where_there_are_none() -> None:  # C5-07
    table = await new_table(mode="none")
    await change_column(table, "id", nullable=False)
    await change_column(table, "s.a", nullable=False)  # where there is a struct
    with pytest.raises(InvariantViolationError, match=r"1 rows .* have a null in column 's'"):
        await change_column(table, "s", nullable=False)
    with pytest.raises(InvariantViolationError, match="may not be null"):
        await write_table(table, pa.table({"id": pa.array([None], pa.int64())}))
    with pytest.raises(SchemaMismatchError, match="inside an array or a map"):
        await change_column(table, "l.element.k", nullable=False)
    assert await change_column(table, "id", nullable=True) == AlterMetrics(3)
    await write_table(table, pa.table({"id": pa.array([None], pa.int64())}))


async def test_defaults_are_set_and_taken_away() -> None:  # B12-04
    table = await new_table(pa.table({"id": [1], "n": [2]}), mode="none")
    await change_column(table, "n", default="40 + 2")
    assert "allowColumnDefaults" in ((await table.snapshot()).protocol.writer_features or ())
    await write_table(table, pa.table({"id": [2]}))
    await change_column(table, "n", default="")
    await write_table(table, pa.table({"id": [3]}))
    assert [row["n"] for row in await rows(table)] == [2, 42, None]
    with pytest.raises(InvalidExpressionError):
        await change_column(table, "n", default="id + 1")
    with pytest.raises(InvalidExpressionError):
        await change_column(table, "n", default="no_such_function(1)")


async def test_columns_that_are_computed_take_no_other_values() -> None:
    generated = StructField("g", LONG, True, {"delta.generationExpression": "id + 1"})
    identity = {
        "delta.identity.start": 1,
        "delta.identity.step": 1,
        "delta.identity.allowExplicitInsert": False,
    }
    table = await create_table(
        f"memory://{uuid.uuid4()}/t",
        StructType((StructField("n", LONG, True, identity), StructField("id", LONG), generated)),
        properties={"delta.enableTypeWidening": "true"},
    )
    with pytest.raises(SchemaMismatchError, match="'g' is generated from others"):
        await change_column(table, "g", default="1")
    with pytest.raises(SchemaMismatchError, match="'n' has a default or a generation expression"):
        await change_column(table, "n", default="1")
    with pytest.raises(SchemaMismatchError, match=r"'n' is a decimal.*has to be a long"):
        await change_column(table, "n", type="decimal(20,0)")
