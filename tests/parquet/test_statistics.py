from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidOptionError, SchemaMismatchError
from adelta.parquet.write.encoder import Encoder
from adelta.parquet.write.options import WriterOptions
from adelta.parquet.write.statistics import ColumnStatistics, StatisticsCollector


def collect(*parts: pa.Array, bounded: bool | None = None) -> ColumnStatistics:
    schema = pa.schema([("c", parts[0].type)])
    collector = StatisticsCollector(
        schema, [("c",)], bounded=None if bounded is None else [("c",)] if bounded else []
    )
    for part in parts:
        collector.update(pa.record_batch([part], schema=schema))
    found = collector.result().columns["c"]
    assert isinstance(found, ColumnStatistics)
    return found


def bounds(found: ColumnStatistics) -> tuple[object, object]:
    assert found.min is not None
    assert found.max is not None
    return found.min.as_py(), found.max.as_py()


@pytest.mark.parametrize(
    ("data_type", "values"),
    [
        (pa.int8(), [3, -3]),
        (pa.uint64(), [2**64 - 1, 0]),
        (pa.float32(), [0.5, -0.5]),
        (pa.decimal128(38, 2), [Decimal("9.99"), Decimal(f"-1{'0' * 30}.00")]),
        (pa.date32(), [dt.date(2024, 1, 1), dt.date(1, 1, 1)]),
        (pa.timestamp("us"), [dt.datetime(9999, 1, 1), dt.datetime(1, 1, 1)]),
        (pa.string(), ["é", "z"]),
        (pa.large_string(), ["\U0001f600", "\uffee"]),
        (pa.string_view(), ["b", "a"]),
        (pa.dictionary(pa.int8(), pa.string()), ["b", "a"]),
    ],
)
def test_bounds_are_exact_over_all_batches(data_type: pa.DataType, values: list[object]):
    greatest, least = values
    parts = [pa.array([None, greatest], data_type), pa.array([least, None, least], data_type)]
    found = collect(*parts)
    assert bounds(found) == (least, greatest)
    assert found.null_count == 2


def test_bounds_of_texts_are_not_cut_short():
    long = "x" * 10_000
    assert bounds(collect(pa.array([long + "a", long + "b"]))) == (long + "a", long + "b")


def test_nan_is_told_and_kept_out_of_the_bounds():
    found = collect(pa.array([1.0, math.nan, 2.0]), pa.array([math.nan]))
    assert bounds(found) == (1.0, 2.0)
    assert found.has_nan
    only = collect(pa.array([math.nan, None]))
    assert (only.min, only.max, only.null_count, only.has_nan) == (None, None, 1, True)
    assert not collect(pa.array([1.0, math.inf])).has_nan


def test_zero_bounds_take_in_both_zeros():
    low, high = bounds(collect(pa.array([0.0]), pa.array([-0.0])))
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)
    low, high = bounds(collect(pa.array([0.0])))
    assert (math.copysign(1, low), math.copysign(1, high)) == (-1, 1)


def test_a_leaf_below_a_null_struct_is_null():
    inner = pa.struct([("x", pa.int32()), ("y", pa.struct([("z", pa.string())]))])
    rows = [{"x": 1, "y": {"z": "a"}}, None, {"x": None, "y": None}, {"x": 4, "y": {"z": None}}]
    schema = pa.schema([("s", inner)])
    collector = StatisticsCollector(schema, [("s", "x"), ("s", "y", "z")])
    batch = pa.record_batch([pa.array(rows, inner)], schema=schema)
    collector.update(batch.slice(0, 2))
    collector.update(pa.Table.from_batches([batch.slice(2), batch.slice(1, 1)]))
    found = collector.result()
    assert found.num_rows == 5
    assert found.columns["s"]["x"].null_count == 3
    assert bounds(found.columns["s"]["x"]) == (1, 4)
    assert found.columns["s"]["y"]["z"].null_count == 4


def test_a_value_hidden_below_a_null_struct_moves_no_bound():
    hidden = pa.StructArray.from_arrays([pa.array([5, 1000])], ["x"], mask=pa.array([False, True]))
    schema = pa.schema([("s", hidden.type)])
    collector = StatisticsCollector(schema, [("s", "x")])
    collector.update(pa.record_batch([hidden], schema=schema))
    assert bounds(collector.result().columns["s"]["x"]) == (5, 5)


def test_dictionary_values_that_no_row_uses_move_no_bound():
    full = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int8()), ["a", "m", "z"])
    assert bounds(collect(full)) == ("m", "m")
    values = pa.array(["a", "m", "z", None])
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 1], pa.int8()), values)
    assert bounds(collect(array)) == ("m", "m")
    assert collect(array).null_count == 1
    null_by_value = pa.DictionaryArray.from_arrays(pa.array([1, 3], pa.int8()), values)
    assert collect(null_by_value).null_count == 1


