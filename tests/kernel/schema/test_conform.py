from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.conform import conform, find_field

DAY = date(2024, 2, 29)
START = datetime(1970, 1, 1)
UTC_START = START.replace(tzinfo=UTC)
WIDENINGS = [
    (t.BYTE, t.SHORT, -5, -5),
    (t.BYTE, t.INTEGER, -5, -5),
    (t.BYTE, t.LONG, 127, 127),
    (t.SHORT, t.INTEGER, 300, 300),
    (t.SHORT, t.LONG, 300, 300),
    (t.INTEGER, t.LONG, -(1 << 31), -(1 << 31)),
    (t.FLOAT, t.DOUBLE, 0.5, 0.5),
    (t.BYTE, t.DOUBLE, -5, -5.0),
    (t.SHORT, t.DOUBLE, 300, 300.0),
    (t.INTEGER, t.DOUBLE, (1 << 31) - 1, 2147483647.0),
    (t.DATE, t.TIMESTAMP_NTZ, DAY, datetime(2024, 2, 29)),
    (t.DecimalType(5, 2), t.DecimalType(7, 2), Decimal("-123.45"), Decimal("-123.45")),
    (t.DecimalType(5, 2), t.DecimalType(12, 7), Decimal("123.45"), Decimal("123.4500000")),
    (t.BYTE, t.DecimalType(10, 0), -5, Decimal(-5)),
    (t.SHORT, t.DecimalType(13, 2), 300, Decimal("300.00")),
    (t.INTEGER, t.DecimalType(11, 1), 7, Decimal("7.0")),
    (t.LONG, t.DecimalType(20, 0), -(1 << 63), Decimal(-(1 << 63))),
    (t.LONG, t.DecimalType(38, 10), 1, Decimal("1.0000000000")),
    (t.LONG, t.DecimalType(38, 18), -(1 << 63), Decimal(-(1 << 63))),
    (t.INTEGER, t.DecimalType(38, 28), -(1 << 31), Decimal(-(1 << 31))),
]
LOSSLESS = [  # beyond the protocol's
    (t.BYTE, t.DecimalType(4, 1), -128, Decimal("-128.0")),
    (t.BYTE, t.DecimalType(3, 0), 127, Decimal(127)),
    (t.SHORT, t.DecimalType(5, 0), -(1 << 15), Decimal(-(1 << 15))),
    (t.SHORT, t.DecimalType(9, 4), 32767, Decimal("32767.0000")),
    (t.LONG, t.DecimalType(19, 0), -(1 << 63), Decimal(-(1 << 63))),
    (t.LONG, t.DecimalType(38, 19), (1 << 63) - 1, Decimal((1 << 63) - 1)),
    (t.BYTE, t.FLOAT, -128, -128.0),
    (t.SHORT, t.FLOAT, 32767, 32767.0),
]


@pytest.mark.parametrize(("have", "want", "value", "found"), WIDENINGS + LOSSLESS)
def test_every_widening_of_the_protocol_keeps_its_values_at_any_depth(have, want, value, found):
    """B10-01."""

    def nested(leaf: t.DataType) -> t.DataType:
        inner = t.StructType((t.StructField("x", leaf),))
        return t.ArrayType(t.MapType(t.STRING, inner))

    values = pa.array([value, None], to_arrow_type(have))
    widened = conform(values, want, "none", "c")
    assert widened.type == to_arrow_type(want)
    assert widened.to_pylist() == [found, None]
    deep = pa.array([[[("k", {"x": value})], None], None, []], to_arrow_type(nested(have)))
    widened = conform(deep, nested(want), "none", "c")
    assert widened.type == to_arrow_type(nested(want))
    assert widened.to_pylist() == [[[("k", {"x": found})], None], None, []]
    assert conform(deep.slice(1), nested(want), "none", "c").to_pylist() == [None, []]


@pytest.mark.parametrize(
    ("values", "target"),
    [
        (pa.array(["1"]), t.LONG),
        (pa.array([1]), t.STRING),
        (pa.array([1.0]), t.LONG),
        (pa.array([1]), t.DOUBLE),
        (pa.array([1.0]), t.FLOAT),
        (pa.array([True]), t.LONG),
        (pa.array([1]), t.BOOLEAN),
        (pa.array([1]), t.TIMESTAMP),
        (pa.array([DAY]), t.TIMESTAMP),
        (pa.array([1 << 40]), t.INTEGER),
        (pa.array([1], pa.int32()), t.DATE),
        (pa.array([Decimal("1.25")]), t.DecimalType(5, 1)),
        (pa.array([Decimal("123.25")]), t.DecimalType(4, 2)),
        (pa.array([1 << 40]), t.DecimalType(5, 0)),
        (pa.array([1000], pa.int32()), t.DecimalType(4, 1)),
        (pa.array([100000], pa.int32()), t.DecimalType(4, 0)),
        (pa.array([1 << 24 | 1], pa.int32()), t.FLOAT),
        (pa.array([1]), t.FLOAT),
        (pa.array([[1]]), t.LONG),
        (pa.array([1]), t.ArrayType(t.LONG)),
        (pa.array([1]), t.StructType(())),
        (pa.array([[1]]), t.MapType(t.STRING, t.LONG)),
        (pa.array([1]), t.VARIANT),
        (pa.array([b"\xff"]), t.STRING),
    ],
)
def test_what_is_no_widening_is_refused_by_the_columns_name(values, target):
    with pytest.raises(SchemaMismatchError, match=r"column some\.where"):
        conform(values, target, "none", "some.where")


