"""Consumers die, come twice and lose answers, and each row comes into their table once."""

from __future__ import annotations

import pytest

from tests.simulation.consuming import copied
from tests.support.depth import cases


@pytest.mark.parametrize("seed", range(cases(200, 4)))
def test_each_row_comes_once(seed: int) -> None:
    appended, wrong = copied(seed)
    assert wrong == []
    assert appended > 5


def test_positions_that_others_have_gone_beyond_meanwhile_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    checker = "adelta.kernel.transaction.conflict_checker"
    monkeypatch.setattr(f"{checker}._check_applications", lambda *_: None)
    assert any("came 2 times" in each for seed in (114, 120) for each in copied(seed)[1])
