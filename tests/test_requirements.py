"""Codes of requirements: each that the code and the tests name is explained, and no other one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "requirements.md"
CODE = re.compile(r"\b(?:[A-D]\d{1,2}-\d{2}|D\d{2}|B\d{1,2}(?=[:,] ))(?!-)\b")
RANGE = re.compile(r"\b([A-D]\d{1,2}-)(\d{2}) to \1(\d{2})\b")
ROW = re.compile(r"^\| ([A-D][\d-]+) \| [A-Z`][^|]+\. \|$", re.MULTILINE)


def codes_of(text: str) -> set[str]:
    """The codes that a text names; a range names all in it."""
    between = {
        f"{group}{number:02}"
        for group, first, last in RANGE.findall(text)
        for number in range(int(first), int(last) + 1)
    }
    return set(CODE.findall(text)) | between


def test_codes_and_ranges_of_them_are_found() -> None:
    text = "C3-03, (D18) and B13-01 to B13-03, B14, or B8: but no UTF-8, 2024-01-02, B1 or A1-1"
    assert codes_of(text) == {"C3-03", "D18", "B13-01", "B13-02", "B13-03", "B14", "B8"}


def test_every_code_in_use_is_on_the_page_and_every_code_of_the_page_is_in_use() -> None:
    page = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len(page) == len(set(page))
    used = set()
    for folder in ("adelta", "tests", "perf"):
        for path in (ROOT / folder).rglob("*.py"):
            if path != Path(__file__):
                used |= codes_of(path.read_text(encoding="utf-8"))
    assert used - set(page) == set(), "explain them in docs/requirements.md"
    assert set(page) - used == set(), "take them off docs/requirements.md"
