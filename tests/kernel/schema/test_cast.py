"""Rows given by callers, in the types of the table."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from adelta.errors import InvariantViolationError, SchemaMismatchError
from adelta.kernel.schema.arrow import to_arrow_schema
from adelta.kernel.schema.cast import cast_to_schema, relabel
from adelta.kernel.schema.types import (
    BINARY,
    BOOLEAN,
    BYTE,
    DATE,
    DOUBLE,
    FLOAT,
    INTEGER,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    VOID,
    ArrayType,
    DataType,
    DecimalType,
    MapType,
    StructField,
    StructType,
)


def struct(*fields: tuple[str, DataType] | tuple[str, DataType, bool]) -> StructType:
    return StructType(tuple(StructField(*f) for f in fields))


def cast(values: pa.Array[Any], to: DataType) -> pa.Array[Any]:
    schema = struct(("c", to))
    table = cast_to_schema(pa.table({"c": values}), schema)
    assert table.schema == to_arrow_schema(schema)
    table.validate(full=True)
    return table.column("c").combine_chunks()


@pytest.mark.parametrize(
    ("values", "to", "expected"),
    [
        (pa.array([1, None], pa.int64()), BYTE, [1, None]),
        (pa.array([2.0]), LONG, [2]),
        (pa.array([Decimal("3.00")]), INTEGER, [3]),
        (pa.array([2**60 + 1]), DOUBLE, [float(2**60)]),
        (pa.array([0.1]), FLOAT, [pytest.approx(0.1)]),
        (pa.array([float("inf")]), FLOAT, [float("inf")]),
        (pa.array([7], pa.int8()), DecimalType(3, 2), [Decimal("7.00")]),
        (pa.array([2**64 - 1], pa.uint64()), DecimalType(20, 0), [Decimal(2**64 - 1)]),
        (pa.array([1.25]), DecimalType(5, 2), [Decimal("1.25")]),
        (pa.array([Decimal("1.20")]), DecimalType(3, 1), [Decimal("1.2")]),
        (pa.array([5]), STRING, ["5"]),
        (pa.array([True]), STRING, ["true"]),
        (pa.array([date(2020, 1, 2)]), STRING, ["2020-01-02"]),
        (pa.array([Decimal("0.0000000001")]), STRING, ["0.0000000001"]),
        (pa.array(["a"], pa.string_view()), STRING, ["a"]),
        (pa.array(["a"], pa.large_string()), STRING, ["a"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), STRING, ["a", None, "a"]),
        (pc.run_end_encode(pa.array(["a", "a"])), STRING, ["a", "a"]),
        (pa.array([b"ab"], pa.binary(2)), BINARY, [b"ab"]),
        (pa.array([1, 2]).dictionary_encode(), DOUBLE, [1.0, 2.0]),
        (pa.array([date(2020, 1, 2)]), TIMESTAMP, [datetime(2020, 1, 2, tzinfo=UTC)]),
        (pa.array([date(2020, 1, 2)]), TIMESTAMP_NTZ, [datetime(2020, 1, 2)]),
        (pa.array([datetime(2020, 1, 2)]), DATE, [date(2020, 1, 2)]),
        (pa.array([datetime(2020, 1, 2)]), TIMESTAMP, [datetime(2020, 1, 2, tzinfo=UTC)]),
        (
            pa.array([0], pa.timestamp("s", "Asia/Tokyo")),
            TIMESTAMP,
            [datetime(1970, 1, 1, tzinfo=UTC)],
        ),
        (pa.array([0], pa.timestamp("ns", "Asia/Tokyo")), TIMESTAMP_NTZ, [datetime(1970, 1, 1)]),
        (pa.array([None]), ArrayType(LONG), [None]),
        (pa.array([None, None], pa.int32()), VOID, [None, None]),
        (
            pa.array([[1, None], None, []], pa.large_list(pa.int32())),
            ArrayType(LONG),
            [[1, None], None, []],
        ),
        (pa.array([[1, 2]], pa.list_(pa.int8(), 2)), ArrayType(LONG), [[1, 2]]),
        (pa.array([[1, 2]], pa.list_view(pa.int8())), ArrayType(LONG), [[1, 2]]),
        (
            pa.array([[("a", 1)], None, []], pa.map_(pa.large_string(), pa.int8())),
            MapType(STRING, LONG),
            [[("a", 1)], None, []],
        ),
    ],
)
def test_values_are_stored_in_the_type_of_the_column(
    values: pa.Array[Any], to: DataType, expected: list[object]
) -> None:
    assert cast(values, to).to_pylist() == expected


@pytest.mark.parametrize(
    ("values", "to"),
    [
        (pa.array([300]), BYTE),
        (pa.array([1.5]), LONG),
        (pa.array([float("nan")]), LONG),
        (pa.array([1e300]), FLOAT),
        (pa.array([Decimal("1.25")]), DecimalType(3, 1)),
        (pa.array([1000]), DecimalType(3, 1)),
        (pa.array(["5"]), LONG),
        (pa.array(["2020-01-01"]), DATE),
        (pa.array(["true"]), BOOLEAN),
        (pa.array([1]), BOOLEAN),
        (pa.array([True]), LONG),
        (pa.array([1.5]), STRING),
        (pa.array([b"a"]), STRING),
        (pa.array(["a"]), BINARY),
        (pa.array([datetime(2020, 1, 1)]), STRING),
        (pa.array([datetime(2020, 1, 1, 1)]), DATE),
        (pa.array([0]), TIMESTAMP),
        (pa.array([1], pa.timestamp("ns")), TIMESTAMP),
        (pa.array([2**62], pa.timestamp("s")), TIMESTAMP),
        (pa.array([1]), VOID),
        (pa.array([1]), ArrayType(LONG)),
        (pa.array([[1]]), LONG),
        (pa.array([[1]]), struct(("a", LONG))),
        (pa.array([{"a": 1}]), MapType(STRING, LONG)),
        (pa.array([[300]]), ArrayType(BYTE)),
    ],
)
def test_a_value_that_would_be_lost_or_change_its_kind_is_refused_by_column(
    values: pa.Array[Any], to: DataType
) -> None:
    with pytest.raises(SchemaMismatchError, match=r"'c(\.element)?'"):
        cast(values, to)


def test_columns_are_matched_by_name_ignoring_case_and_missing_ones_are_null() -> None:
    schema = struct(("a", STRING), ("b", LONG), ("Gone", ArrayType(LONG)))
    data = pa.RecordBatch.from_pydict({"B": pa.array([1], pa.int8()), "a": ["x"]})
    cast_batch = cast_to_schema(data, schema)
    assert isinstance(cast_batch, pa.RecordBatch)
    assert cast_batch.to_pylist() == [{"a": "x", "b": 1, "Gone": None}]


def test_columns_that_the_table_lacks_are_refused_by_name() -> None:
    with pytest.raises(SchemaMismatchError, match=r"'x', 'y'.*are a;"):
        cast_to_schema(pa.table({"x": [1], "a": [1], "y": [1]}), struct(("a", LONG)))
    nested = pa.table({"s": [{"a": 1, "z": 2}]})
    with pytest.raises(SchemaMismatchError, match=r"'s\.z'"):
        cast_to_schema(nested, struct(("s", struct(("a", LONG)))))


def test_two_columns_that_differ_in_case_alone_are_refused() -> None:
    data = pa.table([[1], [2]], names=["a", "A"])
    with pytest.raises(SchemaMismatchError, match="'a' and 'A'"):
        cast_to_schema(data, struct(("a", LONG)))


def test_nulls_in_a_required_column_are_refused_and_its_absence_too() -> None:
    schema = struct(("a", LONG, False), ("b", LONG))
    with pytest.raises(InvariantViolationError, match="'a'"):
        cast_to_schema(pa.table({"a": [1, None]}), schema)
    with pytest.raises(SchemaMismatchError, match="'a'"):
        cast_to_schema(pa.table({"b": [1]}), schema)
    assert cast_to_schema(pa.table({"a": [1]}), schema).to_pylist() == [{"a": 1, "b": None}]


def test_a_required_field_may_be_null_only_inside_a_null_struct() -> None:
    schema = struct(("s", struct(("a", LONG, False), ("b", STRING))))
    source = pa.struct([("B", pa.string()), ("a", pa.int32())])
    fine = pa.array([{"a": 1, "B": "x"}, None], source)
    rows = cast_to_schema(pa.table({"s": fine}), schema)
    assert rows.to_pylist() == [{"s": {"a": 1, "b": "x"}}, {"s": None}]
    hidden = pa.StructArray.from_arrays(
        [pa.array([1, None], pa.int32())], ["a"], mask=pa.array([False, True])
    )
    rows = cast_to_schema(pa.table({"s": hidden}), schema)
    assert rows.to_pylist() == [{"s": {"a": 1, "b": None}}, {"s": None}]
    for bad in ([{"B": "x"}, None], [{"a": None, "B": "x"}]):
        with pytest.raises(InvariantViolationError, match=r"'s\.a'"):
            cast_to_schema(pa.table({"s": pa.array(bad, source)}), schema)
    without = pa.array([{"b": "x"}], pa.struct([("b", pa.string())]))
    with pytest.raises(SchemaMismatchError, match=r"'s\.a'"):
        cast_to_schema(pa.table({"s": without}), schema)
    assert cast_to_schema(pa.table({"s": without.slice(1)}), schema).num_rows == 0


def test_required_elements_and_map_values_are_checked() -> None:
    with pytest.raises(InvariantViolationError, match=r"'c\.element'"):
        cast(pa.array([[1, None]]), ArrayType(LONG, contains_null=False))
    with pytest.raises(InvariantViolationError, match=r"'c\.value'"):
        cast(
            pa.array([[("a", None)]], pa.map_(pa.string(), pa.int64())),
            MapType(STRING, LONG, value_contains_null=False),
        )


def test_slices_of_nested_columns_keep_their_rows() -> None:
    inner = pa.struct([("x", pa.int8()), ("l", pa.list_(pa.int8()))])
    source = pa.struct([("m", pa.map_(pa.string(), inner)), ("l", pa.list_(inner))])
    rows: list[Any] = [
        {"m": [("a", {"x": 1, "l": [1, 2]})], "l": [{"x": 1, "l": None}, None]},
        None,
        {"m": None, "l": []},
        {"m": [], "l": [{"x": 2, "l": [3]}]},
        {"m": [("b", None), ("c", {"x": None, "l": []})], "l": None},
    ]
    to_inner = struct(("l", ArrayType(LONG)), ("x", LONG), ("new", STRING))
    to = struct(("l", ArrayType(to_inner)), ("m", MapType(STRING, to_inner)))

    def widened(value: Any) -> Any:
        return value and {"l": value["l"], "x": value["x"], "new": None}

    def expected(row: Any) -> Any:
        return row and {
            "l": row["l"] if row["l"] is None else [widened(v) for v in row["l"]],
            "m": row["m"] if row["m"] is None else [(k, widened(v)) for k, v in row["m"]],
        }

    column = pa.array(rows, source)
    for start in range(len(rows)):
        for length in range(len(rows) - start + 1):
            got = cast(column.slice(start, length), to)
            assert got.to_pylist() == [expected(r) for r in rows[start : start + length]]


@pytest.mark.parametrize("make", [pa.list_view, pa.large_list_view, pa.large_list, pa.list_])
def test_lists_in_every_layout_keep_their_elements(make: Any) -> None:
    rows = [[1, 2], None, [3], [], [4, None]]
    column = pa.array(rows, make(pa.int8()))
    for start in range(len(rows) + 1):
        assert cast(column.slice(start), ArrayType(LONG)).to_pylist() == rows[start:]


@pytest.mark.parametrize("data_type", [STRING, BINARY, ArrayType(STRING)], ids=str)
def test_encoded_values_in_views_are_decoded_wherever_they_are_sliced(data_type: Any) -> None:
    kinds = {STRING: pa.string_view(), BINARY: pa.binary_view()}
    distinct: list[Any] = ["a", None, "longer than a view holds by itself"]
    if data_type == BINARY:
        distinct = [value and value.encode() for value in distinct]
    if data_type == ArrayType(STRING):
        distinct = [[value] for value in distinct]
    values: Any = pa.array(distinct, kinds.get(data_type, pa.list_view(pa.string())))
    indices = pa.array([2, 0, None, 1, 2, 2], pa.uint32())
    ends = pa.array([1, 2, 6], pa.int32())
    encoded: list[tuple[Any, list[Any]]] = [
        (
            pa.DictionaryArray.from_arrays(indices, values),
            [None if index is None else distinct[index] for index in indices.to_pylist()],
        ),
        (
            pa.RunEndEncodedArray.from_arrays(ends, values),
            [distinct[0], distinct[1], *[distinct[2]] * 4],
        ),
    ]
    for column, expected in encoded:
        for start in range(len(column)):
            for length in range(len(column) - start + 1):
                got = cast(column.slice(start, length), data_type)
                assert got.to_pylist() == expected[start : start + length]
        nested = pa.StructArray.from_arrays([column, column], ["x", "y"])
        got = cast(nested.slice(1), struct(("x", data_type), ("y", data_type)))
        assert got.to_pylist() == [{"x": one, "y": one} for one in expected[1:]]


def test_rows_that_fit_are_not_copied() -> None:
    table = pa.table({"a": [1, 2], "b": ["x", "y"]})
    same = cast_to_schema(table, struct(("a", LONG), ("b", STRING)))
    for name in ("a", "b"):
        before, after = table.column(name).chunk(0), same.column(name).chunk(0)
        assert [b and b.address for b in before.buffers()] == [
            b and b.address for b in after.buffers()
        ]


def test_rows_without_columns_keep_their_number_where_the_table_allows_it() -> None:
    table = pa.table({"a": [1, 2]}).select([])
    assert cast_to_schema(table, struct(("a", LONG))).to_pylist() == [{"a": None}] * 2


def test_relabelling_changes_names_and_nullability_at_every_depth_and_copies_nothing() -> None:
    old = pa.schema(
        [
            pa.field("a", pa.int64(), nullable=False),
            pa.field("s", pa.struct([pa.field("x", pa.list_(pa.struct([("y", pa.int8())])))])),
            pa.field("m", pa.map_(pa.string(), pa.struct([("z", pa.int8())]))),
        ]
    )
    new = pa.schema(
        [
            pa.field("c1", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("c2", pa.struct([pa.field("c3", pa.list_(pa.struct([("c4", pa.int8())])))])),
            pa.field("c5", pa.map_(pa.string(), pa.struct([("c6", pa.int8())]))),
        ]
    )
    rows = pa.table(
        {
            "a": [1, 2],
            "s": [{"x": [{"y": 1}, None]}, None],
            "m": [[("k", {"z": 1})], None],
        },
        schema=old,
    )
    for data in (rows, rows.to_batches()[0], rows.slice(1)):
        renamed = relabel(data, new)
        assert renamed.schema.equals(new, check_metadata=True)
        renamed.validate(full=True)
        assert relabel(renamed, old).equals(data)
    assert relabel(rows, new).to_pylist()[0] == {
        "c1": 1,
        "c2": {"c3": [{"c4": 1}, None]},
        "c5": [("k", {"c6": 1})],
    }


def test_relabelling_another_shape_is_refused() -> None:
    table = pa.table({"a": [1], "s": [{"x": 1}]})
    for schema in (
        pa.schema([("a", pa.int64())]),
        pa.schema([("a", pa.string()), ("s", pa.struct([("x", pa.int64())]))]),
        pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int64()), ("y", pa.int64())]))]),
        pa.schema([("a", pa.int64()), ("s", pa.list_(pa.int64()))]),
    ):
        with pytest.raises(SchemaMismatchError):
            relabel(table, schema)
