"""A state of a table whose files come newest first: those of later commits before earlier ones'.

So deltalake and Delta's kernels list files, which replay a log from its end; the order in which
others list them says nothing. Files of one commit, and those of the checkpoint, keep their order.
"""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from adelta._concurrency import in_thread
from adelta.kernel.file_set import FileSet
from adelta.log.state import LogState

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from adelta.kernel.data_skipping.prune import Skipping

__all__ = ["NewestFirst"]

arrow: Any = pa  # whose stubs know no ranges

_OF_CHECKPOINT = -1


class NewestFirst(LogState):
    """A state, which lists the same files in this order."""

    __slots__ = ()

    @classmethod
    def of(cls, state: LogState) -> NewestFirst:
        """The order over `state`, with which it shares all that is read."""
        return cls(**{each.name: getattr(state, each.name) for each in fields(state)})

    async def files(self) -> FileSet:
        """As of the state, in order."""
        return await self.files_matching()

    async def files_matching(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> FileSet:
        """As of the state, in order."""
        asked = None if columns is None else [*columns, *({"path"} - set(columns))]
        found = (await LogState.files_matching(self, skipping, asked)).table
        if found.num_rows > 1:
            added = await self.replayed(lambda replay: replay.added())
            found = await in_thread(_ordered, found, added)
        return FileSet(found if asked == columns else found.select(list(columns or ())))

    async def file_batches(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        """As of the state: what comes of commits is one piece, and in order."""
        asked = None if columns is None else [*columns, *({"path"} - set(columns))]
        added = await self.replayed(lambda replay: replay.added())
        async with aclosing(LogState.file_batches(self, skipping, asked)) as batches:
            async for table in batches:
                found = await in_thread(_ordered, table, added)
                yield found if asked == columns else found.select(list(columns or ()))


def _ordered(files: pa.Table, added: pa.Table) -> pa.Table:
    """The files by the version that has added them, the latest first. CPU-heavy."""
    newest = added.take(pc.sort_indices(added, sort_keys=[("version", "descending")]))
    place: Any = pc.index_in(files.column("path"), value_set=newest.column("path"))
    known: Any = newest.column("version").take(place)
    order = arrow.table(
        {
            "version": pc.fill_null(known, _OF_CHECKPOINT),
            "index": arrow.arange(0, files.num_rows),
        }
    )
    keys: Any = [("version", "descending"), ("index", "ascending")]
    return files.take(pc.sort_indices(order, sort_keys=keys))
