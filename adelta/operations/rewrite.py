"""Changes of rows, carried out: independent tasks that write files anew, for one commit to stage.

A task copies the rows of some files that stay as they are, writes the rows that an update makes of
the others, and tells the change data feed of both images.
"""

from __future__ import annotations

from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from pyroaring import BitMap64

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta._dictionaries import without_dictionaries
from adelta._memory import filtered
from adelta.kernel.actions.file_actions import decode_path
from adelta.kernel.deletion_vector.mask import named_rows
from adelta.operations.column_copies import copy_by_column
from adelta.operations.column_update import update_columns
from adelta.operations.copy_plan import copy_plan
from adelta.operations.matching import live_rows
from adelta.progress import Meter
from adelta.read.data_files import Piece, read_pieces
from adelta.write.change_data import DELETE, POSTIMAGE, PREIMAGE, ChangeDataWriter
from adelta.write.data_file_writer import DataFileWriter
from adelta.write.discarding import discard_data_files
from adelta.write.spec import AS_THE_TABLE_SAYS, DataFileOptions, WriteSpec
from adelta.write.task_executor import grouped

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence

    import pyarrow as pa

    from adelta.kernel.actions.file_actions import AddCDCFile, AddFile
    from adelta.kernel.table_configuration import TableConfiguration
    from adelta.operations.column_update import ColumnAssignments
    from adelta.operations.matching import MatchedFile
    from adelta.progress import OnProgress
    from adelta.storage.roots import StoreRoots
    from adelta.write.task_executor import TaskExecutor

__all__ = ["RewriteResult", "RewriteTask", "RowUpdate", "completed", "rewrite", "shared"]


_MIB = 1024 * 1024
_READ_AHEAD = 16 * _MIB
_LEAST_SHARE = 8 * _MIB


class _OfFile(Protocol):
    """Something about a file."""

    @property
    def file(self) -> AddFile: ...


F = TypeVar("F", bound=_OfFile)


