"""Fetched row groups, decoded at once or slice by slice.

A slice takes a part of the memory of its row group, and the next one takes the same memory again:
the system need not provide fresh memory, page by page, which is much of the work otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decompressed_chunks import ReadableChunks, decode_chunks
from adelta.parquet.faults import reading, rows_missing
from adelta.parquet.repeated_texts import laid_out, repeated_texts
from adelta.parquet.row_group_decoder import read_tables

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from adelta.parquet.reader import FetchedColumns, ParquetFile

__all__ = ["row_slices"]

_BUFFERED = 256 * 1024  # bytes read of a column of a file of this machine at a time
_AT_ONCE = 2 * 1024 * 1024  # bytes decompressed and decoded in one go: what a core has close by


def row_slices(
    file: ParquetFile, fetched: FetchedColumns, rows: int | None = None
) -> Generator[pa.Table, None, None]:
    """The rows of what was `fetched` of `file`, in order, as tables of `rows` rows, or as one.

    CPU-heavy: take each in a worker thread. Not all that are taken may have `rows` rows.

    Raises:
        InvalidTableError: the object is damaged.
        UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
    """
    leaves, groups = list(fetched.columns.leaves), list(fetched.row_groups)
    file.check_memory(leaves, groups)
    count = sum(file.metadata.row_group(group).num_rows for group in groups)
    if not leaves:
        yield pa.table({"": pa.nulls(count)}).select([])
        return
    with file.source(fetched) as source:
        at_once = file.check_chunks(source, leaves, groups, rows)
        most = min((limit for limit in (rows, at_once) if limit is not None), default=None)
        with reading(file.path):
            repeated = repeated_texts(file.metadata, groups, file.texts(leaves))
            order = None if fetched.columns.order is None else list(fetched.columns.order)
            found = decoded = 0
            decode = partial(_tables, file, fetched, repeated, most)
            if most is None:
                tables: Iterator[pa.Table] = decode_chunks(file, source, groups, leaves, decode)
            else:
                tables = decode(ReadableChunks(source, file.metadata, groups))
            for table in tables:
                found += table.num_rows
                if most is not None:
                    decoded += table.nbytes
                    file.check_decoded(decoded, groups[0])
                table = laid_out(table, repeated)
                yield table if order is None else table.select(order)
                del table
    if found != count:
        raise rows_missing(file.path, found, count)


def _tables(
    file: ParquetFile,
    fetched: FetchedColumns,
    repeated: list[str],
    rows: int | None,
    chunks: ReadableChunks,
) -> Iterator[pa.Table]:
    """What is in the chunks, with the columns of `repeated` texts as dictionaries."""
    parts, buffered = [list(fetched.columns.leaves)], _BUFFERED if fetched.in_file else 0
    if chunks.decompressed:
        size = sum(file.uncompressed_bytes(fetched.columns, n) for n in fetched.row_groups)
        shares = file.shares(fetched.columns, fetched.row_groups, max(1, size // _AT_ONCE))
        parts, buffered = [list(share.leaves) for share in shares], 0
    reader = open_arrow_reader(
        file.path,
        chunks.source,
        chunks.metadata,
        read_dictionary=repeated,
        pool=lasting_pool(),
        buffered=buffered,
    )
    return read_tables(reader, chunks.row_groups, parts, rows)
