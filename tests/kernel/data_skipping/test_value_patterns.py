"""Patterns of values beyond a limit: never one that is not, and most of those far beyond it."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from adelta.kernel.data_skipping.bounds import widen
from adelta.kernel.data_skipping.statistic import MAX_VALUES, MIN_VALUES, Statistic
from adelta.kernel.data_skipping.stats_parse import parse_stats
from adelta.kernel.data_skipping.value_patterns import above, below
from adelta.kernel.schema import types as t

DECIMAL = t.DecimalType(7, 3)
WIDE_DECIMAL = t.DecimalType(20, 3)
_whole = st.integers(-1100, 1100) | st.sampled_from([-32768, 32767, 99999, -(2**31), 2**63 - 1])
_days = st.dates(date(1550, 1, 1), date(2040, 1, 1)) | st.dates()
_moments = st.builds(
    lambda day, seconds: datetime(day.year, day.month, day.day) + timedelta(seconds=seconds),
    _days.filter(lambda day: day < date.max),
    st.integers(0, 86_399),
)
_fractions = st.decimals(-1100, 1100, places=3)
_wide_fractions = _fractions | st.decimals(-(10**15), 10**15, places=3)
_near_the_widest = st.builds(
    lambda number, base: number + base,
    st.decimals(-2, 2, places=3),
    st.sampled_from([10**14, 10**15, -(10**14), -(10**15)]),
)
_odd_numbers = st.sampled_from(["-0", "1e3", "-1E+2", "1.0", "007", "null", "true", "", '"5"'])
_odd_times = st.sampled_from(
    [
        '"2024-13-01"',
        '"2023-02-29"',
        '"2024-31-12T00:00:00Z"',
        '"2024-01-01T25:00:00Z"',
        '"2024-01-01T00:00:00"',
        '"2024-01-01 10:00:00+18:00"',
        '"+12024-01-01"',
    ]
)


def _clock(moment: datetime, zone: str) -> str:
    return json.dumps(moment.isoformat(timespec="milliseconds") + zone)


LIMITS: dict[t.DataType, st.SearchStrategy[Any]] = {
    t.BYTE: st.integers(-128, 127),
    t.INTEGER: _whole.filter(lambda n: abs(n) < 2**31),
    t.LONG: _whole,
    t.DOUBLE: st.floats(-1100, 1100) | st.sampled_from([1e300, -1e17]),
    DECIMAL: _fractions,
    WIDE_DECIMAL: _wide_fractions | _near_the_widest,
    t.DATE: _days,
    t.TIMESTAMP: _moments.map(lambda moment: moment.replace(tzinfo=UTC)),
    t.TIMESTAMP_NTZ: _moments,
    t.STRING: st.text('ab{Z~. \\"é😀', max_size=4),
}
_number_texts = _whole.map(str) | _fractions.map(str) | _odd_numbers
_zoned = st.builds(_clock, _moments, st.sampled_from(["Z", "+05:30", "-11:00", ""]))
_string_texts = st.builds(
    json.dumps, st.text('ab{Z~. \\"é😀\ufffd', max_size=5), ensure_ascii=st.booleans()
)
TEXTS: dict[t.DataType, st.SearchStrategy[str]] = {
    **dict.fromkeys((t.BYTE, t.INTEGER, t.LONG, t.DOUBLE, DECIMAL), _number_texts),
    WIDE_DECIMAL: _number_texts | (_wide_fractions | _near_the_widest).map(str),
    t.DATE: _days.map(lambda day: json.dumps(day.isoformat())) | _odd_times,
    t.TIMESTAMP: _zoned | _odd_times,
    t.TIMESTAMP_NTZ: _zoned | _odd_times,
    t.STRING: _string_texts,
}


def _matches(pattern: str | None, text: str) -> bool:
    if pattern is None:
        return False
    found = pc.match_substring_regex(pa.scalar(text + "}"), f"^{pattern}[,}}]")
    return bool(found.as_py())


def _read(text: str, data_type: t.DataType, kind: str) -> Any:
    """The value as data skipping takes it, NULL where the text is no value of the type."""
    statistic = Statistic((kind, "c"), (kind, "c"), data_type)
    values = parse_stats(pa.array([f'{{"{kind}":{{"c":{text}}}}}']), [statistic])
    return widen(values[statistic.path], statistic)[0].as_py()


def _key(value: Any) -> Any:
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=800, deadline=None)
@given(st.data())
def test_only_values_beyond_the_limit_match(data):
    kind = data.draw(st.sampled_from(list(LIMITS)))
    limit, text = data.draw(LIMITS[kind]), data.draw(TEXTS[kind])
    if _matches(above(kind, limit), text):
        least = _read(text, kind, MIN_VALUES)
        assert least is not None
        assert _key(least) > _key(limit)
    if _matches(below(kind, limit), text):
        greatest = _read(text, kind, MAX_VALUES)
        assert greatest is not None
        assert _key(greatest) < _key(limit)


@settings(max_examples=500, deadline=None)
@given(st.integers(-(10**7), 10**7), st.integers(-(10**7), 10**7))
@example(0, 1)
@example(0, -1)
@example(-1, 0)
@example(1, 0)
@example(10, 9)
def test_every_whole_number_of_few_digits_beyond_the_limit_matches(limit, number):
    assert _matches(above(t.LONG, limit), str(number)) == (number > limit)
    assert _matches(below(t.LONG, limit), str(number)) == (number < limit)


@pytest.mark.parametrize(
    ("kind", "limit", "greater", "less"),
    [
        (t.INTEGER, 170, "1700", "-3"),
        (t.DOUBLE, 1.5, "3.25", "-1.5"),
        (t.DOUBLE, -7.5, "-5.5", "-9.0"),
        (DECIMAL, Decimal("12.5"), "14.125", "10.875"),
        (t.DATE, date(2024, 2, 27), '"2024-03-02"', '"2024-02-01"'),
        (t.DATE, date(2024, 2, 27), '"2031-12-31"', '"1999-10-30"'),
        (t.TIMESTAMP, datetime(2024, 2, 27, 3, tzinfo=UTC), '"2024-03-04T00:00:00.000Z"',
         '"2023-12-31T23:59:59.999-07:00"'),
        (t.TIMESTAMP_NTZ, datetime(2024, 2, 27), '"2024-03-04T00:00:00"', '"2024-02-03 10:00:00"'),
        (t.STRING, "order-17", '"order-18"', '"order-16-9"'),
        (t.STRING, "order-17", '"order-170"', '"order-1"'),
        (t.STRING, "b😀", '"c"', '"a😀"'),
        (t.STRING, "", '"a"', None),
    ],
)  # fmt: skip
def test_values_at_a_distance_match(kind, limit, greater, less):
    assert _matches(above(kind, limit), greater)
    assert not _matches(below(kind, limit), greater)
    assert less is None or _matches(below(kind, limit), less)
    assert less is None or not _matches(above(kind, limit), less)


def test_decimals_with_more_integer_digits_than_a_double_holds_match_no_pattern() -> None:
    assert not _matches(above(WIDE_DECIMAL, Decimal("999999999999990.5")), "999999999999992.0")
    assert not _matches(below(WIDE_DECIMAL, Decimal("-999999999999990.5")), "-999999999999992.0")
    assert _matches(above(WIDE_DECIMAL, Decimal("99999999999990.5")), "99999999999992.0")


def test_a_question_mark_that_may_be_half_of_a_surrogate_pair_matches_nothing() -> None:
    assert not _matches(below(t.STRING, "az"), '"a?\ufffd"')
    assert _matches(below(t.STRING, "az"), '"a>"')


def test_a_type_without_an_order_has_no_patterns():
    assert above(t.BOOLEAN, True) is None
    assert below(t.BINARY, b"a") is None
    assert above(t.DOUBLE, float("nan")) is None
    assert above(t.DATE, date(1200, 1, 1)) is None
