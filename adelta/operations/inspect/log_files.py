"""LogFiles: what a table's log consists of: commits, checkpoints, compactions, checksums."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adelta._dataclasses import dataclass
from adelta.kernel.log_path import LogFileKind
from adelta.log.listing import list_whole_log
from adelta.table import latest_state

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.kernel.log_path import LogPath
    from adelta.table import Table

__all__ = ["CommitsBar", "LogCheckpoint", "LogCompaction", "LogFiles", "log_files"]


@dataclass(frozen=True, slots=True)
class CommitsBar:
    """The commits of the versions `first` to `last`: how many are there, and their bytes."""

    first: int
    last: int
    num_commits: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class LogCheckpoint:
    """The checkpoint of a version: its files, and their bytes; sidecars are not counted."""

    version: int
    kind: str
    num_files: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class LogCompaction:
    """One file for the commits `first` to `last`."""

    first: int
    last: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class LogFiles:
    """The log, with so many bars that they can be drawn.

    `num_by_kind` and `bytes_by_kind` count all files; of checkpoints and compactions the latest
    ones are named.
    """

    first: int
    last: int
    num_by_kind: dict[str, int]
    bytes_by_kind: dict[str, int]
    commits: tuple[CommitsBar, ...]
    checkpoints: tuple[LogCheckpoint, ...]
    compactions: tuple[LogCompaction, ...]


async def log_files(table: Table, *, bars: int = 300) -> LogFiles:
    """What the log consists of; commits as at most `bars` bars of equally many versions.

    Raises:
        TableNotFoundError: there is no table.
        StorageError: the store refused or failed.
    """
    latest = (await latest_state(table)).version
    return _counted(await list_whole_log(table.store, latest), latest, bars)


def _counted(files: Sequence[LogPath], latest: int, bars: int) -> LogFiles:
    numbers: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for file in files:
        name = file.kind.value
        numbers[name] = numbers.get(name, 0) + 1
        sizes[name] = sizes.get(name, 0) + file.size
    commits = [file for file in files if file.kind is LogFileKind.COMMIT]
    first = min((file.version for file in commits), default=latest)
    step = max(1, -(-(latest - first + 1) // bars))
    at: dict[int, list[int]] = {}
    for file in commits:
        bar = at.setdefault((file.version - first) // step, [0, 0])
        bar[0] += 1
        bar[1] += file.size
    checkpoints: dict[int, LogCheckpoint] = {}
    for file in files:
        if file.is_checkpoint:
            known = checkpoints.get(file.version)
            checkpoints[file.version] = LogCheckpoint(
                file.version,
                file.kind.value,
                1 + (known.num_files if known else 0),
                file.size + (known.num_bytes if known else 0),
            )
    compactions = [
        LogCompaction(file.start_version or 0, file.version, file.size)
        for file in files
        if file.kind is LogFileKind.COMPACTION
    ]
    return LogFiles(
        first,
        latest,
        numbers,
        sizes,
        tuple(
            CommitsBar(
                first + index * step, min(latest, first + index * step + step - 1), *at[index]
            )
            for index in sorted(at)
        ),
        tuple(checkpoints[version] for version in sorted(checkpoints)[-bars:]),
        tuple(compactions[-bars:]),
    )
