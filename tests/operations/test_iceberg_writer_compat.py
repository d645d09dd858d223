"""Tables that Iceberg clients can write (protocol_rfcs/iceberg-writer-compat-v1.md, B12-11)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from adelta.errors import InvalidPropertyError, InvalidUseError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.operations import (
    add_columns,
    add_constraint,
    add_feature,
    change_column,
    create_table,
    delete,
    drop_columns,
    drop_feature,
    rename_column,
    set_properties,
    unset_properties,
    update,
    write_table,
)
from tests.operations.altered import MODE, files_of, new_table, read_by_deltalake, rows, schema_of
from tests.support.plain_reader import read_rows

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.table import Table

WRITER_V1 = {"delta.enableIcebergWriterCompatV1": "true"}
PHYSICAL_NAME, COLUMN_ID = "delta.columnMapping.physicalName", "delta.columnMapping.id"
DATA = pa.table({"id": [1, 2], "s": [{"a": 1, "b": ["x"]}, None], "p": ["x", None]})
KEYED = t.StructType(
    (
        t.StructField("id", t.LONG),
        t.StructField(
            "m",
            t.MapType(
                t.StructType((t.StructField("k", t.STRING),)),
                t.StructType((t.StructField("v", t.STRING),)),
            ),
        ),
    )
)


async def new(schema: pa.Schema | t.StructType = DATA.schema, **properties: str) -> Table:
    options = {f"delta.{key}": value for key, value in properties.items()}
    uri = f"memory://{uuid.uuid4()}/t"
    return await create_table(uri, schema, properties={**WRITER_V1, **options})


async def test_files_call_columns_by_their_ids(tmp_path: Path) -> None:
    uri = str(tmp_path)
    await write_table(uri, DATA, partition_by=["p"], properties=WRITER_V1)
    table = await new_table(DATA, mode="id", uri=uri)
    await add_columns(table, pa.schema([("late", pa.struct([("x", pa.int64())]))]))
    await rename_column(table, "late", "later")
    await update(table, {"p": "'z'"}, "id = 1")
    await delete(table, "id = 2")
    await drop_columns(table, ["later"])
    await add_columns(table, pa.schema([("last", pa.int32())]))
    properties = (await table.snapshot()).properties
    assert properties[MODE] == "id"
    assert properties["delta.enableIcebergCompatV2"] == "true"
    schema = await schema_of(table)
    ids = [field.metadata[COLUMN_ID] for field in schema]
    assert ids == [1, 2, 6, 9]  # 3 to 5 are inside `s`, and those of a dropped column are gone
    assert [field.metadata[PHYSICAL_NAME] for field in schema] == [f"col-{i}" for i in ids]
    for _, parquet in await files_of(table):
        for name in parquet.names:
            assert (parquet.field(name).metadata or {})[b"PARQUET:field_id"] == name[4:].encode()
    found = await rows(table)
    assert [(row["id"], row["p"]) for row in found] == [(1, "z"), (1, "z")]
    assert read_rows(tmp_path).to_pylist() == found
    assert read_by_deltalake(uri, "SELECT id, p FROM t") == [{"id": 1, "p": "z"}] * 2


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"columnMapping.mode": "name"}, "mapped by id"),
        ({"enableIcebergCompatV2": "false"}, r"needs delta\.enableIcebergCompatV2"),
        ({"enableChangeDataFeed": "true"}, "together with changeDataFeed"),
        ({"enableRowTracking": "true"}, "together with rowTracking"),
        ({"feature.allowColumnDefaults": "supported"}, "together with allowColumnDefaults"),
        ({"feature.deletionVectors": "supported"}, "together with deletionVectors"),
        ({"feature.variantType": "supported"}, "together with variantType"),
    ],
)
async def test_what_it_does_not_go_together_with_is_refused(
    properties: dict[str, str], message: str
) -> None:
    with pytest.raises(InvalidPropertyError, match=message):
        await new(**properties)


async def test_features_that_are_supported_may_be_idle() -> None:
    table = await new(**{"feature.rowTracking": "supported", "feature.checkConstraints": "enabled"})
    await write_table(table, DATA)
    with pytest.raises(InvalidPropertyError, match="together with rowTracking"):
        await set_properties(table, {"delta.enableRowTracking": "true"})
    with pytest.raises(InvalidPropertyError, match="together with checkConstraints"):
        await add_constraint(table, "positive", "id > 0")
    with pytest.raises(InvalidPropertyError, match="together with deletionVectors"):
        await add_feature(table, "deletionVectors")
    assert (await table.snapshot()).version == 1
    await add_feature(table, "v2Checkpoint")
    assert len(await rows(table)) == 2


@pytest.mark.parametrize("kind", [t.BYTE, t.ArrayType(t.SHORT)])
async def test_small_integers_are_refused(kind: t.DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"of type (byte|short), .* make it an integer"):
        await new(t.StructType((t.StructField("v", kind),)))


async def test_physical_names_of_another_table_are_refused() -> None:
    metadata = {COLUMN_ID: 1, PHYSICAL_NAME: "col-abc"}
    with pytest.raises(SchemaMismatchError, match=r"'v', whose id is 1, 'col-abc', .* wants col-1"):
        await new(t.StructType((t.StructField("v", t.LONG, metadata=metadata),)))


async def test_structs_that_are_keys_stay_as_they_are() -> None:
    table = await new(KEYED)
    for change in (
        rename_column(table, "m.key.k", "j"),
        change_column(table, "m.key.k", comment="a key"),
    ):
        with pytest.raises(
            SchemaMismatchError, match=r"keys of the map in column 'm' hold a struct"
        ):
            await change
    await rename_column(table, "m.value.v", "w")
    await rename_column(table, "m", "n")
    with pytest.raises(SchemaMismatchError, match=r"keys of the map in column 'n'"):
        await rename_column(table, "n.key.k", "j")
    await drop_columns(table, ["n"])


async def test_a_table_has_it_from_the_first_version_on_or_never() -> None:
    plain = await new_table(DATA, mode="id", properties={"delta.enableIcebergCompatV2": "true"})
    with pytest.raises(InvalidPropertyError, match="set on a table that exists"):
        await set_properties(plain, WRITER_V1)
    table = await new()
    with pytest.raises(InvalidPropertyError, match="cannot be unset"):
        await unset_properties(table, list(WRITER_V1))
    with pytest.raises(InvalidPropertyError, match=r"needs delta\.enableIcebergCompatV2"):
        await unset_properties(table, ["delta.enableIcebergCompatV2"])
    with pytest.raises(InvalidUseError, match="cannot be dropped from a table"):
        await drop_feature(table, "icebergWriterCompatV1")
