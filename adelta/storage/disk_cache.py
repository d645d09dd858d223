"""A folder of this machine with bytes of objects, which all of its processes share, and is bounded.

What comes in is an extent of an object, a file of its own (`cache_file`), or a few small ones. It
gets its name when it is whole, so a process that is killed leaves nothing that is read; what a loss
of power has torn fails its checksums. Whatever the system refuses, as a full disk does, makes a
miss and no error. On a full disk some of what is there goes, so that what is read now comes in.

Which extents go is decided as S3-FIFO does it ("FIFO queues are all you need for cache eviction",
2023): new ones wait in a small queue, a tenth of the folder, and go to the main one if they are
asked for again meanwhile; so what is read once washes nothing out. Of what went lately a list of
ghosts is kept, and what comes back goes to the main queue at once. A file's time of change says its
place in the queue, and the last digits of it how often it was asked for. Processes take turns by a
lock; who does not get it in time writes nothing for a while. Files of other users are never read.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import struct
import time
from collections import deque
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import xxhash

from adelta._chance import new_bits
from adelta._clock import monotonic, now_ns
from adelta._dataclasses import dataclass
from adelta.errors import StorageError
from adelta.storage.cache_file import Extent, content_of, parsed_name, parts_of
from adelta.storage.open_extent import (
    TICK,
    OpenExtent,
    open_extent,
    pass_over,
    read_extent,
    read_parts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CacheFigures", "CacheStatus", "DiskCache"]

_SMALL = 0.1
_LEFT = 0.95  # of the limit, or on a full disk of what is there, when some have gone
_GHOSTS = 1 << 16
_MOST_RESERVED = 16 << 20  # bytes that a process has room for at once,
_RESERVED_SHARE = 256  # and the share of the limit; a loss of power or a kill counts them as there
_STALE = 3600.0  # seconds after which a file that was not finished is nobody's
_LONGEST_TURN = 5.0  # seconds that another process's turn is waited for,
_LEFT_ALONE = 60.0  # and for which nothing is written then, or a full disk is let be
_TOTAL = struct.Struct("<qQ")
_CHECKED_TOTAL = struct.Struct("<qQ8s")
_UNFINISHED = re.compile(r"\.[0-9]+-[0-9a-f]+")


@dataclass(frozen=True, slots=True)
class CacheFigures:
    """How many reads of objects were answered from the cache, in part or not, and their bytes."""

    hits: int = 0
    misses: int = 0
    bytes_from_cache: int = 0
    bytes_from_store: int = 0

    def __add__(self, other: CacheFigures) -> CacheFigures:
        return CacheFigures(
            self.hits + other.hits,
            self.misses + other.misses,
            self.bytes_from_cache + other.bytes_from_cache,
            self.bytes_from_store + other.bytes_from_store,
        )


@dataclass(frozen=True, slots=True)
class CacheStatus:
    """What is in the folder: extents, their bytes with their headers, and all figures so far."""

    folder: str
    extents: int
    bytes: int
    figures: CacheFigures


@dataclass(frozen=True, slots=True)
class _Total:
    """The bytes that all processes count; `count` is another one each time files were counted.

    What was reserved under another one is counted no more, unless it was there.
    """

    bytes: int
    count: int


@dataclass(slots=True)
class _Reserved:
    """Bytes that a process has counted and not written yet, under a count of files."""

    process: int
    count: int = 0
    bytes: int = 0


@dataclass(slots=True)
class _File:
    """A file of the cache, as its folder lists it."""

    path: str
    extent: Extent
    size: int
    turn: int
    asked: int


class DiskCache:
    """The folder, which holds `limit` bytes at most. Its methods block."""

    def __init__(self, folder: str | os.PathLike[str], limit: int) -> None:
        self.folder = Path(folder)
        self.limit = limit
        self._objects = os.path.join(self.folder, "objects")
        self._ghosts: tuple[float, frozenset[bytes]] = (0.0, frozenset())
        self._reserved = _Reserved(os.getpid())
        self._left_alone_until = 0.0
        self._shrunk_until = 0.0

    # ------------------------------------------------------------------------------------- read

    def extents(self, entry: str) -> list[Extent]:
        """What is there of an object, whatever its version."""
        try:
            names = os.listdir(self._folder_of(entry))
        except OSError:
            return []
        firsts = [extent for name in names if (extent := parsed_name(name)) is not None]
        return [extent for first in firsts for extent in parts_of(first)]

    def read(self, entry: str, extent: Extent, start: int, into: memoryview) -> bool:
        """Put the object's bytes from `start` on, which are in the extent, to `into`.

        They are held to their checksums: what fails them is deleted. Whether they are there;
        where not, anything may be in `into`.
        """
        path = f"{self._folder_of(entry)}/{extent.name}"
        return read_extent(path, entry, extent, start, into)

    def read_parts(self, entry: str, extent: Extent) -> memoryview | None:
        """The bytes of all extents in the file of this one, in the order of its `parts`.

        They are held to their checksums, as by `read`; None where they are not there.
        """
        return read_parts(f"{self._folder_of(entry)}/{extent.name}", entry, extent)

    def open(self, entry: str, extent: Extent) -> OpenExtent | None:
        """The extent's open file, to be read piece by piece; None where it is not there."""
        return open_extent(f"{self._folder_of(entry)}/{extent.name}", entry, extent)

    # ------------------------------------------------------------------------------------ write

    def write(self, entry: str, extent: Extent, data: bytes | memoryview) -> bool:
        """Take an extent in, which `data` are the bytes of; whether that was possible.

        With those of other extents behind them, if it has `parts`.
        """
        header = content_of(entry, extent, data)
        size = len(header) + len(data)
        if size > self.limit * _SMALL:  # it would wash out all that waits
            return False
        extent = replace(extent, kept=self._is_ghost(entry, extent))
        folder = self._folder_of(entry)
        fresh = f"{folder}/.{os.getpid()}-{new_bits(64):x}"
        try:
            self._reserve(size)
            file = self._created(fresh)
            try:
                _write(file, header, data)
                now = now_ns() // TICK * TICK
                os.utime(file, ns=(now, now))
            finally:
                os.close(file)
            if self._reserved.count != self._count_of_files():  # it was not there to be counted
                self._reserve(size)
            os.replace(fresh, f"{folder}/{extent.name}")
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(fresh)
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                self._shrink()
            return False
        return True

    def _shrink(self) -> None:
        """Delete a part of what is there: the disk is full before the limit is reached."""
        if monotonic() < self._shrunk_until:
            return
        self._shrunk_until = monotonic() + _LEFT_ALONE
        with contextlib.suppress(OSError), self._turn():
            there = sum(each.size for each in self._files())
            self._set_total(_Total(self._evict(int(there * _LEFT)), new_bits(64)))

    def _reserve(self, size: int) -> None:
        """Have room for so many bytes, which count from now on, and for some more at once.

        To take turns with other processes costs as much as to write a small extent.
        """
        reserved = self._reserved
        if reserved.process != os.getpid():
            reserved = self._reserved = _Reserved(os.getpid())
        if reserved.bytes < size or reserved.count != self._count_of_files():
            more = max(size, min(_MOST_RESERVED, self.limit // _RESERVED_SHARE))
            with self._turn() as total:
                if total.bytes + more > self.limit:
                    left = self._evict(int(self.limit * _LEFT) - more)
                    total = _Total(left, new_bits(64))
                self._set_total(replace(total, bytes=total.bytes + more))
            kept = reserved.bytes if reserved.count == total.count else 0
            reserved.count, reserved.bytes = total.count, kept + more
        reserved.bytes -= size

    def forget(self, entry: str, keep: str | None = None) -> None:
        """Delete what is there of an object, but of the version whose tag is `keep`."""
        folder = self._folder_of(entry)
        for extent in self.extents(entry):
            if extent.tag != keep:
                with contextlib.suppress(OSError):
                    os.unlink(f"{folder}/{extent.name}")
        with contextlib.suppress(OSError):
            os.rmdir(folder)

    def clear(self) -> None:
        """Delete everything that is the cache's; processes that use the folder go on.

        Raises:
            StorageError: something of it could not be deleted.
        """
        if not self.folder.exists():
            return
        try:
            with self._turn():
                for folder, _, names in os.walk(self._objects, topdown=False, onerror=_unless_gone):
                    for name in names:
                        if parsed_name(name) is not None or _UNFINISHED.fullmatch(name):
                            Path(folder, name).unlink(missing_ok=True)
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)
                self._set_total(_Total(0, new_bits(64)))
                for name in ("ghosts", "figures"):
                    (self.folder / name).unlink(missing_ok=True)
        except OSError as error:
            raise StorageError(
                f"the cache in {self.folder} cannot be emptied: {error}; do it as the user that "
                "the folder belongs to"
            ) from error

    # ---------------------------------------------------------------------------------- figures

    def count(self, figures: CacheFigures) -> None:
        """Add what one store has read to the figures of all, which is over with the cache."""
        reserved, self._reserved = self._reserved, _Reserved(os.getpid())
        left = reserved.bytes if reserved.process == os.getpid() else 0
        if not left and figures == CacheFigures():
            return
        with contextlib.suppress(OSError), self._turn() as total:
            if left and reserved.count == total.count:
                self._set_total(replace(total, bytes=max(0, total.bytes - left)))
            if figures != CacheFigures():
                self._replace("figures", json.dumps(asdict(self._figures() + figures)).encode())

    def status(self) -> CacheStatus:
        """What is in the folder. Raises: StorageError."""
        try:
            files = list(self._files())
        except OSError as error:
            raise StorageError(
                f"the cache in {self.folder} cannot be looked at: {error}; do it as the user that "
                "the folder belongs to"
            ) from error
        total = sum(each.size for each in files)
        extents = sum(len(each.extent.parts) or 1 for each in files)
        return CacheStatus(str(self.folder), extents, total, self._figures())

    def _figures(self) -> CacheFigures:
        try:
            said = json.loads((self.folder / "figures").read_bytes())
            counts = [said[name] for name in CacheFigures.__slots__]
        except (OSError, ValueError, TypeError, LookupError, RecursionError):
            return CacheFigures()
        fine = all(type(each) is int and each >= 0 for each in counts)
        return CacheFigures(*counts) if fine else CacheFigures()

    # --------------------------------------------------------------------------------- eviction

    def _evict(self, most: int) -> int:
        """Delete until at most so many bytes are there: how many are left."""
        queues: dict[bool, deque[_File]] = {False: deque(), True: deque()}
        sizes = {False: 0, True: 0}
        now = now_ns()
        # What came by a clock that was ahead would never go: it is as if it came before all.
        for file in sorted(self._files(), key=lambda each: each.turn if each.turn <= now else 0):
            queues[file.extent.kept].append(file)
            sizes[file.extent.kept] += file.size
        gone: list[bytes] = []
        while sum(sizes.values()) > most and (queues[False] or queues[True]):
            small = bool(queues[False]) and (sizes[False] > self.limit * _SMALL or not queues[True])
            file = queues[not small].popleft()
            sizes[not small] -= file.size
            if file.asked and (moved := self._again(file, promote=small)) is not None:
                queues[True].append(moved)
                sizes[True] += moved.size
                continue
            with contextlib.suppress(OSError):
                os.unlink(file.path)
            if small:
                gone.append(_ghost(Path(file.path).parent.name, file.extent))
        if gone:
            with contextlib.suppress(OSError):
                self._add_ghosts(gone)
        return sum(sizes.values())

    def _again(self, file: _File, *, promote: bool) -> _File | None:
        """The file at the end of the main queue; None where it is there no more."""
        extent = replace(file.extent, kept=True)
        asked = 0 if promote else file.asked - 1
        path = os.path.join(os.path.dirname(file.path), extent.name)
        now = now_ns() // TICK * TICK + asked
        try:
            os.utime(file.path, ns=(now, now))
            os.replace(file.path, path)
        except OSError:
            return None
        return _File(path, extent, file.size, now, asked)

    def _files(self) -> Iterator[_File]:
        """Every extent that is there; what was not finished long ago is deleted.

        Raises:
            OSError: a folder that is there cannot be listed.
        """
        for folder, _, names in os.walk(self._objects, onerror=_unless_gone):
            for name in names:
                path = os.path.join(folder, name)
                try:
                    found = os.stat(path)
                    extent = parsed_name(name)
                    if extent is not None:
                        turn, asked = found.st_mtime_ns, found.st_mtime_ns % TICK
                        yield _File(path, extent, found.st_size, turn, asked)
                    elif _UNFINISHED.fullmatch(name) and now_ns() / 1e9 - found.st_mtime > _STALE:
                        os.unlink(path)
                except OSError:
                    continue

    def _is_ghost(self, entry: str, extent: Extent) -> bool:
        path = self.folder / "ghosts"
        try:
            changed = path.stat().st_mtime
            if changed != self._ghosts[0]:
                data = path.read_bytes()
                known = frozenset(data[at : at + 8] for at in range(0, len(data), 8))
                self._ghosts = changed, known
        except OSError:
            return False
        return _ghost(entry, extent) in self._ghosts[1]

    def _add_ghosts(self, gone: list[bytes]) -> None:
        try:
            before = (self.folder / "ghosts").read_bytes()
        except OSError:
            before = b""
        self._replace("ghosts", (before + b"".join(gone))[-8 * _GHOSTS :])

    # ------------------------------------------------------------------------------- the folder

    def _folder_of(self, entry: str) -> str:
        return f"{self._objects}/{entry[:2]}/{entry}"

    def _make_folder(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _created(self, path: str) -> int:
        """A new file, open for writing; its folder is made where it is not there."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        try:
            return os.open(path, flags, 0o600)
        except FileNotFoundError:
            self._make_folder()
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            return os.open(path, flags, 0o600)

    @contextlib.contextmanager
    def _turn(self) -> Iterator[_Total]:
        """This process's turn to change what all share: how many bytes they count.

        Raises:
            OSError: it does not come, or the folder cannot be used.
        """
        if monotonic() < self._left_alone_until:
            raise BlockingIOError("another process has not given up its turn")
        self._make_folder()
        with open(self.folder / "total", "a+b", buffering=0, opener=_private) as file:
            try:
                _lock(file.fileno())
            except BlockingIOError:
                self._left_alone_until = monotonic() + _LEFT_ALONE
                raise
            try:
                total = _total_of(os.pread(file.fileno(), _CHECKED_TOTAL.size, 0))
                if total is None:
                    total = _Total(sum(each.size for each in self._files()), new_bits(64))
                yield total
            finally:  # a child that was forked meanwhile has the file open, too
                fcntl.flock(file, fcntl.LOCK_UN)

    def _count_of_files(self) -> int | None:
        """Under which count of the files processes count; None where that is not known."""
        try:
            file = os.open(self.folder / "total", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            total = _total_of(os.read(file, _CHECKED_TOTAL.size))
        finally:
            os.close(file)
        return None if total is None else total.count

    def _set_total(self, total: _Total) -> None:
        file = os.open(self.folder / "total", os.O_WRONLY)
        try:
            os.pwrite(file, _checked(total), 0)
        finally:
            os.close(file)

    def _replace(self, name: str, data: bytes) -> None:
        fresh = self.folder / f".{name}-{os.getpid()}"
        try:
            with open(fresh, "wb", opener=_private) as file:
                file.write(data)
            os.replace(fresh, self.folder / name)
        except OSError:
            fresh.unlink(missing_ok=True)
            raise


def _checked(total: _Total) -> bytes:
    """How the file `total` has it: what a loss of power has torn is counted anew."""
    told = total.bytes, total.count
    return _CHECKED_TOTAL.pack(*told, xxhash.xxh3_64_digest(_TOTAL.pack(*told)))


def _total_of(data: bytes) -> _Total | None:
    if len(data) != _CHECKED_TOTAL.size:
        return None
    total = _Total(*_CHECKED_TOTAL.unpack(data)[:2])
    return total if data == _checked(total) else None


def _ghost(entry: str, extent: Extent) -> bytes:
    name = replace(extent, kept=False).name
    return xxhash.xxh3_64_digest(f"{entry}/{name}".encode())


def _unless_gone(error: OSError) -> None:
    """Raise what keeps a folder from being listed, unless none is there (any more)."""
    if not isinstance(error, (FileNotFoundError, NotADirectoryError)):
        raise error


def _lock(file: int) -> None:
    """Take the lock on a file. Raises: BlockingIOError: somebody else has it, and keeps it."""
    ends, pause = monotonic() + _LONGEST_TURN, 0.0005
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if monotonic() >= ends:
                raise
            time.sleep(pause)
            pause = min(2 * pause, 0.02)
        else:
            return


def _private(path: Any, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _write(file: int, header: bytes, data: bytes | memoryview) -> None:
    waiting = [memoryview(header), memoryview(data).cast("B")]
    while waiting:
        pass_over(waiting, os.writev(file, waiting))
