"""Fetched row groups, decoded at once or slice by slice.

A slice takes a part of the memory of its row group, and the next one takes the same memory again:
the system need not provide fresh memory, page by page, which is much of the work otherwise.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._memory import lasting_pool
from adelta.parquet.arrow_reader import BUFFERED, open_arrow_reader
from adelta.parquet.decompressed_chunks import decode_chunks
from adelta.parquet.faults import reading, rows_missing
from adelta.parquet.repeated_texts import laid_out, repeated_texts
from adelta.parquet.row_group_decoder import read_tables

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from adelta.parquet.decompressed_chunks import ReadableChunks
    from adelta.parquet.reader import FetchedColumns, ParquetFile

__all__ = ["row_slices"]

_LARGEST_CHUNK = 32 * 1024 * 1024  # of those that are decompressed as a whole
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
        at_once = file.check_unfolding(source, leaves, groups, rows)
        most = min((limit for limit in (rows, at_once) if limit is not None), default=None)
        with reading(file.path):
            repeated = repeated_texts(file.metadata, groups, file.texts(leaves))
            order = None if fetched.columns.order is None else list(fetched.columns.order)
            found = decoded = 0
            decode = partial(_tables, file, fetched, repeated, most)
            for table in decode_chunks(file, source, groups, leaves, decode):
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
    parts, whole = [list(fetched.columns.leaves)], not fetched.in_file
    if chunks.decompressed:
        whole = rows is None and chunks.decompressed <= _LARGEST_CHUNK
        size = sum(file.uncompressed_bytes(fetched.columns, n) for n in fetched.row_groups)
        shares = file.shares(fetched.columns, fetched.row_groups, max(1, size // _AT_ONCE))
        parts = [list(share.leaves) for share in shares]
    reader = open_arrow_reader(
        file.path,
        chunks.source,
        chunks.metadata,
        read_dictionary=repeated,
        pool=lasting_pool(),
        buffered=0 if whole else BUFFERED,
    )
    return read_tables(reader, chunks.row_groups, parts, rows)
