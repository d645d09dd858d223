"""Writes log compactions: one file that says what a run of commits leaves.

The commits stay where they are. A compaction is not replaced, as whoever writes the one of a range
writes the same; but for an empty one, which no reader is to trust.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import anyio

from adelta._concurrency import ItemsInThread, in_thread
from adelta._dataclasses import dataclass
from adelta.errors import MissingCommitError, ObjectExistsError
from adelta.kernel.log_compaction import compaction_pieces
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path, compaction_path
from adelta.kernel.table_properties import TableProperties
from adelta.log.commit_reader import read_action_batches
from adelta.log.gone import take_back_if_gone
from adelta.log.listing import list_log
from adelta.log.version_replay import reconciled
from adelta.progress import Meter

if TYPE_CHECKING:
    from adelta.kernel.actions.json import ActionBatch
    from adelta.log.state import LogState
    from adelta.progress import OnProgress
    from adelta.storage.object_store import ObjectStore

__all__ = ["WrittenCompaction", "compact_if_due", "is_compaction_due", "write_compaction"]

_PAUSES = (0.0, 0.05, 0.1, 0.2)  # seconds after the times that a commit is listed and denied


@dataclass(frozen=True, slots=True)
class WrittenCompaction:
    """A compaction of the commits `start` to `end`: its actions and bytes."""

    path: str
    start: int
    end: int
    num_actions: int
    size: int


async def compact_if_due(state: LogState) -> WrittenCompaction | None:
    """Compact the last commits, where the table says how many; not those that a checkpoint covers.

    Raises:
        MissingCommitError: a commit of them is gone.
        InvalidTableError: a commit of them is damaged.
        StorageError: the store refused or failed.
    """
    if not is_compaction_due(state):
        return None
    properties = TableProperties.parse(state.metadata.configuration)
    interval, version = properties.log_compaction_interval, state.version
    assert interval is not None
    checkpointed = version - version % properties.checkpoint_interval  # others may be gone by now
    start = max(version - interval, checkpointed) + 1
    return await write_compaction(state, start, version) if start < version else None


def is_compaction_due(state: LogState) -> bool:
    """Whether the table wants its last commits compacted, up to that of `state`."""
    interval = TableProperties.parse(state.metadata.configuration).log_compaction_interval
    return interval is not None and state.version >= interval and state.version % interval == 0


async def write_compaction(
    state: LogState, start: int, end: int, on_progress: OnProgress | None = None
) -> WrittenCompaction | None:
    """Write the compaction of commits up to that of `state`; none where they leave nothing.

    `on_progress` is told of the commits that are read.

    Raises:
        MissingCommitError: a commit of them is gone.
        InvalidTableError: a commit of them is damaged.
        TableNotFoundError: the table was dropped meanwhile; the compaction has been taken back.
        StorageError: the store refused or failed.
    """
    store = state.store
    batches = await _read(store, start, end, on_progress)
    left = await reconciled(batches, store.uri)
    pieces = compaction_pieces(batches, left.adds, left.tombstones)
    content = [piece async for piece in ItemsInThread(pieces)]
    data = await in_thread(b"".join, content)
    if not data:
        return None
    path = compaction_path(start, end)
    try:
        await store.put_if_absent(path, data)
    except ObjectExistsError:
        if not (await store.head(path)).size:  # it is damaged: this range leaves something
            await store.put(path, data)
    await take_back_if_gone(state, [path])
    return WrittenCompaction(path, start, end, data.count(b"\n"), len(data))


async def _read(
    store: ObjectStore, start: int, end: int, on_progress: OnProgress | None
) -> list[ActionBatch]:
    """The commits; they are read again where the store lists all of them, and denies one.

    Raises: as `write_compaction`.
    """
    commits = [LogPath(commit_path(v), LogFileKind.COMMIT, v) for v in range(start, end + 1)]
    for pause in _PAUSES:
        meter = Meter(on_progress, "reading", total=len(commits), unit="objects")
        with suppress(MissingCommitError):
            return await read_action_batches(store, commits, meter)
        listed = {file.path for file in await list_log(store, start, end=end)}
        if not all(commit.path in listed for commit in commits):
            break
        await anyio.sleep(pause)
    return await read_action_batches(store, commits)
