"""The code blocks of a page: what they are in, where they stand, and what they say."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

__all__ = ["PAGES", "ROOT", "Block", "blocks_of", "uses_spark"]

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", *sorted(str(p.relative_to(ROOT)) for p in (ROOT / "docs").rglob("*.md"))]
"""All pages that users read, as paths below `ROOT`."""

_FENCED = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```[ ]*$", re.MULTILINE | re.DOTALL)
_SPARK = re.compile(r"adelta\.spark|pyspark|spark-submit")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of `page`; its text begins at the line `line`."""

    page: str
    line: int
    language: str
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"


def blocks_of(page: str) -> list[Block]:
    """The fenced blocks of a page, in order."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return [
        Block(page, text.count("\n", 0, match.start(2)) + 1, match[1], match[2])
        for match in _FENCED.finditer(text)
    ]


def uses_spark(page: str) -> bool:
    """Whether the blocks of a page need a Spark session."""
    return any(_SPARK.search(block.text) for block in blocks_of(page))
