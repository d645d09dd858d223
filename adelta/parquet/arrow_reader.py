"""Arrow's own Parquet reader, opened as adelta needs it.

One place sets how Parquet becomes Arrow: INT96 timestamps are microseconds (nanoseconds overflow
outside 1677-2262), logical types without an Arrow type of their own stay plain storage types, and
Arrow reads nothing ahead on threads of its own.

It is the reader beneath `pyarrow.parquet.ParquetFile`, for that one decodes into the process's
memory pool alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow._parquet import ParquetReader

from adelta.parquet.faults import reading

if TYPE_CHECKING:
    import pyarrow.parquet as pq

__all__ = ["open_arrow_reader"]


def open_arrow_reader(
    path: str,
    source: memoryview | pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    *,
    read_dictionary: list[str] | None = None,
    pool: pa.MemoryPool | None = None,
    buffered: int = 0,
) -> ParquetReader:
    """Arrow's reader over `source`; it reads nothing where `metadata` is given.

    Leaves named by `read_dictionary` come as dictionaries, without making their values. `pool` is
    where it decodes, the process's own memory pool by default. With `buffered` it reads a column
    chunk as it decodes it, so many bytes at a time; else a chunk at once.

    Raises:
        InvalidTableError: the object at `path`, where the bytes are from, is damaged.
        UnsupportedFeatureError: it uses a part of Parquet that Arrow does not read.
    """
    file = source if isinstance(source, pa.NativeFile) else pa.BufferReader(source)
    reader = ParquetReader(pool)
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
