"""Metadata that change over files that do not."""

from __future__ import annotations

from typing import Any

import pytest

from adelta.errors import SchemaMismatchError
from adelta.kernel.actions.metadata import Metadata
from adelta.kernel.actions.protocol import Protocol
from adelta.kernel.schema.json import schema_to_string, type_to_json
from adelta.kernel.schema.names import COLUMN_ID_KEY, PHYSICAL_NAME_KEY
from adelta.kernel.schema.types import (
    BYTE,
    DATE,
    INTEGER,
    LONG,
    SHORT,
    STRING,
    VOID,
    ArrayType,
    DataType,
    MapType,
    PrimitiveType,
    StructField,
    StructType,
)
from adelta.kernel.schema.widening import TYPE_CHANGES_KEY
from adelta.kernel.table_configuration import TableConfiguration
from adelta.kernel.transaction.kept_files import check_kept_files

FEATURES = ("columnMapping", "typeWidening")
PLAIN = Protocol(1, 2)
ABLE = Protocol(3, 7, FEATURES, FEATURES)


def struct(**fields: DataType) -> StructType:
    return StructType(tuple(StructField(name, kind) for name, kind in fields.items()))


def mapped(name: str, physical: str, number: int, kind: DataType = LONG) -> StructField:
    return StructField(name, kind, True, {COLUMN_ID_KEY: number, PHYSICAL_NAME_KEY: physical})


def table(
    schema: StructType, *by: str, mode: str = "none", protocol: Protocol = PLAIN
) -> TableConfiguration:
    metadata = Metadata(
        id="t",
        schema_string=schema_to_string(schema),
        partition_columns=by,
        configuration={"delta.columnMapping.mode": mode},
    )
    return TableConfiguration(ABLE if mode != "none" else protocol, metadata)


STRICT = StructType((StructField("a", LONG, False), StructField("l", ArrayType(LONG, False))))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (STRICT, StructType((StructField("l", ArrayType(LONG)), StructField("a", LONG)))),
        (struct(a=VOID), struct(a=struct(x=LONG))),
        (struct(s=struct(a=LONG)), struct(new=LONG, s=struct(a=LONG, b=LONG))),
        (struct(a=PrimitiveType("varchar(3)")), struct(a=STRING)),
        (struct(a=LONG), StructType((StructField("a", LONG, False),))),
    ],
)
def test_changes_that_leave_files_readable_are_allowed(
    before: StructType, after: StructType
) -> None:
    check_kept_files(table(before), table(after))


@pytest.mark.parametrize(
    ("before", "after", "path"),
    [
        (struct(a=LONG, b=LONG), struct(a=LONG), "'b' would be gone"),
        (struct(a=LONG), struct(A=LONG), "'a' would be gone, or be called something else"),
        (struct(s=struct(x=LONG)), struct(s=struct(y=LONG)), r"'s\.x' would be gone"),
        (struct(a=LONG), struct(a=STRING), "'a' would change from long to string"),
        (struct(a=INTEGER), struct(a=LONG), "'a'"),
        (struct(a=STRING), struct(a=LONG), "'a' would change from string to long"),
        (struct(l=ArrayType(LONG)), struct(l=ArrayType(INTEGER)), r"'l\.element'"),
        (struct(m=MapType(LONG, LONG)), struct(m=MapType(LONG, STRING)), r"'m\.value'"),
        (struct(m=MapType(LONG, LONG)), struct(m=MapType(STRING, LONG)), r"'m\.key'"),
        (struct(a=struct(x=LONG)), struct(a=MapType(STRING, LONG)), "'a'"),
        (
            struct(a=LONG),
            StructType((StructField("a", LONG), StructField("b", LONG, False))),
            "'b' forbids nulls",
        ),
    ],
)
def test_changes_that_files_contradict_are_refused_by_path(
    before: StructType, after: StructType, path: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=path):
        check_kept_files(table(before), table(after))


@pytest.mark.parametrize(("before", "after"), [((), ("a",)), (("a",), ()), (("a",), ("b",))])
def test_partition_columns_stay(before: tuple[str, ...], after: tuple[str, ...]) -> None:
    columns = struct(a=LONG, b=LONG, c=LONG)
    with pytest.raises(SchemaMismatchError, match=r"would be partitioned by .* instead of"):
        check_kept_files(table(columns, *before), table(columns, *after))


def test_the_order_of_partition_columns_is_no_matter_of_files() -> None:
    columns = struct(a=LONG, b=LONG, c=LONG)
    check_kept_files(table(columns, "a", "b"), table(columns, "b", "a"))


# ------------------------------------------------------------------------------------------ mapped


def test_a_mapped_column_may_be_renamed_dropped_and_made_anew() -> None:
    before = StructType((mapped("a", "col-1", 1), mapped("b", "col-2", 2)))
    for fields in (
        (mapped("z", "col-1", 1), mapped("b", "col-2", 2)),
        (mapped("b", "col-2", 2),),
        (mapped("a", "col-3", 3, STRING), mapped("b", "col-2", 2)),
    ):
        check_kept_files(table(before, mode="name"), table(StructType(fields), mode="name"))


