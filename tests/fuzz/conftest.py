"""Counts the cases of every fuzz target, and says so at the end."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

_counts: Counter[str] = Counter()


@pytest.fixture(scope="session")
def count() -> Callable[[str, int], None]:
    """Tells how many cases a target was given."""

    def add(target: str, cases: int = 1) -> None:
        _counts[target] += cases

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for target, cases in sorted(_counts.items()):
        terminalreporter.write_line(f"fuzzed {target}: {cases:,} cases")
