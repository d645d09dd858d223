"""What a planner that weighs costs is told of columns."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from adelta.kernel.data_skipping.planner_statistics import planner_statistics
from tests.kernel.data_skipping.logged_files import SCHEMA, files, stats

if TYPE_CHECKING:
    import pyarrow as pa


def told(table: pa.Table, name: str) -> object:
    found = planner_statistics(table, list(SCHEMA), "none", ["p"])
    if found is None or (column := found.columns.get(name)) is None:
        return None
    ends = column.ends and tuple(each.as_py() for each in column.ends)
    return column.most_distinct, column.null_count, ends


def test_no_more_values_differ_than_lie_between_the_ends_or_than_there_are():
    assert told(files(stats(3, 9), stats(-5, 4)), "id") == (15, 0, (-5, 9))
    assert told(files(stats(3, 900), stats(-5, 4, nulls=6)), "id") == (14, 6, (-5, 900))
    days = files(stats("2024-02-27", "2024-03-02", column="d"))
    assert told(days, "d") == (5, 0, (date(2024, 2, 27), date(2024, 3, 2)))
    whole = files(stats(-(2**63), 2**63 - 1))
    assert told(whole, "id") == (10, 0, (-(2**63), 2**63 - 1))
    assert told(files(stats("a", "b", column="s", nulls=4)), "s") == (6, 4, None)


def test_columns_that_may_have_many_different_values_are_not_told():
    assert told(files(stats(1, 100, rows=101)), "id") == (100, 0, (1, 100))
    assert told(files(stats(1, 101, rows=101)), "id") is None
    assert told(files(stats("a", "b", column="s", rows=101)), "s") is None
    century = stats("1925-01-01", "2024-12-31", column="d", rows=10**6)
    assert told(files(century), "d") == (36_525, 0, (date(1925, 1, 1), date(2024, 12, 31)))
    assert told(files(stats("1900-01-01", "9999-12-31", column="d", rows=10**6)), "d") is None


def test_columns_without_a_value_have_no_ends():
    assert told(files(stats(None, None, nulls=10), stats(3, 9)), "id") == (7, 10, (3, 9))
    assert told(files(stats(None, None, nulls=10)), "id") == (0, 10, None)
    assert told(files(), "id") == (0, 0, None)


def test_rows_behind_deletion_vectors_count_for_columns_not_for_the_table():
    found = planner_statistics(files(stats(3, 9, nulls=5), deleted=9), list(SCHEMA), "none", ["p"])
    assert found is not None
    assert found.num_rows == 1
    assert told(files(stats(3, 9, nulls=5), deleted=9), "id") == (1, 1, (3, 9))


def test_columns_of_which_a_file_says_nothing_or_nonsense_are_not_told():
    assert told(files(stats(3, 9), stats(3, 9, column="x")), "id") is None
    assert told(files(stats(9, 3)), "id") is None
    assert told(files(stats(3, 9, nulls=11)), "id") is None
    assert told(files(stats(3, None)), "id") is None
    assert told(files(stats(3, 9), None), "id") is None  # nor are rows
    assert told(files(stats(0.5, 1.5, column="x")), "x") is None


def test_values_of_partitions_are_told_exactly():
    keyed = files(stats(3, 9), stats(1, 2), stats(1, 2), partitions=["1", "90", "1"])
    assert told(keyed, "p") == (2, 0, (1, 90))
    assert told(files(stats(3, 9), stats(1, 2), partitions=["1", None]), "p") == (1, 10, (1, 1))
    assert told(files(stats(3, 9), partitions=[None]), "p") == (0, 10, None)
