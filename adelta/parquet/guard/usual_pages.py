"""The pages of many column chunks, held to their checksums and to the footers all at once.

It is what `check_pages` and `unfolded` ask, of pages whose headers have nothing unusual: of chunks
that pass nothing else needs to be asked. What is wrong with one that does not, they say.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np

from adelta.parquet.thrift import BINARY, FALSE, I32, I64, TRUE

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["HEADER_ROOM", "Chunks", "Pages", "usual_pages", "words_of"]

Numbers: TypeAlias = Any
"""An array of NumPy, of a type that is known at run time only."""

HEADER_ROOM: Final = 64
"""Bytes behind the last chunk that may be looked at: more than a usual header has."""

_MOST_PAGES: Final = 8  # of a chunk that is small
_USUAL: Final = 1 << 0 | 1 << 2 | 1 << 3 | 1 << 8  # encodings of which none unfolds to texts
_NUMBER: Final = 0x15  # the header of a field that is the next one, a 32-bit number
_DATA, _DICTIONARY = 0, 4  # kinds of pages, as they are encoded
_STATISTICS: Final = 0x1C  # the header of the field that a header of values ends with
_MOST_FIELDS: Final = 9  # of statistics, and their end
_WIDE: Final = np.uint64(0x8080808080)  # the bits that say that another byte follows
_ENDS: Final = np.array([0x80 << 8 * byte for byte in range(5)], np.uint64)


class Chunks(NamedTuple):
    """Column chunks in the same bytes, an array an attribute.

    Attributes:
        start: where each starts,
        end: and where it ends.
        values: how many values it has.
        unfolded: bytes of its pages once they are decompressed.
        encodings: a bit for each encoding that its pages may have.
    """

    start: Numbers
    end: Numbers
    values: Numbers
    unfolded: Numbers
    encodings: Numbers


class Pages(NamedTuple):
    """Pages in the order of their chunks, an array an attribute.

    Attributes:
        chunk: the number of the chunk that each is in.
        is_data: whether it is a page of values, not a dictionary.
        start: where its payload starts,
        end: and where that ends.
        unfolded: bytes of the payload once it is decompressed.
        values: how many values it has.
        encoding: of its values,
        defined: of which of them are nulls,
        repeated: and of which begin a list.
    """

    chunk: Numbers
    is_data: Numbers
    start: Numbers
    end: Numbers
    unfolded: Numbers
    values: Numbers
    encoding: Numbers
    defined: Numbers
    repeated: Numbers

    def of(self, chosen: Numbers) -> Pages:
        """Those that are chosen, by a mask or by their numbers."""
        return Pages._make(column[chosen] for column in self)


def usual_pages(data: bytes, chunks: Chunks) -> tuple[Numbers, Numbers, Pages]:
    """Of which chunks all pages are usual, and as they were written; what texts come to; the pages.

    That is the most bytes that texts of the chunk's dictionary can come to; 0 without a dictionary.
    Of chunks that are not usual the pages mean nothing. There are `HEADER_ROOM` bytes behind the
    last chunk. CPU-heavy: call it in a worker thread.
    """
    good = chunks.start < chunks.end
    at = np.where(good, chunks.start, 0)
    seen, unfolded, texts = (np.zeros(len(at), np.int64) for _ in range(3))
    words = words_of(data)
    found: list[Pages] = []
    for turn in range(_MOST_PAGES):
        (live,) = np.nonzero(good & (at < chunks.end))
        if not len(live):
            break
        page = _Headers(words, at[live])
        end = page.payload + page.size
        is_data = page.kind == _DATA
        named = np.right_shift(chunks.encodings[live] & _USUAL, page.encoding.clip(0, 62)) & 1
        fine = page.good & (named == 1) & (end <= chunks.end[live]) & (is_data | (turn == 0))
        fine &= is_data | (page.values <= page.unfolded)  # of a dictionary
        fine &= _as_written(data, page, end, fine)
        good[live] = fine
        at[live] = np.where(fine, end, at[live])
        seen[live] += np.where(is_data, page.values, 0)
        unfolded[live] += page.unfolded
        sizes = (page.payload, end, page.unfolded, page.values, page.encoding)
        found.append(Pages._make((live, is_data, *sizes, *page.levels)))
        longest = np.maximum(page.unfolded - 4 * page.values, 0)  # each text has its length
        texts[live] += np.where(is_data, 0, longest)
    good &= (at == chunks.end) & (seen == chunks.values) & (unfolded <= chunks.unfolded)
    return good, np.where(good, texts * chunks.values, 0), _in_order(found)


def _in_order(found: Sequence[Pages]) -> Pages:
    whole = Pages._make(map(np.concatenate, zip(*found, strict=True)))
    return whole.of(np.argsort(whole.chunk, kind="stable"))


def _as_written(data: bytes, page: _Headers, end: Numbers, asked: Numbers) -> Numbers:
    """Which payloads have the bytes that their checksums say, of those that are `asked` for."""
    fine = np.ones(len(end), np.bool_)
    summed = np.nonzero(asked & page.has_crc)[0]
    crcs = page.crc[summed] & 0xFFFFFFFF
    view = memoryview(data)
    places: Sequence[Any] = (summed, page.payload[summed], end[summed], crcs)
    for number, start, stop, crc in zip(*(each.tolist() for each in places), strict=True):
        if zlib.crc32(view[start:stop]) != crc:
            fine[number] = False
    return fine


def words_of(data: bytes) -> Numbers:
    """The eight bytes from each byte on, as a number."""
    count = len(data) - 7
    return np.ndarray((count,), np.dtype("<u8"), data, strides=(1,))


class _Headers:
    """The headers of pages that start at some places, whatever is there; `good` says of which."""

    def __init__(self, words: Numbers, at: Numbers) -> None:
        self._words = words
        self._at = at
        self.good = np.ones(len(at), np.bool_)
        first = words[at]
        self.kind = (first >> np.uint64(8)) & np.uint64(0xFF)
        self._expect((first & np.uint64(0xFF)) == _NUMBER)
        self._expect((self.kind == _DATA) | (self.kind == _DICTIONARY))
        self._at = at + 2
        self.unfolded, self.size = self._number(), self._number()
        self.has_crc = self._byte() == _NUMBER
        self.crc = self._number(self.has_crc)
        is_data = self.kind == _DATA
        head = np.where(is_data, np.where(self.has_crc, 0x1C, 0x2C), 0)
        head = np.where(is_data, head, np.where(self.has_crc, 0x3C, 0x4C))
        self._expect(self._byte() == head)
        self._at = self._at + 1
        self.values, self.encoding = self._number(), self._number()
        self.levels = self._number(is_data), self._number(is_data)
        self._skip_statistics(is_data & (self._byte() == _STATISTICS))
        is_sorted = np.isin(self._byte(), (0x11, 0x12)) & ~is_data
        self._at = self._at + is_sorted
        self._expect((self._words[self._at] & np.uint64(0xFFFF)) == 0)
        self.payload = self._at + 2
        for number in (self.unfolded, self.size, self.values, self.encoding):
            self._expect(number >= 0)

    def _expect(self, is_so: Numbers) -> None:
        self.good &= is_so

    def _byte(self) -> Numbers:
        return self._words[self._at] & np.uint64(0xFF)

    def _skip_statistics(self, there: Numbers) -> None:
        """Pass over a struct of numbers, texts and booleans, where it is `there`."""
        last = len(self._words) - HEADER_ROOM // 2
        self._at = self._at + there
        for _ in range(_MOST_FIELDS):
            if not there.any():
                return
            head = self._byte()
            kind = head & np.uint64(0x0F)
            self._at = self._at + there
            there = there & (head != 0)
            is_text, is_number = kind == BINARY, (kind == I32) | (kind == I64)
            self._expect(is_text | is_number | (kind == TRUE) | (kind == FALSE) | ~there)
            value = self._varint(there & (is_text | is_number))
            self._at = self._at + np.where(there & is_text, value, np.uint64(0)).astype(np.int64)
            self._expect(self._at < last)
            self._at = np.minimum(self._at, last)
        self._expect(~there)

    def _number(self, there: Numbers = True) -> Numbers:
        """The 32-bit numbers of the next fields, where they are `there`."""
        self._expect((self._byte() == _NUMBER) | ~np.asarray(there))
        self._at = self._at + there
        value = self._varint(there)
        signed: Numbers = (value >> np.uint64(1)).astype(np.int64)
        return np.where((value & np.uint64(1)) == 1, ~signed, signed)

    def _varint(self, there: Numbers) -> Numbers:
        """The whole numbers of up to 35 bits that come next, where they are `there`."""
        word = self._words[self._at]
        ends = ~word & _WIDE
        length = np.searchsorted(_ENDS, ends & (~ends + np.uint64(1)))  # the lowest of the bits
        self._expect((ends != 0) | ~np.asarray(there))
        word &= np.uint64(0x7F7F7F7F7F) & (np.take(_ENDS, length, mode="clip") - np.uint64(1))
        value: Numbers = word & np.uint64(0x7F)
        for byte in range(1, 5):
            value |= (word >> np.uint64(byte)) & np.uint64(0x7F << 7 * byte)
        self._at = self._at + np.where(there, length + 1, 0)
        return value
