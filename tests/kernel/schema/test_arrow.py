"""Delta's types and Arrow's."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from adelta.errors import SchemaMismatchError, UnsupportedFeatureError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import (
    from_arrow_schema,
    from_arrow_type,
    to_arrow_schema,
    to_arrow_type,
)
from adelta.kernel.schema.names import FIELD_ID_KEY

PRIMITIVES = {
    t.STRING: pa.string(),
    t.LONG: pa.int64(),
    t.INTEGER: pa.int32(),
    t.SHORT: pa.int16(),
    t.BYTE: pa.int8(),
    t.FLOAT: pa.float32(),
    t.DOUBLE: pa.float64(),
    t.BOOLEAN: pa.bool_(),
    t.BINARY: pa.binary(),
    t.DATE: pa.date32(),
    t.TIMESTAMP: pa.timestamp("us", "UTC"),
    t.TIMESTAMP_NTZ: pa.timestamp("us"),
    t.VOID: pa.null(),
    t.DecimalType(38, 18): pa.decimal128(38, 18),
}


@pytest.mark.parametrize(("delta", "arrow"), PRIMITIVES.items(), ids=str)
def test_a_primitive_type_has_one_arrow_type_and_comes_back(
    delta: t.DataType, arrow: pa.DataType
) -> None:
    assert to_arrow_type(delta) == arrow
    assert from_arrow_type(arrow) == delta


def every_kind() -> t.StructType:
    inner = t.StructType((t.StructField("v", t.VARIANT), t.StructField("n", t.LONG, False)))
    return t.StructType(
        (
            *(t.StructField(f"p{i}", p, i % 2 == 0) for i, p in enumerate(PRIMITIVES)),
            t.StructField("variant", t.VARIANT, False),
            t.StructField("struct", inner, metadata={"comment": "its own é"}),
            t.StructField("array", t.ArrayType(t.ArrayType(inner, False))),
            t.StructField("map", t.MapType(t.STRING, t.VARIANT, False)),
            t.StructField("deep", t.MapType(inner, t.MapType(t.LONG, t.ArrayType(t.VOID)))),
            t.StructField("empty", t.StructType()),
        )
    )


def test_a_schema_of_every_kind_survives_the_round_trip() -> None:
    schema = every_kind()
    back = from_arrow_schema(to_arrow_schema(schema))
    assert back == schema
    assert [dict(f.metadata) for f in back] == [dict(f.metadata) for f in schema]


def test_a_schema_survives_the_c_interface_and_serialisation() -> None:
    arrow = to_arrow_schema(every_kind())
    assert from_arrow_schema(pa.schema(arrow)) == every_kind()
    assert from_arrow_schema(pa.ipc.read_schema(arrow.serialize())) == every_kind()


@pytest.mark.parametrize(
    ("arrow", "delta"),
    [
        (pa.uint8(), t.SHORT),
        (pa.uint16(), t.INTEGER),
        (pa.uint32(), t.LONG),
        (pa.uint64(), t.DecimalType(20, 0)),
        (pa.large_string(), t.STRING),
        (pa.string_view(), t.STRING),
        (pa.large_binary(), t.BINARY),
        (pa.binary_view(), t.BINARY),
        (pa.binary(16), t.BINARY),
        (pa.uuid(), t.BINARY),
        (pa.json_(), t.STRING),
        (pa.date64(), t.DATE),
        (pa.timestamp("ns"), t.TIMESTAMP_NTZ),
        (pa.timestamp("s"), t.TIMESTAMP_NTZ),
        (pa.timestamp("ms", "+02:00"), t.TIMESTAMP),
        (pa.timestamp("ns", "Asia/Tokyo"), t.TIMESTAMP),
        (pa.decimal32(5, 2), t.DecimalType(5, 2)),
        (pa.decimal256(38, 3), t.DecimalType(38, 3)),
        (pa.decimal128(5, -2), t.DecimalType(7, 0)),
        (pa.decimal128(2, 4), t.DecimalType(4, 4)),
        (pa.dictionary(pa.int8(), pa.large_string()), t.STRING),
        (pa.run_end_encoded(pa.int32(), pa.uint8()), t.SHORT),
        (pa.large_list(pa.int8()), t.ArrayType(t.BYTE)),
        (pa.list_(pa.int8(), 3), t.ArrayType(t.BYTE)),
        (pa.list_view(pa.int8()), t.ArrayType(t.BYTE)),
        (pa.large_list_view(pa.field("x", pa.int8(), nullable=False)), t.ArrayType(t.BYTE, False)),
    ],
    ids=str,
)
def test_other_arrow_types_become_the_delta_type_that_holds_them(
    arrow: pa.DataType, delta: t.DataType
) -> None:
    assert from_arrow_type(arrow) == delta


@pytest.mark.parametrize(
    "arrow",
    [
        pa.float16(),
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("us"),
        pa.month_day_nano_interval(),
        pa.decimal256(39, 0),
        pa.decimal128(38, -1),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
    ids=str,
)
def test_a_type_that_delta_lacks_is_refused_by_the_path_of_its_column(arrow: pa.DataType) -> None:
    inside = pa.struct([("b", pa.list_(pa.map_(pa.string(), pa.struct([("c", arrow)]))))])
    with pytest.raises(SchemaMismatchError, match=r"'a\.b\.element\.value\.c'"):
        from_arrow_schema(pa.schema([("fine", pa.int8()), ("a", inside)]))


def test_a_variant_is_told_from_a_struct_of_the_same_shape() -> None:
    variant = to_arrow_schema(t.StructType((t.StructField("v", t.VARIANT),)))
    plain = pa.schema([("v", variant.field("v").type)])
    assert from_arrow_schema(variant).names == ("v",)
    assert isinstance(from_arrow_schema(plain).fields[0].type, t.StructType)


def test_a_field_id_is_the_id_of_the_parquet_column() -> None:
    field = t.StructField("c", t.LONG, metadata={FIELD_ID_KEY: 7, "delta.columnMapping.id": 9})
    schema = to_arrow_schema(t.StructType((field,)))
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"c": [1]}, schema=schema), sink, store_schema=False)
    read = pq.read_schema(pa.BufferReader(sink.getvalue()))
    assert read.field("c").metadata == {b"PARQUET:field_id": b"7"}


def test_intervals_are_the_integers_that_files_hold() -> None:
    assert to_arrow_type(t.PrimitiveType("interval year to month")) == pa.int32()
    assert to_arrow_type(t.PrimitiveType("interval day to second")) == pa.int64()


def test_an_unknown_primitive_has_no_arrow_type() -> None:
    with pytest.raises(UnsupportedFeatureError, match="geometrical"):
        to_arrow_type(t.PrimitiveType("geometrical"))
