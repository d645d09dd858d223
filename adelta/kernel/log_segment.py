"""LogSegment: which files of the log make one version (PROTOCOL.md, "Action Reconciliation").

The constructor proves once that the commits are contiguous and join the checkpoint, so that nobody
has to check again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError, MissingCommitError, VersionNotFoundError
from adelta.kernel.log_path import LogFileKind, LogPath

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["CheckpointFiles", "LogSegment", "complete_checkpoints", "plan_log_segment"]

_PREFERENCE = {
    LogFileKind.UUID_CHECKPOINT: 2,
    LogFileKind.MULTI_PART_CHECKPOINT: 1,
    LogFileKind.CLASSIC_CHECKPOINT: 0,
}


@dataclass(frozen=True, slots=True)
class CheckpointFiles:
    """One complete checkpoint: its top-level files, in the order of their parts."""

    version: int
    files: tuple[LogPath, ...]

    @property
    def kind(self) -> LogFileKind:
        """How the checkpoint is named."""
        return self.files[0].kind


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The checkpoint, if any, and the commits after it, that together make `version`.

    `commits` are in ascending order and contiguous. `checksum` is the version checksum of `version`
    where there is one. `compactions` lie wholly inside the commits. `last_commit` is the commit of
    `version`, also where the checkpoint covers it, unless it has been cleaned up.
    """

    version: int
    checkpoint: CheckpointFiles | None
    commits: tuple[LogPath, ...]
    compactions: tuple[LogPath, ...] = ()
    checksum: LogPath | None = None
    last_commit: LogPath | None = None

    def __post_init__(self) -> None:
        """Prove contiguity.

        Raises:
            MissingCommitError: a commit between the checkpoint and the version is not there.
            InvalidTableError: the log has neither a checkpoint nor commits.
        """
        base = self.checkpoint.version if self.checkpoint else -1
        versions = [commit.version for commit in self.commits]
        if not versions:
            if self.checkpoint is None:
                raise InvalidTableError("the log has neither a commit nor a complete checkpoint")
            if base != self.version:
                raise MissingCommitError(
                    f"the commits {base + 1} to {self.version} are missing from the log"
                )
            return
        if versions[0] != base + 1:
            what = (
                f"the checkpoint of version {base}" if self.checkpoint else "the start of the log"
            )
            raise MissingCommitError(
                f"the commit of version {base + 1} is missing: the log goes on from {what} with "
                f"version {versions[0]}; restore the file, or a complete checkpoint of "
                f"version {versions[0] - 1} or later"
            )
        for before, after in pairwise(versions):
            if after != before + 1:
                raise MissingCommitError(
                    f"the commit of version {before + 1} is missing: the log has {before} and "
                    f"{after}; restore the file from a backup"
                )
        if versions[-1] != self.version:
            raise MissingCommitError(
                f"the commits {versions[-1] + 1} to {self.version} are missing from the log"
            )


def complete_checkpoints(files: Iterable[LogPath]) -> list[CheckpointFiles]:
    """The complete checkpoints among `files`, the best one first.

    Empty files and sets with a missing part do not count. Newer beats older; at one version a
    V2-named checkpoint beats a multi-part one, which beats a classic one.
    """
    found: list[CheckpointFiles] = []
    parts: dict[tuple[int, int], dict[int, LogPath]] = {}
    for file in files:
        if not file.is_checkpoint or file.size == 0:
            continue
        if file.kind is LogFileKind.MULTI_PART_CHECKPOINT:
            parts.setdefault((file.version, file.parts or 0), {})[file.part or 0] = file
        else:
            found.append(CheckpointFiles(file.version, (file,)))
    for (version, count), have in parts.items():
        if len(have) == count:
            found.append(CheckpointFiles(version, tuple(have[i] for i in sorted(have))))
    return sorted(found, key=_rank, reverse=True)


def _rank(checkpoint: CheckpointFiles) -> tuple[int, int, int, str]:
    files = checkpoint.files
    return (checkpoint.version, _PREFERENCE[checkpoint.kind], len(files), files[0].path)


def plan_log_segment(
    files: Sequence[LogPath],
    *,
    version: int | None = None,
    unusable: frozenset[str] = frozenset(),
) -> LogSegment:
    """The segment that makes `version`, or the latest one, from a listing of the log.

    `unusable` names checkpoint files that turned out to be damaged.

    Raises:
        VersionNotFoundError: the log does not reach `version`, or no longer goes back to it.
        MissingCommitError: a commit that is needed is missing.
    """
    commits = {f.version: f for f in files if f.kind is LogFileKind.COMMIT}
    usable = [
        c
        for c in complete_checkpoints(f for f in files if f.path not in unusable)
        if version is None or c.version <= version
    ]
    checkpoint = usable[0] if usable else None
    newest = max(
        max(commits, default=-1),
        max((c.version for c in complete_checkpoints(files)), default=-1),
    )
    target = newest if version is None else version
    if newest < 0:
        raise InvalidTableError("the log has neither a commit nor a complete checkpoint")
    if target > newest:
        raise VersionNotFoundError(
            f"version {target} does not exist; the latest version is {newest}",
            latest_version=newest,
        )
    base = checkpoint.version if checkpoint else -1
    chosen = tuple(commits[v] for v in sorted(commits) if base < v <= target)
    if version is not None and checkpoint is None and (not chosen or chosen[0].version > 0):
        _refuse_cleaned_up(version, commits, complete_checkpoints(files))
    compactions = tuple(
        f
        for f in files
        if f.kind is LogFileKind.COMPACTION
        and f.start_version is not None
        and base < f.start_version
        and f.version <= target
        and f.size
    )
    checksum = next(
        (f for f in files if f.kind is LogFileKind.CHECKSUM and f.version == target), None
    )
    return LogSegment(target, checkpoint, chosen, compactions, checksum, commits.get(target))


def _refuse_cleaned_up(
    version: int, commits: dict[int, LogPath], checkpoints: list[CheckpointFiles]
) -> None:
    """Say that `version` was cleaned up, where a later one can still be read."""
    oldest = min((c.version for c in checkpoints), default=None)
    if oldest is not None and oldest > version:
        newest = max([*commits, *(c.version for c in checkpoints)])
        raise VersionNotFoundError(
            f"version {version} is no longer kept: the log was cleaned up; versions {oldest} to "
            f"{newest} can be read",
            earliest_version=oldest,
            latest_version=newest,
        )
