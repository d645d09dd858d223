"""The tree below an open directory, walked from descriptor to descriptor: no link is followed.

What `hides` is true for is not looked into; what goes meanwhile is passed over.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from adelta._fields import is_text
from adelta.storage.local_errors import ABSENT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["files_below", "prune"]

_DIRECTORY = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def files_below(
    directory: int, prefix: str, hides: Callable[[str], bool]
) -> Iterator[tuple[str, os.stat_result]]:
    """The path, after `prefix`, and the status of every regular file, in the order of paths."""
    for name, is_directory in _entries(directory, hides):
        if is_directory:
            with _child(directory, name[:-1]) as below:
                if below is not None:
                    yield from files_below(below, prefix + name, hides)
            continue
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode):
            yield prefix + name, status


def _entries(directory: int, hides: Callable[[str], bool]) -> list[tuple[str, bool]]:
    """The files and directories, which end in ``/``, that are no links and have proper names."""
    found: list[tuple[str, bool]] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if hides(name) or not (name.isascii() or is_text(name)):
                continue
            if entry.is_dir(follow_symlinks=False):
                found.append((f"{name}/", True))
            elif entry.is_file(follow_symlinks=False):
                found.append((name, False))
    found.sort()  # as their bytes would be
    return found


def prune(
    directory: int,
    path: str,
    hides: Callable[[str], bool],
    is_old: Callable[[str, os.stat_result], bool],
) -> tuple[int, bool]:
    """How many directories have gone from a directory, and whether nothing is in it now."""
    gone, empty = 0, True
    directories: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not hides(entry.name):
                directories.append(entry.name)
            else:
                empty = False
    for name in directories:
        below = f"{path}{name}/"
        with _child(directory, name) as child:
            if child is None:
                empty = False
                continue
            removable = is_old(below, os.fstat(child))
            count, is_empty = prune(child, below, hides, is_old)
        gone += count
        try:
            if not (removable and is_empty):
                raise OSError
            os.rmdir(name, dir_fd=directory)  # which refuses one that something is in by now
            gone += 1
        except OSError:
            empty = False
    return gone, empty


@contextmanager
def _child(directory: int, name: str) -> Iterator[int | None]:
    """A descriptor of a directory; None where there is none of that name any more."""
    try:
        child = os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        if error.errno in ABSENT or error.errno == errno.ELOOP:
            yield None
            return
        raise
    try:
        yield child
    finally:
        with suppress(OSError):
            os.close(child)
