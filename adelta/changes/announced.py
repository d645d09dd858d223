"""Waiting for the next commit of a table: for its owner to announce it, or for a pause to pass."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import anyio

from adelta._secrets import without_secrets
from adelta.commit.choose import owned_of
from adelta.errors import AdeltaError
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path

if TYPE_CHECKING:
    from adelta.storage.object_store import ObjectStore

__all__ = ["next_commits"]

_log = logging.getLogger("adelta.changes")

_MOST = 1000  # commits that are taken at once of what is announced, which may be far ahead
_LOOK = 20.0  # seconds without an announcement, until the log is looked at all the same


async def next_commits(store: ObjectStore, version: int, pause: float) -> list[LogPath]:
    """The commits from `version` on, as soon as the table's owner announces them.

    None where it announces nothing, for a while that is at least the `pause`, in seconds: then the
    log has to be looked at. Where nobody announces commits, or the owner fails, that is after the
    pause.
    """
    owned = owned_of(store)
    if owned is not None and owned.client.announces_commits:
        try:
            latest = await owned.client.wait_for_commit(version - 1, max(pause, _LOOK))
        except AdeltaError as error:
            _log.debug("%s: no announcements: %s", without_secrets(store.uri), error)
        else:
            last = version - 1 if latest is None else min(latest, version + _MOST - 1)
            return [
                LogPath(commit_path(each), LogFileKind.COMMIT, each)
                for each in range(version, last + 1)
            ]
    await anyio.sleep(pause)
    return []
