"""Rows that a table has already, read to be written again."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta.operations.copy_plan import copy_plan
from adelta.read.data_files import read_files

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddFile
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.storage.roots import StoreRoots
    from adelta.write.transaction_core import TransactionCore

__all__ = ["copied_rows", "move_rows"]


async def copied_rows(
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
    where: Node | None = None,
) -> AsyncGenerator[pa.RecordBatch, None]:
    """The rows of `files` for which `where` is true, with their ids where the table has these."""
    plan = copy_plan(configuration, where)
    async with aclosing(read_files(roots, plan, files)) as tables:
        async for table in tables:
            for batch in table.to_batches():
                yield batch


async def move_rows(
    tx: TransactionCore,
    roots: StoreRoots,
    configuration: TableConfiguration,
    files: Sequence[AddFile],
) -> None:
    """Stage the rows of `files`, read by `configuration`, in new files; no data change.

    The new files are as the metadata that are staged ask for.
    """
    async with aclosing(copied_rows(roots, configuration, files)) as rows:
        await tx.write(rows, content="copies", data_change=False)
    tx.staging.remove(files, tx.now_ms, data_change=False)
