from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyroaring import BitMap64

from adelta.errors import InvalidTableError
from adelta.kernel.deletion_vector.mask import check_bounds, kept_rows, named_rows


@given(st.sets(st.integers(0, 60)), st.integers(0, 40), st.integers(0, 30))
def test_masks_name_the_rows_of_a_window(rows, start, count):
    vector = BitMap64(rows)
    window = [row in rows for row in range(start, start + count)]
    named, kept = named_rows(vector, start, count), kept_rows(vector, start, count)
    if not any(window):
        assert named is None
        assert kept is None
    else:
        assert named.to_pylist() == window
        assert kept.to_pylist() == [not one for one in window]


def test_a_vector_with_another_number_of_rows_than_the_log_says_is_refused():
    with pytest.raises(InvalidTableError, match="names 2 rows where the log says 3"):
        check_bounds(BitMap64([0, 1]), 10, 3, "f")


def test_a_vector_that_names_rows_beyond_its_file_is_refused():
    with pytest.raises(InvalidTableError, match="row 10 of a file of 10 rows"):
        check_bounds(BitMap64([0, 10]), 10, 2, "f")


def test_few_and_many_named_rows_are_found_alike() -> None:
    for named in ({3}, set(range(100)) - {3}, set(range(100)), set(range(0, 100, 2)), {99, 100}):
        mask = named_rows(BitMap64(named), 0, 100)
        assert mask is not None
        assert mask.to_pylist() == [row in named for row in range(100)]
    assert named_rows(BitMap64([100]), 0, 100) is None