def test_a_mapped_partition_column_may_be_renamed() -> None:
    before = StructType((mapped("a", "col-1", 1), mapped("b", "col-2", 2)))
    after = StructType((mapped("z", "col-1", 1), mapped("b", "col-2", 2)))
    check_kept_files(table(before, "a", mode="name"), table(after, "z", mode="name"))
    with pytest.raises(SchemaMismatchError, match="partitioned by"):
        check_kept_files(table(before, "a", mode="name"), table(after, "b", mode="name"))


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize(
    ("after", "says"),
    [
        (mapped("a", "col-9", 1), "'a' has the id of a column that files have under another name"),
        (mapped("a", "COL-1", 1), "'a' has the id of a column"),
        (mapped("a", "col-1", 9), "'a' would have the id 9 instead of 1"),
        (mapped("a", "col-1", 1, STRING), "'a' would change from long to string"),
    ],
)
def test_the_mapping_of_a_column_stays(mode: str, after: StructField, says: str) -> None:
    before = StructType((mapped("a", "col-1", 1),))
    with pytest.raises(SchemaMismatchError, match=says):
        check_kept_files(table(before, mode=mode), table(StructType((after,)), mode=mode))


def test_a_table_begins_to_map_its_columns_under_the_names_of_its_files() -> None:
    before = struct(a=LONG, s=struct(x=LONG))
    inner = StructType((mapped("x", "x", 3),))
    check_kept_files(
        table(before),
        table(StructType((mapped("a", "a", 1), mapped("s", "s", 2, inner))), mode="name"),
    )


def test_files_do_not_hold_the_made_up_names_of_a_mapping_that_begins() -> None:
    after = StructType((mapped("a", "col-1", 1),))
    with pytest.raises(SchemaMismatchError, match="'a' would be gone, or be called something else"):
        check_kept_files(table(struct(a=LONG)), table(after, mode="name"))


def test_a_mapping_does_not_end_without_a_column() -> None:
    before = StructType((mapped("a", "a", 1), mapped("b", "b", 2)))
    with pytest.raises(SchemaMismatchError, match="'b' would be gone, though data files hold it"):
        check_kept_files(table(before, mode="name"), table(struct(a=LONG)))


# ---------------------------------------------------------------------------------------- widening


def changes(kind: DataType, *steps: tuple[DataType, DataType], path: str = "") -> StructType:
    told = [
        {"fromType": type_to_json(before), "toType": type_to_json(after)}
        | ({"fieldPath": path} if path else {})
        for before, after in steps
    ]
    return StructType((StructField("a", kind, True, {TYPE_CHANGES_KEY: told}),))


def test_a_column_may_become_wider_in_steps_each_of_which_is_told() -> None:
    before = table(struct(a=BYTE), protocol=ABLE)
    steps = ((BYTE, SHORT), (SHORT, INTEGER))
    check_kept_files(before, table(changes(INTEGER, *steps), protocol=ABLE))
    for some in (steps[:1], steps[1:]):
        with pytest.raises(SchemaMismatchError, match="'a' would change from byte to integer"):
            check_kept_files(before, table(changes(INTEGER, *some), protocol=ABLE))


def test_a_change_is_told_of_the_place_where_it_is() -> None:
    before = table(struct(a=MapType(INTEGER, INTEGER)), protocol=ABLE)
    wider = MapType(INTEGER, LONG)
    step = (INTEGER, LONG)
    check_kept_files(before, table(changes(wider, step, path="value"), protocol=ABLE))
    for wrong in ("key", "", "element"):
        with pytest.raises(SchemaMismatchError, match=r"'a\.value' would change"):
            check_kept_files(before, table(changes(wider, step, path=wrong), protocol=ABLE))


def told(kind: DataType, before: DataType, after: DataType, **more: Any) -> StructField:
    change = {"fromType": type_to_json(before), "toType": type_to_json(after), **more}
    return StructField("a", kind, True, {TYPE_CHANGES_KEY: [change]})


def test_a_column_may_become_wider_where_the_table_tells_of_it() -> None:
    before = table(struct(a=INTEGER), protocol=ABLE)
    after = StructType((told(LONG, INTEGER, LONG),))
    check_kept_files(before, table(after, protocol=ABLE))
    lists = StructType((told(ArrayType(LONG), INTEGER, LONG, fieldPath="element"),))
    check_kept_files(
        table(struct(a=ArrayType(INTEGER)), protocol=ABLE), table(lists, protocol=ABLE)
    )
    for wrong in (
        table(after),  # its protocol does not allow it
        table(struct(a=LONG), protocol=ABLE),
        table(StructType((told(LONG, DATE, LONG),)), protocol=ABLE),
        table(StructType((told(STRING, INTEGER, STRING),)), protocol=ABLE),
    ):
        with pytest.raises(SchemaMismatchError, match="'a' would change from integer"):
            check_kept_files(before, wrong)


def test_what_is_no_change_among_the_changes_tells_nothing() -> None:
    before = table(struct(a=INTEGER), protocol=ABLE)
    (right,) = told(LONG, INTEGER, LONG).metadata[TYPE_CHANGES_KEY]
    for odd in ("wider", None, 1, [right]):
        mixed = StructField("a", LONG, True, {TYPE_CHANGES_KEY: [odd, right]})
        check_kept_files(before, table(StructType((mixed,)), protocol=ABLE))
        alone = StructField("a", LONG, True, {TYPE_CHANGES_KEY: [odd]})
        with pytest.raises(SchemaMismatchError, match="'a' would change from integer"):
            check_kept_files(before, table(StructType((alone,)), protocol=ABLE))
