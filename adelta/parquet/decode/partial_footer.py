"""A footer for some column chunks of a file, which were put into a file of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from adelta._dataclasses import dataclass
from adelta.parquet.thrift import (
    BINARY,
    I32,
    I64,
    LIST,
    STRUCT,
    CompactReader,
    ThriftError,
    encoded_binary,
    encoded_integer,
    field_header,
    list_header,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow.parquet as pq

__all__ = ["SNAPPY", "UNCOMPRESSED", "PlacedChunk", "footer_of"]

UNCOMPRESSED: Final = 0
"""No codec, as Parquet numbers them."""
SNAPPY: Final = 1
"""Snappy, likewise."""

_MAGIC: Final = b"PAR1"
_STOP: Final = b"\0"
_SCHEMA: Final = 2  # of FileMetaData
_TYPES: Final = {
    "BOOLEAN": 0,
    "INT32": 1,
    "INT64": 2,
    "INT96": 3,
    "FLOAT": 4,
    "DOUBLE": 5,
    "BYTE_ARRAY": 6,
    "FIXED_LEN_BYTE_ARRAY": 7,
}


@dataclass(frozen=True, slots=True)
class PlacedChunk:
    """A chunk from `start` to `end`.

    Attributes:
        start: where it starts.
        end: where it ends.
        data: where its data pages start, if a dictionary comes first; else None.
        codec: such as `SNAPPY`.
    """

    start: int
    end: int
    data: int | None
    codec: int


def footer_of(
    metadata: pq.FileMetaData,
    footer: memoryview,
    groups: Sequence[int],
    chunks: Mapping[tuple[int, int], PlacedChunk],
) -> bytes:
    """The end of a file with these row groups of another one, of which it has some chunks alone.

    The schema stays what it is, byte for byte: of the other leaves there are chunks of nothing.

    Raises:
        ThriftError: `footer`, the other file's, is damaged.
    """
    rows = sum(metadata.row_group(group).num_rows for group in groups)
    parts = [
        _version_and_schema(footer),
        field_header(I64, 1) + encoded_integer(rows),
        field_header(LIST, 1) + list_header(STRUCT, len(groups)),
        *(_row_group(metadata, group, chunks) for group in groups),
        *_written_with(metadata),
        _STOP,
    ]
    body = b"".join(parts)
    return _MAGIC + body + len(body).to_bytes(4, "little") + _MAGIC


def _version_and_schema(footer: memoryview) -> bytes:
    reader = CompactReader(footer)
    last = 0
    for field, kind in reader.fields():
        reader.skip(kind)
        if field == _SCHEMA and last <= 1:
            return bytes(footer[: reader.position])
        last = field
    raise ThriftError("a footer without a schema")


def _row_group(
    metadata: pq.FileMetaData, group: int, chunks: Mapping[tuple[int, int], PlacedChunk]
) -> bytes:
    found = metadata.row_group(group)
    parts = [field_header(LIST, 1), list_header(STRUCT, found.num_columns)]
    total = 0
    for leaf in range(found.num_columns):
        chunk = chunks.get((group, leaf))
        if chunk is None:
            parts.append(_NOTHING)
        else:
            column = found.column(leaf)
            kind = _TYPES.get(column.physical_type)
            if kind is None or column.num_values < 0:
                raise ThriftError("a chunk of an unknown type, or of less than no values")
            parts.append(_chunk(chunk, kind, column.num_values))
            total += chunk.end - chunk.start
    parts += [field_header(I64, 1), encoded_integer(total)]
    parts += [field_header(I64, 1), encoded_integer(found.num_rows), _STOP]
    return b"".join(parts)


def _chunk(chunk: PlacedChunk, kind: int, values: int) -> bytes:
    """The metadata of a chunk, without its encodings and its name: nobody asks for them."""
    size = encoded_integer(chunk.end - chunk.start)
    parts = [
        field_header(I64, 2) + encoded_integer(0),  # where this is stored once more: nowhere
        field_header(STRUCT, 1),
        field_header(I32, 1) + encoded_integer(kind),
        field_header(LIST, 1) + list_header(I32, 0),
        field_header(LIST, 1) + list_header(BINARY, 0),
        field_header(I32, 1) + encoded_integer(chunk.codec),
        field_header(I64, 1) + encoded_integer(values),
        field_header(I64, 1) + size,
        field_header(I64, 1) + size,
        field_header(I64, 2) + encoded_integer(chunk.start if chunk.data is None else chunk.data),
    ]
    if chunk.data is not None:
        parts.append(field_header(I64, 2) + encoded_integer(chunk.start))
    return b"".join((*parts, _STOP, _STOP))


_NOTHING: Final = _chunk(PlacedChunk(0, 0, None, UNCOMPRESSED), 0, 0)


def _written_with(metadata: pq.FileMetaData) -> list[bytes]:
    """Which program wrote it: Arrow knows the faults of some. Nothing else that it says is read."""
    try:
        writer = metadata.created_by
    except UnicodeDecodeError:
        raise ThriftError("a writer whose name is no text") from None
    return [field_header(BINARY, 2), encoded_binary(writer.encode())] if writer else []
