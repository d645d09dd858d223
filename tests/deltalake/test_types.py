"""The types of schemas: the same texts, JSON, Arrow types and refusals as deltalake's."""

from __future__ import annotations

import copy
import pickle
from typing import TYPE_CHECKING, Any

import arro3.core
import deltalake.schema
import pyarrow as pa
import pytest

import adelta.deltalake.schema

if TYPE_CHECKING:
    from collections.abc import Callable

MAKERS: list[Callable[[Any], Any]] = [
    *(
        lambda lake, name=name: lake.PrimitiveType(name)  # type: ignore[misc]
        for name in (
            "string", "long", "integer", "short", "byte", "float", "double", "boolean", "binary",
            "date", "timestamp", "timestamp_ntz", "decimal(10,2)", "decimal(38, 0)",
        )
    ),
    lambda lake: lake.ArrayType("integer"),
    lambda lake: lake.ArrayType(lake.ArrayType("string"), contains_null=False),
    lambda lake: lake.MapType("integer", lake.StructType([]), value_contains_null=False),
    lambda lake: lake.StructType([lake.Field("x", "integer", nullable=False)]),
    lambda lake: lake.VariantType(),
    lambda lake: lake.Field("a", "integer", metadata={"n": 1}),
    lambda lake: lake.Field("a", "integer", metadata={"o": {"x": [1, None]}}),
    lambda lake: lake.Field("a", "integer", metadata={"b": True}),
    lambda lake: lake.Field("a", "integer", metadata={1: "b"}),
    lambda lake: lake.Schema([lake.Field("x", "long"), lake.Field("y", lake.ArrayType("date"))]),
]  # fmt: skip
REFUSED: list[Callable[[Any], Any]] = [
    lambda lake: lake.PrimitiveType("int"),
    lambda lake: lake.PrimitiveType("decimal(39,2)"),
    lambda lake: lake.PrimitiveType("decimal(5,-1)"),
    lambda lake: lake.PrimitiveType("variant"),
    lambda lake: lake.PrimitiveType.from_json('"x"'),
    lambda lake: lake.ArrayType.from_json('"integer"'),
    lambda lake: lake.PrimitiveType.from_arrow(pa.list_(pa.int32())),
    lambda lake: lake.ArrayType.from_arrow(pa.int32()),
    lambda lake: lake.StructType.from_arrow(pa.int32()),
    lambda lake: lake.Field("a", 3),
    lambda lake: lake.PrimitiveType("long") < lake.PrimitiveType("long"),
    lambda lake: hash(lake.PrimitiveType("long")),
    lambda lake: lake.PrimitiveType("long").type.nope,
]
ARROW = [
    pa.int32(), pa.uint8(), pa.uint64(), pa.large_string(), pa.string_view(), pa.binary(4),
    pa.date64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.decimal128(5, 2),
    pa.dictionary(pa.int32(), pa.string()), pa.list_(pa.field("x", pa.int8(), nullable=False)),
    pa.large_list(pa.int8()), pa.list_(pa.int8(), 3), pa.map_(pa.string(), pa.int32()),
    pa.struct([pa.field("x", pa.float32(), nullable=False)]),
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_they_are_written_and_read_alike(make: Callable[[Any], Any]) -> None:
    theirs, ours = make(deltalake.schema), make(adelta.deltalake.schema)
    assert repr(ours) == repr(theirs)
    kept = type(ours).from_json(theirs.to_json())
    assert kept == type(ours).from_json(ours.to_json())
    assert ours.to_arrow() == theirs.to_arrow()  # of pyarrow and of arro3
    assert pa.field(theirs.to_arrow()) == pa.field(ours.to_arrow()) or isinstance(
        ours, adelta.deltalake.Schema
    )
    for copied in (pickle.loads(pickle.dumps(ours)), copy.deepcopy(ours)):
        assert copied == ours
        assert repr(copied) == repr(ours)


@pytest.mark.parametrize("make", REFUSED)
def test_what_they_are_not_is_refused_alike(make: Callable[[Any], Any]) -> None:
    with pytest.raises(Exception) as theirs:  # noqa: PT011 - which one is the result
        make(deltalake.schema)
    with pytest.raises(theirs.type):
        make(adelta.deltalake.schema)


@pytest.mark.parametrize("arrow", ARROW, ids=str)
def test_arrow_types_become_the_same_ones(arrow: Any) -> None:
    field = pa.field("a", arrow, nullable=False)
    schema = pa.schema([field])
    for given in (schema, arro3.core.Schema.from_arrow(schema)):
        theirs = deltalake.schema.Schema.from_arrow(given)
        ours = adelta.deltalake.schema.Schema.from_arrow(given)
        assert repr(ours) == repr(theirs)
        assert ours.to_json() == theirs.to_json()
        assert pa.schema(ours) == pa.schema(theirs)
    large = ours.to_arrow(as_large_types=True)
    assert large == pa.schema(theirs.to_arrow(as_large_types=True))


def test_types_that_delta_has_not_are_refused() -> None:
    for arrow in (pa.time32("s"), pa.duration("s"), pa.float16(), pa.decimal256(40, 2)):
        with pytest.raises(adelta.deltalake.exceptions.DeltaError, match="Invalid data type"):
            adelta.deltalake.Schema.from_arrow(pa.schema([("a", arrow)]))


def test_metadata_of_fields_inside_goes_along_with_arrow_types() -> None:
    texts = []
    for lake in (deltalake.schema, adelta.deltalake.schema):
        inside = lake.StructType([lake.Field("x", "long", metadata={"k": "v"})])
        kind = lake.ArrayType(inside)
        assert lake.ArrayType.from_arrow(kind.to_arrow()) == kind
        texts.append(str(pa.schema(lake.Schema([lake.Field("a", kind)]))))
    assert texts[0] == texts[1]


def test_a_struct_has_no_field_twice() -> None:
    fields = [adelta.deltalake.schema.Field(name, "long") for name in "aA"]
    with pytest.raises(adelta.deltalake.exceptions.SchemaMismatchError, match="Duplicate"):
        adelta.deltalake.schema.StructType(fields)


def test_invariants_are_told() -> None:
    text = '{"expression": {"expression": "x > 3"}}'
    for lake in (deltalake, adelta.deltalake):
        field = lake.Field("x", "integer", metadata={"delta.invariants": text})
        assert lake.Schema([field]).invariants == [("x", "x > 3")]
