"""Decoders written in C++, on damaged files: they do not end the process, whatever the bytes."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.mutation import CASES

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    "target", ["checkpoint", "data_file", "decompressed_file", "deletion_vector"]
)
def test_a_damaged_file_ends_in_one_error(count: Callable[[str, int], None], target: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.fuzz.worker", target, "0", str(CASES)],
        capture_output=True,
        text=True,
        check=False,
    )
    cases = done.stdout.split()
    count(target.replace("_", " ") + "s, in a process of their own", len(cases))
    died_of = f"case {cases[-1] if cases else 'none'}" if done.returncode < 0 else ""
    assert done.returncode == 0, f"{died_of}\n{done.stderr[-6000:]}"
    assert len(cases) == CASES
