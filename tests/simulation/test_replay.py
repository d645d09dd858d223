"""Histories and transactions over tables that fail are shrunk, and made again by one command."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.transaction.isolation import IsolationLevel
from tests.simulation import transfers
from tests.simulation.__main__ import main
from tests.simulation.catalog import Catalog

if TYPE_CHECKING:
    import pytest


def again(words: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[list[str], str]:
    """What a run that fails prints last, and what the command prints that it ends with."""
    assert main(words) == 1
    command = capsys.readouterr().out.splitlines()[-1].split()
    assert command[:3] == ["python", "-m", "tests.simulation"]
    assert main(command[3:]) == 1
    return command[3:], capsys.readouterr().out


def test_a_history_that_its_level_does_not_allow_is_made_again_with_fewer_transactions(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["appends", "seed=0", "transactions=4", "excludes=store"]
    assert main(words) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"
    monkeypatch.setattr(IsolationLevel, "must_see_adds_of", lambda *_: False)
    command, printed = again(words, capsys)
    assert command[:2] == ["appends", "seed=0"]
    assert int(command[3].removeprefix("transactions=")) < 4  # of each session
    assert printed.startswith(("lost update: ", "G2"))


def test_transactions_over_tables_that_are_torn_are_made_again_with_fewer_of_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["transfers", "seed=1", "transfers=3", "faults=10"]
    assert main(words) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"
    monkeypatch.setattr(transfers, "Catalog", lambda world, **_: Catalog(world, torn=True))
    command, printed = again(words, capsys)
    assert {"transfers=2", "faults=0"} < {*command}
    assert "in one log alone" in printed or "the amounts are" in printed
