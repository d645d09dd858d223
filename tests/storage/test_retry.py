"""What is tried again, when and how: by tables of cases."""

from __future__ import annotations

import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from adelta._clock import SYSTEM_CLOCK
from adelta.storage.http_time import retry_after
from adelta.storage.retry import (
    Again,
    Done,
    Move,
    Outcome,
    Renew,
    Retry,
    RetryPolicy,
    Step,
    Tries,
    next_step,
)


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


FIRST = Tries(luck=0.5, may_renew=True, may_move=True)
BUSY = Outcome(transient=True)


@pytest.mark.parametrize(
    ("tries", "outcome", "step"),
    [
        (FIRST, Outcome("refused"), Done()),
        (FIRST, Outcome("perhaps carried out", maybe_applied=True), Done()),
        # what may pass
        (FIRST, BUSY, Retry(0.05)),
        (Tries(retries=3, luck=0.5), BUSY, Retry(0.4)),
        (FIRST, Outcome(transient=True, wait=7.0), Retry(7.0)),
        (Tries(retries=10), BUSY, Done()),
        (Tries(retries=2, policy=RetryPolicy(max_retries=2)), BUSY, Done()),
        (Tries(elapsed=181.0), BUSY, Done()),
        (Tries(elapsed=170.0), Outcome(transient=True, wait=20.0), Done()),
        # another kind of request costs no waiting, and is made even where nothing is tried again
        (FIRST, Outcome(otherwise=True), Again()),
        (Tries(policy=RetryPolicy(max_retries=0)), Outcome(otherwise=True), Again()),
        (Tries(kinds=2), Outcome(otherwise=True), Done()),
        # credentials
        (FIRST, Outcome(expired=True), Renew()),
        (Tries(may_move=True), Outcome(expired=True), Done()),
        (Tries(luck=0.5), Outcome(expired=True, transient=True), Retry(0.05)),
        # regions
        (FIRST, Outcome(region="eu-north-1"), Move("eu-north-1")),
        (Tries(may_renew=True), Outcome(region="eu-north-1"), Done()),
        # an answer that does not tell which: the region it names comes first, once
        (FIRST, Outcome(region="eu-north-1", expired=True), Move("eu-north-1")),
        (Tries(may_renew=True), Outcome(region="eu-north-1", expired=True), Renew()),
    ],
)
def test_the_step_after_an_attempt(tries: Tries, outcome: Outcome, step: Step) -> None:
    assert next_step(tries, outcome) == step


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("0", 0.0), ("3", 3.0), ("99999", 60.0), ("9" * 5000, 60.0), ("-1", 0.0), ("soon", 0.0)],
)
def test_what_a_server_asks_for_is_heeded_for_a_minute(value: str, seconds: float) -> None:
    assert retry_after({"retry-after": value}) == seconds
    assert retry_after({}) == 0.0


@pytest.mark.parametrize(
    ("until", "seconds"),
    [
        ("Fri, 31 Dec 1999 23:59:59 GMT", 5.0),
        ("Friday, 31-Dec-99 23:59:59 GMT", 5.0),  # as servers told it long ago
        ("Fri Dec 31 23:59:59 1999", 5.0),
        ("Sat, 01 Jan 2000 23:59:59 GMT", 60.0),
        ("Fri, 31 Dec 1999 23:59:50 GMT", 0.0),  # over
        ("Fri, 31 Dec 1999 25:59:59 GMT", 0.0),
    ],
)
def test_a_date_to_wait_for_is_one_by_the_servers_clock(
    until: str, seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")  # where a date without a zone is not one of this zone
    time.tzset()
    told = {"retry-after": until, "date": "Fri, 31 Dec 1999 23:59:54 GMT"}
    try:
        assert retry_after(told) == seconds
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_date_to_wait_for_is_one_by_our_clock_where_the_server_tells_no_time() -> None:
    until = formatdate(SYSTEM_CLOCK.now_ms() / 1000 + 30, usegmt=True)
    assert 20.0 < retry_after({"retry-after": until}) <= 30.0
