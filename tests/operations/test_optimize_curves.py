"""Curves and ranges, by their definitions: every point of small grids, every kind of value."""

from __future__ import annotations

import datetime as dt
import itertools
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from adelta.operations.rearrange.curves import bits_for, hilbert, place_on, z_order
from adelta.operations.rearrange.ranges import ColumnSample


def grid(columns: int, bits: int) -> np.ndarray[Any, np.dtype[np.uint16]]:
    return np.array(list(itertools.product(range(1 << bits), repeat=columns)), np.uint16)


@pytest.mark.parametrize(("columns", "bits"), [(2, 1), (2, 5), (3, 3), (4, 2), (4, 3), (6, 2)])
def test_hilberts_curve_goes_through_every_point_to_a_neighbour(columns: int, bits: int) -> None:
    # C7-05
    points = grid(columns, bits)
    before = points.copy()
    places = hilbert(list(points.T), bits)
    assert (points == before).all()
    assert sorted(places.tolist()) == [*range(1 << (columns * bits))]
    way = points[np.argsort(places)].astype(int)
    assert (np.abs(np.diff(way, axis=0)).sum(axis=1) == 1).all()


@pytest.mark.parametrize(("columns", "bits"), [(1, 4), (2, 3), (3, 4), (5, 2)])
def test_a_z_order_takes_the_bits_in_turn(columns: int, bits: int) -> None:
    # C7-04
    points = grid(columns, bits)
    for point, place in zip(points.tolist(), z_order(list(points.T), bits).tolist(), strict=True):
        texts = [f"{value:0{bits}b}" for value in point]
        assert f"{place:0{bits * columns}b}" == "".join(map("".join, zip(*texts, strict=True)))


@pytest.mark.parametrize("columns", range(1, 70))
def test_places_of_any_number_of_columns_fit_64_bits(columns: int) -> None:
    bits = bits_for(columns)
    assert bits * min(columns, 64) <= 64
    if columns > 1:
        most = [np.array([0, (1 << bits) - 1], np.uint16)] * min(columns, 64)
        for curve in ("zorder", "hilbert"):
            low, high = place_on(curve, most, bits).tolist()
            assert low < high


SORTED: list[pa.Array[Any]] = [
    pa.array([None, False, True]),
    pa.array([None, -128, 0, 127], pa.int8()),
    pa.array([None, -(2**63), -1, 0, 2**63 - 1], pa.int64()),
    pa.array([None, float("-inf"), -1.5, 0.0, 1e300, float("inf"), float("nan")]),
    pa.array([None, -1.5, 0.0, float("nan")], pa.float32()),
    pa.array([None, "", "a", "ab", "b", "ä", "\U0001f600"]),
    pa.array(["https://example.org/" + "x" * 40 + end for end in "abc"]),
    pa.array([None, b"", b"\0\1", b"a", b"\xff"]),
    pa.array([None, dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)]),
    pa.array([None, dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1)], pa.timestamp("us")),
    pa.array([None, dt.datetime(1, 1, 1), dt.datetime(2024, 1, 1)], pa.timestamp("us", "UTC")),
    pa.array([None, Decimal("-9.99"), Decimal("0"), Decimal("9.99")], pa.decimal128(3, 2)),
    pa.array([None, Decimal(-(10**36)), Decimal("0.1"), Decimal(10**36)], pa.decimal128(38, 1)),
]


@pytest.mark.parametrize("values", SORTED, ids=lambda values: str(values.type))
@pytest.mark.parametrize("sliced", [False, True])
def test_coordinates_have_the_order_of_values_null_first_and_nan_last(
    values: pa.Array[Any], sliced: bool
) -> None:
    # C7-04
    sample = ColumnSample()
    for _ in range(3):
        sample.add(values)
    given = pa.concat_arrays([values, values]).slice(len(values)) if sliced else values
    places = sample.ranges(10).place(given).tolist()
    assert places == sorted(set(places))
    assert (places[0] == 0) == (given[0].as_py() is None)


def test_few_values_are_told_apart_by_the_highest_bits() -> None:
    sample = ColumnSample()
    sample.add(pa.array(["x", "y"] * 500))
    low, high = sample.ranges(10).place(pa.array(["x", "y"])).tolist()
    assert low < 512 <= high


def test_a_sample_stays_small_and_even_however_many_rows_there_are() -> None:
    sample = ColumnSample()
    rows = 64 * 1024
    for start in range(0, 40 * rows, rows):
        sample.add(pa.array(np.arange(start, start + rows)))
    values = sample.values().to_numpy()
    assert 200_000 < len(values) <= 512 * 1024
    assert (np.diff(values) == np.diff(values)[0]).all()
    places = sample.ranges(10).place(pa.array(np.arange(40 * rows))).astype(int)
    assert np.bincount(places, minlength=1024)[1:1023].std() < 0.05 * 40 * rows / 1024


def test_values_that_the_sample_lacks_are_placed_too() -> None:
    sample = ColumnSample()
    sample.add(pa.array(["m" * 40, "n" * 40]))
    places = sample.ranges(8).place(pa.array([None, "a", "m" * 40, "z" * 50])).tolist()
    assert places == sorted(places)
    nothing = ColumnSample()
    nothing.add(pa.nulls(5, pa.string()))
    assert nothing.ranges(8).place(pa.array([None, "x"])).tolist() == [0, 1]
