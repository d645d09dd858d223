"""Inputs for decoders: a kept corpus, and damage done to it.

`damaged` is for hypothesis, which shrinks what it finds. `variant` does the same kind of damage by
number, for decoders that run in a process of their own: case n is always the same.
"""

from __future__ import annotations

import os
import random
from functools import lru_cache
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.support.depth import cases

__all__ = ["CASES", "corpus", "damaged", "damaged_text", "fuzzing", "variant"]

_CORPUS = Path(__file__).parent / "corpus"
_SECONDS = float(os.environ.get("ADELTA_FUZZ_SECONDS", "0"))
CASES = cases(1000, 120) if not _SECONDS else max(1000, int(_SECONDS * 100))
"""How many cases a target is given: always the same ones, unless `ADELTA_FUZZ_SECONDS` asks for a
longer search, about so many seconds a target, with cases that have not been seen before."""

fuzzing = settings(
    max_examples=CASES,
    derandomize=not _SECONDS,
    database=None,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)

_ODD = (
    b"", b"\0", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"{", b"}", b"[",
    b"]", b'"', b"\\", b"\\u0000", b"\\ud800", b"null", b"true", b"-1", b"1e999", b"NaN", b"0.1",
    b"9223372036854775808", b"18446744073709551616", b",", b":", b"\n", b"%2e%2e/", b"%", b"../",
    b"'", b"(", b")", b"`", b"--", b"\xc3\x28", b"\xf0\x9f\x98\x80", b"1970-01-01", b" ",
)  # fmt: skip


@lru_cache
def corpus(target: str) -> tuple[bytes, ...]:
    """The inputs kept for a target: valid ones, and ones that once broke it."""
    return tuple(file.read_bytes() for file in sorted((_CORPUS / target).iterdir()))


def _edit(data: bytes, kind: int, place: float, length: int, odd: bytes, byte: int) -> bytes:
    at = int(place * len(data))
    match kind:
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[at + length :]
        case 2:
            return data[:at] + odd + data[at:]
        case 3:
            return data[:at] + odd + data[at + len(odd) :]
        case 4:
            return data[:at] + data[at : at + length] * 3 + data[at + length :]
        case 5:
            return data[:at] + bytes([byte]) + data[at + 1 :]
        case 6 if at < len(data):
            return data[:at] + bytes([data[at] ^ (1 << byte % 8)]) + data[at + 1 :]
        case 7 if at < len(data):
            return data[:at] + bytes([(data[at] + 1) % 256]) + data[at + 1 :]
    return data[at:]


_edits = st.tuples(
    st.integers(0, 8),
    st.floats(0, 1, exclude_max=True),
    st.integers(1, 40),
    st.sampled_from(_ODD),
    st.integers(0, 255),
)


def damaged(target: str) -> st.SearchStrategy[bytes]:
    """Inputs of the corpus with a few edits each, and bytes that are nothing at all."""

    def apply(start: bytes, edits: list[tuple[Any, ...]]) -> bytes:
        for edit in edits:
            start = _edit(start, *edit)
        return start

    some = st.sampled_from(corpus(target))
    edited = st.builds(apply, some, st.lists(_edits, min_size=1, max_size=4))
    return edited | some | st.binary(max_size=64)


def damaged_text(target: str) -> st.SearchStrategy[str]:
    """Likewise as text, and text that is nothing at all."""
    return damaged(target).map(lambda data: data.decode(errors="replace")) | st.text(max_size=40)


def variant(start: bytes, number: int) -> bytes:
    """Case `number` of the damage that can be done to `start`."""
    source = random.Random(number)
    for _ in range(source.randint(1, 4)):
        kind = source.choice((0, 1, 2, 3, 4, 5, 5, 5, 6, 6, 6, 7, 7))
        # the ends of a file hold what describes it, so they are hit more often
        place = source.random() if source.random() < 0.5 else 1 - source.random() ** 3 / 2
        edit = (min(place, 0.999999), source.randint(1, 40), source.choice(_ODD))
        start = _edit(start, kind, *edit, source.randint(0, 255))
    return start
