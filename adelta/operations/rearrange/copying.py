"""Rows of a table's files, in batches that are worth the trouble of writing them."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from adelta._concurrency import in_thread
from adelta.operations.copy_plan import copy_plan
from adelta.read.data_files import read_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots

__all__ = ["READ_AHEAD", "bare", "copied_batches"]

READ_AHEAD = 16 * 1024 * 1024
"""Bytes of rows that a task holds ahead of what it does with them."""

_WORTH_WRITING = 4 * 1024 * 1024


def bare(files: Sequence[AddFile], *, stats: bool = False) -> tuple[AddFile, ...]:
    """What a task needs of the files to read them, or to join them by their `stats`."""
    return tuple(replace(f, stats=f.stats if stats else None, tags=None) for f in files)


async def copied_batches(
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    plan: ScanPlan | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """What `plan` makes of the files: by default whole rows, as `copy_plan` has them.

    Rows keep their order. Small files are joined: every batch costs the writer the same.

    Raises:
        MissingDataFileError: a file is not there.
        InvalidTableError: a file is damaged.
    """
    waiting: list[pa.Table] = []
    held = row_bytes = 0.0
    read = read_files(roots, plan or copy_plan(configuration), files, read_ahead_bytes=READ_AHEAD)
    async with aclosing(read) as tables:
        async for table in tables:
            if not waiting and table.num_rows:  # to ask each of many small ones takes too long
                row_bytes = max(row_bytes, table.nbytes / table.num_rows)
            waiting.append(table)
            held += row_bytes * table.num_rows
            del table  # so that the next one may have its memory
            if held >= _WORTH_WRITING:
                batches = await _joined(waiting)
                held = 0.0
                while batches:
                    yield batches.pop(0)
        for batch in await _joined(waiting):
            yield batch


async def _joined(tables: list[pa.Table]) -> list[pa.RecordBatch]:
    """The rows of tables, which are forgotten."""
    if len(tables) <= 1:
        batches = [batch for table in tables for batch in table.to_batches()]
    else:
        joined = partial(pa.concat_tables, list(tables))
        batches = await in_thread(lambda: joined().combine_chunks().to_batches())
    tables.clear()
    return batches
