"""Values made into Arrow's by hand are those that Arrow would have made."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta import _arrow_values
from adelta._arrow_values import (
    array_of_numpy,
    column_of,
    empty_batch,
    empty_table,
    null_of,
    numpy_of,
    places_of_values,
    scalar_of,
    table_of,
)

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
        ([1, 2.5], pa.timestamp("us")),
    ],
)
def test_what_is_not_plain_is_left_to_arrow(values: list[Any], kind: pa.DataType) -> None:
    assert _arrow_values._made(values, kind) is None


PLAIN: st.SearchStrategy[Any] = st.sampled_from(list(KINDS)).map(lambda kind: (kind, KINDS[kind]))


def _nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Types with the values that they have, as `PLAIN` gives those of plain ones."""
    texts = st.text(max_size=3)
    maps = inner.map(
        lambda of: (
            pa.map_(pa.string(), of[0]),
            st.dictionaries(texts, st.none() | of[1], max_size=3)
            | st.lists(st.tuples(texts, st.none() | of[1]), max_size=3),
        )
    )
    lists = inner.map(lambda of: (pa.list_(of[0]), st.lists(st.none() | of[1], max_size=3)))
    structs = st.tuples(inner, inner).map(
        lambda of: (
            pa.struct([("a", of[0][0]), ("b", of[1][0])]),
            st.fixed_dictionaries(
                {}, optional={"a": st.none() | of[0][1], "b": of[1][1], "c": st.just(1)}
            ),
        )
    )
    return st.one_of(lists, maps, structs)


@given(data=st.data(), of=st.recursive(PLAIN, _nested, max_leaves=3))
def test_lists_maps_and_structs_are_as_arrow_makes_them(data: st.DataObject, of: Any) -> None:
    kind, each = of
    values = data.draw(st.lists(st.none() | each, max_size=8))
    made = _arrow_values._made(values, kind)
    assert made is not None
    made.validate(full=True)
    assert made.type == kind
    assert repr(made.to_pylist()) == repr(pa.array(values, kind).to_pylist())


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([[1, "x"]], pa.list_(pa.int64())),
        ([{"a": b"x"}], pa.struct([("a", pa.int64())])),
        ([[("k", 1)]], pa.map_(pa.string(), pa.string())),
        ([[("k",)]], pa.map_(pa.string(), pa.string())),
        ([{None: "x"}], pa.map_(pa.string(), pa.string())),
    ],
)
def test_nested_values_that_do_not_fit_are_left_to_arrow(
    values: list[Any], kind: pa.DataType
) -> None:
    assert _arrow_values._made(values, kind) is None


def test_rows_and_raw_times_are_as_arrow_makes_them() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    rows: list[dict[str, Any]] = [{"a": 1}, {"b": ["x", None]}, {"a": None, "b": [], "c": 1}]
    assert table_of(rows, schema).equals(pa.Table.from_pylist(rows, schema=schema))
    for kind in (pa.date32(), pa.timestamp("us"), pa.timestamp("ms", "UTC")):
        made = _arrow_values._made([19_000, None], kind)
        assert made is not None
        assert made.equals(pa.array([19_000, None], kind))


def test_columns_of_many_rows_are_left_to_arrow(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: list[int] = []
    made = _arrow_values._made
    monkeypatch.setattr(_arrow_values, "_made", lambda v, t: counts.append(len(v)) or made(v, t))
    for rows in (3, 1 << 12, 1 + (1 << 12)):
        values = [str(n) for n in range(rows)]
        assert column_of(values, pa.string()).equals(pa.array(values, pa.string()))
    assert counts == [3, 1 << 12]


@pytest.mark.parametrize("dtype", ["i1", "i4", "i8", "f4", "f8", "?", "u2", ">i8"])
def test_vectors_of_numpy_are_as_arrow_has_them(dtype: str) -> None:
    vector = (np.arange(60) % 7 % 3).astype(dtype)
    for each in (vector, vector[3:50:7], vector[:0]):
        native = each.astype(each.dtype.newbyteorder("="))
        expected = pa.array(native)
        assert array_of_numpy(each if dtype != ">i8" else native).equals(expected)
        for part in (expected, expected.slice(5), pa.chunked_array([expected, expected.slice(3)])):
            found = numpy_of(part)
            assert found.tolist() == part.to_pylist()
            assert found.dtype == native.dtype
    assert numpy_of(pa.chunked_array([], pa.int32())).tolist() == []
    assert numpy_of(pa.array([1, None])).tolist()[0] == 1


def test_nulls_and_tables_without_rows_have_their_types() -> None:
    schema = pa.schema([("a", pa.list_(pa.int64())), ("b", pa.struct([("c", pa.string())]))])
    assert empty_table(schema).equals(schema.empty_table())
    assert empty_batch(schema).equals(pa.RecordBatch.from_pylist([], schema))
    assert null_of(pa.date32()).equals(pa.scalar(None, pa.date32()))
    assert scalar_of(None, pa.int8()).equals(pa.scalar(None, pa.int8()))


@pytest.mark.parametrize("values", [[], [None] * 3, [1, 2], [None, 7, None] * 11, [1, *[None] * 9]])
def test_places_of_values_are_those_that_are_not_null(values: list[int | None]) -> None:
    whole = pa.array(values, pa.int64())
    for column in (whole, whole.slice(1), pa.chunked_array([whole, whole.slice(2), whole])):
        expected = [place for place, one in enumerate(column.to_pylist()) if one is not None]
        assert places_of_values(column) == expected
