"""A fetched row group, decoded column by column and slice by slice, for memory of what is kept.

A row group of a checkpoint takes many times the memory of what is mostly wanted of it. Here no more
than a slice of one column is decoded at a time; what a caller lets go is overwritten by the next
slice, which spares the system the work of providing fresh memory too.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from adelta._memory import lasting_pool
from adelta.parquet.arrow_reader import open_arrow_reader
from adelta.parquet.decode.tables import read_batches
from adelta.parquet.faults import reading, rows_missing

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from adelta.parquet.fetch import FetchedColumns
    from adelta.parquet.footer.columns import ColumnName
    from adelta.parquet.reader import ParquetFile

__all__ = ["MOST_ROWS", "ColumnSlices"]

_LONG = 16  # bytes a row
_MOST_LONG = 7 * 1024  # of such: were each a whole dictionary, it would be no more than fits
MOST_ROWS = 64 * 1024
"""The most rows of a slice."""


class ColumnSlices:
    """The columns of one row group of `file`, out of what was `fetched` of it.

    CPU-heavy: use it in a worker thread, as a context manager.
    """

    def __init__(self, file: ParquetFile, fetched: FetchedColumns) -> None:
        (self._group,) = fetched.row_groups
        self._file = file
        self._fetched = fetched

    def __enter__(self) -> ColumnSlices:
        """The slices, with the bytes at hand."""
        file, path = self._file, self._file.layout.path
        with ExitStack() as opened:
            self._source = opened.enter_context(file.bytes.source(self._fetched))
            self._reader = open_arrow_reader(
                path, self._source, file.layout.metadata, pool=lasting_pool()
            )
            self._opened = opened.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        """Close the file, where there is one."""
        self._opened.__exit__(*error)

    def of(self, columns: Sequence[ColumnName], size: int) -> Generator[Any, None, None]:
        """One column as arrays, in order, of about `size` bytes and at most `MOST_ROWS` each.

        `columns` may name several fields of one column of structs: then it is these structs with
        these fields alone.

        Raises:
            InvalidTableError: the object is damaged.
            SchemaMismatchError: the file has no such column.
            UnsupportedFeatureError: the file uses a part of Parquet that Arrow does not read.
        """
        layout, guard, group = self._file.layout, self._file.guard, self._group
        chosen = layout.select(columns)
        leaves = list(chosen.leaves)
        guard.check_memory(leaves, [group])
        rows = layout.metadata.row_group(group).num_rows
        estimate = layout.uncompressed_bytes(chosen, group)
        most = MOST_ROWS if estimate < rows * _LONG else _MOST_LONG
        pieces = max(1, -(-estimate // size), -(-rows // most))
        most = -(-rows // pieces)
        at_once = guard.check_chunks(self._source, leaves, [group], most)
        most = min(most, at_once or most)
        found = total = 0
        with reading(layout.path):
            for batch in read_batches(self._reader, [group], leaves, most):
                found += batch.num_rows
                total += batch.nbytes
                guard.check_decoded(total, group)
                yield batch.column(0)
                del batch
        if found != rows:
            raise rows_missing(layout.path, found, rows)
