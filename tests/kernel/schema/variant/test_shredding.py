from __future__ import annotations

from datetime import date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type
from adelta.kernel.schema.variant.binary import Metadata, Number, NumberKind, decode
from adelta.kernel.schema.variant.encoding import encode
from adelta.kernel.schema.variant.shredding import unshred
from adelta.kernel.schema.variant.text import variants_as_text, with_text

BYTES = pa.binary()
NAMES = Metadata(("a", "b", "c", "other")).encode()


def group(typed: pa.DataType | None = None, *, value: bool = True) -> pa.StructType:
    fields = [pa.field("value", BYTES)] if value else []
    return pa.struct(fields if typed is None else [*fields, pa.field("typed_value", typed)])


def column(rows: list[object], typed: pa.DataType | None, *, value: bool = True) -> pa.StructArray:
    kind = pa.struct([pa.field("metadata", BYTES), *group(typed, value=value)])
    return pa.array(rows, kind)


def row(metadata: bytes = NAMES, **parts: object) -> dict[str, object]:
    return {"metadata": metadata, **parts}


def read(values: pa.StructArray) -> list[object]:
    found = unshred(values)
    assert found.type == to_arrow_type(t.VARIANT)
    return [
        None if one is None else decode(Metadata.decode(one["metadata"]), one["value"])
        for one in found.to_pylist()
    ]


def test_an_unshredded_variant_comes_through_whatever_the_order_of_its_parts():
    metadata, value = encode({"k": 1})
    for names in (("value", "metadata"), ("metadata", "value")):
        kind = pa.struct([pa.field(name, BYTES, nullable=False) for name in names])
        values = pa.array([{"value": value, "metadata": metadata}, None], kind)
        assert read(values) == [{"k": 1}, None]


@pytest.mark.parametrize(
    ("kind", "value", "found"),
    [
        (pa.bool_(), True, True),
        (pa.bool_(), False, False),
        (pa.int8(), -3, -3),
        (pa.int16(), 300, 300),
        (pa.int32(), -70_000, -70_000),
        (pa.int64(), 1 << 40, 1 << 40),
        (pa.float32(), 0.5, 0.5),
        (pa.float64(), 0.1, 0.1),
        (pa.decimal128(9, 2), Decimal("-1.25"), Decimal("-1.25")),
        (pa.decimal128(18, 3), Decimal("-123456789012.125"), Decimal("-123456789012.125")),
        (pa.decimal128(38, 0), Decimal(-(10**37)), Decimal(-(10**37))),
        (pa.date32(), date(1, 1, 1), Number(NumberKind.DATE, -719_162)),
        (
            pa.timestamp("us", "UTC"),
            datetime.fromisoformat("1970-01-01T00:00:01+00:00"),
            Number(NumberKind.TIMESTAMP, 1_000_000),
        ),
        (
            pa.timestamp("us"),
            datetime(1969, 12, 31, 23, 59, 59),
            Number(NumberKind.TIMESTAMP_NTZ, -1_000_000),
        ),
        (pa.timestamp("ns", "UTC"), 7, Number(NumberKind.TIMESTAMP_NANOS, 7)),
        (pa.timestamp("ns"), 7, Number(NumberKind.TIMESTAMP_NTZ_NANOS, 7)),
        (pa.time64("us"), time(0, 0, 1), Number(NumberKind.TIME, 1_000_000)),
        (pa.string(), "é" * 40, "é" * 40),
        (pa.large_string(), "short", "short"),
        (pa.binary(), b"\x00\x01", b"\x00\x01"),
    ],
)
def test_each_shredded_type_is_put_back(kind, value, found):
    rows = [row(typed_value=value), row(value=encode("else")[1]), None, row()]
    values = column(rows, kind)
    assert read(values) == [found, "else", None, None]
    assert read(values.slice(1)) == ["else", None, None]
    assert read(column([row(typed_value=value)], kind, value=False)) == [found]


def test_a_variant_that_is_there_and_has_no_value_is_the_value_null():
    assert unshred(column([row()], pa.int64())).to_pylist() == [
        {"value": b"\x00", "metadata": NAMES}
    ]


def test_objects_are_put_together_from_their_fields_and_the_rest():
    field = group(pa.int64())
    kind = pa.struct([("a", field), ("b", group(pa.string()))])
    rest = encode({"other": [1]})[1]
    names = Metadata(("other", "a", "b"))
    null = b"\x00"
    rows = [
        row(names.encode(), typed_value={"a": {"typed_value": 1}, "b": {"typed_value": "x"}}),
        row(names.encode(), value=rest, typed_value={"a": {"value": null}, "b": {}}),
        row(names.encode(), typed_value={"a": {}, "b": {}}),
        row(names.encode(), value=encode("no object")[1]),
        None,
    ]
    assert read(column(rows, kind)) == [
        {"a": 1, "b": "x"},
        {"other": [1], "a": None},
        {},
        "no object",
        None,
    ]


