"""Opening a log segment: its commits, and of its checkpoint what says how to read the table.

A checkpoint that turns out to be missing or damaged is passed over for an earlier one.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from adelta._concurrency import in_io_thread, in_thread, together
from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, MissingCommitError, VersionNotFoundError
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.log_segment import CheckpointFiles, LogSegment, plan_log_segment
from adelta.log.checkpoint_reader import CheckpointReader
from adelta.log.commit_reader import read_action_batches
from adelta.log.listing import list_log
from adelta.storage.distrust import distrust

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from adelta.kernel.actions.commit_info import CommitInfo
    from adelta.kernel.actions.json import ActionBatch
    from adelta.kernel.actions.metadata import Metadata
    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.log_path import LogPath
    from adelta.log.checkpoint_file import CheckpointFile
    from adelta.storage.object_store import ObjectStore

__all__ = ["OpenedSegment", "open_earlier", "open_version", "plan_version"]

_PLANNED_INLINE = 1000  # longer listings are planned in a worker thread


@dataclass(frozen=True, slots=True)
class OpenedSegment:
    """A segment of which all commits and the singletons of the checkpoint have been read.

    `info` is the provenance of the segment's version, where its commit was among them.
    `passed_over` names the files of checkpoints that would have done, and are damaged.
    """

    segment: LogSegment
    reader: CheckpointReader | None
    batches: tuple[ActionBatch, ...]
    protocol: Protocol
    metadata: Metadata
    info: CommitInfo | None = None
    passed_over: frozenset[str] = frozenset()


async def plan_version(
    store: ObjectStore,
    files: Sequence[LogPath],
    version: int | None,
    unusable: frozenset[str] = frozenset(),
) -> LogSegment:
    """The segment that makes `version`, or the latest one, from a listing; the table is named.

    Raises:
        VersionNotFoundError: the log does not reach `version`, or no longer goes back to it.
        MissingCommitError: a commit that is needed is missing.
    """

    def plan() -> LogSegment:
        return plan_log_segment(files, version=version, unusable=unusable)

    try:
        return plan() if len(files) < _PLANNED_INLINE else await in_thread(plan)
    except (MissingCommitError, VersionNotFoundError) as error:
        told = type(error)(f"{store.uri}: {error}")
        vars(told).update(vars(error))
        raise told from error


async def open_version(
    store: ObjectStore,
    segment: LogSegment,
    opened: Mapping[str, CheckpointFile] | None = None,
) -> OpenedSegment:
    """Read `segment`, or one of the same version: with an earlier checkpoint, or what is left.

    `opened` are files of the checkpoint that have been opened already, by path.

    Raises:
        InvalidTableError: the log is damaged and no earlier checkpoint helps.
    """
    try:
        return await _open(store, segment, opened)
    except _CheckpointDamaged as error:
        return await open_earlier(store, segment.version, error.paths, error.cause)
    except MissingCommitError as error:  # cleaned up since a checkpoint stands for them
        return await open_earlier(store, segment.version, frozenset(), error)


async def open_earlier(
    store: ObjectStore, version: int, unusable: frozenset[str], cause: InvalidTableError
) -> OpenedSegment:
    """Read `version` without the checkpoint files that are `unusable`.

    Raises:
        InvalidTableError: `cause`, where no earlier checkpoint helps.
    """
    files = await list_log(store, end=version)
    while True:
        try:
            segment = await plan_version(store, files, version, unusable)
        except (InvalidTableError, VersionNotFoundError) as error:
            raise cause from error
        try:
            return replace(await _open(store, segment, None), passed_over=unusable)
        except _CheckpointDamaged as error:
            unusable |= error.paths


class _CheckpointDamaged(Exception):
    """A checkpoint could not be used; an earlier one may."""

    def __init__(self, checkpoint: CheckpointFiles, cause: InvalidTableError) -> None:
        super().__init__(str(cause))
        self.paths = frozenset(file.path for file in checkpoint.files)
        self.cause = cause


async def _open(
    store: ObjectStore, segment: LogSegment, opened: Mapping[str, CheckpointFile] | None
) -> OpenedSegment:
    async def read_checkpoint() -> CheckpointReader | None:
        if segment.checkpoint is None:
            return None
        try:
            return await CheckpointReader.open(store, segment.checkpoint, opened)
        except InvalidTableError as error:
            raise _CheckpointDamaged(segment.checkpoint, error) from error

    reader, batches = await together(read_checkpoint, partial(_read_tail, store, segment))
    protocol = reader.protocol if reader else None
    metadata = reader.metadata if reader else None
    for batch in batches:
        protocol = batch.protocols[-1][1] if batch.protocols else protocol
        metadata = batch.metadata[-1][1] if batch.metadata else metadata
    if protocol is None or metadata is None:
        what = "protocol" if protocol is None else "metaData"
        failure = InvalidTableError(
            f"{store.uri}: no {what} action up to version {segment.version}; the log is damaged: "
            "restore its first files from a backup, or create the table anew over the data files"
        )
        named = segment.checkpoint.files if segment.checkpoint is not None else ()
        paths = tuple(file.path for file in (*named, *segment.commits, *segment.compactions))
        await in_io_thread(distrust, store, paths, failure)
        if segment.checkpoint is not None:
            raise _CheckpointDamaged(segment.checkpoint, failure)
        raise failure
    info = batches[-1].commit_infos.get(segment.version) if batches else None
    return OpenedSegment(segment, reader, tuple(batches), protocol, metadata, info)


async def _read_tail(store: ObjectStore, segment: LogSegment) -> list[ActionBatch]:
    """The commits after the checkpoint, by compactions where these stand for several of them."""
    if segment.compactions:
        with suppress(InvalidTableError):  # the commits say what a damaged compaction does not
            return await _read_compacted(store, segment)
    return await read_action_batches(store, segment.commits)


async def _read_compacted(store: ObjectStore, segment: LogSegment) -> list[ActionBatch]:
    from adelta.kernel.log_compaction import files_to_read, is_reconciled

    chosen = files_to_read(segment.commits, segment.compactions)
    compacted = {f.version: f for f in chosen if f.kind is LogFileKind.COMPACTION}
    batches = await read_action_batches(store, chosen)
    for batch in batches:
        for version in compacted.keys() & set(batch.versions):
            if not await in_thread(is_reconciled, batch, store.uri):
                raise InvalidTableError(
                    f"{store.uri}/{compacted[version].path} names a file twice; it is no compaction"
                )
    return batches
