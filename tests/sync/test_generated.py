from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools.blocking_face.program import check_files, generate

ROOT = Path(__file__).parents[2]


def test_the_generated_files_are_what_the_async_face_generates() -> None:
    assert check_files(generate()) == 0


def test_the_check_is_a_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.blocking_face", "--check"],
        cwd=ROOT, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_no_generated_file_is_longer_than_a_reader_follows() -> None:
    long = {
        path.name: lines for path, text in generate().items() if (lines := text.count("\n")) > 600
    }
    assert not long
