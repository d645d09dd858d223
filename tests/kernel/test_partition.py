"""Partition values, both ways."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adelta.errors import InvalidTableError, SchemaMismatchError
from adelta.kernel.actions.file_schemas import STRING_MAP
from adelta.kernel.partition import (
    parse_partition_values,
    partition_directory,
    serialise_partition_value,
    serialise_partition_values,
    with_known_values,
)
from adelta.kernel.schema import types as t
from adelta.kernel.schema.arrow import to_arrow_type


def parse(text: str | None, data_type: t.DataType, zone: str = "UTC") -> object:
    parsed = parse_partition_values(pa.array([text], pa.string()), data_type, zone=zone, column="p")
    assert parsed.type == to_arrow_type(data_type)
    return parsed[0].as_py()


INSTANT = datetime(2020, 1, 2, 3, 4, 5, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "data_type", "value"),
    [
        ("1", t.BYTE, 1),
        ("-32768", t.SHORT, -32768),
        ("+7", t.INTEGER, 7),
        (" 7 ", t.INTEGER, 7),
        ("9223372036854775807", t.LONG, 2**63 - 1),
        ("1.5", t.FLOAT, 1.5),
        ("1.0E20", t.DOUBLE, 1e20),
        ("Infinity", t.DOUBLE, math.inf),
        ("-Infinity", t.DOUBLE, -math.inf),
        ("2.5d", t.DOUBLE, 2.5),
        ("12.30", t.DecimalType(5, 2), Decimal("12.30")),
        ("12.3", t.DecimalType(5, 2), Decimal("12.30")),
        ("99999999999999999999999999999999999999", t.DecimalType(38, 0), Decimal("9" * 38)),
        ("true", t.BOOLEAN, True),
        ("FALSE", t.BOOLEAN, False),
        ("2020-02-29", t.DATE, date(2020, 2, 29)),
        ("0001-01-01", t.DATE, date(1, 1, 1)),
        ("2020-2-9", t.DATE, date(2020, 2, 9)),
        ("2020-02-29 00:00:00", t.DATE, date(2020, 2, 29)),
        ("__HIVE_DEFAULT_PARTITION__", t.STRING, "__HIVE_DEFAULT_PARTITION__"),
        ("a%2Fb", t.STRING, "a%2Fb"),
        ("\x01\x02é", t.BINARY, b"\x01\x02\xc3\xa9"),
    ],
)
def test_a_text_is_parsed_as_its_type(text: str, data_type: t.DataType, value: object) -> None:
    assert parse(text, data_type) == value


@pytest.mark.parametrize(
    "data_type",
    [
        t.STRING,
        t.LONG,
        t.DOUBLE,
        t.DecimalType(5, 2),
        t.BOOLEAN,
        t.BINARY,
        t.DATE,
        t.TIMESTAMP,
        t.VOID,
    ],
)
def test_the_empty_text_is_null_of_every_type(data_type: t.DataType) -> None:
    assert parse("", data_type) is None
    assert parse(None, data_type) is None


def test_nan_is_parsed() -> None:
    assert math.isnan(parse("NaN", t.DOUBLE))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text",
    [
        "2020-01-02T03:04:05.123456Z",
        "2020-01-02 03:04:05.123456",
        "2020-01-02T05:04:05.123456+02:00",
        "2020-01-02T05:04:05.123456+0200",
        "2020-01-02T05:04:05.123456+02",
        "2020-01-01 22:04:05.123456-05:00",
        "2020-1-1 22:04:05.123456-05:00",
        "2020-01-02 03:57:33.123456+00:53:28",
        "2020-01-02T03:04:05.123456999Z",
        "2020-1-2 3:4:5.123456",
    ],
)
def test_every_written_form_of_an_instant_is_the_same_instant(text: str) -> None:
    assert parse(text, t.TIMESTAMP) == INSTANT


@pytest.mark.parametrize(
    ("text", "fraction"), [("", 0), (".1", 100_000), (".123", 123_000), (".000001", 1)]
)
def test_fractions_of_any_length_are_read_before_1970_too(text: str, fraction: int) -> None:
    expected = datetime(1960, 1, 1, tzinfo=UTC) + timedelta(microseconds=fraction)
    assert parse(f"1960-01-01 00:00:00{text}", t.TIMESTAMP) == expected
    assert parse(f"1960-01-01T00:00:00{text}Z", t.TIMESTAMP) == expected


def test_the_zone_applies_to_texts_without_one_only() -> None:
    texts = pa.array(["2020-07-01 12:00:00", "2020-07-01T12:00:00Z", None])
    parsed = parse_partition_values(texts, t.TIMESTAMP, zone="Europe/Berlin")
    assert [v and v.astimezone(UTC).hour for v in parsed.to_pylist()] == [10, 12, None]
    odd = pa.array(["2020-7-1 12:00:00", "2020-07-01T12:00:00Z", None])
    assert parse_partition_values(odd, t.TIMESTAMP, zone="Europe/Berlin").equals(parsed)


def test_a_timestamp_without_zone_never_accepts_one() -> None:
    assert parse("2020-01-02 03:04:05.5", t.TIMESTAMP_NTZ) == datetime(2020, 1, 2, 3, 4, 5, 500_000)
    for text in ("2020-01-02T03:04:05Z", "2020-01-02 03:04:05+00:00"):
        with pytest.raises(InvalidTableError, match="timestamp_ntz"):
            parse(text, t.TIMESTAMP_NTZ)


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("x", t.INTEGER),
        ("300", t.BYTE),
        ("9223372036854775808", t.LONG),
        ("1.0", t.LONG),
        ("1_0", t.LONG),
        ("1_0", t.DOUBLE),
        ("1000.00", t.DecimalType(5, 2)),
        ("1.234", t.DecimalType(5, 2)),
        ("NaN", t.DecimalType(5, 2)),
        ("yes", t.BOOLEAN),
        ("1", t.BOOLEAN),
        ("2021-02-29", t.DATE),
        ("20210228", t.DATE),
        ("2020-01-01 24:00:00", t.TIMESTAMP),
        ("2020-01-01 00:00:00 Europe/Berlin", t.TIMESTAMP),
        ("2020-01-01T00:00:00+99:00", t.TIMESTAMP),
        ("999999-01-01 00:00:00Z", t.TIMESTAMP),
    ],
)
def test_a_text_that_is_no_value_is_refused_with_column_and_text(
    text: str, data_type: t.DataType
) -> None:
    with pytest.raises(InvalidTableError) as caught:
        parse(text, data_type)
    assert "'p'" in str(caught.value)
    assert repr(text) in str(caught.value)


def test_one_bad_text_among_good_ones_is_the_one_named() -> None:
    with pytest.raises(InvalidTableError, match="'oops'"):
        parse_partition_values(pa.array(["1", "2", "oops", "4"]), t.LONG, column="p")


def test_chunks_slices_and_other_string_layouts_are_read() -> None:
    chunked = pa.chunked_array([["1", None], ["2", "1"]])
    assert parse_partition_values(chunked, t.LONG).to_pylist() == [1, None, 2, 1]
    assert parse_partition_values(chunked.slice(1, 2), t.LONG).to_pylist() == [None, 2]
    for layout in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())):
        texts = pa.array(["1", None, "2"]).cast(layout)
        assert parse_partition_values(texts, t.LONG).to_pylist() == [1, None, 2]
    assert parse_partition_values(pa.array([], pa.string()), t.TIMESTAMP).to_pylist() == []


def test_years_beyond_four_digits_are_read() -> None:
    texts = pa.array(["10000-01-01", "-0001-12-31", "0000-02-29"])
    days = parse_partition_values(texts, t.DATE).cast(pa.int32()).to_pylist()
    assert days == [2932897, -719529, -719469]


@pytest.mark.parametrize(
    ("data_type", "number", "text"),
    [
        (t.TIMESTAMP, 2**63 - 1, "294247-01-10T04:00:54.775807Z"),
        (t.TIMESTAMP, -(2**63), "-290308-12-21T19:59:05.224192Z"),
        (t.TIMESTAMP_NTZ, 2**63 - 1, "294247-01-10 04:00:54.775807"),
        (t.DATE, 2**31 - 1, "5881580-07-11"),
        (t.DATE, -(2**31), "-5877641-06-23"),
    ],
)
def test_the_first_and_the_last_moment_are_written_and_read_back(
    data_type: t.DataType, number: int, text: str
) -> None:
    carrier = pa.int32() if data_type == t.DATE else pa.int64()
    values = pa.array([0, None, number], carrier).cast(to_arrow_type(data_type))
    written = serialise_partition_values(values, data_type)
    assert written[2].as_py() == text
    assert parse_partition_values(written, data_type).equals(values)


def test_nested_types_cannot_be_partition_columns() -> None:
    for data_type in (t.ArrayType(t.LONG), t.StructType(), t.MapType(t.LONG, t.LONG), t.VARIANT):
        with pytest.raises(InvalidTableError):
            parse_partition_values(pa.array(["1"]), data_type)
        with pytest.raises(SchemaMismatchError):
            serialise_partition_values(pa.array(["1"]), data_type)


@pytest.mark.parametrize(
    ("value", "data_type", "text"),
    [
        (1, t.BYTE, "1"),
        (True, t.BOOLEAN, "true"),
        ("a/b %", t.STRING, "a/b %"),
        ("", t.STRING, None),
        (b"", t.BINARY, None),
        (b"\x01\x02", t.BINARY, "\x01\x02"),
        (None, t.LONG, None),
        (1.0, t.DOUBLE, "1.0"),
        (-0.0, t.DOUBLE, "-0.0"),
        (0.0, t.DOUBLE, "0.0"),
        (1e20, t.DOUBLE, "1.0E20"),
        (-1.25e-7, t.DOUBLE, "-1.25E-7"),
        (0.001, t.DOUBLE, "0.001"),
        (1234567.0, t.DOUBLE, "1234567.0"),
        (12345678.0, t.DOUBLE, "1.2345678E7"),
        (math.nan, t.DOUBLE, "NaN"),
        (-math.inf, t.DOUBLE, "-Infinity"),
        (3.4028234663852886e38, t.FLOAT, "3.4028235E38"),
        (Decimal("1.10"), t.DecimalType(5, 2), "1.10"),
        (Decimal("0.0000000001"), t.DecimalType(20, 10), "0.0000000001"),
        (Decimal("0"), t.DecimalType(20, 10), "0.0000000000"),
        (date(5, 1, 2), t.DATE, "0005-01-02"),
        (INSTANT, t.TIMESTAMP, "2020-01-02T03:04:05.123456Z"),
        (
            datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
            t.TIMESTAMP,
            "1969-12-31T23:59:59.000000Z",
        ),
        (datetime(2020, 1, 2, 3, 4, 5, 6), t.TIMESTAMP_NTZ, "2020-01-02 03:04:05.000006"),
        (None, t.VOID, None),
    ],
)
def test_a_value_is_written_as_spark_writes_it(
    value: object, data_type: t.DataType, text: str | None
) -> None:
    assert serialise_partition_value(value, data_type) == text


def test_a_binary_value_that_is_not_text_cannot_be_written() -> None:
    with pytest.raises(SchemaMismatchError, match="UTF-8"):
        serialise_partition_value(b"\xff", t.BINARY)


def test_a_value_of_another_type_cannot_be_written() -> None:
    with pytest.raises(SchemaMismatchError, match="'x'"):
        serialise_partition_value("x", t.LONG)


VALUES = {
    t.BYTE: st.integers(-128, 127),
    t.LONG: st.integers(-(2**63), 2**63 - 1),
    t.FLOAT: st.floats(width=32, allow_nan=False),
    t.DOUBLE: st.floats(allow_nan=False),
    t.DecimalType(38, 18): st.decimals(-(10**18), 10**18, places=18),
    t.BOOLEAN: st.booleans(),
    t.DATE: st.dates(),
    t.TIMESTAMP: st.datetimes(timezones=st.just(UTC)),
    t.TIMESTAMP_NTZ: st.datetimes(),
    t.STRING: st.text(min_size=1),
    t.BINARY: st.text(min_size=1).map(str.encode),
}


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_what_is_written_is_read_back(data_type: t.DataType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.none() | VALUES[data_type], max_size=8))
    column = pa.array(values, to_arrow_type(data_type))
    texts = serialise_partition_values(column, data_type)
    assert texts.type == pa.string()
    back = parse_partition_values(texts, data_type)
    assert back.to_pylist() == column.to_pylist()


def test_directories_are_escaped_as_hive_does() -> None:
    assert (
        partition_directory([("a", "a%percent"), ("b", "US/East")]) == "a=a%25percent/b=US%2FEast"
    )
    assert partition_directory([("a", None), ("b", "")]) == (
        "a=__HIVE_DEFAULT_PARTITION__/b=__HIVE_DEFAULT_PARTITION__"
    )
    assert partition_directory([("é a", "München 1.5-x_y~!$&+,;@()<>|`}")]) == (
        "é a=München 1.5-x_y~!$&+,;@()<>|`}"
    )
    odd = "\"#%'*/:=?\\{[]^\x01\x7f\n"
    assert partition_directory([(odd, odd)]) == "=".join(
        ["%22%23%25%27%2A%2F%3A%3D%3F%5C%7B%5B%5D%5E%01%7F%0A"] * 2
    )


@given(st.text(min_size=1))
def test_a_directory_name_decodes_to_its_value(text: str) -> None:
    directory = partition_directory([("p", text)])
    assert "/" not in directory
    if "%" not in text:  # characters outside the set are left raw
        assert unquote(directory, errors="surrogatepass") == f"p={text}"


@pytest.mark.parametrize(("start", "rows"), [(0, 6), (1, 5), (3, 1), (2, 0), (4, 2)])
def test_empty_texts_in_the_maps_of_files_are_null(start: int, rows: int) -> None:
    maps = [
        [("p", "")],
        None,
        [],
        [("p", "x"), ("q", "")],
        [("q", None)],
        [("", "a")],
    ]
    column: Any = pa.chunked_array([pa.array(maps, STRING_MAP), pa.array(maps, STRING_MAP)])
    whole = pa.table({"path": ["a"] * 12, "partition_values": column})
    files = pa.concat_tables([whole.slice(start, rows), whole.slice(6 + start, rows)])
    known = with_known_values(files)
    assert known.schema == files.schema
    expected = [m if m is None else [(k, v or None) for k, v in m] for m in maps]
    assert known.column(1).to_pylist() == expected[start : start + rows] * 2
    known.validate(full=True)


def test_files_without_empty_texts_stay_what_they_are() -> None:
    maps: Any = pa.chunked_array([pa.array([[("p", "x")], [("p", None)]], STRING_MAP)])
    known = with_known_values(pa.table({"partition_values": maps}))
    assert known.column(0).chunk(0).buffers() == maps.chunk(0).buffers()
    assert with_known_values(pa.table({"path": ["a"]})).column_names == ["path"]
