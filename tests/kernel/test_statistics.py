"""The statistics of data files, as the log has them."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adelta.errors import InvalidPropertyError
from adelta.kernel.schema import types as t
from adelta.kernel.statistics import (
    bounded_leaves,
    check_stats_columns,
    stats_json,
    stats_leaves,
    truncate_max,
    truncate_min,
)
from adelta.kernel.table_properties import TableProperties
from adelta.parquet.write.statistics import StatisticsCollector


@dataclass
class Leaf:
    min: pa.Scalar[Any] | None = None
    max: pa.Scalar[Any] | None = None
    null_count: int = 0
    has_nan: bool = False


@dataclass
class Stats:
    num_rows: int
    columns: dict[str, Any] = field(default_factory=dict)


def bounds(low: object, high: object, kind: pa.DataType | None = None, **more: Any) -> str:
    leaf = Leaf(pa.scalar(low, kind), pa.scalar(high, kind), **more)
    text = stats_json(Stats(1, {"c": leaf}))
    json.loads(text)
    return text.removeprefix('{"numRecords":1,"minValues":').removesuffix("}")


def both(low: str, high: str) -> str:
    return f'{{"c":{low}}},"maxValues":{{"c":{high}}},"nullCount":{{"c":0}}'


NOTHING = '{},"maxValues":{},"nullCount":{"c":0}'
NANOSECOND_FREE = pa.timestamp("us", "UTC")


@pytest.mark.parametrize(
    ("low", "high", "kind", "expected"),
    [
        (-(2**63), 2**63 - 1, pa.int64(), both("-9223372036854775808", "9223372036854775807")),
        (1.5, 1e300, pa.float64(), both("1.5", "1e+300")),
        (-0.0, 0.0, pa.float64(), both("-0.0", "0.0")),
        (0.1, 0.1, pa.float32(), both("0.10000000149011612", "0.10000000149011612")),
        (
            Decimal("999999999999999999"),
            Decimal("1000000000000000000"),
            pa.decimal128(38, 0),
            both("999999999999999999", "1000000000000000000"),
        ),
        (
            Decimal("-0.0000000001"),
            Decimal("123.4500000000"),
            pa.decimal128(20, 10),
            both("-0.0000000001", "123.4500000000"),
        ),
        (date(1, 2, 3), date(2023, 1, 15), pa.date32(), both('"0001-02-03"', '"2023-01-15"')),
        (
            datetime(1969, 12, 31, 23, 59, 59, 999_999, UTC),
            datetime(2023, 6, 15, 12, 30, 0, 999, UTC),
            NANOSECOND_FREE,
            both('"1969-12-31T23:59:59.999Z"', '"2023-06-15T12:30:00.000Z"'),
        ),
        (
            datetime(5, 1, 1),
            datetime(2023, 6, 15, 12, 30, 0, 123_456),
            pa.timestamp("us"),
            both('"0005-01-01T00:00:00.000"', '"2023-06-15T12:30:00.123"'),
        ),
        ("", 'é"\\\n\u2028', pa.string(), both('""', '"é\\"\\\\\\n\u2028"')),
        (
            1.0,
            math.inf,
            pa.float64(),
            both("1.0", '"Infinity"'),
        ),
        (
            -math.inf,
            1.0,
            pa.float32(),
            both('"-Infinity"', "1.0"),
        ),
        (1.0, math.nan, pa.float64(), NOTHING),
        (False, True, pa.bool_(), both("false", "true")),
        (-(10**6), 10**7, pa.date32(), NOTHING),
    ],
)
def test_bounds_are_written_exactly_or_left_out(
    low: object, high: object, kind: pa.DataType, expected: str
) -> None:
    assert bounds(low, high, kind) == expected


def test_a_column_with_nan_has_no_bounds() -> None:
    assert bounds(1.0, 2.0, has_nan=True) == NOTHING


def test_a_column_of_nulls_has_a_count_alone() -> None:
    text = stats_json(Stats(3, {"c": Leaf(null_count=3)}))
    assert text == '{"numRecords":3,"minValues":{},"maxValues":{},"nullCount":{"c":3}}'


def test_structs_are_objects_and_those_without_bounds_are_left_out() -> None:
    columns = {
        "s": {"x": Leaf(pa.scalar(1), pa.scalar(2), 1), "t": {"l": Leaf(null_count=2)}},
        'odd"name.with dot': Leaf(pa.scalar("a"), pa.scalar("b")),
    }
    assert json.loads(stats_json(Stats(4, columns))) == {
        "numRecords": 4,
        "minValues": {"s": {"x": 1}, 'odd"name.with dot': "a"},
        "maxValues": {"s": {"x": 2}, 'odd"name.with dot': "b"},
        "nullCount": {"s": {"x": 1, "t": {"l": 2}}, 'odd"name.with dot': 0},
    }


def test_what_is_collected_from_rows_becomes_their_statistics() -> None:
    table = pa.table(
        {
            "i": [3, None, 1],
            "d": pa.array([Decimal("1.10"), Decimal("2.20"), None], pa.decimal128(10, 2)),
            "f": [1.0, math.nan, 2.0],
            "s": [{"x": "b", "b": True}, None, {"x": "a" * 40, "b": None}],
            "l": [[1], None, []],
        }
    )
    schema = t.StructType(
        (
            t.StructField("i", t.LONG),
            t.StructField("d", t.DecimalType(10, 2)),
            t.StructField("f", t.DOUBLE),
            t.StructField(
                "s", t.StructType((t.StructField("x", t.STRING), t.StructField("b", t.BOOLEAN)))
            ),
            t.StructField("l", t.ArrayType(t.LONG)),
        )
    )
    leaves = stats_leaves(schema, TableProperties.parse({}))
    collector = StatisticsCollector(table.schema, leaves, bounded=bounded_leaves(schema, leaves))
    collector.update(table)
    assert stats_json(collector.result()) == (
        '{"numRecords":3,'
        '"minValues":{"i":1,"d":1.10,"s":{"x":"' + "a" * 32 + '","b":true}},'
        '"maxValues":{"i":3,"d":2.20,"s":{"x":"b","b":true}},'
        '"nullCount":{"i":1,"d":1,"f":0,"s":{"x":1,"b":2},"l":1}}'
    )


# --------------------------------------------------------------------------------- truncated texts

MAX = "\U0010ffff"


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [
        ("abcd", "abcd", "abcd"),
        ("abcde", "abcd", "abcd\x7f"),
        ("abcd\x7e", "abcd", "abcd\x7f"),
        ("abcd\x7f", "abcd", f"abcd{MAX}"),
        ("abcdé", "abcd", f"abcd{MAX}"),
        ("abcd\U0001f600", "abcd", f"abcd{MAX}"),
        ("abc\U0001f600", "abc\U0001f600", "abc\U0001f600"),
        ("abc\U0001f600x", "abc\U0001f600", "abc\U0001f600\x7f"),
        (f"abcd{MAX}", "abcd", f"abcd{MAX}"),
        (f"abcd{MAX}x", "abcd", f"abcd{MAX}\x7f"),
        (f"abcd{MAX}{MAX}", "abcd", f"abcd{MAX}{MAX}"),
        (f"abcd{MAX}{MAX}x", "abcd", f"abcd{MAX}{MAX}\x7f"),
        (f"abcd{MAX}{MAX}{MAX}", "abcd", None),
        (f"{MAX}" * 2, f"{MAX}" * 2, f"{MAX}" * 2),
        (f"{MAX}" * 9, f"{MAX}" * 2, None),
    ],
)
def test_texts_are_cut_after_four_units_as_spark_cuts_them(
    text: str, low: str, high: str | None
) -> None:
    assert truncate_min(text, 4) == low
    assert truncate_max(text, 4) == high


def test_without_a_prefix_there_are_no_bounds_of_texts() -> None:
    assert truncate_min("a", 0) is None
    assert truncate_max("a", 0) is None
    assert truncate_min("", 0) == truncate_max("", 0) == ""


CHARACTERS = st.characters(exclude_categories=["Cs"]) | st.sampled_from(
    "a~\x7f\x80\ue000\uffff\U00010000" + MAX
)


@given(st.lists(st.text(CHARACTERS, max_size=12), min_size=1), st.integers(1, 6))
@example([f"ab{MAX}{MAX}c", "ab\uffff"], 2)
@example(["a\uffff", "a\U00010000"], 1)
def test_bounds_enclose_every_text_in_the_order_of_utf_8(texts: list[str], length: int) -> None:
    ordered = sorted(texts, key=str.encode)
    low, high = truncate_min(ordered[0], length), truncate_max(ordered[-1], length)
    assert low is not None
    for text in texts:
        assert low.encode() <= text.encode()
        assert high is None or high.encode() >= text.encode()
    assert len(low.encode("utf-16-le")) // 2 <= max(length + 1, 0)


# --------------------------------------------------------------------------------- which columns

WIDE = t.StructType(tuple(t.StructField(f"c{i}", t.LONG) for i in range(40)))
NESTED = t.StructType(
    (
        t.StructField("p", t.STRING),
        t.StructField("a", t.LONG),
        t.StructField("v", t.VOID),
        t.StructField(
            "s",
            t.StructType(
                (
                    t.StructField("x", t.LONG),
                    t.StructField("y", t.StructType((t.StructField("z", t.BINARY),))),
                )
            ),
        ),
        t.StructField("m", t.MapType(t.STRING, t.LONG)),
        t.StructField("b", t.BOOLEAN),
    )
)


def leaves(partition: tuple[str, ...] = ("P",), **properties: str) -> list[str]:
    parsed = TableProperties.parse({f"delta.{k}": v for k, v in properties.items()})
    return [".".join(path) for path in stats_leaves(NESTED, parsed, partition)]


def test_the_leading_leaves_have_statistics_without_partition_columns() -> None:
    assert len(stats_leaves(WIDE, TableProperties.parse({}))) == 32
    assert leaves() == ["a", "s.x", "s.y.z", "m", "b"]
    assert leaves(dataSkippingNumIndexedCols="2") == ["a", "s.x"]
    assert leaves(dataSkippingNumIndexedCols="0") == []
    every = TableProperties.parse({"delta.dataSkippingNumIndexedCols": "-1"})
    assert len(stats_leaves(WIDE, every)) == 40


def test_named_columns_have_statistics_and_a_struct_stands_for_its_leaves() -> None:
    named = {"dataSkippingNumIndexedCols": "0", "dataSkippingStatsColumns": "S, gone, `b`"}
    assert leaves(**named) == ["s.x", "s.y.z", "b"]
    assert leaves(dataSkippingStatsColumns="s.y") == ["s.y.z"]
    assert leaves(dataSkippingStatsColumns="p") == []


def test_bounds_are_written_for_booleans_and_types_that_readers_skip_files_by() -> None:
    paths = stats_leaves(NESTED, TableProperties.parse({}))
    assert bounded_leaves(NESTED, paths) == (("p",), ("a",), ("s", "x"), ("b",))


def test_with_column_mapping_the_paths_are_physical() -> None:
    def mapped(name: str, data_type: t.DataType) -> t.StructField:
        return t.StructField(
            name, data_type, True, {"delta.columnMapping.physicalName": f"col-{name}"}
        )

    schema = t.StructType((mapped("a", t.LONG), mapped("s", t.StructType((mapped("x", t.LONG),)))))
    properties = TableProperties.parse({"delta.dataSkippingStatsColumns": "s.x"})
    assert stats_leaves(schema, properties, (), "name") == (("col-s", "col-x"),)


@pytest.mark.parametrize("columns", ["gone", "s.gone", "a.x", "p", "b", "m", "s.y.z"])
def test_columns_that_cannot_have_bounds_cannot_be_named_for_statistics(columns: str) -> None:
    properties = TableProperties.parse({"delta.dataSkippingStatsColumns": f"a, {columns}"})
    with pytest.raises(InvalidPropertyError, match=repr(columns)):
        check_stats_columns(NESTED, properties, ("p",))


def test_columns_with_bounds_and_structs_can_be_named_for_statistics() -> None:
    properties = TableProperties.parse({"delta.dataSkippingStatsColumns": "a, s, s.x"})
    check_stats_columns(NESTED, properties, ("p",))
