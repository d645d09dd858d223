"""Transactions over tables are all or nothing, whatever becomes of requests and processes."""

from __future__ import annotations

import pytest

from tests.simulation.transfers import transferred
from tests.support.depth import cases


@pytest.mark.parametrize("seed", range(cases(300, 3)))
def test_what_one_table_loses_another_one_gets(seed: int) -> None:
    made, wrong = transferred(seed, writers=2, transfers=4, faults=(0, 10, 30)[seed % 3])
    assert wrong == []
    assert made >= 8


def test_where_the_owner_ratifies_one_without_the_other_that_is_found() -> None:
    assert any(
        transferred(seed, writers=2, transfers=4, faults=0, torn=True)[1] for seed in range(3)
    )
