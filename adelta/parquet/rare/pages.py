"""The pages of a column chunk that has few values: their levels as runs, and the values."""

from __future__ import annotations

import zlib
from itertools import groupby, islice
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

from adelta.parquet.page_headers import (
    DATA_PAGE,
    DATA_PAGE_V2,
    DICTIONARY_PAGE,
    BytesAtHand,
    pages_of,
)
from adelta.parquet.thrift import read_struct

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from adelta.parquet.byte_ranges import ByteRange
    from adelta.parquet.page_headers import Page

__all__ = ["Allowance", "ChunkFacts", "Level", "Run", "UnusualFileError", "read_chunk"]

Run: TypeAlias = tuple[int, int, int]
"""A level of repetition, one of definition, and how many entries in a row have both."""

_MOST: Final = 500_000  # values, runs and the like: some half a second, and 100 MB
_A_PAGE: Final = 16  # as many of them it takes as long as
_FIRST_PAGE: Final = 4  # behind the magic
_PLAIN: Final = 0
_DICTIONARIES: Final = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
_RLE: Final = 3
_V1, _V2 = 5, 8  # where a page's header has that of its kind
_V1_DEFINITIONS, _V1_REPETITIONS = 3, 4  # their encodings
_V2_DEFINITIONS, _V2_REPETITIONS = 5, 6  # their bytes
_LENGTH: Final = Struct("<I")
_LAST_SHIFT: Final = 28  # of the header of a run, which has up to 32 bits
_BOOLEAN, _INT32, _INT64, _BYTE_ARRAY = 0, 1, 2, 6
_NUMBERS: Final = {_INT32: "i", _INT64: "q"}


class UnusualFileError(ValueError):
    """A file that has more to it than is known here, or is damaged."""


class Allowance:
    """How much may still be made of a file, in values, runs and rows, so that it stays little.

    Neither a file's bytes nor those of its pages bound that: a run of a few bytes stands for
    billions of values, and row groups may share their pages.
    """

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MOST

    def take(self, count: int) -> None:
        """Take so many of what is left.

        Raises:
            UnusualFileError: there are fewer.
        """
        self._left -= count
        if self._left < 0:
            raise UnusualFileError("very many values")


class Level(NamedTuple):
    """The levels that a value has which is there."""

    definition: int
    repetition: int


class ChunkFacts(NamedTuple):
    """What a footer says of a chunk.

    Attributes:
        place: where it is in the file.
        kind: its physical type.
        codec: its codec.
        unfolded: bytes of its pages once they are decompressed.
        num_values: how many values it has, nulls included.
        null_count: how many nulls, where that is said.
    """

    place: ByteRange
    kind: int
    codec: int
    unfolded: int
    num_values: int
    null_count: int | None

    @classmethod
    def of(cls, meta: dict[int, Any], kind: int, end: int) -> ChunkFacts:
        """Of its `ColumnMetaData`, from the codec on, in a file whose pages lie before `end`.

        Raises:
            UnusualFileError: they do not say where it is, or it is of an unknown codec.
        """
        codec, num_values, unfolded, size, data, dictionary = (
            meta.get(field) for field in (4, 5, 6, 7, 9, 11)
        )
        numbers = (codec, num_values, unfolded, size, data)
        if not all(isinstance(number, int) and number >= 0 for number in numbers):
            raise UnusualFileError("a chunk of less than nothing")
        assert isinstance(data, int)
        assert isinstance(size, int)
        start = dictionary if isinstance(dictionary, int) and 0 < dictionary < data else data
        if not num_values:  # nobody has written where it is
            return cls((0, 0), kind, codec, 0, 0, 0)  # type: ignore[arg-type]
        if codec not in (0, *_CODECS):
            raise UnusualFileError(f"the codec {codec}")
        if not _FIRST_PAGE <= start <= data < start + size <= end:
            raise UnusualFileError("a chunk that is not in the file")
        statistics = meta.get(12)
        nulls = statistics.get(3) if isinstance(statistics, dict) else None
        place = (start, start + size)
        return cls(place, kind, codec, unfolded, num_values, nulls)  # type: ignore[arg-type]


