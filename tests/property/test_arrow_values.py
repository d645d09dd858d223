"""Values made into Arrow's by hand are those that Arrow would have made."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta import _arrow_values
from adelta._arrow_values import empty_table, null_of, scalar_of, text_maps

_UTC = datetime.UTC
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int8(): st.integers(-(1 << 7), (1 << 7) - 1),
    pa.int16(): st.integers(-(1 << 15), (1 << 15) - 1),
    pa.int32(): st.integers(-(1 << 31), (1 << 31) - 1),
    pa.int64(): st.integers(-(1 << 63), (1 << 63) - 1),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats(),
    pa.bool_(): st.booleans(),
    pa.string(): st.text(),
    pa.large_string(): st.text(),
    pa.binary(): st.binary(),
    pa.date32(): st.dates(),
    pa.timestamp("us"): st.datetimes(),
    pa.timestamp("us", "UTC"): st.datetimes(timezones=st.just(_UTC)),
    pa.decimal128(10, 2): st.decimals(-99_999_999, 99_999_999, places=2),
}


@pytest.fixture(autouse=True)
def _before_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_arrow_values, "arrow_is_ready", lambda: False)


@given(data=st.data(), kind=st.sampled_from(list(KINDS)))
def test_they_are_as_arrow_makes_them(data: st.DataObject, kind: pa.DataType) -> None:
    values = data.draw(st.lists(st.none() | KINDS[kind], max_size=20))
    made = _arrow_values._made(values, kind)
    assert made is not None
    made.validate(full=True)
    assert repr(made.to_pylist()) == repr(pa.array(values, kind).to_pylist())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2.5], pa.int64()),
        ([True], pa.int64()),
        ([1 << 63], pa.int64()),
        (["\ud800"], pa.string()),
        ([b"x"], pa.string()),
        ([Decimal("1.234")], pa.decimal128(10, 2)),
        ([Decimal("NaN")], pa.decimal128(10, 2)),
        ([Decimal("1e9")], pa.decimal128(10, 2)),
        ([datetime.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
        ([[1]], pa.list_(pa.int64())),
    ],
)
def test_what_is_not_plain_is_left_to_arrow(values: list[Any], kind: pa.DataType) -> None:
    assert _arrow_values._made(values, kind) is None


TEXTS = st.dictionaries(st.text(), st.none() | st.text())


@given(st.lists(st.none() | TEXTS, max_size=8))
def test_maps_of_texts_are_as_arrow_makes_them(maps: list[dict[str, str | None] | None]) -> None:
    kind = pa.map_(pa.string(), pa.string())
    made = text_maps(maps, kind)
    made.validate(full=True)
    assert made.equals(pa.array(maps, kind))


def test_nulls_and_tables_without_rows_have_their_types() -> None:
    schema = pa.schema([("a", pa.list_(pa.int64())), ("b", pa.struct([("c", pa.string())]))])
    assert empty_table(schema).equals(schema.empty_table())
    assert null_of(pa.date32()).equals(pa.scalar(None, pa.date32()))
    assert scalar_of(None, pa.int8()).equals(pa.scalar(None, pa.int8()))
