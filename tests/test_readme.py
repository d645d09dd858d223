"""The README: its examples run, in order, in one folder, and its table of features is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from adelta.kernel.table_features import FEATURES

README = Path(__file__).parent.parent / "README.md"
EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

ROW = re.compile(r"^\| `([\w-]+)` \| (yes|refused) \| (yes|refused) \|$", re.MULTILINE)


def test_the_table_of_features_says_what_is_read_and_written() -> None:
    said = ROW.findall(README.read_text(encoding="utf-8"))
    answer = {True: "yes", False: "refused"}
    assert said == [
        (feature.name, answer[feature.can_read], answer[feature.can_write]) for feature in FEATURES
    ]


@pytest.mark.timeout(300)  # one of them starts Spark
def test_every_example_runs(tmp_path: Path) -> None:
    examples = EXAMPLE.findall(README.read_text(encoding="utf-8"))
    assert len(examples) >= 4
    for example in examples:
        done = subprocess.run(
            [sys.executable, "-W", "error::ResourceWarning", "-c", example],
            cwd=tmp_path,
            env=os.environ | {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        assert done.stdout
