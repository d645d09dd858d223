"""Tables for Iceberg clients of format version 3 (protocol_rfcs/iceberg-compat-v3.md, B12-10)."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import (
    InvalidOptionError,
    InvalidPropertyError,
    InvalidUseError,
    MetadataChangedError,
    SchemaMismatchError,
)
from adelta.kernel.actions.file_actions import AddFile, decode_path
from adelta.kernel.schema import types as t
from adelta.kernel.schema.json import schema_to_string
from adelta.operations import (
    add_columns,
    add_feature,
    change_column,
    clone,
    create_table,
    delete,
    drop_columns,
    drop_feature,
    rename_column,
    restore,
    set_properties,
    unset_properties,
    update,
    write_table,
)
from adelta.table import Table, latest_state, open_table
from tests.operations.altered import MODE, files_of, new_table, read_by_deltalake, rows, schema_of
from tests.support.plain_reader import read_rows
from tests.support.shapes import point

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

V2 = {"delta.enableIcebergCompatV2": "true"}
V3 = {"delta.enableIcebergCompatV3": "true"}
TRACKED = {"delta.enableRowTracking": "true"}
VECTORS = {"delta.enableDeletionVectors": "true"}
FLAT = pa.table({"id": [1, 2, 3, 4], "p": ["x", "y", None, "x"], "n": [1.5, None, 2.5, 0.0]})
NESTED_IDS = "delta.columnMapping.nested.ids"
ROW_ID, ROW_COMMIT_VERSION = b"2147483540", b"2147483539"


async def compatible(data: pa.Table = FLAT, **options: Any) -> Table:
    properties = {**V3, **options.pop("properties", {})}
    mode = options.pop("mode", "name")
    return await new_table(data, mode=mode, properties=properties, **options)


async def row_ids(table: Table) -> dict[int, int]:
    found = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
    return dict(zip(found["id"].to_pylist(), found["_row_id"].to_pylist(), strict=True))


async def hidden_ids(table: Table) -> list[tuple[bytes, ...]]:
    """The field ids of the hidden columns of each live file that has some."""
    properties = (await table.snapshot()).properties
    names = [
        properties[f"delta.rowTracking.materialized{part}ColumnName"]
        for part in ("RowId", "RowCommitVersion")
    ]
    return [
        tuple(parquet.field(name).metadata[b"PARQUET:field_id"] for name in names)
        for _, parquet in await files_of(table)
        if names[0] in parquet.names
    ]


async def check_read_alike(uri: Path, table: Table) -> None:
    """Readers that share no code with adelta find the same rows."""
    expected = await rows(table)
    assert read_rows(uri).sort_by("id").to_pylist() == expected
    found = read_by_deltalake(str(uri), "SELECT id, p FROM t ORDER BY id")
    assert found == [{"id": row["id"], "p": row["p"]} for row in expected]


@pytest.mark.parametrize("mode", ["name", "id"])
async def test_rows_keep_ids_under_icebergs_field_ids(tmp_path: Path, mode: str) -> None:
    """Copies of a delete and of an update bear the two reserved ids; new rows need no columns."""
    uri = str(tmp_path)
    table = await compatible(uri=uri, mode=mode)
    snapshot = await table.snapshot()
    assert snapshot.properties["delta.enableRowTracking"] == "true"
    features = set(snapshot.protocol.writer_features or ())
    assert {"icebergCompatV3", "columnMapping", "rowTracking", "domainMetadata"} <= features
    assert await hidden_ids(table) == []
    before = await row_ids(table)
    await update(table, {"n": "9.0"}, "id = 1")
    await delete(table, "id = 2")
    await write_table(table, FLAT.slice(1, 1))
    assert await hidden_ids(table) == [(ROW_ID, ROW_COMMIT_VERSION)]
    after = await row_ids(table)
    assert {n: after[n] for n in (1, 3, 4)} == {n: before[n] for n in (1, 3, 4)}
    assert after[2] not in before.values()
    for action, parquet in await files_of(table):
        assert dict(action["tags"]) == {"ICEBERG_COMPAT_VERSION": "3"}
        assert '"numRecords"' in action["stats"]
        ids = [parquet.field(n).metadata[b"PARQUET:field_id"] for n in parquet.names]
        assert len(set(ids)) == len(ids)
    assert [row["n"] for row in await rows(table)] == [9.0, None, 2.5, 0.0]
    await check_read_alike(tmp_path, table)


async def test_a_table_created_with_the_property_alone_maps_columns_and_tracks_rows() -> None:
    table = await create_table(f"memory://{uuid.uuid4()}/t", FLAT.schema, properties=V3)
    properties = (await table.snapshot()).properties
    assert properties[MODE] == "name"
    assert properties["delta.enableRowTracking"] == "true"
    await write_table(table, FLAT)
    assert len(await rows(table)) == 4


async def test_deletion_vectors_go_together_with_it(tmp_path: Path) -> None:
    """Unlike versions 1 and 2."""
    table = await compatible(uri=str(tmp_path), properties=VECTORS)
    before = await row_ids(table)
    await delete(table, "id = 2")
    (file,) = (await (await latest_state(table)).files()).rows()
    assert file.deletion_vector is not None
    assert file.tags == {"ICEBERG_COMPAT_VERSION": "3"}
    await update(table, {"n": "7.0"}, "id = 3")
    after = await row_ids(table)
    assert after == {n: before[n] for n in (1, 3, 4)}
    assert await hidden_ids(table) == [(ROW_ID, ROW_COMMIT_VERSION)]
    assert [row["n"] for row in await rows(table)] == [1.5, 7.0, 0.0]
    await check_read_alike(tmp_path, table)


async def test_partition_columns_are_in_files_and_timestamps_are_whole_numbers(
    tmp_path: Path,
) -> None:
    data = FLAT.append_column("at", pa.array([0, 1, 2, 3], pa.timestamp("us", "UTC")))
    table = await compatible(data, uri=str(tmp_path), partition_by=["p"])
    p, at = (
        f.metadata["delta.columnMapping.physicalName"]
        for f in (await schema_of(table)).fields[1::2]
    )
    for action, _ in await files_of(table):
        file = pq.ParquetFile(tmp_path / decode_path(action["path"]))
        assert file.schema_arrow.names[-1] == p
        place = file.schema_arrow.names.index(at)
        assert file.schema.column(place).physical_type == "INT64"
    await check_read_alike(tmp_path, table)
    with pytest.raises(SchemaMismatchError, match=r"partitioned by \(p\), and cannot come"):
        await write_table(
            table, data, mode="overwrite", schema_mode="overwrite", partition_by=["id"]
        )


async def test_elements_keys_and_values_have_ids() -> None:
    kind = pa.map_(pa.string(), pa.list_(pa.int8()))
    data = pa.table({"id": [1], "m": pa.array([[("k", [1])]], kind)})
    table = await compatible(data)
    await add_columns(table, pa.schema([("late", pa.list_(pa.int64()))]))
    _, m, late = (await schema_of(table)).fields
    assert [path.partition(".")[2] for path in m.metadata[NESTED_IDS]] == [
        "key",
        "value",
        "value.element",
    ]
    await write_table(table, pa.table({"id": [2], "late": [[1]]}))
    name = late.metadata["delta.columnMapping.physicalName"]
    found = [
        parquet.field(name).type.value_field.metadata[b"PARQUET:field_id"]
        for _, parquet in await files_of(table)
        if name in parquet.names
    ]
    assert found == [str(next(iter(late.metadata[NESTED_IDS].values()))).encode()]
    async with table.transaction() as tx:  # a schema made by hand, with a column mapped by half
        metadata = dict(late.metadata)
        del metadata[NESTED_IDS]
        schema = t.StructType(
            (*(await schema_of(table)).fields[:2], replace(late, metadata=metadata))
        )
        by_hand = replace(tx.metadata, schema_string=schema_to_string(schema))
        with pytest.raises(SchemaMismatchError, match=r"element' of column 'late' has no id"):
            tx.update_metadata(by_hand)


@pytest.mark.parametrize("kind", [t.VARIANT, t.PrimitiveType("geometry(OGC:CRS84)")])
async def test_variants_and_shapes_are_allowed_by_this_version_only(kind: t.DataType) -> None:
    schema = t.StructType((t.StructField("id", t.LONG), t.StructField("v", t.ArrayType(kind))))
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema, properties=V3)
    await write_table(table, pa.table({"id": [1]}))
    with pytest.raises(SchemaMismatchError, match="IcebergCompatV2 does not allow"):
        await create_table(f"memory://{uuid.uuid4()}/t", schema, properties=V2)


async def test_shapes_are_written_and_read_back() -> None:
    schema = t.StructType(
        (t.StructField("id", t.LONG), t.StructField("g", t.PrimitiveType("geometry(OGC:CRS84)")))
    )
    table = await create_table(f"memory://{uuid.uuid4()}/t", schema, properties=V3)
    await write_table(table, pa.table({"id": [1], "g": pa.array([point(1.0, 2.0)], pa.binary())}))
    assert [row["g"] for row in await rows(table)] == [point(1.0, 2.0)]


@pytest.mark.parametrize(
    ("properties", "error", "message"),
    [
        ({MODE: "none"}, InvalidPropertyError, "mapped columns"),
        ({"delta.enableRowTracking": "false"}, InvalidPropertyError, "needs tracked rows"),
        ({"delta.rowTrackingSuspended": "true"}, InvalidPropertyError, "cannot both be true"),
        (V2, InvalidPropertyError, "cannot both be true"),
    ],
)
async def test_a_new_table_that_contradicts_itself_is_refused(
    properties: dict[str, str], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        await create_table(
            f"memory://{uuid.uuid4()}/t", FLAT.schema, properties={**V3, **properties}
        )


async def test_void_columns_are_refused() -> None:
    table = await compatible()
    with pytest.raises(SchemaMismatchError, match=r"type void, which delta\.enableIcebergCompatV3"):
        await add_columns(table, t.StructType((t.StructField("v", t.VOID),)))


async def test_columns_change_such_as_iceberg_can_follow() -> None:
    """B10-04: its changes of type; renamed and dropped columns go on as on every mapped table."""
    data = pa.table(
        {"id": [1], "i": pa.array([1], "int16"), "d": pa.array(["1"]).cast(pa.decimal128(5, 2))}
    )
    table = await compatible(data, properties={"delta.enableTypeWidening": "true"})
    for path, wanted in (("i", pa.float64()), ("i", pa.decimal128(12, 0))):
        with pytest.raises(SchemaMismatchError, match=r"neither does delta\.enableIcebergCompatV3"):
            await change_column(table, path, type=wanted)
    with pytest.raises(SchemaMismatchError, match="Iceberg does not allow"):
        await change_column(table, "d", type=pa.decimal128(9, 4))
    await change_column(table, "i", type=pa.int64())
    await change_column(table, "d", type=pa.decimal128(9, 2))
    await rename_column(table, "i", "j")
    await drop_columns(table, ["d"])
    await write_table(table, pa.table({"id": [2], "j": [2]}))
    assert await rows(table) == [{"id": 1, "j": 1}, {"id": 2, "j": 2}]


@pytest.mark.parametrize(
    ("kind", "literal", "other"),
    [
        (t.LONG, "-5", "2 + 3"),
        (t.LONG, "5", "'5'"),
        (t.LONG, "5", "NULL"),
        (t.DOUBLE, "1.5", "pi()"),
        (t.DecimalType(5, 2), "1.50", "true"),
        (t.BOOLEAN, "true", "1"),
        (t.STRING, "'a'", "current_user()"),
        (t.BINARY, "X'0A'", "5"),
        (t.DATE, "'2020-01-31'", "current_date()"),
        (t.DATE, "'2020-01-31'", "'31/01/2020'"),
        (t.DATE, "'2020-01-31'", "DATE '2020-01-31'"),
        (t.TIMESTAMP, "'2020-01-31T10:00:00Z'", "'2020-01-31'"),
        (t.TIMESTAMP_NTZ, "'2020-01-31 10:00:00'", "'yesterday at ten o''clock'"),
    ],
)
async def test_defaults_are_literals(kind: t.DataType, literal: str, other: str) -> None:
    """In the form that Delta Spark and Delta Kernel take for one, so that they can write too."""

    async def created(default: str) -> Table:
        field = t.StructField("v", kind, metadata={"CURRENT_DEFAULT": default})
        schema = t.StructType((t.StructField("id", t.LONG), field))
        return await create_table(f"memory://{uuid.uuid4()}/t", schema, properties=V3)

    with pytest.raises(SchemaMismatchError, match=r"'v' has the default .* only literal values"):
        await created(other)
    table = await created(literal)
    await write_table(table, pa.table({"id": [1]}))
    assert [row["v"] is not None for row in await rows(table)] == [True]


async def test_defaults_that_come_later_are_literals_too() -> None:
    table = await compatible()
    with pytest.raises(SchemaMismatchError, match="only literal values"):
        await change_column(table, "id", default="2 + 3")
    await change_column(table, "id", default="5")
    plain = await new_table(FLAT)
    await set_properties(plain, {"delta.feature.allowColumnDefaults": "supported"})
    await change_column(plain, "id", default="2 + 3")
    with pytest.raises(SchemaMismatchError, match="only literal values"):
        await set_properties(plain, V3)


# ------------------------------------------------------------------------ tables that exist already


async def test_a_table_becomes_compatible_and_all_its_rows_get_ids(tmp_path: Path) -> None:
    table = await new_table(FLAT, uri=str(tmp_path), partition_by=["p"])
    await set_properties(table, V3)
    assert (await table.snapshot()).properties["delta.enableRowTracking"] == "true"
    assert sorted((await row_ids(table)).values()) == [0, 1, 2, 3]
    await update(table, {"n": "9.0"}, "id = 1")
    assert await hidden_ids(table) == [(ROW_ID, ROW_COMMIT_VERSION)]
    await check_read_alike(tmp_path, table)
    await set_properties(table, V3)


async def test_columns_come_to_be_mapped_in_the_same_change() -> None:
    table = await new_table(FLAT, mode="none")
    before = (await table.snapshot()).version
    with pytest.raises(InvalidPropertyError, match=r"set delta\.columnMapping\.mode to 'name'"):
        await set_properties(table, V3)
    assert (await table.snapshot()).version == before  # no row was given an id in vain
    await add_feature(table, "icebergCompatV3")
    await write_table(table, FLAT)  # the feature alone asks for nothing
    await set_properties(table, {**V3, MODE: "name"})
    assert len(await rows(table)) == 8
    ids = await (await table.snapshot()).scan(with_row_ids=True).to_arrow()
    assert sorted(ids["_row_id"].to_pylist()) == list(range(8))


async def test_the_second_version_gives_way_to_the_third_and_the_third_to_none() -> None:
    table = await new_table(FLAT, properties=V2)
    with pytest.raises(InvalidPropertyError, match="cannot both be true"):
        await set_properties(table, V3)
    await set_properties(table, {**V3, "delta.enableIcebergCompatV2": "false"})
    await write_table(table, FLAT)
    tags = [dict(action["tags"])["ICEBERG_COMPAT_VERSION"] for action, _ in await files_of(table)]
    assert sorted(tags) == ["2", "3"]
    for change in (
        set_properties(table, {"delta.enableIcebergCompatV3": "false"}),
        unset_properties(table, list(V3)),
        set_properties(table, {**V2, "delta.enableIcebergCompatV3": "false"}),
    ):
        with pytest.raises(InvalidPropertyError, match=r"V3 cannot be unset"):
            await change
    for change in (
        unset_properties(table, list(TRACKED)),
        set_properties(table, {"delta.enableRowTracking": "false"}),
    ):
        with pytest.raises(InvalidPropertyError, match=r"needs tracked rows"):
            await change
    for name in ("rowTracking", "columnMapping"):
        with pytest.raises(InvalidUseError, match="icebergCompatV3"):
            await drop_feature(table, name)
    with pytest.raises(InvalidUseError, match="cannot be dropped from a table"):
        await drop_feature(table, "icebergCompatV3")


async def test_neither_a_restore_nor_a_clone_ends_it() -> None:
    async with await new_table(FLAT, mode="name") as table:
        before = (await latest_state(table)).version
        await set_properties(table, V3)
        with pytest.raises(InvalidPropertyError, match=r"V3 cannot be unset"):
            await restore(table, version=before)
        with pytest.raises(InvalidPropertyError, match=r"V3 cannot be unset"):
            await restore(table, version=before, protocol_downgrade_allowed=True)
        async with await new_table(FLAT, mode="name") as other:
            with pytest.raises(InvalidPropertyError, match=r"V3 cannot be unset"):
                await clone(other, table, replace=True)
        kept = (await latest_state(table)).version
        await delete(table, "id = 1")
        await restore(table, version=kept)
        assert len(await rows(table)) == FLAT.num_rows


async def test_files_of_a_table_that_tracked_rows_may_lack_the_field_ids() -> None:
    """Delta Spark refuses it too (CheckNoRowTrackingBeforeUpgradeV3)."""
    table = await new_table(FLAT, properties=TRACKED)
    await update(table, {"n": "9.0"}, "id = 1")
    with pytest.raises(InvalidPropertyError, match=r"drop the feature rowTracking first"):
        await set_properties(table, V3)
    await unset_properties(table, list(TRACKED))
    with pytest.raises(InvalidPropertyError, match=r"drop the feature rowTracking first"):
        await set_properties(table, V3)
    await drop_feature(table, "rowTracking")
    await set_properties(table, V3)
    assert sorted((await row_ids(table)).values()) == [0, 1, 2, 3]
    assert await hidden_ids(table) == []
    await update(table, {"n": "8.0"}, "id = 1")
    assert await hidden_ids(table) == [(ROW_ID, ROW_COMMIT_VERSION)]


async def test_a_transaction_is_held_to_the_rules() -> None:
    table = await compatible()
    with pytest.raises(InvalidOptionError, match="has no numRecords"):
        async with table.transaction() as tx:
            tx.add_files([AddFile("g.parquet", {}, 1, 1)])
    other = await new_table(FLAT)
    protocol = (await table.snapshot()).protocol
    async with other.transaction() as tx:
        configuration = {**tx.metadata.configuration, **V3, **TRACKED}
        with pytest.raises(InvalidPropertyError, match=r"needs tracked rows; .* set_properties"):
            tx.update_metadata(tx.metadata.with_configuration(configuration), protocol)


async def test_a_write_that_was_prepared_before_is_not_put_behind_the_switch() -> None:
    async def late(table: Table) -> AsyncIterator[pa.RecordBatch]:
        yield FLAT.to_batches()[0]
        await set_properties(open_table(table.uri), V3)

    table = await new_table(FLAT)
    with pytest.raises(MetadataChangedError):
        await write_table(open_table(table.uri), late(table))
    assert len(await rows(open_table(table.uri))) == 4
