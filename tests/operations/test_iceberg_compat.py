"""Tables that Iceberg clients can read too (PROTOCOL.md, "IcebergCompatV1" and "V2")."""

from __future__ import annotations

import io
import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import InvalidOptionError, InvalidPropertyError, SchemaMismatchError
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.operations import (
    add_columns,
    change_column,
    create_table,
    replace_table,
    set_properties,
    unset_properties,
    write_table,
)
from adelta.table import Table, open_table
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

V1 = {"delta.enableIcebergCompatV1": "true"}
V2 = {"delta.enableIcebergCompatV2": "true"}
FLAT = pa.table({"id": [1, 2, 3], "p": ["x", None, ""], "n": [1.5, None, 2.5]})
NESTED_IDS = "delta.columnMapping.nested.ids"


async def compatible(data: pa.Table = FLAT, version: dict[str, str] = V2, **options: Any) -> Table:
    return await new_table(data, mode="name", properties=version, **options)


@pytest.mark.parametrize("version", [V1, V2])
async def test_a_new_table_maps_its_columns_and_files_hold_every_one(
    tmp_path: Path, version: dict[str, str]
) -> None:
    """B12-08, B12-09: partition columns stand behind the others, as null as the log says."""
    uri = str(tmp_path)
    await write_table(uri, FLAT, partition_by=["p"], properties=version)

    async with open_table(uri) as table:
        snapshot = await table.snapshot()
        assert snapshot.properties[MODE] == "name"
        assert snapshot.protocol.min_reader_version == 2
        p = snapshot.delta_schema.fields[1]
        name = p.metadata["delta.columnMapping.physicalName"]
        for action, parquet in await files_of(table):
            assert parquet.names[-1] == name
            assert parquet.field(name).metadata[b"PARQUET:field_id"] == b"2"
            data = await table.store.get(decode_path(action["path"]))
            held = set(pq.read_table(io.BytesIO(data)).column(name).to_pylist())
            assert held == {dict(action["partition_values"])[name]}
            assert "p" not in action["stats"]
        assert [row["p"] for row in await rows(table)] == ["x", None, None]
    found = read_by_deltalake(uri, "SELECT id, p FROM t ORDER BY id")
    assert found == [{"id": 1, "p": "x"}, {"id": 2, "p": None}, {"id": 3, "p": None}]


async def test_elements_keys_and_values_have_ids_in_schema_and_files(tmp_path: Path) -> None:
    """B12-09: the map of ids by physical path, and Parquet's field ids."""
    data = pa.table(
        {
            "l": pa.array([[[1]]], pa.list_(pa.list_(pa.int64()))),
            "m": pa.array([[("k", [1])]], pa.map_(pa.string(), pa.list_(pa.int64()))),
            "s": pa.array([{"x": [{"y": 1}]}]),
        }
    )
    table = await compatible(data, uri=str(tmp_path))
    schema = await schema_of(table)
    physical = [f.metadata["delta.columnMapping.physicalName"] for f in schema]
    l, m, s = physical  # noqa: E741
    assert schema.fields[0].metadata[NESTED_IDS] == {f"{l}.element": 2, f"{l}.element.element": 3}
    assert schema.fields[1].metadata[NESTED_IDS] == {
        f"{m}.key": 5,
        f"{m}.value": 6,
        f"{m}.value.element": 7,
    }
    assert NESTED_IDS not in schema.fields[2].metadata
    assert (await table.snapshot()).properties["delta.columnMapping.maxColumnId"] == "11"
    ((_, parquet),) = await files_of(table)
    ids = {}

    def collect(field: Any, path: str) -> None:
        ids[path] = int(field.metadata[b"PARQUET:field_id"])
        if pa.types.is_struct(field.type):
            for inner in field.type:
                collect(inner, f"{path}.{inner.name}")
        elif pa.types.is_map(field.type):
            collect(field.type.key_field, f"{path}.key")
            collect(field.type.item_field, f"{path}.value")
        elif pa.types.is_list(field.type):
            collect(field.type.value_field, f"{path}.element")

    for field in parquet:
        collect(field, field.name)
    assert len(ids) == 11
    assert sorted(ids.values()) == list(range(1, 12))
    assert ids[f"{m}.value.element"] == 7
    assert ids[s] == 8
    await add_columns(table, pa.schema([("late", pa.list_(pa.int64()))]))
    late = (await schema_of(table)).fields[-1]
    assert list(late.metadata[NESTED_IDS].values()) == [13]
    assert len(await rows(table)) == 1
    assert deltalake.DeltaTable(str(tmp_path)).version() == 1


async def test_a_table_becomes_compatible_where_its_columns_are_mapped() -> None:
    table = await new_table(FLAT, mode="none")
    with pytest.raises(InvalidPropertyError, match=r"set delta\.columnMapping\.mode to 'name'"):
        await set_properties(table, V2)
    await set_properties(table, {**V2, MODE: "name"})
    protocol = (await table.snapshot()).protocol
    assert {"columnMapping", "icebergCompatV2"} <= set(protocol.writer_features or ())
    with pytest.raises(InvalidPropertyError, match="cannot both be true"):
        await set_properties(table, V1)
    await set_properties(table, {**V1, "delta.enableIcebergCompatV2": "false"})
    await unset_properties(table, list(V1))


