"""Statistics in JSON → columns: exact, only those asked for, and never in a scan's way."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from math import inf

import pyarrow as pa
import pytest

from adelta.kernel.data_skipping import stats_parse
from adelta.kernel.data_skipping.statistic import Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.schema import types as t


def bound(kind: t.DataType, *path: str, side: str = "minValues") -> Statistic:
    return Statistic((side, *path), (side, *path), kind)


def minima(texts: list[str | None], kind: t.DataType, side: str = "minValues") -> list[object]:
    statistic = bound(kind, "c", side=side)
    return parse_stats(pa.array(texts, pa.string()), [statistic])[statistic.path].to_pylist()


def stat(raw: str, side: str = "minValues") -> str:
    return '{"numRecords":3,"' + side + '":{"z":1,"c":' + raw + "}}"


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (t.LONG, "9223372036854775807", 2**63 - 1),
        (t.LONG, "9007199254740993", 9007199254740993),
        (t.BYTE, "-128", -128),
        (t.DOUBLE, "0.1", 0.1),
        (t.DOUBLE, "1E-5", 1e-5),
        (t.FLOAT, "0.1", 0.10000000149011612),
        (t.STRING, '"a\\"b\\u00e9"', 'a"bé'),
        (t.DATE, '"2023-01-15"', date(2023, 1, 15)),
        (t.TIMESTAMP, '"2023-06-15T12:30:00.001Z"', datetime(2023, 6, 15, 12, 30, 0, 1000, UTC)),
        (t.TIMESTAMP, '"2023-06-15T12:30:00+01:00"', datetime(2023, 6, 15, 11, 30, tzinfo=UTC)),
        (
            t.TIMESTAMP,
            '"2023-06-15T12:30:00.123456789Z"',
            datetime(2023, 6, 15, 12, 30, 0, 123456, UTC),
        ),
        (t.TIMESTAMP_NTZ, '"2023-06-15T12:30:00.5"', datetime(2023, 6, 15, 12, 30, 0, 500000)),
        (t.TIMESTAMP_NTZ, '"2023-06-15T12:30:00Z"', datetime(2023, 6, 15, 12, 30)),
        (t.DecimalType(18, 0), "999999999999999999", Decimal("999999999999999999")),
        (
            t.DecimalType(38, 18),
            "12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        (t.DecimalType(10, 2), "123.4", Decimal("123.40")),
        (t.DecimalType(10, 2), '"123.45"', Decimal("123.45")),
        (t.DecimalType(10, 0), "1E+3", Decimal("1000")),
        (t.LONG, "5.0", 5),
        (t.INTEGER, "-1e3", -1000),
        # Its nearest double lies halfway between two floats, and is rounded to the other one.
        (t.FLOAT, "1.000000059604644775390625001", 1.0000001192092896),
    ],
)
def test_a_statistic_is_read_exactly(kind, raw, value):
    assert minima([stat(raw), None, stat(raw)], kind) == [value, None, value]


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        (t.LONG, '"5"'),
        (t.LONG, "true"),
        (t.LONG, "9223372036854775808"),
        (t.SHORT, "40000"),
        (t.STRING, "5"),
        (t.STRING, '"\\ud83d"'),
        (t.DATE, '"soon"'),
        (t.TIMESTAMP, '"2023-06-15T12:30:00"'),
        (t.DecimalType(4, 2), "123.45"),
        (t.DecimalType(4, 2), '"x"'),
        (t.DOUBLE, '"x"'),
        (t.LONG, "{}"),
        (t.LONG, "1.5"),
        (t.LONG, "9007199254740992.0"),
        (t.LONG, "9.223372036854775e18"),
        (t.DATE, '"2023-01-15T00:00:00.000Z"'),
        (t.DATE, '"2023-01-14 23:00:00"'),
        (t.LONG, "null"),
    ],
)
def test_a_statistic_that_is_not_of_its_column_s_type_is_missing_for_that_file_only(kind, raw):
    good = {t.STRING: '"a"', t.DATE: '"2020-01-01"', t.TIMESTAMP: '"2020-01-01T00:00:00Z"'}.get(
        kind, "1"
    )
    found = minima([stat(good), stat(raw), stat(good)], kind)
    assert found[1] is None
    assert found[0] is not None
    assert found[2] == found[0]


@pytest.mark.parametrize(
    "broken",
    [
        "",
        " ",
        "{",
        "nonsense",
        "[]",
        "5",
        '{"minValues":5}',
        '{"minValues":{"c":1}',
        "{}{}",
        '{"a":' * 5000,
    ],
)
def test_text_that_is_no_statistics_costs_one_file_its_statistics_and_the_others_nothing(broken):
    assert minima([stat("1"), broken, stat("2")], t.LONG) == [1, None, 2]


def test_text_over_several_lines_and_with_blanks_around_it_is_read():
    assert minima(['{\n "minValues": {\n"c": 4}}', stat("5"), " " + stat("6") + " "], t.LONG) == [
        4,
        5,
        6,
    ]


def test_infinity_and_nan_are_read_in_the_spellings_of_other_writers():
    found = minima([stat('"NaN"'), stat('"-Infinity"'), stat("Infinity"), stat("1.5")], t.DOUBLE)
    assert str(found) == "[nan, -inf, inf, 1.5]"


def test_statistics_beside_an_infinity_are_read_in_their_order() -> None:
    texts = [stat(text) for text in ("1.5", '"Infinity"', "2.5", '"-Infinity"', "null", "3.5")]
    assert minima([*texts, None], t.DOUBLE) == [1.5, inf, 2.5, -inf, None, 3.5, None]


def test_a_number_with_more_digits_than_its_column_is_moved_outward():
    narrow = t.DecimalType(10, 2)
    assert minima([stat("1.239"), stat("-1.231")], narrow) == [Decimal("1.23"), Decimal("-1.24")]
    upper = [stat("1.231", "maxValues"), stat("-1.239", "maxValues")]
    assert minima(upper, narrow, "maxValues") == [Decimal("1.24"), Decimal("-1.23")]


def test_nested_statistics_and_odd_names_are_found_by_their_path():
    text = json.dumps(
        {
            "numRecords": 2,
            "minValues": {"a.b": {"ü": 7}, "a": {"b": {"ü": 8}}},
            "nullCount": {"a.b": {"ü": 1}},
        }
    )
    wanted = [
        bound(t.INTEGER, "a.b", "ü"),
        bound(t.LONG, "a.b", "ü", side="nullCount"),
        Statistic(("numRecords",), ("numRecords",), t.LONG),
    ]
    found = parse_stats(pa.array([text]), wanted)
    assert [found[s.path].to_pylist() for s in wanted] == [[7], [1], [2]]


def test_columns_are_found_under_their_physical_name_and_given_under_their_logical_one():
    wanted = Statistic(("minValues", "id"), ("minValues", "col-1"), t.LONG)
    text = '{"minValues":{"id":1,"col-1":2}}'
    assert parse_stats(pa.array([text]), [wanted])[("minValues", "id")].to_pylist() == [2]


def test_texts_longer_than_a_block_and_chunked_texts_are_read(monkeypatch):
    monkeypatch.setattr(stats_parse, "_CHUNK_ROWS", 3)
    long = '{"note":"' + "x" * (3 << 20) + '","minValues":{"c":5}}'
    texts = pa.chunked_array([[stat("1")] * 4, [None, long, stat("2")], []], pa.string())
    found = parse_stats(texts, [bound(t.LONG, "c")])
    assert found[("minValues", "c")].to_pylist() == [1, 1, 1, 1, None, 5, 2]
    assert (
        parse_stats(pa.array([], pa.string()), [bound(t.LONG, "c")])[("minValues", "c")].to_pylist()
        == []
    )


def test_sound_statistics_are_not_read_one_by_one(monkeypatch):
    def fail(*_args: object) -> None:
        raise AssertionError("the slow way was taken")

    monkeypatch.setattr(stats_parse, "_parse_each", fail)
    texts = [
        stat('"2023-06-15T12:30:00.000Z"'),
        None,
        "{}",
        '{"minValues":null}',
        '{"minValues":{}}',
    ]
    assert minima(texts, t.TIMESTAMP)[1:] == [None] * 4


def test_what_single_commits_added_is_parsed_together(monkeypatch):
    sizes = []
    parse = stats_parse._parse_quickly
    monkeypatch.setattr(
        stats_parse, "_parse_quickly", lambda t, s: sizes.append(len(t)) or parse(t, s)
    )
    monkeypatch.setattr(stats_parse, "_CHUNK_ROWS", 100)
    chunks = [[stat(str(number))] for number in range(150)]
    texts = pa.chunked_array([[stat("7")] * 90, *chunks, [stat("8")] * 120, []], pa.string())
    found = parse_stats(texts, [bound(t.LONG, "c")])[("minValues", "c")].to_pylist()
    assert found == [7] * 90 + list(range(150)) + [8] * 120
    assert sizes == [100, 100, 40, 100, 20]
