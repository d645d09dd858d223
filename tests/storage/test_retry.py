from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from adelta.storage.retry import RetryPolicy


@given(st.integers(0, 9), st.floats(0, 1, exclude_max=True))
def test_the_wait_is_between_nothing_and_the_grown_backoff(retries: int, luck: float) -> None:
    delay = RetryPolicy().delay(retries, 0.0, luck)
    assert delay is not None
    assert 0 <= delay <= min(15.0, 0.1 * 2**retries)


def test_it_gives_up_after_so_many_and_after_so_long() -> None:
    policy = RetryPolicy(max_retries=2, retry_timeout=10.0)
    assert policy.delay(1, 9.0, 0.5) is not None
    assert policy.delay(2, 0.0, 0.5) is None
    assert policy.delay(1, 9.95, 0.5) is None


def test_it_waits_as_long_as_the_store_asks() -> None:
    assert RetryPolicy().delay(0, 0.0, 0.0, at_least=3.0) == 3.0
    assert RetryPolicy(retry_timeout=2.0).delay(0, 0.0, 0.0, at_least=3.0) is None
