"""Arrow's own Parquet reader, opened as adelta needs it.

One place sets how Parquet becomes Arrow: INT96 timestamps are microseconds (nanoseconds overflow
outside 1677-2262), logical types without an Arrow type of their own stay plain storage types, and
Arrow reads nothing ahead on threads of its own.

The types are those of Parquet alone. Writers that have their data from Arrow put its schema into
the footer too, by which Arrow would make the same layouts again: views, large offsets,
dictionaries, extensions, for which it lacks many of its own functions. `open_footer` hides that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.parquet._pyarrow import ArrowReader, new_reader
from adelta.parquet.faults import reading
from adelta.parquet.thrift import BINARY, LIST, STRUCT, CompactReader, encoded_binary

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow.parquet as pq

__all__ = ["open_arrow_reader", "open_footer"]

_ARROW_SCHEMA = b"ARROW:schema"
_HIDDEN = b"arrow:schema"  # as long, so that nothing in the footer moves
_AS_KEY = b"\x18" + encoded_binary(_ARROW_SCHEMA)  # the first field of a struct
_KEYS_AND_VALUES = 5  # of FileMetaData


def open_arrow_reader(
    path: str,
    source: memoryview | pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    *,
    read_dictionary: list[str] | None = None,
    pool: pa.MemoryPool | None = None,
    buffered: int = 0,
) -> ArrowReader:
    """Arrow's reader over `source`; it reads nothing where `metadata` is given.

    Leaves named by `read_dictionary` come as dictionaries, without making their values. `pool` is
    where it decodes, the process's own memory pool by default. With `buffered` it reads a column
    chunk as it decodes it, so many bytes at a time; else a chunk at once.

    Raises:
        InvalidTableError: the object at `path`, where the bytes are from, is damaged.
        UnsupportedFeatureError: it uses a part of Parquet that Arrow does not read.
    """
    file = source if isinstance(source, pa.NativeFile) else pa.BufferReader(source)
    reader = new_reader(pool)
    with reading(path):
        reader.open(
            file,
            metadata=metadata,
            pre_buffer=False,
            buffer_size=buffered,
            read_dictionary=read_dictionary,
            coerce_int96_timestamp_unit="us",
        )
    return reader


def open_footer(path: str, footer: memoryview) -> ArrowReader:
    """Arrow's reader over the footer of the object at `path`, which takes types from Parquet alone.

    Raises:
        InvalidTableError: the footer is damaged.
        UnsupportedFeatureError: it uses a part of Parquet that Arrow does not read.
    """
    data = bytes(footer)
    last = data.rfind(_AS_KEY)
    places = [last + len(_AS_KEY) - len(_ARROW_SCHEMA)] if last >= 0 else []
    reader = _opened(path, data, places)
    if not places and not _has(path, reader, _ARROW_SCHEMA):
        return reader
    if _has(path, reader, _ARROW_SCHEMA) or not _has(path, reader, _HIDDEN):
        with reading(path):  # those bytes were something else: look where each key is
            places = list(_arrow_schemas(data))
        reader = _opened(path, data, places)
    return reader


def _opened(path: str, footer: bytes, places: Sequence[int]) -> ArrowReader:
    """A reader over the footer, which is to hide the keys at `places`."""
    edited = bytearray(footer)
    for place in places:
        edited[place : place + len(_HIDDEN)] = _HIDDEN
    return open_arrow_reader(path, memoryview(edited if places else footer))


def _has(path: str, reader: ArrowReader, key: bytes) -> bool:
    with reading(path):
        return key in (reader.metadata.metadata or {})


def _arrow_schemas(footer: bytes) -> Iterator[int]:
    """Where the keys of Arrow's schemas start among what the writer says of the file."""
    whole = CompactReader(footer)
    for field, kind in whole.fields():
        if field != _KEYS_AND_VALUES or kind != LIST:
            whole.skip(kind)
            continue
        for _ in range(whole.list_of(STRUCT)):
            for inner, inner_kind in whole.fields():
                if inner == 1 and inner_kind == BINARY and whole.binary() == _ARROW_SCHEMA:
                    yield whole.position - len(_ARROW_SCHEMA)
                elif inner != 1 or inner_kind != BINARY:
                    whole.skip(inner_kind)
