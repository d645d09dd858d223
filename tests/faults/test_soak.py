"""The soak (``python -m tests.soak``) tells what grows from what stays."""

from __future__ import annotations

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.soak.growth import MEASURES, Sample, growth
from tests.support.depth import DEEP

FLAT = Sample(0.0, 200 << 20, 3 << 20, 480_000, 15, 3, 2, workers=20)
CHANCE = random.Random(1)


def uneven(at: int) -> Sample:
    """What grows with a log up to a point and begins anew, and a process that warms up."""
    warm = min(at, 8) / 8
    return replace(
        FLAT,
        resident=round(FLAT.resident * (0.9 + 0.1 * warm)) + CHANCE.randrange(4 << 20),
        blocks=round(FLAT.blocks * (0.8 + 0.2 * warm)) + 6000 * (at % 10),
        threads=round(FLAT.threads * warm),
    )


def test_what_warms_up_and_what_begins_anew_is_no_growth() -> None:
    assert growth([uneven(at) for at in range(40)]) == []


@pytest.mark.parametrize("name", MEASURES)
def test_what_grows_with_each_round_is_found(name: str) -> None:
    step = {"resident": 1 << 20, "arrow": 200_000, "blocks": 1200}.get(name, 1)
    samples = [uneven(at) for at in range(40)]
    leaking = [
        replace(each, **{name: getattr(each, name) + step * at}) for at, each in enumerate(samples)
    ]
    (found,) = growth(leaking)
    assert found.startswith(f"{name}: ")


@pytest.mark.skipif(not DEEP, reason="it takes ten minutes")
@pytest.mark.timeout(1200)
def test_nothing_grows_in_ten_minutes() -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", "10"]
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
