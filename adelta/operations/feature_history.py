"""Whether versions that the log still keeps use a feature that the latest one no longer does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.kernel.log_path import LogFileKind
from adelta.kernel.log_segment import complete_checkpoints
from adelta.log.commit_reader import read_commits
from adelta.log.listing import list_log
from adelta.log.load import load_state

if TYPE_CHECKING:
    import pyarrow as pa

    from adelta.kernel.actions.protocol import Protocol
    from adelta.kernel.table_features import Removal
    from adelta.storage.object_store import ObjectStore

__all__ = ["oldest_commit", "used_in_history"]

_COMMITS_AT_ONCE = 100


async def oldest_commit(store: ObjectStore) -> int | None:
    """The version of the oldest commit in the log; None where it has none."""
    files = await list_log(store)
    versions = [file.version for file in files if file.kind is LogFileKind.COMMIT]
    return min(versions, default=None)


async def used_in_history(store: ObjectStore, removal: Removal, protocol: Protocol) -> bool:
    """Whether a version that can be read, or a commit that is there, uses a feature.

    `removal` says what the feature leaves behind, and `protocol` is the latest one. Tombstones do
    not count in a checkpoint: nobody reads the files that they stand for.

    Raises:
        InvalidTableError: the log is damaged.
    """
    files = await list_log(store)
    if removal.in_checkpoints and any(f.kind is LogFileKind.UUID_CHECKPOINT for f in files):
        return True
    oldest = min((c.version for c in complete_checkpoints(files)), default=None)
    if oldest is not None:
        state = await load_state(store, version=oldest)
        if removal.used(state.metadata):
            return True
        if removal.column is not None and _has_values((await state.files()).table, removal.column):
            return True
    commits = [file for file in files if file.kind is LogFileKind.COMMIT]

    for start in range(0, len(commits), _COMMITS_AT_ONCE):
        for commit in await read_commits(store, commits[start : start + _COMMITS_AT_ONCE]):
            if commit.metadata is not None and removal.used(commit.metadata):
                return True
            if removal.column is not None and (
                _has_values(commit.adds, removal.column)
                or _has_values(commit.removes, removal.column)
            ):
                return True
    return False


def _has_values(files: pa.Table, column: str) -> bool:
    return files.column(column).null_count < files.num_rows
