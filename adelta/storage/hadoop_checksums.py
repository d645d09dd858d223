"""Hadoop's checksum files on local disks: ``.NAME.crc`` next to ``NAME``.

Spark reads and writes ``file:`` through Hadoop's `LocalFileSystem`, which writes a checksum file
with every file, and verifies it at every read. A reader opens ``NAME`` first and its checksum file
second, and does not verify if there is no checksum file. So any other program that replaces or
deletes ``NAME`` has to delete the checksum file first: a reader then sees both files of the old
version, or no checksum. A stale checksum file makes the new ``NAME`` unreadable for Spark
(``ChecksumException``).

Only files that Hadoop wrote are deleted: those that begin with ``crc`` and a zero byte, or with a
part of that, if a crash cut them off. Hadoop ignores any other file of such a name.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
import zlib
from contextlib import ExitStack
from typing import TYPE_CHECKING

from adelta.storage.local_errors import ABSENT
from adelta.storage.local_reading import READ

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

__all__ = [
    "checked_name",
    "checksum_name",
    "contradicts",
    "has_checksum",
    "is_orphan",
    "remove_checksum",
]

_MAGIC = b"crc\0"
_HEADER = struct.Struct(">4si")
_SUM = struct.Struct(">I")
_BYTES_AT_ONCE = 4 << 20
_ABSENT = ABSENT | {errno.ENAMETOOLONG}
# Links, which O_NOFOLLOW does not open, and unreadable files count as checksum files by their
# names, because Hadoop may still read them.
_UNREADABLE = frozenset({errno.ELOOP, errno.EACCES, errno.EPERM})


def checksum_name(name: str) -> str:
    """The name of the checksum file of the file `name`.

    Example: ``.part-1.parquet.crc`` of ``part-1.parquet``.
    """
    return f".{name}.crc"


def checked_name(name: str) -> str | None:
    """The name of the file that the checksum file `name` belongs to; None for any other name.

    Example: ``part-1.parquet`` for ``.part-1.parquet.crc``.
    """
    return name[1:-4] if len(name) > 5 and name[0] == "." and name.endswith(".crc") else None


def remove_checksum(directory: int, name: str) -> bool:
    """Delete the checksum file of the file `name` in an open directory.

    Returns whether there was one. The caller then has to sync the directory.

    Raises:
        OSError: the system refused; the checksum file is still there.
    """
    hidden = checksum_name(name)
    if not _is_checksum(directory, hidden):
        return False
    try:
        os.unlink(hidden, dir_fd=directory)
    except FileNotFoundError:
        # Another process has just deleted it, and may not have synced the directory yet.
        return True
    except OSError as error:
        raise OSError(
            error.errno,
            f"{error.strerror}: {hidden!r}, Hadoop's checksum of the file, has to be deleted "
            "first, as Spark could not read another file of that name; allow that, or delete it by "
            "hand",
        ) from error
    return True


def has_checksum(directory: int, name: str) -> bool:
    """Whether an entry of an open directory has the name of the checksum file of `name`.

    This takes a third of the time of `remove_checksum`, which matters when many files are deleted.
    An error of the system counts as no, so code that replaces files must not rely on it.
    """
    return os.access(checksum_name(name), os.F_OK, dir_fd=directory)


def is_orphan(directory: int, name: str) -> bool:
    """Whether the entry `name` of an open directory is a checksum file whose file is missing."""
    checked = checked_name(name)
    if checked is None:
        return False
    try:
        os.stat(checked, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        return _is_checksum(directory, name)
    return False


def contradicts(directory: int, name: str) -> bool:
    """Whether an entry of an open directory is a checksum file that does not match its file.

    Hadoop refuses to read such a file. This reads the whole file. Links are not followed. The file
    is opened before its checksum file, as Hadoop does, so that a file that is being replaced is not
    compared with the checksum of the next version.

    Raises:
        OSError: the system refused.
    """
    checked = checked_name(name)
    if checked is None:
        return False
    with ExitStack() as stack:
        data = _opened(stack, checked, directory)
        sums = _opened(stack, name, directory)
        if data is None or sums is None:
            return False
        header = sums.read(_HEADER.size)
        if len(header) < _HEADER.size or not header.startswith(_MAGIC):
            return False
        block_bytes = _HEADER.unpack(header)[1]
        return block_bytes <= 0 or any(
            sums.read(_SUM.size) != _SUM.pack(value) for value in _block_sums(data, block_bytes)
        )


def _opened(stack: ExitStack, name: str, directory: int) -> BinaryIO | None:
    """The file, opened until the stack closes; None if no regular file has that name."""
    try:
        descriptor = os.open(name, READ | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in _ABSENT or error.errno == errno.ELOOP:
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return stack.enter_context(os.fdopen(descriptor, "rb", buffering=_BYTES_AT_ONCE))


def _block_sums(data: BinaryIO, block_bytes: int) -> Iterator[int]:
    """The CRC-32 of each block of a file, which is read in small parts."""
    while piece := data.read(min(block_bytes, _BYTES_AT_ONCE)):
        value, left = zlib.crc32(piece), block_bytes - len(piece)
        while left and (piece := data.read(min(left, _BYTES_AT_ONCE))):
            value, left = zlib.crc32(piece, value), left - len(piece)
        yield value


def _is_checksum(directory: int, hidden: str) -> bool:
    """Whether the entry `hidden` has, or may have, the content of a checksum file."""
    try:
        descriptor = os.open(hidden, READ | os.O_NOFOLLOW, dir_fd=directory)
    except OSError as error:
        if error.errno in _ABSENT:
            return False
        if error.errno in _UNREADABLE:
            return True
        raise
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        return _MAGIC.startswith(os.pread(descriptor, len(_MAGIC), 0))
    finally:
        os.close(descriptor)
