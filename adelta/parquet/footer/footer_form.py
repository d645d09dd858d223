"""Footers that differ in numbers and bounds alone, each read by one regular expression.

A `FooterShape` goes over a footer chunk by chunk, and knows several patterns of each. Of thousands
of small files most footers fit the same ones: these, in a row, are one expression over the whole of
a footer, and what many footers say is put together column by column. A text, whose length stands in
front of it, is taken up to what follows it; where that is not its length, nothing is said of it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from adelta.parquet.footer.footer_shape import footer_number
from adelta.parquet.thrift import VARINT, ThriftError, unsigned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from adelta.parquet.footer.footer_shape import FooterPatterns

__all__ = ["AlikeFooters", "ChunkColumn", "FooterForm"]

_TRAILER: Final = b".{8}"


class ChunkColumn(NamedTuple):
    """What footers say of the chunks of one leaf, in their order; None of what they do not say.

    Both bounds are said, or none.
    """

    num_values: Sequence[int]
    null_counts: Sequence[int] | None
    lows: Sequence[bytes] | None
    highs: Sequence[bytes] | None


class AlikeFooters(NamedTuple):
    """How many rows files of one row group have, and what is said of their leaves.

    `chunks` has None for a leaf without statistics.
    """

    num_rows: Sequence[int]
    chunks: Sequence[ChunkColumn | None]


class _Places(NamedTuple):
    """The groups of the expression that hold what counts of a chunk."""

    values: int
    nulls: int | None
    low: int | None
    high: int | None


class FooterForm:
    """What the footers of files of one row group have in common, those with the same patterns."""

    def __init__(self, footer: FooterPatterns) -> None:
        self._groups = 1
        self._texts: list[tuple[int, int]] = []  # the groups of their lengths, and of theirs
        self._chunks: list[_Places | None] = []
        text = re.escape(footer.before) + b"(" + VARINT + b")" + re.escape(footer.head)
        is_inside = False  # of what a text goes up to, which is not looked for again
        for pattern in (*footer.chunks, footer.tail):
            own: list[int] = []
            for step, behind, text_follows in pattern.steps:
                text += step.pattern
                own += range(self._groups + 1, self._groups + 1 + step.groups)
                self._groups += step.groups
                if is_inside:
                    text += b")"
                is_inside = text_follows and not behind
                if is_inside:
                    text += b"(" + VARINT + b")(?>(.*?)"
                    self._groups += 2
                    self._texts.append((self._groups - 1, self._groups))
                    own.append(self._groups)
                else:
                    text += re.escape(behind)
            nulls, low, high = (
                None if place is None else own[place]
                for place in (pattern.nulls, pattern.low, pattern.high)
            )
            found = _Places(own[pattern.values], nulls, low, high)
            self._chunks.append(found if pattern.is_known else None)
        self._chunks.pop()
        self._held = found.values
        self._match = re.compile(text + re.escape(footer.behind) + _TRAILER, re.DOTALL).fullmatch

    def fits(self, footer: bytes) -> bool:
        """Whether the footer, with the eight bytes behind it, is of this form."""
        return self._match(footer) is not None

    def read(
        self, footers: Sequence[bytes], leaves: Sequence[int]
    ) -> tuple[list[int], AlikeFooters] | None:
        """The places of the footers that are of this form, and what these say of some leaves.

        None where there are none, or where one of them says what cannot be. CPU-heavy.
        """
        matches = [*map(self._match, footers)]
        places = [place for place, match in enumerate(matches) if match is not None]
        if not places:
            return None
        chunks = [self._chunks[leaf] for leaf in leaves]
        wanted = {1: 0, self._held: 1}
        for group in (*sum(self._texts, ()), *(g for c in chunks if c for g in c)):
            if group is not None:
                wanted.setdefault(group, len(wanted))
        groups = tuple(wanted)
        columns = [*zip(*(match.group(*groups) for match in matches if match), strict=True)]

        def column(group: int) -> Sequence[bytes]:
            return columns[wanted[group]]

        try:
            rows = _numbers(column(1))
            if rows != _numbers(column(self._held)):
                return None
            for length, text in self._texts:
                if _each(unsigned, column(length)) != [*map(len, column(text))]:
                    return None
            told = [
                None
                if chunk is None
                else ChunkColumn(
                    _numbers(column(chunk.values)),
                    None if chunk.nulls is None else _numbers(column(chunk.nulls)),
                    None if chunk.low is None else column(chunk.low),
                    None if chunk.high is None else column(chunk.high),
                )
                for chunk in chunks
            ]
        except ThriftError:
            return None
        return places, AlikeFooters(rows, told)


def _each(make: Callable[[bytes], int], encoded: Sequence[bytes]) -> list[int]:
    """What is made of each, of those that are the same once."""
    made = {each: make(each) for each in set(encoded)}
    if len(made) == 1:
        return [*made.values()] * len(encoded)
    return [*map(made.__getitem__, encoded)]


def _numbers(encoded: Sequence[bytes]) -> list[int]:
    """Whole numbers that are not negative. Raises: ThriftError."""
    return _each(footer_number, encoded)
