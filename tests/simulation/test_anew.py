"""A table is dropped and made anew, and nobody takes the one for the other."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from tests.simulation import replay
from tests.simulation.anew import remade
from tests.support.depth import cases

if TYPE_CHECKING:
    import pytest

SEEDS = range(cases(200, 3))


def test_each_commit_is_of_one_table_alone() -> None:
    made = {seed: remade(seed) for seed in SEEDS}
    for seed, (_, _, wrong) in made.items():
        assert wrong == [], replay.command("anew", seed=seed)
    assert sum(lives for lives, _, _ in made.values()) >= len(SEEDS)
    assert sum(commits for _, commits, _ in made.values()) > 5 * len(SEEDS)


def test_a_tailer_that_goes_on_in_another_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: object) -> None:
        """Nothing is seen to be another table's."""

    monkeypatch.setattr(import_module("adelta.changes.tail"), "_check_followed", never)
    assert any("a tailer got" in each for seed in (8, 26) for each in remade(seed)[-1])


def test_a_drop_that_goes_on_in_another_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(_: object) -> None:
        """Nothing is seen to be gone."""

    monkeypatch.setattr(import_module("adelta.operations.drop_table"), "_check_there", never)
    assert any("is deleted of a table" in each for seed in (1, 3) for each in remade(seed)[-1])
