"""Fetched row groups, decoded at once or slice by slice.

A slice takes a part of the memory of its row group, and the next one takes the same memory again:
the system need not provide fresh memory, page by page, which is much of the work otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.chunk_source import ChunkSource
from adelta.parquet.decode.decompressed_chunks import UnsnappedError, decompressed_chunks
from adelta.parquet.decode.repeated_texts import laid_out, repeated_texts
from adelta.parquet.decode.tables import read_tables
from adelta.parquet.faults import reading, rows_missing

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.layout import FileLayout
    from adelta.parquet.guard.decoding import DecodingGuard

__all__ = ["decode_rows"]

_BUFFERED = 256 * 1024  # bytes read of a column of a file of this machine at a time,
_BUFFERED_OF_CACHE = 512 * 1024  # and of a cache's file, which is read by whole chunks
_AT_ONCE = 2 * 1024 * 1024  # bytes decompressed and decoded in one go: what a core has close by


def decode_rows(
    layout: FileLayout,
    guard: DecodingGuard,
    fetched: FetchedColumns,
    source: pa.NativeFile,
    rows: int | None = None,
    *,
    keeps_dictionaries: bool = False,
    pool: pa.MemoryPool | None = None,
) -> Generator[pa.Table, None, None]:
    """The rows of what was `fetched`, in order, as tables of `rows` rows, or as one. CPU-heavy.

    `source` has the bytes. Not all tables may have `rows` rows. There is at least one leaf. With
    `keeps_dictionaries` texts that repeat come as dictionaries of numbers. Memory is the `pool`'s.

    Raises:
        InvalidTableError: the object is damaged.
        UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
    """
    leaves, groups = list(fetched.columns.leaves), list(fetched.row_groups)
    count = layout.rows_of(groups)
    at_once = guard.check_chunks(source, leaves, groups, rows)
    most = min((limit for limit in (rows, at_once) if limit is not None), default=None)
    with reading(layout.path):
        repeated = repeated_texts(layout.metadata, groups, layout.texts(leaves))
        order = None if fetched.columns.order is None else list(fetched.columns.order)
        found = decoded = 0
        for table in _decoded(layout, fetched, source, repeated, most, pool):
            found += table.num_rows
            if most is not None:
                decoded += table.nbytes
                guard.check_decoded(decoded, groups[0])
            if not keeps_dictionaries:
                table = laid_out(table, repeated)
            yield table if order is None else table.select(order)
            del table
    if found != count:
        raise rows_missing(layout.path, found, count)


def _decoded(
    layout: FileLayout,
    fetched: FetchedColumns,
    source: pa.NativeFile,
    repeated: list[str],
    rows: int | None,
    pool: pa.MemoryPool | None,
) -> Iterator[pa.Table]:
    """The tables, with the columns of `repeated` texts as dictionaries.

    What cannot be decoded once it is decompressed is tried as it is stored, which also says what is
    wrong with it.
    """
    leaves, groups = fetched.columns.leaves, list(fetched.row_groups)
    if rows is None:
        chunks = decompressed_chunks(layout, source, groups, leaves)
        began = False
        try:
            for table in _tables(layout, fetched, chunks, repeated, None, pool) if chunks else ():
                began = True
                yield table
                del table  # so that the next one may have its memory
        except (UnsnappedError, pa.ArrowException, OSError):
            if began:
                raise
        if began:
            return
    chunks = ChunkSource(source, layout.metadata, groups)
    yield from _tables(layout, fetched, chunks, repeated, rows, pool)


def _tables(
    layout: FileLayout,
    fetched: FetchedColumns,
    chunks: ChunkSource,
    repeated: list[str],
    rows: int | None,
    pool: pa.MemoryPool | None,
) -> Iterator[pa.Table]:
    parts, buffered = [list(fetched.columns.leaves)], 0
    if fetched.in_file:
        buffered = _BUFFERED if fetched.cached is None else _BUFFERED_OF_CACHE
    if chunks.decompressed:
        leaves = fetched.columns.leaves
        size = sum(layout.decoded_bytes(leaves, group) for group in fetched.row_groups)
        shares = layout.shares(fetched.columns, fetched.row_groups, max(1, size // _AT_ONCE))
        parts, buffered = [list(share.leaves) for share in shares], 0
    reader = open_arrow_reader(
        layout.path,
        chunks.file,
        chunks.metadata,
        read_dictionary=repeated,
        pool=pool,
        buffered=buffered,
    )
    return read_tables(reader, chunks.row_groups, parts, rows)