class RowUpdate(Protocol):
    """What becomes of matched rows; without one, they go."""

    @property
    def alone(self) -> ColumnAssignments | None:
        """The same as new values for some columns, where nothing else of a row is looked at."""
        ...

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The rows afterwards, complete and checked, with the hidden columns that they came with.

        Raises:
            InvariantViolationError: a row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
        """
        ...


@dataclass(frozen=True, slots=True)
class RewriteTask:
    """Files whose rows are written anew together.

    Rows that do not match are copied if `copies`, which they need not be where a deletion vector
    leaves them where they are. With `tells`, changes go to the change data feed.
    """

    configuration: TableConfiguration
    files: tuple[MatchedFile, ...]
    update: RowUpdate | None = None
    copies: bool = True
    tells: bool = False
    options: DataFileOptions = AS_THE_TABLE_SAYS

    @property
    def writes(self) -> bool:
        """Whether there is anything to write."""
        copied = self.copies and not all(matched.is_whole for matched in self.files)
        return copied or self.update is not None or self.tells

    async def run(self, roots: StoreRoots) -> RewriteResult:
        """Carry it out, in bounded memory.

        Raises:
            InvariantViolationError: an updated row violates a constraint of the table.
            InvalidExpressionError: a value cannot be computed.
            MissingDataFileError: a file is not there.
            InvalidTableError: a file is damaged.
            StorageError: the store refused or failed.
        """
        spec = WriteSpec.of_copies(self.configuration, self.options)
        adds, left = await self._by_column(roots, spec)
        taken = {each.file.path for each in left}
        copied = sum(
            each.num_live - len(each.rows) for each in self.files if each.file.path not in taken
        )
        done = RewriteResult(tuple(adds), (), copied)
        if not left:
            return done
        return await completed(roots, done, replace(self, files=tuple(left))._written(roots, spec))

    async def _by_column(
        self, roots: StoreRoots, spec: WriteSpec
    ) -> tuple[list[AddFile], list[MatchedFile]]:
        """The files that those become which need not be written anew as a whole; and the others."""
        if self.tells or not self.copies:
            return [], list(self.files)
        if self.update is None:
            return await copy_by_column(roots, spec, self.files)
        alone = self.update.alone
        if alone is None:
            return [], list(self.files)
        return await update_columns(roots, self.configuration, spec, alone, self.files)

    async def _written(self, roots: StoreRoots, spec: WriteSpec) -> RewriteResult:
        """All rows of the files, encoded anew."""
        configuration, copied = self.configuration, 0
        async with AsyncExitStack() as stack:
            writer = await stack.enter_async_context(DataFileWriter(roots.store, spec))
            changes = None
            if self.tells:
                changes = await stack.enter_async_context(ChangeDataWriter(roots.store, spec))
            read = read_pieces(
                roots,
                copy_plan(configuration, keeps_dictionaries=True),
                _pieces(roots, self),
                read_ahead_bytes=_READ_AHEAD,
            )
            tables = await stack.enter_async_context(aclosing(read))
            async for piece, table in tables:
                assert isinstance(piece.tag, _Sorter)
                for batch in table.to_batches():
                    staying, matching = await in_thread(piece.tag.take, batch)
                    if staying.num_rows:
                        copied += staying.num_rows
                        await writer.write(staying)
                    if self.update is not None and matching.num_rows:
                        after = await in_thread(self.update.apply, matching)
                        await writer.write(after)
                        if changes is not None:
                            await changes.write(matching, PREIMAGE)
                            await changes.write(after, POSTIMAGE)
                    elif changes is not None:
                        await changes.write(matching, DELETE)
            adds = await writer.finish()
            cdc = await changes.finish() if changes is not None else []
            return RewriteResult(tuple(adds), tuple(cdc), copied)


@dataclass(frozen=True, slots=True)
class RewriteResult:
    """What tasks have written, and of how many rows."""

    adds: tuple[AddFile, ...] = ()
    cdc: tuple[AddCDCFile, ...] = ()
    num_copied_rows: int = 0

    def __add__(self, other: RewriteResult) -> RewriteResult:
        return RewriteResult(
            self.adds + other.adds,
            self.cdc + other.cdc,
            self.num_copied_rows + other.num_copied_rows,
        )

    @property
    def paths(self) -> Iterator[str]:
        """The objects that were written, by their paths in the store."""
        for add in self.adds:
            yield decode_path(add.path)
        for cdc in self.cdc:
            yield decode_path(cdc.path)


async def completed(
    roots: StoreRoots, done: RewriteResult, rest: Awaitable[RewriteResult]
) -> RewriteResult:
    """What is done and the rest together; where the rest fails, nothing of either is left."""
    try:
        return done + await rest
    except BaseException:
        await discard_data_files(roots.store, list(done.paths))
        raise


async def rewrite(
    executor: TaskExecutor,
    roots: StoreRoots,
    task: RewriteTask,
    *,
    on_progress: OnProgress | None = None,
) -> RewriteResult:
    """Carry out `task` as several; if one fails, nothing is left.

    `on_progress` is told of the files that have been written.

    Raises: as `RewriteTask.run` does.
    """
    target = WriteSpec.of(task.configuration).target_file_size
    tasks = plan_rewrites(task, target, executor.tasks_at_once)
    meter = Meter(on_progress, "rewriting")

    def on_done(result: RewriteResult) -> None:
        meter.advance(len(result.adds))

    return sum(await executor.run(roots, tasks, on_done=on_done), RewriteResult())


def plan_rewrites(task: RewriteTask, target_bytes: int, at_once: int) -> list[RewriteTask]:
    """`task` as several, of files that have about `target_bytes` together each, where it writes.

    Files that would fit one task, and are large together, are shared among as many as run at once,
    where their rows are copied.
    """
    groups = shared(task.files, target_bytes, at_once, evenly=task.copies)
    tasks = (replace(task, files=tuple(group)) for group in groups)
    return [each for each in tasks if each.writes]


def shared(files: Sequence[F], target_bytes: int, at_once: int, *, evenly: bool) -> list[list[F]]:
    """Files in groups that have about `target_bytes` together each, in their order.

    With `evenly`, files that would fit one group, and are large together, make `at_once` of them.
    """
    sizes = [each.file.size for each in files]
    if evenly and sum(sizes) <= target_bytes:
        share = sum(sizes) // at_once + max(sizes, default=0) // 2
        target_bytes = min(target_bytes, max(share, _LEAST_SHARE))
    return grouped(files, sizes, target_bytes)


async def _pieces(roots: StoreRoots, task: RewriteTask) -> AsyncIterator[Piece]:
    """What to read of every file: no more than is written anew or told of."""
    looks = task.update is not None or task.tells
    for matched in task.files:
        copies = task.copies and not matched.is_whole
        if not copies and looks:
            yield Piece(matched.file, only=matched.rows, tag=_Sorter(matched.rows, matched.rows))
        elif copies:
            live = await live_rows(roots, matched.file, matched.num_rows)
            if not looks:
                staying = live - matched.rows
                yield Piece(matched.file, only=staying, tag=_Sorter(staying, BitMap64()))
            else:
                whole = len(live) == matched.num_rows
                only = None if whole else live
                yield Piece(matched.file, only=only, tag=_Sorter(live, matched.rows))


class _Sorter:
    """Tells rows of one file that match from those that stay; `read` are the places of the rows.

    Rows come in the order of the file, so that their places follow from how many came before.
    """

    def __init__(self, read: BitMap64, matching: BitMap64) -> None:
        self._read = read
        self._matching = matching
        self._taken = 0

    def take(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.RecordBatch]:
        """The rows that stay, and those that match, with their texts laid out."""
        if not rows.num_rows or not self._matching:
            return rows, rows.slice(0, 0)
        first, last = (self._read[self._taken + at] for at in (0, rows.num_rows - 1))
        self._taken += rows.num_rows
        span = last + 1 - first
        matching = named_rows(self._matching, first, span)
        if matching is None:
            return rows, rows.slice(0, 0)
        if span != rows.num_rows:
            was_read: Any = named_rows(self._read, first, span)
            matching = matching.filter(was_read)
        if not matching.true_count:
            return rows, rows.slice(0, 0)
        if matching.true_count == rows.num_rows:
            return rows.slice(0, 0), without_dictionaries(rows)
        taken = without_dictionaries(filtered(rows, matching))
        return filtered(rows, pc.invert(matching)), taken
