"""What adelta may delete: values that only a name of the shape that the protocol gives makes.

Whatever else lies in a table's folders is somebody's, and is never deleted, but for two operations:
VACUUM is for every file that the log does not name, and never deletes from the log; and a table
that is dropped goes whole.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from adelta._dataclasses import dataclass
from adelta.kernel.log_path import LOG_DIR, SIDECAR_DIR, LogPath

__all__ = [
    "Deletable",
    "DroppedPath",
    "SidecarPath",
    "UnreferencedPath",
    "WrittenPath",
    "parse_dropped_path",
    "parse_sidecar_path",
    "parse_unreferenced_path",
    "parse_written_path",
]

_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# Delta Spark puts the checkpoint that it writes them for before the UUID.
_SIDECAR = re.compile(
    rf"{SIDECAR_DIR}(?:\d{{20}}\.checkpoint\.\d{{10}}\.\d{{10}}\.)?{_UUID}\.parquet"
)
_SEGMENT = r"(?!\.{1,2}/)[^/\0]+/"
_WRITTEN = re.compile(
    rf"(?!{LOG_DIR})(?:"
    rf"(?:{_SEGMENT})*part-\d{{5,}}-{_UUID}\.c000(?:\.[a-z0-9]+)?\.parquet"
    rf"|_change_data/(?:{_SEGMENT})*cdc-\d{{5,}}-{_UUID}\.c000(?:\.[a-z0-9]+)?\.parquet"
    rf"|(?:{_SEGMENT})*deletion_vector_{_UUID}\.bin"
    r")"
)
_BELOW_ROOT = re.compile(rf"(?:{_SEGMENT})*(?!\.{{1,2}}$)[^/\0]+", re.DOTALL)
_OUTSIDE_LOG = re.compile(rf"(?!{LOG_DIR})(?:{_SEGMENT})*(?!\.{{1,2}}$)[^/\0]+", re.DOTALL)


@dataclass(frozen=True, slots=True)
class SidecarPath:
    """The path of a checkpoint's sidecar, from `parse_sidecar_path`."""

    path: str
    size: int = 0
    last_modified_ms: int = 0


@dataclass(frozen=True, slots=True)
class WrittenPath:
    """The path of a data file, a change data file or a deletion vector, from `parse_written_path`.

    Its name is one that adelta gives. Who deletes it knows that no commit names it.
    """

    path: str


@dataclass(frozen=True, slots=True)
class UnreferencedPath:
    """The path of an object outside of the log, from `parse_unreferenced_path`.

    Who deletes it knows that nothing within the retention needs it.
    """

    path: str


@dataclass(frozen=True, slots=True)
class DroppedPath:
    """The path of an object of a table that has been dropped, from `parse_dropped_path`."""

    path: str


Deletable: TypeAlias = LogPath | SidecarPath | WrittenPath | UnreferencedPath | DroppedPath


def parse_sidecar_path(path: str, size: int = 0, last_modified_ms: int = 0) -> SidecarPath | None:
    """What the object at `path` is, or None where it is no sidecar by its name.

    Example: ``_delta_log/_sidecars/3a0d65cd-4056-49b8-937b-95f9e3ee90e5.parquet``.
    """
    return SidecarPath(path, size, last_modified_ms) if _SIDECAR.fullmatch(path) else None


def parse_written_path(path: str) -> WrittenPath | None:
    """What the object at `path` is, or None where adelta writes none of that name.

    Example: ``day=1/part-00000-d36fc553-5c92-49de-aa12-e14c6a5f9cd8.c000.zstd.parquet``.
    """
    return WrittenPath(path) if _WRITTEN.fullmatch(path) else None


def parse_unreferenced_path(path: str) -> UnreferencedPath | None:
    """What the object at `path` is, or None where it is in the log, or no path of an object.

    Example: ``day=1/left-over.parquet``.
    """
    return UnreferencedPath(path) if _OUTSIDE_LOG.fullmatch(path) else None


def parse_dropped_path(path: str) -> DroppedPath | None:
    """What the object at `path` is, or None where that is no path of an object below a root.

    Example: ``_delta_log/_last_checkpoint``.
    """
    return DroppedPath(path) if _BELOW_ROOT.fullmatch(path) else None
