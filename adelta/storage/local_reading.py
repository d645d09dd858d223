"""Files that are opened in their directories, and read."""

from __future__ import annotations

import errno
import os
import stat
from typing import TYPE_CHECKING

from adelta.storage.local_errors import ABSENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.pin import Pin

__all__ = [
    "NO_OBJECT",
    "READ",
    "NoCopies",
    "leads_nowhere",
    "open_no_link",
    "plain_suffix",
    "read_at",
]

NO_OBJECT = ABSENT | {errno.ELOOP}
"""Error numbers that mean that there is no file: nothing has the name, or links form a circle."""

READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # else a named pipe would be waited for


class NoCopies:
    """What a cache answers of objects that are files of this machine: they are no copies."""

    def find_ranges(
        self, path: str, ranges: Sequence[tuple[int, int]], *, pin: Pin | None = None
    ) -> None:
        """No range is a copy."""

    def distrust(self, path: str) -> bool:
        """Nothing is deleted."""
        return False


def open_no_link(file: str, flags: int, directory: int | None) -> int | None:
    """The file opened in its `directory`; None where it is a link, or that is not known."""
    if directory is None:
        return None
    try:
        return os.open(os.path.basename(file), flags | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return None
        raise


def plain_suffix(directory: int, file: str, length: int) -> tuple[bytes, int] | None:
    """The last bytes of a regular file in its open `directory`, and its size.

    None where it is a link or none, or cannot be read: to open it as all files are says why.
    """
    try:
        descriptor = os.open(file[file.rindex("/") + 1 :], READ | os.O_NOFOLLOW, dir_fd=directory)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        start = max(0, status.st_size - length)
        return read_at(descriptor, start, status.st_size - start), status.st_size
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_at(descriptor: int, offset: int, length: int) -> bytes:
    """So many bytes from a place on, or fewer where the file ends before."""
    if length <= 0:
        return b""
    data = os.pread(descriptor, length, offset)
    if len(data) == length:
        return data
    pieces = [data]  # the system reads at most 2 GiB at once
    while pieces[-1]:
        done = sum(map(len, pieces))
        pieces.append(os.pread(descriptor, length - done, offset + done))
    return b"".join(pieces)


def leads_nowhere(entry: os.DirEntry[str]) -> bool:
    """Whether the entry is a link that leads to itself, or to nothing."""
    if not entry.is_symlink():
        return False
    try:
        entry.stat()
    except OSError as error:
        if error.errno in NO_OBJECT:
            return True
        raise
    return False
