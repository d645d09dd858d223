"""Which files of the log have expired (PROTOCOL.md, "Metadata Cleanup").

A version that was the latest at some time after the cutoff can be read afterwards as before. What
makes it is kept: the newest checkpoint that is not newer than the version at the cutoff, the commit
of the checkpoint's own version, and everything after it. So are commits before it on which the
timestamps of later ones hang: file times are made to ascend from the first commit on, so a commit
that bears an older time than the one before it would change its time if that one were gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.history import adjusted_timestamps
from adelta.kernel.log_path import LogFileKind, LogPath
from adelta.kernel.log_segment import CheckpointFiles, complete_checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["LEAST_AGE_MS", "LogCleanup", "day_of", "is_abandoned", "plan_cleanup"]

DAY_MS = 86_400_000
LEAST_AGE_MS = 3_600_000
"""How old a commit is at least that a clean-up deletes, whatever the retention."""


@dataclass(frozen=True, slots=True)
class LogCleanup:
    """What may go. `first` is the checkpoint that the oldest versions still to be read begin with.

    `commits` go before the `others`, so that a checkpoint never goes before what it stands for.
    """

    first: CheckpointFiles
    commits: tuple[LogPath, ...]
    others: tuple[LogPath, ...]

    @property
    def files(self) -> tuple[LogPath, ...]:
        """All that may go, in the order in which it is to be deleted."""
        return self.commits + self.others


def day_of(timestamp_ms: int) -> int:
    """Midnight UTC of the day of a time, in milliseconds since the Unix epoch."""
    return timestamp_ms - timestamp_ms % DAY_MS


def plan_cleanup(
    files: Sequence[LogPath],
    cutoff_ms: int,
    *,
    protected_before: int = 0,
    unusable: frozenset[str] = frozenset(),
    newest: int | None = None,
) -> LogCleanup | None:
    """What has expired at `cutoff_ms`; None where there is nothing to begin from afterwards.

    `files` is the log from its start on, as far as commits are not newer than the cutoff; with
    staged commits, if there are any. Checkpoints with a file among `unusable`, or of a version
    after `newest`, do not count. Of history before the version `protected_before` goes all or
    nothing.
    """
    commits = _expired_run(files, cutoff_ms)
    if not commits:
        return None
    by_version = {commit.version: commit for commit in commits}
    candidates = [
        c
        for c in complete_checkpoints(f for f in files if f.path not in unusable)
        if c.version in by_version and (newest is None or c.version <= newest)
    ]
    if not candidates or candidates[0].version < protected_before:
        return None
    first = candidates[0]
    anchor = _anchor([c for c in commits if c.version <= first.version])
    gone = [f for f in files if _expired(f, first.version, anchor)]
    return LogCleanup(
        first,
        tuple(f for f in gone if f.kind is LogFileKind.COMMIT),
        tuple(f for f in gone if f.kind is not LogFileKind.COMMIT),
    )


def _expired_run(files: Iterable[LogPath], cutoff_ms: int) -> list[LogPath]:
    """The last run of commits without a gap that are not newer than the cutoff."""
    run: list[LogPath] = []
    commits = sorted(
        (f for f in files if f.kind is LogFileKind.COMMIT), key=lambda commit: commit.version
    )
    for commit in commits:
        if run and run[-1].version + 1 != commit.version:
            run = []
        run.append(commit)
    times = adjusted_timestamps([commit.last_modified_ms for commit in run])
    return [commit for commit, time in zip(run, times, strict=True) if time <= cutoff_ms]


def _anchor(run: Sequence[LogPath]) -> int:
    """The version from which on the timestamps up to the last commit of `run` are as they are."""
    times = adjusted_timestamps([commit.last_modified_ms for commit in run])
    return next(
        commit.version
        for commit, time in zip(reversed(run), reversed(times), strict=True)
        if commit.last_modified_ms == time
    )


def _expired(file: LogPath, first: int, anchor: int) -> bool:
    match file.kind:
        case LogFileKind.COMMIT:
            return file.version < min(first, anchor)
        case LogFileKind.STAGED_COMMIT:
            return file.version <= first
        case LogFileKind.COMPACTION:
            return file.start_version is not None and file.start_version <= first
    return file.version < first


def is_abandoned(written_ms: int, now_ms: int) -> bool:
    """Whether no write under way can still need what nobody names, by when it was written.

    That is what was at least a day old at the last midnight UTC.
    """
    return written_ms <= day_of(now_ms) - DAY_MS
