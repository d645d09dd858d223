"""Holding the log to itself: a checkpoint has to say what its version's commits say without it.

Nothing here is needed to read a table; `adelta.operations.fsck` asks for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from adelta import _compute as pc
from adelta._concurrency import in_thread
from adelta.errors import InvalidTableError, VersionNotFoundError
from adelta.kernel.file_id import file_ids
from adelta.kernel.log_segment import complete_checkpoints, plan_log_segment
from adelta.kernel.partition import lookup_partition_values, with_known_values
from adelta.log.load import version_timestamp
from adelta.log.opened_segment import open_version
from adelta.log.state import LogState

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from adelta.kernel.file_set import FileSet
    from adelta.kernel.log_path import LogPath
    from adelta.kernel.log_segment import CheckpointFiles, LogSegment
    from adelta.storage.object_store import ObjectStore

__all__ = ["checkpoint_faults", "replay"]


_SHOWN = 3  # paths named in a message


async def replay(store: ObjectStore, segment: LogSegment) -> LogState:
    """The state that a segment makes, whatever a version checksum says of it.

    Raises:
        InvalidTableError: the log is damaged.
    """
    opened = await open_version(store, segment)
    timestamp = await version_timestamp(store, opened.segment, opened.info, opened.metadata)
    return LogState.of_opened(store, opened, timestamp_ms=timestamp)


async def checkpoint_faults(
    store: ObjectStore, files: Sequence[LogPath], checkpoint: CheckpointFiles
) -> tuple[str, ...]:
    """What is wrong with a checkpoint: sentences, none where it can be read and tells the truth.

    `files` is a listing of the whole log. Where the commits before the checkpoint have been cleaned
    up there is nothing to hold it to, and it only has to be readable.

    Raises:
        StorageError: the store refused or failed.
    """
    version = checkpoint.version
    own = _paths((checkpoint,))
    at_version = _paths(c for c in complete_checkpoints(files) if c.version == version)
    try:
        segment = plan_log_segment(files, version=version, unusable=at_version - own)
        stated = await replay(store, segment)
        live = await stated.files()
        await stated.tombstones()
    except InvalidTableError as error:
        return (f"cannot be read: {error}",)
    if stated.segment.checkpoint is None or _paths((stated.segment.checkpoint,)) != own:
        return ("cannot be read, and was passed over for what the log has beside it",)
    try:
        without = plan_log_segment(files, version=version, unusable=at_version)
        replayed = await replay(store, without)
        found = await replayed.files()
    except (InvalidTableError, VersionNotFoundError):
        return ()  # no earlier start is left
    faults = await in_thread(_file_faults, live, found, _partition_names(replayed), store.uri)
    if stated.protocol != replayed.protocol:
        faults.append("has another protocol than the commits leave")
    if not _same_metadata(stated, replayed):
        faults.append("has another schema, partitioning or configuration than the commits leave")
    applications = await replayed.set_transactions()
    if any(applications.get(a) != txn for a, txn in (await stated.set_transactions()).items()):
        faults.append("has another version of an application's txn than the commits leave")
    if await stated.domain_metadata() != await replayed.domain_metadata():
        faults.append("has other domain metadata than the commits leave")
    return tuple(faults)


def _paths(checkpoints: Iterable[CheckpointFiles]) -> frozenset[str]:
    return frozenset(file.path for checkpoint in checkpoints for file in checkpoint.files)


def _same_metadata(one: LogState, other: LogState) -> bool:
    a, b = one.metadata, other.metadata
    return (
        a.id == b.id
        and a.schema == b.schema
        and a.partition_columns == b.partition_columns
        and a.configuration == b.configuration
    )


def _partition_names(state: LogState) -> tuple[str, ...]:
    return state.configuration.physical_partition_columns


def _file_faults(
    stated: FileSet, found: FileSet, partitions: tuple[str, ...], root: str
) -> list[str]:
    """How two sets of live files differ: by file, then by what is said of the files of both."""
    ours, theirs = _by_key(stated, root), _by_key(found, root)
    faults = []
    for table, others, sentence in (
        (theirs, ours, "lacks {count} live files, such as {paths}"),
        (ours, theirs, "has {count} files that the commits have not, such as {paths}"),
    ):
        odd = table.filter(pc.invert(pc.is_in(table.column("key"), others.column("key"))))
        if odd.num_rows:
            paths = ", ".join(map(str, odd.column("path").slice(0, _SHOWN).to_pylist()))
            faults.append(sentence.format(count=odd.num_rows, paths=paths))
    if faults:
        return faults
    if ours.num_rows != theirs.num_rows:
        return ["names a file twice"]
    if not ours.column("size").equals(theirs.column("size")):
        faults.append("has other sizes of files than the commits")
    for name in partitions:
        values = (
            lookup_partition_values(t.column("partition_values"), name) for t in (ours, theirs)
        )
        if not next(values).equals(next(values)):
            faults.append(f"has other values of the partition column {name!r} than the commits")
    return faults


def _by_key(files: FileSet, root: str) -> pa.Table:
    keyed = with_known_values(files.table.select(["path", "size", "partition_values"]))
    keys = pa.chunked_array(file_ids(files.table, root).chunks, pa.string())
    return keyed.append_column("key", keys).sort_by("key").combine_chunks()
