"""How far tests go that try one thing after the other.

A run of all tests takes some of them, always the same ones; `ADELTA_TEST_DEPTH=all`, which is
`tox -e deep`, takes every one.
"""

from __future__ import annotations

import os

__all__ = ["DEEP", "cases"]

DEEP = os.environ.get("ADELTA_TEST_DEPTH") == "all"


def cases(deep: int, shallow: int) -> int:
    """How many cases to try, or how far to go from one to the next."""
    return deep if DEEP else shallow
