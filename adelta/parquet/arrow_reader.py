"""Arrow's own Parquet reader, opened as adelta needs it.

One place sets how Parquet becomes Arrow: INT96 timestamps are microseconds (nanoseconds overflow
outside 1677-2262), logical types without an Arrow type of their own stay plain storage types, and
Arrow reads nothing ahead on threads of its own.
"""

from __future__ import annotations

import inspect
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from adelta.parquet.faults import reading

__all__ = ["open_arrow_reader"]

# Variant, JSON and UUID as extension types are an option of newer Arrows, and their default there.
_PLAIN_STORAGE: Final[dict[str, Any]] = (
    {"arrow_extensions_enabled": False}
    if "arrow_extensions_enabled" in inspect.signature(pq.ParquetFile).parameters
    else {}
)


def open_arrow_reader(
    path: str,
    source: memoryview | pa.NativeFile,
    metadata: pq.FileMetaData | None = None,
    *,
    read_dictionary: list[str] | None = None,
) -> pq.ParquetFile:
    """Arrow's reader over `source`; it reads nothing where `metadata` is given.

    Leaves named by `read_dictionary` come as dictionaries, without making their values.

    Raises:
        InvalidTableError: the object at `path`, where the bytes are from, is damaged.
        UnsupportedFeatureError: it uses a part of Parquet that Arrow does not read.
    """
    file = source if isinstance(source, pa.NativeFile) else pa.BufferReader(source)
    with reading(path):
        return pq.ParquetFile(
            file,
            metadata=metadata,
            pre_buffer=False,
            read_dictionary=read_dictionary,
            coerce_int96_timestamp_unit="us",
            **_PLAIN_STORAGE,
        )
