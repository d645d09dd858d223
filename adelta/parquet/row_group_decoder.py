"""Row groups decoded by Arrow: at once where that can be, else batch by batch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from pyarrow._parquet import ParquetReader

__all__ = ["read_in_batches", "read_row_groups"]


def read_row_groups(
    reader: ParquetReader, groups: list[int], leaves: list[int], at_once: int | None, limit: int
) -> pa.Table | None:
    """The row groups with these leaves, `at_once` rows of them at a time where that is given.

    None where the rows so decoded come to more than `limit` bytes.
    """
    if at_once is not None:
        return _read_within(reader, groups, leaves, at_once, limit)
    try:
        # On threads of Arrow's own, the last reference to our file could be dropped there after the
        # answer, and end a process that is about to exit.
        return reader.read_row_groups(groups, column_indices=leaves, use_threads=False)
    except pa.ArrowNotImplementedError as error:
        if "chunked array" not in str(error):
            raise
        return read_in_batches(reader, groups, leaves)


def _read_within(
    reader: ParquetReader, groups: list[int], leaves: list[int], rows: int, limit: int
) -> pa.Table | None:
    batches = []
    total = 0
    batched = reader.iter_batches(rows, row_groups=groups, column_indices=leaves, use_threads=False)
    for batch in batched:
        total += batch.nbytes
        if total > limit:
            return None
        batches.append(batch)
    return pa.Table.from_batches(batches)


def read_in_batches(reader: ParquetReader, groups: list[int], leaves: list[int]) -> pa.Table:
    """The row groups by way of smaller batches.

    Arrow cannot assemble a struct, list or map around more than 2 GiB of text in one piece, as a
    checkpoint of some million files has in its statistics. Smaller pieces it can.
    """
    rows = sum(reader.metadata.row_group(group).num_rows for group in groups)
    while True:
        rows = max(1, rows // 4)
        try:
            return pa.Table.from_batches(
                reader.iter_batches(
                    rows, row_groups=groups, column_indices=leaves, use_threads=False
                )
            )
        except pa.ArrowNotImplementedError:
            if rows == 1:
                raise
