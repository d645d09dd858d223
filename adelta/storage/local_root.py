"""A directory below which no link is followed by whatever changes it.

A path is walked from a descriptor of the root, component by component (``openat`` with
``O_NOFOLLOW``), and what is done at its end is done by name in the last descriptor: however
directories are renamed or replaced by links meanwhile, nothing outside of the root is created,
replaced or deleted. The root itself may be reached through links, since it is the user who names
it; what lies below may have been made by others. A table that is to be spread over several disks
has them mounted.

This needs the calls that work relative to a descriptor, which POSIX systems have.
"""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager, suppress
from itertools import groupby
from typing import TYPE_CHECKING

from adelta.errors import (
    InvalidOptionError,
    ObjectNotFoundError,
    OutsideRootError,
    StorageError,
)
from adelta.storage.hadoop_checksums import has_checksum, remove_checksum
from adelta.storage.local_errors import ABSENT, translate, translated
from adelta.storage.local_tree import files_below, prune
from adelta.storage.object_store import UnfinishedObject

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator

    from adelta.storage.object_store import WantsStatus

__all__ = ["LocalRoot"]

_DIRECTORY = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
_READ = os.O_RDONLY | _DIRECTORY
# A directory that is only passed through need not be readable, where the system can say so.
_SEARCH = getattr(os, "O_PATH", os.O_RDONLY) | _DIRECTORY
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)
_NEEDED = (os.access, os.open, os.mkdir, os.stat, os.link, os.rename, os.unlink)
_REMEMBERED = 10_000