def read_chunk(
    facts: ChunkFacts, level: Level, data: memoryview, allowance: Allowance
) -> tuple[list[Run], list[Any]]:
    """The levels of all entries of a chunk, whose bytes are `data`, and the values that are there.

    Raises:
        UnusualFileError: it has more to it than is known here, or is damaged.
        ThriftError, LookupError, UnicodeDecodeError: it is damaged.
    """
    runs: list[Run] = []
    values: list[Any] = []
    dictionary: list[Any] | None = None
    left, room = facts.num_values, facts.unfolded
    start = facts.place[0]
    for page in pages_of(BytesAtHand(data), (0, len(data))):
        allowance.take(_A_PAGE)
        payload = data[slice(*page.payload)]
        room -= page.unfolded
        if len(payload) != page.payload[1] - page.payload[0] or room < 0:
            raise UnusualFileError(f"a page at {start + page.payload[0]:,} that is cut, or large")
        if page.crc is not None and zlib.crc32(payload) != page.crc & 0xFFFFFFFF:
            raise UnusualFileError(f"the page at {start + page.payload[0]:,} is damaged")
        if page.kind == DICTIONARY_PAGE:
            if dictionary is not None or page.encoding not in (_PLAIN, *_DICTIONARIES):
                raise UnusualFileError("an unknown dictionary")
            content = _unfolded(page, payload, facts.codec)
            dictionary = _plain_values(content, 0, facts.kind, page.values, allowance)
            continue
        if page.kind not in (DATA_PAGE, DATA_PAGE_V2) or page.values > left:
            raise UnusualFileError("a page of an unknown kind, or with too many values")
        left -= page.values
        own, content, at = _levels(page, payload, facts.codec, level, allowance)
        count = sum(many for _, definition, many in own if definition == level.definition)
        runs += own
        values += _page_values(page, content, at, facts.kind, count, dictionary, allowance)
    if left:
        raise UnusualFileError("a chunk with fewer values than its footer says")
    return runs, values


def _unfolded(page: Page, payload: memoryview, codec: int) -> memoryview:
    """What of a page may be compressed, decompressed."""
    folded, size = payload[page.levels :], page.unfolded - page.levels
    if not page.compressed or codec == 0:
        found = folded
    elif not size:
        return memoryview(b"")
    else:
        found = _CODECS[codec](folded, size)
    if len(found) != size:
        raise UnusualFileError(f"{len(found):,} bytes where a page has {size:,}")
    return found


def _snappy(folded: memoryview, size: int) -> memoryview:
    from adelta.parquet.snappy import unsnapped

    into = memoryview(bytearray(size))
    try:
        unsnapped(folded, into)
    except ValueError as error:
        raise UnusualFileError(str(error)) from error
    return into


def _gzip(folded: memoryview, size: int) -> memoryview:
    try:
        return memoryview(zlib.decompressobj(wbits=31).decompress(folded, size))
    except zlib.error as error:
        raise UnusualFileError(str(error)) from error


def _zstd(folded: memoryview, size: int) -> memoryview:
    import cramjam

    into = memoryview(bytearray(size))
    try:
        return into[: cramjam.zstd.decompress_into(folded, into)]
    except cramjam.DecompressionError as error:
        raise UnusualFileError(str(error)) from error


_CODECS: Final[dict[int, Callable[[memoryview, int], memoryview]]] = {
    1: _snappy,
    2: _gzip,
    6: _zstd,
}


def _levels(
    page: Page, payload: memoryview, codec: int, level: Level, allowance: Allowance
) -> tuple[list[Run], memoryview, int]:
    """The levels of a page; and its content, with the place in it at which the values begin."""
    header, _ = read_struct(page.header)
    inner = header[_V1 if page.kind == DATA_PAGE else _V2]
    if not isinstance(inner, dict):
        raise UnusualFileError("a page of another kind than its header says")
    content = _unfolded(page, payload, codec)
    if page.kind == DATA_PAGE_V2:
        split, end = inner[_V2_REPETITIONS], page.levels
        if not isinstance(split, int) or not 0 <= split <= end:
            raise UnusualFileError("levels of less than nothing")
        if inner[_V2_DEFINITIONS] != end - split:
            raise UnusualFileError("levels of less than nothing")
        repetitions, definitions, at = payload[:split], payload[split:end], 0
    else:
        at = 0
        repetitions = definitions = memoryview(b"")
        if level.repetition:
            _check_encoding(inner[_V1_REPETITIONS])
            repetitions, at = _prefixed(content, at)
        if level.definition:
            _check_encoding(inner[_V1_DEFINITIONS])
            definitions, at = _prefixed(content, at)
    runs = _merged(
        _runs(repetitions, level.repetition.bit_length(), page.values, allowance),
        _runs(definitions, level.definition.bit_length(), page.values, allowance),
    )
    if any(r > level.repetition or d > level.definition for r, d, _ in runs):
        raise UnusualFileError("a level above the highest")
    return runs, content, at


def _check_encoding(encoding: int) -> None:
    if encoding != _RLE:
        raise UnusualFileError(f"levels of the encoding {encoding}")


