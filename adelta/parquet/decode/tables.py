"""Row groups decoded by Arrow: at once where that can be, else batch by batch.

Arrow cannot assemble a struct, list or map around more than 2 GiB of text in one piece, as a
checkpoint of some million files has in its statistics. Smaller pieces it can.

Arrow's own threads are not used: the last reference to our file could be dropped there after the
answer, and end a process that is about to exit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from adelta.parquet._pyarrow import ArrowReader

__all__ = ["read_batches", "read_tables", "side_by_side"]

_ALONE = 65_536  # rows of row groups, on average, from which on each is a table by itself


def read_tables(
    reader: ArrowReader, groups: list[int], leaves: Sequence[list[int]], rows: int | None
) -> Iterator[pa.Table]:
    """The row groups with these leaves, `rows` rows at a time, or as large as is good.

    Each part of the leaves is decoded by itself, one after the other, where all rows are. Arrow
    would copy what it has of one large row group to more memory for the next one. Where one
    is too much for it there are more tables, too.
    """
    counts = [reader.metadata.row_group(group).num_rows for group in groups]
    together = [groups]
    if rows is None and groups and sum(counts) >= _ALONE * len(groups):
        together = [[group] for group in groups]
    for these in together:
        if rows is None:
            try:
                parts = [
                    reader.read_row_groups(these, column_indices=part, use_threads=False)
                    for part in leaves
                ]
                yield side_by_side(parts)
                continue
            except pa.ArrowNotImplementedError as error:
                if not _is_too_much(error):
                    raise
        every = [leaf for part in leaves for leaf in part]
        for batch in read_batches(reader, these, every, rows or max(1, sum(counts) // 4)):
            yield pa.Table.from_batches([batch])
            del batch


def side_by_side(parts: Sequence[pa.Table]) -> pa.Table:
    """One table of the columns of tables that have the same rows."""
    if len(parts) == 1:
        return parts[0]
    columns = [column for part in parts for column in part.columns]
    fields = [field for part in parts for field in part.schema]
    return pa.table(columns, schema=pa.schema(fields).with_metadata(parts[0].schema.metadata))


def read_batches(
    reader: ArrowReader, groups: list[int], leaves: list[int], rows: int
) -> Iterator[pa.RecordBatch]:
    """The row groups with these leaves, `rows` rows at a time, or fewer where that is too much."""
    done = 0
    while True:
        passed = 0
        try:
            for batch in reader.iter_batches(
                rows, row_groups=groups, column_indices=leaves, use_threads=False
            ):
                before, passed = passed, passed + batch.num_rows
                if passed > done:
                    fresh = batch.slice(done - before)
                    done = passed
                    yield fresh
                    del fresh
                del batch  # so that the next one may have its memory
            return
        except pa.ArrowNotImplementedError as error:
            if rows == 1 or not _is_too_much(error):
                raise
            rows = max(1, rows // 4)


def _is_too_much(error: pa.ArrowNotImplementedError) -> bool:
    return "chunked array" in str(error)
