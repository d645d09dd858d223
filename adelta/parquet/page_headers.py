"""The pages of a column chunk, by their headers."""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from adelta.parquet.thrift import (
    FALSE,
    VARINT,
    ThriftError,
    read_struct,
    unsigned,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from adelta.parquet.byte_ranges import ByteRange

__all__ = [
    "DATA_PAGE",
    "DATA_PAGE_V2",
    "DICTIONARY_PAGE",
    "BytesAtHand",
    "HeldBytes",
    "Page",
    "PageBytes",
    "pages_of",
]

DATA_PAGE: Final = 0
DICTIONARY_PAGE: Final = 2
DATA_PAGE_V2: Final = 3
_HEADER: Final = 256  # bytes that most headers do not exceed
_LARGEST_HEADER: Final = 16 << 20
_GROWTH: Final = 16
_LENGTH: Final = 3  # the field of the payload's length
_CRC: Final = 4


class Page(NamedTuple):
    """One page.

    Attributes:
        kind: such as `DICTIONARY_PAGE`.
        encoding: of its values.
        values: how many it has, nulls included.
        unfolded: bytes of its payload once it is decompressed.
        levels: bytes in front of the payload that are never compressed.
        compressed: whether the rest of it may be compressed.
        header: the header's bytes.
        length: where the header has the payload's length.
        payload: where the payload is.
        crc: the payload's CRC-32, as a signed number, where there is one.
    """

    kind: int
    encoding: int
    values: int
    unfolded: int
    levels: int
    compressed: bool
    header: bytes
    length: tuple[int, int]
    payload: ByteRange
    crc: int | None

    def starts_with(self, source: PageBytes) -> bytes:
        """The first bytes, up to eight, of what may be compressed of the payload."""
        start, end = self.payload[0] + self.levels, self.payload[1]
        source.seek(start)
        return bytes(source.read(min(8, end - start)))

    def may_be_snappy(self, start: bytes) -> bool:
        """Whether a payload whose compressed bytes start so may be Snappy's."""
        length = self.unfolded - self.levels
        return length >= 0 and start.startswith(varint(length))


class HeldBytes:
    """Bytes of a file, read at once: what looks at many pages need not ask for each.

    It has what this module asks of a file; positions are those of `file`. The pages of a chunk are
    made out once.
    """

    __slots__ = ("_at", "_data", "_known", "_start", "file")

    def __init__(self, file: pa.NativeFile, place: ByteRange) -> None:
        any_file: Any = file  # the stubs know no offset to read at
        self.file = file
        self._start = self._at = place[0]
        self._data: bytes = any_file.read_at(place[1] - place[0], place[0])
        self._known: dict[ByteRange, list[Page]] = {}

    def read_at(self, count: int, at: int) -> bytes:
        """So many bytes from there on."""
        return self._data[at - self._start : at - self._start + count]

    def seek(self, at: int) -> None:
        """The next bytes to be read are those from there on."""
        self._at = at

    def read(self, count: int) -> bytes:
        """So many of the next bytes."""
        found = self.read_at(count, self._at)
        self._at += len(found)
        return found

    read_buffer = read

    def pages(self, place: ByteRange) -> list[Page]:
        """The pages of the chunk at `place`.

        Raises:
            ThriftError: a header is damaged.
        """
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = list(_pages_of(self, place))
        return found


class BytesAtHand:
    """A whole chunk, or more, whose first byte is at the place 0."""

    __slots__ = ("_data",)

    def __init__(self, data: memoryview) -> None:
        self._data = data

    def read_at(self, count: int, at: int) -> bytes:
        """So many bytes from there on."""
        return bytes(self._data[at : at + count])


PageBytes: TypeAlias = "pa.NativeFile | HeldBytes"


def pages_of(source: PageBytes | BytesAtHand, place: ByteRange) -> Iterator[Page]:
    """The pages of the chunk at `place`.

    Raises:
        ThriftError: a header is damaged.
    """
    if isinstance(source, HeldBytes):
        with suppress(ThriftError):  # whoever comes to that page says so
            return iter(source.pages(place))
    return _pages_of(source, place)


def _pages_of(source: PageBytes | BytesAtHand, place: ByteRange) -> Iterator[Page]:
    at, end = place
    file: Any = source  # the stubs know no offset to read at
    while at < end:
        page = _page_at(file, at, end)
        yield page
        at = page.payload[1]


def _page_at(file: Any, at: int, end: int) -> Page:
    """The page whose header is there. Bounds of long texts make headers long."""
    length = _HEADER
    while True:  # a few times as many bytes as it has are read, whatever comes behind it
        try:
            return _page(file.read_at(min(end - at, length), at), at)
        except ThriftError:
            if length >= min(end - at, _LARGEST_HEADER):
                raise
        length *= _GROWTH


@cache
def _usual_header() -> re.Pattern[bytes]:
    """Headers of pages of values and of dictionaries that have no statistics, as most have none."""
    one = b"\x15" + VARINT
    number = b"\x15(" + VARINT + b")"
    checked = b"(?:" + number + rb"[\x1c\x3c]|[\x2c\x4c])"  # or not; and the header of its kind
    rest = b"(?:" + one + one + rb"|[\x11\x12]?)\x00\x00"
    return re.compile(rb"\x15([\x00\x04])" + number * 2 + checked + number * 2 + rest, re.DOTALL)


def _usual_page(data: bytes, start: int) -> Page | None:
    """As `_page`, of a header that has nothing unusual; None where it may have."""
    match = _usual_header().match(data)
    if match is None:
        return None
    kind, unfolded, size, values, encoding = map(_signed, match.group(1, 2, 3, 5, 6))
    crc = None if match[4] is None else _signed(match[4])
    if size < 0 or unfolded < 0 or values < 0:
        return None
    at = start + match.end()
    return Page(
        kind, encoding, values, unfolded, 0, True, match[0], match.span(3), (at, at + size), crc
    )


def _signed(encoded: bytes) -> int:
    value = unsigned(encoded)
    return value >> 1 ^ -(value & 1)


def _page(data: bytes, start: int) -> Page:
    usual = _usual_page(data, start)
    if usual is not None:
        return usual
    places: dict[int, tuple[int, int]] = {}
    fields, at = read_struct(data, 0, places)
    length = places.get(_LENGTH, (0, 0))
    kind, unfolded, size = (_number(fields, field) for field in (1, 2, _LENGTH))
    values = encoding = -1
    levels, compressed = 0, True
    for field, place in ((5, 2), (7, 2), (8, 4)):  # the headers of the three kinds of pages
        inner = fields.get(field)
        if isinstance(inner, dict):
            values, encoding = _number(inner, 1), _number(inner, place)
            if field == 8:
                levels = max(0, _number(inner, 5)) + max(0, _number(inner, 6))
                compressed = inner.get(7) != FALSE
    if not 0 <= levels <= size or unfolded < 0 or values < 0:
        raise ThriftError("a page of less than nothing")
    payload = (start + at, start + at + size)
    crc = fields.get(_CRC)
    crc = crc if isinstance(crc, int) else None
    return Page(
        kind, encoding, values, unfolded, levels, compressed, data[:at], length, payload, crc
    )


def _number(fields: dict[int, Any], field: int) -> int:
    value = fields.get(field)
    return value if isinstance(value, int) else -1
