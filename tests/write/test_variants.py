"""Variants written in their binary form, and from JSON (PROTOCOL.md, "Variant Data Type")."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import deltalake
import orjson
import pyarrow as pa
import pytest

from adelta.errors import InvariantViolationError, SchemaMismatchError
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.types import LONG, VARIANT, ArrayType, MapType, StructField, StructType
from adelta.kernel.schema.types import STRING as TEXT
from adelta.operations import add_columns, create_table, set_properties, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from adelta.table import Table

SCHEMA = StructType((StructField("id", LONG), StructField("v", VARIANT)))
BINARY = [("value", pa.binary()), ("metadata", pa.binary())]
ONE = {"value": b"\x0c\x01", "metadata": b"\x11\x00\x00"}


def as_json(texts: list[str | None]) -> pa.Array[Any]:
    return pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts, pa.string()))


async def new_table(
    schema: StructType = SCHEMA, uri: str | None = None, **properties: str
) -> Table:
    options = {f"delta.{key}": value for key, value in properties.items()}
    return await create_table(uri or f"memory://{uuid.uuid4()}/t", schema, properties=options)


async def values(table: Table, column: str = "v") -> list[Any]:
    scan = (await table.snapshot()).scan(columns=[column], variant="json")
    return (await scan.to_arrow()).column(column).to_pylist()


async def test_a_column_of_variants_brings_its_feature() -> None:
    table = await new_table()
    assert (await table.snapshot()).protocol == Protocol(
        3, 7, ("variantType",), ("appendOnly", "invariants", "variantType")
    )
    plain = await new_table(StructType((StructField("id", LONG),)))
    await add_columns(plain, StructType((StructField("v", VARIANT),)))
    assert (await plain.snapshot()).protocol.reader_features == ("variantType",)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("null", "null"),
        ("true", "true"),
        ("-7", "-7"),
        ("12345678901234567890", "12345678901234567890"),
        ("1.50", "1.50"),
        ("1e2", "100.0"),
        ('"text"', '"text"'),
        ('{"b":[1,{"c":null}],"a":0.1}', '{"a":0.1,"b":[1,{"c":null}]}'),
        ("[]", "[]"),
        ("0." + "1" * 38, "0." + "1" * 38),
        ("9" * 39, "1.0E39"),
    ],
)
async def test_json_becomes_variants_that_keep_every_digit(text: str, read: str) -> None:
    table = await new_table()
    await write_table(table, pa.table({"id": [1, 2], "v": as_json([text, None])}))
    first, second = await values(table)
    assert first == read or float(first) == float(read)
    assert second is None


async def test_binary_variants_are_written_as_they_are_at_any_depth(tmp_path: Path) -> None:
    schema = StructType(
        (
            StructField("id", LONG),
            StructField("l", ArrayType(VARIANT)),
            StructField("m", MapType(TEXT, VARIANT)),
            StructField("s", StructType((StructField("v", VARIANT, False),))),
        )
    )
    uri = str(tmp_path)
    table = await new_table(schema, uri)
    kind = pa.struct(BINARY[::-1])  # in any order
    data = pa.table(
        {
            "id": [1, 2],
            "l": pa.array([[ONE, None], None], pa.list_(kind)),
            "m": pa.array([[("k", ONE)], []], pa.map_(pa.string(), kind)),
            "s": pa.array([{"v": ONE}, None], pa.struct([("v", kind)])),
        }
    )
    await write_table(table, data)
    assert await values(table, "l") == [["1", None], None]
    assert await values(table, "m") == [[("k", "1")], []]
    assert await values(table, "s") == [{"v": "1"}, None]
    await write_table(table, await (await table.snapshot()).scan().to_arrow())  # as they were read
    assert await values(table, "l") == [["1", None], None] * 2
    await table.aclose()
    known = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(uri))
    found = pa.table(known.execute("SELECT s FROM t WHERE id = 1").read_all()).to_pylist()
    assert found == [{"s": {"v": ONE}}] * 2


@pytest.mark.parametrize(
    ("column", "error", "message"),
    [
        (as_json(["{"]), SchemaMismatchError, "is not JSON"),
        (as_json(["NaN"]), SchemaMismatchError, "NaN is no number of JSON"),
        (as_json(['{"a":1,"a":2}']), SchemaMismatchError, "two fields of one name"),
        (as_json(["[" * 500 + "]" * 500]), SchemaMismatchError, "nests deeper"),
        (pa.array(["1"]), SchemaMismatchError, "JSON text of Arrow's type json"),
        (pa.array([{"value": b"\x00"}]), InvariantViolationError, "no metadata of version 1"),
        (
            pa.array([{"value": None, "metadata": b"\x11\x00\x00"}], pa.struct(BINARY)),
            InvariantViolationError,
            "1 of 1 values",
        ),
        (
            pa.array([{"value": b"\x00", "metadata": b"\x12"}]),
            InvariantViolationError,
            "no metadata of version 1",
        ),
        (
            pa.array([{"value": b"\x00", "metadata": b"\x11\x00\x00", "typed_value": 1}]),
            SchemaMismatchError,
            "typed_value",
        ),
    ],
)
async def test_what_is_no_variant_is_refused(
    column: pa.Array[Any], error: type[Exception], message: str
) -> None:
    table = await new_table()
    with pytest.raises(error, match=message):
        await write_table(table, pa.table({"id": [1], "v": column}))
    assert (await table.snapshot()).version == 0


async def test_a_column_of_variants_may_forbid_nulls() -> None:
    table = await new_table(StructType((StructField("v", VARIANT, False),)))
    with pytest.raises(InvariantViolationError, match="may not be null"):
        await write_table(table, pa.table({"v": as_json([None])}))
    await write_table(table, pa.table({"v": as_json(["null"])}))
    assert await values(table) == ["null"]


async def test_a_table_that_shreds_variants_takes_whole_ones_as_well() -> None:
    """B10-09: a writer is free not to shred."""
    table = await new_table(enableVariantShredding="true")
    assert (await table.snapshot()).protocol.reader_features == ("variantShredding", "variantType")
    await write_table(table, pa.table({"id": [1], "v": as_json(["[1]"])}))
    await set_properties(table, {"delta.enableVariantShredding": "false"})
    await write_table(table, pa.table({"id": [1], "v": as_json(["[1]"])}))
    assert await values(table) == ["[1]"] * 2


async def test_nulls_are_counted_and_nothing_is_said_of_bounds() -> None:
    """B10-08: a struct that holds a variant is a struct, and the variant is a leaf."""
    inner = StructType((StructField("w", VARIANT), StructField("x", LONG)))
    table = await new_table(StructType((*SCHEMA, StructField("s", inner))))
    kind = pa.struct([("w", pa.struct(BINARY)), ("x", pa.int64())])
    nested = pa.array([{"w": None, "x": 1}, None, {"w": ONE, "x": 2}], kind)
    data = pa.table({"id": [1, 2, 3], "v": as_json(["1", None, "null"]), "s": nested})
    await write_table(table, data)
    ((stats,),) = (await (await table.snapshot()).files(columns=["stats"])).to_pydict().values()
    assert orjson.loads(stats) == {
        "numRecords": 3,
        "minValues": {"id": 1, "s": {"x": 1}},
        "maxValues": {"id": 3, "s": {"x": 2}},
        "nullCount": {"id": 0, "v": 1, "s": {"w": 2, "x": 1}},
    }


async def test_a_table_cannot_be_partitioned_by_variants() -> None:
    with pytest.raises(SchemaMismatchError, match="cannot be partitioned"):
        await create_table(f"memory://{uuid.uuid4()}/t", SCHEMA, partition_by=["v"])