def _prefixed(content: memoryview, at: int) -> tuple[memoryview, int]:
    """Bytes behind their length, and where they end."""
    if at + 4 > len(content):
        raise UnusualFileError("a page without levels")
    (length,) = _LENGTH.unpack_from(content, at)
    end = at + 4 + length
    if end > len(content):
        raise UnusualFileError("levels that are cut")
    return content[at + 4 : end], end


def _runs(data: memoryview, width: int, count: int, allowance: Allowance) -> list[tuple[int, int]]:
    """`count` numbers of `width` bits in runs, each a number and how often it comes."""
    if not width:
        return [(0, count)] if count else []
    runs: list[tuple[int, int]] = []
    at, size = 0, (width + 7) // 8
    while count:
        header = shift = 0
        while True:
            byte = data[at]
            at += 1
            header |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > _LAST_SHIFT:
                raise UnusualFileError("a run without an end")
        if not header >> 1:
            raise UnusualFileError("a run of nothing")
        if header & 1:
            many = min(count, (header >> 1) * 8)
            end = at + -(-many // 8) * width
            if end > len(data):
                raise UnusualFileError("packed numbers that are cut")
            allowance.take(many)
            numbers = islice(_packed(data[at:end], width), many)
            runs += [(number, sum(1 for _ in same)) for number, same in groupby(numbers)]
            at = min(len(data), at + (header >> 1) * width)
        else:
            many = min(count, header >> 1)
            end = at + size
            if end > len(data):
                raise UnusualFileError("a run that is cut")
            allowance.take(1)
            runs.append((int.from_bytes(data[at:end], "little"), many))
            at = end
        count -= many
    return runs


def _packed(data: memoryview, width: int) -> Iterator[int]:
    """Numbers of `width` bits each, eight in as many bytes."""
    mask = (1 << width) - 1
    known: dict[bytes, list[int]] = {}
    for at in range(0, len(data), width):
        eight = bytes(data[at : at + width])
        numbers = known.get(eight)
        if numbers is None:
            bits = int.from_bytes(eight, "little")
            numbers = known[eight] = [bits >> place & mask for place in range(0, 8 * width, width)]
        yield from numbers


def _merged(
    repetitions: Sequence[tuple[int, int]], definitions: Sequence[tuple[int, int]]
) -> list[Run]:
    """Runs of both levels, which have the same number of entries, together."""
    found: list[Run] = []
    others: Iterator[tuple[int, int]] = iter(definitions)
    definition = left = 0
    for repetition, count in repetitions:
        while count:
            if not left:
                definition, left = next(others)
            many = min(count, left)
            found.append((repetition, definition, many))
            count -= many
            left -= many
    return found


def _page_values(
    page: Page,
    content: memoryview,
    at: int,
    kind: int,
    count: int,
    dictionary: Sequence[Any] | None,
    allowance: Allowance,
) -> Sequence[Any]:
    if not count:
        return ()
    if page.encoding == _PLAIN:
        return _plain_values(content, at, kind, count, allowance)
    allowance.take(count)
    if page.encoding == _RLE and kind == _BOOLEAN:
        truths = _runs(_prefixed(content, at)[0], 1, count, allowance)
        return [bool(value) for value, many in truths for _ in range(many)]
    if page.encoding not in _DICTIONARIES or dictionary is None:
        raise UnusualFileError(f"values of the encoding {page.encoding}")
    width = content[at]
    if width > 32:
        raise UnusualFileError("numbers of entries that are very wide")
    runs = _runs(content[at + 1 :], width, count, allowance)
    return [dictionary[number] for number, many in runs for _ in range(many)]


def _plain_values(
    content: memoryview, at: int, kind: int, count: int, allowance: Allowance
) -> list[Any]:
    allowance.take(count)
    if kind == _BOOLEAN:
        bits = content[at : at + -(-count // 8)]
        if len(bits) * 8 < count:
            raise UnusualFileError("truths that are cut")
        return [bool(bits[place >> 3] >> (place & 7) & 1) for place in range(count)]
    if kind in _NUMBERS:
        numbers = Struct(f"<{count}{_NUMBERS[kind]}")
        if at + numbers.size > len(content):
            raise UnusualFileError("numbers that are cut")
        return [*numbers.unpack_from(content, at)]
    if kind != _BYTE_ARRAY:
        raise UnusualFileError(f"values of the type {kind}")
    return [*islice(_texts(content, at), count)]


def _texts(content: memoryview, at: int) -> Iterator[str]:
    while True:
        text, at = _prefixed(content, at)
        yield str(text, "utf-8")
