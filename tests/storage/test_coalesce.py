from __future__ import annotations

from itertools import pairwise

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
    assert plan.cut([data[a:b] for a, b in plan.spans]) == [data[a:b] for a, b in ranges]
    fetches = [fetch for span in plan.fetches for fetch in span]
    assert all(0 < end - start <= largest for start, end in fetches)
    assert fetches == sorted(fetches)
    assert all(a[1] <= b[0] for a, b in pairwise(fetches))
    for span, pieces in zip(plan.spans, plan.fetches, strict=True):
        assert (pieces[0][0], pieces[-1][1]) == span
        assert all(a[1] == b[0] for a, b in pairwise(pieces))


def test_ranges_join_up_to_the_gap_and_no_further() -> None:
    assert plan_fetches([(0, 10), (15, 20)], gap=5, largest=99).spans == ((0, 20),)
    assert plan_fetches([(0, 10), (16, 20)], gap=5, largest=99).spans == ((0, 10), (16, 20))


def test_a_fetch_of_one_range_is_not_copied() -> None:
    data = bytes(1000)
    plan = plan_fetches([(0, 1000)], gap=0, largest=5000)
    assert plan.cut([data])[0] is data
