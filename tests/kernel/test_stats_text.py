"""Statistics of files that are made of others."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adelta.errors import InvalidTableError
from adelta.kernel.schema import types as t
from adelta.kernel.stats_text import merged_stats, stats_with_columns

TYPES: dict[tuple[str, ...], t.DataType] = {
    ("a",): t.LONG,
    ("d",): t.DecimalType(20, 2),
    ("s",): t.STRING,
    ("at",): t.TIMESTAMP,
    ("day",): t.DATE,
    ("in", "x"): t.DOUBLE,
    ("flag",): t.BOOLEAN,
}


def stats(rows: int, low: str = "", high: str = "", nulls: str = "") -> str:
    return (
        f'{{"numRecords":{rows},"minValues":{{{low}}},"maxValues":{{{high}}},'
        f'"nullCount":{{{nulls}}}}}'
    )


def merged(*texts: str | None, wanted: tuple[tuple[str, ...], ...] = ()) -> Any:
    found = merged_stats(texts, TYPES, wanted)
    return None if found is None else json.loads(found)


def test_bounds_are_the_least_and_the_greatest_of_all_files() -> None:
    found = merged(
        stats(2, '"a":-3,"s":"b"', '"a":10,"s":"z"', '"a":1,"s":0'),
        stats(5, '"a":-20,"s":"aé"', '"a":9,"s":"\\ud83d\\ude00"', '"a":0,"s":2'),
    )
    assert found == {
        "numRecords": 7,
        "minValues": {"a": -20, "s": "aé"},
        "maxValues": {"a": 10, "s": "😀"},
        "nullCount": {"a": 1, "s": 2},
    }


def test_merged_bounds_of_booleans_and_infinities_are_in_order() -> None:
    found = merged(
        stats(1, '"flag":true,"in":{"x":"-Infinity"}', '"flag":true,"in":{"x":1.5}'),
        stats(1, '"flag":false,"in":{"x":-2.0}', '"flag":false,"in":{"x":"Infinity"}'),
    )
    assert found["minValues"] == {"flag": False, "in": {"x": "-Infinity"}}
    assert found["maxValues"] == {"flag": True, "in": {"x": "Infinity"}}


def test_numbers_keep_their_digits() -> None:
    one = stats(1, '"d":123456789012345678.90', '"d":123456789012345678.90', '"d":0')
    two = stats(1, '"d":123456789012345678.91', '"d":123456789012345678.91', '"d":0')
    text = merged_stats([one, two], TYPES, ())
    assert text is not None
    assert '"minValues":{"d":123456789012345678.90}' in text
    assert '"maxValues":{"d":123456789012345678.91}' in text


def test_a_file_of_nulls_has_no_part_in_the_bounds() -> None:
    found = merged(
        stats(3, nulls='"a":3,"in":{"x":3}'),
        stats(1, '"a":7,"in":{"x":1.5}', '"a":7,"in":{"x":1.5}', '"a":0,"in":{"x":0}'),
    )
    assert found["minValues"] == {"a": 7, "in": {"x": 1.5}}
    assert found["nullCount"] == {"a": 3, "in": {"x": 3}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('"a":1', ""),
        ('"a":1', '"a":"1"'),
        ('"at":"2024-01-01T00:00:00.000Z"', '"at":"2024-01-01T00:00:00Z"'),
        ('"at":"2024-01-01T00:00:00.000Z"', '"at":"2024-01-01T00:00:00.000+01:00"'),
        ('"day":"2024-01-01"', '"day":"+12024-01-01"'),
        ('"unknown":1', '"unknown":2'),
    ],
)
def test_what_cannot_be_compared_has_no_bound(one: str, other: str) -> None:
    found = merged(stats(1, one, one), stats(1, other, other))
    assert found["minValues"] == {}
    assert found["maxValues"] == {}


@pytest.mark.parametrize("limit", [-(2**63), 2**63 - 1])
def test_a_decimal_at_a_limit_of_int64_is_not_hidden_by_a_bound_beyond_it(limit: int) -> None:
    for other in ("-99999999999999999", "99999999999999999"):
        found = merged(
            stats(1, f'"d":{limit}', f'"d":{limit}', '"d":0'),
            stats(1, f'"d":{other}', f'"d":{other}', '"d":0'),
        )
        assert found["minValues"] == found["maxValues"] == {}


def test_a_maximum_with_the_old_tie_breaker_is_not_hidden_by_a_greater_one() -> None:
    found = merged(
        stats(1, '"s":"a"', '"s":"a\ufffd"', '"s":0'), stats(1, '"s":"b"', '"s":"a\uffff"', '"s":0')
    )
    assert found["maxValues"] == {}


def test_dates_and_times_of_one_form_are_compared() -> None:
    early, late = '"at":"2023-12-31T23:59:59.999Z"', '"at":"2024-01-01T00:00:00.000Z"'
    found = merged(stats(1, early, early), stats(1, late, late))
    assert found["minValues"] == {"at": "2023-12-31T23:59:59.999Z"}
    assert found["maxValues"] == {"at": "2024-01-01T00:00:00.000Z"}


def test_files_that_do_not_say_enough_have_no_statistics_together() -> None:
    whole = stats(1, '"a":1', '"a":1', '"a":0')
    assert merged(whole, whole, wanted=(("a",),)) is not None
    assert merged(whole, whole, wanted=(("a",), ("s",))) is None
    assert merged(whole, None) is None
    assert merged(whole, '{"minValues":{"a":1}}') is None
    assert merged(whole, whole.replace("{", '{"tightBounds":false,', 1)) is None
    with pytest.raises(InvalidTableError):
        merged(whole, '{"numRecords":1,"minValues":3}')


def test_statistics_of_some_columns_are_replaced() -> None:
    before = '{"numRecords":3,"minValues":{"a":1.10,"b":2},"maxValues":{"b":3},"nullCount":{"b":0}}'
    new = stats(3, '"b":7', "", '"b":1,"c":9')
    assert stats_with_columns(before, new, {"b"}) == (
        '{"numRecords":3,"minValues":{"a":1.10,"b":7},"maxValues":{},"nullCount":{"b":1}}'
    )
