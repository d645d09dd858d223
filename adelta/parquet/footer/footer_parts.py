"""A footer taken apart into its own bytes, and a footer put together of such parts.

That is for column chunks that are copied into another file as they are: all that is said of them
goes along byte for byte, but for where they, and the indexes of their pages, are.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from adelta._dataclasses import dataclass
from adelta.parquet.thrift import (
    I16,
    I32,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    ThriftError,
    encoded_integer,
    field_header,
    list_header,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from adelta.parquet.byte_ranges import ByteRange

__all__ = [
    "FooterParts",
    "GroupParts",
    "StoredChunk",
    "assembled_footer",
    "footer_parts",
    "moved_offset_index",
]

_MAGIC: Final = b"PAR1"
_STOP: Final = b"\0"
_WIDEST: Final = 15  # a step from one field's id to the next that a header has room for
_LAST_ORDINAL: Final = 2**15 - 1  # of a row group

_VERSION, _SCHEMA, _ROWS, _GROUPS, _WRITER, _ENCRYPTION = 1, 2, 3, 4, 6, 8  # of FileMetaData
_COLUMNS, _BYTES, _GROUP_ROWS = 1, 2, 3  # of RowGroup
_GROUP_START, _COMPRESSED, _ORDINAL = 5, 6, 7
_ELSEWHERE, _CHUNK_OFFSET, _META = 1, 2, 3  # of ColumnChunk
_OFFSET_INDEX, _OFFSET_INDEX_LENGTH, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH = 4, 5, 6, 7
_CODEC, _UNCOMPRESSED_SIZE, _COMPRESSED_SIZE = 4, 6, 7  # of ColumnMetaData
_DATA, _INDEX_PAGE, _DICTIONARY = 9, 10, 11
_BLOOM, _BLOOM_LENGTH = 14, 15
_PAGE_LOCATIONS = 1  # of OffsetIndex
_PAGE_OFFSET = 1  # of PageLocation

Field: TypeAlias = tuple[int, int, bytes]
"""The id of a field, its type, and its value as it is encoded."""


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """What a footer says of a column chunk, whose pages lie from `start` to `end`.

    Where a file has them, `column_index` and `offset_index` say where the indexes of its pages are.
    """

    fields: tuple[Field, ...]
    start: int
    end: int
    codec: int
    uncompressed: int
    column_index: ByteRange | None = None
    offset_index: ByteRange | None = None

    def moved(
        self, start: int, column_index: ByteRange | None, offset_index: ByteRange | None
    ) -> StoredChunk:
        """The same chunk at another place."""
        by = start - self.start
        fields = tuple(
            (field, kind, encoded_integer(_integer(raw) + by) if field in _PLACES else raw)
            for field, kind, raw in self.fields
        )
        return replace(
            self,
            fields=fields,
            start=start,
            end=self.end + by,
            column_index=column_index,
            offset_index=offset_index,
        )


_PLACES: Final = (_DATA, _DICTIONARY)
_NOT_COPIED: Final = (_INDEX_PAGE, _BLOOM, _BLOOM_LENGTH)


@dataclass(frozen=True, slots=True)
class GroupParts:
    """A row group: how many rows it has, and its chunks in the order of the schema's leaves."""

    num_rows: int
    chunks: tuple[StoredChunk, ...]


@dataclass(frozen=True, slots=True)
class FooterParts:
    """A footer: its row groups; and what comes before and behind them, in its own bytes.

    What comes before is the version and the schema, what comes behind the texts that are kept in
    the file, the name of the writer, and how the columns' values are ordered.
    """

    before: tuple[Field, ...]
    groups: tuple[GroupParts, ...]
    behind: tuple[Field, ...]

    @property
    def codec(self) -> int | None:
        """The codec of all chunks; None where there are several, or none."""
        codecs = {chunk.codec for group in self.groups for chunk in group.chunks}
        return codecs.pop() if len(codecs) == 1 else None

    def is_alike(self, other: FooterParts) -> bool:
        """Whether the row groups of one can be those of the other."""
        return self.before == other.before and self.behind == other.behind


def footer_parts(footer: bytes | memoryview) -> FooterParts:
    """The parts of a footer, which are as the file has them: nothing is held to the file.

    Raises:
        ThriftError: the footer is damaged, or chunks are encrypted, or in other files.
    """
    reader = CompactReader(footer)
    before: list[Field] = []
    behind: list[Field] = []
    groups: list[GroupParts] = []
    for field, kind in reader.fields():
        if field == _GROUPS and kind == LIST:
            groups = [_group(reader) for _ in range(reader.list_of(STRUCT))]
        elif field == _ROWS:
            reader.skip(kind)
        elif field >= _ENCRYPTION:
            raise ThriftError("a footer with more to it than is known")
        else:
            (before if field < _ROWS else behind).append((field, kind, reader.skipped(kind)))
    return FooterParts(_ordered(before), tuple(groups), _ordered(behind))


def assembled_footer(alike: FooterParts, groups: Sequence[GroupParts]) -> bytes:
    """The end of a file that has these row groups, and all else as in the footer `alike`."""
    rows = sum(group.num_rows for group in groups)
    encoded = b"".join(_encoded_group(group, at) for at, group in enumerate(groups))
    body = _struct(
        (
            *alike.before,
            (_ROWS, I64, encoded_integer(rows)),
            (_GROUPS, LIST, list_header(STRUCT, len(groups)) + encoded),
            *alike.behind,
        )
    )
    return body + len(body).to_bytes(4, "little") + _MAGIC


