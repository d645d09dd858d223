"""The commit owner, whose instances die: transactions are all or nothing, and logs have no gap."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.owned_transfers import owned_transferred
from tests.support.depth import cases

ROOT = Path(__file__).parents[2]
FAULTS = (30, 0, 10)


@pytest.mark.parametrize("seed", range(cases(300, 3)))
def test_what_one_owned_table_loses_another_one_gets_whoever_dies(seed: int) -> None:
    made, wrong, _ = owned_transferred(seed, writers=2, transfers=4, faults=FAULTS[seed % 3])
    assert wrong == []
    assert made >= 8


@pytest.mark.parametrize("seed", range(cases(300, 2)))
def test_so_it_is_while_tables_leave_the_owner_and_come_back(seed: int) -> None:
    made, wrong, _ = owned_transferred(
        seed, writers=2, transfers=4, faults=FAULTS[seed % 3], changes=True
    )
    assert wrong == []
    assert made >= 8


def test_where_each_statement_of_the_ledger_is_a_transaction_of_its_own_that_is_found() -> None:
    assert any(
        owned_transferred(seed, writers=2, transfers=4, faults=0, torn=True)[1] for seed in range(4)
    )


def test_the_same_seed_gives_the_same_trace_in_other_processes() -> None:
    made = "owned_transferred(4, writers=2, transfers=2, faults=30)"
    program = f"from tests.simulation.owned_transfers import owned_transferred; print({made})"
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1]
    assert len(printed[0]) > 64
