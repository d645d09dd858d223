"""The live files of a version that a predicate keeps, and their list as it is given out.

Expressions are loaded with the first predicate: most processes open a table to read all of it.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import pyarrow as pa

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.expressions.nodes import Node
    from adelta.kernel.file_set import FileSet
    from adelta.kernel.scan_plan import ScanPlan
    from adelta.log.state import LogState

__all__ = ["prune", "prune_batches", "shown", "skipping_by"]

_MANY_FILES = 100_000


def skipping_by(where: Node, plan: ScanPlan) -> Skipping:
    """What `where` says of the files of a scan of `plan`.

    Raises:
        InvalidExpressionError: the predicate does not fit the schema.
    """
    from adelta.kernel.data_skipping.prune import Skipping

    return Skipping.for_plan(where, plan)


async def prune(
    state: LogState, where: Node | None, plan: ScanPlan, columns: Sequence[str] | None = None
) -> FileSet:
    """The live files of `state` that may hold rows for which `where` is true.

    With `columns` only these columns of `ADD_SCHEMA`.
    """
    skipping = None if where is None else await in_thread(skipping_by, where, plan)
    return await state.files_matching(skipping, columns)


async def shown(files: pa.Table) -> pa.Table:
    """Files as their list is given out."""
    from adelta.kernel.partition import with_known_values

    if files.num_rows < _MANY_FILES:
        return with_known_values(files)
    return await in_thread(with_known_values, files)


async def prune_batches(
    state: LogState, where: Node | None, plan: ScanPlan, columns: Sequence[str] | None = None
) -> AsyncGenerator[pa.Table, None]:
    """What `prune` finds, piece by piece, in bounded memory."""
    skipping = None if where is None else await in_thread(skipping_by, where, plan)
    async with aclosing(state.file_batches(skipping, columns)) as tables:
        async for table in tables:
            yield table
