from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adelta.storage.coalesce import plan_fetches

DATA = bytes(range(256)) * 2
RANGE = st.tuples(st.integers(0, 600), st.integers(0, 600)).map(lambda r: (min(r), max(r)))


@given(
    ranges=st.lists(RANGE, max_size=12),
    gap=st.integers(0, 100),
    largest=st.integers(1, 300),
    size=st.integers(0, 512),
)
def test_what_is_cut_is_what_was_asked_for(
    ranges: list[tuple[int, int]], gap: int, largest: int, size: int
) -> None:
    data = DATA[:size]
    plan = plan_fetches(ranges, gap=gap, largest=largest)
    assert plan.cut([data[a:b] for a, b in plan.fetches]) == [data[a:b] for a, b in ranges]
    assert all(0 < end - start <= largest for start, end in plan.fetches)
    assert list(plan.fetches) == sorted(plan.fetches)
    assert all(a[1] <= b[0] for a, b in zip(plan.fetches, plan.fetches[1:], strict=False))


def test_ranges_join_up_to_the_gap_and_no_further() -> None:
    assert plan_fetches([(0, 10), (15, 20)], gap=5, largest=99).fetches == ((0, 20),)
    assert plan_fetches([(0, 10), (16, 20)], gap=5, largest=99).fetches == ((0, 10), (16, 20))


def test_a_fetch_of_one_range_is_not_copied() -> None:
    data = bytes(1000)
    plan = plan_fetches([(0, 1000)], gap=0, largest=5000)
    assert plan.cut([data])[0] is data
