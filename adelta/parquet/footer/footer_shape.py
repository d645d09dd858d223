"""Footers like one that Arrow has read: what they say of chunks, without building Arrow's objects.

The files of a folder mostly have the same schema and writer, so that their footers differ in
numbers and bounds alone. A shape is learnt of one footer: the bytes before and behind its row
groups, and for each leaf a pattern of what a chunk's description is made of: the same fields in the
same order, of the same types, where only whole numbers and bounds may be others. Thrift's compact
protocol has one reading of such bytes, so that a footer that fits a shape says what the shape takes
from it. One that does not fit is Arrow's to read.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from adelta._dataclasses import dataclass
from adelta.parquet.thrift import (
    BINARY,
    BOOLEANS,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    ThriftError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow.parquet as pq

__all__ = ["ChunkFacts", "FooterFacts", "FooterShape"]

_TRAILER: Final = 8  # bytes behind the metadata
_INTEGERS: Final = (I16, I32, I64)
_LEAST_LONG: Final = 2**63
_VARIANTS: Final = 8  # of a leaf's chunks, of which patterns are kept

_ROWS, _GROUPS, _ENCRYPTION = 3, 4, 8  # of FileMetaData
_COLUMNS, _GROUP_ROWS = 1, 3  # of RowGroup
_ELSEWHERE, _META, _CRYPTO = 1, 3, 8  # of ColumnChunk
_TYPE, _VALUES, _STATISTICS = 1, 5, 12  # of ColumnMetaData
_OLD_BOUNDS, _NULLS, _HIGH, _LOW = (1, 2), 3, 5, 6  # of Statistics
_BYTE_ARRAY: Final = 6  # of Type

_VARINT: Final = rb"[\x80-\xff]{0,9}[\x00-\x7f]"
_NUMBER: Final = re.compile(_VARINT, re.DOTALL)
_LONG_LIST: Final = 0xF0 | STRUCT


class ChunkFacts(NamedTuple):
    """What a footer says of a chunk: `low` and `high` are its bounds as they are encoded.

    None of what is not said, or not to be trusted.
    """

    num_values: int
    null_count: int | None
    low: bytes | None
    high: bytes | None


class FooterFacts(NamedTuple):
    """How many rows a file has; and of each row group the chunks; None without statistics."""

    num_rows: int
    groups: tuple[tuple[ChunkFacts | None, ...], ...]


class FooterShape:
    """What the footers of some files have in common; it learns of each that Arrow has read.

    Args:
        footer: one of them, with the eight bytes behind it.
        leaves: how many columns its schema has.

    Raises:
        ThriftError: the footer is damaged, or has more to it than is known.
    """

    def __init__(self, footer: bytes, leaves: int) -> None:
        self._before, groups, start = _up_to_groups(footer)
        reader = CompactReader(footer)
        reader.position = start
        for _ in range(groups):
            reader.skip(STRUCT)
        self._behind = footer[reader.position : -_TRAILER]
        _check_behind(footer, self._before)
        self._leaves: tuple[tuple[_Pattern, ...], ...] = ((),) * leaves
        self._heads: tuple[bytes, ...] = ()
        self._tails: tuple[_Pattern, ...] = ()

    def is_of(self, footer: bytes) -> bool:
        """Whether the footer has the same schema, writer, and texts."""
        return footer.startswith(self._before) and footer.endswith(self._behind, 0, -_TRAILER)

    def read(self, footer: bytes) -> FooterFacts | None:
        """What the footer says; None where it is not of this shape.

        Nor is one whose row groups have other numbers of rows than the file.
        """
        if not self.is_of(footer):
            return None
        try:
            rows, at = _number_at(footer, len(self._before))
            count, at = _groups_at(footer, at)
            groups = []
            held = 0
            for _ in range(count):
                head = next((h for h in self._heads if footer.startswith(h, at)), None)
                if head is None:
                    return None
                at += len(head)
                chunks = []
                for variants in self._leaves:
                    found, at = _first(variants, footer, at)
                    chunks.append(found)
                tail, at = _first(self._tails, footer, at)
                held += 0 if tail is None else tail.num_values
                groups.append(tuple(chunks))
        except ThriftError:
            return None
        if footer[at:-_TRAILER] != self._behind or held != rows:
            return None
        return FooterFacts(rows, tuple(groups))

    def learn(self, footer: bytes, metadata: pq.FileMetaData) -> None:
        """Take in what the row groups of a footer of this shape look like.

        `metadata` is what Arrow makes of it, by which it is known what of it is to be trusted.

        Raises:
            ThriftError: the footer is damaged, or has more to it than is known.
        """
        _, count, start = _up_to_groups(footer)
        reader = CompactReader(footer)
        reader.position = start
        leaves = [list(variants) for variants in self._leaves]
        heads, tails = list(self._heads), list(self._tails)
        for number in range(count):
            self._learn_group(reader, footer, metadata.row_group(number), heads, leaves, tails)
        self._leaves = tuple(tuple(variants[:_VARIANTS]) for variants in leaves)
        self._heads, self._tails = tuple(heads[:_VARIANTS]), tuple(tails[:_VARIANTS])

    def _learn_group(
        self,
        reader: CompactReader,
        footer: bytes,
        group: pq.RowGroupMetaData,
        heads: list[bytes],
        leaves: list[list[_Pattern]],
        tails: list[_Pattern],
    ) -> None:
        start = reader.position
        fields = reader.fields()
        if next(fields, None) != (_COLUMNS, LIST) or reader.list_of(STRUCT) != len(leaves):
            raise ThriftError("a row group that does not begin with its chunks")
        _put(heads, footer[start : reader.position])
        for leaf, variants in enumerate(leaves):
            writer = _PatternWriter(reader, footer)
            writer.chunk()
            pattern = writer.pattern(group.column(leaf))
            if any(known.steps == pattern.steps and known != pattern for known in variants):
                raise ThriftError("bounds that are to be trusted in some chunks alone")
            _put(variants, pattern)
        writer = _PatternWriter(reader, footer, last=_COLUMNS)
        writer.rest_of_group()
        _put(tails, writer.pattern(None))


def _put(known: list[Any], new: Any) -> None:
    """The latest first, each once."""
    if new in known:
        known.remove(new)
    known.insert(0, new)


# --------------------------------------------------------------------------------------- patterns


@dataclass(frozen=True, slots=True)
class _Pattern:
    """Steps over bytes: each is a regular expression, and whether a text with its length follows.

    What the steps find is a row of bytes; `values`, `nulls`, `low` and `high` are places in it.
    Without `is_known` nothing that is said there counts.
    """

    steps: tuple[tuple[re.Pattern[bytes], bool], ...]
    values: int
    nulls: int | None
    low: int | None
    high: int | None
    is_known: bool

    def read(self, data: bytes, at: int) -> tuple[ChunkFacts | None, int] | None:
        """What is said at a place, and where that ends; None where it has another form."""
        found: tuple[bytes, ...] = ()
        for pattern, text_follows in self.steps:
            match = pattern.match(data, at)
            if match is None:
                return None
            found = found + match.groups() if found else match.groups()
            at = match.end()
            if text_follows:
                length, at = _unsigned_at(data, at)
                found += (data[at : at + length],)
                at += length
        if not self.is_known:
            return None, at
        nulls, low, high = self.nulls, self.low, self.high
        facts = ChunkFacts(
            _number(found[self.values]),
            None if nulls is None else _number(found[nulls]),
            None if low is None else found[low],
            None if high is None else found[high],
        )
        return facts, at


def _first(variants: Sequence[_Pattern], data: bytes, at: int) -> tuple[ChunkFacts | None, int]:
    for pattern in variants:
        found = pattern.read(data, at)
        if found is not None:
            return found
    raise ThriftError("a chunk of another form")


class _PatternWriter:
    """Goes over a structure, and writes down what it is made of."""

    def __init__(self, reader: CompactReader, data: bytes, last: int = 0) -> None:
        self._reader = reader
        self._data = data
        self._last = last
        self._text = b""
        self._groups = 0
        self._steps: list[tuple[bytes, bool]] = []
        self._places: dict[str, int] = {}

    def pattern(self, chunk: Any) -> _Pattern:
        """The pattern, of which that counts that Arrow's `chunk` has too; None is no chunk."""
        steps = [*self._steps, (self._text, False)]
        compiled = tuple((re.compile(text, re.DOTALL), more) for text, more in steps)
        place = self._places.get
        if chunk is None:
            return _Pattern(compiled, self._places["rows"], None, None, None, is_known=True)
        found = chunk.statistics
        is_bounded = found is not None and found.has_min_max
        has_nulls = found is not None and found.has_null_count
        if is_bounded and not {"low", "high"} <= set(self._places):
            raise ThriftError("bounds that only old readers know")
        return _Pattern(
            compiled,
            self._places["values"],
            place("nulls") if has_nulls else None,
            place("low") if is_bounded else None,
            place("high") if is_bounded else None,
            is_known=found is not None,
        )

    # ------------------------------------------------------------------------------ structures

    def chunk(self) -> None:
        """A ColumnChunk."""
        for field, kind in self._fields():
            if field == _META and kind == STRUCT:
                self._meta()
            elif field == _ELSEWHERE or field >= _CRYPTO:
                raise ThriftError("a chunk that is encrypted, or in another file")
            else:
                self._any(kind)

    def rest_of_group(self) -> None:
        """A RowGroup behind its chunks."""
        for field, kind in self._fields(self._last):
            if field == _GROUP_ROWS and kind == I64:
                self._integer("rows")
            else:
                self._any(kind)
        if "rows" not in self._places:
            raise ThriftError("a row group without a number of rows")

    def _meta(self) -> None:
        stored_type = -1
        for field, kind in self._fields():
            if field == _TYPE and kind == I32:
                start = self._reader.position
                stored_type = self._reader.integer()
                self._literal(start)
            elif field == _VALUES and kind == I64:
                self._integer("values")
            elif field == _STATISTICS and kind == STRUCT:
                self._statistics(is_long=stored_type == _BYTE_ARRAY)
            else:
                self._any(kind)
        if "values" not in self._places or stored_type < 0:
            raise ThriftError("a chunk without a type, or a number of values")

    def _statistics(self, *, is_long: bool) -> None:
        names = {_LOW: "low", _HIGH: "high"}
        for field, kind in self._fields():
            if field == _NULLS and kind == I64:
                self._integer("nulls")
            elif kind == BINARY and (field in names or field in _OLD_BOUNDS):
                self._bound(names.get(field), is_long=is_long)
            else:
                self._any(kind)

    # ----------------------------------------------------------------------------------- values

    def _fields(self, last: int = 0) -> Any:
        """The fields of a struct: their headers, and the end, are the same bytes in all footers."""
        data, reader = self._data, self._reader
        while True:
            start = reader.position
            if start >= len(data):
                raise ThriftError("a struct without an end")
            header = data[start]
            reader.position += 1
            if header and not header >> 4:
                reader.integer()
                raise ThriftError("fields that are not in order")
            self._literal(start)
            if not header:
                return
            last += header >> 4
            yield last, header & 0x0F

    def _any(self, kind: int) -> None:
        """A value of which nothing is wanted: whole numbers may be others, all else may not."""
        reader = self._reader
        start = reader.position
        if kind in _INTEGERS:
            reader.integer()
            self._text += _VARINT
        elif kind == STRUCT:
            for _, inner in self._fields():
                self._any(inner)
        elif kind == LIST and (inner := self._data[start] & 0x0F) in (*_INTEGERS, STRUCT):
            count = reader.list_of(inner)
            self._literal(start)
            for _ in range(count):
                self._any(inner)
        elif kind in BOOLEANS:
            return
        else:
            reader.skip(kind)
            self._literal(start)

    def _integer(self, name: str) -> None:
        self._reader.integer()
        self._capture(name, _VARINT)

    def _bound(self, name: str | None, *, is_long: bool) -> None:
        start = self._reader.position
        length = len(self._reader.binary())
        if is_long:
            self._steps.append((self._text, True))
            self._text = b""
            if name is not None:
                self._places[name] = self._groups
            self._groups += 1
            return
        self._text += re.escape(self._data[start : self._reader.position - length])
        self._capture(name, b".{%d}" % length)

    def _capture(self, name: str | None, text: bytes) -> None:
        if name is None:
            self._text += text
            return
        self._places[name] = self._groups
        self._groups += 1
        self._text += b"(" + text + b")"

    def _literal(self, start: int) -> None:
        self._text += re.escape(self._data[start : self._reader.position])