@pytest.mark.parametrize(
    ("data", "version", "properties", "error", "message"),
    [
        (ROWS, V1, {}, SchemaMismatchError, "'l' is of type array"),
        (pa.table({"v": pa.nulls(1)}), V1, {}, SchemaMismatchError, "type void"),
        (pa.table({"id": [1], "v": pa.nulls(1)}), V2, {}, SchemaMismatchError, "type void"),
        (FLAT, V2, {"delta.columnMapping.mode": "none"}, InvalidPropertyError, "mapped columns"),
        (
            FLAT,
            V1,
            {"delta.feature.deletionVectors": "supported"},
            InvalidPropertyError,
            "deletion vectors",
        ),
    ],
)
async def test_what_iceberg_cannot_hold_is_refused(
    data: pa.Table,
    version: dict[str, str],
    properties: dict[str, str],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        await create_table(
            f"memory://{uuid.uuid4()}/t", data.schema, properties={**version, **properties}
        )


async def test_partitioning_and_types_stay_such_as_iceberg_can_follow() -> None:
    """B10-04, B12-08: no other partition columns, and the changes of type that Iceberg has."""
    widening = {"delta.enableTypeWidening": "true"}
    data = pa.table(
        {"i": pa.array([1], pa.int32()), "d": pa.array(["1"]).cast(pa.decimal128(5, 2)), "p": ["x"]}
    )
    table = await compatible(data, V2 | widening, partition_by=["p"])
    for path, wanted in (
        ("i", pa.float64()),
        ("i", pa.decimal128(12, 0)),
        ("d", pa.decimal128(9, 4)),
    ):
        with pytest.raises(SchemaMismatchError, match="Iceberg does not allow"):
            await change_column(table, path, type=wanted)
    await change_column(table, "i", type=pa.int64())
    await change_column(table, "d", type=pa.decimal128(9, 2))
    with pytest.raises(SchemaMismatchError, match=r"partitioned by \(p\), and cannot come"):
        await write_table(
            table, data, mode="overwrite", schema_mode="overwrite", partition_by=["i"]
        )


async def test_a_partitioned_table_cannot_become_compatible_with_the_first_version() -> None:
    table = await new_table(FLAT, partition_by=["p"])
    with pytest.raises(InvalidPropertyError, match="those that are there lack them"):
        await set_properties(table, V1)
    await set_properties(table, V2)
    await write_table(table, FLAT)
    held = sorted(len(parquet.names) for _, parquet in await files_of(table))
    assert held == [2, 2, 3, 3]


async def test_files_that_do_not_say_their_rows_are_not_added() -> None:
    table = await compatible()
    async with table.transaction() as tx:
        tx.add_files([AddFile("f.parquet", {}, 1, 1, stats='{"numRecords":1}')])
    tx = await table.transaction().__aenter__()
    tx.add_files([AddFile("g.parquet", {}, 1, 1)])
    with pytest.raises(InvalidOptionError, match="has no numRecords"):
        await tx.__aexit__(None, None, None)


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableMaterializePartitionColumnsFeature": "true"},
        {"delta.feature.materializePartitionColumns": "supported"},
        {"delta.writePartitionColumnsToParquet": "true"},
    ],
)
async def test_files_hold_partition_columns_where_a_property_asks_for_it(
    properties: dict[str, str],
) -> None:
    """B12-12."""
    table = await new_table(FLAT, mode="none", partition_by=["p"], properties=properties)
    assert [parquet.names for _, parquet in await files_of(table)] == [["id", "n", "p"]] * 2
    assert [row["p"] for row in await rows(table)] == ["x", None, None]


ATOMIC = "delta.universalFormat.iceberg.atomicConversion.supported"


@pytest.mark.parametrize("version", [V1, V2, {"delta.enableIcebergCompatV3": "true"}])
async def test_new_tables_for_iceberg_are_marked_as_fit_for_atomic_conversion(
    version: dict[str, str],
) -> None:
    table = await new_table(FLAT, mode="name", properties=version)
    assert (await table.snapshot()).properties[ATOMIC] == "true"
    kept = await new_table(FLAT, mode="name", properties=version | {ATOMIC: "false"})
    assert (await kept.snapshot()).properties[ATOMIC] == "false"
    await replace_table(kept, FLAT.schema, properties=version)
    assert (await kept.snapshot()).properties[ATOMIC] == "false"
    await replace_table(kept, FLAT.schema, properties=version | {ATOMIC: "true"})
    assert (await kept.snapshot()).properties[ATOMIC] == "true"


async def test_existing_tables_are_marked_for_atomic_conversion_by_their_users_alone() -> None:
    table = await new_table(FLAT, mode="name")
    await set_properties(table, V2)
    assert ATOMIC not in (await table.snapshot()).properties
    with pytest.raises(InvalidPropertyError, match="must be true or false"):
        await set_properties(table, {ATOMIC: "maybe"})
    await set_properties(table, {ATOMIC: "true"})
    assert (await table.snapshot()).properties[ATOMIC] == "true"
