"""A checkpoint by tasks: no process holds the list of files.

With few commits after the last checkpoint, each task replays a share of that checkpoint against
their keys, and writes sidecars of its own: files stay beside those that they lay beside before.
With many commits, without a checkpoint, and where the table has no sidecars, all file actions are
clustered by a hash of their canonical path on their way from the tasks that read to those that
write, and every part is reconciled apart from the others.

The checkpoint begins with its last file: the manifest, which is put when all sidecars are there, or
the last part of a set whose parts are counted in their names. What is left behind where a task or
the driver dies is what the clean-up of the log removes.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from adelta._concurrency import in_thread
from adelta._dataclasses import dataclass
from adelta.commit.choose import publish
from adelta.errors import InvalidOptionError, InvalidTableError, VersionNotFoundError
from adelta.kernel.checkpoint.parts import MAX_PARTS, number_of_parts
from adelta.kernel.checksum.file_facts import joined
from adelta.kernel.last_checkpoint import LastCheckpoint
from adelta.kernel.log_path import checkpoint_part_path
from adelta.log.checkpoint_files import SIDECAR_ROWS, write_part, write_sidecars
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.log.checkpoint_replay import CheckpointPiece, PieceReplay, pieces_of
from adelta.log.checkpoint_rows import CheckpointRows
from adelta.log.checkpoint_writer import (
    CheckpointContent,
    finish_v2,
    note_counted,
    point_to,
    write_checkpoint,
)
from adelta.log.checksum_writer import counted_by
from adelta.log.clustered_replay import (
    Blob,
    CommitPiece,
    commit_pieces,
    read_clustered,
    reconciled_blobs,
)
from adelta.log.expiry_time import expiry_time_ms
from adelta.log.listing import list_log
from adelta.log.load import load_state
from adelta.log.opened_segment import plan_version
from adelta.operations.checkpoint import CheckpointMetrics
from adelta.operations.distributed_files import shares_of
from adelta.table import clock_of, latest_state, roots_of
from adelta.write.task_executor import TaskExecutor
from adelta.write.upkeep import after_checkpoint

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.domain_metadata import DomainMetadata
    from adelta.kernel.actions.set_transaction import SetTransaction
    from adelta.kernel.checksum.version_checksum import VersionChecksum
    from adelta.kernel.log_segment import LogSegment
    from adelta.kernel.replay import ReconciledTail
    from adelta.log.checksum_writer import NonFiles
    from adelta.log.state import LogState
    from adelta.log.version_replay import VersionReplay
    from adelta.parquet.write.writer import WrittenFile
    from adelta.storage.roots import StoreRoots
    from adelta.table import Table

__all__ = [
    "ClusterExecutor",
    "PartTask",
    "ReadTask",
    "WrittenRows",
    "checkpoint_by_tasks",
]

_TAIL_AT_HAND = 32 << 20  # bytes of commits, of which the keys go to every task
_SHARE = 16 << 20  # bytes of the log that a task reads
_PART_ROWS = 200_000
_MOST_SIDECARS = 20_000


@dataclass(frozen=True, slots=True)
class WrittenRows:
    """What a task has written of a checkpoint: `files` by path and size, with `num_rows` rows.

    `counted` is the checksum of the version if it had these live files alone.
    """

    part: int
    files: tuple[tuple[str, int], ...]
    num_rows: int
    counted: VersionChecksum
    num_removes: int
    paths: tuple[str, ...] = ()  # a checkpoint that counts may name them: nobody deletes them

    @classmethod
    def of(cls, files: Sequence[WrittenFile], rows: CheckpointRows, part: int = 0) -> WrittenRows:
        """What was written of `rows`."""
        return cls(
            part,
            tuple((file.path, file.size) for file in files),
            sum(file.num_rows for file in files),
            rows.counted,
            rows.num_removes,
        )


@dataclass(frozen=True, slots=True)
class SidecarTask:
    """Writes the file actions of some pieces of the last checkpoint to sidecars of `size` rows."""

    pieces: tuple[CheckpointPiece, ...]
    tail: ReconciledTail
    content: CheckpointContent
    size: int

    async def run(self, roots: StoreRoots) -> WrittenRows:
        """Carry it out."""
        rows = _rows(roots, self.content, PieceReplay(roots.store, self.pieces, self.tail))
        return WrittenRows.of(await write_sidecars(roots.store, rows, self.size), rows)


@dataclass(frozen=True, slots=True)
class ReadTask:
    """Reads file actions of some pieces of the log, by which of `parts` they belong to."""

    pieces: tuple[CheckpointPiece | CommitPiece, ...]
    parts: int

    async def run(self, roots: StoreRoots) -> list[Blob]:
        """Carry it out."""
        return await read_clustered(roots.store, self.pieces, self.parts)


@dataclass(frozen=True, slots=True)
class PartTask:
    """Writes one of `parts` of a checkpoint, of all actions that belong to it."""

    content: CheckpointContent
    parts: int
    sidecars: bool

    async def run(self, roots: StoreRoots, part: int, blobs: Sequence[Blob]) -> WrittenRows:
        """Carry it out; `blobs` are in the order of what was read."""
        store, content = roots.store, self.content
        tail = await in_thread(reconciled_blobs, blobs, store.uri)
        rows = _rows(roots, content, PieceReplay(store, (), tail))
        if self.sidecars:
            return WrittenRows.of(await write_sidecars(store, rows, _MOST_ROWS), rows, part)
        path = checkpoint_part_path(content.version, part + 1, self.parts)
        singletons = content.singletons if part == 0 else None
        return WrittenRows.of([await write_part(store, path, rows, singletons)], rows, part)


_MOST_ROWS = 1 << 40  # all that a part has are one sidecar


class ClusterExecutor(TaskExecutor, Protocol):
    """Carries out tasks, and such as exchange what they have read."""

    async def run_clustered(
        self, readers: Sequence[ReadTask], writer: PartTask
    ) -> list[WrittenRows]:
        """What `writer` has made of every part of which a reader had actions.

        The blobs of a part come in the order of the readers. What a task raises is raised here.
        """
        ...


async def checkpoint_by_tasks(
    table: Table, executor: ClusterExecutor, *, parts: int | None = None
) -> CheckpointMetrics:
    """Write a checkpoint of the latest version by tasks of `executor`, as `checkpoint` does.

    It has sidecars where the table may have these, and else as many parts as the table's part size
    makes, or as asked for: one part is written by this process. With `parts` there are so many
    sidecars.

    Raises:
        TableNotFoundError: there is no table.
        UnsupportedFeatureError: the table needs a feature that adelta does not have.
        InvalidOptionError: there cannot be so many parts.
        InvalidTableError: the log is damaged.
        StorageError: the store refused or failed.
    """
    state = await latest_state(table)
    configuration = state.configuration
    configuration.check_writable(table.uri)
    most = _MOST_SIDECARS if configuration.supports_v2_checkpoints else MAX_PARTS
    if parts is not None and not 0 < parts <= most:
        raise InvalidOptionError(f"a checkpoint of {parts} parts: give it 1 to {most:,}")
    await publish(table.store, configuration)
    if state.newer:
        state = await load_state(table.store, version=state.version)
    hint = await _written(state, roots_of(table), executor, parts, table)
    await after_checkpoint(state, clock_of(table))
    return CheckpointMetrics(
        version=hint.version,
        num_actions=hint.size,
        num_files=hint.num_of_add_files or 0,
        num_bytes=hint.size_in_bytes or 0,
    )


async def _written(
    state: LogState,
    roots: StoreRoots,
    executor: ClusterExecutor,
    parts: int | None,
    table: Table,
) -> LastCheckpoint:
    now_ms = await expiry_time_ms(state.store, clock_of(table).now_ms())
    configuration = state.configuration
    size = configuration.properties.checkpoint_part_size
    sidecars = configuration.supports_v2_checkpoints
    commits = sum(commit.size for commit in state.segment.commits)
    if sidecars and parts is None and state.segment.checkpoint and commits <= _TAIL_AT_HAND:
        write = partial(_beside, state, roots, executor, now_ms, size or SIDECAR_ROWS)
        hint = await state.replayed(write)
    else:
        if parts is None:
            rows = await state.about_files()
            if sidecars:
                parts = min(max(1, -(-rows // (size or SIDECAR_ROWS))), _MOST_SIDECARS)
            else:
                parts = number_of_parts(rows, size or _PART_ROWS)
        if parts == 1 and not sidecars:
            return await write_checkpoint(state, clock_of(table))
        hint = await _clustered(state, roots, executor, now_ms, parts)
    await point_to(state, hint)
    return hint


def _rows(roots: StoreRoots, content: CheckpointContent, replay: PieceReplay) -> CheckpointRows:
    configuration, uri = content.configuration, roots.store.uri
    return CheckpointRows(replay, uri, configuration, content.empty, content.now_ms)


async def _beside(
    state: LogState,
    roots: StoreRoots,
    executor: ClusterExecutor,
    now_ms: int,
    size: int,
    replay: VersionReplay,
) -> LastCheckpoint:
    """Sidecars of what the last checkpoint has, and of what the commits after it have."""
    content = await CheckpointContent.of(state, replay, now_ms)
    tail = await replay.tail()
    keys = tail.keys_alone()
    tasks = [SidecarTask(share, keys, content, size) for share in shares_of(replay, executor)]
    newer = _rows(roots, content, PieceReplay(state.store, (), tail))
    files = await write_sidecars(state.store, newer, size)
    written = [WrittenRows.of(files, newer), *await executor.run(roots, tasks)]
    counted = joined([each.counted for each in written])
    await note_counted(state, counted_by(counted, state, replay.segment.opened))
    return await _finished(state, content, written, counted)


async def _clustered(
    state: LogState, roots: StoreRoots, executor: ClusterExecutor, now_ms: int, parts: int
) -> LastCheckpoint:
    """Parts, or sidecars, by a hash of paths."""
    content = await CheckpointContent.of(state, _non_files(state), now_ms)
    sidecars = state.configuration.supports_v2_checkpoints
    writer = PartTask(content, parts, sidecars)
    written = await _exchanged(state, executor, writer)
    if not sidecars:  # a part without a file is one, too
        missing = set(range(parts)) - {each.part for each in written}
        written += [await writer.run(roots, part, ()) for part in sorted(missing)]
    counted = joined([content.empty, *(each.counted for each in written)])
    await note_counted(state, counted_by(counted, state, None))
    return await _finished(state, content, written, counted, parts)


async def _exchanged(
    state: LogState, executor: ClusterExecutor, writer: PartTask
) -> list[WrittenRows]:
    """What tasks make of the log, by an earlier checkpoint where the last one is damaged."""
    segment = state.segment
    unusable: frozenset[str] = frozenset()
    while True:
        try:
            readers = await _readers(state, segment, writer.parts)
            return await executor.run_clustered(readers, writer)
        except InvalidTableError as error:
            if segment.checkpoint is None:
                raise
            unusable |= {file.path for file in segment.checkpoint.files}
            listed = await list_log(state.store, end=state.version)
            try:
                segment = await plan_version(state.store, listed, state.version, unusable)
            except (InvalidTableError, VersionNotFoundError):
                raise error from None


async def _readers(state: LogState, segment: LogSegment, parts: int) -> list[ReadTask]:
    shares: list[tuple[CheckpointPiece, ...] | tuple[CommitPiece, ...]] = []
    if segment.checkpoint is not None:
        reader = await CheckpointReader.open(state.store, segment.checkpoint)
        shares += pieces_of(reader, _SHARE)
    shares += commit_pieces(segment.commits, _SHARE)
    return [ReadTask(share, parts) for share in shares]


async def _finished(
    state: LogState,
    content: CheckpointContent,
    written: Sequence[WrittenRows],
    counted: VersionChecksum,
    parts: int | None = None,
) -> LastCheckpoint:
    files = [file for each in written for file in each.files]
    if state.configuration.supports_v2_checkpoints:
        removes = sum(each.num_removes for each in written)
        return await finish_v2(state.store, content, files, counted.num_files, removes)
    return LastCheckpoint(
        content.version,
        sum(each.num_rows for each in written),
        parts=parts,
        size_in_bytes=sum(size for _, size in files),
        num_of_add_files=counted.num_files,
    )


@dataclass(frozen=True, slots=True)
class _Stated:
    """What a checksum states besides files."""

    transactions: Mapping[str, SetTransaction]
    domains: Mapping[str, DomainMetadata]

    async def set_transactions(self) -> Mapping[str, SetTransaction]:
        return self.transactions

    async def domain_metadata(self) -> Mapping[str, DomainMetadata]:
        return self.domains


def _non_files(state: LogState) -> NonFiles:
    """Who tells of application transactions and domains: the checksum, or else the log."""
    counted = state.checksum.counted
    if counted is None or None in (counted.set_transactions, counted.domain_metadata):
        return state
    return _Stated(
        {txn.app_id: txn for txn in counted.set_transactions or ()},
        {domain.domain: domain for domain in counted.domain_metadata or ()},
    )
