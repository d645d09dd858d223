"""Chance enters adelta here alone, so that a test can decide what is drawn.

Names that nobody else may have, and pauses that keep writers from meeting again and again. What is
secret is drawn elsewhere, and by nothing that can be foreseen.
"""

from __future__ import annotations

import random
import uuid
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["drawn_from", "fraction", "new_bits", "new_uuid", "uniform"]

_source: random.Random | None = None


@contextmanager
def drawn_from(source: random.Random) -> Iterator[None]:
    """Inside the block all that this process draws comes from `source`, and can be repeated."""
    global _source
    before, _source = _source, source
    try:
        yield
    finally:
        _source = before


def new_uuid() -> uuid.UUID:
    """A name that nothing else has: a UUID of version 4."""
    if _source is None:
        return uuid.uuid4()
    return uuid.UUID(int=_source.getrandbits(128), version=4)


def new_bits(count: int) -> int:
    """A number below ``2**count`` that nobody else is likely to draw."""
    return (_source or _SYSTEM).getrandbits(count)


def uniform(least: float, most: float) -> float:
    """A number from `least` up to `most`."""
    return (_source or random).uniform(least, most)


def fraction() -> float:
    """A number from 0 up to, and without, 1."""
    return (_source or random).random()


_SYSTEM = random.SystemRandom()
