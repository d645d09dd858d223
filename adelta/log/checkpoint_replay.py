"""Files of a checkpoint, reconciled with the commits after it, part by part.

The keys of the commits are all that a part is asked about, so that parts are read in any order,
here or in other processes. `PieceReplay` replays some pieces of a checkpoint on their own; a
`CheckpointPiece` says which, and is a plain value.
"""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta._read_ahead import ReadAhead
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.replay import anti_join
from adelta.log.checkpoint_reader import open_part

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    import pyarrow as pa

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.replay import ReconciledTail
    from adelta.log.checkpoint_reader import CheckpointReader
    from adelta.log.column_arena import ColumnArena
    from adelta.log.file_groups import FileGroup, FilePart
    from adelta.storage.object_store import ObjectStore

__all__ = [
    "CheckpointPiece",
    "PieceReplay",
    "checkpoint_files",
    "checkpoint_tombstones",
    "pieces_of",
]

_GROUPS_AHEAD = 8
_BYTES_AHEAD = 48 << 20  # as the checkpoint's files have them
_KEPT_AHEAD = 12 << 20  # likewise where all of them is kept


async def checkpoint_files(
    parts: AsyncGenerator[FilePart, None],
    tail: ReconciledTail,
    root: str,
    skipping: Skipping | None,
    columns: Sequence[str],
    arena: ColumnArena | None = None,
) -> AsyncGenerator[pa.Table, None]:
    """The live files of some parts that `skipping` and the commits after them leave.

    Raises:
        InvalidTableError: the checkpoint is damaged.
    """
    named = ["path", "deletion_vector"] if len(tail.keys) else []
    needed = list(dict.fromkeys([*columns, *named]))

    async def read(group: FileGroup) -> pa.Table:
        table = await group.adds(needed, skipping, arena)
        if len(tail.keys) and table.num_rows:
            table = await in_thread(anti_join, table, tail, root)
        return table.select(list(columns))

    async def groups() -> AsyncGenerator[FileGroup, None]:
        async with aclosing(parts):
            async for part in parts:
                for group in await part.groups(skipping):
                    yield group

    budget = _KEPT_AHEAD if skipping is None else _BYTES_AHEAD
    async with ReadAhead(
        read, groups(), limit=_GROUPS_AHEAD, cost=_group_size, budget=budget
    ) as tables:
        async for table in tables:
            if table.num_rows:
                yield table


async def checkpoint_tombstones(
    parts: AsyncGenerator[FilePart, None], tail: ReconciledTail, root: str
) -> AsyncGenerator[pa.Table, None]:
    """The tombstones of some parts that the commits after them leave.

    Raises:
        InvalidTableError: the checkpoint is damaged.
    """

    async def read(group: FileGroup) -> pa.Table:
        return await in_thread(anti_join, await group.removes(), tail, root)

    async def groups() -> AsyncGenerator[FileGroup, None]:
        async with aclosing(parts):
            async for part in parts:
                for group in await part.remove_groups():
                    yield group

    async with ReadAhead(
        read, groups(), limit=_GROUPS_AHEAD, cost=_group_size, budget=_BYTES_AHEAD
    ) as tables:
        async for table in tables:
            if table.num_rows:
                yield table


def _group_size(group: FileGroup) -> int:
    return group.size


@dataclass(frozen=True, slots=True)
class CheckpointPiece:
    """A file of a checkpoint, or those of its row groups that `row_groups` begins and ends with.

    `version` is the checkpoint's.
    """

    version: int
    path: str
    size: int | None
    row_groups: tuple[int, int] | None = None


def pieces_of(reader: CheckpointReader, size: int) -> list[tuple[CheckpointPiece, ...]]:
    """All of a checkpoint in shares of about `size` bytes of its files, by what is read of it yet.

    Top-level files are divided by row groups; a sidecar, whose footer has not been read, is not.
    """
    shares: list[tuple[CheckpointPiece, ...]] = []
    share: list[CheckpointPiece] = []
    held = 0
    for piece, weight in reader.pieces(size):
        if share and held + weight > size:
            shares.append(tuple(share))
            share, held = [], 0
        share.append(CheckpointPiece(reader.version, *piece))
        held += weight
    return [*shares, tuple(share)] if share else shares


class PieceReplay:
    """What a tail and some pieces of the checkpoint before it say of files, on their own."""

    def __init__(
        self,
        store: ObjectStore,
        pieces: Sequence[CheckpointPiece],
        tail: ReconciledTail,
    ) -> None:
        self._store = store
        self._pieces = pieces
        self._tail = tail

    async def file_batches(
        self, skipping: Skipping | None = None, columns: Sequence[str] | None = None
    ) -> AsyncGenerator[pa.Table, None]:
        """The live files that `skipping` keeps, with the named columns of `ADD_SCHEMA`.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        names = ADD_SCHEMA.names if columns is None else list(columns)
        adds = self._tail.adds
        if skipping is not None and adds.num_rows:
            adds = await in_thread(skipping.candidates, adds)
        if adds.num_rows:
            yield adds.select(names)
        found = checkpoint_files(self._parts(), self._tail, self._store.uri, skipping, names)
        async with aclosing(found) as tables:
            async for table in tables:
                yield table

    async def tombstone_batches(self) -> AsyncGenerator[pa.Table, None]:
        """The removed files that the log still names, with the columns of `REMOVE_SCHEMA`.

        Raises:
            InvalidTableError: the checkpoint is damaged.
        """
        if self._tail.tombstones.num_rows:
            yield self._tail.tombstones
        found = checkpoint_tombstones(self._parts(), self._tail, self._store.uri)
        async with aclosing(found) as tables:
            async for table in tables:
                yield table

    async def _parts(self) -> AsyncGenerator[FilePart, None]:
        for piece in self._pieces:
            yield await open_part(
                self._store, piece.version, piece.path, piece.size, piece.row_groups
            )