def moved_offset_index(index: bytes, by: int) -> bytes:
    """The offset index of a chunk whose pages have been moved by so many bytes.

    Raises:
        ThriftError: the index is damaged.
    """
    reader = CompactReader(index)
    fields: list[Field] = []
    for field, kind in reader.fields():
        if field != _PAGE_LOCATIONS or kind != LIST:
            fields.append((field, kind, reader.skipped(kind)))
            continue
        count = reader.list_of(STRUCT)
        parts = [list_header(STRUCT, count)]
        for _ in range(count):
            place = []
            for inner, inner_kind in reader.fields():
                raw = reader.skipped(inner_kind)
                if inner == _PAGE_OFFSET:
                    if (moved := _integer(raw) + by) < 0:
                        raise ThriftError("a page in front of its file")
                    raw = encoded_integer(moved)
                place.append((inner, inner_kind, raw))
            parts.append(_struct(place))
        fields.append((field, kind, b"".join(parts)))
    return _struct(fields)


# ---------------------------------------------------------------------------------------- reading


def _integer(raw: bytes) -> int:
    return CompactReader(raw).integer()


def _group(reader: CompactReader) -> GroupParts:
    rows = 0
    chunks: list[StoredChunk] = []
    for field, kind in reader.fields():
        if field == _COLUMNS and kind == LIST:
            chunks = [_chunk(reader) for _ in range(reader.list_of(STRUCT))]
        elif field == _GROUP_ROWS and kind == I64:
            rows = reader.integer()
        else:
            reader.skip(kind)
    if rows < 0:
        raise ThriftError("a row group of less than no rows")
    return GroupParts(rows, tuple(chunks))


def _chunk(reader: CompactReader) -> StoredChunk:
    fields: list[Field] = []
    numbers: dict[int, int] = {}
    for field, kind in reader.fields():
        if field == _META and kind == STRUCT:
            fields = [
                (inner, inner_kind, reader.skipped(inner_kind))
                for inner, inner_kind in reader.fields()
            ]
        elif field == _ELSEWHERE or field > _COLUMN_INDEX_LENGTH:
            raise ThriftError("a chunk that is encrypted, or in another file")
        elif kind in (I16, I32, I64):
            numbers[field] = reader.integer()
        else:
            reader.skip(kind)
    said = {field: _integer(raw) for field, kind, raw in fields if kind in (I32, I64)}
    places = [said[field] for field in _PLACES if field in said]
    start, size = min(places, default=-1), said.get(_COMPRESSED_SIZE, -1)
    codec, uncompressed = said.get(_CODEC, -1), said.get(_UNCOMPRESSED_SIZE, -1)
    nowhere = _DATA not in said or start < len(_MAGIC) or max(places) >= start + size
    if nowhere or min(codec, uncompressed) < 0:
        raise ThriftError("a chunk that is nowhere")
    return StoredChunk(
        _ordered([each for each in fields if each[0] not in _NOT_COPIED]),
        start,
        start + size,
        codec,
        uncompressed,
        _range(numbers, _COLUMN_INDEX, _COLUMN_INDEX_LENGTH),
        _range(numbers, _OFFSET_INDEX, _OFFSET_INDEX_LENGTH),
    )


def _ordered(fields: Sequence[Field]) -> tuple[Field, ...]:
    """The fields, which can be written as they were read."""
    if any(before[0] >= after[0] for before, after in pairwise([(0, 0, b""), *fields])):
        raise ThriftError("fields that are not in order")
    return tuple(fields)


def _range(numbers: dict[int, int], at: int, length: int) -> ByteRange | None:
    start = numbers.get(at, 0)
    end = start + numbers.get(length, 0)
    return (start, end) if 0 < start < end else None


# ---------------------------------------------------------------------------------------- writing


def _struct(fields: Iterable[Field]) -> bytes:
    return b"".join((*_headed(fields), _STOP))


def _headed(fields: Iterable[Field]) -> Iterator[bytes]:
    last = 0
    for field, kind, raw in fields:
        step = field - last
        if step <= 0:
            raise ThriftError("fields that are not in order")
        if step <= _WIDEST:
            yield field_header(kind, step)
        else:  # its number is by itself
            yield field_header(kind, 0) + encoded_integer(field)
        yield raw
        last = field


def _encoded_group(group: GroupParts, ordinal: int) -> bytes:
    chunks = b"".join(map(_encoded_chunk, group.chunks))
    number = encoded_integer
    numbered = ((_ORDINAL, I16, number(ordinal)),) if ordinal <= _LAST_ORDINAL else ()
    return _struct(
        (
            (_COLUMNS, LIST, list_header(STRUCT, len(group.chunks)) + chunks),
            (_BYTES, I64, number(sum(chunk.uncompressed for chunk in group.chunks))),
            (_GROUP_ROWS, I64, number(group.num_rows)),
            (_GROUP_START, I64, number(min((chunk.start for chunk in group.chunks), default=0))),
            (_COMPRESSED, I64, number(sum(chunk.end - chunk.start for chunk in group.chunks))),
            *numbered,
        )
    )


def _encoded_chunk(chunk: StoredChunk) -> bytes:
    fields: list[Field] = [
        (_CHUNK_OFFSET, I64, encoded_integer(0)),  # where this is stored once more: nowhere
        (_META, STRUCT, _struct(chunk.fields)),
    ]
    for at, length, place in (
        (_OFFSET_INDEX, _OFFSET_INDEX_LENGTH, chunk.offset_index),
        (_COLUMN_INDEX, _COLUMN_INDEX_LENGTH, chunk.column_index),
    ):
        if place is not None:
            start, end = place
            fields += [
                (at, I64, encoded_integer(start)),
                (length, I32, encoded_integer(end - start)),
            ]
    return _struct(fields)
