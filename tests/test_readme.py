"""The README: its table of features is true. Its code blocks are run in `tests/docs`."""

from __future__ import annotations

import re
from pathlib import Path

from adelta.kernel.table_features import FEATURES

README = Path(__file__).parent.parent / "README.md"
ROW = re.compile(r"^\| `([\w-]+)` \| (yes|refused) \| (yes|refused) \|$", re.MULTILINE)


def test_the_table_of_features_says_what_is_read_and_written() -> None:
    said = ROW.findall(README.read_text(encoding="utf-8"))
    answer = {True: "yes", False: "refused"}
    assert said == [
        (feature.name, answer[feature.can_read], answer[feature.can_write]) for feature in FEATURES
    ]
