"""What statistics tell exactly of rows, and what they do not."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest

from adelta.kernel.data_skipping.exact import exact_extremes, exact_row_counts
from adelta.kernel.expressions.parse import parse_expression
from adelta.kernel.expressions.resolve import bind
from adelta.kernel.schema import types as t
from tests.kernel.data_skipping.logged_files import SCHEMA, files, stats

if TYPE_CHECKING:
    import pyarrow as pa


def count(table: pa.Table, where: str | None = None) -> object:
    node = None if where is None else bind(parse_expression(where), SCHEMA)
    found = exact_row_counts(table, node, ["p"])
    return None if found is None else (found[0], found[1].to_pylist())


def test_rows_are_counted_from_statistics_less_those_deleted():
    assert count(files(stats(0, 1), stats(0, 1, rows=5))) == (15, [])
    assert count(files(stats(0, 1), stats(0, 1, rows=5), deleted=2)) == (11, [])
    assert count(files(stats(0, 1)), "p = 1 AND p IS NOT NULL") == (10, [])
    assert count(files()) == (0, [])


def test_files_whose_statistics_do_not_say_are_counted_elsewhere():
    assert count(files(stats(0, 1), None, "{", '{"numRecords":-1}')) == (10, [1, 2, 3])
    assert count(files(stats(0, 1, rows=1), deleted=2)) == (0, [0])


def test_rows_cannot_be_counted_for_a_predicate_over_rows():
    assert count(files(stats(0, 1)), "id = 1") is None
    assert count(files(stats(0, 1)), "6 / p = 1") is None


def extremes(table: pa.Table, name: str, *, is_partition: bool = False) -> object:
    field = SCHEMA.field(name)
    assert field is not None
    found = exact_extremes(table, field, "none", is_partition=is_partition)
    return None if found is None else tuple(found.to_pylist())


def test_extremes_are_those_of_all_files_that_have_values():
    assert extremes(files(stats(3, 9), stats(-5, 4)), "id") == (-5, 9)
    assert extremes(files(stats(3, 9), stats(None, None, nulls=10)), "id") == (3, 9)
    assert extremes(files(stats(3, 9), stats(0, 99, rows=0)), "id") == (3, 9)
    assert extremes(files(stats(None, None, nulls=10)), "id") == (None, None)
    assert extremes(files(), "id") == (None, None)
    whole = stats(-(2**63), 2**63 - 1)
    assert extremes(files(whole), "id") == (-(2**63), 2**63 - 1)
    days = stats("1582-10-15", "9999-12-31", column="d")
    assert extremes(files(days), "d") == (date(1582, 10, 15), date(9999, 12, 31))


@pytest.mark.parametrize(
    "lacking",
    [
        None,
        "{",
        '{"numRecords":10}',
        json.dumps({"numRecords": 10, "minValues": {"id": 1}, "maxValues": {"id": 2}}),
        json.dumps({"minValues": {"id": 1}, "maxValues": {"id": 2}, "nullCount": {"id": 0}}),
        stats(1, None),
        stats(None, 2),
        stats(2, 1),
        stats(1, 2, nulls=11),
        json.dumps({**json.loads(stats(1, 2)), "tightBounds": False}),
    ],
)
def test_extremes_are_not_told_where_a_file_does_not_tell(lacking: str | None):
    assert extremes(files(stats(1, 2), lacking), "id") is None


def test_extremes_are_not_told_where_bounds_may_lie_outside_of_the_values():
    assert extremes(files(stats(1, 2), deleted=3), "id") is None
    assert extremes(files(stats(0.5, 1.5, column="x")), "x") is None
    assert extremes(files(stats("a", "b", column="s")), "s") is None
    assert extremes(files(stats("1500-01-01", "2000-01-01", column="d")), "d") is None
    time = "2026-01-01T00:00:00.000Z"
    assert extremes(files(stats(time, time, column="at")), "at") is None


def test_extremes_of_partitions_are_those_of_rows_that_are_left():
    two = [stats(0, 1), stats(0, 1, rows=5)]
    assert extremes(files(*two, partitions=["7", "-1"]), "p", is_partition=True) == (-1, 7)
    assert extremes(files(*two, partitions=["7", None]), "p", is_partition=True) == (7, 7)
    assert extremes(files(*two, partitions=["7", "9"], deleted=5), "p", is_partition=True) == (7, 7)
    assert extremes(files(stats(0, 1), None), "p", is_partition=True) is None
    for unordered in (t.DOUBLE, t.BINARY):
        field = t.StructField("p", unordered)
        assert exact_extremes(files(*two), field, "none", is_partition=True) is None
