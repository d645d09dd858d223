"""RecentCommits: the last commits of a table that this process has made or met, kept in memory.

A transaction that was prepared before them is judged and rebased by them without a request.
"""

from __future__ import annotations

from collections import deque
from functools import cached_property
from typing import TYPE_CHECKING

from adelta.write.winners import winning_commit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.staged import WinningCommit
    from adelta.log.commit_reader import DecodedCommit
    from adelta.log.state import LogState

__all__ = ["RecentCommit", "RecentCommits"]

_COMMITS = 256
_FILES = 10_000


class RecentCommit:
    """A commit as the log has it, and as the conflict checker looks at it.

    Attributes:
        decoded: the commit.
    """

    def __init__(self, decoded: DecodedCommit) -> None:
        self.decoded = decoded

    @cached_property
    def winning(self) -> WinningCommit:
        """What there is to conflict with, made when somebody has to be judged by it."""
        return winning_commit(self.decoded)


class RecentCommits:
    """An unbroken run of commits, at most 256 of them with 10,000 file actions in all."""

    def __init__(self) -> None:
        self._commits: deque[RecentCommit] = deque()
        self._files = 0
        self._table: str | None = None

    def after(self, state: LogState) -> Sequence[RecentCommit] | None:
        """The commits after `state` as far as they are known; None where there is a gap."""
        if self._table != state.metadata.id or not self._commits:
            return ()  # nothing is known, or of a table that was here before this one
        missing = self._commits[0].decoded.version - state.version - 1
        if missing > 0:
            return None
        return [self._commits[at] for at in range(-missing, len(self._commits))]

    def note(self, state: LogState, commits: Sequence[DecodedCommit]) -> Sequence[RecentCommit]:
        """Take in commits that follow `state`, and give them back as they are kept."""
        noted = [RecentCommit(commit) for commit in commits]
        if self._table != state.metadata.id:
            self._clear()
            self._table = state.metadata.id
        for commit in noted:
            self._append(commit)
        return noted

    def _append(self, commit: RecentCommit) -> None:
        version = commit.decoded.version
        if self._commits and version <= self._commits[-1].decoded.version:
            return  # met again by a transaction that is behind
        if self._commits and version != self._commits[-1].decoded.version + 1:
            self._clear()
        self._commits.append(commit)
        self._files += commit.decoded.batch.num_files
        while len(self._commits) > _COMMITS or self._files > _FILES:
            self._files -= self._commits.popleft().decoded.batch.num_files

    def _clear(self) -> None:
        self._commits.clear()
        self._files = 0
