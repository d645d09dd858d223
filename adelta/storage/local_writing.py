"""One new file of a directory tree: written under a hidden name, and published whole.

The file is synced and closed before it gets its name, and its directory is synced afterwards. Until
the one call that gives it the name, every failure is certain: there is nothing. From there on
nothing is: `NewFile.create` then says so by its error.

Hadoop's checksum file of an earlier file of that name is deleted first, and the deletion is synced.
So no crash leaves a new file next to the checksum of an old one.
"""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from typing import TYPE_CHECKING

from adelta.errors import CommitNotDurableError, CommitOutcomeUnknownError
from adelta.storage.hadoop_checksums import remove_checksum
from adelta.storage.local_errors import exists, translate, translated
from adelta.storage.object_store import ObjectMeta
from adelta.storage.unfinished_files import HIDDEN_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from adelta.storage.local_root import LocalRoot

__all__ = ["NewFile", "meta_of", "tag_of"]

_ATTEMPTS = 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)


def meta_of(path: str, status: os.stat_result) -> ObjectMeta:
    """What the file system's status of the file at `path` says."""
    return ObjectMeta(path, status.st_size, status.st_mtime_ns // 1_000_000, tag_of(status))


def tag_of(status: os.stat_result) -> str:
    """The entity tag of the file that has this status: another one once it is written again."""
    return f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"


class NewFile:
    """A hidden file that becomes the object at `path` as a whole, or vanishes.

    Nothing is opened before `open`, and `close` is called in any case.
    """

    def __init__(self, root: LocalRoot, path: str) -> None:
        self._root = root
        self._path = path
        self._parent, _, self._name = path.rpartition("/")
        self._file = root.file(path)
        self._hidden = HIDDEN_PREFIX + secrets.token_hex(8)
        self._directory = -1
        self._descriptor = -1
        self._is_hidden_there = False

    def open(self, *, absent: bool = False) -> None:
        """Begin the file, in a directory that is made where it is not there.

        Raises:
            ObjectExistsError: `absent` is given, and the object is there.
            OutsideRootError: a link is in the way.
            StorageError: the system refused.
        """
        with translated(self._file, writing=True):
            for left in reversed(range(_ATTEMPTS)):
                try:
                    self._begin(absent=absent)
                except FileNotFoundError:  # the directory has just been removed, being empty
                    if not left:
                        raise
                    self._forget_directory()
                else:
                    return

    def _begin(self, *, absent: bool) -> None:
        self._directory = self._root.make_directory(self._parent)
        if absent and self._found() is not None:
            raise exists(self._file)
        self._is_hidden_there = True  # if the call fails, perhaps even so
        self._descriptor = os.open(self._hidden, _NEW, 0o666, dir_fd=self._directory)

    def _forget_directory(self) -> None:
        self._is_hidden_there = False
        directory, self._directory = self._directory, -1
        if directory >= 0:
            os.close(directory)

    def write(self, chunks: Sequence[bytes]) -> None:
        """Append bytes."""
        with translated(self._file, writing=True):
            for chunk in chunks:
                view = memoryview(chunk)
                while view:
                    view = view[os.write(self._descriptor, view) :]

    def replace(self, chunks: Sequence[bytes]) -> ObjectMeta:
        """Append the last bytes, and become the object, in place of one that is there.

        Raises:
            StorageError: the system refused; the object may be there even so.
        """
        with translated(self._file, writing=True):
            status = self._complete(chunks)
            self._remove_checksum()
            os.replace(
                self._hidden,
                self._name,
                src_dir_fd=self._directory,
                dst_dir_fd=self._directory,
            )
            self._is_hidden_there = False
            os.fsync(self._directory)
            # Spark renames a file before its checksum. If it did so just before this replacement,
            # its checksum may have arrived only now.
            self._remove_checksum()
        return meta_of(self._path, status)

    def create(self, chunks: Sequence[bytes]) -> ObjectMeta:
        """Append the last bytes, and become the object, which must not be there.

        Raises:
            ObjectExistsError: another is there.
            CommitNotDurableError: it is there now, and may be gone after a crash.
            CommitOutcomeUnknownError: the system does not say whether it is there.
            StorageError: the system refused; certainly the object was not made.
        """
        with translated(self._file, writing=True):
            status = self._complete(chunks)
            self._remove_checksum()
        self._link(status)  # the commit point
        try:
            os.fsync(self._directory)
        except BaseException as error:
            raise CommitNotDurableError(
                f"{self._file!r} is there, but the file system failed to make it outlive a crash: "
                f"{error}; see to the disk, and look whether the file is there before you try again"
            ) from error
        return meta_of(self._path, status)

    def _complete(self, chunks: Sequence[bytes]) -> os.stat_result:
        """The status of the file, all of which the disk has."""
        self.write(chunks)
        os.fsync(self._descriptor)
        status = os.fstat(self._descriptor)
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)
        return status

    def _remove_checksum(self) -> None:
        """Delete Hadoop's checksum of the file that had this name before, and sync the deletion."""
        if remove_checksum(self._directory, self._name):
            os.fsync(self._directory)

    def _link(self, status: os.stat_result) -> None:
        directory = self._directory
        try:
            os.link(self._hidden, self._name, src_dir_fd=directory, dst_dir_fd=directory)
        except OSError as error:
            # Over a network the answer may have been lost, so that it is there by this very call.
            try:
                found = self._found()
            except OSError as second:
                raise CommitOutcomeUnknownError(
                    f"{self._file!r} may or may not have been made: {error}; the file system does "
                    f"not say whether it is there ({second})"
                ) from error
            if found is None:
                raise translate(error, self._file, writing=True) from error
            if os.path.samestat(found, status):
                return
            if isinstance(error, FileExistsError):
                raise exists(self._file) from None
            raise CommitOutcomeUnknownError(
                f"{self._file!r} may or may not have been made: {error}; a file is there"
            ) from error

    def _found(self) -> os.stat_result | None:
        """The status of what has the object's name."""
        try:
            return os.stat(self._name, dir_fd=self._directory, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def close(self) -> None:
        """End here: a file that has not become the object vanishes.

        Where the system refuses that, the hidden name stays for a clean-up.
        """
        with suppress(OSError):
            if self._is_hidden_there:
                os.unlink(self._hidden, dir_fd=self._directory)
        for descriptor in (self._descriptor, self._directory):
            with suppress(OSError):
                if descriptor >= 0:
                    os.close(descriptor)
        self._descriptor = self._directory = -1
        self._is_hidden_there = False
