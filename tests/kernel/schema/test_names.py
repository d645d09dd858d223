"""Names of columns, logical and physical."""

from __future__ import annotations

import pytest

from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.schema.names import (
    as_nullable,
    check_column_names,
    contains_type,
    leaf_fields,
    physical_name,
    physical_schema,
    walk_fields,
)
from adelta.kernel.schema.types import (
    LONG,
    STRING,
    VARIANT,
    ArrayType,
    MapType,
    StructField,
    StructType,
)


def field(name: str, physical: str | None = None, **kind: object) -> StructField:
    metadata = {} if physical is None else {"delta.columnMapping.physicalName": physical}
    return StructField(name, kind.get("type", LONG), metadata=metadata)  # type: ignore[arg-type]


NESTED = StructType(
    (
        field("a"),
        field("s", type=StructType((field("x"), field("t", type=StructType((field("y"),)))))),
        field("l", type=ArrayType(StructType((field("e"),)))),
        field("m", type=MapType(STRING, StructType((field("v"),)))),
    )
)


def test_every_field_is_walked_with_its_path_parents_first() -> None:
    assert [".".join(path) for path, _ in walk_fields(NESTED)] == [
        "a",
        "s",
        "s.x",
        "s.t",
        "s.t.y",
        "l",
        "l.element.e",
        "m",
        "m.value.v",
    ]


def test_leaves_are_what_is_no_struct_and_lists_and_maps_are_one_leaf_each() -> None:
    assert [".".join(path) for path, _ in leaf_fields(NESTED)] == ["a", "s.x", "s.t.y", "l", "m"]


def test_a_type_is_found_at_any_depth() -> None:
    deep = StructType((field("m", type=MapType(STRING, ArrayType(VARIANT))),))
    assert contains_type(deep, VARIANT)
    assert not contains_type(NESTED, VARIANT)


def test_a_mapped_column_without_a_physical_name_is_damage() -> None:
    assert physical_name(field("a", "col-1"), "none") == "a"
    assert physical_name(field("a", "col-1"), "id") == "col-1"
    with pytest.raises(InvalidTableError, match="'a'"):
        physical_name(field("a"), "name")
    assert physical_schema(NESTED, "none") is NESTED
    with pytest.raises(InvalidTableError, match="'a'"):
        physical_schema(NESTED, "name")


def test_everything_but_map_keys_becomes_nullable() -> None:
    strict = StructType(
        (
            StructField("a", ArrayType(StructType((StructField("x", LONG, False),)), False), False),
            StructField("m", MapType(STRING, LONG, False), False),
        )
    )
    assert as_nullable(strict) == StructType(
        (
            StructField("a", ArrayType(StructType((StructField("x", LONG),)))),
            StructField("m", MapType(STRING, LONG)),
        )
    )


@pytest.mark.parametrize(
    "schema",
    [
        StructType((field("a"), field("A"))),
        StructType((field("s", type=StructType((field("é"), field("É")))),)),
        StructType((field("a b"),)),
        StructType((field("l", type=ArrayType(StructType((field("x;"),)))),)),
        StructType((field(""),)),
    ],
)
def test_names_that_delta_cannot_hold_are_refused(schema: StructType) -> None:
    with pytest.raises(SchemaMismatchError):
        check_column_names(schema)


def test_mapped_columns_may_have_any_characters() -> None:
    check_column_names(StructType((field("a b,;{}()\n\t="),)), mapped=True)
    check_column_names(NESTED)
    check_column_names(StructType((field("a.b"), field("ü"))))