@pytest.mark.parametrize(
    ("values", "target", "found"),
    [
        (pa.array([b"text"]), t.STRING, "text"),
        (pa.array(["text"], pa.large_string()), t.STRING, "text"),
        (pa.array(["a"]).dictionary_encode(), t.STRING, "a"),
        (pa.array([b"ab"], pa.binary(2)), t.BINARY, b"ab"),
        (pa.array([5], pa.int32()), t.BYTE, 5),
        (pa.array([5], pa.uint32()), t.LONG, 5),
        (pa.array([DAY], pa.date64()), t.DATE, DAY),
        (pa.nulls(1), t.LONG, None),
        (pa.array([1]), t.VOID, None),
        (pa.array([-1], pa.timestamp("ns")), t.TIMESTAMP_NTZ, START - timedelta(microseconds=1)),
        (pa.array([1], pa.timestamp("ms", "UTC")), t.TIMESTAMP, UTC_START + timedelta(0, 0, 1000)),
        (pa.array([0], pa.timestamp("us")), t.TIMESTAMP, UTC_START),
        (pa.array([0], pa.timestamp("us", "Asia/Tokyo")), t.TIMESTAMP, UTC_START),
        (pa.array([[1]], pa.large_list(pa.int32())), t.ArrayType(t.LONG), [1]),
    ],
)
def test_other_shapes_of_the_same_values_are_taken(values, target, found):
    result = conform(values, target, "none", "c")
    assert result.type == to_arrow_type(target)
    assert result.to_pylist() == [found]


def test_fields_are_matched_by_name_and_order_does_not_matter():
    target = t.StructType(
        (t.StructField("a", t.LONG), t.StructField("gone", t.STRING), t.StructField("B", t.LONG))
    )
    values = pa.array([{"extra": 0, "b": 2, "a": 1}, None])
    assert conform(values, target, "none", "c").to_pylist() == [
        {"a": 1, "gone": None, "B": 2},
        None,
    ]


def mapped(name: str, number: int, kind: t.DataType) -> t.StructField:
    metadata = {
        "delta.columnMapping.physicalName": f"col-{number}",
        "delta.columnMapping.id": number,
    }
    return t.StructField(name, kind, metadata=metadata)


def in_file(name: str, number: int, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


@pytest.mark.parametrize("mode", ["name", "id"])
def test_mapped_fields_are_found_at_every_depth(mode):
    inner = t.StructType((mapped("x", 2, t.LONG), mapped("col-2", 3, t.LONG)))
    target = t.StructType((mapped("list", 1, t.ArrayType(inner)),))
    # in the mode `id` names mean nothing, in the mode `name` ids do not
    names = ("col-1", "col-2", "col-3") if mode == "name" else ("p", "q", "r")
    ids = (9, 8, 7) if mode == "name" else (1, 2, 3)
    element = pa.struct(
        [in_file(names[2], ids[2], pa.int32()), in_file(names[1], ids[1], pa.int32())]
    )
    kind = pa.struct([in_file(names[0], ids[0], pa.list_(element))])
    values = pa.array([{names[0]: [{names[1]: 1, names[2]: 2}]}], kind)
    found = conform(values, target, mode, "c")
    assert found.to_pylist() == [{"list": [{"x": 1, "col-2": 2}]}]


def test_a_mapped_column_never_falls_back_to_another_columns_name():
    """A dropped column's name, taken again, is not the dropped column."""
    wanted = mapped("a", 5, t.LONG)
    assert find_field([pa.field("a", pa.int64())], wanted, "name") is None
    assert find_field([in_file("col-5", 4, pa.int64())], wanted, "id") is None
    assert find_field([in_file("x", 5, pa.int64())], wanted, "id") == 0


def test_a_name_as_written_goes_before_one_in_another_case():
    fields = [pa.field("A", pa.int64()), pa.field("a", pa.int64())]
    assert find_field(fields, t.StructField("a", t.LONG), "none") == 1
    assert find_field(fields[:1], t.StructField("a", t.LONG), "none") == 0
