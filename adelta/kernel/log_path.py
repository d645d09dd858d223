"""Names in `_delta_log`: parsed and built (PROTOCOL.md, "Delta Log Entries", "Checkpoints").

Paths are relative to the table's root. `parse_log_path` knows every kind of file that the protocol
names; anything else is None, to be ignored.
"""

from __future__ import annotations

import re
from enum import Enum

from adelta._dataclasses import dataclass
from adelta.errors import InvalidTableError

__all__ = [
    "COMMITS_DIR",
    "LAST_CHECKPOINT_PATH",
    "LAST_VACUUM_INFO_PATH",
    "LOG_DIR",
    "MAX_VERSION",
    "SIDECAR_DIR",
    "STAGED_DIR",
    "LogFileKind",
    "LogPath",
    "checkpoint_part_path",
    "checkpoint_path",
    "checksum_path",
    "commit_path",
    "commit_version",
    "compaction_path",
    "parse_log_path",
    "sidecar_path",
    "v2_checkpoint_path",
    "version_prefix",
]

LOG_DIR = "_delta_log/"
SIDECAR_DIR = "_delta_log/_sidecars/"
STAGED_DIR = "_delta_log/_staged_commits/"
COMMITS_DIR = "_delta_log/_commits/"
LAST_CHECKPOINT_PATH = "_delta_log/_last_checkpoint"
LAST_VACUUM_INFO_PATH = "_delta_log/_last_vacuum_info"
MAX_VERSION = 2**63 - 1


class LogFileKind(Enum):
    """What a file in the log is."""

    COMMIT = "commit"
    STAGED_COMMIT = "staged commit"
    COMPACTION = "log compaction"
    CHECKSUM = "version checksum"
    CLASSIC_CHECKPOINT = "classic checkpoint"
    MULTI_PART_CHECKPOINT = "part of a multi-part checkpoint"
    UUID_CHECKPOINT = "V2 checkpoint"


@dataclass(frozen=True, slots=True)
class LogPath:
    """One parsed name: `version` is the commit's, or the last one that the file covers.

    `start_version` is set on compactions; `part` and `parts` on parts of multi-part checkpoints.
    """

    path: str
    kind: LogFileKind
    version: int
    size: int = 0
    last_modified_ms: int = 0
    start_version: int | None = None
    part: int | None = None
    parts: int | None = None

    @property
    def is_checkpoint(self) -> bool:
        """Whether the file is a checkpoint or a part of one."""
        return self.kind in _CHECKPOINTS


_CHECKPOINTS = {
    LogFileKind.CLASSIC_CHECKPOINT,
    LogFileKind.MULTI_PART_CHECKPOINT,
    LogFileKind.UUID_CHECKPOINT,
}
_NAME = re.compile(
    r"(?P<version>\d{1,20})\.(?:"
    r"(?P<commit>json)"
    r"|(?P<crc>crc)"
    r"|(?P<end>\d{1,20})\.compacted\.json"
    r"|(?P<classic>checkpoint\.parquet)"
    r"|checkpoint\.(?P<part>\d{10})\.(?P<parts>\d{10})\.parquet"
    r"|checkpoint\.(?P<uuid>[^./]+)\.(?:json|parquet)"
    r")"
)
_STAGED = re.compile(r"_(?:staged_)?commits/(?P<version>\d{1,20})\.[^./]+\.json")


def parse_log_path(path: str, size: int = 0, last_modified_ms: int = 0) -> LogPath | None:
    """What the object at `path` is, or None where the protocol gives it no meaning.

    Example: ``_delta_log/00000000000000000007.json`` is the commit of version 7.
    """
    if not path.startswith(LOG_DIR):
        return None
    name = path[len(LOG_DIR) :]
    if staged := _STAGED.fullmatch(name):
        return _built(path, LogFileKind.STAGED_COMMIT, staged["version"], size, last_modified_ms)
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    version = match["version"]
    if match["commit"]:
        return _built(path, LogFileKind.COMMIT, version, size, last_modified_ms)
    if match["crc"]:
        return _built(path, LogFileKind.CHECKSUM, version, size, last_modified_ms)
    if match["end"]:
        start, end = int(version), int(match["end"])
        if start > end or end > MAX_VERSION:
            return None
        return LogPath(
            path, LogFileKind.COMPACTION, end, size, last_modified_ms, start_version=start
        )
    if match["classic"]:
        return _built(path, LogFileKind.CLASSIC_CHECKPOINT, version, size, last_modified_ms)
    if match["part"]:
        part, parts = int(match["part"]), int(match["parts"])
        if not 1 <= part <= parts or int(version) > MAX_VERSION:
            return None
        return LogPath(
            path,
            LogFileKind.MULTI_PART_CHECKPOINT,
            int(version),
            size,
            last_modified_ms,
            part=part,
            parts=parts,
        )
    return _built(path, LogFileKind.UUID_CHECKPOINT, version, size, last_modified_ms)


def commit_version(path: str) -> int | None:
    """The version whose commit is at a path; None where that is no commit's."""
    found = parse_log_path(path)
    return found.version if found is not None and found.kind is LogFileKind.COMMIT else None


def _built(
    path: str, kind: LogFileKind, version: str, size: int, last_modified_ms: int
) -> LogPath | None:
    number = int(version)
    return LogPath(path, kind, number, size, last_modified_ms) if number <= MAX_VERSION else None


def version_prefix(version: int) -> str:
    """The start of every name of `version`: a listing from here on finds all later ones."""
    return f"{LOG_DIR}{version:020d}"


def commit_path(version: int) -> str:
    """The path of the commit of `version`."""
    return f"{LOG_DIR}{version:020d}.json"


def checksum_path(version: int) -> str:
    """The path of the version checksum of `version`."""
    return f"{LOG_DIR}{version:020d}.crc"


def compaction_path(start: int, end: int) -> str:
    """The path of the log compaction of the commits `start` to `end`."""
    return f"{LOG_DIR}{start:020d}.{end:020d}.compacted.json"


def checkpoint_path(version: int) -> str:
    """The path of the classic checkpoint of `version`."""
    return f"{LOG_DIR}{version:020d}.checkpoint.parquet"


def checkpoint_part_path(version: int, part: int, parts: int) -> str:
    """The path of one part of a multi-part checkpoint; parts count from 1."""
    return f"{LOG_DIR}{version:020d}.checkpoint.{part:010d}.{parts:010d}.parquet"


def v2_checkpoint_path(version: int, unique: str, ending: str = "parquet") -> str:
    """The path of a V2 checkpoint's manifest, which is ``parquet`` or ``json``."""
    return f"{LOG_DIR}{version:020d}.checkpoint.{unique}.{ending}"


def sidecar_path(written: str) -> str:
    """The object's path for the decoded `path` of a sidecar action.

    The path is a bare name or has a folder in front, which can only be that of the sidecars.

    Raises:
        InvalidTableError: it leads elsewhere.
    """
    name = written.rpartition("/")[2]
    folder = written.removesuffix(name)
    elsewhere = folder and not f"/{folder}".endswith(f"/{SIDECAR_DIR}")
    if elsewhere or name in ("", ".", "..") or "\0" in name:
        raise InvalidTableError(
            f"a checkpoint names the sidecar {written[:300]!r}, which does not lie in "
            f"{SIDECAR_DIR}; delete the checkpoint, and the log is read without it"
        )
    return f"{SIDECAR_DIR}{name}"
