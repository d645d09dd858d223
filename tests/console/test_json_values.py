"""Arrow values as JSON."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Decimal
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta.console.json_values import dumps, rows


def said(value: Any, kind: pa.DataType) -> Any:
    """What a program reads for one value of a table."""
    batch = pa.record_batch([pa.array([value], kind)], names=["value"])
    return orjson.loads(dumps(next(rows(batch))))["value"]


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (None, pa.int64(), None),
        (True, pa.bool_(), True),
        (-(2**63), pa.int64(), -(2**63)),
        (0.1, pa.float64(), 0.1),
        (math.nan, pa.float64(), "NaN"),
        (math.inf, pa.float32(), "Infinity"),
        (-math.inf, pa.float64(), "-Infinity"),
        (Decimal("1.10"), pa.decimal128(38, 2), "1.10"),
        (Decimal(0), pa.decimal128(38, 18), "0.000000000000000000"),
        ("naïve \x1b[31m", pa.string(), "naïve \x1b[31m"),
        (b"\x00\xff", pa.binary(), "AP8="),
        (dt.date(1, 1, 1), pa.date32(), "0001-01-01"),
        (
            dt.datetime(2024, 2, 29, 23, 59, 59, 999999, dt.UTC),
            pa.timestamp("us", "UTC"),
            "2024-02-29T23:59:59.999999Z",
        ),
        (dt.datetime(2024, 2, 29), pa.timestamp("us"), "2024-02-29T00:00:00"),
        ({"a": Decimal("1.5"), "b": None}, pa.struct({"a": pa.decimal128(3, 1), "b": pa.date32()}),
         {"a": "1.5", "b": None}),
        ([b"\x00", None], pa.list_(pa.binary()), ["AA==", None]),
        ([("k", math.nan)], pa.map_(pa.string(), pa.float64()), {"k": "NaN"}),
        ([], pa.map_(pa.string(), pa.int8()), {}),
        ([(1, None)], pa.map_(pa.int32(), pa.date32()), [{"key": 1, "value": None}]),
    ],
)  # fmt: skip
def test_every_value_survives(value: Any, kind: pa.DataType, expected: Any) -> None:
    assert said(value, kind) == expected


def test_a_timestamp_of_another_zone_is_said_in_utc() -> None:
    instant = dt.datetime(2024, 7, 1, 12, tzinfo=dt.UTC)
    assert said(instant, pa.timestamp("us", "Europe/Berlin")) == "2024-07-01T12:00:00Z"


@pytest.mark.parametrize(
    ("days", "expected"), [(2**31 - 1, "+5881580-07-11"), (-(2**31), "-5877641-06-23")]
)
def test_a_date_beyond_the_years_of_python_is_still_said(days: int, expected: str) -> None:
    assert said(days, pa.date32()) == expected


def test_a_timestamp_beyond_the_years_of_python_is_still_said() -> None:
    kind = pa.timestamp("us", "UTC")
    assert said(10**18, kind) == "+33658-09-27T01:46:40Z"


def test_nested_dates_are_said_like_others() -> None:
    kind = pa.list_(pa.struct({"at": pa.map_(pa.date32(), pa.timestamp("us"))}))
    value = [{"at": [(dt.date(2024, 1, 2), dt.datetime(2024, 1, 2, 3))]}]
    assert said(value, kind) == [{"at": [{"key": "2024-01-02", "value": "2024-01-02T03:00:00"}]}]


@given(st.dates())
def test_a_date_is_said_as_python_says_it(date: dt.date) -> None:
    assert said(date, pa.date32()) == date.isoformat()


@given(st.datetimes())
def test_a_timestamp_is_said_as_python_says_it(instant: dt.datetime) -> None:
    assert said(instant, pa.timestamp("us")) == instant.isoformat()


def test_rows_keep_the_order_of_the_columns() -> None:
    batch = pa.record_batch({"b": [1, 2], "a": ["x", None]})
    assert [dumps(row) for row in rows(batch)] == ['{"b":1,"a":"x"}', '{"b":2,"a":null}']