class LocalRoot:
    """The directory `path`, which need not exist before something is made in it.

    Raises:
        InvalidOptionError: no directory can have that name, or the system is not a POSIX one.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not _NO_LINK or not os.supports_dir_fd.issuperset(_NEEDED):
            raise InvalidOptionError(
                "a table on the local disk needs a POSIX system, such as Linux or macOS: use one, "
                "or keep the table in an object store"
            )
        try:
            self.path = os.path.abspath(_encodable(os.fspath(path)))
        except OSError as error:
            raise InvalidOptionError(
                f"{path!r} is relative to the working directory, which is gone: give an absolute "
                "path"
            ) from error
        self._lasting: set[str] = set()

    def file(self, path: str) -> str:
        """The name in the file system of what is at `path`.

        Raises:
            InvalidOptionError: no file can have that name.
        """
        return f"{self.path.rstrip('/')}/{_encodable(path)}"

    def make_directory(self, directory: str) -> int:
        """A readable descriptor of the directory at a path, made where it is not there.

        The names of the directory and its parents then outlive a crash, as far as they lie below
        the root or were made here.

        Raises:
            OSError: the system refused.
            OutsideRootError: a link is in the way.
        """
        if not os.path.lexists(self.path):
            _make_root(self.path)
        with self._descended(directory, self._make) as at:
            return os.open(".", _READ, dir_fd=at)

    def remove(self, paths: Iterable[str]) -> None:
        """Delete the regular files at `paths`; one that is not there is no error.

        Hadoop's checksum file of each is deleted first, even if the file itself is missing.
        Directories are passed over, as they are no objects. What is deleted stays so after a crash.
        All of it is tried before an error is raised.

        Raises:
            OutsideRootError: a file is a link, a device or a pipe, or lies behind a link.
            StorageError: the system refused.
        """
        failures: list[StorageError] = []
        split = sorted(path.rpartition("/")[::2] for path in paths)
        for directory, group in groupby(split, key=lambda pair: pair[0]):
            try:
                folder = self.file(directory)
                with translated(folder), self._descended(directory, self._open) as at:
                    deleted = False
                    for _, name in group:
                        try:
                            deleted |= _remove(at, name, f"{folder}/{_encodable(name)}")
                        except StorageError as error:
                            failures.append(error)
                    if deleted:
                        _sync(at)
            except ObjectNotFoundError:
                continue
            except StorageError as error:
                failures.append(error)
        if failures:
            raise failures[0]

    def find(
        self, directory: str, wants: Callable[[int, str], bool]
    ) -> tuple[UnfinishedObject, ...]:
        """The regular files below a directory for which `wants` is true; none if it is missing.

        `wants` gets the descriptor of an open directory and the name of an entry in it.

        Raises:
            OutsideRootError: a link is in the way.
            StorageError: the system refused.
        """
        found: list[UnfinishedObject] = []
        with suppress(ObjectNotFoundError), translated(self.file(directory)):
            for path, status in self._walk(directory, wants):
                if stat.S_ISREG(status.st_mode):
                    modified_ms = status.st_mtime_ns // 1_000_000
                    found.append(UnfinishedObject(path, status.st_size, modified_ms))
        return tuple(found)

    def _walk(
        self, directory: str, wants: Callable[[int, str], bool]
    ) -> Iterator[tuple[str, os.stat_result]]:
        def failed(error: OSError) -> None:
            if error.errno not in ABSENT:
                raise error

        with self._descended(directory, self._open) as at:
            for folder, _, names, opened in os.fwalk(dir_fd=at, onerror=failed):
                for name in names:
                    if not wants(opened, name):
                        continue
                    with suppress(FileNotFoundError):
                        status = os.stat(name, dir_fd=opened, follow_symlinks=False)
                        yield os.path.normpath(f"{directory}/{folder}/{name}").lstrip("/"), status

    def files(
        self,
        hides: Callable[[str], bool],
        wants: WantsStatus | None = None,
    ) -> Iterator[list[tuple[str, os.stat_result | None]]]:
        """The paths and the status of all regular files, in the order of whole paths, in pages.

        Links are passed over, and so is what is below a name that `hides` is true for. Of many
        files of a directory only those have a status that it `wants`.

        Raises:
            OSError: the system refused.
        """
        with self._listable() as at:
            yield from files_below(at, "", hides, wants)

    def prune(
        self, hides: Callable[[str], bool], *, older_than_ms: int, emptied: Container[str]
    ) -> int:
        """Delete empty directories that have not changed since a time; how many there were.

        The time does not count for those in `emptied`, whose paths end in ``/``. Names for which
        `hides` is true stay, and so do the directories that hold them. Before that, hidden files of
        interrupted writes, and Hadoop's checksum files whose file is missing, are deleted if they
        have not changed since that time.

        Raises:
            OSError: the system refused.
        """

        def is_old(path: str, status: os.stat_result) -> bool:
            return path in emptied or status.st_mtime_ns // 1_000_000 < older_than_ms

        with self._listable() as at:
            return prune(at, "", hides, is_old, older_than_ms)[0]

    @contextmanager
    def _listable(self) -> Iterator[int]:
        """A descriptor of the root that can be listed."""
        at = os.open(self.path, _READ)
        try:
            yield at
        finally:
            _close(at)

    @contextmanager
    def _descended(self, directory: str, step: Callable[[int, str, str], int]) -> Iterator[int]:
        """The descriptor that `step` leads to from the root, by each component in turn."""
        at = os.open(self.path, _SEARCH)
        try:
            path = ""
            for name in filter(None, directory.split("/")):
                path = f"{path}/{name}" if path else name
                parent, at = at, step(at, name, path)
                _close(parent)
            yield at
        finally:
            _close(at)

    def _open(self, parent: int, name: str, path: str) -> int:
        try:
            return os.open(name, _SEARCH | _NO_LINK, dir_fd=parent)
        except OSError as error:
            if _is_link(parent, name):
                raise OutsideRootError(
                    f"{self.file(path)!r} is a link, and nothing is written or deleted through "
                    f"links below {self.path!r}: put a directory in its place; what lies on "
                    "another disk can be mounted there"
                ) from error
            raise

    def _make(self, parent: int, name: str, path: str) -> int:
        made = False
        try:
            child = self._open(parent, name, path)
        except FileNotFoundError:
            with suppress(FileExistsError):  # by another writer, just now
                os.mkdir(name, dir_fd=parent)
            made = True
            child = self._open(parent, name, path)
        try:
            if made or path not in self._lasting:  # whoever made it may not have come to sync it
                self._outlive_crash(parent, path, made=made)
        except BaseException:
            _close(child)
            raise
        return child

    def _outlive_crash(self, parent: int, path: str, *, made: bool) -> None:
        try:
            _sync(parent)
        except PermissionError:
            if made:
                raise
            return  # it has been there for others, too
        if len(self._lasting) >= _REMEMBERED:
            self._lasting.clear()
        self._lasting.add(path)


def _encodable(name: str) -> str:
    """The name itself, if the file system can have it."""
    try:
        encoded = os.fsencode(name)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidOptionError(
            f"no file can have the name {name[:300]!r}: it has a zero byte, or a character that "
            "the file system's encoding lacks"
        )
    return name


def _make_root(directory: str) -> None:
    """Make the directory and its parents, through links too, so that they outlive a crash."""
    parent = os.path.dirname(directory)
    if parent != directory and not os.path.lexists(parent):
        _make_root(parent)
    with suppress(FileExistsError):
        os.mkdir(directory)
    at = os.open(parent, _SEARCH)
    try:
        _sync(at)
    finally:
        _close(at)


def _sync(directory: int) -> None:
    """Make the names in a directory outlive a crash."""
    readable = os.open(".", _READ, dir_fd=directory)
    try:
        os.fsync(readable)
    finally:
        _close(readable)


def _close(directory: int) -> None:
    """Close a directory, of which nothing can get lost by that."""
    with suppress(OSError):
        os.close(directory)


def _remove(directory: int, name: str, file: str) -> bool:
    """Delete a file and its Hadoop checksum; whether there was one, so that a sync is needed."""
    had_checksum = False
    try:
        try:
            mode = os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode
        except FileNotFoundError:
            return remove_checksum(directory, name)
        if stat.S_ISREG(mode):
            if has_checksum(directory, name):
                had_checksum = remove_checksum(directory, name)
            os.unlink(name, dir_fd=directory)
            return True
        if not stat.S_ISDIR(mode):
            raise OutsideRootError(
                f"{file!r} is not deleted, since it is a link, a device or a pipe, and no file; "
                "delete it by hand"
            )
    except FileNotFoundError:  # Another process has just deleted it.
        return had_checksum
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise translate(error, file) from error
    return False


def _is_link(directory: int, name: str) -> bool:
    with suppress(OSError):
        return stat.S_ISLNK(os.stat(name, dir_fd=directory, follow_symlinks=False).st_mode)
    return False
