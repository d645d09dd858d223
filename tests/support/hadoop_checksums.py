"""Checksum files as Hadoop keeps them beside files on a local disk, written and judged in Python.

`tests/spark/test_hadoop_checksums.py` holds both to Hadoop's own classes.
"""

from __future__ import annotations

import os
import struct
import zlib
from typing import TYPE_CHECKING

import pyarrow.parquet as pq

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

__all__ = [
    "checksum_of",
    "contradictions",
    "contradictions_in",
    "faults",
    "keep_checksums",
    "orphans",
    "reencode_checkpoints",
    "share_with_spark",
    "sums",
]

_BLOCK = 512
_HEADER_BYTES = 8


def checksum_of(path: Path) -> Path:
    """Where Hadoop keeps the checksum of a file."""
    return path.with_name(f".{path.name}.crc")


def sums(data: bytes) -> bytes:
    """The checksum file of a file of these bytes."""
    blocks = (data[at : at + _BLOCK] for at in range(0, len(data), _BLOCK))
    each = b"".join(struct.pack(">I", zlib.crc32(block)) for block in blocks)
    return b"crc\0" + struct.pack(">i", _BLOCK) + each


def keep_checksums(root: Path) -> None:
    """Give every file below a folder the checksum file that Hadoop would have written with it."""
    for path in sorted(root.rglob("*")):
        if path.is_file() and not _is_checksum(path):
            checksum_of(path).write_bytes(sums(path.read_bytes()))


def reencode_checkpoints(root: Path) -> None:
    """Replace each checkpoint by one that says the same in other bytes."""
    for path in (root / "_delta_log").glob("*.checkpoint*.parquet"):
        pq.write_table(pq.read_table(path), path, compression="none", write_statistics=False)


def share_with_spark(root: Path) -> None:
    """Let a table be as Spark would have written it: other checkpoints, and all files checked."""
    reencode_checkpoints(root)
    keep_checksums(root)


def contradictions(root: Path) -> list[str]:
    """The files below a folder that Hadoop would refuse to read."""
    return contradictions_in(
        {
            str(each.relative_to(root)): each.read_bytes()
            for path in _checked(root)
            if path.exists()
            for each in (path, checksum_of(path))
        }
    )


def contradictions_in(files: Mapping[str, bytes | None]) -> list[str]:
    """Those of `files`, by their paths, that Hadoop would refuse to read.

    A checksum that has not reached the disk, or not all of it, contradicts no file.
    """
    wrong = []
    for path, data in files.items():
        folder, _, name = path.rpartition("/")
        hidden = files.get(f"{folder}/.{name}.crc" if folder else f".{name}.crc")
        is_whole = hidden is not None and hidden[:4] == b"crc\0" and len(hidden) >= _HEADER_BYTES
        if data is not None and is_whole and hidden != sums(data):
            wrong.append(path)
    return wrong


def orphans(root: Path) -> list[str]:
    """The checksum files below a folder whose file is not there."""
    return [
        str(checksum_of(path).relative_to(root)) for path in _checked(root) if not path.exists()
    ]


def faults(root: Path) -> str:
    """What a reader through Hadoop would stumble over; empty if there is nothing."""
    wrong, left = contradictions(root), orphans(root)
    return f"contradicted: {wrong}, without a file: {left}" if wrong or left else ""


def _checked(root: Path) -> Iterable[Path]:
    hidden = sorted(path for path in root.rglob(".*.crc") if _is_checksum(path))
    return [path.with_name(path.name[1:-4]) for path in hidden]


def _is_checksum(path: Path) -> bool:
    return path.name.startswith(".") and path.suffix == ".crc" and os.path.isfile(path)
