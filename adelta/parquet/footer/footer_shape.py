"""Footers like one that Arrow has read: what they say of chunks, without building Arrow's objects.

The files of a folder mostly have the same schema and writer, so that their footers differ in
numbers and bounds alone. A shape is learnt of one footer: the bytes before and behind its row
groups, and for each leaf a pattern of what a chunk's description is made of: the same fields in the
same order, of the same types, codecs and encodings, where only other whole numbers and bounds may
differ. Thrift's compact protocol has one reading of such bytes, so that a footer that fits a shape
says what the shape takes from it. One that does not fit is Arrow's to read.
"""

from __future__ import annotations

import re
from copy import copy
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from adelta._dataclasses import dataclass
from adelta.parquet.thrift import (
    BINARY,
    BOOLEANS,
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    VARINT,
    CompactReader,
    ThriftError,
    encoded_integer,
    field_header,
    list_header,
    unsigned,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import pyarrow.parquet as pq

__all__ = [
    "ChunkFacts",
    "ChunkPlace",
    "FooterFacts",
    "FooterPatterns",
    "FooterShape",
    "footer_number",
]

T = TypeVar("T")

_TRAILER: Final = 8  # bytes behind the metadata
_INTEGERS: Final = (I16, I32, I64)
_LEAST_LONG: Final = 2**63
_VARIANTS: Final = 8  # of a leaf's chunks, of which patterns are kept

_ROWS, _GROUPS, _ENCRYPTION = 3, 4, 8  # of FileMetaData
_COLUMNS, _GROUP_ROWS = 1, 3  # of RowGroup
_ELSEWHERE, _META, _CRYPTO = 1, 3, 8  # of ColumnChunk
_TYPE, _ENCODINGS, _PATH, _CODEC, _VALUES, _STATISTICS = 1, 2, 3, 4, 5, 12  # of ColumnMetaData
_SIZES: Final = {6: "unfolded", 7: "stored", 9: "data", 11: "dictionary"}
_OLD_BOUNDS, _NULLS, _HIGH, _LOW = (1, 2), 3, 5, 6  # of Statistics
_BYTE_ARRAY: Final = 6  # of Type
_LAST_ENCODING: Final = 62  # of which a bit tells; there are ten

_NUMBER: Final = re.compile(VARINT, re.DOTALL)
_LONG_LIST: Final = 0xF0 | STRUCT


class ChunkFacts(NamedTuple):
    """What a footer says of a chunk: `low` and `high` are its bounds as they are encoded.

    None of what is not said, or not to be trusted.
    """

    num_values: int
    null_count: int | None
    low: bytes | None
    high: bytes | None


class ChunkPlace(NamedTuple):
    """Where a footer says that a chunk is, how many values it has, and bytes of its pages.

    `codec` is Parquet's number of it, `encodings` has a bit for each one that the footer names.
    """

    start: int
    end: int
    num_values: int
    unfolded: int
    codec: int
    encodings: int


class FooterFacts(NamedTuple):
    """How many rows a file has; and of each row group the chunks; None without statistics."""

    num_rows: int
    groups: tuple[tuple[ChunkFacts | None, ...], ...]


class FooterPatterns(NamedTuple):
    """What a footer of one row group is made of: bytes, and the patterns of all between them."""

    before: bytes
    head: bytes
    chunks: tuple[_Pattern, ...]
    tail: _Pattern
    behind: bytes


class FooterShape:
    """What the footers of some files have in common: `learn` of each that Arrow has read.

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
        found = self._read(footer, _Pattern.facts)
        return None if found is None else FooterFacts(found[0], tuple(map(tuple, found[1])))

    def places(self, footer: bytes) -> list[list[ChunkPlace]] | None:
        """Where it says that the chunks of each row group are; None where `read` is None."""
        found = self._read(footer, _Pattern.place)
        return None if found is None else found[1]

    def whole(self, footer: bytes) -> tuple[int, list[ChunkPlace]] | None:
        """The number of rows, and the places of all chunks, of a file of one row group.

        None of another one, and where `read` is None.
        """
        found = self._read(footer, _Pattern.place)
        if found is None or len(found[1]) != 1:
            return None
        rows, (chunks,) = found
        return rows, chunks

    def patterns_of(self, footer: bytes) -> FooterPatterns | None:
        """The patterns that a footer of one row group fits; None of another, or one not to read."""
        found = self._read(footer, lambda pattern, _: pattern)
        if found is None or len(found[1]) != 1:
            return None
        _, after_rows = _number_at(footer, len(self._before))
        _, start = _groups_at(footer, after_rows)
        head, chunks, tail, _, _ = self._group(footer, start, lambda pattern, _: pattern)
        start += len(head)
        return FooterPatterns(
            self._before, footer[after_rows:start], tuple(chunks), tail, self._behind
        )

    def footer_of(self, rows: int, groups: Sequence[bytes]) -> bytes:
        """The end of a file of so many rows in these row groups, and all else as here."""
        count = list_header(STRUCT, len(groups))
        head = (self._before, encoded_integer(rows), field_header(LIST, 1), count)
        body = b"".join((*head, *groups, self._behind))
        return body + len(body).to_bytes(4, "little") + b"PAR1"

    def _read(
        self, footer: bytes, take: Callable[[_Pattern, tuple[bytes, ...]], T]
    ) -> tuple[int, list[list[T]]] | None:
        """The number of rows, and what is taken from each chunk of each row group."""
        if not self.is_of(footer):
            return None
        try:
            rows, at = _number_at(footer, len(self._before))
            count, at = _groups_at(footer, at)
            groups = []
            held = 0
            for _ in range(count):
                _, chunks, _, own, at = self._group(footer, at, take)
                held += own
                groups.append(chunks)
        except ThriftError:
            return None
        if footer[at:-_TRAILER] != self._behind or held != rows:
            return None
        return rows, groups

    def _group(
        self, footer: bytes, at: int, take: Callable[[_Pattern, tuple[bytes, ...]], T]
    ) -> tuple[bytes, list[T], _Pattern, int, int]:
        """The head of a row group, its chunks, its tail, its rows, and where it ends.

        Raises:
            ThriftError: it is of another form.
        """
        head = next((h for h in self._heads if footer.startswith(h, at)), None)
        if head is None:
            raise ThriftError("a row group of another form")
        at += len(head)
        chunks = []
        for variants in self._leaves:
            pattern, found, at = _first(variants, footer, at)
            chunks.append(take(pattern, found))
        pattern, found, at = _first(self._tails, footer, at)
        return head, chunks, pattern, footer_number(found[pattern.values]), at

    def learn(self, footer: bytes, metadata: pq.FileMetaData) -> FooterShape:
        """The shape that knows what the row groups of a footer like its own look like, too.

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
        learnt = copy(self)
        learnt._leaves = tuple(tuple(variants[:_VARIANTS]) for variants in leaves)
        learnt._heads, learnt._tails = tuple(heads[:_VARIANTS]), tuple(tails[:_VARIANTS])
        return learnt

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
    """Steps over bytes: a regular expression, the bytes behind it, whether a text is behind those.

    A chunk's name is such bytes, so that leaves of one kind share the expressions, whose making is
    what costs. What the steps find is a row of bytes, in which the numbers are places. Without
    `is_known` no statistics that are found there count.
    """

    steps: tuple[tuple[re.Pattern[bytes], bytes, bool], ...]
    values: int
    nulls: int | None = None
    low: int | None = None
    high: int | None = None
    unfolded: int = 0
    stored: int = 0
    data: int = 0
    dictionary: int | None = None
    is_known: bool = False
    codec: int = 0
    encodings: int = 0

    def match(self, data: bytes, at: int) -> tuple[tuple[bytes, ...], int] | None:
        """What the steps find at a place, and where that ends; None where it has another form."""
        found: tuple[bytes, ...] = ()
        for pattern, behind, text_follows in self.steps:
            match = pattern.match(data, at)
            if match is None:
                return None
            found = found + match.groups() if found else match.groups()
            at = match.end()
            if behind:
                if not data.startswith(behind, at):
                    return None
                at += len(behind)
            elif text_follows:
                length, at = _unsigned_at(data, at)
                found += (data[at : at + length],)
                at += length
        return found, at

    def facts(self, found: tuple[bytes, ...]) -> ChunkFacts | None:
        """What is said there that counts; None without statistics. Raises: ThriftError."""
        if not self.is_known:
            return None
        nulls, low, high = self.nulls, self.low, self.high
        return ChunkFacts(
            footer_number(found[self.values]),
            None if nulls is None else footer_number(found[nulls]),
            None if low is None else found[low],
            None if high is None else found[high],
        )

    def place(self, found: tuple[bytes, ...]) -> ChunkPlace:
        """Where the chunk is said to be. Raises: ThriftError."""
        start = footer_number(found[self.data])
        if self.dictionary is not None:
            dictionary = footer_number(found[self.dictionary])
            start = dictionary if 0 < dictionary < start else start
        end = start + footer_number(found[self.stored])
        values, unfolded = footer_number(found[self.values]), footer_number(found[self.unfolded])
        return ChunkPlace(start, end, values, unfolded, self.codec, self.encodings)


def _first(
    variants: Sequence[_Pattern], data: bytes, at: int
) -> tuple[_Pattern, tuple[bytes, ...], int]:
    """The pattern that fits at a place, what it finds, and where that ends."""
    for pattern in variants:
        found = pattern.match(data, at)
        if found is not None:
            return pattern, *found
    raise ThriftError("a chunk of another form")


class _PatternWriter:
    """Goes over a structure, and writes down what it is made of."""

    def __init__(self, reader: CompactReader, data: bytes, last: int = 0) -> None:
        self._reader = reader
        self._data = data
        self._last = last
        self._text = b""
        self._groups = 0
        self._steps: list[tuple[bytes, bytes, bool]] = []
        self._places: dict[str, int] = {}
        self._codec = self._encodings = 0

    def pattern(self, chunk: Any) -> _Pattern:
        """The pattern, of which that counts that Arrow's `chunk` has too; None is no chunk."""
        steps = [*self._steps, (self._text, b"", False)]
        compiled = tuple(
            (re.compile(text, re.DOTALL), behind, more) for text, behind, more in steps
        )
        place = self._places.get
        if chunk is None:
            return _Pattern(compiled, self._places["rows"])
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
            self._places["unfolded"],
            self._places["stored"],
            self._places["data"],
            place("dictionary"),
            is_known=found is not None,
            codec=self._codec,
            encodings=self._encodings,
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
            elif field == _PATH and kind == LIST:
                start = self._reader.position
                self._reader.skip(kind)
                self._step(self._data[start : self._reader.position])
            elif field == _ENCODINGS and kind == LIST:  # Arrow knows those that it has read
                start = self._reader.position
                for _ in range(self._reader.list_of(I32)):
                    self._encodings |= 1 << max(0, min(self._reader.integer(), _LAST_ENCODING))
                self._literal(start)
            elif field == _CODEC and kind == I32:
                start = self._reader.position
                self._codec = self._reader.integer()
                self._literal(start)
            elif field == _VALUES and kind == I64:
                self._integer("values")
            elif field in _SIZES and kind == I64:
                self._integer(_SIZES[field])
            elif field == _STATISTICS and kind == STRUCT:
                self._statistics(is_long=stored_type == _BYTE_ARRAY)
            else:
                self._any(kind)
        if stored_type < 0 or not {"values", "unfolded", "stored", "data"} <= set(self._places):
            raise ThriftError("a chunk without a type, a number of values, or a place")

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
            self._text += VARINT
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
        self._capture(name, VARINT)

    def _bound(self, name: str | None, *, is_long: bool) -> None:
        start = self._reader.position
        length = len(self._reader.binary())
        if is_long:
            self._step(b"", text_follows=True)
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

    def _step(self, behind: bytes, *, text_follows: bool = False) -> None:
        self._steps.append((self._text, behind, text_follows))
        self._text = b""

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
    return footer_number(match[0]), match.end()


def _unsigned_at(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    match = _NUMBER.match(data, at)
    if match is None:
        raise ThriftError("an integer without an end")
    return unsigned(match[0]), match.end()


def footer_number(encoded: bytes) -> int:
    """A whole number of a footer that is not negative."""
    value = unsigned(encoded)
    if value & 1 or value >> 1 >= _LEAST_LONG:
        raise ThriftError("a number that is none of rows or values")
    return value >> 1
