"""The tree below an open directory, walked from descriptor to descriptor: no link is followed.

What `hides` is true for is not looked into; what goes meanwhile is passed over.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import contextmanager, suppress
from heapq import merge
from itertools import chain, groupby, islice, repeat
from typing import TYPE_CHECKING

from adelta._fields import is_text
from adelta.storage.hadoop_checksums import checked_name
from adelta.storage.local_errors import ABSENT
from adelta.storage.unfinished_files import is_hidden, is_left_behind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from adelta.storage.object_store import WantsStatus

__all__ = ["files_below", "prune"]

_FILES_A_PAGE = 4096
_SORTED_AT_ONCE = 16_384  # names,
_JOINED_AT_ONCE = 8  # and lists of so many names that are joined in one go
_LONG_PAGE = 64  # files: of fewer to ask for every status is as soon done
_DIRECTORY = (
    os.O_RDONLY
    | getattr(os, "O_DIRECTORY", 0)
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
)


def files_below(
    directory: int,
    prefix: str,
    hides: Callable[[str], bool],
    wants: WantsStatus | None = None,
) -> Iterator[list[tuple[str, os.stat_result | None]]]:
    """The paths, after `prefix`, and the status of all regular files, in order, page by page.

    `wants` says of which paths of a long page the status is asked for; the others have none.
    """
    for is_directory, names in groupby(_entries(directory, hides), key=_is_directory):
        if not is_directory:
            while page := list(islice(names, _FILES_A_PAGE)):
                yield _described(directory, prefix, page, wants)
            continue
        for name in names:
            with _child(directory, name[:-1]) as below:
                if below is not None:
                    yield from files_below(below, prefix + name, hides, wants)


def _described(
    directory: int,
    prefix: str,
    names: list[str],
    wants: WantsStatus | None,
) -> list[tuple[str, os.stat_result | None]]:
    paths = [prefix + name for name in names]
    asks = wants(paths) if wants is not None and len(paths) >= _LONG_PAGE else repeat(True)
    found: list[tuple[str, os.stat_result | None]] = []
    for name, path, is_wanted in zip(names, paths, asks, strict=False):
        if not is_wanted:
            found.append((path, None))
            continue
        try:
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            continue
        if stat.S_ISREG(status.st_mode):
            found.append((path, status))
    return found


def _is_directory(name: str) -> bool:
    return name.endswith("/")


def _entries(directory: int, hides: Callable[[str], bool]) -> Iterable[str]:
    """The files and directories, which end in ``/``, that are no links and have proper names.

    They are in the order of their bytes; no thread has to wait until very many are sorted.
    """
    found: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            name = entry.name
            if hides(name) or not (name.isascii() or is_text(name)):
                continue
            if entry.is_file(follow_symlinks=False):
                found.append(name)
            elif entry.is_dir(follow_symlinks=False):
                found.append(f"{name}/")
    step = _SORTED_AT_ONCE
    runs = [sorted(found[at : at + step]) for at in range(0, len(found), step)]
    if len(runs) > _JOINED_AT_ONCE:
        return merge(*runs)
    found = list(chain.from_iterable(runs))
    found.sort()  # of runs that are sorted, which takes a fraction of sorting them
    return found


def prune(
    directory: int,
    path: str,
    hides: Callable[[str], bool],
    is_old: Callable[[str, os.stat_result], bool],
    older_than_ms: int,
) -> tuple[int, bool]:
    """Delete empty directories below a directory: how many there were, and whether it is empty now.

    Before that, files for which `is_left_behind` is true are deleted, if they are older than
    `older_than_ms`.
    """
    gone, num_files = 0, 0
    directories: list[str] = []
    left_behind: list[str] = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not hides(entry.name):
                directories.append(entry.name)
                continue
            num_files += 1
            checked = checked_name(entry.name)
            if is_hidden(entry.name) or (checked is not None and not hides(checked)):
                left_behind.append(entry.name)
    empty = num_files == sum(_delete_old(directory, name, older_than_ms) for name in left_behind)
    for name in directories:
        below = f"{path}{name}/"
        with _child(directory, name) as child:
            if child is None:
                empty = False
                continue
            removable = is_old(below, os.fstat(child))
            count, is_empty = prune(child, below, hides, is_old, older_than_ms)
        gone += count
        try:
            if not (removable and is_empty):
                raise OSError
            os.rmdir(name, dir_fd=directory)  # which refuses one that something is in by now
            gone += 1
        except OSError:
            empty = False
    return gone, empty


def _delete_old(directory: int, name: str, older_than_ms: int) -> bool:
    """Delete an old file for which `is_left_behind` is true; whether it was one and is deleted."""
    try:
        if not is_left_behind(directory, name):
            return False
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode) or status.st_mtime_ns // 1_000_000 >= older_than_ms:
            return False
        os.unlink(name, dir_fd=directory)
    except OSError:
        return False
    return True


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