def test_arrays_are_put_together_from_their_items():
    kind = pa.list_(group(pa.string()))
    rows = [
        row(typed_value=[{"typed_value": "comedy"}, {"value": b"\x00"}]),
        row(typed_value=[]),
        row(value=b"\x00"),
        row(typed_value=[{"typed_value": "last"}, {}]),
    ]
    values = column(rows, kind)
    assert read(values) == [["comedy", None], [], None, ["last", None]]
    assert read(values.slice(3)) == [["last", None]]


def test_shredding_nests():
    place = pa.struct([("a", group(pa.float64()))])
    kind = pa.struct([("b", group(place)), ("c", group(pa.list_(group(place))))])
    rows = [
        row(
            typed_value={
                "b": {"typed_value": {"a": {"typed_value": 1.5}}},
                "c": {"typed_value": [{"typed_value": {"a": {"typed_value": 2.5}}}]},
            }
        )
    ]
    assert read(column(rows, kind)) == [{"b": {"a": 1.5}, "c": [{"a": 2.5}]}]


scalars = st.one_of(st.none(), st.integers(-(1 << 63), (1 << 63) - 1), st.text(max_size=70))


@given(st.lists(st.one_of(st.none(), st.dictionaries(st.sampled_from("abc"), scalars))))
def test_shredded_objects_are_what_they_were(objects):
    """Fields a (long) and b (text) are shredded where they are of that type, the others are not."""
    kind = pa.struct([("a", group(pa.int64())), ("b", group(pa.string()))])
    names = Metadata(("a", "b", "c"))
    rows: list[object] = []
    for one in objects:
        if one is None:
            rows.append(None)
            continue
        typed: dict[str, object] = {}
        for name, wanted in (("a", int), ("b", str)):
            if name not in one:
                typed[name] = {}
            elif isinstance(one[name], wanted):
                typed[name] = {"typed_value": one[name]}
            else:
                typed[name] = {"value": encode(one[name])[1]}
        rest = None
        if "c" in one:
            # the shared dictionary has c as its third name
            rest = b"\x02\x01\x02\x00" + bytes([len(encode(one["c"])[1])]) + encode(one["c"])[1]
        rows.append(row(names.encode(), value=rest, typed_value=typed))
    assert read(column(rows, kind)) == objects


def test_what_is_no_variant_is_refused():
    with pytest.raises(SchemaMismatchError, match="metadata"):
        unshred(pa.array([{"value": b""}], pa.struct([("value", BYTES)])))
    with pytest.raises(SchemaMismatchError, match="uint64"):
        unshred(column([row(typed_value=1)], pa.uint64()))
    with pytest.raises(SchemaMismatchError, match="shredded field 'a'"):
        unshred(column([row(typed_value={"a": 1})], pa.struct([("a", pa.int64())])))


def test_damaged_parts_are_refused():
    kind = pa.struct([("a", group(pa.int64()))])
    typed = {"a": {"typed_value": 1}}
    with pytest.raises(InvalidTableError, match="no object"):
        unshred(column([row(value=b"\x0c\x01", typed_value=typed)], kind))
    with pytest.raises(InvalidTableError, match="lacks the name 'a'"):
        unshred(column([row(b"\x01\x00\x00", typed_value=typed)], kind))


def test_text_stands_in_for_variants_at_every_depth():
    metadata, value = encode({"k": [1, 2]})
    one = {"value": value, "metadata": metadata}
    schema = t.StructType(
        (
            t.StructField("v", t.VARIANT),
            t.StructField("l", t.ArrayType(t.VARIANT)),
            t.StructField("m", t.MapType(t.STRING, t.VARIANT)),
            t.StructField("n", t.LONG),
        )
    )
    rows = pa.array(
        [None, {"v": one, "l": [one, None], "m": [("x", one)], "n": 1}, {"l": None, "m": []}],
        to_arrow_type(schema),
    )
    text = '{"k":[1,2]}'
    for values, expected in (
        (
            rows,
            [
                None,
                {"v": text, "l": [text, None], "m": [("x", text)], "n": 1},
                {"v": None, "l": None, "m": [], "n": None},
            ],
        ),
        (rows.slice(1, 1), [{"v": text, "l": [text, None], "m": [("x", text)], "n": 1}]),
    ):
        kind = to_arrow_type(with_text(schema))
        found = variants_as_text(values, schema, kind)
        assert found.type == kind
        assert found.to_pylist() == expected
