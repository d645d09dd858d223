"""The state of a table right after its first commit, without a look at the log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta.errors import InvalidTableError
from adelta.kernel.log_path import LogFileKind, LogPath, commit_path
from adelta.kernel.log_segment import LogSegment
from adelta.log.opened_segment import OpenedSegment
from adelta.log.state import LogState

if TYPE_CHECKING:
    from adelta.kernel.commit import Commit
    from adelta.storage.object_store import ObjectStore

__all__ = ["created_state"]


def created_state(store: ObjectStore, commit: Commit, num_bytes: int) -> LogState:
    """The state that `commit`, version 0 of the table in `store`, makes.

    Its file has `num_bytes`.

    Raises:
        InvalidTableError: the commit lacks a protocol or metadata.
    """
    if commit.protocol is None or commit.metadata is None:
        raise InvalidTableError(
            f"{store.uri}: version 0 has no protocol or no metadata; the log is damaged"
        )
    file = LogPath(commit_path(0), LogFileKind.COMMIT, 0, num_bytes, commit.modified_ms or 0)
    opened = OpenedSegment(
        LogSegment(0, None, (file,)),
        None,
        (commit.actions,),
        commit.protocol,
        commit.metadata,
        commit.info,
    )
    return LogState.of_opened(store, opened, timestamp_ms=commit.timestamp_ms or 0)
