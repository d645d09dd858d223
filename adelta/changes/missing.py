"""Commits that a listing leaves out: late, cleaned up, or missing from the log.

Of a folder that others write to, a listing may leave out a file that is there, and show a newer
one. So what a listing does not show is asked for by name, several times, before it counts as gone;
and only a log that can be read from a later version on has been cleaned up. A clean-up that was
broken off may leave old commits before those that it deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio

from adelta.errors import (
    ChangesNotAvailableError,
    MissingCommitError,
    TableNotFoundError,
    VersionNotFoundError,
)
from adelta.kernel.log_cleanup import LEAST_AGE_MS
from adelta.kernel.log_path import LogFileKind
from adelta.kernel.log_segment import complete_checkpoints
from adelta.log.listing import find_commit, list_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.log_path import LogPath
    from adelta.storage.object_store import ObjectStore

__all__ = ["find_late_commit"]

_PAUSES = (0.0, 0.05, 0.1, 0.2, 0.4)  # seconds before each look


async def find_late_commit(store: ObjectStore, version: int) -> LogPath:
    """The commit of `version`, where the log has later ones; it may take some looks.

    Raises:
        ChangesNotAvailableError: it has been cleaned up; the message says which version can be
            started from.
        MissingCommitError: it is not there, and commits before and after it are.
        TableNotFoundError: there is no log any more.
        VersionNotFoundError: there is nothing later any more.
    """
    for pause in _PAUSES:
        await anyio.sleep(pause)
        found = await find_commit(store, version)
        if found is not None:
            return found
    raise _gone(store, version, await list_log(store))


def _gone(store: ObjectStore, version: int, files: Sequence[LogPath]) -> Exception:
    """Why the commit of `version` is not there, though later ones were seen."""
    commits = [file.version for file in files if file.kind is LogFileKind.COMMIT]
    checkpoints = [checkpoint.version for checkpoint in complete_checkpoints(files)]
    if not commits and not checkpoints:
        return TableNotFoundError(f"there is no Delta table at {store.uri} any more")
    after = min((v for v in commits if v > version), default=None)  # not what is listed in vain
    begins = [v for v in checkpoints if v >= version and (after is None or v <= after)]
    if after is None and not begins:
        return VersionNotFoundError(
            f"{store.uri}: the commit of version {version} is gone, and nothing later is there; if "
            "the table was made anew, start again from its beginning, or from a snapshot"
        )
    if not begins and not _may_be_cleaned_up(version, files, checkpoints):
        return MissingCommitError(
            f"{store.uri}: the commit of version {version} is missing from the log; restore the "
            "file from a backup"
        )
    start = max(begins) + 1 if after is None else after
    return ChangesNotAvailableError(
        f"{store.uri}: the commits {version} to {start - 1} have been cleaned up before they were "
        f"read; start again from version {start}, or from a snapshot",
        earliest_version=start,
    )


def _may_be_cleaned_up(version: int, files: Sequence[LogPath], checkpoints: Sequence[int]) -> bool:
    """Whether the commits before `version` are none, or what a clean-up has not come to delete."""
    left = [file for file in files if file.kind is LogFileKind.COMMIT and file.version < version]
    if not left:
        return True
    newest = max(file.last_modified_ms for file in files)  # by the same clock as the others
    expired = all(file.last_modified_ms <= newest - LEAST_AGE_MS for file in left)
    return expired and any(checkpoint >= version for checkpoint in checkpoints)