@pytest.mark.parametrize(
    "array",
    [
        pa.array([[1], None, []]),
        pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        pa.array([True, None, False]),
        pa.array([b"a", None, b""]),
    ],
)
def test_lists_maps_booleans_and_bytes_have_a_null_count_alone(array: pa.Array):
    found = collect(array)
    assert (found.min, found.max, found.null_count) == (None, None, 1)


def test_a_caller_may_want_more_or_fewer_bounds():
    assert bounds(collect(pa.array([True, False]), bounded=True)) == (False, True)
    assert collect(pa.array([1]), bounded=False).min is None
    with pytest.raises(InvalidOptionError, match="are not compared"):
        collect(pa.array([[1]]), bounded=True)


def test_a_column_of_nulls_and_no_rows_at_all_have_no_bounds():
    assert collect(pa.nulls(3)).null_count == 3
    assert collect(pa.array([None], pa.string())).min is None
    assert collect(pa.array([], pa.int32())).max is None


SCHEMA = pa.schema([("n", pa.int32()), ("s", pa.struct([("x", pa.int32())]))])


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (("nope",), "no such column"),
        (("s", "nope"), "no such column"),
        (("s",), "is a struct"),
        (("n", "x"), "no struct"),
        ((), "empty path"),
    ],
)
def test_paths_that_are_no_leaf_are_refused(path: tuple[str, ...], says: str):
    with pytest.raises(InvalidOptionError, match=says):
        StatisticsCollector(SCHEMA, [path])


def test_stray_bounds_and_other_columns_are_refused():
    with pytest.raises(InvalidOptionError, match="not among the leaves"):
        StatisticsCollector(SCHEMA, [("n",)], bounded=[("s", "x")])
    with pytest.raises(SchemaMismatchError):
        StatisticsCollector(SCHEMA, [("n",)]).update(pa.table({"other": [1]}))


@settings(deadline=None)
@given(st.lists(st.lists(st.none() | st.text(max_size=4), max_size=6), min_size=1))
def test_text_bounds_are_those_of_the_utf8_bytes(parts: list[list[str | None]]):
    found = collect(*(pa.array(part, pa.string()) for part in parts))
    values = [value for part in parts for value in part if value is not None]
    assert found.null_count == sum(map(len, parts)) - len(values)
    if values:
        assert bounds(found) == (min(values, key=str.encode), max(values, key=str.encode))


@settings(deadline=None)
@given(st.lists(st.lists(st.none() | st.floats(), max_size=6), min_size=1))
def test_float_bounds_are_those_of_python_without_nan(parts: list[list[float | None]]):
    found = collect(*(pa.array(part, pa.float64()) for part in parts))
    values = [value for part in parts for value in part if value is not None]
    assert found.has_nan == any(math.isnan(value) for value in values)
    numbers = [value for value in values if not math.isnan(value)]
    if numbers:
        assert bounds(found) == (min(numbers), max(numbers))
    else:
        assert found.min is None


@pytest.mark.parametrize("options", [WriterOptions(), WriterOptions(statistics=False)])
def test_what_footers_tell_is_what_the_rows_have(options: WriterOptions):
    kinds = {
        "byte": (pa.int8(), [1, None, -3]),
        "long": (pa.int64(), [5, 2**62, -(2**63)]),
        "unsigned": (pa.uint64(), [2**64 - 1, 0, 1]),
        "hundredths": (pa.decimal128(18, 2), [Decimal("1.25"), None, Decimal("-9.99")]),
        "digits": (pa.decimal128(38, 2), [Decimal("1.25"), None, Decimal("-9.99")]),
        "text": (pa.string(), ["é", "z", None]),
        "empty": (pa.string(), ["", "", None]),
        "long text": (pa.string(), ["x" * 5000, "y", None]),
        "nothing": (pa.int32(), [None, None, None]),
        "number": (pa.float64(), [1.5, math.nan, 0.0]),
    }
    rows = pa.table({name: pa.array(values, kind) for name, (kind, values) in kinds.items()})
    days = pa.array([-800_000, None, 5_000_000], pa.int32())  # years that Python does not count
    moments = pa.array([-(2**62), None, 2**62]).cast(pa.timestamp("us", "UTC"))
    rows = rows.append_column("day", days.cast(pa.date32())).append_column("moment", moments)
    leaves = [(name,) for name in rows.schema.names]
    written, seen = (StatisticsCollector(rows.schema, leaves) for _ in range(2))
    encoder = Encoder("f", rows.schema, options)
    for part in (rows.slice(0, 0), rows, rows.slice(1, 1), rows.slice(2)):
        encoder.encode([part], written)
        seen.update(part)
    encoder.finish(written)
    assert written.result() == seen.result()
