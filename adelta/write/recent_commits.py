"""RecentCommits: the last commits of a table that this process has made or met, kept in memory.

A transaction that was prepared before them is judged and rebased by them without a request.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.commit import Commit
    from adelta.log.state import LogState

__all__ = ["RecentCommits"]

_COMMITS = 256
_FILES = 10_000


class RecentCommits:
    """An unbroken run of commits, at most 256 of them with 10,000 file actions in all."""

    def __init__(self) -> None:
        self._commits: deque[Commit] = deque()
        self._files = 0
        self._table: str | None = None

    def after(self, state: LogState) -> Sequence[Commit] | None:
        """The commits after `state` as far as they are known; None where there is a gap."""
        if self._table != state.metadata.id or not self._commits:
            return ()  # nothing is known, or of a table that was here before this one
        missing = self._commits[0].version - state.version - 1
        if missing > 0:
            return None
        return [self._commits[at] for at in range(-missing, len(self._commits))]

    def note(self, table_id: str, commits: Sequence[Commit]) -> None:
        """Take in commits of the table that has this id, as its metadata say."""
        if self._table != table_id:
            self.forget()
            self._table = table_id
        for commit in commits:
            self._append(commit)

    def _append(self, commit: Commit) -> None:
        version = commit.version
        if self._commits and version <= self._commits[-1].version:
            return  # met again by a transaction that is behind
        if self._commits and version != self._commits[-1].version + 1:
            self.forget()
        self._commits.append(commit)
        self._files += commit.actions.num_files
        while len(self._commits) > _COMMITS or self._files > _FILES:
            self._files -= self._commits.popleft().actions.num_files

    def forget(self) -> None:
        """Give up what is known: the log is not what it was, or goes on elsewhere."""
        self._commits.clear()
        self._files = 0
