"""Isolation is as claimed at either level, whatever becomes of requests and processes."""

from __future__ import annotations

import pytest

from adelta.kernel.transaction import conflict_checker
from adelta.kernel.transaction.isolation import IsolationLevel
from adelta.write.transaction_life import TransactionLife
from tests.simulation.appends import Sessions, level_of
from tests.simulation.exclusion import EXCLUDES
from tests.simulation.replay import command
from tests.support.depth import cases


@pytest.mark.parametrize("seed", range(cases(400, 4)))
def test_histories_of_list_appends_show_what_their_level_allows(seed: int) -> None:
    """Whatever excludes writers, which the seed says too."""
    sessions = Sessions(seed)
    history = sessions.history()
    assert sessions.wrong(history) == [], command("appends", seed=seed)
    assert sum(txn.outcome == "committed" for txn in history) >= 5


@pytest.mark.parametrize("excludes", sorted({*EXCLUDES} - {"store"}))
def test_who_excludes_writers_keeps_the_level(excludes: str) -> None:
    for seed in range(cases(50, 2)):  # either level
        sessions = Sessions(seed, excludes=excludes)
        assert sessions.wrong(sessions.history()) == []


def test_write_serializable_overlooks_blind_appends_and_serializable_does_not() -> None:
    for seed in (1, 9):
        sessions = Sessions(seed, excludes="store")
        assert sessions.level == "WriteSerializable"
        history = sessions.history()
        assert sessions.wrong(history) == []
        sessions.level = "Serializable"
        assert sessions.wrong(history), "what is overlooked is not told from what is serial"


def test_a_blind_append_that_was_acknowledged_before_is_not_overlooked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where who reads does not look at the log that is found, at this level too."""
    monkeypatch.setattr(TransactionLife, "has_looked", True)
    sessions = Sessions(57, 5, 6, excludes="store")
    assert level_of(57) == "WriteSerializable"
    assert any("G2" in each for each in sessions.wrong(sessions.history()))


@pytest.mark.parametrize("rule", ["rows that others add", "rows that others remove"])
def test_where_a_rule_is_not_kept_that_is_found(rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(IsolationLevel, "must_see_adds_of", lambda *_: False)
    if rule == "rows that others remove":
        monkeypatch.setattr(conflict_checker, "_check_removed", lambda *_: None)
    seeds = map(Sessions, range(20))
    assert any(sessions.wrong(sessions.history()) for sessions in seeds)