# ----------------------------------------------------------------------------------- whole footers


def _up_to_groups(footer: bytes) -> tuple[bytes, int, int]:
    """What is before the number of rows, how many row groups there are, and where they start."""
    reader = CompactReader(footer)
    for field, kind in reader.fields():
        if field == _ROWS and kind == I64:
            before = footer[: reader.position]
            _, at = _number_at(footer, reader.position)
            return before, *_groups_at(footer, at)
        reader.skip(kind)
    raise ThriftError("a footer without a number of rows")


def _groups_at(footer: bytes, at: int) -> tuple[int, int]:
    """How many row groups there are by the header at a place, and where the first one starts."""
    header = footer[at : at + 2]
    if len(header) < 2 or header[0] != 0x10 | LIST or header[1] & 0x0F != STRUCT:
        raise ThriftError("row groups that do not follow the number of rows")
    if header[1] == _LONG_LIST:
        return _unsigned_at(footer, at + 2)
    return header[1] >> 4, at + 2


def _check_behind(footer: bytes, before: bytes) -> None:
    reader = CompactReader(footer)
    for field, kind in reader.fields():
        if field >= _ENCRYPTION:
            raise ThriftError("a footer with more to it than is known")
        reader.skip(kind)
    if reader.position != len(footer) - _TRAILER or len(before) > reader.position:
        raise ThriftError("a footer with more to it than is known")


def _number_at(data: bytes, at: int) -> tuple[int, int]:
    match = _NUMBER.match(data, at)
    if match is None:
        raise ThriftError("an integer without an end")
    return _number(match[0]), match.end()


def _unsigned_at(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    match = _NUMBER.match(data, at)
    if match is None:
        raise ThriftError("an integer without an end")
    return _unsigned(match[0]), match.end()


@lru_cache(maxsize=4096)
def _number(encoded: bytes) -> int:
    """A whole number of a footer that is not negative."""
    value = _unsigned(encoded)
    if value & 1 or value >> 1 >= _LEAST_LONG:
        raise ThriftError("a number that is none of rows or values")
    return value >> 1


def _unsigned(encoded: bytes) -> int:
    value = 0
    for place, byte in enumerate(encoded):
        value |= (byte & 0x7F) << 7 * place
    return value
