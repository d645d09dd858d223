"""What the operating system says of files → the errors of the port, in one place."""

from __future__ import annotations

import contextlib
import errno
import stat
from typing import TYPE_CHECKING

from adelta.errors import (
    AdeltaError,
    ObjectExistsError,
    ObjectNotFoundError,
    PermissionDeniedError,
    StorageError,
)

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

__all__ = ["ABSENT", "exists", "regular", "translate", "translated"]

ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR})
"""The system's errors that say that there is no such file."""


@contextlib.contextmanager
def translated(file: str, *, writing: bool = False) -> Iterator[None]:
    """Raise an `OSError` of the block as the port's error of `file`."""
    try:
        yield
    except AdeltaError:
        raise
    except OSError as error:
        raise translate(error, file, writing=writing) from error


def translate(error: OSError, file: str, *, writing: bool = False) -> StorageError:
    """The port's error for what the system said of `file`.

    To those who are `writing` it does not say that the file is absent, but that its place is.
    """
    if error.errno in ABSENT and not writing:
        return ObjectNotFoundError(f"there is no file {file!r}")
    if isinstance(error, PermissionError):
        return PermissionDeniedError(f"the file system does not allow access to {file!r}: {error}")
    return StorageError(f"the file system failed on {file!r}: {error}")


def exists(file: str) -> ObjectExistsError:
    """The error of a file that is there already."""
    return ObjectExistsError(f"there is a file {file!r} already")


def regular(file: str, status: os.stat_result) -> os.stat_result:
    """The status itself, of a regular file.

    Raises:
        ObjectNotFoundError: it is a directory.
        StorageError: it is a device, a pipe or a socket.
    """
    if stat.S_ISDIR(status.st_mode):
        raise ObjectNotFoundError(f"{file!r} is a directory, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise StorageError(f"{file!r} is a device, a pipe or a socket, not a file")
    return status
