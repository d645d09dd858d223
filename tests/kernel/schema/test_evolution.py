"""Schemas that change under files that do not."""

from __future__ import annotations

import pytest

from adelta.errors import SchemaMismatchError
from adelta.kernel.schema.evolution import merge_schemas
from adelta.kernel.schema.types import (
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def test_new_columns_come_last_and_are_nullable_and_the_old_ones_stay() -> None:
    current = StructType(
        (StructField("a", LONG, False, {"comment": "kept"}), StructField("b", STRING))
    )
    data = StructType((StructField("new", STRING, False), StructField("A", LONG)))
    merged = merge_schemas(current, data)
    assert merged.names == ("a", "b", "new")
    assert merged.fields[:2] == current.fields
    assert merged.fields[0].metadata == {"comment": "kept"}
    assert merged.fields[2].nullable


def test_fields_inside_structs_lists_and_maps_are_added_too() -> None:
    def around(inner: StructType) -> StructType:
        return struct(s=inner, l=ArrayType(inner), m=MapType(STRING, ArrayType(inner)))

    merged = merge_schemas(around(struct(x=LONG)), around(struct(y=STRING)))
    assert merged == around(struct(x=LONG, y=STRING))


@pytest.mark.parametrize(
    ("current", "data", "merged"),
    [
        (LONG, INTEGER, LONG),
        (DecimalType(10, 2), DecimalType(8, 1), DecimalType(10, 2)),
        (STRING, VOID, STRING),
        (VOID, STRING, STRING),
    ],
)
def test_a_column_keeps_its_type_where_it_takes_the_data_as_it_is(
    current: DataType, data: DataType, merged: DataType
) -> None:
    assert merge_schemas(struct(a=current), struct(a=data)) == struct(a=merged)


@pytest.mark.parametrize(
    ("current", "data"),
    [
        (INTEGER, LONG),
        (LONG, STRING),
        (STRING, LONG),
        (LONG, DOUBLE),
        (DecimalType(10, 2), DecimalType(10, 3)),
        (DecimalType(10, 2), DecimalType(11, 2)),
        (struct(x=LONG), LONG),
        (ArrayType(LONG), MapType(STRING, LONG)),
    ],
)
def test_a_column_of_another_type_is_refused_by_its_path(current: DataType, data: DataType) -> None:
    with pytest.raises(SchemaMismatchError, match=r"'s\.a'"):
        merge_schemas(struct(s=struct(a=current)), struct(s=struct(a=data)))


def test_new_names_must_be_allowed() -> None:
    with pytest.raises(SchemaMismatchError, match="'a b'"):
        merge_schemas(struct(a=LONG), struct(**{"a b": LONG}))
    merge_schemas(struct(a=LONG), struct(**{"a b": LONG}), mapped=True)
    with pytest.raises(SchemaMismatchError, match="case"):
        merge_schemas(struct(a=LONG), struct(b=LONG, B=LONG))


# ---------------------------------------------------------------------------------------- widening


@pytest.mark.parametrize(
    ("current", "data"),
    [
        (BYTE, SHORT),
        (SHORT, LONG),
        (FLOAT, DOUBLE),
        (DATE, TIMESTAMP_NTZ),
        (DecimalType(10, 2), DecimalType(12, 3)),
    ],
)
def test_a_column_becomes_as_wide_as_the_data_where_that_is_allowed(
    current: DataType, data: DataType
) -> None:
    merged = merge_schemas(struct(a=current), struct(a=data), widening=True)
    assert merged.fields[0].type == data
    assert merged.fields[0].metadata == {
        "delta.typeChanges": [{"fromType": str(current), "toType": str(data)}]
    }
    with pytest.raises(SchemaMismatchError, match="'a'"):
        merge_schemas(struct(a=current), struct(a=data))


@pytest.mark.parametrize(
    ("current", "data"),
    [
        (INTEGER, DOUBLE),
        (INTEGER, DecimalType(10, 0)),
        (LONG, DOUBLE),
        (STRING, LONG),
        (DecimalType(10, 2), DecimalType(10, 4)),
    ],
)
def test_a_column_never_changes_its_kind_or_loses_digits(current: DataType, data: DataType) -> None:
    with pytest.raises(SchemaMismatchError, match="'a'"):
        merge_schemas(struct(a=current), struct(a=data), widening=True)


def test_changes_of_type_are_told_by_the_nearest_field_behind_those_before() -> None:
    def around(kind: DataType) -> StructType:
        deep = ArrayType(ArrayType(kind))
        return struct(m=MapType(kind, struct(x=deep)))

    once = merge_schemas(around(BYTE), around(SHORT), widening=True)
    twice = merge_schemas(once, around(LONG), widening=True)
    outer = twice.fields[0]
    assert [c["fieldPath"] for c in outer.metadata["delta.typeChanges"]] == ["key", "key"]
    assert isinstance(outer.type, MapType)
    assert isinstance(outer.type.value_type, StructType)
    assert outer.type.value_type.fields[0].metadata["delta.typeChanges"] == [
        {"fromType": "byte", "toType": "short", "fieldPath": "element.element"},
        {"fromType": "short", "toType": "long", "fieldPath": "element.element"},
    ]
