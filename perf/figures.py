"""What the benchmarks found, handed to the report that puts them beside what is asked."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["FILE", "read_figures", "record"]

FILE = "ADELTA_PERF_FIGURES"
"""The environment variable with the path of the file that gathers figures, a JSON object a line."""


def record(work: str, **figures: float) -> None:
    """Note figures of a piece of work, where somebody gathers them."""
    path = os.environ.get(FILE)
    if path:
        with open(path, "a") as file:
            file.write(json.dumps({"work": work, **figures}) + "\n")


def read_figures(path: Path) -> dict[str, dict[str, float]]:
    """All figures of the file by work; later ones go before earlier ones."""
    found: dict[str, dict[str, float]] = {}
    for line in path.read_text().splitlines():
        figures = json.loads(line)
        found.setdefault(figures.pop("work"), {}).update(figures)
    return found
