"""The files of a version by tasks, each of which replays a share of the checkpoint.

The process that asks reads the commits after the checkpoint, and holds the files that are left.
"""

from __future__ import annotations

from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.kernel.actions.file_schemas import ADD_SCHEMA
from adelta.kernel.data_skipping.exact import exact_row_counts
from adelta.kernel.file_set import FileSet
from adelta.log.checkpoint_replay import CheckpointPiece, PieceReplay, pieces_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.data_skipping.prune import Skipping
    from adelta.kernel.replay import ReconciledTail
    from adelta.log.state import LogState
    from adelta.log.version_replay import VersionReplay
    from adelta.storage.roots import StoreRoots
    from adelta.write.task_executor import TaskExecutor

__all__ = ["FileTotals", "FilesTask", "files_by_tasks", "shares_of", "totals_by_tasks"]

_SHARE = 16 << 20  # bytes of a checkpoint, of some 150,000 files


@dataclass(frozen=True, slots=True)
class FilesFound:
    """Files, in the format of Arrow's streams."""

    data: bytes
    paths: tuple[str, ...] = ()

    def table(self) -> pa.Table:
        """The files."""
        with pa.ipc.open_stream(self.data) as stream:
            return stream.read_all()


@dataclass(frozen=True, slots=True)
class FilesTask:
    """Finds the files of some pieces of a checkpoint that a predicate keeps."""

    pieces: tuple[CheckpointPiece, ...]
    tail: ReconciledTail
    skipping: Skipping | None
    columns: tuple[str, ...]

    async def run(self, roots: StoreRoots) -> FilesFound:
        """Carry it out."""
        replay = PieceReplay(roots.store, self.pieces, self.tail)
        sink = pa.BufferOutputStream()
        schema = pa.schema([ADD_SCHEMA.field(name) for name in self.columns])
        with pa.ipc.new_stream(sink, schema) as stream:
            async with aclosing(replay.file_batches(self.skipping, self.columns)) as tables:
                async for table in tables:
                    await in_thread(stream.write_table, table)
        return FilesFound(sink.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class FileTotals:
    """How many files there are, of how many bytes, how many have deletion vectors, and their rows.

    `num_rows` is None where the log does not say.
    """

    num_files: int = 0
    size: int = 0
    num_vectors: int = 0
    num_rows: int | None = 0
    paths: tuple[str, ...] = ()

    def __add__(self, other: FileTotals) -> FileTotals:
        """Those of both."""
        rows = None if None in (self.num_rows, other.num_rows) else _sum(self, other)
        return FileTotals(
            self.num_files + other.num_files,
            self.size + other.size,
            self.num_vectors + other.num_vectors,
            rows,
        )

    @classmethod
    def of(cls, files: pa.Table) -> FileTotals:
        """Those of files with the columns `size`, `deletion_vector` and `stats`."""
        counted = exact_row_counts(files, None, ())
        total: Any = pc.sum(files.column("size")).as_py()
        return cls(
            files.num_rows,
            int(total or 0),
            files.num_rows - files.column("deletion_vector").null_count,
            None if counted is None or len(counted[1]) else counted[0],
        )


def _sum(one: FileTotals, other: FileTotals) -> int:
    return (one.num_rows or 0) + (other.num_rows or 0)


_COUNTED = ("size", "deletion_vector", "stats")


@dataclass(frozen=True, slots=True)
class TotalsTask:
    """Counts the files of some pieces of a checkpoint."""

    pieces: tuple[CheckpointPiece, ...]
    tail: ReconciledTail

    async def run(self, roots: StoreRoots) -> FileTotals:
        """Carry it out."""
        found = FileTotals()
        replay = PieceReplay(roots.store, self.pieces, self.tail)
        async with aclosing(replay.file_batches(columns=_COUNTED)) as tables:
            async for table in tables:
                found += await in_thread(FileTotals.of, table)
        return found


async def files_by_tasks(
    state: LogState,
    roots: StoreRoots,
    executor: TaskExecutor,
    skipping: Skipping | None,
    columns: Sequence[str] | None = None,
) -> FileSet:
    """The live files that `skipping` keeps, with the named columns of `ADD_SCHEMA`.

    Raises:
        InvalidTableError: a checkpoint is damaged, and no earlier one helps.
    """
    names = tuple(ADD_SCHEMA.names if columns is None else columns)
    read = partial(_files, roots, executor, skipping, names)
    return FileSet(await state.replayed(read))


async def _files(
    roots: StoreRoots,
    executor: TaskExecutor,
    skipping: Skipping | None,
    names: tuple[str, ...],
    replay: VersionReplay,
) -> pa.Table:
    tail = await replay.tail()
    keys = tail.keys_alone()
    tasks = [FilesTask(share, keys, skipping, names) for share in shares_of(replay, executor)]
    adds = tail.adds
    if skipping is not None and adds.num_rows:
        adds = await in_thread(skipping.candidates, adds)
    found = await executor.run(roots, tasks)
    return pa.concat_tables([adds.select(list(names)), *(each.table() for each in found)])


async def totals_by_tasks(state: LogState, roots: StoreRoots, executor: TaskExecutor) -> FileTotals:
    """Totals of all live files.

    Raises:
        InvalidTableError: a checkpoint is damaged, and no earlier one helps.
    """

    async def count(replay: VersionReplay) -> FileTotals:
        tail = await replay.tail()
        keys = tail.keys_alone()
        tasks = [TotalsTask(share, keys) for share in shares_of(replay, executor)]
        found = await in_thread(FileTotals.of, tail.adds)
        for each in await executor.run(roots, tasks):
            found += each
        return found

    return await state.replayed(count)


def shares_of(
    replay: VersionReplay, executor: TaskExecutor | int
) -> list[tuple[CheckpointPiece, ...]]:
    """The checkpoint in shares for tasks, as many as run at once where it has as many pieces."""
    reader = replay.segment.opened.reader
    if reader is None:
        return []
    at_once = executor if isinstance(executor, int) else executor.tasks_at_once
    size = replay.checkpoint_bytes // max(1, at_once)
    return pieces_of(reader, min(max(size, 1), _SHARE))
