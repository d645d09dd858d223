"""Names of files that a killed writer may leave behind in a directory."""

from __future__ import annotations

import re

from adelta.storage.hadoop_checksums import is_orphan

__all__ = ["HIDDEN_PREFIX", "is_hidden", "is_left_behind"]

HIDDEN_PREFIX = ".adelta-tmp-"
"""How the names of files begin that `list` leaves out."""

_HIDDEN_NAME = re.compile(r"\.adelta-tmp-[0-9a-z_]{8,16}")


def is_hidden(name: str) -> bool:
    """Whether a file of that name is an object still being written, or a leftover of one."""
    return _HIDDEN_NAME.fullmatch(name) is not None


def is_left_behind(directory: int, name: str) -> bool:
    """Whether an entry of an open directory is hidden, or a Hadoop checksum without its file."""
    return is_hidden(name) or is_orphan(directory, name)
